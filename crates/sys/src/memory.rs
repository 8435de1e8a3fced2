//! The process's own memory.

/// Gives memory that was freed back to the kernel, of all threads that ever were. A fork copies the tables
/// of every page that is kept.
#[allow(unsafe_code, reason = "libc's allocator has no other handle")]
pub fn trim() {
    // SAFETY: it may be called at any time from any thread; it touches only memory that nobody holds.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has all threads share one heap, for a process of which one thread does most: each further heap would be kept
/// at the largest it ever was. To be called before there are threads.
#[allow(unsafe_code, reason = "libc's allocator has no other handle")]
pub fn share_one_heap() {
    // SAFETY: it sets a number of the allocator's, which takes its own lock for that.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Bytes of memory that are resident now; nothing where `/proc` does not tell.
pub fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

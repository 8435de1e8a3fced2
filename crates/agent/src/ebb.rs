//! Memory goes back to the kernel after a flood.
//!
//! The allocator keeps what was freed for the next request, which is right for small change. But ten thousand
//! connections that come once, or a few with large requests, would be paid for until the end of the process.
//!
//! Nothing runs while nothing happens: the end of a connection is what makes it look, at most once in
//! [`SETTLE`]. It gives memory back only when there is a good deal more than there was after the last time.

use std::convert::Infallible;
use std::time::Duration;

use sandshell_sys::memory;
use tokio::sync::Notify;

/// From the end of a connection until its buffers, and those of others that end with it, are free.
const SETTLE: Duration = Duration::from_secs(1);

/// Growth that is worth the pause: giving back takes a few milliseconds, and taking again page faults.
const WORTH: u64 = 2 * 1024 * 1024;

/// Gives memory back when connections have ended. Has no end itself.
pub(crate) async fn give_back(ended: &Notify) -> Infallible {
    let Some(mut least) = memory::resident() else {
        return std::future::pending().await;
    };
    loop {
        ended.notified().await;
        tokio::time::sleep(SETTLE).await;
        let now = memory::resident().unwrap_or(0);
        least = least.min(now);
        if now < least + WORTH {
            continue;
        }
        // It takes the locks of the allocator in turn: not on a thread that serves requests.
        if tokio::task::spawn_blocking(memory::trim).await.is_ok() {
            least = memory::resident().unwrap_or(now);
        }
    }
}

//! Knocking at the kernel's doors: calls that a sandbox must not be able to make, made in a way that
//! does nothing even where they are allowed, so that the answer alone tells whether the door is shut.
//!
//! For a process that is about to end: a few doors, once through, cannot be gone back.

use rustix::io::Errno;

/// A door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// `clone3`, whose flags no filter can see. Without arguments: `EINVAL` where it is allowed.
    Clone3,
    /// Typing into a terminal, on a descriptor that is none: `EBADF` where it is allowed.
    TerminalInjection,
    /// A keyring that does not exist: `EINVAL` or `ENOKEY` where it is allowed.
    Keyring,
    /// A ring of asynchronous requests, without parameters: `EFAULT` where it is allowed.
    Ring,
    /// A socket to the machine below. Made, and closed again, where it is allowed.
    Vsock,
    /// A user namespace of one's own. Made where it is allowed.
    UserNamespace,
    /// A signal to the parent that tells only whether it may be sent.
    SignalParent,
}

impl Attempt {
    /// Makes the call. `Ok` says that it was done.
    #[allow(unsafe_code, reason = "calls that no wrapper makes so emptily")]
    pub fn make(self) -> Result<(), Errno> {
        const NOTHING: usize = 0;
        // SAFETY: no call is given a pointer but null, so the kernel can neither read nor write our
        // memory; what they change, if anything, are the namespaces of this process.
        let result = unsafe {
            match self {
                Self::Clone3 => libc::syscall(libc::SYS_clone3, NOTHING, NOTHING),
                Self::TerminalInjection => {
                    libc::syscall(libc::SYS_ioctl, -1, libc::TIOCSTI, NOTHING)
                }
                // Not a key that anybody can have; asked not to be made.
                Self::Keyring => libc::syscall(libc::SYS_keyctl, NOTHING, 0x7FFF_FFFF, NOTHING),
                Self::Ring => libc::syscall(libc::SYS_io_uring_setup, 1, NOTHING),
                Self::Vsock => libc::syscall(
                    libc::SYS_socket,
                    libc::AF_VSOCK,
                    libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
                    NOTHING,
                ),
                Self::UserNamespace => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER),
                Self::SignalParent => {
                    libc::syscall(libc::SYS_kill, libc::syscall(libc::SYS_getppid), NOTHING)
                }
            }
        };
        if result < 0 {
            return Err(crate::spawn::last_errno());
        }
        Ok(())
    }
}

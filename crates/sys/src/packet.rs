//! Seqpacket sockets that carry descriptors, and a question to pipes.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Most descriptors in one packet.
pub const MAX_FDS: usize = 16;

/// A connected pair of non-blocking seqpacket sockets.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Sends one packet with descriptors.
pub fn send(socket: impl AsFd, data: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOBIG);
    }
    let flags = SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(data)], &mut control, flags).map(|_| ())
}

/// Receives one packet; `Ok(None)` when the other end is gone.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> Result<Option<(usize, Vec<OwnedFd>)>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(buffer)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 && fds.is_empty() {
        return Ok(None);
    }
    Ok(Some((received.bytes, fds)))
}

/// The socket that our parent left open at this number, to be taken once, early in `main`. `None`
/// when nothing is open there.
#[allow(unsafe_code, reason = "a descriptor known only by its number")]
pub fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_GETFD only looks at the number.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and by the contract above nobody else in this process owns it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether everything written to a pipe was read. May be asked of either end.
pub fn all_read(pipe: impl AsFd) -> Result<bool, Errno> {
    rustix::io::ioctl_fionread(pipe).map(|pending| pending == 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn carries_bytes_and_descriptors() {
        let (a, b) = pair().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        send(&a, b"hello", &[write.as_fd()]).unwrap();
        let mut buffer = [0; 64];
        let (n, fds) = receive(&b, &mut buffer).unwrap().unwrap();
        assert_eq!(buffer.get(..n), Some(&b"hello"[..]));
        drop(write);
        rustix::io::write(&fds[0], b"x").unwrap();
        assert_eq!(rustix::io::read(&read, &mut buffer).unwrap(), 1);
        drop(a);
        assert!(receive(&b, &mut buffer).unwrap().is_none());
    }

    #[test]
    fn knows_when_a_pipe_was_read_to_the_end() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        assert!(all_read(&write).unwrap());
        rustix::io::write(&write, b"ab").unwrap();
        let mut one = [0; 1];
        rustix::io::read(&read, &mut one).unwrap();
        assert!(!all_read(&write).unwrap());
        rustix::io::read(&read, &mut one).unwrap();
        assert!(all_read(&write).unwrap());
    }
}

//! Seqpacket sockets that carry descriptors, and a question to pipes.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
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

/// A packet that was received.
#[derive(Debug)]
pub struct Packet {
    /// How many bytes of the buffer it has.
    pub len: usize,
    /// Its descriptors.
    pub fds: Vec<OwnedFd>,
    /// Whether some of its descriptors are missing: there was no room for them in our table.
    pub cut: bool,
}

/// Receives one packet; `Ok(None)` when the other end is gone. What was cut is lost.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Option<Packet>, Errno> {
    receive_with(socket, buffer, RecvFlags::empty())
}

/// The same, waited for.
pub fn wait_for(socket: impl AsFd, buffer: &mut [u8]) -> Result<Option<Packet>, Errno> {
    loop {
        match receive(&socket, buffer) {
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&socket, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            },
            Err(Errno::INTR) => {}
            received => return received,
        }
    }
}

/// The same for packets that must not be lost: one that was cut is still there.
pub fn receive_whole(socket: impl AsFd, buffer: &mut [u8]) -> Result<Option<Packet>, Errno> {
    let seen = receive_with(&socket, buffer, RecvFlags::PEEK)?;
    if seen.as_ref().is_some_and(|packet| !packet.cut) {
        // Its descriptors are ours already; taken without room for any, it brings no second ones.
        while let Err(Errno::INTR) = rustix::net::recv(&socket, &mut [0; 1], RecvFlags::empty()) {}
    }
    Ok(seen)
}

fn receive_with(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<Option<Packet>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(buffer)],
        &mut control,
        flags | RecvFlags::CMSG_CLOEXEC,
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
    Ok(Some(Packet {
        len: received.bytes,
        fds,
        cut: received.flags.contains(ReturnFlags::CTRUNC),
    }))
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
        let Packet { len, fds, cut } = receive(&b, &mut buffer).unwrap().unwrap();
        assert_eq!((buffer.get(..len), cut), (Some(&b"hello"[..]), false));
        drop(write);
        rustix::io::write(&fds[0], b"x").unwrap();
        assert_eq!(rustix::io::read(&read, &mut buffer).unwrap(), 1);
        drop(a);
        assert!(receive(&b, &mut buffer).unwrap().is_none());
    }

    #[test]
    fn a_whole_packet_comes_once() {
        let (a, b) = pair().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        for text in [b"one", b"two"] {
            send(&a, text, &[write.as_fd(), read.as_fd()]).unwrap();
        }
        let mut buffer = [0; 64];
        for text in [b"one", b"two"] {
            let whole = receive_whole(&b, &mut buffer).unwrap().unwrap();
            assert_eq!((whole.cut, whole.fds.len()), (false, 2));
            assert_eq!(buffer.get(..whole.len), Some(&text[..]));
        }
        assert_eq!(receive_whole(&b, &mut buffer).unwrap_err(), Errno::AGAIN);
        drop(write);
        assert_eq!(
            rustix::io::read(&read, &mut buffer).unwrap(),
            0,
            "none is left in the queue"
        );
        drop(a);
        assert!(receive_whole(&b, &mut buffer).unwrap().is_none());
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

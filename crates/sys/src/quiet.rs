//! A stream over a Unix socket that wakes its process only for what it waits for.
//!
//! Whoever watches such a socket for room to write is woken each time the other end has read something. Tokio's own
//! stream always watches for it, which wakes both processes for nothing in each exchange of messages, and keeps the one
//! that reads from its work meanwhile. This one watches for room from a write that found none to the next that did.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::coop;
use tokio::time::{Sleep, sleep};

use crate::reactor;

/// Most pieces of one write, by the kernel's own limit.
const PIECES: usize = 1024;

/// Pause before room is looked for again where no descriptor was left to be told of it.
const NO_DESCRIPTOR: Duration = Duration::from_millis(10);

/// The stream.
#[derive(Debug)]
pub struct QuietStream {
    socket: AsyncFd<OwnedFd>,
    room: Room,
}

/// Where room to write comes from.
#[derive(Debug)]
enum Room {
    /// There was some at the last write.
    Enough,
    /// The same socket, watched for it.
    Watched(AsyncFd<OwnedFd>),
    /// It is looked for again then.
    Later(Pin<Box<Sleep>>),
}

impl QuietStream {
    /// Takes over a connection. To be called inside the runtime.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let socket = OwnedFd::from(stream.into_std()?);
        Ok(Self {
            socket: reactor::watch(socket, Interest::READABLE)?,
            room: Room::Enough,
        })
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        send: impl Fn(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        let turn = ready!(coop::poll_proceed(cx));
        loop {
            match send(self.socket.get_ref().as_fd()) {
                Ok(count) => {
                    self.room = Room::Enough;
                    turn.made_progress();
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
            if matches!(self.room, Room::Enough) {
                self.room = self.look_for_room()?;
            }
            match &mut self.room {
                Room::Enough => {}
                Room::Watched(socket) => ready!(socket.poll_write_ready(cx))?.clear_ready(),
                Room::Later(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    self.room = Room::Enough;
                }
            }
        }
    }

    fn look_for_room(&self) -> io::Result<Room> {
        let socket = self.socket.get_ref().try_clone();
        match socket.and_then(|socket| reactor::watch(socket, Interest::WRITABLE)) {
            Ok(watched) => Ok(Room::Watched(watched)),
            // What is open is not to end because nothing more can be opened.
            Err(error) if reactor::is_full(&error) => {
                Ok(Room::Later(Box::pin(sleep(NO_DESCRIPTOR))))
            }
            Err(error) => Err(error),
        }
    }
}

impl AsyncRead for QuietStream {
    #[allow(
        unsafe_code,
        reason = "to clear a buffer before each read takes longer than the read"
    )]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            // SAFETY: nothing but the kernel writes to it, and nothing is taken out of it.
            let free = unsafe { buffer.unfilled_mut() };
            let wanted = free.len();
            match recv(ready.get_inner(), free, RecvFlags::empty()) {
                Ok((_, read)) => {
                    // Less than there was room for was all there is: the next attempt can wait for more.
                    if read > 0 && read < wanted {
                        ready.clear_ready();
                    }
                    // SAFETY: the kernel has written that many.
                    unsafe { buffer.assume_init(read) };
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }
}

impl AsyncWrite for QuietStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |socket| send(socket, bytes, SendFlags::NOSIGNAL))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let none = SendAncillaryBuffer::default;
        let pieces = bytes.get(..PIECES).unwrap_or(bytes);
        self.poll_send(cx, |socket| {
            sendmsg(socket, pieces, &mut none(), SendFlags::NOSIGNAL)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(self.socket.get_ref(), Shutdown::Write).map_err(Into::into))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pair() -> (QuietStream, QuietStream) {
        let (one, other) = UnixStream::pair().unwrap();
        (
            QuietStream::new(one).unwrap(),
            QuietStream::new(other).unwrap(),
        )
    }

    #[tokio::test]
    async fn more_than_a_socket_holds_arrives_whole_both_ways_at_once() {
        let (one, other) = pair();
        let bytes: Vec<u8> = (0..8_000_000_u32).map(|n| (n % 251) as u8).collect();
        let exchange = |stream: QuietStream| {
            let bytes = bytes.clone();
            async move {
                let (mut from, mut to) = tokio::io::split(stream);
                let send = async {
                    to.write_all(&bytes).await.unwrap();
                    to.shutdown().await.unwrap();
                };
                let mut received = Vec::new();
                let receive = async { from.read_to_end(&mut received).await.unwrap() };
                tokio::join!(send, receive);
                assert!(received == bytes);
            }
        };
        tokio::join!(exchange(one), exchange(other));
    }

    #[tokio::test]
    async fn several_pieces_go_in_one_write() {
        let (mut one, mut other) = pair();
        let pieces = [IoSlice::new(b"one, "), IoSlice::new(b"two")];
        let sent = one.write_vectored(&pieces).await.unwrap();
        assert_eq!(sent, 8);
        let mut received = [0; 16];
        let count = other.read(&mut received).await.unwrap();
        assert_eq!(received.get(..count), Some(&b"one, two"[..]));
    }

    #[tokio::test]
    async fn a_write_that_waits_hears_of_the_other_ends_end() {
        let (mut one, other) = pair();
        let full = vec![0; 64 << 20];
        let (written, ()) = tokio::join!(one.write_all(&full), async {
            tokio::task::yield_now().await;
            drop(other);
        });
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

//! Moves bytes from the two pipes of a program into its log.
//!
//! Waiting and moving are apart: `ready` may be dropped at any moment, `transfer` and `drain` are
//! awaited to the end, so that no byte is read and then forgotten.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sandshell_sys::reactor;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::ExecError;
use crate::output::{OutputLog, Stream};

/// What one read takes at most: the size of a pipe.
const READ_SIZE: usize = 64 * 1024;

/// The reading ends of a program's two output pipes.
#[derive(Debug)]
pub struct Pump {
    out: Option<AsyncFd<OwnedFd>>,
    err: Option<AsyncFd<OwnedFd>>,
    /// Made at the first byte: many commands write none.
    buffer: Vec<u8>,
    /// A stream that ended had a writer before. A FIFO that nobody opened ends too.
    had_writer: bool,
}

/// What a read found.
enum Read {
    Bytes(usize),
    Nothing,
    Interrupted,
    End,
}

impl Pump {
    /// Takes over the reading ends, which must not block.
    pub(crate) fn new(out: OwnedFd, err: OwnedFd) -> Result<Self, ExecError> {
        let watched = |fd| {
            reactor::watch(fd, Interest::READABLE)
                .map_err(|error| ExecError::io("cannot watch a pipe", &error))
        };
        Ok(Self {
            out: Some(watched(out)?),
            err: Some(watched(err)?),
            buffer: Vec::new(),
            had_writer: false,
        })
    }

    /// Resolves when a stream has bytes or has ended; never when both have ended.
    ///
    /// CANCEL SAFETY: reads nothing.
    pub async fn ready(&self) -> Stream {
        tokio::select! {
            () = readable(self.out.as_ref()) => Stream::Stdout,
            () = readable(self.err.as_ref()) => Stream::Stderr,
        }
    }

    /// The same, but `None` when both have ended.
    ///
    /// CANCEL SAFETY: reads nothing.
    pub async fn ready_or_closed(&self) -> Option<Stream> {
        if self.is_closed() {
            None
        } else {
            Some(self.ready().await)
        }
    }

    /// Whether both streams have ended.
    pub fn is_closed(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    /// Whether any writer has ever opened one of the streams. For FIFOs, asked after a drain.
    pub(crate) fn was_opened(&self) -> bool {
        self.had_writer || !self.is_closed()
    }

    /// How many streams someone still holds.
    pub(crate) fn open_streams(&self) -> u32 {
        u32::from(self.out.is_some()) + u32::from(self.err.is_some())
    }

    /// Moves what one read gives. Must be awaited to the end.
    pub async fn transfer(&mut self, stream: Stream, log: &OutputLog) {
        match self.read(stream, read_when_ready) {
            Read::Bytes(n) => {
                log.append(stream, self.buffer.get(..n).unwrap_or_default())
                    .await;
            }
            Read::Nothing | Read::Interrupted => {}
            Read::End => self.close(stream),
        }
    }

    /// Moves all that is there now. Must be awaited to the end.
    pub async fn drain(&mut self, log: &OutputLog) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            loop {
                match self.read(stream, read_now) {
                    Read::Bytes(n) => {
                        log.append(stream, self.buffer.get(..n).unwrap_or_default())
                            .await;
                    }
                    Read::Interrupted => {}
                    Read::Nothing => break,
                    Read::End => {
                        self.close(stream);
                        break;
                    }
                }
            }
        }
    }

    fn close(&mut self, stream: Stream) {
        let ended = match stream {
            Stream::Stdout => self.out.take(),
            Stream::Stderr => self.err.take(),
        };
        // The kernel hangs up only on a reader that has seen a writer come and go.
        if let Some(fd) = ended {
            let mut asked = [PollFd::new(fd.get_ref(), PollFlags::empty())];
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let _ = poll(&mut asked, Some(&now));
            let [asked] = asked;
            self.had_writer |= asked.revents().contains(PollFlags::HUP);
        }
    }

    fn read(
        &mut self,
        stream: Stream,
        read_fd: fn(&AsyncFd<OwnedFd>, &mut [u8]) -> std::io::Result<usize>,
    ) -> Read {
        let slot = match stream {
            Stream::Stdout => &self.out,
            Stream::Stderr => &self.err,
        };
        let Some(fd) = slot else { return Read::Nothing };
        if self.buffer.is_empty() {
            // Most streams end without a byte: ask with a small buffer first.
            let mut probe = [0; 4096];
            return match classify(read_fd(fd, &mut probe)) {
                Read::Bytes(n) => {
                    self.buffer = vec![0; READ_SIZE];
                    if let (Some(to), Some(from)) = (self.buffer.get_mut(..n), probe.get(..n)) {
                        to.copy_from_slice(from);
                    }
                    Read::Bytes(n)
                }
                other => other,
            };
        }
        classify(read_fd(fd, &mut self.buffer))
    }
}

/// Reads after the reactor said so, and tells it when there was nothing. The read must happen inside
/// `try_io`: between a read outside and the telling, an edge could come and be wiped away.
fn read_when_ready(fd: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> std::io::Result<usize> {
    fd.try_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, buffer)?))
}

/// Reads whatever the reactor knows; tells it nothing.
fn read_now(fd: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> std::io::Result<usize> {
    Ok(rustix::io::read(fd.get_ref(), buffer)?)
}

fn classify(read: std::io::Result<usize>) -> Read {
    match read {
        Ok(0) => Read::End,
        Ok(n) => Read::Bytes(n),
        // Interrupted is asked again at once, because the stream is still ready.
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => Read::Nothing,
            Some(Errno::INTR) => Read::Interrupted,
            // A pipe gives no other error; if one does, there is nothing more to be had from it.
            _ if error.kind() == std::io::ErrorKind::WouldBlock => Read::Nothing,
            _ => Read::End,
        },
    }
}

async fn readable(fd: Option<&AsyncFd<OwnedFd>>) {
    match fd {
        Some(fd) => {
            if let Ok(mut guard) = fd.readable().await {
                guard.retain_ready();
            }
        }
        None => std::future::pending().await,
    }
}

//! The standard input of a process: bytes in order, each exactly once, back-pressure by waiting.
//!
//! A write may carry the offset it starts at. A repeat of bytes already taken is accepted and
//! skipped, so that a client may retry after a lost answer; a gap is refused.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use sandshell_sys::reactor;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

use crate::ExecError;

#[derive(Debug)]
pub(crate) struct Stdin(Mutex<State>);

#[derive(Debug)]
struct State {
    pipe: Option<AsyncFd<OwnedFd>>,
    offset: u64,
}

impl Stdin {
    /// Our end of a pipe, where there is one.
    pub(super) fn new(pipe: Option<OwnedFd>) -> Result<Self, ExecError> {
        let pipe = pipe
            .map(|fd| reactor::watch(fd, Interest::WRITABLE))
            .transpose()
            .map_err(|error| ExecError::io("cannot watch a pipe", &error))?;
        Ok(Self(Mutex::new(State { pipe, offset: 0 })))
    }

    /// One that takes nothing.
    pub(crate) fn closed() -> Self {
        Self(Mutex::new(State {
            pipe: None,
            offset: 0,
        }))
    }

    /// A restarted process has a new pipe and starts at offset 0.
    pub(super) async fn replace(&self, fresh: Self) {
        *self.0.lock().await = fresh.0.into_inner();
    }

    /// Writes all of `data`; the answer is the offset after it.
    ///
    /// CANCEL SAFETY: what was written stays written and counted; a retry with the same offset
    /// continues behind it.
    pub(super) async fn write(&self, offset: Option<u64>, data: &[u8]) -> Result<u64, ExecError> {
        let mut state = self.0.lock().await;
        let start = offset.unwrap_or(state.offset);
        if start > state.offset {
            return Err(ExecError::StdinOffset {
                expected: state.offset,
            });
        }
        let known = usize::try_from(state.offset - start).unwrap_or(usize::MAX);
        let mut rest = data.get(known..).unwrap_or_default();
        while !rest.is_empty() {
            let Some(pipe) = &state.pipe else {
                return Err(ExecError::StdinClosed);
            };
            let written = pipe
                .async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, rest)?))
                .await;
            match written {
                Ok(n) => {
                    state.offset += n as u64;
                    rest = rest.get(n..).unwrap_or_default();
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
                Err(_) => {
                    // Nobody reads any more.
                    state.pipe = None;
                    return Err(ExecError::StdinClosed);
                }
            }
        }
        Ok(state.offset)
    }

    /// Ends the input.
    pub(super) async fn close(&self) -> Result<u64, ExecError> {
        let mut state = self.0.lock().await;
        state.pipe = None;
        Ok(state.offset)
    }
}

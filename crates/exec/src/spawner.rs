//! The agent's end of the line to init.
//!
//! Owns the socket and the table of who waits for which answer. One task reads; anyone may send.
//! An id is entered in the table before its request is sent, because the exit of a short program
//! can arrive right behind its start.
//!
//! An answer brings descriptors. Room for them is reserved before the request is sent: when all other
//! descriptors are used up, the request is refused or its answer can be taken, never neither.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use sandshell_isolate::protocol::{Event, Exit, ReceiveError, SpawnRequest};
use sandshell_sys::spawn::Stage;
use sandshell_sys::{reactor, task};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use crate::StartError;

/// A program that init started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) keeper: Option<OwnedFd>,
    /// Its end; an error means that init is gone.
    pub(crate) exit: oneshot::Receiver<Exit>,
}

/// A program that could not be started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) stage: Stage,
    pub(crate) errno: Errno,
}

/// Pid, pidfd and keeper of a program that has just started.
type Born = (i32, OwnedFd, Option<OwnedFd>);

/// Pause before an answer is tried again whose room was taken by someone else.
const NO_ROOM: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Waiting {
    /// Closed when the answer finds no other room for its descriptors.
    room: Option<[OwnedFd; 2]>,
    started: Option<oneshot::Sender<Result<Born, Refused>>>,
    exited: Option<oneshot::Sender<Exit>>,
}

#[derive(Debug)]
struct Line {
    socket: AsyncFd<OwnedFd>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    next_id: AtomicU64,
    lost: watch::Sender<bool>,
}

/// A handle to init; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Spawner(Arc<Line>);

impl Spawner {
    /// Takes over the socket and starts the reading task.
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, StartError> {
        // Not watched for writing: every request that init takes would wake us for nothing.
        let socket = reactor::watch(socket, Interest::READABLE).map_err(|e| StartError {
            step: "init's socket",
            reason: e.to_string(),
        })?;
        let line = Arc::new(Line {
            socket,
            waiting: Mutex::new(HashMap::new()),
            next_id: AtomicU64::new(1),
            lost: watch::Sender::new(false),
        });
        let reading = line.clone();
        task::spawn(async move {
            reading.read_events().await;
            tracing::error!("init is gone");
            reading.lost.send_replace(true);
            reading.lock().clear();
        });
        Ok(Self(line))
    }

    /// Resolves when init is gone, and with it everything it started.
    pub(crate) fn lost(&self) -> watch::Receiver<bool> {
        self.0.lost.subscribe()
    }

    /// Has a program started. `request.id` is filled in here.
    pub(crate) async fn spawn(
        &self,
        mut request: SpawnRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Started, Refused> {
        let line = &self.0;
        let id = line.next_id.fetch_add(1, Ordering::Relaxed);
        request.id = id;
        let (started, started_receiver) = oneshot::channel();
        let (exited, exit) = oneshot::channel();
        let refused = |errno| Refused {
            stage: Stage::Clone,
            errno,
        };
        let spare = || fcntl_dupfd_cloexec(line.socket.get_ref(), 0).map_err(refused);
        let room = Some([spare()?, spare()?]);
        line.lock().insert(
            id,
            Waiting {
                room,
                started: Some(started),
                exited: Some(exited),
            },
        );
        if let Err(errno) = line.send(&request, fds).await {
            line.lock().remove(&id);
            return Err(refused(errno));
        }
        let answer = started_receiver.await;
        let (pid, pidfd, keeper) = answer.map_err(|_| refused(Errno::PIPE))??;
        Ok(Started {
            pid,
            pidfd,
            keeper,
            exit,
        })
    }
}

impl Line {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request; waits while init's queue is full.
    async fn send(&self, request: &SpawnRequest, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        match request.send(self.socket.get_ref(), fds) {
            Err(Errno::AGAIN) => {}
            done => return done,
        }
        let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::PIPE);
        let socket = self.socket.get_ref().try_clone().map_err(errno)?;
        let socket = reactor::watch(socket, Interest::WRITABLE).map_err(errno)?;
        socket
            .async_io(Interest::WRITABLE, |socket| {
                request.send(socket, fds).map_err(std::io::Error::from)
            })
            .await
            .map_err(errno)
    }

    async fn read_events(&self) {
        let mut waits = false;
        loop {
            let Ok(mut ready) = self.socket.readable().await else {
                return;
            };
            loop {
                match Event::receive(self.socket.get_ref().as_fd()) {
                    Ok(Some(event)) => {
                        waits = false;
                        self.deliver(event);
                    }
                    Err(ReceiveError::Socket(Errno::INTR)) => {}
                    Err(ReceiveError::Socket(Errno::AGAIN)) => {
                        ready.clear_ready();
                        break;
                    }
                    Err(ReceiveError::NoRoom { id }) => {
                        let reserved = self.lock().get_mut(&id).and_then(|w| w.room.take());
                        if reserved.is_none() {
                            if !std::mem::replace(&mut waits, true) {
                                tracing::warn!("too many open files to take what init started");
                            }
                            tokio::time::sleep(NO_ROOM).await;
                        }
                    }
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    fn deliver(&self, event: Event) {
        let mut waiting = self.lock();
        match event {
            Event::Ready { .. } | Event::NeedMap | Event::Unfit(_) => {}
            Event::Spawned {
                id,
                pid,
                pidfd,
                keeper,
            } => {
                let started = waiting.get_mut(&id).and_then(|waiter| {
                    waiter.room = None;
                    waiter.started.take()
                });
                if let Some(started) = started
                    && let Err(Ok((_, pidfd, _))) = started.send(Ok((pid, pidfd, keeper)))
                {
                    // Whoever asked for it is gone, so nobody would ever end it.
                    let _ = sandshell_sys::signal::send(&pidfd, 9);
                }
            }
            Event::Failed { id, stage, errno } => {
                if let Some(started) = waiting.remove(&id).and_then(|mut w| w.started.take()) {
                    let _ = started.send(Err(Refused { stage, errno }));
                }
            }
            Event::Exited { id, exit } => {
                if let Some(exited) = waiting.remove(&id).and_then(|mut w| w.exited.take()) {
                    let _ = exited.send(exit);
                }
            }
        }
    }
}

//! Finding the agent of a place, which may be one that an earlier hub had made.
//!
//! Owns what tells the living from the dead: dead is only where nobody listens. Whatever else is in the way says
//! nothing of the agent.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::UnixStream;

use super::{Agent, LocalBackend, group, watch};
use crate::backend::{BackendError, Place};

/// Far longer than an agent that runs takes to look at its socket, unless the machine stands still.
const ACCEPTS: Duration = Duration::from_mins(1);

impl LocalBackend {
    /// The agent of a place: ours, or whoever listens on its socket.
    pub(super) async fn find(&self, place: &Place) -> Result<Agent, BackendError> {
        if let Some(agent) = self.live().get(place) {
            return Ok(Arc::clone(agent));
        }
        let connected = self.connect(place).await?;
        let peer = connected.peer_cred().map_err(unreached)?;
        // One in a PID namespace beside ours lives, too.
        let pid = peer.pid().and_then(Pid::from_raw).ok_or_else(|| {
            unreached(io::Error::other("whoever listens cannot be seen from here"))
        })?;
        let agent = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|errno| match errno {
            Errno::SRCH => dead(),
            errno => unreached(errno.into()),
        })?;
        // Whoever listened then listens still, so the pid was not used again meanwhile.
        self.connect(place).await?;
        let agent = watch(agent)?;
        self.live().insert(place.clone(), Arc::clone(&agent));
        Ok(agent)
    }

    async fn connect(&self, place: &Place) -> Result<UnixStream, BackendError> {
        let socket = self.dir(place).join("agent.sock");
        match UnixStream::connect(&socket).await {
            Err(full) if full.kind() == io::ErrorKind::WouldBlock => {
                self.connect_in_turn(place, socket).await
            }
            tried => tried.map_err(unreached),
        }
    }

    /// Connects where as many wait already as can: hubs that came and went leave them with a frozen agent. It is
    /// thawed for this; whether it stays so is settled afterwards.
    async fn connect_in_turn(
        &self,
        place: &Place,
        socket: PathBuf,
    ) -> Result<UnixStream, BackendError> {
        let name = group(place);
        self.ask(move |launcher| launcher.thaw(&name)).await?;
        // The kernel tells only those who wait in the call that there is room.
        let connecting = tokio::task::spawn_blocking(move || connect_within(&socket, ACCEPTS));
        let connected = connecting
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        let stream = connected.and_then(|stream| {
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        });
        stream.map_err(unreached)
    }
}

fn dead() -> BackendError {
    BackendError::Dead("its agent has ended".to_owned())
}

fn unreached(source: io::Error) -> BackendError {
    match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => dead(),
        _ => BackendError::of_machine("reach the agent", source),
    }
}

/// Connects to a socket; waits at most so long for its queue to have room.
fn connect_within(path: &Path, time: Duration) -> io::Result<std::os::unix::net::UnixStream> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Send, Some(time))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

//! The messages between agent and init.
//!
//! One seqpacket per message. A request larger than a packet travels in a memfd that is the last of
//! the descriptors.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use sandshell_types::Protection;

use crate::probe;
use crate::stage::Step;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use sandshell_sys::packet::{self, Packet};
use sandshell_sys::spawn::{Identity, Rlimit, Stage};
use sandshell_sys::wire::{Malformed, Reader, Writer};

/// Largest message sent in a packet itself; the default send buffer takes about 200 KB.
pub const MAX_INLINE: usize = 64 * 1024;

const SPAWN: u32 = 1;
const SPAWN_IN_MEMFD: u32 = 2;
const READY: u32 = 16;
const NEED_MAP: u32 = 20;
const UNFIT: u32 = 21;
const SPAWNED: u32 = 17;
const FAILED: u32 = 18;
const EXITED: u32 = 19;

/// How a program is to be started, beyond its own words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpawnFlags {
    /// The descriptor after the program's own is the cgroup to be born in.
    pub into_cgroup: bool,
    /// Start it below a keeper.
    pub keeper: bool,
    /// Its descriptor 0 is a terminal and becomes its controlling one.
    pub controlling_terminal: bool,
    /// Start it in a PID namespace of its own, with a /proc of its own.
    pub private: bool,
}

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnRequest {
    /// Number chosen by the agent; every event about the program carries it.
    pub id: u64,
    /// Paths to try in order.
    pub programs: Vec<CString>,
    /// Argument vector.
    pub argv: Vec<CString>,
    /// Whole environment.
    pub env: Vec<CString>,
    /// Working directory.
    pub cwd: CString,
    /// User and groups.
    pub identity: Option<Identity>,
    /// Resource limits.
    pub rlimits: Vec<Rlimit>,
    /// Numbers of the passed descriptors in the program, in the order they are passed.
    pub fd_numbers: Vec<RawFd>,
    /// How many descriptors after the program's own are groups for it to join.
    pub joins: u32,
    /// How to start it.
    pub flags: SpawnFlags,
}

/// What init says, and keepers. When a keeper is killed, init says `Spawned` and `Exited` for it, perhaps
/// once more: the first of each counts.
#[derive(Debug)]
pub enum Event {
    /// It has made its user namespace and waits for the ids in it.
    NeedMap,
    /// Its surroundings could not be made; it ends.
    Unfit(Step),
    /// It serves, at once or when what it says later has been proved.
    Ready {
        /// The root of its files, where that is not ours.
        root: Option<OwnedFd>,
        /// What was proved from inside, where that has been done.
        protections: Vec<Protection>,
    },
    /// A program runs.
    Spawned {
        /// The request's number.
        id: u64,
        /// Pid as the sandbox sees it.
        pid: i32,
        /// The program.
        pidfd: OwnedFd,
        /// The keeper above it, when one was asked for.
        keeper: Option<OwnedFd>,
    },
    /// A program could not be started.
    Failed {
        /// The request's number.
        id: u64,
        /// Where.
        stage: Stage,
        /// Why.
        errno: Errno,
    },
    /// A program ended and was reaped.
    Exited {
        /// The request's number.
        id: u64,
        /// Its end.
        exit: Exit,
    },
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl SpawnRequest {
    /// The bytes of a request.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u64(self.id);
        w.u32(
            u32::from(self.flags.into_cgroup)
                | (u32::from(self.flags.keeper) << 1)
                | (u32::from(self.flags.controlling_terminal) << 2)
                | (u32::from(self.flags.private) << 3),
        );
        for list in [&self.programs, &self.argv, &self.env] {
            w.u32(list.len() as u32);
            for item in list {
                w.bytes(item.as_bytes());
            }
        }
        w.bytes(self.cwd.as_bytes());
        w.u32(u32::from(self.identity.is_some()));
        if let Some(identity) = &self.identity {
            w.u32(identity.uid)
                .u32(identity.gid)
                .u32(identity.groups.len() as u32);
            for group in &identity.groups {
                w.u32(*group);
            }
        }
        w.u32(self.rlimits.len() as u32);
        for limit in &self.rlimits {
            w.u32(limit.resource).u64(limit.value);
        }
        w.u32(self.fd_numbers.len() as u32);
        for number in &self.fd_numbers {
            w.i32(*number);
        }
        w.u32(self.joins);
        w.finish()
    }

    /// Reads a request; refuses anything malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let id = r.u64()?;
        let flags = r.u32()?;
        let strings = |r: &mut Reader<'_>| -> Result<Vec<CString>, Malformed> {
            let n = r.count(4)?;
            (0..n)
                .map(|_| CString::new(r.bytes()?).map_err(|_| Malformed))
                .collect()
        };
        let programs = strings(&mut r)?;
        let argv = strings(&mut r)?;
        let env = strings(&mut r)?;
        let cwd = CString::new(r.bytes()?).map_err(|_| Malformed)?;
        let identity = if r.u32()? == 1 {
            let (uid, gid) = (r.u32()?, r.u32()?);
            let n = r.count(4)?;
            let groups = (0..n).map(|_| r.u32()).collect::<Result<_, _>>()?;
            Some(Identity { uid, gid, groups })
        } else {
            None
        };
        let n = r.count(12)?;
        let rlimits = (0..n)
            .map(|_| {
                Ok(Rlimit {
                    resource: r.u32()?,
                    value: r.u64()?,
                })
            })
            .collect::<Result<_, Malformed>>()?;
        let n = r.count(4)?;
        let fd_numbers = (0..n).map(|_| r.i32()).collect::<Result<_, _>>()?;
        let joins = r.u32()?;
        r.end()?;
        Ok(Self {
            id,
            programs,
            argv,
            env,
            cwd,
            identity,
            rlimits,
            fd_numbers,
            joins,
            flags: SpawnFlags {
                into_cgroup: flags & 1 != 0,
                keeper: flags & 2 != 0,
                controlling_terminal: flags & 4 != 0,
                private: flags & 8 != 0,
            },
        })
    }

    /// Sends the request with the program's descriptors, those of groups to join and, where asked for,
    /// the cgroup's to be born in.
    pub fn send(&self, socket: impl AsFd, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let body = self.encode();
        let mut head = Writer::new();
        if body.len() <= MAX_INLINE {
            head.u32(SPAWN);
            let mut packet_bytes = head.finish();
            packet_bytes.extend_from_slice(&body);
            return packet::send(socket, &packet_bytes, fds);
        }
        head.u32(SPAWN_IN_MEMFD).u64(self.id);
        let memfd = memfd_create("sandshell-spawn", MemfdFlags::CLOEXEC)?;
        write_all(&memfd, &body)?;
        let mut fds = fds.to_vec();
        fds.push(memfd.as_fd());
        packet::send(socket, &head.finish(), &fds)
    }

    /// Receives a request; `Ok(None)` when the agent is gone.
    pub fn receive(
        socket: impl AsFd,
        buffer: &mut [u8],
    ) -> Result<Option<(Self, Vec<OwnedFd>)>, ReceiveError> {
        let Some(Packet { len, mut fds, cut }) = packet::receive(socket, buffer)? else {
            return Ok(None);
        };
        let bytes = buffer.get(..len).ok_or(Malformed)?;
        let (kind, body) = bytes.split_at_checked(4).ok_or(Malformed)?;
        if cut {
            // Both kinds begin with it.
            let id = Reader::new(body).u64()?;
            return Err(ReceiveError::NoRoom { id });
        }
        let request = match Reader::new(kind).u32()? {
            SPAWN => Self::decode(body)?,
            SPAWN_IN_MEMFD => {
                let memfd = fds.pop().ok_or(Malformed)?;
                let size = rustix::fs::fstat(&memfd)?.st_size;
                let mut content = vec![0; usize::try_from(size).map_err(|_| Malformed)?];
                read_at(&memfd, &mut content)?;
                Self::decode(&content)?
            }
            _ => return Err(Malformed.into()),
        };
        let expected = request.fd_numbers.len()
            + request.joins as usize
            + usize::from(request.flags.into_cgroup);
        if fds.len() != expected {
            return Err(Malformed.into());
        }
        Ok(Some((request, fds)))
    }
}

/// A message that could not be received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The socket failed; `EAGAIN` means there is nothing now.
    #[error(transparent)]
    Socket(#[from] Errno),
    /// The message is not one.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There is no room for its descriptors. A request is lost by that, an event is not.
    #[error("too many files are open to take what came with a message")]
    NoRoom {
        /// The request's number.
        id: u64,
    },
}

impl Event {
    /// Sends an event; descriptors travel with it.
    pub fn send(&self, socket: impl AsFd) -> Result<(), Errno> {
        let mut w = Writer::new();
        let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
        match self {
            Self::NeedMap => {
                w.u32(NEED_MAP);
            }
            Self::Unfit(Step { what, errno }) => {
                w.u32(UNFIT)
                    .bytes(what.as_bytes())
                    .i32(errno.raw_os_error());
            }
            Self::Ready { root, protections } => {
                w.u32(READY).bytes(&probe::encode(protections));
                fds.extend(root.as_ref().map(AsFd::as_fd));
            }
            Self::Spawned {
                id,
                pid,
                pidfd,
                keeper,
            } => {
                w.u32(SPAWNED).u64(*id).i32(*pid);
                fds.push(pidfd.as_fd());
                fds.extend(keeper.as_ref().map(AsFd::as_fd));
            }
            Self::Failed { id, stage, errno } => {
                w.u32(FAILED)
                    .u64(*id)
                    .u32(*stage as u32)
                    .i32(errno.raw_os_error());
            }
            Self::Exited { id, exit } => {
                let (kind, value) = match exit {
                    Exit::Code(code) => (0, *code),
                    Exit::Signal(signal) => (1, *signal),
                };
                w.u32(EXITED).u64(*id).u32(kind).i32(value);
            }
        }
        packet::send(socket, &w.finish(), &fds)
    }

    /// Receives an event; `Ok(None)` when init is gone.
    pub fn receive(socket: impl AsFd) -> Result<Option<Self>, ReceiveError> {
        let mut buffer = [0; 4096];
        let Some(Packet { len, mut fds, cut }) = packet::receive_whole(socket, &mut buffer)? else {
            return Ok(None);
        };
        let mut r = Reader::new(buffer.get(..len).ok_or(Malformed)?);
        let kind = r.u32()?;
        if cut {
            let id = if kind == SPAWNED { r.u64()? } else { 0 };
            return Err(ReceiveError::NoRoom { id });
        }
        let event = match kind {
            NEED_MAP => Self::NeedMap,
            UNFIT => Self::Unfit(Step {
                what: String::from_utf8_lossy(r.bytes()?).into_owned(),
                errno: errno(r.i32()?).ok_or(Malformed)?,
            }),
            READY => Self::Ready {
                root: fds.pop(),
                protections: probe::decode(r.bytes()?)?,
            },
            SPAWNED => {
                let (id, pid) = (r.u64()?, r.i32()?);
                let keeper = if fds.len() > 1 { fds.pop() } else { None };
                Self::Spawned {
                    id,
                    pid,
                    pidfd: fds.pop().ok_or(Malformed)?,
                    keeper,
                }
            }
            FAILED => Self::Failed {
                id: r.u64()?,
                stage: Stage::from_u32(r.u32()?).ok_or(Malformed)?,
                errno: errno(r.i32()?).ok_or(Malformed)?,
            },
            EXITED => {
                let (id, kind, value) = (r.u64()?, r.u32()?, r.i32()?);
                let exit = if kind == 0 {
                    Exit::Code(value)
                } else {
                    Exit::Signal(value)
                };
                Self::Exited { id, exit }
            }
            _ => return Err(Malformed.into()),
        };
        Ok(Some(event))
    }
}

/// The error of a number that came from elsewhere; making one of a number that is none would panic.
pub(crate) fn errno(number: i32) -> Option<Errno> {
    (1..4096)
        .contains(&number)
        .then(|| Errno::from_raw_os_error(number))
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let n = rustix::io::write(fd, bytes)?;
        bytes = bytes.get(n..).unwrap_or_default();
    }
    Ok(())
}

fn read_at(fd: &OwnedFd, buffer: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..)
        && !rest.is_empty()
    {
        match rustix::io::pread(fd, rest, done as u64)? {
            0 => return Err(Errno::IO),
            n => done += n,
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn request(argument: &str) -> SpawnRequest {
        SpawnRequest {
            id: 42,
            programs: vec![c"/bin/echo".into()],
            argv: vec![c"echo".into(), CString::new(argument).unwrap()],
            env: vec![c"A=1".into()],
            cwd: c"/".into(),
            identity: Some(Identity {
                uid: 1,
                gid: 2,
                groups: vec![3, 4],
            }),
            rlimits: vec![Rlimit {
                resource: 7,
                value: 100,
            }],
            fd_numbers: vec![0, 40],
            joins: 1,
            flags: SpawnFlags {
                into_cgroup: true,
                keeper: false,
                controlling_terminal: true,
                private: true,
            },
        }
    }

    #[test]
    fn requests_of_any_size_arrive_whole() {
        let (a, b) = packet::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let mut buffer = vec![0; MAX_INLINE + 64];
        for size in [1, MAX_INLINE - 200, MAX_INLINE, 3_000_000] {
            let sent = request(&"x".repeat(size));
            sent.send(&a, &[null.as_fd(); 4]).unwrap();
            let (received, fds) = SpawnRequest::receive(&b, &mut buffer).unwrap().unwrap();
            assert_eq!((received, fds.len()), (sent, 4), "size {size}");
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let whole = request("hello").encode();
        for n in 0..whole.len() {
            assert!(SpawnRequest::decode(&whole[..n]).is_err(), "{n}");
        }
        let mut longer = whole;
        longer.push(0);
        assert!(SpawnRequest::decode(&longer).is_err());
    }

    #[test]
    fn events_arrive() {
        let (a, b) = packet::pair().unwrap();
        let fd = || -> OwnedFd { std::fs::File::open("/dev/null").unwrap().into() };
        Event::Spawned {
            id: 1,
            pid: 2,
            pidfd: fd(),
            keeper: Some(fd()),
        }
        .send(&a)
        .unwrap();
        Event::Exited {
            id: 1,
            exit: Exit::Signal(9),
        }
        .send(&a)
        .unwrap();
        Event::Failed {
            id: 3,
            stage: Stage::Cwd,
            errno: Errno::NOENT,
        }
        .send(&a)
        .unwrap();
        assert!(matches!(
            Event::receive(&b).unwrap().unwrap(),
            Event::Spawned {
                id: 1,
                pid: 2,
                keeper: Some(_),
                ..
            }
        ));
        assert!(matches!(
            Event::receive(&b).unwrap().unwrap(),
            Event::Exited {
                id: 1,
                exit: Exit::Signal(9)
            }
        ));
        assert!(matches!(
            Event::receive(&b).unwrap().unwrap(),
            Event::Failed {
                id: 3,
                stage: Stage::Cwd,
                errno: Errno::NOENT
            }
        ));
    }

    #[test]
    fn a_number_that_is_no_error_is_refused() {
        for number in [0, -1, 4096, i32::MIN] {
            let (agent, init) = packet::pair().unwrap();
            let mut failed = Writer::new();
            failed.u32(FAILED).u64(1).u32(1).i32(number);
            packet::send(&init, &failed.finish(), &[]).unwrap();
            let mut unfit = Writer::new();
            unfit.u32(UNFIT).bytes(b"/proc").i32(number);
            packet::send(&init, &unfit.finish(), &[]).unwrap();
            for _ in 0..2 {
                let received = Event::receive(&agent);
                assert!(
                    matches!(received, Err(ReceiveError::Malformed(_))),
                    "{number}"
                );
            }
            let step = format!("{{\"what\":\"/proc\",\"errno\":{number}}}");
            assert!(serde_json::from_str::<Step>(&step).is_err(), "{number}");
        }
    }
}

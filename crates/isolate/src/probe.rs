//! The proof from inside: what a program of the sandbox can see and do, tried before the first one
//! runs.
//!
//! That a call to build a wall returned 0 proves nothing. So init, hardened and about to serve, lets a
//! child take up the rights of an ordinary program, look around and knock at doors, and gets back one
//! protection for each layer it can judge. What only the launcher knows (limits, disk, egress) it says
//! itself; `compose` joins both, and the worse word counts.
//!
//! ```text
//! launcher   Outside::look ─────────────────┐ (inherited by fork)
//! init       Bait::lay ─► harden::on_init ─► run ── child ──► take up rights, look, knock, end
//! ```
//!
//! It takes about 0.2 ms. The bait is an abstract socket from before the hardening, so that it belongs
//! to nobody inside: a program that can still connect to it is not confined.

mod checks;
mod status;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sandshell_sys::rights::Rights;
use sandshell_sys::spawn::{Identity, in_child};
use sandshell_sys::wire::{Malformed, Reader, Writer};
use sandshell_types::{Layer, Protection, ProtectionStatus};

pub use checks::JUDGED;
pub(crate) use status::Namespaces;

/// How it looks outside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    namespaces: Namespaces,
    /// Device and number of the root directory.
    root: (u64, u64),
}

impl Outside {
    /// Looks around, in whoever starts the sandbox.
    pub fn look() -> Result<Self, Errno> {
        Ok(Self {
            namespaces: Namespaces::own()?,
            root: status::root_directory()?,
        })
    }

    /// As a word of a command line.
    pub(crate) fn to_word(&self) -> String {
        let numbers = self.namespaces.numbers().into_iter();
        let all = numbers.chain([self.root.0, self.root.1]);
        all.map(|number| number.to_string())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Reads such a word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let numbers: Vec<u64> = word
            .split(',')
            .map(|number| number.parse().ok())
            .collect::<Option<_>>()?;
        let (namespaces, root) = numbers.split_first_chunk()?;
        Some(Self {
            namespaces: Namespaces::of(*namespaces),
            root: <[u64; 2]>::try_from(root).ok()?.into(),
        })
    }
}

/// Something for the probe to reach for, from before the hardening.
#[derive(Debug)]
pub struct Bait {
    address: SocketAddrUnix,
    /// Kept open until the probe has tried.
    listener: OwnedFd,
}

impl AsFd for Bait {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Bait {
    /// Opens an abstract socket under a name that the kernel chooses.
    pub fn lay() -> Result<Self, Errno> {
        let listener = unix_socket()?;
        rustix::net::bind(&listener, &SocketAddrUnix::new_unnamed())?;
        rustix::net::listen(&listener, 1)?;
        let address = rustix::net::getsockname(&listener)?.try_into()?;
        Ok(Self { address, listener })
    }
}

/// Runs the probe below this process, which must have one thread, with the rights of an ordinary
/// program. Layers it could not judge are `off`, with the reason. The bait can go afterwards.
pub fn run(
    outside: &Outside,
    bait: &Bait,
    identity: Option<&Identity>,
    rights: &Rights<'_>,
) -> Vec<Protection> {
    let found = in_child(|| checks::all(outside, bait, identity, rights));
    found.unwrap_or_else(|errno| {
        let reason = format!("the probe could not run: {errno}");
        let off = |layer| off(layer, reason.clone());
        JUDGED.iter().copied().map(off).collect()
    })
}

fn unix_socket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Joins what was seen from inside with what the launcher knows: for each layer the worse word, in the
/// order of the report. Nobody's word is `off`.
pub fn compose(inside: Vec<Protection>, launcher: Vec<Protection>) -> Vec<Protection> {
    let mut said: Vec<Protection> = inside.into_iter().chain(launcher).collect();
    let mut report = Vec::with_capacity(Layer::ALL.len());
    for &layer in Layer::ALL {
        let about = said.extract_if(.., |protection| protection.name == layer);
        let worst = about.reduce(worse);
        report.push(worst.unwrap_or_else(|| off(layer, "nothing was set up for it".to_owned())));
    }
    report
}

fn worse(one: Protection, other: Protection) -> Protection {
    let badness = |protection: &Protection| match protection.status {
        ProtectionStatus::Enforced => 0,
        ProtectionStatus::Partial => 1,
        ProtectionStatus::Off => 2,
    };
    let mut worst = if badness(&other) > badness(&one) {
        Protection {
            reason: join(other.reason, one.reason),
            ..other
        }
    } else {
        Protection {
            reason: join(one.reason, other.reason),
            ..one
        }
    };
    if worst.status == ProtectionStatus::Enforced {
        worst.reason = None;
    }
    worst
}

fn join(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second),
    }
}

fn off(layer: Layer, reason: String) -> Protection {
    Protection {
        name: layer,
        status: ProtectionStatus::Off,
        reason: Some(reason),
    }
}

/// The report as bytes, for init's message to the agent.
pub fn encode(protections: &[Protection]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(protections.len() as u32);
    for protection in protections {
        let status = match protection.status {
            ProtectionStatus::Enforced => 0,
            ProtectionStatus::Partial => 1,
            ProtectionStatus::Off => 2,
        };
        w.u32(protection.name as u32).u32(status);
        w.bytes(protection.reason.as_deref().unwrap_or_default().as_bytes());
    }
    w.finish()
}

/// Reads a report; refuses anything malformed.
pub fn decode(bytes: &[u8]) -> Result<Vec<Protection>, Malformed> {
    let mut r = Reader::new(bytes);
    let count = r.count(12)?;
    let protections = (0..count)
        .map(|_| {
            let layer = r.u32()?;
            let status = match r.u32()? {
                0 => ProtectionStatus::Enforced,
                1 => ProtectionStatus::Partial,
                2 => ProtectionStatus::Off,
                _ => return Err(Malformed),
            };
            let reason = str::from_utf8(r.bytes()?).map_err(|_| Malformed)?;
            Ok(Protection {
                name: *Layer::ALL.get(layer as usize).ok_or(Malformed)?,
                status,
                reason: (!reason.is_empty()).then(|| reason.to_owned()),
            })
        })
        .collect::<Result<_, _>>()?;
    r.end()?;
    Ok(protections)
}

#[cfg(test)]
mod tests;

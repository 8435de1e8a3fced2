//! What became of each layer of isolation, on its way to whoever reports it.
//!
//! Init of a sandbox lets the agent go on while it has the proof made, so that both take place at once. Nothing runs in
//! a sandbox that has not been proved: init serves nobody before that is done, and the agent asks the warden for nothing
//! before it has heard of it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sandshell_types::Protection;

use crate::launch::READY_TIMEOUT;
use crate::probe;
use crate::stage::Step;

/// The protections of a sandbox.
#[derive(Debug)]
pub struct Proof {
    /// What is known.
    said: Vec<Protection>,
    /// Where init tells the rest, as long as it has not.
    line: Option<OwnedFd>,
}

impl Proof {
    /// What is known already.
    pub(crate) fn given(said: Vec<Protection>) -> Self {
        Self { said, line: None }
    }

    /// What was seen from inside will come on this line.
    pub(crate) fn coming(line: OwnedFd, known: Vec<Protection>) -> Self {
        Self {
            said: known,
            line: Some(line),
        }
    }

    /// Takes it out of where it is, which then knows of nothing.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::given(Vec::new()))
    }

    /// The protections. Blocks until they are told, which is a part of a millisecond after init has said that it is
    /// there.
    pub fn settle(&mut self) -> Result<&[Protection], Step> {
        if let Some(line) = &self.line {
            let told = read_all(line).map_err(Step::at("the proof"))?;
            let seen = probe::decode(&told).map_err(|_| Step::at("the proof")(Errno::PIPE))?;
            self.line = None;
            self.said = probe::compose(seen, std::mem::take(&mut self.said));
        }
        Ok(&self.said)
    }
}

/// Tells what was seen, on the other end of the line.
pub(crate) fn tell(line: OwnedFd, seen: &[Protection]) -> Result<(), Errno> {
    // Much less than a pipe holds.
    let told = File::from(line).write_all(&probe::encode(seen));
    told.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Everything up to the end, which must come in time.
fn read_all(line: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let within = Timespec {
        tv_sec: READY_TIMEOUT.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match poll(&mut [PollFd::new(line, PollFlags::IN)], Some(&within)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        match rustix::io::read(line, &mut buffer)? {
            0 => return Ok(all),
            count => all.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};
    use sandshell_types::{Layer, ProtectionStatus};

    use super::*;

    fn enforced(name: Layer) -> Protection {
        Protection {
            name,
            status: ProtectionStatus::Enforced,
            reason: None,
        }
    }

    fn status_of(proof: &mut Proof, layer: Layer) -> ProtectionStatus {
        let said = proof.settle().unwrap().iter();
        said.clone().find(|one| one.name == layer).unwrap().status
    }

    #[test]
    fn what_comes_is_joined_with_what_is_known() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut proof = Proof::coming(read, vec![enforced(Layer::DiskLimit)]);
        tell(write, &[enforced(Layer::PidNs)]).unwrap();
        for layer in [Layer::DiskLimit, Layer::PidNs] {
            assert_eq!(status_of(&mut proof, layer), ProtectionStatus::Enforced);
        }
        let nobodys = status_of(&mut proof, Layer::Seccomp);
        assert_eq!(nobodys, ProtectionStatus::Off, "nobody has said anything");
    }

    #[test]
    fn an_init_that_ended_without_a_word_has_proved_nothing() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        drop(write);
        let mut proof = Proof::coming(read, vec![enforced(Layer::DiskLimit)]);
        for _ in 0..2 {
            proof.settle().unwrap_err();
        }
    }
}

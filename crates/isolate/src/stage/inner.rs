//! Init on its way into the commands' namespaces, up to READY.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use sandshell_sys::{namespace, packet};

use super::{MAPPED, Own, Step, place_standard};
use crate::init::{self, InitOptions};
use crate::plan::SandboxPlan;
use crate::protocol::Event;
use crate::rootfs;

/// Runs init to its end; never returns.
pub(super) fn run(plan: &SandboxPlan, own: Own, trees: &[OwnedFd], socket: &OwnedFd) -> ! {
    let code = match enter(plan, own, trees, socket) {
        Ok(ready) => {
            let options = InitOptions {
                namespaced: true,
                ..InitOptions::default()
            };
            match init::serve(socket, &options, ready) {
                Ok(()) => 0,
                Err(_) => 125,
            }
        }
        Err(step) => {
            init::send(socket, &Event::Unfit(step));
            125
        }
    };
    std::process::exit(code)
}

fn enter(plan: &SandboxPlan, own: Own, trees: &[OwnedFd], socket: &OwnedFd) -> Result<Event, Step> {
    rootfs::enter(&plan.root, plan.ids, trees)?;
    for number in 0..3 {
        place_standard(number, None).map_err(Step::at("standard streams"))?;
    }
    // The launcher's, the stage's, the agent's: none of them is init's business.
    namespace::close_all_but(socket.as_fd());
    own.take_on(own.agent).map_err(Step::at("init's user"))?;
    if let Some(pids) = plan.pids {
        // Set before the user namespace is made, this is a ceiling over all users of the sandbox.
        let limit = Rlimit {
            current: Some(pids),
            maximum: Some(pids),
        };
        setrlimit(Resource::Nproc, limit).map_err(Step::at("the limit on processes"))?;
    }
    // Its id map is written from outside, which needs this for a moment.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(Step::at("dumpable"))?;
    namespace::unshare_cgroup_and_user().map_err(Step::at("the inner user namespace"))?;
    init::send(socket, &Event::NeedMap);
    await_map(socket).map_err(Step::at("init's ids"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Step::at("non-dumpable"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open("/", flags, Mode::empty()).map_err(Step::at("the root"))?;
    Ok(Event::Ready { root: Some(root) })
}

fn await_map(socket: &OwnedFd) -> Result<(), Errno> {
    let mut buffer = [0; 16];
    loop {
        match packet::receive(socket, &mut buffer) {
            Ok(Some((n, _))) if buffer.get(..n) == Some(MAPPED) => return Ok(()),
            Ok(_) => return Err(Errno::PIPE),
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(socket, PollFlags::IN)], None)?;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

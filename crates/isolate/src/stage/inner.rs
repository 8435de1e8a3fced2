//! Init on its way into the commands' namespaces, up to READY and the proof.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sandshell_sys::namespace;
use sandshell_sys::spawn::Identity;
use sandshell_types::Protection;

use super::leftovers::Leftovers;
use super::{MAPPED, Own, Step, await_word, hardening, pass_gates, place_standard};
use crate::harden::{self, Ceilings, Hardened};
use crate::init::{self, InitOptions};
use crate::launcher::Workshop;
use crate::limits::Joins;
use crate::plan::{Ids, SANDBOX_UID, SandboxPlan};
use crate::private::Standing;
use crate::probe::{self, Bait};
use crate::proof;
use crate::protocol::Event;
use crate::rootfs;

/// What init is given across the fork.
pub(super) struct Entrance<'a> {
    pub(super) workshop: &'a Workshop,
    pub(super) plan: &'a SandboxPlan,
    pub(super) own: Own,
    pub(super) trees: &'a [OwnedFd],
    pub(super) joins: &'a Joins,
    pub(super) ceilings: Ceilings,
    pub(super) channels: &'a OwnedFd,
    pub(super) socket: &'a OwnedFd,
}

/// Runs init to its end; never returns.
pub(super) fn run(entrance: &Entrance<'_>, prover: OwnedFd) -> ! {
    let socket = entrance.socket;
    let code = match enter(entrance, prover) {
        Ok(hardened) => {
            let options = InitOptions {
                namespaced: true,
                ..InitOptions::default()
            };
            match init::serve(socket, &options, Some(&hardened), Standing::Init, None) {
                Ok(()) => 0,
                Err(_) => 125,
            }
        }
        Err(step) => {
            init::tell(socket, &Event::Unfit(step));
            125
        }
    };
    std::process::exit(code)
}

fn enter<'a>(entrance: &'a Entrance<'a>, prover: OwnedFd) -> Result<Hardened<'a>, Step> {
    let Entrance {
        workshop,
        plan,
        own,
        trees,
        joins,
        ceilings,
        channels,
        socket,
    } = entrance;
    own.take_on(own.builder).map_err(Step::at("user ids"))?;
    Leftovers::of(plan.limits).bound_objects();
    rootfs::enter(&plan.root, &plan.hostname, plan.ids, trees)?;
    for number in 0..3 {
        place_standard(number).map_err(Step::at("standard streams"))?;
    }
    own.take_on(own.agent).map_err(Step::at("init's user"))?;
    ceilings.set().map_err(Step::at("its limits"))?;
    // Its id map is written from outside, which needs this for a moment.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(Step::at("dumpable"))?;
    enter_network(socket).map_err(Step::at("init's network"))?;
    join(joins).map_err(Step::at("the sandbox's groups"))?;
    namespace::unshare_user().map_err(Step::at("the inner user namespace"))?;
    init::tell(socket, &Event::NeedMap);
    await_word(socket, MAPPED).map_err(Step::at("init's ids"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Step::at("non-dumpable"))?;
    let bait = Bait::lay().map_err(Step::at("the probe"))?;
    let hardened = harden::on_init(&hardening(workshop, channels)).map_err(|error| Step {
        what: error.step.to_owned(),
        errno: error.errno,
    })?;
    // The launcher's, the stage's, the agent's: none of them is init's business.
    namespace::close_all_but(&[socket.as_fd(), prover.as_fd(), bait.as_fd()]);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open("/", flags, Mode::empty()).map_err(Step::at("the root"))?;
    // The agent goes on while it is proved; what it asks for meanwhile waits.
    let ready = Event::Ready {
        root: Some(root),
        protections: Vec::new(),
    };
    let told = ready.send(socket);
    told.map_err(Step::at("the ready message"))?;
    drop(ready);
    let seen = prove(workshop, plan.ids, &bait, &hardened);
    proof::tell(prover, &seen).map_err(Step::at("the proof"))?;
    Ok(hardened)
}

/// Has a child with a command's rights look around.
fn prove(workshop: &Workshop, ids: Ids, bait: &Bait, hardened: &Hardened<'_>) -> Vec<Protection> {
    let Some(outside) = &workshop.outside else {
        return Vec::new();
    };
    let user = match ids {
        Ids::Range(_) => Some(Identity {
            uid: SANDBOX_UID,
            gid: SANDBOX_UID,
            groups: Vec::new(),
        }),
        Ids::Own => None,
    };
    probe::run(outside, bait, user.as_ref(), hardened.rights(SANDBOX_UID))
}

/// Joins the sandbox's groups, around the making of the namespace that has them as its roots.
fn join(joins: &Joins) -> Result<(), Errno> {
    let write = |files: &[OwnedFd]| -> Result<(), Errno> {
        for file in files {
            rustix::io::write(file, b"0")?;
        }
        Ok(())
    };
    write(&joins.before_namespace)?;
    namespace::unshare_cgroup()?;
    write(&joins.after_namespace)
}

/// Goes where the stage has gone meanwhile.
fn enter_network(socket: &OwnedFd) -> Result<(), Errno> {
    let [network] = pass_gates(socket)?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
}

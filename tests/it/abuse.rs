//! Abuse from inside: an intruder is put into a sandbox and tries every door; scripts do what a
//! reviewer would try by hand. At each level of privilege the sandbox's own protections report is
//! held against a golden one, and no door may be open that plain bubblewrap keeps shut.
//!
//! The intruder is `src/bin/intruder`. It and everything it may find on the host (a process, a file,
//! sockets, shared memory) are the test's own.

mod bait;
mod container;
mod places;
mod private;
mod reports;

use std::collections::BTreeMap;

use bait::Bait;
use places::{Level, Place};

use crate::calls::{in_time, marker, skipped};

/// What the intruder said of a door: whether it is open, and what it saw.
type Findings = BTreeMap<String, (bool, String)>;

fn parse(text: &str) -> Findings {
    let lines = text.lines().map(|line| {
        let mut fields = line.splitn(3, '\t');
        let mut field = || fields.next().unwrap_or_else(|| panic!("odd line {line:?}"));
        let (name, verdict, detail) = (field(), field(), field());
        let open = match verdict {
            "open" => true,
            "shut" => false,
            other => panic!("odd verdict {other:?}"),
        };
        (name.to_owned(), (open, detail.to_owned()))
    });
    lines.collect()
}

fn open(findings: &Findings) -> Vec<String> {
    let open = findings.iter().filter(|(_, (open, _))| *open);
    open.map(|(name, (_, detail))| format!("{name}: {detail}"))
        .collect()
}

/// Doors and sights as they are from this place.
async fn explore(place: &Place, bait: &Bait) -> Findings {
    let mut found = parse(&place.intrude("doors").await);
    assert!(found.len() > 100, "the intruder was cut short: {found:?}");
    found.extend(parse(
        &place.intrude(&format!("sights {}", bait.words())).await,
    ));
    found
}

/// What is open on purpose, where, and why.
fn open_on_purpose(place: &Place) -> Vec<&'static str> {
    let mut open = Vec::new();
    if place.as_root() {
        // Its few capabilities, which reach no further than the sandbox's own user namespace.
        open.extend([
            "chroot",
            "setuid-root",
            "setgid-root",
            "setgroups-root",
            "securebits",
        ]);
    }
    if place.one_id() {
        // Init has the only id there is; its limits can be read, and that is all.
        open.push("prlimit-of-init");
    }
    open
}

async fn no_door_is_open(level: Level, user: Option<&'static str>) {
    let bait = Bait::lay();
    let place = match Place::sandbox(level, user) {
        Ok(place) => place.with_secret(bait.marker()),
        Err(why) => return skipped(&why),
    };
    let found = explore(&place, &bait).await;
    let on_purpose = open_on_purpose(&place);
    let unexpected: Vec<String> = open(&found)
        .into_iter()
        .filter(|line| {
            !on_purpose
                .iter()
                .any(|name| line.starts_with(&format!("{name}: ")))
        })
        .collect();
    assert!(unexpected.is_empty(), "open in {place:?}: {unexpected:#?}");
    bait.assert_untouched();

    let Ok(oracle) = Place::bubblewrap(level) else {
        return skipped("bubblewrap is not installed, so there is nothing to compare with");
    };
    let theirs = explore(&oracle, &bait).await;
    assert!(
        open(&theirs).len() > 20,
        "the intruder finds no way in where there are many: {theirs:#?}"
    );
    let weaker: Vec<_> = found
        .iter()
        .filter(|(name, (open, _))| *open && !on_purpose.contains(&name.as_str()))
        .filter(|(name, _)| theirs.get(*name).is_some_and(|(open, _)| !open))
        .collect();
    assert!(weaker.is_empty(), "bubblewrap is stronger: {weaker:#?}");
}

#[tokio::test]
async fn no_door_is_open_to_a_command_below_root() {
    no_door_is_open(Level::Root, None).await;
}

#[tokio::test]
async fn no_door_is_open_to_a_command_of_root_below_root() {
    no_door_is_open(Level::Root, Some("root")).await;
}

#[tokio::test]
async fn no_door_is_open_to_a_command_below_an_ordinary_user() {
    no_door_is_open(Level::User, None).await;
}

/// Two sandboxes of one maker have nothing in common.
#[tokio::test]
async fn a_sandbox_sees_nothing_of_another() {
    for level in [Level::Root, Level::User] {
        let (one, other) = match (Place::sandbox(level, None), Place::sandbox(level, None)) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(why), _) | (_, Err(why)) => {
                skipped(&why);
                continue;
            }
        };
        let (mut standing, words) = one.stand(&marker()).await;
        let found = parse(&other.intrude(&format!("sights {words}")).await);
        for name in [
            "host-process-cmdline",
            "host-file",
            "host-socket",
            "abstract-socket",
            "host-port",
            "host-port-listed",
        ] {
            let (open, detail) = &found[name];
            assert!(!open, "{name} of another sandbox: {detail}");
        }
        drop(standing.stdin.take());
        in_time(standing.wait()).await.unwrap();
    }
}

/// Each number from 0 to 600, once, with empty arguments. What gets through to the kernel answers as it
/// will; what does not is in the golden list. On another kernel than the list's a call may be missing,
/// or refused by that kernel too, but none may be let through that was refused.
#[tokio::test]
async fn every_system_call_is_answered_as_written() {
    let golden = include_str!("abuse/calls.txt");
    let (kernel, golden) = golden.split_once('\n').unwrap();
    let here = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let same_kernel = here.starts_with(kernel.trim_start_matches("# Linux "));
    for level in [Level::Root, Level::User] {
        let place = match Place::sandbox(level, None) {
            Ok(place) => place,
            Err(why) => {
                skipped(&why);
                continue;
            }
        };
        let swept = place.intrude("sweep").await;
        let found: Vec<String> = swept.lines().map(stopped_or_let_through).collect();
        assert_eq!(found.len(), 601);
        for (found, golden) in found.iter().zip(golden.lines()) {
            let by_ids = BY_IDS.iter().any(|name| found.contains(name));
            if found.ends_with(LET_THROUGH) || same_kernel && !by_ids {
                assert_eq!(found, golden, "on Linux {here}, in {place:?}");
            }
        }
    }
}

/// Refused by the kernel, or not, by which ids there are and who owns standard input.
#[rustfmt::skip]
const BY_IDS: &[&str] = &[
    "\tfchmod\t", "\tfchown\t", "\tsetgid\t", "\tsetregid\t", "\tsetresgid\t", "\tsetresuid\t",
    "\tsetreuid\t", "\tsetuid\t",
];
const LET_THROUGH: &str = "\tlet through";

/// A line of the sweep, without what only the kernel knows.
fn stopped_or_let_through(line: &str) -> String {
    let (call, answer) = line.rsplit_once('\t').unwrap();
    match answer {
        "EPERM" | "ENOSYS" | "EAFNOSUPPORT" => line.to_owned(),
        _ => format!("{call}{LET_THROUGH}"),
    }
}

/// Scripts, and all that they may print, as the sandbox's user and as its root.
const SCRIPTS: &[(&str, &str, &str)] = &[
    (
        "PID 1 does not hear signals",
        "for s in TERM KILL STOP INT SEGV; do kill -$s 1; done; echo still here",
        "still here\n",
    ),
    (
        "/proc stays, and shows this sandbox alone",
        "for i in 1 2 3; do umount /proc; umount -l /proc; done; \
         for p in /proc/[0-9]*; do cat $p/comm; done | sort -u | grep -vxE 'bash|cat|sort|grep|sandshell|exe'; echo end",
        "end\n",
    ),
    (
        "programs of other users give no rights",
        "before=$(id -u); for p in su sudo newgrp pkexec; do command -v $p >/dev/null && \
         $p -c 'id -u' nobody </dev/null 2>/dev/null | grep -vx \"$before\" | grep -x 0; done; echo end",
        "end\n",
    ),
    (
        "a crash leaves no core file",
        "cd /tmp && mkdir crash && cd crash; ulimit -c unlimited 2>/dev/null; ulimit -c; \
         bash -c 'kill -SEGV $$' 2>/dev/null; ls",
        "0\n",
    ),
    (
        "the host name stays",
        "before=$(cat /proc/sys/kernel/hostname); hostname evil; echo evil > /proc/sys/kernel/hostname; \
         [ \"$(cat /proc/sys/kernel/hostname)\" = \"$before\" ] && echo same",
        "same\n",
    ),
    (
        "mounts stay",
        "before=$(cat /proc/self/mountinfo); mount -t tmpfs none /tmp; mount --bind / /tmp; \
         mount -o remount,rw /proc/sys; mount -t proc proc /tmp; unshare -Urm true; \
         [ \"$(cat /proc/self/mountinfo)\" = \"$before\" ] && echo same",
        "same\n",
    ),
];

/// Whoever signals everybody reaches no further than the sandbox. Where there is one id, he reaches his
/// own keeper, and so himself.
#[tokio::test]
async fn a_signal_to_everybody_stays_inside() {
    let bait = Bait::lay();
    for (level, user) in [
        (Level::Root, None),
        (Level::Root, Some("root")),
        (Level::User, None),
    ] {
        let place = match Place::sandbox(level, user) {
            Ok(place) => place,
            Err(why) => {
                skipped(&why);
                continue;
            }
        };
        let script = "kill -9 -1; kill -9 -- -1; echo still here";
        let (said, errors) = place.run(script, &[]).await;
        if !place.one_id() {
            assert_eq!(said, "still here\n", "in {place:?}: {errors}");
        }
        bait.assert_untouched();
    }
}

#[tokio::test]
async fn scripts_of_abuse_come_to_nothing() {
    let users = [
        (Level::Root, None),
        (Level::Root, Some("root")),
        (Level::User, None),
    ];
    for (level, user) in users {
        let place = match Place::sandbox(level, user) {
            Ok(place) => place,
            Err(why) => {
                skipped(&why);
                continue;
            }
        };
        for (what, script, wanted) in SCRIPTS {
            let (said, errors) = place.run(script, &[]).await;
            assert_eq!(said, *wanted, "{what}, in {place:?}: {errors}");
        }
    }
}

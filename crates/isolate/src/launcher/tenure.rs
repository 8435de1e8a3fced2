//! What one launcher leaves to the next: the file that it holds for the hub, locked to its end.
//!
//! Its text says where groups of sandboxes were made, a line of JSON for each place. A hub that is started
//! anew from another login or unit is itself in other groups, and its sandboxes are still in theirs.
//!
//! Invariant: where the disk has room, a place is in the file before a sandbox is made there, and stays until it
//! is gone.

use std::os::fd::OwnedFd;

use rustix::fs::ftruncate;
use rustix::io::{Errno, pread, pwrite};

use crate::limits::{Parent, Whereabouts};
use crate::stage::Step;

/// Far more than there ever are; what does not fit is forgotten.
const LARGEST: usize = 64 * 1024;

/// Reads the places of earlier launchers, and adds ours.
pub(super) fn take_over(file: &OwnedFd, own: &Parent) -> Result<Vec<Parent>, Step> {
    let text = read(file).map_err(Step::at("the list of groups"))?;
    let own = own.whereabouts();
    // What was being written when its writer died is no line.
    let known = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let others: Vec<Whereabouts> = known.filter(|place| *place != own).collect();
    // Ours is the first, for what does not fit is at the end.
    let (mut lines, mut former) = (vec![own], Vec::new());
    for place in others {
        let found = Parent::at(&place).map_err(Step::at("a group of an earlier launcher"))?;
        if let Some(parent) = found {
            lines.push(place);
            former.push(parent);
        }
    }
    let now: String = lines
        .iter()
        .filter_map(|line| serde_json::to_string(line).ok())
        .map(|line| line + "\n")
        .collect();
    if now != text {
        // On a full disk sandboxes can still be used and ended; only a hub elsewhere would not find these groups.
        let _ = write(file, now.as_bytes());
    }
    Ok(former)
}

fn read(file: &OwnedFd) -> Result<String, Errno> {
    let mut text = vec![0; LARGEST];
    let mut filled = 0;
    while let Some(room) = text.get_mut(filled..).filter(|room| !room.is_empty()) {
        match pread(file, room, filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    text.truncate(filled);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write(file: &OwnedFd, text: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while let Some(rest) = text.get(written..).filter(|rest| !rest.is_empty()) {
        match pwrite(file, rest, written as u64) {
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    ftruncate(file, text.len() as u64)
}

//! Messages between hub, launcher, agent and init.

use std::os::fd::{AsFd as _, OwnedFd};

use sandshell_isolate::launcher::wish_of;
use sandshell_isolate::probe;
use sandshell_isolate::{Event, SpawnRequest};
use sandshell_sys::packet;

use crate::input::Input;

/// A request that is taken is the same when it is sent on, and is not larger than what came.
pub(crate) fn spawn_request(data: &[u8]) {
    if let Ok(request) = SpawnRequest::decode(data) {
        let encoded = request.encode();
        assert!(encoded.len() <= data.len());
        assert_eq!(SpawnRequest::decode(&encoded).unwrap(), request);
    }
    if let Ok(protections) = probe::decode(data) {
        let encoded = probe::encode(&protections);
        assert_eq!(probe::decode(&encoded).unwrap(), protections);
    }
    if let Some(wish) = wish_of(data) {
        assert_eq!(wish_of(&wish), Some(wish));
    }
}

/// What an event says, without the numbers of its descriptors.
fn said(event: &Event) -> String {
    match event {
        Event::Spawned {
            id, pid, keeper, ..
        } => format!("spawned {id} {pid} {}", keeper.is_some()),
        Event::Ready { root, protections } => format!("ready {} {protections:?}", root.is_some()),
        other => format!("{other:?}"),
    }
}

/// Packets on init's socket, with any descriptors: taken or refused on both sides, and the same when sent on.
pub(crate) fn init_socket(data: &[u8]) {
    let mut input = Input(data);
    let count = usize::from(input.byte() % 4);
    let (ours, theirs) = packet::pair().unwrap();
    let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let fds = vec![null.as_fd(); count];
    let bytes = &input.0[..input.0.len().min(4096)];
    let mut buffer = vec![0; 8192];
    packet::send(&ours, bytes, &fds).unwrap();
    let _ = SpawnRequest::receive(&theirs, &mut buffer);
    packet::send(&ours, bytes, &fds).unwrap();
    let Ok(Some(event)) = Event::receive(&theirs) else {
        return;
    };
    event.send(&ours).unwrap();
    // A report with text that was put right may have become too long for a packet.
    if let Ok(Some(again)) = Event::receive(&theirs) {
        assert_eq!(said(&again), said(&event));
    }
}

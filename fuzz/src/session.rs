//! Sessions: what a shell says on its pipe, the states it saves, and what can be said of a command's text.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::{Command, Stdio};

use sandshell_exec::fuzzing::{
    MESSAGE_MAX, Said, leaves_state_alone, session_message, session_state, suits_waiting_shell,
    through_text,
};

use crate::input::Input;

fn messages(pieces: &[&[u8]]) -> Vec<Said> {
    let mut incoming = Vec::new();
    let mut said = Vec::new();
    for piece in pieces {
        incoming.extend_from_slice(piece);
        while let Some(message) = session_message(&mut incoming) {
            said.push(message);
        }
        assert!(incoming.len() <= MESSAGE_MAX, "a flood is kept");
    }
    said
}

/// The same by the rules alone: fields that a NUL ends, one for a saved state, three for an end.
fn expected(bytes: &[u8]) -> Vec<Said> {
    let mut fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    fields.pop();
    let number = |field: &[u8]| -> Option<u64> { std::str::from_utf8(field).ok()?.parse().ok() };
    let mut said = Vec::new();
    let mut rest = fields.as_slice();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            [b's', seq @ ..] => said.extend(number(seq).map(Said::Saved)),
            [b'n', seq @ ..] => said.extend(number(seq).map(Said::NotSaved)),
            [b'd', seq @ ..] => {
                let [status, cwd, after @ ..] = rest else {
                    break;
                };
                rest = after;
                let cwd = String::from_utf8_lossy(cwd).into_owned();
                let ended = number(seq).zip(number(status));
                said.extend(ended.map(|(seq, status)| Said::Done(seq, status as i32, cwd)));
            }
            _ => {}
        }
    }
    said
}

/// Messages are read the same however they arrive, and as the rules say.
pub(crate) fn messages_of_a_shell(data: &[u8]) {
    let (whole, pieces) = Input(data).pieces();
    let said = messages(&[whole]);
    assert_eq!(said, messages(&pieces));
    assert_eq!(said, expected(whole));
}

/// No byte of a state is changed on its way, and no script has a NUL, which no shell can read.
pub(crate) fn saved_state(data: &[u8]) {
    assert_eq!(through_text(data), data);
    for bash in [true, false] {
        if let Some(script) = session_state(data, bash) {
            assert!(!script.contains(&0));
            assert!(script.len() <= 16 * 1024 + 8 * data.len());
        }
    }
}

/// What is promised of a text, bash itself says: of every sixteenth, for it takes a millisecond.
pub(crate) fn command_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = leaves_state_alone(text);
    if !suits_waiting_shell(text) || text.contains('\0') {
        return;
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    if !hasher.finish().is_multiple_of(16) {
        return;
    }
    // It reads and runs nothing.
    let read = Command::new("bash")
        .args(["-n", "-c", "--", text])
        .env_clear()
        .stdin(Stdio::null())
        .output();
    if let Ok(read) = read {
        assert!(read.status.success(), "{text:?}: {read:?}");
    }
}

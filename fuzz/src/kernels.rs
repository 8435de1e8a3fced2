//! Code interpreters: the channel of drivers, and the wire of Jupyter kernels.

use bytes::{Bytes, BytesMut};
use sandshell_contexts::fuzzing::{
    driver_message, driver_message_of, kernel_frame, kernel_frame_of, kernel_message,
    kernel_message_of,
};
use serde_json::json;

use crate::input::Input;

fn driver_messages(pieces: &[&[u8]]) -> (Vec<Vec<String>>, bool) {
    let mut buffer = BytesMut::new();
    let mut read = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match driver_message(&mut buffer) {
                Ok(Some(message)) => read.push(message),
                Ok(None) => break,
                Err(_) => return (read, false),
            }
        }
    }
    (read, true)
}

/// Messages are read the same however they arrive; one that was read is written as it came.
pub(crate) fn driver(data: &[u8]) {
    let (whole, pieces) = Input(data).pieces();
    let read = driver_messages(&[whole]);
    assert_eq!(read, driver_messages(&pieces));
    let mut rest = whole;
    for message in read.0 {
        let words: Vec<&str> = message.iter().map(String::as_str).collect();
        let written = driver_message_of(&words);
        let lossy = words.iter().any(|word| word.contains('\u{fffd}'));
        assert!(lossy || rest.starts_with(&written));
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        rest = &rest[4 + length..];
    }
}

fn kernel_frames(pieces: &[&[u8]]) -> (Vec<(u8, Bytes)>, bool) {
    let mut buffer = BytesMut::new();
    let mut read = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match kernel_frame(&mut buffer) {
                Ok(Some(frame)) => read.push(frame),
                Ok(None) => break,
                Err(_) => return (read, false),
            }
        }
    }
    (read, true)
}

/// The same for frames of a kernel. A message that nobody signed is none.
pub(crate) fn kernel(data: &[u8]) {
    let (whole, pieces) = Input(data).pieces();
    let (frames, right) = kernel_frames(&[whole]);
    assert_eq!((frames.clone(), right), kernel_frames(&pieces));
    for (flags, body) in &frames {
        let mut again = BytesMut::from(&kernel_frame_of(flags & !2, body)[..]);
        let (now, same) = kernel_frame(&mut again).unwrap().unwrap();
        assert_eq!((now & !2, &same), (flags & !2, body));
        assert!(again.is_empty());
    }
    let bodies: Vec<Bytes> = frames.into_iter().map(|(_, body)| body).collect();
    assert_eq!(kernel_message("key", &bodies), None, "nobody has signed it");

    let content = json!({ "code": String::from_utf8_lossy(whole) });
    let mut sealed = kernel_message_of("key", "execute_request", &content);
    let opened = kernel_message("key", &sealed).unwrap();
    assert_eq!((opened.0.as_str(), opened.2), ("execute_request", content));
    assert_eq!(kernel_message("other", &sealed), None);
    let at = whole.len() % sealed.len();
    if !whole.is_empty() && sealed[at] != whole {
        sealed[at] = Bytes::copy_from_slice(whole);
        assert_eq!(
            kernel_message("key", &sealed),
            None,
            "part {at} was changed"
        );
    }
}

//! Placeholder.
pub fn sse(data: &[u8]) { let mut p = sandshell_client::SseParser::default(); p.push(data); while let Some(e) = p.next_event() { if e.event == "abcdefghij" { panic!() } } }

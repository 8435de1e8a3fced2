//! Text from bytes that arrive in pieces.

/// Turns pieces of one stream into text: a character cut in two waits for its rest.
#[derive(Debug, Default)]
pub(crate) struct Text {
    begun: Vec<u8>,
    changed: bool,
}

impl Text {
    /// The text of what has arrived, but for a character that has only begun.
    pub(crate) fn push(&mut self, piece: &[u8]) -> String {
        self.begun.extend_from_slice(piece);
        let whole = self.begun.len() - unfinished(&self.begun);
        let rest = self.begun.split_off(whole);
        self.read(rest)
    }

    /// What is left at the end of the stream.
    pub(crate) fn end(&mut self) -> String {
        self.read(Vec::new())
    }

    /// Whether anything was no text, and stands in it as U+FFFD.
    pub(crate) fn changed(&self) -> bool {
        self.changed
    }

    fn read(&mut self, rest: Vec<u8>) -> String {
        let whole = std::mem::replace(&mut self.begun, rest);
        String::from_utf8(whole).unwrap_or_else(|error| {
            self.changed = true;
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        })
    }
}

/// What is said of bytes for which a reader came too late.
pub(crate) fn lost(bytes: u64) -> String {
    format!("{bytes} bytes of output are no longer kept")
}

/// The same where it stands in their place, lest what is around be taken for all there was.
pub(crate) fn gap(bytes: u64) -> String {
    format!("[{}]\n", lost(bytes))
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let begins = |length: &usize| {
        let end = &bytes[bytes.len() - length..];
        std::str::from_utf8(end)
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=bytes.len().min(3)).find(begins).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_give_the_whole_text() {
        let text = "aé€😀b\u{0}ü";
        for size in 1..=text.len() {
            let mut pieces = Text::default();
            let mut got = String::new();
            for piece in text.as_bytes().chunks(size) {
                got += &pieces.push(piece);
            }
            got += &pieces.end();
            assert_eq!(got, text, "{size}");
        }
    }

    #[test]
    fn what_is_no_text_is_not_held_back() {
        let mut pieces = Text::default();
        assert_eq!(pieces.push(b"a\xff"), "a\u{fffd}");
        assert_eq!(pieces.push(b"\x80\x80"), "\u{fffd}\u{fffd}");
        assert_eq!(pieces.push(b"b\xe2\x82"), "b");
        assert_eq!(pieces.push(b"c"), "\u{fffd}c");
        assert_eq!(pieces.push(b"\xf0"), "");
        assert_eq!(pieces.end(), "\u{fffd}");
    }
}

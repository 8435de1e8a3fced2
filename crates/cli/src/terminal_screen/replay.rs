//! What a program wrote before we came, without what it asked its terminal: those questions have been answered,
//! and a second answer would be typed at whoever reads next.
//!
//! ```text
//! Text ── ESC ──► Escape ── [ ──► Control ── a last letter ──► Text   (kept, unless it asks)
//!                    └─ ] P ^ _ X ──► Words ── BEL or ST ──► Text     (kept, unless it asks)
//! ```

/// Longest sequence that is looked at; a longer one asks nothing.
const LONGEST: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    Escape,
    Control,
    Words,
}

/// The bytes up to where we came.
#[derive(Debug)]
pub struct Replay {
    left: u64,
    state: State,
    /// The sequence so far.
    held: Vec<u8>,
}

impl Replay {
    /// Of this many bytes; all that come after them pass as they are.
    pub fn of(bytes: u64) -> Self {
        Self {
            left: bytes,
            state: State::Text,
            held: Vec::new(),
        }
    }

    /// What is to be shown of these bytes.
    pub fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        let old = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (old, new) = bytes.split_at(old.min(bytes.len()));
        self.left -= old.len() as u64;
        let mut shown = Vec::with_capacity(bytes.len());
        for byte in old {
            self.take(*byte, &mut shown);
        }
        if self.left == 0 {
            // One that is not complete is asked when it is, and that is ours to answer.
            shown.append(&mut self.held);
            self.state = State::Text;
        }
        shown.extend_from_slice(new);
        shown
    }

    fn take(&mut self, byte: u8, shown: &mut Vec<u8>) {
        const ENQ: u8 = 5;
        const BEL: u8 = 7;
        const ESC: u8 = 0x1b;
        if self.state == State::Text {
            match byte {
                ESC => {
                    self.state = State::Escape;
                    self.held.push(byte);
                }
                ENQ => {}
                _ => shown.push(byte),
            }
            return;
        }
        self.held.push(byte);
        let over = match self.state {
            State::Escape => match byte {
                b'[' => {
                    self.state = State::Control;
                    false
                }
                b']' | b'P' | b'^' | b'_' | b'X' => {
                    self.state = State::Words;
                    false
                }
                // Those of two or three characters: the last one is no blank.
                b' '..=b'/' => false,
                _ => true,
            },
            State::Control => (0x40..=0x7e).contains(&byte),
            _ => byte == BEL || self.held.ends_with(b"\x1b\\"),
        };
        if !over && self.held.len() < LONGEST {
            return;
        }
        if over && asks(&self.held) {
            self.held.clear();
        } else {
            shown.append(&mut self.held);
        }
        self.state = State::Text;
    }
}

/// Whether a terminal answers this sequence.
fn asks(sequence: &[u8]) -> bool {
    let body = sequence.get(1..).unwrap_or_default();
    match body {
        b"Z" => true,
        [b'[', rest @ ..] => match rest {
            // What are you, where is the cursor, is this mode set; your version, the state of the keyboard.
            [.., b'c' | b'n'] | [.., b'$', b'p'] | [b'>', .., b'q'] | [b'?', .., b'u'] => true,
            // Sizes and titles; the two that keep a title and give it back ask nothing.
            [b'1' | b'2', b'0'..=b'9', .., b't'] => {
                !rest.starts_with(b"22") && !rest.starts_with(b"23")
            }
            _ => false,
        },
        // A colour, the clipboard.
        [b']', rest @ ..] => rest.windows(2).any(|pair| pair == b";?"),
        // A setting, a capability.
        [b'P', rest @ ..] => rest.starts_with(b"$q") || rest.starts_with(b"+q"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces of every size.
    fn shown(old: u64, bytes: &[u8]) -> String {
        let mut whole = Vec::new();
        for size in 1..=bytes.len() {
            let mut replay = Replay::of(old);
            let got: Vec<u8> = bytes
                .chunks(size)
                .flat_map(|piece| replay.filter(piece))
                .collect();
            assert!(whole.is_empty() || whole == got, "pieces of {size}");
            whole = got;
        }
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn questions_of_before_are_left_out_and_all_else_stays() {
        let plain = "a\x1b[1;31mb\x1b[0m\x1b]0;title\x07\x1b(B\x1b[?2004h\x1b[22;0t\x1b[6 q\r\n";
        let asking = "\x1b[c\x1b[>c\x1b[6n\x1b[?1$p\x1b[>0q\x1b[?u\x1b[18t\x05\x1b]11;?\x1b\\\x1bP+q436f\x1b\\";
        let all = format!("{plain}{asking}{plain}");
        let length = all.len() as u64;
        assert_eq!(shown(length, all.as_bytes()), format!("{plain}{plain}"));
        assert_eq!(shown(0, all.as_bytes()), all);
        // Only those before.
        let late = format!("{all}\x1b[6n");
        assert_eq!(
            shown(length, late.as_bytes()),
            format!("{plain}{plain}\x1b[6n")
        );
    }

    #[test]
    fn one_that_was_not_complete_is_ours_to_answer() {
        assert_eq!(shown(3, b"x\x1b[6n"), "x\x1b[6n");
    }
}

//! The keys that leave a terminal without ending it, found among what is typed.

use std::str::FromStr;

/// A sequence of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(Vec<u8>);

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = |word: &str| {
            let mut rest = word.strip_prefix("ctrl-").unwrap_or(word).bytes();
            let (first, more) = (rest.next(), rest.next());
            match (first, more) {
                (Some(key), None) if word.starts_with("ctrl-") => {
                    let upper = key.to_ascii_uppercase();
                    (b'@'..=b'_').contains(&upper).then_some(upper & 0x1f)
                }
                (Some(key @ b' '..=b'~'), None) => Some(key),
                _ => None,
            }
        };
        text.split(',')
            .map(|word| key(word).ok_or_else(|| format!("{word:?} is not a key")))
            .collect::<Result<Vec<u8>, String>>()
            .map(Self)
    }
}

/// Holds back what may be the beginning of the keys.
pub struct Detach {
    keys: Keys,
    /// How many of the keys were typed.
    matched: usize,
}

impl Detach {
    pub fn new(keys: Keys) -> Self {
        Self { keys, matched: 0 }
    }

    /// What is to be passed on of what was typed, and whether the keys were complete.
    pub fn filter(&mut self, typed: &[u8]) -> (Vec<u8>, bool) {
        let keys = &self.keys.0;
        let mut pass = Vec::with_capacity(typed.len() + keys.len());
        for &byte in typed {
            while self.matched > 0 && keys.get(self.matched) != Some(&byte) {
                // It was not them: what was held back goes on, but for what may begin them anew.
                let held = keys.get(..self.matched).unwrap_or_default();
                let keep = (0..self.matched)
                    .rev()
                    .find(|&n| keys.get(..n) == held.get(self.matched - n..))
                    .unwrap_or(0);
                pass.extend_from_slice(held.get(..self.matched - keep).unwrap_or_default());
                self.matched = keep;
            }
            if keys.get(self.matched) == Some(&byte) {
                self.matched += 1;
                if self.matched == keys.len() {
                    self.matched = 0;
                    return (pass, true);
                }
            } else {
                pass.push(byte);
            }
        }
        (pass, false)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn typed(keys: &str, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut detach = Detach::new(keys.parse().unwrap());
        let mut all = Vec::new();
        for piece in pieces {
            let (pass, left) = detach.filter(piece);
            all.extend(pass);
            if left {
                return (all, true);
            }
        }
        (all, false)
    }

    #[test]
    fn the_keys_leave_and_all_else_passes() {
        let usual = "ctrl-p,ctrl-q";
        assert_eq!(typed(usual, &[b"ls\n\x10\x11"]), (b"ls\n".to_vec(), true));
        assert_eq!(typed(usual, &[b"a\x10", b"\x11b"]), (b"a".to_vec(), true));
        assert_eq!(
            typed(usual, &[b"\x10\x10", b"x"]),
            (b"\x10\x10x".to_vec(), false)
        );
        assert_eq!(typed(usual, &[b"\x10\x10\x11"]), (b"\x10".to_vec(), true));
        assert_eq!(typed("a,a,b", &[b"aaab"]), (b"a".to_vec(), true));
        assert_eq!(typed("~,.", &[b"x~.y"]), (b"x".to_vec(), true));
    }

    #[test]
    fn keys_are_named() {
        assert_eq!("ctrl-@,ctrl-_,x".parse(), Ok(Keys(vec![0, 0x1f, b'x'])));
        for bad in ["", "ctrl-", "ctrl-ab", "ab", "ctrl-1", "é"] {
            assert!(bad.parse::<Keys>().is_err(), "{bad}");
        }
    }
}

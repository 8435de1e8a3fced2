//! The token of an agent: read from its file, or made.
//!
//! Owns the form of a token and the care with which its file is made: never readable by others, never
//! half written, never replaced. A [`Token`] does not show itself in debug output.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file could not be read.
    #[error("cannot read the token file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be made.
    #[error("cannot make the token file {path}")]
    Make {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is in the file is not a token.
    #[error("the token file {path} does not hold one line of visible ASCII characters")]
    Form {
        /// The file.
        path: PathBuf,
    },
    /// The system gives no random bytes.
    #[error("no random bytes for a token: {0}")]
    Random(getrandom::Error),
}

impl TokenError {
    /// What to do about it, when there is something to say.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Read { .. } | Self::Make { .. } => {
                "see that its directory is there and ours, or choose another file with --token-file FILE"
            }
            Self::Form { .. } => "remove the file to have a fresh token made",
            Self::Random(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// A secret that opens the API.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A fresh token: `sk_` and 64 hexadecimal digits.
    pub fn generate() -> Result<Self, TokenError> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(TokenError::Random)?;
        let mut text = String::with_capacity(67);
        text.push_str("sk_");
        for byte in random {
            for digit in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(u32::from(digit), 16));
            }
        }
        Ok(Self(text))
    }

    /// A token from text; `None` when it could not stand in a header.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let fine = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        fine.then(|| Self(text.to_owned()))
    }

    /// Reads the file, or makes it with a fresh token when there is none.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        // A secret is not left about.
        crate::ready::clear_beside(path);
        match read(path) {
            Err(TokenError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let token = Self::generate()?;
        match make(path, &token) {
            Ok(()) => Ok(token),
            // Somebody else was quicker: theirs it is.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
            Err(source) => Err(TokenError::Make {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn read(path: &Path) -> Result<Token, TokenError> {
    let error = |source| TokenError::Read {
        path: path.to_owned(),
        source,
    };
    let text = std::fs::read_to_string(path).map_err(error)?;
    let mode = std::fs::metadata(path).map_err(error)?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others can read the token file; chmod 600 it");
    }
    Token::parse(&text).ok_or_else(|| TokenError::Form {
        path: path.to_owned(),
    })
}

/// Writes beside the file, then moves into place without replacing, so that no reader sees half.
fn make(path: &Path, token: &Token) -> io::Result<()> {
    let beside = crate::ready::beside(path);
    let _ = std::fs::remove_file(&beside);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let done = writeln!(file, "{}", token.reveal())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::hard_link(&beside, path));
    let _ = std::fs::remove_file(&beside);
    done
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_private_file_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let made = Token::from_file(&path).unwrap();
        assert_eq!(made.reveal().len(), 67);
        assert!(made.reveal().starts_with("sk_"));
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(Token::from_file(&path).unwrap(), made);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn reads_what_is_there_without_its_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "mine\n").unwrap();
        assert_eq!(Token::from_file(&path).unwrap().reveal(), "mine");
    }

    #[test]
    fn refuses_what_is_no_token_and_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for wrong in ["", "\n", "a b", "ä"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(
                matches!(Token::from_file(&path), Err(TokenError::Form { .. })),
                "{wrong:?}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wrong);
        }
        let nowhere = dir.path().join("no/token");
        assert!(matches!(
            Token::from_file(&nowhere),
            Err(TokenError::Make { .. })
        ));
    }

    #[test]
    fn does_not_show_itself() {
        let token = Token::parse("sk_1").unwrap();
        assert!(!format!("{token:?}").contains("sk_1"));
    }

    #[test]
    fn makes_one_token_for_many_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let first = Token::from_file(&path).unwrap();
        assert_eq!(
            make(&path, &Token::generate().unwrap()).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(Token::from_file(&path).unwrap(), first);
    }
}

//! Identifiers of everything that can be made.
//!
//! A client may choose an id, which makes a create safe to retry. Ours are a prefix and a `UUIDv7`,
//! so that they sort by age.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The string has no characters.
    #[error("an id must have at least one character")]
    Empty,
    /// The string is longer than 64 characters.
    #[error("an id has at most 64 characters, this one has {0}")]
    TooLong(usize),
    /// A character outside the allowed set.
    #[error(
        "an id is made of letters, digits, '.', '_' and '-' and starts with a letter or digit; found {0:?}"
    )]
    BadCharacter(char),
}

fn check(id: &str) -> Result<(), IdError> {
    let first = id.chars().next().ok_or(IdError::Empty)?;
    if !first.is_ascii_alphanumeric() {
        return Err(IdError::BadCharacter(first));
    }
    if let Some(bad) = id
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
    {
        return Err(IdError::BadCharacter(bad));
    }
    if id.len() > 64 {
        return Err(IdError::TooLong(id.len()));
    }
    Ok(())
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
        )]
        #[serde(try_from = "String", into = "String")]
        #[schema(value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
        pub struct $name(String);

        impl $name {
            /// A fresh id that no one else has.
            pub fn generate() -> Self {
                Self(format!(concat!($prefix, "{}"), uuid::Uuid::now_v7().simple()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                check(s).map(|()| Self(s.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(s: String) -> Result<Self, IdError> {
                check(&s).map(|()| Self(s))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id_type!(
    /// A process, or an `exec`, which is a process too.
    ProcessId,
    "proc_"
);
id_type!(
    /// A persistent shell.
    SessionId,
    "sess_"
);
id_type!(
    /// One command run in a session.
    CommandId,
    "cmd_"
);
id_type!(
    /// A terminal.
    TerminalId,
    "term_"
);
id_type!(
    /// A saved directory tree.
    BackupId,
    "bak_"
);
id_type!(
    /// A code interpreter that keeps its state.
    ContextId,
    "ctx_"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_the_contract_allows() {
        for good in [
            "a",
            "0",
            "a.b-c_d",
            &"x".repeat(64),
            ProcessId::generate().as_str(),
        ] {
            assert!(good.parse::<ProcessId>().is_ok(), "{good}");
        }
    }

    #[test]
    fn refuses_the_rest_with_the_reason() {
        assert_eq!("".parse::<SessionId>(), Err(IdError::Empty));
        assert_eq!("a/b".parse::<SessionId>(), Err(IdError::BadCharacter('/')));
        assert_eq!(".a".parse::<SessionId>(), Err(IdError::BadCharacter('.')));
        assert_eq!(
            "x".repeat(65).parse::<SessionId>(),
            Err(IdError::TooLong(65))
        );
        assert_eq!("é".parse::<SessionId>(), Err(IdError::BadCharacter('é')));
    }
}

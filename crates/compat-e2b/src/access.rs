//! The right to one sandbox: its access token, and signatures of files made with it.
//!
//! A token is `e2bs_`, when its sandbox was made, the sandbox's id and a keyed hash of both. So the one who has
//! the key knows a right one without keeping any, also of a sandbox that is no more, and a token of an
//! earlier sandbox does not open a later one with the same id.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Method;
use jiff::Timestamp;
use sandshell_client::types::SandboxRecord;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::query::pairs;

const PREFIX: &str = "e2bs_";

/// What a signature begins with.
const SIGNED: &str = "v1_";

/// Letters of a digest.
const DIGEST: usize = 43;

/// What the tokens of all sandboxes of a hub are made with.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").finish_non_exhaustive()
    }
}

impl Key {
    /// A key of these bytes, which nobody else knows.
    pub fn new(secret: impl Into<Vec<u8>>) -> Self {
        Self(secret.into())
    }

    /// The token of a sandbox.
    #[must_use]
    pub fn token_of(&self, sandbox: &SandboxRecord) -> String {
        self.token(sandbox.id.as_str(), sandbox.created_at.as_microsecond())
    }

    fn token(&self, id: &str, made: i64) -> String {
        // A key of any length will do, so this cannot fail.
        let digest = Hmac::<Sha256>::new_from_slice(&self.0)
            .map(|mac| mac.chain_update(format!("envd {id} {made}")))
            .map(|mac| mac.finalize().into_bytes())
            .unwrap_or_default();
        let mut token = format!("{PREFIX}{made:x}_{id}_");
        for byte in digest {
            token.push_str(&format!("{byte:02x}"));
        }
        token
    }

    /// When the sandbox of this id was made that this is the token of; `None` when it is the token of none.
    #[must_use]
    pub fn opens(&self, id: &str, shown: &str) -> Option<Opens> {
        let (made, _) = shown.strip_prefix(PREFIX)?.split_once('_')?;
        let made = i64::from_str_radix(made, 16).ok()?;
        let right = self.token(id, made);
        bool::from(right.as_bytes().ct_eq(shown.as_bytes())).then_some(Opens(made))
    }

    /// Whether a request for a file of the sandbox of this id, made at this time, is signed as it must be.
    #[must_use]
    pub fn signed(&self, id: &str, made: Timestamp, signature: &Signature<'_>) -> bool {
        signature.is_right(&self.token(id, made.as_microsecond()))
    }
}

/// The id in what looks like a token.
#[must_use]
pub fn named_in(shown: &str) -> Option<&str> {
    let mut parts = shown.strip_prefix(PREFIX)?.split('_').skip(1);
    parts.next()
}

/// The sandbox that a token opens, by the time of its making.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opens(i64);

impl Opens {
    /// Whether it is the one made at this time.
    #[must_use]
    pub fn is(self, made: Timestamp) -> bool {
        self.0 == made.as_microsecond()
    }
}

/// A name of the query that may stand there once stands there again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Twice(&'static str);

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} stands twice in the query of a signed file", self.0)
    }
}

/// What the address of a signed file says.
#[derive(Debug)]
pub struct Signature<'a> {
    path: String,
    operation: &'a str,
    user: String,
    until: Option<String>,
    shown: String,
}

impl Signature<'_> {
    /// The signature of a request, if it has one. What it is for stands in the query once: nobody can take
    /// another file of it than the one that was signed.
    pub fn of(method: &Method, query: &str) -> Result<Option<Self>, Twice> {
        let once = |name: &'static str| {
            let mut found = pairs(query).filter(|(given, _)| given == name);
            let first = found.next().map(|(_, value)| value);
            found.next().map_or(Ok(first), |_| Err(Twice(name)))
        };
        let path = once("path")?.unwrap_or_default();
        let user = once("username")?.unwrap_or_default();
        let until = once("signature_expiration")?;
        let shown = once("signature")?.filter(|shown| !shown.is_empty());
        let write = *method == Method::POST;
        Ok(shown.map(|shown| Signature {
            path,
            operation: if write { "write" } else { "read" },
            user,
            until,
            shown,
        }))
    }

    /// Whether it can be one at all.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        let digest = self.shown.strip_prefix(SIGNED);
        digest.is_some_and(|digest| digest.len() == DIGEST)
    }

    /// Whether it still holds.
    #[must_use]
    pub fn is_in_time(&self) -> bool {
        let over = |until: &String| {
            let until: Option<i64> = until.parse().ok();
            until.is_none_or(|until| until < Timestamp::now().as_second())
        };
        !self.until.as_ref().is_some_and(over)
    }

    fn is_right(&self, token: &str) -> bool {
        let mut text = format!("{}:{}:{}:{token}", self.path, self.operation, self.user);
        if let Some(until) = &self.until {
            text = format!("{text}:{until}");
        }
        let right = STANDARD_NO_PAD.encode(Sha256::digest(text));
        let shown = self.shown.strip_prefix(SIGNED).unwrap_or_default();
        bool::from(right.as_bytes().ct_eq(shown.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_its_sandbox_alone() {
        let key = Key::new(*b"secret");
        let token = key.token("box", 17);
        assert_eq!(key.opens("box", &token), Some(Opens(17)));
        assert_eq!(key.opens("other", &token), None);
        assert_eq!(Key::new(*b"another").opens("box", &token), None);
        let later = token.replace("e2bs_11_", "e2bs_12_");
        assert_eq!(key.opens("box", &later), None);
        assert_eq!(key.opens("box", "e2bs_"), None);
        assert_eq!(named_in(&token), Some("box"));
        assert_eq!(named_in("sk_a_b"), None);
    }

    #[test]
    fn a_signature_is_for_one_file_one_way_and_one_time() {
        // By the client's own arithmetic.
        let digest = Sha256::digest("a b.txt:read::token:99999999999");
        let signature = STANDARD_NO_PAD.encode(digest).replace('+', "%2B");
        let of = |query: &str| Signature::of(&Method::GET, query).unwrap();
        let rest = format!("signature=v1_{signature}&signature_expiration=99999999999");
        let right = of(&format!("path=a%20b.txt&{rest}")).unwrap();
        assert!(right.is_right("token") && right.is_in_time() && right.is_well_formed());
        assert!(!right.is_right("other"));
        assert!(!of(&format!("path=c.txt&{rest}")).unwrap().is_right("token"));
        let written = Signature::of(&Method::POST, &format!("path=a%20b.txt&{rest}"));
        assert!(!written.unwrap().unwrap().is_right("token"));
        let old = of("path=a&signature=v1_x&signature_expiration=1").unwrap();
        assert!(!old.is_in_time() && !old.is_well_formed());
        assert!(of("path=a").is_none());
    }

    #[test]
    fn what_is_signed_stands_in_the_query_once() {
        for (name, again) in [
            ("path", "path=/etc/shadow&path=a"),
            ("path", "path=a&%70ath=/etc/shadow"),
            ("username", "path=a&username=root&username="),
            ("signature", "path=a&signature=v1_y"),
            (
                "signature_expiration",
                "signature_expiration=1&signature_expiration=2",
            ),
        ] {
            let query = format!("{again}&signature=v1_x");
            let found = Signature::of(&Method::GET, &query);
            assert_eq!(found.map(drop), Err(Twice(name)), "{query}");
        }
    }
}

//! Previews: ports of sandboxes under names of their own, `{port}-{sandbox}-{token}.{domain}`.
//!
//! Owns the form of the names, their signatures and what they are signed with. A name is its own
//! right: whoever has it reaches that one port until it expires or the port's previews are revoked.
//!
//! The token is 16 characters of base 32, as a DNS label has 63 and a sandbox's id may take 40: five
//! for the minute in which it expires, eleven (55 bits) of an HMAC-SHA-256 over port, sandbox and that
//! minute. The key is random for each port and kept with the records, so that names outlive the hub,
//! and go with the sandbox.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Request, header};
use sandshell_agent::parts::ApiError;
use sandshell_types::{ErrorCode, Preview, Timestamp};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::audit;
use crate::backend::Place;
use crate::error::HubError;
use crate::sandbox::{By, Sandbox};
use crate::store::{Change, Exposure, Store};

/// How long a name lasts that says nothing else.
const DEFAULT_TTL: Duration = Duration::from_hours(1);

/// How long one lasts at most.
const LONGEST_TTL: Duration = Duration::from_hours(24 * 365);

/// Ports of one sandbox that have previews.
const MOST_PORTS: usize = 256;

/// Minutes are counted from the beginning of 2025, in seconds of the Unix clock.
const EPOCH: i64 = 1_735_689_600;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const EXPIRY_DIGITS: usize = 5;
const MAC_DIGITS: usize = 11;

/// The domain below which the names are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewDomain {
    scheme: &'static str,
    /// Lower-case, without a port.
    name: String,
    port: Option<u16>,
}

impl FromStr for PreviewDomain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => ("http", rest),
            Some(("https", rest)) => ("https", rest),
            Some((other, _)) => return Err(format!("the scheme is http or https, not {other:?}")),
            None => ("http", text),
        };
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => {
                let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
                (name, Some(port))
            }
            None => (rest, None),
        };
        let label = |label: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            (1..=63).contains(&label.len()) && label.bytes().all(allowed)
        };
        if !name.split('.').all(label) {
            return Err(
                "expected a domain such as preview.example.org or localhost:4020".to_owned(),
            );
        }
        Ok(Self {
            scheme,
            name: name.to_ascii_lowercase(),
            port,
        })
    }
}

impl PreviewDomain {
    /// Whether a name can be below both.
    #[must_use]
    pub fn shares_names_with(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// The label before it in the name a request is for; `None` when the request is not below it.
    pub(crate) fn label_in(&self, request: &Request<Body>) -> Option<String> {
        let host = if let Some(authority) = request.uri().authority() {
            authority.host()
        } else {
            let host = request.headers().get(header::HOST)?.to_str().ok()?;
            host.rsplit_once(':').map_or(host, |(name, _)| name)
        };
        let (label, below) = host.split_once('.')?;
        below
            .eq_ignore_ascii_case(&self.name)
            .then(|| label.to_ascii_lowercase())
    }
}

impl fmt::Display for PreviewDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) port: u16,
    pub(crate) sandbox: String,
    token: String,
}

impl Name {
    pub(crate) fn read(label: &str) -> Option<Self> {
        let (port, rest) = label.split_once('-')?;
        let (sandbox, token) = rest.rsplit_once('-')?;
        let digits = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
        Some(Self {
            port: port.parse().ok().filter(|_| digits)?,
            sandbox: sandbox.to_owned(),
            token: token.to_owned(),
        })
    }

    /// The minute until which it holds, if it was signed with this.
    pub(crate) fn signed_until(&self, secret: &[u8; 32]) -> Option<u32> {
        let minute = self.token.get(..EXPIRY_DIGITS).and_then(number)?;
        let right = sign(secret, self.port, &self.sandbox, minute);
        bool::from(right.as_bytes().ct_eq(self.token.as_bytes())).then_some(minute)
    }
}

/// What a request below the domain is for.
pub(crate) enum Asked {
    Name(Name),
    /// It has no name of the right form.
    Nothing,
}

type Secrets = HashMap<(Place, u16), [u8; 32]>;

/// The previews of a hub.
pub(crate) struct Previews {
    store: Store,
    domain: Option<PreviewDomain>,
    secrets: RwLock<Secrets>,
}

impl Previews {
    pub(crate) fn new(store: Store, domain: Option<PreviewDomain>, kept: Vec<Exposure>) -> Self {
        let secrets = kept
            .into_iter()
            .map(|kept| ((kept.place, kept.port), kept.secret))
            .collect();
        Self {
            store,
            domain,
            secrets: RwLock::new(secrets),
        }
    }

    /// What a request below the domain is for; `None` when it is for the hub itself.
    pub(crate) fn name_in(&self, request: &Request<Body>) -> Option<Asked> {
        let label = self.domain.as_ref()?.label_in(request)?;
        Some(Name::read(&label).map_or(Asked::Nothing, Asked::Name))
    }

    /// Makes a name for a port.
    pub(crate) async fn create(
        &self,
        sandbox: &Sandbox,
        port: u16,
        ttl_ms: Option<u64>,
        by: &By,
    ) -> Result<Preview, HubError> {
        let Some(domain) = &self.domain else {
            return Err(HubError::Forbidden(
                "this hub has no domain for previews; it is started with `--preview-domain DOMAIN`",
            ));
        };
        let ttl = ttl_ms.map_or(DEFAULT_TTL, Duration::from_millis);
        if ttl.is_zero() || ttl > LONGEST_TTL {
            let detail = format!("a preview lasts 1 to {} ms", LONGEST_TTL.as_millis());
            return Err(HubError::invalid("/ttl_ms", detail));
        }
        let secret = self.secret(sandbox, port, by).await?;
        let ends = Timestamp::now() + ttl;
        // Up to the next full minute.
        let minute = (ends.as_second() - EPOCH).div_euclid(60) + 1;
        let minute = u32::try_from(minute).unwrap_or(u32::MAX);
        let token = sign(&secret, port, sandbox.id().as_str(), minute);
        Ok(Preview {
            port,
            url: format!(
                "{}://{port}-{}-{token}.{domain}/",
                domain.scheme,
                sandbox.id()
            ),
            expires_at: expiry(minute),
        })
    }

    /// Revokes all names of a port; tells whether there were any.
    pub(crate) async fn revoke(
        &self,
        sandbox: &Sandbox,
        port: u16,
        by: &By,
    ) -> Result<bool, HubError> {
        let key = (sandbox.place().clone(), port);
        if !self.read(|secrets| secrets.contains_key(&key)) {
            return Ok(false);
        }
        let entry = audit::entry("preview.revoke", by, sandbox.id().as_str());
        let changes = vec![
            Change::ForgetExposure(key.0.clone(), port),
            Change::Audit(entry),
        ];
        self.store.apply(changes).await?;
        Ok(self.write().remove(&key).is_some())
    }

    /// Lets a request in by its name. What is wrong with a name is not told, but for its age.
    pub(crate) fn check(&self, name: &Name, sandbox: Option<Sandbox>) -> Result<Sandbox, ApiError> {
        let sandbox = sandbox.ok_or_else(nothing)?;
        let key = (sandbox.place().clone(), name.port);
        let secret = self
            .read(|secrets| secrets.get(&key).copied())
            .ok_or_else(nothing)?;
        let minute = name.signed_until(&secret).ok_or_else(nothing)?;
        if expiry(minute) <= Timestamp::now() {
            return Err(ApiError::new(ErrorCode::Forbidden, "this name has expired")
                .hint("POST /v1/sandboxes/{sandbox}/ports/{port}/preview makes another."));
        }
        Ok(sandbox)
    }

    /// Forgets the keys of a sandbox that is over; the store has done so with its record.
    pub(crate) fn keep_only(&self, live: impl Fn(&Place) -> bool) {
        self.write().retain(|(place, _), _| live(place));
    }

    /// What the names of a port are signed with.
    async fn secret(&self, sandbox: &Sandbox, port: u16, by: &By) -> Result<[u8; 32], HubError> {
        let key = (sandbox.place().clone(), port);
        if let Some(secret) = self.read(|secrets| secrets.get(&key).copied()) {
            return Ok(secret);
        }
        let ports = self.read(|secrets| {
            let own = secrets.keys().filter(|(place, _)| *place == key.0);
            own.count()
        });
        if ports >= MOST_PORTS {
            return Err(HubError::Quota {
                detail: format!("{MOST_PORTS} ports of this sandbox have previews already"),
            });
        }
        let mut secret = [0_u8; 32];
        getrandom::fill(&mut secret).map_err(HubError::Random)?;
        // Of two that come at once the first counts; the other's name is signed with the same.
        let secret = *self.write().entry(key.clone()).or_insert(secret);
        let exposure = Exposure {
            place: key.0,
            port,
            secret,
        };
        let entry = audit::entry("preview.create", by, sandbox.id().as_str());
        let changes = vec![Change::PutExposure(exposure), Change::Audit(entry)];
        self.store.apply(changes).await?;
        Ok(secret)
    }

    fn read<T>(&self, look: impl FnOnce(&Secrets) -> T) -> T {
        look(&self.secrets.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Secrets> {
        self.secrets.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a name that opens nothing gets, whatever is wrong with it.
pub(crate) fn nothing() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "there is nothing under this name")
        .hint("POST /v1/sandboxes/{sandbox}/ports/{port}/preview makes a name.")
}

fn expiry(minute: u32) -> Timestamp {
    Timestamp::from_second(EPOCH + i64::from(minute) * 60).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The token of a name.
pub(crate) fn sign(secret: &[u8; 32], port: u16, sandbox: &str, minute: u32) -> String {
    let message = format!("{port}-{sandbox}-{minute}");
    // A key of any length will do, so this cannot fail.
    let digest = Hmac::<Sha256>::new_from_slice(secret)
        .map(|mac| mac.chain_update(message).finalize().into_bytes())
        .unwrap_or_default();
    let head = digest.first_chunk::<8>().copied().unwrap_or_default();
    let bits = u64::from_be_bytes(head);
    let mut token = String::with_capacity(EXPIRY_DIGITS + MAC_DIGITS);
    push(&mut token, u64::from(minute), EXPIRY_DIGITS);
    push(&mut token, bits >> (64 - 5 * MAC_DIGITS), MAC_DIGITS);
    token
}

fn push(text: &mut String, number: u64, digits: usize) {
    for at in (0..digits).rev() {
        let digit = usize::try_from(number >> (5 * at) & 31).unwrap_or(0);
        text.extend(ALPHABET.get(digit).copied().map(char::from));
    }
}

fn number(digits: &str) -> Option<u32> {
    digits.bytes().try_fold(0_u32, |number, digit| {
        let value = ALPHABET.iter().position(|known| *known == digit)?;
        Some(number << 5 | u32::try_from(value).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let read =
            |label: &str| Name::read(label).map(|name| (name.port, name.sandbox, name.token));
        let of = |port: u16, sandbox: &str, token: &str| {
            Some((port, sandbox.to_owned(), token.to_owned()))
        };
        assert_eq!(read("80-a-t"), of(80, "a", "t"));
        assert_eq!(read("8000-a-b-c-t0k"), of(8000, "a-b-c", "t0k"));
        for other in ["", "80", "80-a", "080-a-t", "+80-a-t", "x-a-t", "99999-a-t"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_token_fits_and_says_when_it_ends() {
        let token = sign(&[1; 32], 65535, &"a".repeat(40), 33_000_000);
        assert_eq!(token.len(), 16);
        assert_eq!(number(&token[..5]), Some(33_000_000));
        let label = format!("65535-{}-{token}", "a".repeat(40));
        assert_eq!(label.len(), 63, "a DNS label");
        for (port, sandbox, minute, key) in [
            (65534, "a".repeat(40), 33_000_000, [1; 32]),
            (65535, "a".repeat(39), 33_000_000, [1; 32]),
            (65535, "a".repeat(40), 33_000_001, [1; 32]),
            (65535, "a".repeat(40), 33_000_000, [2; 32]),
        ] {
            assert_ne!(sign(&key, port, &sandbox, minute)[5..], token[5..]);
        }
    }

    #[test]
    fn domains_are_read() {
        let read = |text: &str| {
            text.parse::<PreviewDomain>()
                .map(|d| (d.scheme, d.to_string()))
        };
        assert_eq!(
            read("localhost:4020"),
            Ok(("http", "localhost:4020".to_owned()))
        );
        assert_eq!(
            read("https://P.example.org"),
            Ok(("https", "p.example.org".to_owned()))
        );
        for wrong in ["", "a/b", "ftp://a", "a:b", "a..b", "https://"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

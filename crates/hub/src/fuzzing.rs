//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use crate::egress::Host;
use crate::egress::spoken::{Hello, Sni, Spoken, decide};
use crate::preview::{self, Name};

/// What a client's first bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum First {
    /// TLS, to this host if one is named; `None` for a name that is none.
    Tls(Option<Option<Host>>),
    /// HTTP/1.
    Http,
    /// HTTP/2.
    Http2,
    /// Something else.
    Other,
}

/// Looks at the first bytes of a client, which come in pieces that end at these places; `None` while
/// it is not clear.
pub fn first_bytes(bytes: &[u8], ends: impl IntoIterator<Item = usize>) -> Option<First> {
    let mut hello = Hello::default();
    ends.into_iter().find_map(|end| {
        let spoken = decide(bytes.get(..end).unwrap_or(bytes), &mut hello)?;
        Some(match spoken {
            Spoken::Tls(Sni::Missing) => First::Tls(None),
            Spoken::Tls(Sni::Bad) => First::Tls(Some(None)),
            Spoken::Tls(Sni::Named(host)) => First::Tls(Some(Some(host))),
            Spoken::Http => First::Http,
            Spoken::Http2 => First::Http2,
            Spoken::Other | Spoken::Nothing => First::Other,
        })
    })
}

/// The label of a preview's name.
pub fn preview_label(secret: &[u8; 32], port: u16, sandbox: &str, minute: u32) -> String {
    let token = preview::sign(secret, port, sandbox, minute);
    format!("{port}-{sandbox}-{token}")
}

/// What a label is for, and until when if it was signed with the secret; `None` when it is no name.
pub fn preview_name(secret: &[u8; 32], label: &str) -> Option<(u16, String, Option<u32>)> {
    let name = Name::read(label)?;
    let until = name.signed_until(secret);
    Some((name.port, name.sandbox, until))
}

//! Names of hosts in one form, so that two spellings of a name are equal and none passes for another.
//!
//! A host is a DNS name in lower case without its last dot, or an address. Whatever a resolver or a
//! C library would take for an address in another form (`2130706433`, `0x7f.1`, `0177.0.0.1`,
//! `127.1`) is neither, and refused: names whose last label is a number do not exist.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Most bytes of a name (RFC 1035, in text form and without the last dot).
const MAX_NAME: usize = 253;
/// Most bytes of a label.
const MAX_LABEL: usize = 63;

/// A host in its one form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name.
    Name(Box<str>),
    /// An address; one of IPv4 written as IPv6 is one of IPv4.
    Address(IpAddr),
}

/// What was given is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Other characters, or an empty or too long label or name.
    #[error("it is not a host name")]
    Form,
    /// Letters beyond ASCII.
    #[error("it has letters beyond ASCII")]
    NotAscii,
    /// A number where an address in its usual form was meant.
    #[error("it is an address in an unusual form")]
    OddAddress,
}

impl Host {
    /// Reads a host without its port. An IPv6 address may stand in brackets.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if !text.is_ascii() {
            return Err(HostError::NotAscii);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Form)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostError::OddAddress)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = name.parse::<IpAddr>() {
            // `1.2.3.4.` is a name of numbers to some and an address to others.
            return if name.len() == text.len() {
                Ok(Self::Address(address.to_canonical()))
            } else {
                Err(HostError::OddAddress)
            };
        }
        if name.is_empty() || name.len() > MAX_NAME || !name.split('.').all(is_label) {
            return Err(HostError::Form);
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(HostError::OddAddress);
        }
        Ok(Self::Name(name.to_ascii_lowercase().into()))
    }

    /// Reads `host` or `host:port`.
    pub fn parse_with_port(text: &str) -> Result<(Self, Option<u16>), HostError> {
        let bare_v6 = text.matches(':').count() > 1 && !text.starts_with('[');
        match text.rsplit_once(':') {
            Some((host, port)) if !bare_v6 && !port.ends_with(']') => {
                // `+80` and `080` are numbers to Rust and not to everybody.
                let plain = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
                let port = port.parse().ok().filter(|_| plain);
                Ok((Self::parse(host)?, Some(port.ok_or(HostError::Form)?)))
            }
            _ => Ok((Self::parse(text)?, None)),
        }
    }

    /// The name, if it is one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty()
        && label.len() <= MAX_LABEL
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether `inet_aton` and its like would read the label as a number.
fn is_number(label: &str) -> bool {
    let hex = label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => label.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_name_are_equal() {
        let name = Host::parse("example.com").unwrap();
        for same in ["EXAMPLE.com", "example.com.", "Example.Com."] {
            assert_eq!(Host::parse(same).unwrap(), name, "{same}");
        }
        for other in [
            "example.com..",
            ".example.com",
            "",
            ".",
            "a..b",
            "-a.b",
            "a b",
        ] {
            assert_eq!(Host::parse(other), Err(HostError::Form), "{other}");
        }
        assert_eq!(Host::parse("b\u{fc}cher.example"), Err(HostError::NotAscii));
        assert!(Host::parse("xn--bcher-kva.example").is_ok());
        for userinfo in [
            "a@b.example",
            "a:b@c.example",
            "a%2eb",
            "a/b",
            "a\\b",
            "a#b",
            "a\0b",
        ] {
            assert_eq!(Host::parse(userinfo), Err(HostError::Form), "{userinfo}");
        }
    }

    #[test]
    fn odd_forms_of_addresses_are_no_hosts() {
        for odd in [
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "127.0.1",
            "0",
            "0x",
            "1.2.3.4.",
            "169.254.43518",
            "0xA9FEA9FE",
            "[::ffff:0x7f.1]",
            "010.0.0.1",
            "256.1.1.1",
            "1.2.3.4.5",
            "foo.1",
            "foo.0x1f",
        ] {
            assert_eq!(Host::parse(odd), Err(HostError::OddAddress), "{odd}");
        }
    }

    #[test]
    fn addresses_are_read_in_their_usual_forms() {
        let v4 = Host::Address("169.254.169.254".parse().unwrap());
        for same in [
            "169.254.169.254",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
        ] {
            assert_eq!(Host::parse(same).unwrap(), v4, "{same}");
        }
        assert_eq!(
            Host::parse_with_port("[2001:4860::1]:443").unwrap(),
            (Host::Address("2001:4860::1".parse().unwrap()), Some(443))
        );
        assert_eq!(
            Host::parse_with_port("2001:4860::1").unwrap().1,
            None,
            "a bare address has no port"
        );
    }

    #[test]
    fn ports_are_plain_numbers() {
        assert_eq!(Host::parse_with_port("a.b:80").unwrap().1, Some(80));
        for wrong in [
            "a.b:",
            "a.b:+80",
            "a.b:080",
            "a.b:65536",
            "a.b:80x",
            "a.b: 80",
            "a.b:0",
        ] {
            assert_eq!(
                Host::parse_with_port(wrong),
                Err(HostError::Form),
                "{wrong}"
            );
        }
    }

    proptest! {
        /// What is read is in its one form: reading it again changes nothing.
        #[test]
        fn the_form_is_final(text in "[ -~]{0,80}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()).unwrap(), host);
            }
        }

        /// Any number in any base is an address only in dotted decimals.
        #[test]
        fn no_number_is_a_name(number: u32, parts in 0usize..4) {
            let [a, b, c, d] = number.to_be_bytes();
            let tail = u32::from_be_bytes([0, 0, c, d]);
            let text = match parts {
                0 => format!("{number}"),
                1 => format!("{number:#x}"),
                2 => format!("{a}.{b}.{tail}"),
                _ => format!("{a:#o}.{b}.{c}.{d}").replace("0o", "0"),
            };
            prop_assert!(!matches!(Host::parse(&text), Ok(Host::Name(_))), "{}", text);
            if let Ok(Host::Address(address)) = Host::parse(&text) {
                prop_assert_eq!(address.to_string(), text);
            }
        }
    }
}

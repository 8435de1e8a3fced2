//! What one sandbox may reach, read from its request once and asked for each connection.
//!
//! Owns the allow list and the secrets. Does not own addresses that names stand for (`address`).

use std::net::IpAddr;

use http::{HeaderName, HeaderValue, header};
use sandshell_types::{NetworkMode, NetworkSpec, RefusalReason, SandboxSpec, SecretSpec};

use super::address;
use super::host::{Host, HostError};

/// Most entries of an allow list.
pub const MAX_ALLOW: usize = 256;
/// Most secrets of a sandbox.
pub const MAX_SECRETS: usize = 64;
/// Most bytes of a secret's value.
pub const MAX_SECRET_VALUE: usize = 16 * 1024;

/// Ports of an entry that names none. On these only TLS and HTTP are spoken, and both are checked.
pub(super) const WEB_PORTS: [u16; 2] = [80, 443];

/// Fields that a secret cannot be: they say how a message is framed, or whom it is for.
const NOT_SECRETS: [HeaderName; 10] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
];

/// Ports at which names are listened for where every port may be asked for: what programs that know
/// no proxy speak most.
const COMMON_PORTS: [u16; 3] = [22, 80, 443];

/// The allow list and the secrets of a sandbox.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Whether every host and port may be asked for. Addresses are checked all the same.
    open: bool,
    rules: Vec<Rule>,
    secrets: Vec<Secret>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    hosts: Hosts,
    /// None: the web's.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// This name.
    Name(Box<str>),
    /// All names that end in this, which begins with a dot.
    Below(Box<str>),
    /// This address.
    Address(IpAddr),
}

#[derive(Debug, Clone)]
struct Secret {
    host: Box<str>,
    port: Option<u16>,
    header: HeaderName,
    /// Marked sensitive, so that its `Debug` shows nothing.
    value: HeaderValue,
}

/// Why a request for a network cannot be met, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PolicyError {
    /// JSON pointer from the root of the request.
    pub pointer: String,
    /// What is wrong.
    pub detail: String,
    /// What would be right.
    pub hint: Option<&'static str>,
}

impl PolicyError {
    fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            detail: detail.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

impl Policy {
    /// Reads what a sandbox is to be: the one judge of its network and secrets, when it is asked for and
    /// when it is made. Without a network its mode is `none`.
    pub fn of(spec: &SandboxSpec) -> Result<Self, PolicyError> {
        let none = NetworkSpec {
            mode: NetworkMode::None,
            allow: Vec::new(),
        };
        Self::parse(spec.network.as_ref().unwrap_or(&none), &spec.secrets)
    }

    /// Reads the request. In the modes `none` and `full` there is no list and there are no secrets.
    /// The policy of `none` refuses everything.
    pub fn parse(network: &NetworkSpec, secrets: &[SecretSpec]) -> Result<Self, PolicyError> {
        if network.mode != NetworkMode::Allow {
            return match (network.allow.is_empty(), secrets.is_empty()) {
                (false, _) => Err(PolicyError::new(
                    "/network/allow",
                    "an allow list has no meaning in this mode",
                )
                .hint("set network.mode to \"allow\"")),
                (_, false) => Err(PolicyError::new(
                    "/secrets",
                    "secrets are put in by the proxy, which this network mode does not have",
                )
                .hint("set network.mode to \"allow\"")),
                (true, true) => Ok(Self {
                    open: network.mode == NetworkMode::Full,
                    ..Self::default()
                }),
            };
        }
        if network.allow.is_empty() {
            return Err(PolicyError::new(
                "/network/allow",
                "the mode \"allow\" needs at least one host",
            )
            .hint("list hosts such as \"example.com\", or use the mode \"none\""));
        }
        check_count("/network/allow", "hosts", network.allow.len(), MAX_ALLOW)?;
        check_count("/secrets", "secrets", secrets.len(), MAX_SECRETS)?;
        let mut policy = Self::default();
        for (index, entry) in network.allow.iter().enumerate() {
            let rule = Rule::parse(entry, &format!("/network/allow/{index}"))?;
            policy.rules.push(rule);
        }
        for (index, spec) in secrets.iter().enumerate() {
            let secret = Secret::parse(spec, &format!("/secrets/{index}"))?;
            let of = |other: &Secret| {
                other.host == secret.host
                    && other.header == secret.header
                    && (other.port == secret.port || other.port.is_none() || secret.port.is_none())
            };
            if policy.secrets.iter().any(of) {
                return Err(PolicyError::new(
                    format!("/secrets/{index}"),
                    "this host has a secret for this header already",
                ));
            }
            let ports = secret
                .port
                .as_ref()
                .map_or(&WEB_PORTS[..], std::slice::from_ref);
            let host = Host::Name(secret.host.clone());
            if !ports.iter().any(|port| policy.check(&host, *port).is_ok()) {
                return Err(PolicyError::new(
                    format!("/secrets/{index}/host"),
                    format!("{:?} is not on the allow list", spec.host),
                )
                .hint("add it to network.allow"));
            }
            policy.secrets.push(secret);
        }
        Ok(policy)
    }

    /// Whether the host may be asked for on this port.
    pub fn check(&self, host: &Host, port: u16) -> Result<(), RefusalReason> {
        if self.open {
            return Ok(());
        }
        let mut known = false;
        for rule in self.rules.iter().filter(|rule| rule.hosts.contain(host)) {
            if rule.has_port(port) {
                return Ok(());
            }
            known = true;
        }
        Err(match host {
            _ if known => RefusalReason::PortNotAllowed,
            Host::Name(_) => RefusalReason::HostNotAllowed,
            Host::Address(_) => RefusalReason::AddressNotAllowed,
        })
    }

    /// Whether every host may be asked for.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// The ports on which a host is to be listened for, lowest first; none if it may not be asked for.
    pub fn ports(&self, host: &Host) -> Vec<u16> {
        if self.open {
            return COMMON_PORTS.to_vec();
        }
        let rules = self.rules.iter().filter(|rule| rule.hosts.contain(host));
        let mut ports: Vec<u16> = rules
            .flat_map(|rule| {
                rule.port
                    .as_ref()
                    .map_or(&WEB_PORTS[..], std::slice::from_ref)
            })
            .copied()
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Whether requests to this host get a secret.
    pub(super) fn has_secret(&self, host: &Host, port: u16) -> bool {
        self.secrets(host, port).next().is_some()
    }

    /// The fields that requests to this host get.
    pub(super) fn secrets(
        &self,
        host: &Host,
        port: u16,
    ) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        let of = move |secret: &&Secret| {
            host.name() == Some(&*secret.host) && secret.port.is_none_or(|only| only == port)
        };
        let secrets = self.secrets.iter().filter(of);
        secrets.map(|secret| (&secret.header, &secret.value))
    }

    /// Whether there is any secret, so that an authority is needed.
    pub fn has_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }
}

const NEVER_REACHED: &str = "private, local and reserved addresses are never reached";

/// Whether a name can stand for nothing but loopback addresses, whoever is asked (RFC 6761).
fn is_this_machine(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    matches!(
        last,
        "localhost" | "ip6-localhost" | "ip6-loopback" | "localdomain"
    )
}

fn check_count(pointer: &str, what: &str, count: usize, most: usize) -> Result<(), PolicyError> {
    if count <= most {
        return Ok(());
    }
    let detail = format!("there are {count} {what}; at most {most} are taken");
    Err(PolicyError::new(pointer, detail))
}

/// Says what is wrong with a host.
fn host_error(pointer: &str, text: &str, error: HostError) -> PolicyError {
    let wrong = PolicyError::new(pointer, format!("{text:?} cannot be used: {error}"));
    match error {
        HostError::Form => wrong.hint(
            "write a host such as \"example.com\", \"*.example.com\" or \"example.com:8443\", \
             without scheme or path",
        ),
        HostError::NotAscii => wrong.hint("write the name in its ASCII form, \"xn--…\""),
        HostError::OddAddress => {
            wrong.hint("write the address as \"192.0.2.1\" or \"[2001:db8::1]\"")
        }
    }
}

impl Rule {
    fn parse(text: &str, pointer: &str) -> Result<Self, PolicyError> {
        if text == "*" || text.starts_with("*:") {
            return Err(PolicyError::new(pointer, "\"*\" is not a host")
                .hint("for every public host use the network mode \"full\""));
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (host, port) =
            Host::parse_with_port(rest).map_err(|error| host_error(pointer, text, error))?;
        let hosts = match (below, host) {
            (_, Host::Name(name)) if is_this_machine(&name) => {
                let detail = format!("{text:?} is a name of the machine itself");
                return Err(PolicyError::new(pointer, detail).hint(NEVER_REACHED));
            }
            (false, Host::Name(name)) => Hosts::Name(name),
            (true, Host::Name(name)) if name.contains('.') => {
                Hosts::Below(format!(".{name}").into())
            }
            (true, Host::Name(_)) => {
                let detail = format!("{text:?} would allow a whole top-level domain");
                return Err(PolicyError::new(pointer, detail)
                    .hint("name the domain too, as in \"*.example.com\""));
            }
            (false, Host::Address(address)) if address::is_public(address) => {
                Hosts::Address(address)
            }
            (false, Host::Address(_)) => {
                let detail = format!("{text:?} is not a public address");
                return Err(PolicyError::new(pointer, detail).hint(NEVER_REACHED));
            }
            (true, Host::Address(_)) => return Err(host_error(pointer, text, HostError::Form)),
        };
        Ok(Self { hosts, port })
    }

    fn has_port(&self, port: u16) -> bool {
        self.port
            .map_or(WEB_PORTS.contains(&port), |only| only == port)
    }
}

impl Hosts {
    fn contain(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(name), Host::Name(asked)) => name == asked,
            (Self::Below(end), Host::Name(asked)) => {
                asked.len() > end.len() && asked.ends_with(&**end)
            }
            (Self::Address(address), Host::Address(asked)) => address == asked,
            _ => false,
        }
    }
}

impl Secret {
    fn parse(spec: &SecretSpec, pointer: &str) -> Result<Self, PolicyError> {
        let at_host = format!("{pointer}/host");
        let (host, port) = Host::parse_with_port(&spec.host)
            .map_err(|error| host_error(&at_host, &spec.host, error))?;
        let Host::Name(host) = host else {
            return Err(PolicyError::new(
                at_host,
                "a secret is for a name, not an address",
            ));
        };
        let at_header = format!("{pointer}/header");
        let header: HeaderName = spec.header.parse().map_err(|_| {
            PolicyError::new(
                at_header.clone(),
                format!("{:?} is not the name of a header", spec.header),
            )
        })?;
        if NOT_SECRETS.contains(&header) {
            let detail = format!("the header {header} cannot be a secret");
            return Err(PolicyError::new(at_header, detail));
        }
        let at_value = format!("{pointer}/value");
        let text = spec.value.as_deref().unwrap_or_default();
        if text.is_empty() || text.len() > MAX_SECRET_VALUE {
            let detail = format!("a value has from 1 to {MAX_SECRET_VALUE} bytes");
            return Err(PolicyError::new(at_value, detail));
        }
        // The value is not quoted: it is a secret.
        let mut value: HeaderValue = text.parse().map_err(|_| {
            PolicyError::new(at_value, "the value cannot stand in a header")
                .hint("a header has visible characters, without line ends")
        })?;
        value.set_sensitive(true);
        Ok(Self {
            host,
            port,
            header,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(allow: &[&str]) -> NetworkSpec {
        NetworkSpec {
            mode: NetworkMode::Allow,
            allow: allow.iter().map(|&entry| entry.to_owned()).collect(),
        }
    }

    fn secret(host: &str, header: &str, value: &str) -> SecretSpec {
        SecretSpec {
            host: host.to_owned(),
            header: header.to_owned(),
            value: Some(value.to_owned()),
        }
    }

    fn asked(policy: &Policy, host: &str, port: u16) -> Result<(), RefusalReason> {
        policy.check(&Host::parse(host).unwrap(), port)
    }

    #[test]
    fn hosts_and_ports() {
        use RefusalReason::{AddressNotAllowed, HostNotAllowed, PortNotAllowed};
        let list = [
            "Example.com",
            "*.example.org",
            "db.example.net:5432",
            "8.8.8.8",
        ];
        let policy = Policy::parse(&network(&list), &[]).unwrap();
        for (host, port, expected) in [
            ("example.com", 80, Ok(())),
            ("EXAMPLE.COM.", 443, Ok(())),
            ("example.com", 25, Err(PortNotAllowed)),
            ("www.example.com", 443, Err(HostNotAllowed)),
            ("notexample.com", 443, Err(HostNotAllowed)),
            ("example.com.evil.test", 443, Err(HostNotAllowed)),
            ("a.example.org", 443, Ok(())),
            ("a.b.example.org", 443, Ok(())),
            ("example.org", 443, Err(HostNotAllowed)),
            ("xexample.org", 443, Err(HostNotAllowed)),
            ("db.example.net", 5432, Ok(())),
            ("db.example.net", 443, Err(PortNotAllowed)),
            ("8.8.8.8", 443, Ok(())),
            ("8.8.4.4", 443, Err(AddressNotAllowed)),
            ("[2001:4860::1]", 443, Err(AddressNotAllowed)),
        ] {
            assert_eq!(asked(&policy, host, port), expected, "{host}:{port}");
        }
        let ports = |host| policy.ports(&Host::parse(host).unwrap());
        assert_eq!(ports("example.com"), [80, 443]);
        assert_eq!(ports("db.example.net"), [5432]);
        assert!(ports("other.test").is_empty());
    }

    #[test]
    fn the_modes_without_a_list() {
        let of = |mode| {
            let allow = Vec::new();
            Policy::parse(&NetworkSpec { mode, allow }, &[]).unwrap()
        };
        assert!(asked(&of(NetworkMode::None), "example.com", 443).is_err());
        assert_eq!(asked(&of(NetworkMode::Full), "example.com", 25), Ok(()));
        assert_eq!(asked(&of(NetworkMode::Full), "8.8.8.8", 53), Ok(()));
    }

    #[test]
    fn bad_lists_are_refused_with_the_place() {
        for (entry, part) in [
            ("*", "\"*\" is not a host"),
            ("*:443", "\"*\" is not a host"),
            ("*.com", "top-level"),
            ("http://example.com", "not a host name"),
            ("example.com/path", "not a host name"),
            ("exam*ple.com", "not a host name"),
            ("user@example.com", "not a host name"),
            ("", "not a host name"),
            ("example.com:0", "not a host name"),
            ("b\u{fc}cher.example", "beyond ASCII"),
            ("2130706433", "unusual form"),
            ("0x7f.1", "unusual form"),
            ("127.0.0.1", "not a public address"),
            ("169.254.169.254", "not a public address"),
            ("[::ffff:10.0.0.1]:443", "not a public address"),
            ("[fd00:ec2::254]", "not a public address"),
            ("*.8.8.8.8", "not a host name"),
        ] {
            let error = Policy::parse(&network(&["example.com", entry]), &[]).unwrap_err();
            assert_eq!(error.pointer, "/network/allow/1", "{entry}");
            assert!(error.detail.contains(part), "{entry}: {error}");
            assert!(error.hint.is_some(), "{entry}");
        }
        let error = Policy::parse(&network(&["*"]), &[]).unwrap_err();
        assert!(error.hint.unwrap().contains("full"));
        let many = vec!["a.example"; MAX_ALLOW + 1];
        assert!(Policy::parse(&network(&many), &[]).is_err());
        assert!(Policy::parse(&network(&[]), &[]).is_err());
        let mut none = network(&["a.example"]);
        none.mode = NetworkMode::None;
        assert_eq!(
            Policy::parse(&none, &[]).unwrap_err().pointer,
            "/network/allow"
        );
    }

    #[test]
    fn secrets_are_checked_and_never_shown() {
        let list = network(&["api.example.com", "db.example.com:8443"]);
        let good = [
            secret("API.example.com", "Authorization", "Bearer hunter2"),
            secret("db.example.com:8443", "x-key", "hunter2"),
        ];
        let policy = Policy::parse(&list, &good).unwrap();
        assert!(!format!("{policy:?}").contains("hunter2"));
        let host = Host::parse("api.example.com").unwrap();
        let found: Vec<_> = policy.secrets(&host, 443).collect();
        assert_eq!(found[0].1, "Bearer hunter2");
        assert!(!policy.has_secret(&Host::parse("x.example.com").unwrap(), 443));
        for (bad, pointer) in [
            (secret("other.example", "x", "hunter2"), "/secrets/0/host"),
            (secret("*.example.com", "x", "hunter2"), "/secrets/0/host"),
            (secret("8.8.8.8", "x", "hunter2"), "/secrets/0/host"),
            (
                secret("api.example.com:25", "x", "hunter2"),
                "/secrets/0/host",
            ),
            (
                secret("api.example.com", "x y", "hunter2"),
                "/secrets/0/header",
            ),
            (
                secret("api.example.com", "Host", "hunter2"),
                "/secrets/0/header",
            ),
            (
                secret("api.example.com", "x", "hunter2\r\ny: z"),
                "/secrets/0/value",
            ),
            (secret("api.example.com", "x", ""), "/secrets/0/value"),
        ] {
            let error = Policy::parse(&list, std::slice::from_ref(&bad)).unwrap_err();
            assert_eq!(error.pointer, pointer, "{bad:?}");
            assert!(!format!("{error:?}").contains("hunter2"));
        }
        let twice = [good[0].clone(), good[0].clone()];
        assert_eq!(
            Policy::parse(&list, &twice).unwrap_err().pointer,
            "/secrets/1"
        );
        let mut full = network(&[]);
        full.mode = NetworkMode::Full;
        assert_eq!(Policy::parse(&full, &good).unwrap_err().pointer, "/secrets");
    }
}

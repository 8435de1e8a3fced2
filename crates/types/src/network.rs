//! What a sandbox was refused outside.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Happening;

/// A connection that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NetworkRefused {
    /// The name or address asked for, as far as it could be read.
    pub host: String,
    /// The port; none where only a name was looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Why.
    pub reason: RefusalReason,
    /// The address it stood for, where that was the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Refusals since the last event that were not told one by one.
    #[serde(default)]
    pub suppressed: u64,
}

impl From<NetworkRefused> for Happening {
    fn from(refused: NetworkRefused) -> Self {
        let NetworkRefused {
            host,
            port,
            reason,
            address,
            suppressed,
        } = refused;
        Self::NetworkRefused {
            host,
            port,
            reason,
            address,
            suppressed,
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $detail:literal, $hint:literal;)*) => {
        /// Why a connection was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum RefusalReason {
            $($(#[$doc])* $name,)*
        }

        impl RefusalReason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// In words.
            pub const fn detail(self) -> &'static str {
                match self { $(Self::$name => $detail),* }
            }

            /// What to do about it.
            pub const fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint),* }
            }
        }
    };
}

reasons! {
    /// No entry of the allow list names the host.
    HostNotAllowed = "host_not_allowed", "the host is not on the allow list",
        "add the host to the sandbox's network.allow";
    /// The host is on the list, the port is not.
    PortNotAllowed = "port_not_allowed", "the port is not on the allow list",
        "add host:port to the sandbox's network.allow";
    /// An address instead of a name, which is not on the list as such.
    AddressNotAllowed = "address_not_allowed", "the address is not on the allow list",
        "use the host's name, or add the public address itself to network.allow";
    /// The host stands for an address that is never reached.
    AddressDenied = "address_denied", "the host's address is private, local or reserved",
        "such addresses are refused whatever the allow list says";
    /// What was asked for is no host name.
    BadName = "bad_name", "this is not a host name",
        "write names in ASCII (xn--… for others) and addresses in their usual form";
    /// The TLS client hello names no server.
    SniMissing = "sni_missing", "the TLS client names no server",
        "use a client that sends the server's name (SNI)";
    /// The TLS client hello names another server.
    SniMismatch = "sni_mismatch", "the TLS client names another server than it connected to",
        "the name in TLS must be the host that was asked for";
    /// The Host field is missing, doubled, or names another host.
    HostMismatch = "host_mismatch", "the Host field is not the host that was asked for",
        "send one Host field with the host that was asked for";
    /// What is spoken cannot be checked on this port.
    Protocol = "protocol", "what is spoken on this port is neither TLS nor HTTP/1",
        "use TLS or HTTP/1.1 on ports 80 and 443; other protocols need a port of their own on the list";
    /// The request is not one a proxy can pass on.
    BadRequest = "bad_request", "the proxy cannot pass this request on",
        "see the network reference for what the proxy takes";
    /// The sandbox has as many connections as it may have.
    TooManyConnections = "too_many_connections", "too many connections are open",
        "close connections that are no longer needed";
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named_as_on_the_wire() {
        for reason in RefusalReason::ALL {
            assert_eq!(
                serde_json::to_value(reason).unwrap(),
                reason.as_str(),
                "{reason:?}"
            );
        }
    }
}

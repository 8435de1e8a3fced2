//! Addresses that are never reached, whatever the allow list says.
//!
//! Owns the fixed deny set. An address passes only when it is plainly public: what is private, local,
//! reserved, a form of another address, a metadata service, or this machine itself does not. The
//! check is of a value, made just before the connection to exactly that value.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Which addresses may be connected to.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Exact targets that are not checked, and where they are taken. Only tests have any.
    doors: Vec<(SocketAddr, SocketAddr)>,
}

/// Why an address is not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Not a public address.
    #[error("not a public address")]
    NotPublic,
    /// An address of this machine.
    #[error("an address of this machine")]
    Own,
}

impl Guard {
    /// Public addresses only.
    pub fn closed() -> Self {
        Self::default()
    }

    /// For tests: takes these exact targets to other ones, so that a server on the loopback can stand
    /// for one of the Internet.
    pub fn with_doors(doors: Vec<(SocketAddr, SocketAddr)>) -> Self {
        Self { doors }
    }

    /// The address to connect to for this target, if it may be.
    pub fn check(&self, target: SocketAddr) -> Result<SocketAddr, Denied> {
        if let Some((_, to)) = self.doors.iter().find(|(from, _)| *from == target) {
            return Ok(*to);
        }
        if !is_public(target.ip()) {
            return Err(Denied::NotPublic);
        }
        if is_own(target.ip()) {
            return Err(Denied::Own);
        }
        Ok(target)
    }
}

/// Whether the address is one of the public Internet.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Networks of IPv4 that are not public (RFC 6890 and its successors), by address and prefix length.
const NOT_PUBLIC_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),        // "this network"
    ([10, 0, 0, 0], 8),       // private
    ([100, 64, 0, 0], 10),    // carrier-grade NAT; a cloud's metadata too
    ([127, 0, 0, 0], 8),      // loopback
    ([168, 63, 129, 16], 32), // a cloud's metadata at a public-looking address
    ([169, 254, 0, 0], 16),   // link-local, metadata
    ([172, 16, 0, 0], 12),    // private
    ([192, 0, 0, 0], 24),     // protocol assignments; a cloud's metadata too
    ([192, 0, 2, 0], 24),     // documentation
    ([192, 88, 99, 0], 24),   // 6to4 relays
    ([192, 168, 0, 0], 16),   // private
    ([198, 18, 0, 0], 15),    // benchmarks
    ([198, 51, 100, 0], 24),  // documentation
    ([203, 0, 113, 0], 24),   // documentation
    ([224, 0, 0, 0], 4),      // multicast
    ([240, 0, 0, 0], 4),      // reserved, broadcast
];

/// Networks inside `2000::/3` that are not public, by their first 32 bits and prefix length.
const NOT_PUBLIC_V6: &[(u32, u32)] = &[
    (0x2001_0000, 23), // protocol assignments: Teredo, benchmarks, ORCHID
    (0x2001_0db8, 32), // documentation
    (0x2002_0000, 16), // 6to4: another address in disguise
    (0x3fff_0000, 20), // documentation
];

/// The well-known prefix of NAT64; an address of IPv4 follows.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !NOT_PUBLIC_V4
        .iter()
        .any(|(network, length)| (bits ^ u32::from_be_bytes(*network)) >> (32 - length) == 0)
}

/// Everything outside global unicast (`2000::/3`) is denied, with it loopback, link-local, unique
/// local, multicast, and the mapped and compatible forms. NAT64 is as public as what it stands for.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    if segments[..6] == NAT64 {
        let embedded = u32::from(segments[6]) << 16 | u32::from(segments[7]);
        return is_public_v4(Ipv4Addr::from_bits(embedded));
    }
    let first = u32::from(segments[0]) << 16 | u32::from(segments[1]);
    first >> 29 == 0b001
        && !NOT_PUBLIC_V6
            .iter()
            .any(|(network, length)| (first ^ network) >> (32 - length) == 0)
}

/// Whether the address is one of this machine: only its own can be bound. Asked of the kernel each
/// time, so that it is true for addresses that came later. In doubt it is ours.
fn is_own(address: IpAddr) -> bool {
    match UdpSocket::bind(SocketAddr::new(address, 0)) {
        Ok(_) => true,
        Err(error) => {
            !matches!(
                error.kind(),
                // The second: a machine without IPv6.
                io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
            ) && error.raw_os_error() != Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DENIED: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.0.1",
        "169.254.169.254",
        "169.254.170.2",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
    ];
    const PUBLIC: &[&str] = &[
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "93.184.216.34",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.1",
        "168.63.129.15",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "198.17.0.1",
        "198.20.0.0",
        "223.255.255.255",
    ];

    #[test]
    fn addresses_of_v4() {
        for denied in DENIED {
            assert!(!is_public(denied.parse().unwrap()), "{denied}");
        }
        for public in PUBLIC {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn addresses_of_v6() {
        for denied in [
            "::",
            "::1",
            "::7f00:1",
            "::a9fe:a9fe",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fec0::1",
            "febf::1",
            "ff02::1",
            "2001:db8::1",
            "3fff:fff::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2002:808:808::1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "5f00::1",
            "4000::1",
        ] {
            assert!(!is_public(denied.parse().unwrap()), "{denied}");
        }
        for public in [
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:200::1",
            "64:ff9b::8.8.8.8",
            "2400:cb00::1",
            "3ffe::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn a_door_opens_one_target_only() {
        let door: SocketAddr = "127.0.0.1:8443".parse().unwrap();
        let guard = Guard::with_doors(vec![(door, door)]);
        assert_eq!(guard.check(door), Ok(door));
        for other in [
            "127.0.0.1:8444",
            "127.0.0.2:8443",
            "[::ffff:127.0.0.1]:8443",
        ] {
            assert_eq!(guard.check(other.parse().unwrap()), Err(Denied::NotPublic));
        }
        assert_eq!(Guard::closed().check(door), Err(Denied::NotPublic));
    }

    #[test]
    fn own_addresses_are_known_by_the_kernel() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("8.8.8.8".parse().unwrap()));
        assert!(!is_own("2001:4860:4860::8888".parse().unwrap()));
    }

    proptest! {
        /// No form of a denied address of IPv4 is public.
        #[test]
        fn disguises_do_not_help(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let (high, low) = ((bits >> 16) as u16, bits as u16);
            let mapped = v4.to_ipv6_mapped();
            prop_assert_eq!(is_public(mapped.into()), is_public(v4.into()));
            prop_assert!(!is_public(Ipv6Addr::from_bits(u128::from(bits)).into()));
            let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
            prop_assert_eq!(is_public(nat64.into()), is_public(v4.into()));
            for tail in [0u16, 1, 0xffff] {
                let six_to_four = Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, tail);
                prop_assert!(!is_public(six_to_four.into()));
                let teredo = Ipv6Addr::new(0x2001, 0, high, low, tail, tail, !high, !low);
                prop_assert!(!is_public(teredo.into()));
            }
        }

        /// Against an independent statement of the same: what Rust's own predicates call special.
        #[test]
        fn the_standard_library_agrees(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            if v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified()
            {
                prop_assert!(!is_public(v4.into()));
            }
        }
    }
}

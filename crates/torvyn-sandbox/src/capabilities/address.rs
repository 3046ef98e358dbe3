//! Address scopes: which addresses are public, which belong to the machine or its site, and which no name may resolve
//! to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressScope {
    /// An address on the internet.
    Public,
    /// This machine or its site: loopback, private ranges, shared address space, unique local addresses.
    Local,
    /// Link-local (where clouds serve credentials), multicast, unspecified, reserved, and tunnels to such addresses.
    Special,
}

/// The scope of an address. An address that embeds another one has the scope of the inner one.
pub fn address_scope(address: IpAddr) -> AddressScope {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> AddressScope {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127 | 10, ..) | (192, 168, _) | (172, 16..=31, _) | (100, 64..=127, _) => AddressScope::Local,
        // This network, link-local, IETF, documentation, 6to4 relays, benchmarks, multicast, reserved, broadcast.
        (0, ..) | (169, 254, _) | (192, 0, 0 | 2) | (192, 88, 99) | (198, 18 | 19, _) => {
            AddressScope::Special
        }
        (198, 51, 100) | (203, 0, 113) | (224..=255, ..) => AddressScope::Special,
        _ => AddressScope::Public,
    }
}

fn v6(address: Ipv6Addr) -> AddressScope {
    let words = address.segments();
    let inside = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        v4(Ipv4Addr::new(a, b, c, d))
    };
    match words {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressScope::Local,
        // IPv4-mapped, and what NAT64 and 6to4 translate.
        [0, 0, 0, 0, 0, 0xffff, high, low] => inside(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside(high, low).max(AddressScope::Local),
        [0x64, 0xff9b, ..] => AddressScope::Special,
        [0x2002, high, low, ..] => inside(high, low).max(AddressScope::Local),
        // Unspecified, IPv4-compatible, discard-only, Teredo and its neighbours, documentation.
        [0, ..] | [0x100, ..] | [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] => AddressScope::Special,
        [0x3fff, 0..=0xfff, ..] | [0x5f00, ..] => AddressScope::Special,
        [0xfc00..=0xfdff, ..] => AddressScope::Local,
        // Link-local, site-local, multicast.
        [0xfe80..=0xffff, ..] => AddressScope::Special,
        _ => AddressScope::Public,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(text: &str) -> AddressScope {
        address_scope(text.parse().unwrap())
    }

    #[test]
    fn the_machine_and_its_site_are_local() {
        for text in ["127.0.0.1", "127.255.1.2", "10.0.0.1", "172.31.0.1", "192.168.1.1", "100.64.0.1"] {
            assert_eq!(near(text), AddressScope::Local, "{text}");
            assert_eq!(near(&format!("::ffff:{text}")), AddressScope::Local, "mapped {text}");
        }
        for text in ["::1", "fd00::1", "64:ff9b::7f00:1", "2002:7f00:1::1", "64:ff9b::808:808"] {
            assert_eq!(near(text), AddressScope::Local, "{text}");
        }
    }

    #[test]
    fn link_local_and_reserved_ranges_are_special() {
        for text in ["169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"]
        {
            assert_eq!(near(text), AddressScope::Special, "{text}");
            assert_eq!(near(&format!("::ffff:{text}")), AddressScope::Special, "mapped {text}");
        }
        for text in ["::", "fe80::1", "ff02::1", "::a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2001::1", "fec0::1"] {
            assert_eq!(near(text), AddressScope::Special, "{text}");
        }
    }

    #[test]
    fn the_rest_is_public() {
        for text in ["8.8.8.8", "172.32.0.1", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "192.1.0.1"] {
            assert_eq!(near(text), AddressScope::Public, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_address_that_is_not_public_stays_so_inside_another(bits: u32) {
            let inner = Ipv4Addr::from_bits(bits);
            let [high, low] = [(bits >> 16) as u16, bits as u16];
            for outer in [
                inner.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
            ] {
                prop_assert!(address_scope(outer.into()) >= address_scope(inner.into()).min(AddressScope::Local));
            }
        }
    }
}

//! Which addresses are on the open internet.
//!
//! An address that is not known to be open is refused. An IPv6 address that contains an IPv4 address is as open as that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// A metadata service, which gives a machine's credentials to anyone who asks.
    Metadata,
    /// On this machine, in a private network, or in no network at all.
    Private(&'static str),
}

impl Closed {
    /// What kind of address it is.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Metadata => "the metadata service of a cloud",
            Self::Private(kind) => kind,
        }
    }
}

/// Why an address is refused; `None` if it is on the open internet.
pub(super) fn closed(address: IpAddr) -> Option<Closed> {
    match address {
        IpAddr::V4(address) => closed_v4(address),
        IpAddr::V6(address) => closed_v6(address),
    }
}

/// Link-local ones of AWS, Azure, Google and others; ECS; Azure's wire server; Alibaba; Oracle.
const METADATA_V4: [[u8; 4]; 6] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    [168, 63, 129, 16],
    [100, 100, 100, 200],
    [192, 0, 0, 192],
];

fn closed_v4(address: Ipv4Addr) -> Option<Closed> {
    let octets = address.octets();
    if METADATA_V4.contains(&octets) {
        return Some(Closed::Metadata);
    }
    let kind = match octets {
        [0, ..] => "an unspecified address",
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "an address inside a provider's network",
        [169, 254, ..] => "a link-local address",
        [192, 0, 0, _] | [192, 88, 99, _] => "an address reserved for protocols",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "an address reserved for documentation",
        [198, 18..=19, ..] => "an address reserved for benchmarks",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    };
    Some(Closed::Private(kind))
}

/// Those of AWS and Google.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

fn closed_v6(address: Ipv6Addr) -> Option<Closed> {
    if METADATA_V6.contains(&address) {
        return Some(Closed::Metadata);
    }
    let kind = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        // IPv4-mapped, and NAT64: whoever connects to it connects to the IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return closed_v4(v4(high, low)),
        // IPv4-compatible and IPv4-translated: long out of use, so refused, with the IPv4 address's own reason if it has one.
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            return closed_v4(v4(high, low)).or(Some(Closed::Private("an IPv4 address in disguise")));
        }
        // ISATAP, under any prefix.
        [.., 0 | 0x200, 0x5efe, high, low] if closed_v4(v4(high, low)).is_some() => return closed_v4(v4(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => return closed_v4(v4(high, low)),
        [0x2001, 0..=0x1ff, ..] => "an address reserved for protocols",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "an address reserved for documentation",
        [0x2000..=0x3fff, ..] => return None,
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] => "a site-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        _ => "a reserved address",
    };
    Some(Closed::Private(kind))
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Option<Closed> {
        closed(address.parse().unwrap())
    }

    #[test]
    fn the_open_internet_is_open() {
        let addresses = "1.1.1.1 8.8.8.8 93.184.215.14 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 169.253.0.1 \
            192.0.1.1 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700:4700::1111 2a00:1450:4001::200e \
            2001:4860:4860::8888 2001:200::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1";
        for address in addresses.split(' ') {
            assert_eq!(of(address), None, "{address}");
        }
    }

    #[test]
    fn what_is_not_on_the_open_internet_is_closed() {
        let addresses = "0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 \
            100.127.255.255 169.254.0.1 192.0.0.8 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 \
            224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 fc00::1 fd12::1 fe80::1 fec0::1 ff02::1 \
            100::1 2001:db8::1 2001::1 2001:10::1 3fff::1 4000::1 5f00::1";
        for address in addresses.split(' ') {
            assert!(matches!(of(address), Some(Closed::Private(_))), "{address}: {:?}", of(address));
        }
    }

    #[test]
    fn a_closed_address_stays_closed_when_written_as_ipv6() {
        for address in ["127.0.0.1", "10.0.0.1", "192.168.1.1", "100.64.0.1", "224.0.0.1", "0.0.0.0"] {
            let [a, b, c, d] = address.parse::<Ipv4Addr>().unwrap().octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            for disguised in [
                format!("::ffff:{address}"),
                format!("::ffff:0:{address}"),
                format!("64:ff9b::{address}"),
                format!("2002:{high:x}:{low:x}::1"),
                format!("2a00::5efe:{address}"),
                format!("2a00::200:5efe:{address}"),
                format!("64:ff9b:1::{address}"),
            ] {
                assert!(matches!(of(&disguised), Some(Closed::Private(_))), "{disguised}: {:?}", of(&disguised));
            }
        }
        for address in ["::127.0.0.1", "::8.8.8.8", "::ffff:0:8.8.8.8"] {
            assert!(matches!(of(address), Some(Closed::Private(_))), "{address}");
        }
    }

    #[test]
    fn metadata_services_are_recognized_by_any_of_their_addresses() {
        let addresses = "169.254.169.254 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254 fd20:ce::254 \
            ::ffff:169.254.169.254 ::169.254.169.254 64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 \
            fe80::5efe:169.254.169.254";
        for address in addresses.split(' ') {
            assert_eq!(of(address), Some(Closed::Metadata), "{address}");
        }
    }
}

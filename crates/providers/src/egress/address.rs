//! Which addresses lead to the public Internet.
//!
//! IPv4 is public but for a list, IPv6 is not but for one block less a list: that is how both were
//! handed out. The lists follow the registries of special-purpose addresses; what is deprecated or
//! carries another address inside is refused even where it could be public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32) -> (Ipv4Addr, u32) {
    (Ipv4Addr::new(a, b, c, d), bits)
}

const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 16] = [
    v4(0, 0, 0, 0, 8),       // this network
    v4(10, 0, 0, 0, 8),      // private
    v4(100, 64, 0, 0, 10),   // shared by carriers
    v4(127, 0, 0, 0, 8),     // loopback
    v4(169, 254, 0, 0, 16),  // link-local; metadata of clouds
    v4(172, 16, 0, 0, 12),   // private
    v4(192, 0, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 0, 24),    // documentation
    v4(192, 31, 196, 0, 24), // sink for reverse lookups of private addresses
    v4(192, 88, 99, 0, 24),  // 6to4 relays, deprecated
    v4(192, 168, 0, 0, 16),  // private
    v4(198, 18, 0, 0, 15),   // benchmarking
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24),  // documentation
    v4(224, 0, 0, 0, 4),     // multicast
    v4(240, 0, 0, 0, 4),     // reserved; broadcast
];

/// The only block of IPv6 that is handed out for public use.
const PUBLIC_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    // Protocol assignments: Teredo, benchmarking, overlay identifiers.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    // 6to4: carries an IPv4 address, deprecated.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// NAT64 carries an IPv4 address in its last 32 bits. It is in use: a network without IPv4 reaches
/// every IPv4 server by it. Its local form (`64:ff9b:1::/48`) leads wherever an operator decides.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether the address is one that anybody on the Internet could be reached at.
pub fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_global_v4(address),
        IpAddr::V6(address) => is_global_v6(address),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let within = |(network, bits): &(Ipv4Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *bits
    };
    !NOT_PUBLIC_V4.iter().any(within)
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    let within = |(network, bits): &(Ipv6Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *bits
    };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_global_v4(mapped);
    }
    if within(&NAT64) {
        let [.., a, b, c, d] = address.octets();
        return is_global_v4(Ipv4Addr::new(a, b, c, d));
    }
    within(&PUBLIC_V6) && !NOT_PUBLIC_V6.iter().any(within)
}

//! A block of addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses that share their first bits, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    bits: u32,
}

/// The text names no block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block of addresses is written as 10.0.0.0/8 or fd00::/8, with zeros after its bits")]
pub struct InvalidCidr;

impl Cidr {
    pub(super) const EVERY_V4: Cidr = Cidr { network: IpAddr::V4(Ipv4Addr::UNSPECIFIED), bits: 0 };
    pub(super) const EVERY_V6: Cidr = Cidr { network: IpAddr::V6(Ipv6Addr::UNSPECIFIED), bits: 0 };

    /// An IPv4 address in the form of IPv6 is in the blocks of its IPv4 form.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= self.bits
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    /// One address alone is a block too.
    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let (network, bits) = match text.split_once('/') {
            Some((network, bits)) => (network, Some(bits)),
            None => (text, None),
        };
        let network: IpAddr = network.parse().map_err(|_| InvalidCidr)?;
        let (bits_max, trailing_zeros) = match network {
            IpAddr::V4(network) => (32, network.to_bits().trailing_zeros()),
            IpAddr::V6(network) => (128, network.to_bits().trailing_zeros()),
        };
        let bits = bits.map_or(Ok(bits_max), |bits| bits.parse().map_err(|_| InvalidCidr))?;
        // Bits beyond the block are most likely a slip of the pen that opens too much.
        if bits > bits_max || trailing_zeros < bits_max - bits {
            return Err(InvalidCidr);
        }
        Ok(Cidr { network, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_what_they_say() {
        for (cidr, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.168.1.7", "192.168.1.7", "192.168.1.6"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
            ("fd00::/8", "fdff::1", "fe00::"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
        ] {
            let block: Cidr = cidr.parse().unwrap();
            assert!(block.contains(inside.parse().unwrap()), "{cidr} {inside}");
            assert!(!block.contains(outside.parse().unwrap()), "{cidr} {outside}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0.1/8", "10/8", "fd00::1/8", "10.0.0.0/-1", "a/8"] {
            assert_eq!(bad.parse::<Cidr>(), Err(InvalidCidr), "{bad}");
        }
    }
}

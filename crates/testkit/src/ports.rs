//! Network ports for servers that are started, stopped and started again on the same port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

/// Below the kernel's range for outgoing connections (from 32768): while a server is down, no
/// client of something else can sit on its port.
const FIRST: u32 = 10_000;
const COUNT: u32 = 10_000;
/// How many a process takes before it would run into its neighbour's.
const PER_PROCESS: u32 = 64;

/// A loopback port that nobody listens on. Processes start looking at different places, so that
/// two that ask at the same time do not get the same answer.
pub fn free_port() -> Result<u16> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let offset = std::process::id().wrapping_mul(PER_PROCESS);
    for _ in 0..COUNT {
        let step = TAKEN.fetch_add(1, Ordering::Relaxed);
        let candidate = FIRST + offset.wrapping_add(step) % COUNT;
        let port = u16::try_from(candidate)?;
        if TcpListener::bind(loopback(port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// `127.0.0.1:port`.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_not_given_out() {
        let first = free_port().unwrap();
        let _listener = TcpListener::bind(loopback(first)).unwrap();
        let second = free_port().unwrap();
        assert_ne!(first, second);
        assert!(TcpListener::bind(loopback(second)).is_ok());
    }
}

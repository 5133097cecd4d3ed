//! Names to addresses.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Looks names up. A trait so that tests decide what a name resolves to.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Every address of the name, in the order in which they should be tried.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the system, as every other program does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

//! Which addresses that users name may be connected to: the guard against requests forged through
//! this server.
//!
//! Invariant: a [`Target`] holds addresses that were looked up once and all found to be allowed, and
//! whoever connects uses these and never the name. A name that resolves to something else a moment
//! later changes nothing.

mod address;
mod cidr;
mod resolve;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use url::{Host, Url};

pub use address::is_global;
pub use cidr::{Cidr, InvalidCidr};
pub use resolve::{Resolver, SystemResolver};

/// A longer URL is refused.
pub const URL_BYTES_MAX: usize = 2048;
/// A name with more addresses than this is refused: all of them have to be checked.
const ADDRESSES_MAX: usize = 64;

/// Names that lead inside whatever they resolve to.
const NAMES_REFUSED: [&str; 1] = ["metadata.google.internal"];

/// What an operator changes about the rules.
#[derive(Debug, Clone, Default)]
pub struct EgressOptions {
    /// Addresses that may be connected to although they are not public.
    pub allow: Vec<Cidr>,
    pub ports_denied: Vec<u16>,
}

/// Decides about addresses. Cheap to clone.
#[derive(Clone)]
pub struct EgressGuard {
    options: Arc<EgressOptions>,
    resolver: Arc<dyn Resolver>,
}

/// Where a request may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub url: Url,
    /// The name or address as a certificate has it.
    pub name: String,
    /// Each was checked; never empty.
    pub addresses: Vec<SocketAddr>,
}

/// Why a request may go nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error("{0}")]
    Refused(Refusal),
    /// It may resolve later.
    #[error("the name cannot be resolved: {0}")]
    Unresolved(String),
}

/// What is wrong with an address. Says nothing about what a name resolved to: that would let users
/// ask this server's resolver about names inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("it is not a URL")]
    NotAUrl,
    #[error("it must begin with http:// or https://")]
    Scheme,
    #[error("it must not contain a user name or password")]
    Credentials,
    #[error("its port is not allowed")]
    Port,
    #[error("it does not lead to a public address")]
    NotPublic,
}

impl EgressGuard {
    pub fn new(options: EgressOptions) -> Self {
        Self::with_resolver(options, Arc::new(SystemResolver))
    }

    pub fn with_resolver(options: EgressOptions, resolver: Arc<dyn Resolver>) -> Self {
        EgressGuard { options: Arc::new(options), resolver }
    }

    /// For an engineer's own machine: addresses that are not public are allowed too.
    #[must_use]
    pub fn allowing_private(&self) -> Self {
        let allow = vec![Cidr::EVERY_V4, Cidr::EVERY_V6];
        let options = EgressOptions { allow, ..(*self.options).clone() };
        EgressGuard { options: Arc::new(options), resolver: self.resolver.clone() }
    }

    /// All that can be said without resolving a name.
    pub fn check(&self, url: &str) -> Result<Url, Refusal> {
        if url.len() > URL_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let url = Url::parse(url).map_err(|_| Refusal::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let port = url.port_or_known_default().ok_or(Refusal::Port)?;
        if port == 0 || self.options.ports_denied.contains(&port) {
            return Err(Refusal::Port);
        }
        match url.host().ok_or(Refusal::NotAUrl)? {
            Host::Ipv4(address) => self.check_address(address.into())?,
            Host::Ipv6(address) => self.check_address(address.into())?,
            Host::Domain(name) => self.check_name(name)?,
        }
        Ok(url)
    }

    /// Checks, resolves once, and checks what came of it. A single bad address refuses them all:
    /// which one a connection would take is not ours to hope for.
    pub async fn resolve(&self, url: &str) -> Result<Target, EgressError> {
        let url = self.check(url).map_err(EgressError::Refused)?;
        let port = url.port_or_known_default().ok_or(EgressError::Refused(Refusal::Port))?;
        let refused = EgressError::Refused(Refusal::NotPublic);
        let (name, addresses) = match url.host() {
            Some(Host::Ipv4(ip)) => (ip.to_string(), vec![SocketAddr::new(ip.into(), port)]),
            Some(Host::Ipv6(ip)) => (ip.to_string(), vec![SocketAddr::new(ip.into(), port)]),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.').to_owned();
                let resolved = self.resolver.resolve(&name).await;
                let resolved = resolved.map_err(|e| EgressError::Unresolved(e.to_string()))?;
                (name, resolved.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
            }
            None => return Err(EgressError::Refused(Refusal::NotAUrl)),
        };
        if addresses.is_empty() {
            return Err(EgressError::Unresolved("it has no address".to_owned()));
        }
        let all_good = addresses.iter().all(|address| self.check_address(address.ip()).is_ok());
        if !all_good || addresses.len() > ADDRESSES_MAX {
            return Err(refused);
        }
        Ok(Target { url, name, addresses })
    }

    fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        // The same machine is reached by an IPv4 address and by its form in IPv6.
        let address = address.to_canonical();
        let allowed = self.options.allow.iter().any(|cidr| cidr.contains(address));
        if allowed || is_global(address) { Ok(()) } else { Err(Refusal::NotPublic) }
    }

    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        let name = name.trim_end_matches('.');
        if name.is_empty() {
            return Err(Refusal::NotAUrl);
        }
        if NAMES_REFUSED.contains(&name) {
            return Err(Refusal::NotPublic);
        }
        if name == "localhost" || name.ends_with(".localhost") {
            return self.check_address(Ipv4Addr::LOCALHOST.into());
        }
        Ok(())
    }
}

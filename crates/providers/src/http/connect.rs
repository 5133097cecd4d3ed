//! Opens the connection of one call.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{CallError, Tls};

/// One address that does not answer must not use up the time of the others.
const CONNECT_SECS_MAX: u64 = 5;

/// Where a call goes.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    Unix(PathBuf),
    /// A host that the operator configured; resolved for every call.
    Host {
        name: String,
        port: u16,
        tls: Option<Tls>,
    },
    /// Addresses that were resolved and checked; nothing else is connected to.
    Pinned {
        addresses: Vec<SocketAddr>,
        name: String,
        tls: Option<Tls>,
    },
}

/// A byte stream of whatever kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) async fn open(route: &Route) -> Result<Box<dyn Stream>, CallError> {
    match route {
        Route::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(CallError::Connect)?;
            Ok(Box::new(stream))
        }
        Route::Host { name, port, tls } => {
            let name_and_port = (name.as_str(), *port);
            let addresses = tokio::net::lookup_host(name_and_port).await;
            let addresses: Vec<_> = addresses.map_err(CallError::Connect)?.collect();
            secured(tcp(&addresses).await?, name, tls.as_ref()).await
        }
        Route::Pinned { addresses, name, tls } => {
            secured(tcp(addresses).await?, name, tls.as_ref()).await
        }
    }
}

/// The first address that answers, in the order given.
async fn tcp(addresses: &[SocketAddr]) -> Result<TcpStream, CallError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let limit = Duration::from_secs(CONNECT_SECS_MAX);
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(CallError::Connect)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::from(io::ErrorKind::TimedOut),
        }
    }
    Err(CallError::Connect(last))
}

async fn secured(
    stream: TcpStream,
    name: &str,
    tls: Option<&Tls>,
) -> Result<Box<dyn Stream>, CallError> {
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => Ok(Box::new(tls.secure(stream, name).await?)),
    }
}

//! TLS as a client: certificates are always verified, by what the system trusts.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Whom to trust. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
}

/// Why a connection cannot be secured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("TLS failed: {0}")]
    Handshake(#[from] std::io::Error),
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
    #[error("a certificate that is to be trusted cannot be read: {0}")]
    Certificate(#[from] rustls::pki_types::pem::Error),
    #[error("there is no certificate in what is to be trusted")]
    NoCertificate,
    #[error("no certificate can be issued for that name: {0}")]
    Name(#[from] InvalidDnsNameError),
}

impl Tls {
    /// Trusts the system's certificates and, in addition, those in `extra_pem`.
    pub(crate) fn new(extra_pem: Option<&str>) -> Result<Self, TlsError> {
        let roots = roots(extra_pem)?;
        // The provider is named, not installed for the whole process: others keep their choice.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Tls { config: Arc::new(config) })
    }

    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        name: &str,
    ) -> Result<TlsStream<TcpStream>, TlsError> {
        let name = ServerName::try_from(name.to_owned())?;
        Ok(TlsConnector::from(self.config.clone()).connect(name, stream).await?)
    }
}

/// The system's certificates and, in addition, those in `extra_pem`.
pub(crate) fn roots(extra_pem: Option<&str>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::warn!(%error, "some of the system's certificates cannot be read");
    }
    roots.add_parsable_certificates(system.certs);
    if let Some(pem) = extra_pem {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate?)?;
        }
        if roots.len() == before {
            return Err(TlsError::NoCertificate);
        }
    }
    Ok(roots)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

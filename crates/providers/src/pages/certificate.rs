//! TLS with a page: always verified, and always able to say what the certificate was.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use roundsman_core::Timestamp;
use roundsman_core::audits::observed::TlsSeen;
use roundsman_core::ports::{ObserveError, ObserveErrorKind as Kind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, ProtocolVersion, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::trouble::trouble;
use crate::http::{TlsError, roots};

const NAMES_SEEN_MAX: usize = 100;
const TEXT_CHARS_MAX: usize = 300;

/// Whom to trust, and how pages are spoken to.
pub(super) struct PageTls {
    config: ClientConfig,
    verifier: Arc<WebPkiServerVerifier>,
}

impl PageTls {
    /// Trusts the system's certificates and, in addition, those in `extra_pem`.
    pub(super) fn new(extra_pem: Option<&str>) -> Result<Self, TlsError> {
        let roots = Arc::new(roots(extra_pem)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Every look measures a whole handshake and sees the certificate.
        config.resumption = Resumption::disabled();
        Ok(PageTls { config, verifier })
    }

    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        name: &str,
    ) -> Result<(TlsStream<TcpStream>, TlsSeen), ObserveError> {
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| trouble(Kind::TlsError, "no certificate can be issued for that name"))?;
        let witness = Arc::new(Witness { inner: self.verifier.clone(), refused: Mutex::default() });
        let mut config = self.config.clone();
        config.dangerous().set_certificate_verifier(witness.clone());
        match TlsConnector::from(Arc::new(config)).connect(server, stream).await {
            Ok(stream) => {
                let seen = seen(&stream);
                Ok((stream, seen))
            }
            Err(error) => {
                let refused = witness.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
                let detail = refused.unwrap_or_else(|| format!("TLS failed: {error}"));
                Err(trouble(Kind::TlsError, detail))
            }
        }
    }
}

/// Verifies as everybody does, and remembers what was refused and why.
#[derive(Debug)]
struct Witness {
    inner: Arc<WebPkiServerVerifier>,
    refused: Mutex<Option<String>>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        if let Err(error) = &verified {
            let text = format!("{}{}", reason(error), facts(end_entity));
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn reason(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(problem) = error else {
        return format!("the certificate is not trusted: {error}");
    };
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for other names".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "the certificate's issuer is not trusted, or a certificate between is missing"
                .to_owned()
        }
        other => format!("the certificate is not trusted: {other}"),
    }
}

fn facts(certificate: &CertificateDer<'_>) -> String {
    let read = read(certificate);
    let date = |at: Option<Timestamp>| at.map_or("?".to_owned(), |at| at.to_string());
    let (from, until) = (date(read.valid_from), date(read.valid_until));
    let names = read.names.join(", ");
    format!("; valid from {from} until {until}, issued by \"{}\", for {names}", read.issuer)
}

fn seen(stream: &TlsStream<TcpStream>) -> TlsSeen {
    let (_, connection) = stream.get_ref();
    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "1.3",
        Some(ProtocolVersion::TLSv1_2) => "1.2",
        _ => "unknown",
    };
    let suite = connection.negotiated_cipher_suite();
    let cipher = suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()));
    let certificates = connection.peer_certificates().unwrap_or_default();
    let read = certificates.first().map(read).unwrap_or_default();
    TlsSeen {
        version: version.to_owned(),
        cipher,
        valid_from: read.valid_from,
        valid_until: read.valid_until,
        issuer: read.issuer,
        names: read.names,
        problem: None,
    }
}

/// What a certificate says about itself.
#[derive(Default)]
struct Read {
    valid_from: Option<Timestamp>,
    valid_until: Option<Timestamp>,
    issuer: String,
    names: Vec<String>,
}

/// One that cannot be read says nothing.
fn read(certificate: &CertificateDer<'_>) -> Read {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Read::default();
    };
    let at = |seconds: i64| seconds.checked_mul(1_000_000).map(Timestamp::from_micros);
    let at = |seconds: i64| at(seconds).filter(|at| *at <= Timestamp::MAX);
    let named = certificate.subject_alternative_name().ok().flatten();
    let named = named.iter().flat_map(|names| &names.value.general_names);
    Read {
        valid_from: at(certificate.validity().not_before.timestamp()),
        valid_until: at(certificate.validity().not_after.timestamp()),
        issuer: short(&certificate.issuer().to_string()),
        names: named.filter_map(name).take(NAMES_SEEN_MAX).collect(),
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(short(name)),
        GeneralName::IPAddress(bytes) => {
            let four: Option<[u8; 4]> = (*bytes).try_into().ok();
            let sixteen: Option<[u8; 16]> = (*bytes).try_into().ok();
            let address = four.map(IpAddr::from).or(sixteen.map(IpAddr::from))?;
            Some(address.to_string())
        }
        _ => None,
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect()
}

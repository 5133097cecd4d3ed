//! Certificates of every kind, and the servers that show them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    SanType, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::Door;

pub(super) struct Certificates {
    pub(super) ca_pem: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
    stranger: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    pub(super) fn make() -> Result<Self> {
        let issuer = authority("Roundsman test authority")?;
        let stranger = authority("An authority that nobody knows")?;
        Ok(Certificates { ca_pem: issuer.pem(), issuer, stranger })
    }

    /// `None` for doors that do not speak TLS.
    pub(super) fn acceptor(&self, door: Door) -> Result<Option<TlsAcceptor>> {
        if matches!(door, Door::Plain | Door::Silent) {
            return Ok(None);
        }
        let issuer = if door == Door::Untrusted { &self.stranger } else { &self.issuer };
        let (certificate, key) = leaf(door, issuer)?;
        let chain = vec![certificate, issuer.der().clone()];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[_] = match door {
            Door::Tls12 => &[&rustls::version::TLS12],
            _ => &[&rustls::version::TLS13, &rustls::version::TLS12],
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = match door {
            Door::SecureHttp1 => vec![b"http/1.1".to_vec()],
            _ => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }
}

fn authority(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn leaf(
    door: Door,
    issuer: &CertifiedIssuer<'static, KeyPair>,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let names = match door {
        Door::OtherName => vec!["other.test".to_owned()],
        _ => ["localhost", "site.test", "*.site.test"].map(str::to_owned).to_vec(),
    };
    let mut params = CertificateParams::new(names)?;
    if door != Door::OtherName {
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
    (params.not_before, params.not_after) = match door {
        Door::Expired => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
        Door::NotYetValid => (date_time_ymd(2090, 1, 1), date_time_ymd(2091, 1, 1)),
        _ => (date_time_ymd(2025, 1, 1), date_time_ymd(2080, 1, 1)),
    };
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    Ok((certificate.der().clone(), key))
}

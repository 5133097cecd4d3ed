//! Webhooks against real listeners: what is sent, what is believed, and who is never called.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use roundsman_core::ports::{NotSent, WebhookAnswer, WebhookRequest, WebhookSender};
use roundsman_providers::egress::{EgressGuard, EgressOptions};
use roundsman_providers::webhooks::HttpWebhookSender;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::egress::scripted;
use crate::stand_in::{Play, StandIn};

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_request_arrives_as_it_was_made() {
    let endpoint = StandIn::answering(|_| Play::Answer(202, "thanks".to_owned())).await;
    let mut request = request(&format!("{}/hook/ü?a=b%20c#part", endpoint.url()));
    request.headers = vec![
        ("webhook-id", "msg_1".to_owned()),
        ("content-type", "application/json; charset=utf-8".to_owned()),
    ];
    request.body = r#"{"type":"meeting.completed","größe":1}"#.to_owned();
    let answer = sender().post(request.clone()).await;
    assert_eq!(answer, Ok(WebhookAnswer { status: 202 }));
    let seen = endpoint.seen();
    let [seen] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(seen.is("POST", "/hook/%C3%BC"), "{seen:?}");
    assert_eq!(seen.query("a"), Some("b c"));
    assert_eq!(seen.body, request.body);
    assert_eq!(seen.header("host"), Some(endpoint.address.to_string().as_str()));
    assert_eq!(seen.header("webhook-id"), Some("msg_1"));
    assert_eq!(seen.header("content-type"), Some("application/json; charset=utf-8"));
    assert!(seen.header("user-agent").is_some_and(|agent| agent.starts_with("roundsman/")));
}

#[tokio::test]
async fn every_status_is_an_answer_and_redirects_are_not_followed() {
    let canary = StandIn::answering(|_| Play::Answer(200, String::new())).await;
    let location = canary.url();
    let endpoint = StandIn::answering(move |seen| {
        let status: u16 = seen.query("status").unwrap().parse().unwrap();
        let head = format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n");
        Play::Raw(format!("{head}\r\n").into_bytes())
    })
    .await;
    for status in [200, 204, 301, 302, 307, 308, 400, 410, 429, 500, 503] {
        let url = format!("{}/?status={status}", endpoint.url());
        assert_eq!(sender().post(request(&url)).await, Ok(WebhookAnswer { status }));
    }
    assert_eq!(canary.connects(), 0);
}

#[tokio::test]
async fn an_endless_answer_is_read_to_the_limit_alone() {
    let mut body = b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n".to_vec();
    body.resize(1024 * 1024, b'x');
    let endpoint = StandIn::answering(move |_| Play::Raw(body.clone())).await;
    let answer = sender().post(request(&endpoint.url())).await;
    assert_eq!(answer, Ok(WebhookAnswer { status: 200 }));
}

#[tokio::test]
async fn silence_and_nonsense_may_work_later() {
    for play in [
        Play::Hang,
        Play::Raw(Vec::new()),
        Play::Raw(b"220 mail.example ESMTP\r\n".to_vec()),
        Play::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc".to_vec()),
    ] {
        let shown = format!("{play:?}");
        let endpoint = StandIn::answering(move |_| play.clone()).await;
        let mut request = request(&endpoint.url());
        request.time_max = Duration::from_millis(300);
        let answer = sender().post(request).await;
        assert!(matches!(answer, Err(NotSent::Failed(_))), "{shown}: {answer:?}");
    }
    // Nobody listens there any more.
    let gone = StandIn::answering(|_| Play::Hang).await.url();
    let answer = sender().post(request(&gone)).await;
    assert!(matches!(answer, Err(NotSent::Failed(_))), "{answer:?}");
}

#[tokio::test]
async fn nobody_inside_is_ever_connected_to() {
    let canary = StandIn::answering(|_| Play::Answer(200, String::new())).await;
    let port = canary.address.port();
    let (guard, _) = scripted(
        EgressOptions::default(),
        &[
            ("inside.example", &["127.0.0.1"]),
            ("mixed.example", &["93.184.216.34", "127.0.0.1"]),
            ("localhost", &["127.0.0.1"]),
        ],
    );
    let sender = HttpWebhookSender::new(guard, None).unwrap();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "localhost",
        "a.localhost",
        "localhost.",
        "inside.example",
        "mixed.example",
        "１２７.0.0.1",
        "example.com@127.0.0.1",
        "metadata.google.internal",
    ] {
        let url = format!("http://{host}:{port}/");
        let answer = sender.post(request(&url)).await;
        assert!(matches!(answer, Err(NotSent::BlockedTarget(_))), "{url}: {answer:?}");
    }
    assert_eq!(canary.connects(), 0);
    assert!(sender.check_url("https://hooks.example/a").is_ok());
    let refused = sender.check_url(&canary.url());
    assert!(matches!(refused, Err(NotSent::BlockedTarget(_))), "{refused:?}");
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_connected_where_it_was_checked() {
    // The system's resolver does not know the name: only the pinned address can be connected to.
    let endpoint = StandIn::answering(|_| Play::Answer(200, String::new())).await;
    let (guard, resolver) = scripted(loopback_allowed(), &[("pinned.example", &["127.0.0.1"])]);
    let sender = HttpWebhookSender::new(guard, None).unwrap();
    let url = format!("http://pinned.example:{}/", endpoint.address.port());
    assert_eq!(sender.post(request(&url)).await, Ok(WebhookAnswer { status: 200 }));
    assert_eq!(resolver.asked.lock().unwrap().len(), 1);
    let host = format!("pinned.example:{}", endpoint.address.port());
    assert_eq!(endpoint.seen()[0].header("host"), Some(host.as_str()));
}

#[tokio::test]
async fn an_address_that_does_not_answer_gives_way_to_the_next() {
    let endpoint = StandIn::answering(|_| Play::Answer(200, String::new())).await;
    let table: [(&str, &[&str]); 1] = [("two.example", &["127.0.0.2", "127.0.0.1"])];
    let (guard, _) = scripted(loopback_allowed(), &table);
    let sender = HttpWebhookSender::new(guard, None).unwrap();
    let url = format!("http://two.example:{}/", endpoint.address.port());
    assert_eq!(sender.post(request(&url)).await, Ok(WebhookAnswer { status: 200 }));
}

#[tokio::test]
async fn certificates_are_verified() {
    let mut tasks = JoinSet::new();
    let certified = certified();
    let authority = certified.authority_pem.as_str();
    let address = tls_endpoint(&certified, &mut tasks).await;
    let post = async |name: &str, extra: Option<&str>| {
        let table: [(&str, &[&str]); 2] =
            [("hooks.test", &["127.0.0.1"]), ("other.test", &["127.0.0.1"])];
        let (guard, _) = scripted(loopback_allowed(), &table);
        let sender = HttpWebhookSender::new(guard, extra).unwrap();
        sender.post(request(&format!("https://{name}:{}/", address.port()))).await
    };
    assert_eq!(post("hooks.test", Some(authority)).await, Ok(WebhookAnswer { status: 200 }));
    for (name, extra) in
        [("hooks.test", None), ("other.test", Some(authority)), ("127.0.0.1", Some(authority))]
    {
        let answer = post(name, extra).await;
        let Err(NotSent::Failed(reason)) = &answer else { panic!("{name}: {answer:?}") };
        assert!(reason.contains("certificate"), "{name}: {reason}");
    }
    assert!(HttpWebhookSender::new(guard(), Some("no certificate")).is_err());
    let broken = authority.replace('M', "*");
    assert!(HttpWebhookSender::new(guard(), Some(&broken)).is_err());
}

/// An authority, and a certificate for `hooks.test` that it has issued.
struct Certified {
    authority_pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn certified() -> Certified {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let endpoint = CertificateParams::new(vec!["hooks.test".to_owned()]).unwrap();
    let certificate = endpoint.signed_by(&key, &issuer).unwrap();
    Certified {
        authority_pem: issuer.pem(),
        certificate: certificate.der().clone(),
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    }
}

/// Answers 200 to whoever trusts its certificate.
async fn tls_endpoint(certified: &Certified, tasks: &mut JoinSet<()>) -> SocketAddr {
    let (certificate, key) = (certified.certificate.clone(), certified.key.clone_key());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

fn loopback_allowed() -> EgressOptions {
    let allow = vec!["127.0.0.0/8".parse().unwrap()];
    EgressOptions { allow, ..EgressOptions::default() }
}

fn guard() -> EgressGuard {
    EgressGuard::new(loopback_allowed())
}

fn sender() -> HttpWebhookSender {
    HttpWebhookSender::new(guard(), None).unwrap()
}

fn request(url: &str) -> WebhookRequest {
    WebhookRequest {
        url: url.to_owned(),
        headers: Vec::new(),
        body: "{}".to_owned(),
        time_max: LIMIT,
    }
}

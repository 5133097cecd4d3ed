//! Downloads from a source that does what a test tells it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use roundsman_core::ports::{Fetched, MediaError, MediaFetcher};
use roundsman_providers::media::{FetchLimits, HttpMediaFetcher};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{noise, sha256};
use crate::stand_in::{Play, Seen, StandIn};

/// A source of one file.
#[derive(Clone)]
struct Source {
    content: Arc<Mutex<Vec<u8>>>,
    etag: Arc<Mutex<Option<String>>>,
    /// How much of an answer goes through before the connection breaks; used up in order.
    cuts: Arc<Mutex<Vec<usize>>>,
    knows_ranges: bool,
}

impl Source {
    fn of(content: &[u8]) -> Self {
        Source {
            content: Arc::new(Mutex::new(content.to_vec())),
            etag: Arc::new(Mutex::new(Some("\"v1\"".to_owned()))),
            cuts: Arc::default(),
            knows_ranges: true,
        }
    }

    fn cut_after(self, cuts: &[usize]) -> Self {
        *self.cuts.lock().unwrap() = cuts.to_vec();
        self
    }

    fn becomes(&self, content: &[u8], etag: &str) {
        *self.content.lock().unwrap() = content.to_vec();
        *self.etag.lock().unwrap() = Some(etag.to_owned());
    }

    async fn serve(&self) -> StandIn {
        let source = self.clone();
        StandIn::answering(move |seen| source.answer(seen)).await
    }

    fn answer(&self, seen: &Seen) -> Play {
        let (content, etag) = (self.content.lock().unwrap(), self.etag.lock().unwrap());
        let range = seen.header("range").filter(|_| self.knows_ranges);
        let same = seen.header("if-range").is_none_or(|had| Some(had) == etag.as_deref());
        let start = range.filter(|_| same).map(|range| {
            let start = range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
            start.unwrap().parse::<usize>().unwrap()
        });
        let total = content.len();
        let etag = etag.as_ref().map(|etag| format!("etag: {etag}\r\n")).unwrap_or_default();
        let (status, range, body) = match start {
            Some(start) if start >= total => {
                let head = format!("HTTP/1.1 416 X\r\ncontent-range: bytes */{total}\r\n");
                return Play::Raw(format!("{head}content-length: 0\r\n\r\n").into_bytes());
            }
            Some(start) => {
                let range = format!("content-range: bytes {start}-{}/{total}\r\n", total - 1);
                (206, range, &content[start..])
            }
            None => (200, String::new(), &content[..]),
        };
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{range}{etag}", body.len());
        let mut cuts = self.cuts.lock().unwrap();
        let sent = if cuts.is_empty() { body.len() } else { cuts.remove(0).min(body.len()) };
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend_from_slice(&body[..sent]);
        Play::Raw(bytes)
    }
}

struct Lab {
    folder: TempDir,
    fetcher: HttpMediaFetcher,
}

fn lab() -> Lab {
    lab_with(FetchLimits::default())
}

fn lab_with(limits: FetchLimits) -> Lab {
    let fetcher = HttpMediaFetcher::new(limits, None).unwrap();
    Lab { folder: tempfile::tempdir().unwrap(), fetcher }
}

impl Lab {
    async fn download(&self, link: &str) -> Result<Fetched, MediaError> {
        self.fetcher.download(link, &self.folder.path().join("file")).await
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("file")).unwrap()
    }

    async fn check(&self, link: &str, content: &[u8]) {
        let fetched = self.download(link).await.unwrap();
        let expected = Fetched { bytes: content.len() as u64, sha256: sha256(content) };
        assert_eq!(fetched, expected);
        assert!(self.content() == content);
    }
}

fn ranges(source: &StandIn) -> Vec<Option<String>> {
    source.seen().iter().map(|seen| seen.header("range").map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_file_comes_whole_with_its_hash() {
    for content in [noise(1_000_000), Vec::new(), b"x".to_vec()] {
        let source = Source::of(&content).serve().await;
        let lab = lab();
        lab.check(&format!("{}/a/b?signature=c", source.url()), &content).await;
        let seen = &source.seen()[0];
        assert!(seen.is("GET", "/a/b") && seen.query("signature") == Some("c"), "{seen:?}");
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
    }
}

#[tokio::test]
async fn a_download_that_breaks_goes_on_where_it_ended() {
    let content = noise(300_000);
    let source = Source::of(&content).cut_after(&[100_000, 0, 50_000]).serve().await;
    lab().check(&source.url(), &content).await;
    let expected = [None, Some("bytes=100000-"), Some("bytes=100000-"), Some("bytes=150000-")];
    assert_eq!(ranges(&source), expected.map(|range| range.map(str::to_owned)));
    assert_eq!(source.seen()[1].header("if-range"), Some("\"v1\""));
}

#[tokio::test]
async fn a_later_download_goes_on_where_an_earlier_one_ended() {
    let content = noise(300_000);
    let lab = lab();
    let breaks = Source::of(&content).cut_after(&[200_000, 0, 0, 0]).serve().await;
    let broken = lab.download(&breaks.url()).await;
    assert!(matches!(broken, Err(MediaError::Failed(_))), "{broken:?}");
    // The link is another one: the old one has expired.
    let source = Source::of(&content).serve().await;
    lab.check(&format!("{}/other?signature=d", source.url()), &content).await;
    assert_eq!(ranges(&source), [Some("bytes=200000-".to_owned())]);
    // Of a file that is there already it is only made sure that it is still the same.
    lab.check(&source.url(), &content).await;
    assert_eq!(ranges(&source)[1], Some("bytes=299999-".to_owned()));
}

#[tokio::test]
async fn a_file_that_has_changed_is_downloaded_anew() {
    for (new, etag) in [
        (noise(250_000), "\"v2\""),
        (b"much shorter".to_vec(), "\"v2\""),
        // A source that does not say that it has changed, but by the length.
        (noise(250_000), "\"v1\""),
        (b"shorter".to_vec(), "\"v1\""),
    ] {
        let old: Vec<u8> = noise(300_000).into_iter().rev().collect();
        let source = Source::of(&old).cut_after(&[200_000, 0, 0, 0]);
        let (lab, server) = (lab(), source.serve().await);
        lab.download(&server.url()).await.unwrap_err();
        source.becomes(&new, etag);
        lab.check(&server.url(), &new).await;
    }
}

#[tokio::test]
async fn a_source_without_marks_or_ranges_is_begun_anew_or_trusted_by_its_length() {
    let content = noise(200_000);
    let source = Source::of(&content).cut_after(&[150_000]);
    *source.etag.lock().unwrap() = None;
    let server = source.serve().await;
    lab().check(&server.url(), &content).await;
    assert_eq!(ranges(&server)[1], Some("bytes=150000-".to_owned()));

    let knows_none = Source { knows_ranges: false, ..Source::of(&content) };
    let server = knows_none.cut_after(&[150_000, 20_000]).serve().await;
    lab().check(&server.url(), &content).await;

    // A weak mark does not say that the bytes are the same; the length does what it can.
    let source = Source::of(&content).cut_after(&[150_000]);
    *source.etag.lock().unwrap() = Some("W/\"v1\"".to_owned());
    let server = source.serve().await;
    lab().check(&server.url(), &content).await;
    assert_eq!(server.seen()[1].header("if-range"), None);
}

#[tokio::test]
async fn what_was_not_made_safe_before_a_power_failure_is_downloaded_again() {
    let content = noise(300_000);
    let source = Source::of(&content).cut_after(&[200_000, 0, 0, 0]);
    let (lab, server) = (lab(), source.serve().await);
    lab.download(&server.url()).await.unwrap_err();
    // The file has grown, and what it has grown by never reached the disk.
    let path = lab.folder.path().join("file");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(280_000).unwrap();
    lab.check(&server.url(), &content).await;
    assert_eq!(ranges(&server).last().unwrap().as_deref(), Some("bytes=200000-"));
}

#[tokio::test]
async fn a_file_that_is_too_large_is_refused_before_and_while_it_comes() {
    let limits = FetchLimits { bytes_max: 1000, ..FetchLimits::default() };
    let announced = Source::of(&noise(1001)).serve().await;
    let endless = StandIn::answering(|_| {
        let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        bytes.resize(100_000, b'x');
        Play::Raw(bytes)
    })
    .await;
    for source in [announced, endless] {
        let lab = lab_with(limits);
        let refused = lab.download(&source.url()).await;
        let Err(MediaError::Refused(said)) = &refused else { panic!("{refused:?}") };
        assert!(said.contains("1000 bytes"), "{said}");
        assert!(lab.content().len() <= 1000);
    }
    lab_with(limits).check(&Source::of(&noise(1000)).serve().await.url(), &noise(1000)).await;
}

#[tokio::test]
async fn whoever_is_too_slow_is_left() {
    let slow = StandIn::answering(|_| {
        Play::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc".to_vec())
    })
    .await;
    let limits = FetchLimits { slow_for: Duration::from_millis(100), ..FetchLimits::default() };
    let failed = lab_with(limits).download(&slow.url()).await;
    assert!(
        matches!(&failed, Err(MediaError::Failed(said)) if said.contains("slower")),
        "{failed:?}"
    );
    let limits = FetchLimits { time_max: Duration::from_millis(100), ..FetchLimits::default() };
    let failed = lab_with(limits).download(&slow.url()).await;
    assert!(
        matches!(&failed, Err(MediaError::Failed(said)) if said.contains("within")),
        "{failed:?}"
    );
    let silent = StandIn::answering(|_| Play::Hang).await;
    let limits = FetchLimits { answer_max: Duration::from_millis(50), ..FetchLimits::default() };
    let failed = lab_with(limits).download(&silent.url()).await;
    assert!(matches!(failed, Err(MediaError::Failed(_))), "{failed:?}");
}

#[tokio::test]
async fn redirects_are_followed_a_few_times() {
    let content = noise(1000);
    let source = Source::of(&content).serve().await;
    let end = format!("{}/end?signature=x", source.url());
    let hops = StandIn::answering(move |seen| {
        let left: u32 = seen.path.trim_start_matches('/').parse().unwrap();
        let location = if left == 1 { end.clone() } else { format!("/{}", left - 1) };
        let status = [301, 302, 303, 307, 308][left as usize % 5];
        let head = format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\n");
        Play::Raw(format!("{head}content-length: 0\r\n\r\n").into_bytes())
    })
    .await;
    lab().check(&format!("{}/5", hops.url()), &content).await;
    let refused = lab().download(&format!("{}/6", hops.url())).await;
    assert!(matches!(refused, Err(MediaError::Refused(_))), "{refused:?}");
    for location in ["ftp://example.org/x", "http://user:secret@127.0.0.1/", "http://[", ""] {
        let head = format!("HTTP/1.1 302 X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let away = StandIn::answering(move |_| Play::Raw(head.clone().into_bytes())).await;
        let refused = lab().download(&away.url()).await;
        assert!(matches!(refused, Err(MediaError::Refused(_))), "{location}: {refused:?}");
    }
}

#[tokio::test]
async fn what_the_source_says_decides_whether_to_try_again() {
    for status in [401, 403, 404, 408, 410, 418, 429, 500, 503, 204] {
        let source = StandIn::answering(move |_| Play::Answer(status, String::new())).await;
        let error = lab().download(&format!("{}/?sig=s3cr3t", source.url())).await.unwrap_err();
        let as_expected = match status {
            404 | 410 => error == MediaError::NotFound,
            418 => matches!(error, MediaError::Refused(_)),
            _ => matches!(error, MediaError::Failed(_)),
        };
        assert!(as_expected, "{status}: {error:?}");
        assert!(!error.to_string().contains("s3cr3t"));
    }
    for link in ["", "an error instead of a link", "ftp://x/y", "file:///etc/passwd"] {
        let error = lab().download(link).await.unwrap_err();
        assert!(matches!(error, MediaError::Refused(_)), "{link}: {error:?}");
    }
    let gone = StandIn::answering(|_| Play::Hang).await.url();
    let error = lab().download(&format!("{gone}/?sig=s3cr3t")).await.unwrap_err();
    assert!(matches!(error, MediaError::Failed(_)), "{error:?}");
    assert!(!error.to_string().contains("s3cr3t"));
}

#[tokio::test]
async fn secured_sources_are_verified_and_never_left_for_others() {
    let mut tasks = JoinSet::new();
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, authority).unwrap();
    let plain = Source::of(b"not secured").serve().await;
    let address = secured(&issuer, plain.url(), &mut tasks).await;
    let trusting = || {
        let fetcher = HttpMediaFetcher::new(FetchLimits::default(), Some(&issuer.pem())).unwrap();
        Lab { folder: tempfile::tempdir().unwrap(), fetcher }
    };
    trusting().check(&format!("https://{address}/file"), b"secured").await;
    let refused = trusting().download(&format!("https://{address}/away")).await;
    assert!(matches!(refused, Err(MediaError::Refused(_))), "{refused:?}");
    assert_eq!(plain.connects(), 0);
    let failed = lab().download(&format!("https://{address}/file")).await;
    assert!(matches!(failed, Err(MediaError::Failed(_))), "{failed:?}");
}

/// A source with a certificate of this authority: a file, and a redirect to somewhere else.
async fn secured(
    issuer: &CertifiedIssuer<'_, KeyPair>,
    elsewhere: String,
    tasks: &mut JoinSet<()>,
) -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
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
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let answer = if request[..read].starts_with(b"GET /away") {
                format!("HTTP/1.1 302 X\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n")
            } else {
                "HTTP/1.1 200 X\r\ncontent-length: 7\r\n\r\nsecured".to_owned()
            };
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

//! Blobs in a stand-in for S3 that checks every signature.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{MediaError, MediaStore};
use roundsman_providers::media::conformance::MediaHost;
use roundsman_providers::media::{InvalidS3Options, S3MediaStore, S3Options};
use roundsman_testkit::{ManualClock, S3Account, S3Fault, S3StandIn};
use tempfile::TempDir;

use super::{noise, sha256};

roundsman_providers::media_conformance_suite!(host());

const PART_BYTES: u64 = 5 * 1024 * 1024;

/// Something else about the options.
type Change = fn(&mut S3Options);

struct S3Host {
    bucket: S3StandIn,
    clock: Arc<ManualClock>,
    own: TempDir,
}

async fn host() -> S3Host {
    host_of(S3Account::default()).await
}

async fn host_of(account: S3Account) -> S3Host {
    let clock = Arc::new(ManualClock::default());
    let bucket = S3StandIn::start(account, clock.clone()).await.unwrap();
    S3Host { bucket, clock, own: tempfile::tempdir().unwrap() }
}

impl S3Host {
    fn options(&self) -> S3Options {
        let S3Account { access_key, secret_key, region, bucket, session_token } =
            self.bucket.account().clone();
        let secret_key = secret_key.into();
        let options = S3Options::new(self.bucket.url(), region, bucket, access_key, secret_key);
        let session_token = session_token.map(Into::into);
        S3Options { part_bytes: PART_BYTES, session_token, ..options }
    }

    fn store_with(&self, change: impl FnOnce(&mut S3Options)) -> S3MediaStore {
        let mut options = self.options();
        change(&mut options);
        S3MediaStore::new(&options, self.clock.clone()).unwrap()
    }

    fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.folder().join("in");
        std::fs::write(&path, content).unwrap();
        path
    }
}

#[async_trait]
impl MediaHost for S3Host {
    fn store(&self) -> Arc<dyn MediaStore> {
        Arc::new(self.store_with(|_| {}))
    }

    async fn blobs(&self) -> Vec<String> {
        assert_eq!(self.bucket.uploads_open(), 0, "an upload was left");
        self.bucket.objects()
    }

    async fn damage(&self, blob: &str) {
        assert!(self.bucket.damage(blob));
    }

    fn folder(&self) -> PathBuf {
        self.own.path().to_owned()
    }

    fn long_bytes(&self) -> usize {
        usize::try_from(PART_BYTES).unwrap() * 2 + 17
    }
}

#[tokio::test]
async fn a_long_file_goes_in_parts_and_a_short_one_does_not() {
    let host = host().await;
    let short = noise(usize::try_from(PART_BYTES).unwrap());
    host.store().keep(&host.file(&short), &sha256(&short)).await.unwrap();
    assert_eq!(host.bucket.requests(), ["HEAD", "PUT"]);
    let long = noise(host.long_bytes());
    host.store().keep(&host.file(&long), &sha256(&long)).await.unwrap();
    let part = "PUT partNumber uploadId";
    let expected = ["HEAD", "POST uploads", part, part, part, "POST uploadId"];
    assert_eq!(host.bucket.requests()[2..], expected);
}

#[tokio::test]
async fn a_part_that_is_not_taken_is_sent_again() {
    let host = host().await;
    host.bucket.fail_next("PUT", S3Fault::Status(503));
    host.bucket.fail_next("PUT", S3Fault::HangUp);
    let long = noise(host.long_bytes());
    let blob = host.store().keep(&host.file(&long), &sha256(&long)).await.unwrap();
    host.store().read(&blob, &host.folder().join("out")).await.unwrap();
    assert!(std::fs::read(host.folder().join("out")).unwrap() == long);
}

#[tokio::test]
async fn what_cannot_be_finished_is_taken_back_and_may_work_later() {
    let long = noise(usize::try_from(PART_BYTES).unwrap() * 2);
    for (method, fault, times) in [
        ("PUT", S3Fault::Status(500), 3),
        ("POST uploads", S3Fault::Status(500), 1),
        ("POST uploadId", S3Fault::Status(500), 1),
        ("POST uploadId", S3Fault::HangUp, 1),
    ] {
        let host = host().await;
        for _ in 0..times {
            host.bucket.fail_next(method, fault);
        }
        let file = host.file(&long);
        let kept = host.store().keep(&file, &sha256(&long)).await;
        assert!(matches!(kept, Err(MediaError::Failed(_))), "{method} {fault:?}: {kept:?}");
        assert_eq!(host.blobs().await, Vec::<String>::new());
        assert!(host.store().keep(&file, &sha256(&long)).await.is_ok());
    }
}

#[tokio::test]
async fn a_success_that_says_error_is_none() {
    let host = host().await;
    let long = noise(usize::try_from(PART_BYTES).unwrap() + 1);
    host.bucket.fail_next("POST uploadId", S3Fault::LateError);
    let kept = host.store().keep(&host.file(&long), &sha256(&long)).await;
    assert!(matches!(kept, Err(MediaError::Failed(_))), "{kept:?}");
    assert_eq!(host.blobs().await, Vec::<String>::new());
}

#[tokio::test]
async fn whoever_is_not_trusted_is_told_so_and_no_secret_is_told() {
    let host = host().await;
    let file = host.file(b"x");
    let wrong: [(&str, Change); 5] = [
        ("key", |options| options.secret_key = "another".to_owned().into()),
        ("name", |options| options.access_key = "NOBODY".to_owned()),
        ("region", |options| options.region = "elsewhere".to_owned()),
        ("token", |options| options.session_token = Some("lent".to_owned().into())),
        ("bucket", |options| options.bucket = "another".to_owned()),
    ];
    for (what, change) in wrong {
        let kept = host.store_with(change).keep(&file, &sha256(b"x")).await;
        let Err(MediaError::Refused(said)) = &kept else { panic!("{what}: {kept:?}") };
        assert!(!said.contains("secret") && !said.contains("another"), "{said}");
    }
    assert_eq!(host.blobs().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_request_that_is_not_recent_is_refused() {
    let host = host().await;
    let file = host.file(b"x");
    let ahead = Arc::new(ManualClock::default());
    ahead.advance(Duration::from_secs(3600));
    let store = S3MediaStore::new(&host.options(), ahead).unwrap();
    let kept = store.keep(&file, &sha256(b"x")).await;
    assert!(matches!(kept, Err(MediaError::Refused(_))), "{kept:?}");
}

#[tokio::test]
async fn lent_credentials_and_a_prefix_are_used() {
    let account = S3Account { session_token: Some("lent+1/2=".to_owned()), ..S3Account::default() };
    let host = host_of(account).await;
    let store = host.store_with(|options| options.prefix = "team a/ü+(x)/".to_owned());
    let blob = store.keep(&host.file(b"x"), &sha256(b"x")).await.unwrap();
    assert_eq!(host.bucket.objects(), [format!("team a/ü+(x)/{blob}")]);
    store.read(&blob, &host.folder().join("out")).await.unwrap();
    assert_eq!(store.delete(&blob).await, Ok(true));
    assert_eq!(host.bucket.objects(), Vec::<String>::new());
}

#[tokio::test]
async fn an_outage_is_not_taken_for_absence() {
    let host = host().await;
    let blob = host.store().keep(&host.file(b"x"), &sha256(b"x")).await.unwrap();
    let to = host.folder().join("out");
    for fault in [S3Fault::Status(500), S3Fault::Status(503), S3Fault::HangUp] {
        host.bucket.fail_next("GET", fault);
        let read = host.store().read(&blob, &to).await;
        assert!(matches!(read, Err(MediaError::Failed(_))), "{fault:?}: {read:?}");
        for method in ["HEAD", "DELETE"] {
            host.bucket.fail_next(method, fault);
            let deleted = host.store().delete(&blob).await;
            assert!(matches!(deleted, Err(MediaError::Failed(_))), "{fault:?}: {deleted:?}");
        }
    }
    assert_eq!(host.store().delete(&blob).await, Ok(true));
}

#[tokio::test]
async fn options_that_cannot_work_are_refused() {
    let host = host().await;
    let invalid: [(Change, InvalidS3Options); 7] = [
        (|options| options.endpoint = "s3.example.org".to_owned(), InvalidS3Options::Endpoint),
        (|options| options.endpoint = "ftp://s3".to_owned(), InvalidS3Options::Endpoint),
        (|options| options.endpoint = "http://a:b@s3".to_owned(), InvalidS3Options::Endpoint),
        (|options| options.endpoint = "http://s3/path".to_owned(), InvalidS3Options::Endpoint),
        (|options| options.bucket = "a/b".to_owned(), InvalidS3Options::Bucket),
        (|options| options.region = String::new(), InvalidS3Options::Missing),
        (|options| options.part_bytes = PART_BYTES - 1, InvalidS3Options::PartBytes),
    ];
    for (change, expected) in invalid {
        let mut options = host.options();
        change(&mut options);
        assert_eq!(S3MediaStore::new(&options, host.clock.clone()).err(), Some(expected));
    }
}

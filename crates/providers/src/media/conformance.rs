//! What every store of media must do, as one suite.
//!
//! An adapter provides a [`MediaHost`] and calls
//! [`media_conformance_suite!`](crate::media_conformance_suite), which makes one test per case.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::ports::{MediaError, MediaStore};
use sha2::{Digest, Sha256};

/// A place of which nobody else knows.
#[async_trait]
pub trait MediaHost: Send + Sync {
    /// A new instance each time, as after a restart of the server.
    fn store(&self) -> Arc<dyn MediaStore>;

    /// The names of all that is kept, in order.
    async fn blobs(&self) -> Vec<String>;

    /// Changes what is kept behind the store's back, without making it longer or shorter.
    async fn damage(&self, blob: &str);

    /// A folder for the case's own files.
    fn folder(&self) -> PathBuf;

    /// More than the store takes in one piece.
    fn long_bytes(&self) -> usize;
}

/// Makes one test of every case. `$host` is an expression that is awaited in each.
#[macro_export]
macro_rules! media_conformance_suite {
    ($host:expr) => {
        $crate::media_conformance_suite!($host;
            gives_back_what_it_was_given
            keeps_the_same_content_once
            keeps_long_and_empty_files
            a_new_instance_finds_what_is_kept
            takes_nothing_under_a_false_name
            gives_out_nothing_that_is_damaged
            says_whether_there_was_something_to_delete
            knows_no_names_but_its_own
            keeps_once_when_asked_at_once
        );
    };
    ($host:expr; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::media::conformance::$case($host.await).await;
            }
        )*
    };
}

pub async fn gives_back_what_it_was_given(host: impl MediaHost) {
    let (store, to) = (host.store(), host.folder().join("out"));
    for content in [b"one".to_vec(), vec![0, 255, 13, 10, 0], vec![b'x'; 300_000]] {
        let blob = keep(&host, "in", &content).await;
        store.read(&blob, &to).await.expect("it is kept");
        assert_eq!(std::fs::read(&to).expect("it was written"), content);
        let expected = hash(&content);
        assert_eq!(blob, format!("blobs/{}/{}", &expected[..2], &expected[2..]));
    }
    assert_eq!(host.blobs().await.len(), 3);
}

pub async fn keeps_the_same_content_once(host: impl MediaHost) {
    let first = keep(&host, "first", b"the same").await;
    assert_eq!(keep(&host, "second", b"the same").await, first);
    assert_eq!(host.blobs().await, [first]);
}

pub async fn keeps_long_and_empty_files(host: impl MediaHost) {
    let long: Vec<u8> =
        (0..host.long_bytes()).map(|n| u8::try_from(n % 251).unwrap_or(0)).collect();
    let to = host.folder().join("out");
    for content in [long.as_slice(), b""] {
        let blob = keep(&host, "in", content).await;
        host.store().read(&blob, &to).await.expect("it is kept");
        let read = std::fs::read(&to).expect("it was written");
        assert!(read == content, "{} bytes, expected {}", read.len(), content.len());
    }
}

pub async fn a_new_instance_finds_what_is_kept(host: impl MediaHost) {
    let blob = keep(&host, "in", b"before the restart").await;
    let to = host.folder().join("out");
    host.store().read(&blob, &to).await.expect("it is kept");
    assert!(host.store().delete(&blob).await.expect("it can be deleted"));
}

pub async fn takes_nothing_under_a_false_name(host: impl MediaHost) {
    let file = host.folder().join("in");
    let long = vec![7; host.long_bytes()];
    for content in [b"something".as_slice(), &long] {
        std::fs::write(&file, content).expect("a file can be written");
        let kept = host.store().keep(&file, &hash(b"something else")).await;
        assert!(kept.is_err(), "{kept:?}");
        for odd in ["", "../../etc", "ABCD", &"g".repeat(64)] {
            let kept = host.store().keep(&file, odd).await;
            assert!(matches!(kept, Err(MediaError::Refused(_))), "{odd}: {kept:?}");
        }
    }
    assert_eq!(host.blobs().await, Vec::<String>::new());
    let missing = host.store().keep(&host.folder().join("missing"), &hash(b"")).await;
    assert_eq!(missing, Err(MediaError::NotFound));
}

pub async fn gives_out_nothing_that_is_damaged(host: impl MediaHost) {
    let blob = keep(&host, "in", b"as it was said").await;
    host.damage(&blob).await;
    let read = host.store().read(&blob, &host.folder().join("out")).await;
    assert!(matches!(read, Err(MediaError::Failed(_))), "{read:?}");
}

pub async fn says_whether_there_was_something_to_delete(host: impl MediaHost) {
    let blob = keep(&host, "in", b"to be deleted").await;
    let other = keep(&host, "in", b"to stay").await;
    assert_eq!(host.store().delete(&blob).await, Ok(true));
    assert_eq!(host.store().delete(&blob).await, Ok(false));
    let read = host.store().read(&blob, &host.folder().join("out")).await;
    assert_eq!(read, Err(MediaError::NotFound));
    assert_eq!(host.blobs().await, [other]);
    assert_eq!(keep(&host, "in", b"to be deleted").await, blob);
}

pub async fn knows_no_names_but_its_own(host: impl MediaHost) {
    let blob = keep(&host, "in", b"inside").await;
    let to = host.folder().join("out");
    for odd in ["", "in", "../in", "/etc/passwd", "blobs/../in", &format!("{blob}/"), &blob[6..]] {
        assert_eq!(host.store().read(odd, &to).await, Err(MediaError::NotFound), "{odd}");
        assert_eq!(host.store().delete(odd).await, Ok(false), "{odd}");
    }
    assert_eq!(host.blobs().await, [blob]);
    assert!(host.folder().join("in").exists());
}

pub async fn keeps_once_when_asked_at_once(host: impl MediaHost) {
    let file = host.folder().join("in");
    std::fs::write(&file, b"raced").expect("a file can be written");
    let hash = hash(b"raced");
    let keeps = (0..8).map(|_| {
        let (store, file, hash) = (host.store(), file.clone(), hash.clone());
        async move { store.keep(&file, &hash).await }
    });
    let mut tasks = tokio::task::JoinSet::new();
    keeps.for_each(|keep| drop(tasks.spawn(keep)));
    let kept = tasks.join_all().await;
    let first = kept[0].clone().expect("it is kept");
    assert!(kept.iter().all(|kept| *kept == Ok(first.clone())), "{kept:?}");
    assert_eq!(host.blobs().await, [first]);
}

async fn keep(host: &impl MediaHost, name: &str, content: &[u8]) -> String {
    let file = host.folder().join(name);
    std::fs::write(&file, content).expect("a file can be written");
    host.store().keep(&file, &hash(content)).await.expect("it is kept")
}

fn hash(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

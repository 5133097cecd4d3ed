use roundsman_core::Timestamp;
use roundsman_core::ports::{Database, KeyStore};

use super::super::tests::catalog;
use super::super::{SqliteOptions, SqliteStore};
use super::*;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(&SqliteOptions::new(path), catalog()).unwrap()
}

async fn key(store: &SqliteStore, candidate: &[u8]) -> Vec<u8> {
    store.find_or_create_key("k", candidate.to_vec(), Timestamp::EPOCH).await.unwrap()
}

fn leases(path: &Path) -> i64 {
    lease_counter(path).unwrap()
}

#[tokio::test]
async fn a_copy_is_made_beside_a_server_and_put_back_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (database, copy) = (folder.path().join("r.db"), folder.path().join("copies/1.db"));
    let store = open(&database);
    assert_eq!(key(&store, b"first").await, b"first");
    let made = backup(&database, &copy).unwrap();
    assert!(made.rows.contains(&("server_keys".to_owned(), 1)), "{made:?}");
    assert!(backup(&database, &copy).is_err(), "a copy was written over");
    assert!(restore(&copy, &database, true).is_err(), "restored under a server");
    let verified = verify(&copy).unwrap();
    assert_eq!((verified.rows, verified.violations), (made.rows, Vec::new()));
    store.close().await;
    drop(store);

    let before = leases(&database);
    let (report, kept) = restore(&copy, &database, true).unwrap();
    assert!(report.is_sound());
    assert!(leases(&database) > before, "a lease number could come twice");
    assert!(kept.unwrap().exists());
    let store = open(&database);
    assert_eq!(key(&store, b"second").await, b"first");
    store.close().await;
}

#[tokio::test]
async fn what_is_no_sound_copy_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("r.db");
    let store = open(&database);
    key(&store, b"mine").await;
    store.close().await;
    drop(store);
    let before = std::fs::read(&database).unwrap();

    let (text, empty, foreign) = ("text", "empty", "foreign");
    let (newer, damaged) = ("newer", "damaged");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at(text), "not a database").unwrap();
    std::fs::write(at(empty), "").unwrap();
    Connection::open(at(foreign)).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    backup(&database, &at(newer)).unwrap();
    Connection::open(at(newer)).unwrap().execute_batch("PRAGMA user_version = 900").unwrap();
    backup(&database, &at(damaged)).unwrap();
    let mut bytes = std::fs::read(at(damaged)).unwrap();
    let end = bytes.len();
    bytes[end - 4096..].fill(0x5a);
    std::fs::write(at(damaged), bytes).unwrap();
    for name in [text, empty, foreign, newer, damaged, "nothing"] {
        assert!(restore(&at(name), &database, true).is_err(), "{name}");
        assert_eq!(std::fs::read(&database).unwrap(), before, "{name}");
    }
}

#[tokio::test]
async fn files_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("r.db");
    let store = open(&database);
    let advice = advise(&database).unwrap();
    assert!(advice.iter().all(|advice| advice.grade == Grade::Fine), "{advice:?}");
    store.close().await;
}

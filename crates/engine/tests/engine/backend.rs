//! The databases that a test runs on, each of them fresh.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use roundsman_core::jobs::KindCatalog;
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use roundsman_testkit::TestDatabase;

/// Which database a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// In memory, on the caller's thread.
    Sqlite,
    Postgres,
}

/// Makes two tests of every function that takes a [`Backend`]: `name::sqlite` and `name::postgres`.
/// One that is not listed is dead code, which the compiler reports.
macro_rules! on_every_database {
    ($($name:ident)*) => {
        $(
            mod $name {
                use crate::backend::Backend;

                #[tokio::test]
                async fn sqlite() {
                    super::$name(Backend::Sqlite).await;
                }

                #[tokio::test]
                async fn postgres() {
                    super::$name(Backend::Postgres).await;
                }
            }
        )*
    };
}

pub(crate) use on_every_database;

/// A store on a database of its own, copied from a template that has the schema. Without a server
/// this fails, and says how to get one.
pub(crate) async fn postgres(catalog: &Arc<KindCatalog>) -> (PostgresStore, TestDatabase) {
    let template = format!("engine_{:016x}", hash_of_migrations());
    let prepare = async |url: &str| {
        connect(url, catalog.clone()).await;
        Ok(())
    };
    let database = TestDatabase::from_template(&template, prepare).await.unwrap();
    (connect(&database.url(), catalog.clone()).await, database)
}

async fn connect(url: &str, catalog: Arc<KindCatalog>) -> PostgresStore {
    let options = PostgresOptions::new(url.parse().unwrap());
    PostgresStore::connect(options, catalog).await.unwrap()
}

/// A template lives as long as its server: another schema needs another name.
fn hash_of_migrations() -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/migrations/postgres");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(file).unwrap().hash(&mut hasher);
    }
    hasher.finish()
}

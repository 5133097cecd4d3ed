//! Secrets that were made at the first start.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{KeyStore, StoreError};
use rusqlite::params;

use super::SqliteStore;
use super::time::At;

#[async_trait]
impl KeyStore for SqliteStore {
    async fn find_or_create_key(
        &self,
        name: &'static str,
        candidate: Vec<u8>,
        now: Timestamp,
    ) -> Result<Vec<u8>, StoreError> {
        self.write("store.key", move |conn, _| {
            conn.prepare_cached(INSERT_KEY)?.execute(params![name, candidate, At(now)])?;
            Ok(conn.prepare_cached(KEY)?.query_row([name], |row| row.get(0))?)
        })
        .await
    }
}

const INSERT_KEY: &str = "-- insert_key
    INSERT INTO server_keys (name, secret, created_at) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO NOTHING";

const KEY: &str = "-- key
    SELECT secret FROM server_keys WHERE name = ?1";

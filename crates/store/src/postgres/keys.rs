//! Secrets that all nodes share.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{KeyStore, StoreError};

use super::PostgresStore;
use super::error::Failure;
use super::pool::Operation;
use super::session::Session;
use super::types::Time;

#[async_trait]
impl KeyStore for PostgresStore {
    async fn find_or_create_key(
        &self,
        name: &'static str,
        candidate: Vec<u8>,
        now: Timestamp,
    ) -> Result<Vec<u8>, StoreError> {
        self.change("store.key", &FindOrCreate { name, candidate, now }).await
    }
}

const FIND_KEY: &str = "-- find_key
SELECT secret FROM roundsman.server_keys WHERE name = $1";

/// Whoever comes second waits for the first and writes nothing.
const CREATE_KEY: &str = "-- create_key
INSERT INTO roundsman.server_keys (name, secret, created_at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO NOTHING";

struct FindOrCreate {
    name: &'static str,
    candidate: Vec<u8>,
    now: Timestamp,
}

impl Operation for FindOrCreate {
    type Answer = Vec<u8>;

    async fn run(&self, session: &mut Session) -> Result<Vec<u8>, Failure> {
        if let Some(row) = session.query_opt(FIND_KEY, &[&self.name]).await? {
            return Ok(row.try_get(0)?);
        }
        // Whether or not a broken connection had written it, the next look finds one.
        session.execute(CREATE_KEY, &[&self.name, &self.candidate, &Time(self.now)]).await?;
        let row = session.query_opt(FIND_KEY, &[&self.name]).await?.ok_or(Failure::Raced)?;
        Ok(row.try_get(0)?)
    }
}

//! The database: whether it opens, how fast it writes, whose clock is right, how it is set up.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::{Clock, Database};
use roundsman_engine::clock::DatabaseClock;
use roundsman_store::sqlite::upkeep;
use secrecy::ExposeSecret;

use super::finding::Finding;
use crate::config::{Config, DatabaseTarget};
use crate::node::{Access, catalog, open_postgres, open_store};

const AREA: &str = "database";
/// A write that takes longer than this makes everything slow.
const WRITE_MS_MAX: u128 = 100;
/// Beyond this, times in logs and on the wire differ noticeably. Nothing else depends on it.
const SKEW_SECS_MAX: u64 = 5;

pub(super) async fn look(config: &Config) -> Vec<Finding> {
    match &config.database.target {
        DatabaseTarget::Sqlite(path) if !path.exists() => {
            vec![Finding::fine(AREA, "SQLite, not made yet; the first start makes it")]
        }
        DatabaseTarget::Sqlite(path) => embedded(config, path).await,
        DatabaseTarget::Postgres(url) => postgres(config, url.expose_secret()).await,
    }
}

async fn embedded(config: &Config, path: &std::path::Path) -> Vec<Finding> {
    let store = match open_store(config, Arc::new(catalog(config)), Access::Tool).await {
        Ok(store) => store,
        Err(error) => return vec![unreachable(&error, "see what the message says")],
    };
    let mut findings =
        vec![Finding::fine(AREA, format!("{} in {}", store.describe(), path.display()))];
    findings.push(write_speed(&*store).await);
    match upkeep::advise(path) {
        Ok(advice) => findings.extend(advice.into_iter().map(Finding::of_database)),
        Err(error) => {
            findings.push(Finding::wrong(AREA, error.to_string(), "run `roundsman check`"));
        }
    }
    store.close().await;
    findings
}

async fn postgres(config: &Config, url: &str) -> Vec<Finding> {
    let store = match open_postgres(config, url, Arc::new(catalog(config))).await {
        Ok(store) => store,
        Err(error) => {
            let todo = "is the server up, the address right, the role allowed to make a schema?";
            return vec![unreachable(&error, todo)];
        }
    };
    let mut findings = vec![Finding::fine(AREA, store.describe())];
    findings.push(write_speed(&store).await);
    findings.push(skew(&store).await);
    match store.advise().await {
        Ok(advice) => findings.extend(advice.into_iter().map(Finding::of_database)),
        Err(error) => findings.push(Finding::doubtful(AREA, error.to_string(), "")),
    }
    store.close().await;
    findings
}

fn unreachable(error: &anyhow::Error, todo: &str) -> Finding {
    Finding::wrong(AREA, format!("{error:#}"), todo)
}

async fn write_speed(store: &dyn Database) -> Finding {
    let clock = DatabaseClock::start();
    if let Err(error) = store.ping().await {
        return Finding::wrong(
            AREA,
            format!("cannot be written to: {error}"),
            "look at its disk and rights",
        );
    }
    let took = clock.monotonic().as_millis();
    let found = format!("a write takes {took} ms");
    if took <= WRITE_MS_MAX {
        return Finding::fine(AREA, found);
    }
    Finding::doubtful(AREA, found, "the disk is slow, or the way to the server is long")
}

async fn skew(store: &dyn Database) -> Finding {
    let Ok(theirs) = store.now().await else {
        return Finding::doubtful(AREA, "its clock cannot be asked", "");
    };
    let ours = roundsman_engine::clock::wall();
    let apart = theirs.since(ours).max(ours.since(theirs));
    let found = format!("its clock and this machine's are {:.1} s apart", apart.as_secs_f64());
    if apart <= Duration::from_secs(SKEW_SECS_MAX) {
        return Finding::fine(AREA, found);
    }
    Finding::doubtful(AREA, found, "nothing breaks, the database's counts; set both by NTP")
}

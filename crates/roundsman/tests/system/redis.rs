//! G-6: Redis only carries wake-ups. Without it, and through everything that happens to it, jobs
//! are picked up at the poll, nothing is lost, and no client is told of any error.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{RedisServer, TestDatabase, eventually};
use tokio_util::sync::CancellationToken;

use crate::load::{self, Ledger, Plan, WhenLost};
use crate::pickup::pick_up;
use crate::site::{SOON, Site, Stopwatch};

/// What the servers of [`Site`] poll at, and what a busy machine may add to it.
const POLL: Duration = Duration::from_millis(500);
const SLACK: Duration = Duration::from_secs(3);
/// A poll that no test waits for: who is quicker was woken.
const SELDOM_SECS: &str = "25";
const WOKEN_MAX: Duration = Duration::from_secs(5);
const ACKED_BETWEEN: u64 = 150;
const REQUESTS_MAX: i64 = 1_000_000;
/// How long Redis stands still.
const PAUSE: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_server_starts_and_works_without_its_redis() {
    async fn run() -> Result<()> {
        let database = TestDatabase::create().await?;
        let mut redis = RedisServer::start().await?;
        redis.stop().await?;
        let site = Site::postgres_at(&database.url()).with_redis(&redis.url());
        let mut nodes = [site.start(site.options()).await?, site.start(site.options()).await?];
        for _ in 0..3 {
            let took = pick_up(&nodes[0], &nodes[1]).await?;
            ensure!(took <= POLL + SLACK, "picked up after {took:?}");
        }
        for node in &mut nodes {
            node.stop().await?;
        }
        Ok(())
    }
    run().await.unwrap();
}

/// Wake-ups return with Redis, and nobody had to be told.
#[tokio::test]
async fn a_redis_that_comes_late_or_again_is_used() {
    async fn run() -> Result<()> {
        let database = TestDatabase::create().await?;
        let mut redis = RedisServer::start().await?;
        redis.stop().await?;
        let site = Site::postgres_at(&database.url()).with_redis(&redis.url());
        let options = || site.options().env("ROUNDSMAN_JOBS_POLL_SECS", SELDOM_SECS);
        let mut nodes = [site.start(options()).await?, site.start(options()).await?];
        for _ in 0..2 {
            redis.restart().await?;
            let woken = eventually(SOON * 2, async || {
                let took = pick_up(&nodes[0], &nodes[1]).await.ok()?;
                (took <= WOKEN_MAX).then_some(())
            });
            woken.await.context("wake-ups did not return")?;
            redis.kill_9().await?;
        }
        for node in &mut nodes {
            node.stop().await?;
        }
        Ok(())
    }
    run().await.unwrap();
}

#[tokio::test]
async fn whatever_happens_to_redis_nobody_is_told() {
    async fn run() -> Result<()> {
        let database = TestDatabase::create().await?;
        let mut redis = RedisServer::start().await?;
        let site = Site::postgres_at(&database.url()).with_redis(&redis.url());
        let mut nodes = [site.start(site.options()).await?, site.start(site.options()).await?];
        let ledger = load::begin(&site, &nodes[0]).await?;
        let urls = [nodes[0].base_url(), nodes[1].base_url()];
        let stop = CancellationToken::new();
        let plan = Plan::of_requests(REQUESTS_MAX, WhenLost::Complain, 6);
        let loaded = load::run_until(&site, &ledger, &urls, plan, &stop);
        let faults = async {
            let result = torment(&mut redis, &ledger).await;
            stop.cancel();
            result
        };
        let (loaded, tormented) = tokio::join!(loaded, faults);
        tormented.and(loaded)?;
        load::drain(&ledger, &urls[1]).await?;
        for node in &mut nodes {
            ensure!(node.is_ready().await, "not ready after Redis came back");
            node.stop().await?;
        }
        load::verify_drained(&ledger, &site.stored().await?)
    }
    run().await.unwrap();
}

/// Every fault in turn, each under load.
async fn torment(redis: &mut RedisServer, ledger: &Arc<Ledger>) -> Result<()> {
    let loaded = async || ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await;
    loaded().await?;
    redis.wipe().await?;
    loaded().await?;
    redis.drop_clients().await?;
    loaded().await?;
    redis.kill_9().await?;
    loaded().await?;
    redis.restart().await?;
    loaded().await?;
    redis.pause()?;
    // The load goes on beside a Redis that stands still.
    let watch = Stopwatch::start();
    while watch.elapsed() < PAUSE {
        loaded().await?;
    }
    redis.resume()?;
    loaded().await?;
    redis.restart().await?;
    loaded().await
}

//! What the servers stand on goes away and comes back while people come and go: events are taken all
//! the time, and afterwards it is known who is there.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::postgres::StopMode;
use roundsman_testkit::{PostgresServer, RedisServer, TestDatabase, eventually};
use tokio_util::sync::CancellationToken;

use super::churn::Churn;
use super::meeting::Meeting;
use super::place::PresenceSite;
use super::record::{Visits, check_counts, wait_true};
use crate::site::{Node, SOON};

const ROOMS: [&str; 2] = ["churn-1", "churn-2"];
const STEPS: usize = 15;

#[tokio::test]
async fn a_database_that_restarts_costs_nobody_their_session() {
    async fn run() -> Result<()> {
        let mut cluster = PostgresServer::start().await?;
        let redis = RedisServer::start().await?;
        let database = TestDatabase::create_on(&cluster.url()).await?;
        let mut site = PresenceSite::on(database, &redis.url()).await?;
        let (nodes, _door) = site.start_all(|options| options).await?;
        let meetings = meetings(&site).await?;
        let churn = Churn::new(&site.daily, &ROOMS, 11);
        let stop = CancellationToken::new();
        let faults = async {
            let restarted = restart(&mut cluster, &nodes, &churn).await;
            stop.cancel();
            restarted
        };
        let ((), restarted) = tokio::join!(churn.run(&stop), faults);
        restarted?;
        expect_all_taken(&site)?;
        wait_true(&site, &meetings, Visits::All).await?;
        check_counts(&site.books().await?).await?;
        site.end(nodes).await
    }
    run().await.unwrap();
}

async fn restart(cluster: &mut PostgresServer, nodes: &[Node], churn: &Churn<'_>) -> Result<()> {
    for mode in [StopMode::Fast, StopMode::Immediate] {
        churn.wait_for_more(STEPS).await?;
        cluster.stop(mode).await?;
        churn.wait_for_more(STEPS).await?;
        cluster.start_again().await?;
        for node in nodes {
            let ready = eventually(SOON, async || node.is_ready().await.then_some(()));
            ready.await.context("not ready with its database back")?;
        }
    }
    churn.wait_for_more(STEPS).await
}

#[tokio::test]
async fn whatever_happens_to_redis_it_is_known_who_is_there() {
    async fn run() -> Result<()> {
        let mut redis = RedisServer::start().await?;
        let mut site = PresenceSite::on(TestDatabase::create().await?, &redis.url()).await?;
        let (nodes, _door) = site.start_all(|options| options).await?;
        let meetings = meetings(&site).await?;
        let churn = Churn::new(&site.daily, &ROOMS, 12);
        let stop = CancellationToken::new();
        let faults = async {
            let tormented = torment(&mut redis, &churn).await;
            stop.cancel();
            tormented
        };
        let ((), tormented) = tokio::join!(churn.run(&stop), faults);
        tormented?;
        expect_all_taken(&site)?;
        wait_true(&site, &meetings, Visits::All).await?;
        check_counts(&site.books().await?).await?;
        for node in &nodes {
            ensure!(node.is_ready().await, "not ready after Redis came back");
        }
        site.end(nodes).await
    }
    run().await.unwrap();
}

async fn torment(redis: &mut RedisServer, churn: &Churn<'_>) -> Result<()> {
    churn.wait_for_more(STEPS).await?;
    redis.wipe().await?;
    churn.wait_for_more(STEPS).await?;
    redis.kill_9().await?;
    churn.wait_for_more(STEPS).await?;
    redis.restart().await?;
    churn.wait_for_more(STEPS).await?;
    redis.pause()?;
    churn.wait_for_more(STEPS).await?;
    redis.resume()?;
    churn.wait_for_more(STEPS).await
}

async fn meetings(site: &PresenceSite) -> Result<Vec<Meeting>> {
    let mut meetings = Vec::new();
    for room in ROOMS {
        meetings.push(site.meeting_of(room, &["first"]).await?);
    }
    site.subscribe().await?;
    Ok(meetings)
}

/// What is told of people is heard in memory: Daily had no reason to switch anything off.
fn expect_all_taken(site: &PresenceSite) -> Result<()> {
    let sent = site.daily.delivered();
    ensure!(sent.len() > STEPS, "only {} events were sent", sent.len());
    let refused: Vec<_> = sent.iter().filter(|sent| sent.status != Some(200)).collect();
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}

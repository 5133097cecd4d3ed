//! Three nodes on one PostgreSQL and one Redis: work moves between them at once, and each may be
//! killed.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio_util::sync::CancellationToken;

use crate::load::{self, Plan, WhenLost};
use crate::pickup::pick_up;
use crate::site::{Backend, SOON, Site};

/// A poll that no test waits for: who is quicker was woken.
const SELDOM_SECS: &str = "25";
/// The typical pickup is a few milliseconds; the rest is for a debug build on two busy cores.
const MEDIAN_PICKUP_MAX: Duration = Duration::from_millis(500);
const PICKUPS: usize = 9;
const ACKED_BETWEEN: u64 = 150;
const REQUESTS_MAX: i64 = 1_000_000;

#[tokio::test]
async fn work_enqueued_at_one_node_wakes_a_worker_at_another() {
    async fn run() -> Result<()> {
        let site = Site::new(Backend::Postgres).await?;
        let options = || site.options().env("ROUNDSMAN_JOBS_POLL_SECS", SELDOM_SECS);
        let mut nodes = [
            site.start(options()).await?,
            site.start(options()).await?,
            site.start(options()).await?,
        ];
        let mut took = Vec::new();
        for round in 0..PICKUPS {
            let (from, to) = (&nodes[round % 3], &nodes[(round + 1 + round % 2) % 3]);
            took.push(pick_up(from, to).await?);
        }
        took.sort();
        ensure!(took[PICKUPS / 2] <= MEDIAN_PICKUP_MAX, "picked up after {took:?}");
        for node in &mut nodes {
            node.stop().await?;
        }
        Ok(())
    }
    run().await.unwrap();
}

#[tokio::test]
async fn each_of_three_nodes_may_be_killed() {
    async fn run() -> Result<()> {
        let site = Site::new(Backend::Postgres).await?;
        let mut nodes = [
            site.start(site.options()).await?,
            site.start(site.options()).await?,
            site.start(site.options()).await?,
        ];
        let ledger = load::begin(&site, &nodes[0]).await?;
        let urls = [nodes[0].base_url(), nodes[1].base_url(), nodes[2].base_url()];
        let stop = CancellationToken::new();
        let plan = Plan::of_requests(REQUESTS_MAX, WhenLost::Wait, 8);
        let loaded = load::run_until(&site, &ledger, &urls, plan, &stop);
        let faults = async {
            let mut result = Ok(());
            for node in &mut nodes {
                result = async {
                    ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await?;
                    node.kill_9().await?;
                    // The other two go on without it.
                    ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await?;
                    node.start_again().await
                }
                .await;
                if result.is_err() {
                    break;
                }
            }
            stop.cancel();
            result
        };
        let (loaded, killed) = tokio::join!(loaded, faults);
        killed.and(loaded)?;
        load::drain(&ledger, &urls[1]).await?;
        for node in &mut nodes {
            load::verify_access(&ledger, node).await?;
            node.stop().await?;
        }
        load::verify_drained(&ledger, &site.stored().await?)
    }
    run().await.unwrap();
}

//! Two nodes that hear the same events: each may be killed, and nobody hears anything twice.

use anyhow::{Result, ensure};
use roundsman_testkit::daily::{Guest, WebhookFaults};
use tokio_util::sync::CancellationToken;

use super::churn::Churn;
use super::place::{EMPTY_GRACE, PresenceSite};
use super::record::{Visits, check_counts, wait_true};
use crate::site::{Backend, Node};

const ROOMS: [&str; 2] = ["churn-1", "churn-2"];
/// So many come or go between two faults.
const STEPS_BETWEEN: usize = 20;

#[tokio::test]
async fn each_of_two_nodes_may_be_killed() {
    async fn run() -> Result<()> {
        let mut site = PresenceSite::new(Backend::Postgres).await?;
        let (mut nodes, door) = site.start_all(|options| options.env(EMPTY_GRACE, "0.5")).await?;
        let mut meetings = Vec::new();
        for room in ROOMS {
            meetings.push(site.meeting_of(room, &["first"]).await?);
        }
        site.subscribe().await?;
        let churn = Churn::new(&site.daily, &ROOMS, 7);
        let stop = CancellationToken::new();
        let faults = async {
            let killed = kill_each(&site, &mut nodes, &churn).await;
            stop.cancel();
            killed
        };
        let ((), killed) = tokio::join!(churn.run(&stop), faults);
        killed?;
        wait_true(&site, &meetings, Visits::All).await?;
        check_counts(&site.books().await?).await?;
        drop(door);
        site.end(nodes).await
    }
    run().await.unwrap();
}

/// The one that is left has what the other one held, and Daily notices nothing.
async fn kill_each(site: &PresenceSite, nodes: &mut [Node], churn: &Churn<'_>) -> Result<()> {
    for node in nodes {
        churn.wait_for_more(STEPS_BETWEEN).await?;
        let pid = node.pid()?;
        node.kill_9().await?;
        site.leases_end(pid).await?;
        churn.wait_for_more(STEPS_BETWEEN).await?;
        node.start_again().await?;
    }
    churn.wait_for_more(STEPS_BETWEEN).await?;
    let refused = site.daily.delivered().into_iter().filter(|sent| sent.status != Some(200));
    ensure!(refused.count() == 0, "an event was not taken although a node was there");
    Ok(())
}

/// every event comes twice to each of two nodes. It is kept once, and told once.
#[tokio::test]
async fn what_both_nodes_hear_twice_happens_once() {
    async fn run() -> Result<()> {
        let mut site = PresenceSite::new(Backend::Postgres).await?;
        let (nodes, _door) = site.start_all(|options| options).await?;
        let meeting = site.meeting_of(ROOMS[0], &[]).await?;
        site.subscribe().await?;
        let doubled = WebhookFaults { double_percent: 100, ..WebhookFaults::default() };
        site.daily.set_webhook_faults(doubled);
        let ada = site.daily.join(&meeting.room, Guest::named("ada"));
        meeting.wait_inside(std::slice::from_ref(&ada)).await?;
        ensure!(site.daily.leave(&meeting.room, &ada), "ada was not there");
        meeting.wait_inside(&[]).await?;
        site.wait_quiet().await?;
        wait_true(&site, std::slice::from_ref(&meeting), Visits::All).await?;
        let timeline = format!("{}/timeline", meeting.path());
        let told = meeting.user.client.get(&timeline).await?.expect_status(200)?.body;
        ensure!(told["entries"].as_array().is_some_and(|all| all.len() == 2), "{told}");
        site.wait_inbox("participant.joined", 1).await?;
        let sql = "SELECT event, count(*) FROM inbox GROUP BY event HAVING count(*) > 1";
        let doubled = site.books().await?.rows(sql).await?;
        ensure!(doubled.is_empty(), "{doubled:?}");
        site.end(nodes).await
    }
    run().await.unwrap();
}

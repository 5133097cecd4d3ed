//! The server is killed at every place where it writes about presence, while people come and go and
//! their meetings are made and ended. Whoever comes after it finds out who is there.
//!
//! A chain is one site and a number of servers, one after the other at the same port; each dies at
//! its place, the last one is left alone. Everybody else just goes on: Daily, which switches the
//! subscription off when nobody answers, too.

mod chores;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use roundsman_core::failpoint;
use roundsman_core::ports::PROCESS_GONE_AFTER;
use roundsman_testkit::daily::{Fault, FaultRule, Guest, Route};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{env, eventually};
use tokio_util::sync::CancellationToken;

use self::chores::Chores;
use super::churn::Churn;
use super::door::Door;
use super::meeting::Meeting;
use super::place::{EMPTY_GRACE, PresenceSite, breathe};
use super::record::{Visits, check_counts, wait_true};
use crate::bots::place::was_killed;
use crate::site::{Backend, Node, SOON, Stopwatch};

const PREFIX: &str = "store.presence_";

/// Where the servers of each chain die, and at which visit of the place.
const CHAINS: [&[(&str, usize)]; 2] = [
    &[
        ("store.presence_look", 3),
        ("store.presence_joining", 2),
        ("store.presence_judge", 2),
        ("store.presence_domain", 2),
    ],
    &[
        ("store.presence_open", 2),
        ("store.presence_inbox", 1),
        ("store.presence_look", 6),
        ("store.presence_prune", 2),
        ("store.presence_end", 2),
    ],
];

const ROOMS: [&str; 3] = ["churn-1", "churn-2", "churn-3"];
const SWEEP: &str = "ROUNDSMAN_JOBS_SWEEP_SECS";
const ANSWERS_IN: Duration = Duration::from_secs(1);
/// Longer than two sweeps, beyond what it takes to be given up.
const STANDS_STILL: Duration = Duration::from_secs(3);
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
const ROUNDS_FULL: usize = 10;
const DIES_WITHIN: Duration = Duration::from_secs(60);
const LOG_LINES_SHOWN: usize = 40;
/// So many come or go while the last server is left alone.
const STEPS_AFTER: usize = 15;

#[tokio::test]
async fn sqlite_knows_who_is_there_wherever_it_is_killed() {
    kill_everywhere(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn postgres_knows_who_is_there_wherever_a_server_is_killed() {
    kill_everywhere(Backend::Postgres).await.unwrap();
}

/// the node that looks is killed. Its lease lasts two minutes, and the other node does not wait
/// for that; while it only stands still, nobody takes anything from it.
#[tokio::test]
async fn another_node_takes_up_the_look_of_one_that_was_killed() {
    async fn run() -> Result<()> {
        let mut site = PresenceSite::new(Backend::Postgres).await?;
        let door = Door::open().await?;
        site.events_go_to(door.url());
        let options = site.options().env("ROUNDSMAN_DAILY_REQUEST_SECS_MAX", "60");
        let mut first = site.start(options.env(SWEEP, "1")).await?;
        door.leads_to([first.base_url()]);
        let mut meeting = site.meeting_of(ROOMS[0], &["ada"]).await?;
        site.subscribe().await?;

        // It asks who is there, and stands still before it hears the answer.
        let looks = site.looks();
        site.daily.add_fault(FaultRule::times(Route::RoomPresence, Fault::Slow(ANSWERS_IN), 1));
        site.daily.join(ROOMS[0], Guest::named("bob"));
        eventually(SOON, async || (site.looks() > looks).then_some(())).await.context("no look")?;
        first.sigstop()?;
        let holder = format!("node-{}-", first.pid()?);
        let other = site.start(site.options_beside().env(SWEEP, "1")).await?;
        door.leads_to([other.base_url()]);
        meeting.user = meeting.user.at(&other.base_url())?;
        breathe(PROCESS_GONE_AFTER + STANDS_STILL).await;
        let (worker, left_secs) = look_held(&site).await?.context("nobody looks any more")?;
        ensure!(worker.starts_with(&holder), "{worker} took the look of one that lives");

        let watch = Stopwatch::start();
        first.kill_9().await?;
        eventually(TAKEN_WITHIN, async || {
            let looks = look_held(&site).await.ok()?;
            looks.is_none_or(|(worker, _)| !worker.starts_with(&holder)).then_some(())
        })
        .await
        .context("its look was not taken up")?;
        meeting.wait_inside(&site.daily.present(ROOMS[0])).await?;
        ensure!(watch.elapsed() <= TAKEN_WITHIN, "after {:?}", watch.elapsed());
        ensure!(left_secs > TAKEN_WITHIN.as_secs(), "its lease was over: {left_secs} s");
        check_counts(&site.books().await?).await?;
        wait_true(&site, &[meeting], Visits::All).await?;
        site.end(vec![other]).await
    }
    run().await.unwrap();
}

/// Who looks at a room, and how many seconds are left of the lease.
async fn look_held(site: &PresenceSite) -> Result<Option<(String, u64)>> {
    let sql = "SELECT worker || ' ' || extract(epoch FROM lease_until - clock_timestamp())::bigint \
               FROM job_running WHERE kind = 'presence.poll'";
    let rows = site.books().await?.rows(sql).await?;
    let Some(held) = rows.first().and_then(|row| row[0].as_deref()) else { return Ok(None) };
    let (worker, left_secs) = held.split_once(' ').context("no time")?;
    Ok(Some((worker.to_owned(), left_secs.parse()?)))
}

#[test]
fn every_place_of_presence_is_visited() {
    let visited: Vec<&str> = CHAINS.concat().into_iter().map(|(place, _)| place).collect();
    let all = failpoint::ALL.iter().filter(|place| place.starts_with(PREFIX));
    let missing: Vec<_> = all.filter(|place| !visited.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

async fn kill_everywhere(backend: Backend) -> Result<()> {
    let rounds = if env::full() { ROUNDS_FULL } else { 1 };
    for round in 0..rounds {
        let chains = CHAINS.map(async |chain| {
            let outlived = run(backend, chain, round).await;
            outlived.with_context(|| format!("killed at {chain:?} in round {round}"))
        });
        try_join_all(chains).await?;
    }
    Ok(())
}

async fn run(backend: Backend, chain: &[(&str, usize)], round: usize) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let mut node = site.start(options(&site)).await?;
    let mut meetings = Vec::new();
    for room in ROOMS {
        meetings.push(site.meeting_of(room, &["first"]).await?);
    }
    let chores = Chores::new(site.user("chores").await?);
    site.subscribe().await?;
    let pid = node.pid()?;
    node.kill_9().await?;
    site.leases_end(pid).await?;

    let churn = Churn::new(&site.daily, &ROOMS, u64::try_from(round)?);
    let stop = CancellationToken::new();
    let deaths = async {
        let last = die(&site, chain, round).await;
        let more = churn.wait_for_more(STEPS_AFTER).await;
        stop.cancel();
        more.and(last)
    };
    let ((), (), last) = tokio::join!(churn.run(&stop), chores.run(&site, &stop), deaths);
    end(&site, &meetings, &chores, last?).await
}

/// One server after the other; returns the last one.
async fn die(site: &PresenceSite, chain: &[(&str, usize)], round: usize) -> Result<Node> {
    for (place, visits) in chain {
        let death = format!("{place}={}", visits + round);
        let mut node = site.site.spawn(options(site).env("ROUNDSMAN_FAILPOINTS", death))?;
        let pid = node.pid()?;
        let status = node.wait_exit(DIES_WITHIN).await;
        let log = || node.stderr().map(|log| last_lines(&log)).unwrap_or_default();
        let status = status.with_context(|| format!("never reached: {place}\n{}", log()))?;
        ensure!(was_killed(status), "{place}: {status}\n{}", log());
        // Before anybody can repair it.
        check_counts(&site.books().await?).await.with_context(|| format!("after {place}"))?;
        site.leases_end(pid).await?;
    }
    site.start(options(site)).await
}

/// Meetings end soon, and open again when somebody comes back.
fn options(site: &PresenceSite) -> ServerOptions {
    site.options().env(EMPTY_GRACE, "0.3")
}

async fn end(site: &PresenceSite, meetings: &[Meeting], chores: &Chores, node: Node) -> Result<()> {
    wait_true(site, meetings, Visits::Seen).await?;
    chores.expect_over().await?;
    // Everybody goes, and is heard: events come again.
    for meeting in meetings {
        for session in site.daily.present(&meeting.room) {
            site.daily.leave(&meeting.room, &session);
        }
    }
    for meeting in meetings {
        let shown = meeting.wait_active(false).await?;
        ensure!(shown["end_reason"] == "everyone_left", "{shown}");
    }
    wait_true(site, meetings, Visits::Seen).await?;
    site.end(vec![node]).await
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

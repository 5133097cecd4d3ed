//! The server is killed between every two steps of a bot's life. Whoever comes after it finds the
//! bot again and brings it to its end: one process per launch, no orphan, no stuck row, a free slot,
//! the work after the meeting once.
//!
//! Each place has a site of its own, where a user tells the same story and repeats every request
//! that is not answered, as a user would.

mod story;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use roundsman_core::failpoint;
use roundsman_testkit::eventually;
use roundsman_testkit::process::ServerOptions;

pub(crate) use self::story::Story;
use super::place::{BotSite, was_killed};
use super::processes::BotProcess;
use crate::site::{Backend, Node, SOON, Stopwatch};

/// Every place that only bots and webhooks come by; the others are in `kill.rs`.
pub(crate) const PLACES: [&str; 26] = [
    "bots.event",
    "bots.launched",
    "bots.launching",
    "bots.removed",
    "bots.reserved",
    "bots.stop_wished",
    "bots.swept",
    "store.bot_adopt",
    "store.bot_anonymise",
    "store.bot_config",
    "store.bot_data",
    "store.bot_event",
    "store.bot_finish",
    "store.bot_heartbeats",
    "store.bot_launched",
    "store.bot_next_attempt",
    "store.bot_reserve",
    "store.bot_runtime",
    "store.bot_stop",
    "store.bot_sweep",
    "store.key",
    "store.webhook_endpoint",
    "store.webhook_log",
    "store.webhook_prune",
    "store.webhook_replay",
    "webhooks.sent",
];

/// How many sites are under way at once.
const SITES_AT_ONCE_MAX: usize = 10;
/// A job whose holder was killed is taken over when its lease is over: at once on an embedded
/// database, whose next start knows that nobody else can hold it.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(75);
const DIES_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a place is reached: what the servers before the last one die of, in this order.
fn deaths_at(place: &'static str) -> Vec<String> {
    match place {
        // A bot that ended before anybody wrote down that it was launched is launched once more.
        "store.bot_next_attempt" => {
            vec!["store.bot_launched=1".to_owned(), "store.bot_next_attempt=1".to_owned()]
        }
        // The first beats are those of a bot that has just begun.
        "store.bot_heartbeats" => vec![format!("{place}=2")],
        _ => vec![format!("{place}=1")],
    }
}

/// Which steps a bot takes, one after the other, that a server can die at.
const EVENTS: [&str; 4] = ["bots.event=2", "bots.event=3", "bots.event=4", "store.bot_event=3"];

#[tokio::test]
async fn sqlite_finds_its_bots_again_wherever_it_is_killed() {
    kill_everywhere(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn postgres_finds_its_bots_again_wherever_a_server_is_killed() {
    kill_everywhere(Backend::Postgres).await.unwrap();
}

#[test]
fn every_place_exists() {
    let missing: Vec<_> = PLACES.iter().filter(|place| !failpoint::ALL.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

async fn kill_everywhere(backend: Backend) -> Result<()> {
    // On PostgreSQL the first death on the way there comes after its commit. The sweep then knows
    // that the bot was launched and has ended, so that no second try is due.
    let reachable =
        |place: &&&str| backend == Backend::Sqlite || **place != "store.bot_next_attempt";
    let mut plans: Vec<(Story, Vec<String>)> = PLACES
        .iter()
        .filter(reachable)
        .map(|place| (Story::by_way_of(place), deaths_at(place)))
        .collect();
    plans.extend(EVENTS.map(|death| (Story::Whole, vec![death.to_owned()])));
    // Those that wait for a lease go first, so that nobody waits for them at the end.
    plans.sort_by_key(|(_, deaths)| !waits_for_lease(&deaths[0]));
    let outlived = stream::iter(&plans).map(async |(story, deaths)| {
        let site = BotSite::new(backend).await?;
        outlive(&site, *story, deaths, &[]).await.with_context(|| format!("killed at {deaths:?}"))
    });
    outlived.buffer_unordered(SITES_AT_ONCE_MAX).try_collect().await
}

/// Whether a job is under way at this place.
fn waits_for_lease(death: &str) -> bool {
    let held = [
        "bots.launch",
        "bots.removed",
        "store.bot_finish",
        "store.bot_launched",
        "store.webhook_log",
        "webhooks.",
    ];
    held.iter().any(|prefix| death.starts_with(prefix))
}

/// Tells a story through the deaths of its servers, which have these settings beside the site's.
pub(crate) async fn outlive(
    site: &BotSite,
    story: Story,
    deaths: &[String],
    settings: &[(&str, String)],
) -> Result<()> {
    let mut line = Line { site, story, settings, deaths: deaths.to_vec(), node: None };
    line.prepare().await?;
    let mut census = Census::default();
    let told = story.tell(site);
    tokio::pin!(told);
    let told = loop {
        tokio::select! {
            told = &mut told => break told,
            died = line.succeed() => died?,
            counted = census.count(site) => counted?,
        }
    };
    let end = told.context("the story")?;
    // A place that the story came by last, or that comes round by itself.
    while !line.deaths.is_empty() {
        let died = tokio::time::timeout(DIES_WITHIN, line.succeed()).await;
        died.with_context(|| format!("{:?} was never reached", line.deaths))??;
    }
    story.end(site, &end).await?;
    if story.launches_once() {
        census.check()?;
    }
    let node = line.node.as_mut().context("no server is left")?;
    site.end(node).await
}

/// One server after the other at the same port; all but the last die as they are told.
struct Line<'a> {
    site: &'a BotSite,
    story: Story,
    settings: &'a [(&'a str, String)],
    /// What is still to come.
    deaths: Vec<String>,
    node: Option<Node>,
}

impl Line<'_> {
    fn options(&self) -> Result<ServerOptions> {
        let options = self.site.options().env("ROUNDSMAN_DATABASE_POOL_MAX", "5");
        let options = options.env("ROUNDSMAN_BOTS_RESERVED_SECS_MAX", "200");
        let mut options = options.env("ROUNDSMAN_BOTS_STOPPING_SECS_MAX", "100");
        for (name, value) in self.settings {
            options = options.env(*name, value);
        }
        self.story.options(self.site, options)
    }

    /// Makes what the story needs, and starts the first server that will die.
    async fn prepare(&mut self) -> Result<()> {
        if self.story.needs_preparation() {
            let mut node = self.site.site.start(self.options()?).await?;
            node.stop().await?;
            self.story.prepare(self.site).await?;
        }
        self.spawn()
    }

    fn spawn(&mut self) -> Result<()> {
        let mut options = self.options()?;
        if let Some(death) = self.deaths.first() {
            options = options.env("ROUNDSMAN_FAILPOINTS", death);
        }
        self.node = Some(self.site.site.spawn(options)?);
        Ok(())
    }

    /// Waits for the next death, and starts who comes after. May be dropped and called again.
    async fn succeed(&mut self) -> Result<()> {
        if self.deaths.is_empty() {
            return std::future::pending().await;
        }
        let node = self.node.as_mut().context("no server was started")?;
        let status = node.wait_exit(SOON * 10).await?;
        ensure!(was_killed(status), "a server ended with {status}:\n{}", node.stderr()?);
        self.deaths.remove(0);
        self.spawn()
    }
}

/// Every process that was ever seen to lead a workload.
#[derive(Default)]
struct Census {
    leaders: BTreeMap<String, BTreeSet<i32>>,
}

impl Census {
    /// One look, after a tenth of a second.
    async fn count(&mut self, site: &BotSite) -> Result<()> {
        let watch = Stopwatch::start();
        let pause = async || (watch.elapsed() >= LOOK_EVERY).then_some(());
        eventually(SOON, pause).await?;
        // Containers have no mark; their runtime knows them by name, and a name only once.
        let marked = |process: &BotProcess| process.is_leader() && !process.workload.is_empty();
        for process in site.processes()?.into_iter().filter(marked) {
            self.leaders.entry(process.workload.clone()).or_default().insert(process.pid());
        }
        Ok(())
    }

    /// No workload was started twice.
    fn check(&self) -> Result<()> {
        let doubled: Vec<_> = self.leaders.iter().filter(|(_, pids)| pids.len() > 1).collect();
        ensure!(doubled.is_empty(), "started more than once: {doubled:?}");
        Ok(())
    }
}

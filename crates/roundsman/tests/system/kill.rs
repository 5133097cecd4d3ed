//! G-1: the server is killed at every place where that could hurt, under load, again and again.
//!
//! A chain is one database and a number of kills: each start recovers from the kill before it, is
//! loaded, and dies by itself at the place it was told (see `roundsman_core::failpoint`). After each
//! death the stored rows are compared with what was acknowledged, before anything can repair them.
//! The last kill of a chain comes from outside, at any moment. Then everything is worked off by a
//! server that is left alone.
//!
//! Without further word every place is visited once per database. The full run of 500:
//!
//!     ROUNDSMAN_TEST_KILLS=500 cargo test -p roundsman --test system kill

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use roundsman_core::failpoint;
use roundsman_core::ports::Random;
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{SeededRandom, env};

use crate::bots;
use crate::load::{self, Ledger, Plan};
use crate::orders;
use crate::site::{Backend, Node, READY_MAX, SOON, Site, Stopwatch};
use crate::transcripts;

const SIGKILL: i32 = 9;
/// The places of one chain; later starts then recover from more than one death.
const CHAIN_PLACES_MAX: usize = 8;
/// A place is reached this often before it kills, at most.
const VISITS_MAX: u64 = 12;
/// Requests that are acknowledged before a kill from outside.
const ACKED_BEFORE_KILL_MAX: u64 = 300;
const DEATH_SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Only the systems to come write effects without a job, and only `roundsman restore` advances leases. What
/// bots and webhooks come by is killed in `bots::restart`, what transcripts come by in
/// `transcripts::kill`, and what kinds ask for beyond being run in `orders`, where there is some.
const NOT_REACHED_YET: [&str; 2] = ["store.commit_effects", "store.advance_leases"];

/// Places that a server comes by only if a provider of rooms is configured, or if there are audits, documents,
/// tasks and alarms: see the `kill` of each.
const OF_ROOMS: [&str; 10] = [
    "audits.",
    "recordings.",
    "rooms.",
    "store.alarm_",
    "store.audit_",
    "store.presence_",
    "store.recording_",
    "store.room_",
    "store.task_",
    "tasks.",
];

/// Places that a start or an end comes by once.
const ONCE: [&str; 4] =
    ["serve.starting", "serve.stopping", "serve.closing", "store.begin_process"];

/// Places that come round seldom: by a timer, or when the log of the database is full.
const SELDOM: [&str; 6] = [
    "store.sweep",
    "store.prune",
    "store.touch_tokens",
    "sweeper.",
    "sqlite.checkpoint",
    "worker.",
];

#[tokio::test]
async fn sqlite_loses_nothing_wherever_it_is_killed() {
    kill_everywhere(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn postgres_loses_nothing_wherever_a_server_is_killed() {
    kill_everywhere(Backend::Postgres).await.unwrap();
}

async fn kill_everywhere(backend: Backend) -> Result<()> {
    let places = places_of(backend);
    let kills = env::kills()?.map_or(places.len(), |both| both / 2);
    let (mut killed, mut round) = (0, 0);
    while killed < kills {
        for chain in chains(&places) {
            if killed >= kills {
                break;
            }
            killed += Chain::begin(backend, round).await?.run(&chain).await?;
        }
        round += 1;
    }
    eprintln!("{killed} kills on {backend:?}");
    Ok(())
}

/// One database, its ledger, and the kills it has survived.
struct Chain {
    site: Site,
    ledger: Arc<Ledger>,
    random: SeededRandom,
    kills: usize,
}

impl Chain {
    /// Makes a database and the user that loads it.
    async fn begin(backend: Backend, round: u64) -> Result<Chain> {
        let site = Site::new(backend).await?;
        let mut node = site.start(site.options()).await?;
        let ledger = load::begin(&site, &node).await?;
        node.stop().await?;
        Ok(Chain { site, ledger, random: SeededRandom::new(round), kills: 0 })
    }

    async fn run(mut self, places: &[&'static str]) -> Result<usize> {
        for place in places {
            self.kill_at(place).await.with_context(|| format!("killed at {place}"))?;
        }
        self.kill_from_outside().await.context("killed from outside")?;
        self.end().await.with_context(|| format!("recovering at last from {places:?}"))?;
        Ok(self.kills)
    }

    /// Kills the server in the middle of the load, wherever it is.
    async fn kill_from_outside(&mut self) -> Result<()> {
        let mut node = self.start(self.site.options()).await?;
        let urls = [node.base_url()];
        let more = self.random.below(ACKED_BEFORE_KILL_MAX);
        let plan = Plan::until_death(self.random.below(1000));
        let kill = async {
            self.ledger.wait_for_more_acked(more, SOON).await?;
            node.kill_9().await
        };
        let (loaded, killed) = tokio::join!(load::run(&self.site, &self.ledger, &urls, plan), kill);
        loaded.and(killed)?;
        self.count_and_verify().await
    }

    /// Has the server die at `place`. A place that is not reached often enough must be reached at
    /// the first visit.
    async fn kill_at(&mut self, place: &'static str) -> Result<()> {
        let seldom = SELDOM.iter().any(|prefix| place.starts_with(prefix));
        let visits = match place {
            _ if ONCE.contains(&place) => 1,
            _ if seldom => 1 + self.random.below(2),
            _ => 1 + self.random.below(VISITS_MAX),
        };
        for visits in [visits, 1] {
            if self.dies_at(place, visits).await? {
                return self.count_and_verify().await;
            }
        }
        bail!("{place} was never reached")
    }

    /// Starts a server that will die at the given visit of `place`, loads it, and asks it to end if
    /// it is still there. Whether it died there.
    async fn dies_at(&mut self, place: &str, visits: u64) -> Result<bool> {
        let options = self.site.options().env("ROUNDSMAN_FAILPOINTS", format!("{place}={visits}"));
        let watch = Stopwatch::start();
        let mut node = self.site.spawn(options)?;
        if node.wait_ready().await.is_err() {
            return died_by_kill(&mut node).await;
        }
        check_ready(&watch)?;
        let plan = Plan::until_death(self.random.below(1000));
        load::run(&self.site, &self.ledger, &[node.base_url()], plan).await?;
        if node.client()?.get("/healthz").await.is_ok() {
            node.sigterm()?;
        }
        died_by_kill(&mut node).await
    }

    async fn count_and_verify(&mut self) -> Result<()> {
        self.kills += 1;
        load::verify(&self.ledger, &self.site.stored().await?)
    }

    /// A start, which is a recovery from the last kill and has to be a quick one.
    async fn start(&self, options: ServerOptions) -> Result<Node> {
        let watch = Stopwatch::start();
        let node = self.site.start(options).await?;
        check_ready(&watch)?;
        Ok(node)
    }

    /// The last start: everything is worked off, and nothing was lost on the way.
    async fn end(&self) -> Result<()> {
        let mut node = self.start(self.site.options()).await?;
        load::drain(&self.ledger, &node.base_url()).await?;
        load::verify_access(&self.ledger, &node).await?;
        node.stop().await?;
        load::verify_drained(&self.ledger, &self.site.stored().await?)
    }
}

/// The end of a server: by its own hand, or in good order because the place was not reached.
async fn died_by_kill(node: &mut Node) -> Result<bool> {
    let status = node.wait_exit(DEATH_SEEN_WITHIN).await?;
    match (status.signal(), status.code()) {
        (Some(SIGKILL), _) => Ok(true),
        (None, Some(0)) => Ok(false),
        _ => bail!("the server ended with {status}:\n{}", node.stderr()?),
    }
}

fn check_ready(watch: &Stopwatch) -> Result<()> {
    let took = watch.elapsed();
    ensure!(took <= READY_MAX, "ready after {took:?}");
    Ok(())
}

fn places_of(backend: Backend) -> Vec<&'static str> {
    let elsewhere = match backend {
        Backend::Sqlite => "postgres.",
        Backend::Postgres => "sqlite.",
    };
    let of_bots = |place: &&str| bots::restart::PLACES.contains(place);
    let of_transcripts = |place: &&str| transcripts::kill::PLACES.contains(place);
    let reachable = |place: &&str| {
        !place.starts_with(elsewhere)
            && !NOT_REACHED_YET.contains(place)
            && !OF_ROOMS.iter().any(|prefix| place.starts_with(prefix))
            && !orders::PLACES.contains(place)
            && !of_bots(place)
            && !of_transcripts(place)
    };
    failpoint::ALL.iter().copied().filter(reachable).collect()
}

/// Chains of about equal length. A job of the server's own kind that a kill leaves behind is taken
/// over late on PostgreSQL, so that a chain can have one such place, and has it first.
fn chains(places: &[&'static str]) -> Vec<Vec<&'static str>> {
    let own = |place: &&&'static str| place.starts_with("worker.") || **place == "store.prune";
    let first: Vec<_> = places.iter().filter(own).copied().collect();
    let others: Vec<_> = places.iter().filter(|place| !own(place)).copied().collect();
    let count = first.len().max(places.len().div_ceil(CHAIN_PLACES_MAX));
    let mut chains: Vec<Vec<&'static str>> = vec![Vec::new(); count];
    for (index, place) in first.into_iter().enumerate() {
        chains[index].push(place);
    }
    for (index, place) in others.into_iter().enumerate() {
        chains[index % count].push(place);
    }
    chains
}

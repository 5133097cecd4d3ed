//! A seeded world of unreliable workers, sweepers, triggers and people around one store, on manual
//! time: a million events, with every answer of the store held against what must be true.
//!
//! The same seed gives the same run. A failure names its seed and the event; the store is the
//! inline SQLite one, so that nothing but the seed decides what happens when.

mod bugs;
mod ledger;
mod rules;
mod runs;
mod world;

use std::sync::Arc;

use roundsman_core::ports::{EffectStore, JobStore};
use roundsman_store::conformance::catalog;

use self::bugs::{Bug, Buggy};
use self::world::{Summary, World};
use crate::open;

/// Events of the large run, in which one row written or one lease asked about is one event.
const EVENTS: u64 = 1_000_000;
/// Enough for every seeded bug to show, many times over.
const EVENTS_PER_BUG: u64 = 20_000;
const SEED: u64 = 0x5EED_0001;

#[test]
fn a_million_events_break_no_rule() {
    let summary = simulate(SEED, EVENTS, None).unwrap_or_else(|found| panic!("{found}"));
    assert!(summary.events >= EVENTS);
    // A world in which nothing goes wrong would prove nothing.
    let Summary { refused, rescued, folded, joined, completed, failed, .. } = summary;
    for (what, count) in [
        ("writes of zombies refused", refused),
        ("rescued jobs", rescued),
        ("folded jobs", folded),
        ("joined triggers", joined),
        ("completed jobs", completed),
        ("failed jobs", failed),
    ] {
        assert!(count > EVENTS / 1000, "only {count} {what}: {summary:?}");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    let run = |seed| simulate(seed, 5_000, None).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).digest, run(8).digest);
}

/// The rules would notice: each of these mistakes, made on purpose, is found.
#[test]
fn every_seeded_bug_is_caught() {
    for bug in Bug::ALL {
        let found = simulate(SEED, EVENTS_PER_BUG, Some(bug));
        let found = found.expect_err(&format!("{bug:?} went unnoticed"));
        let expected = bug.broken_rules().iter().any(|rule| found.starts_with(rule));
        assert!(expected, "{bug:?} was taken for: {found}");
    }
}

/// Runs a world until so many events have happened, then lets it come to rest.
fn simulate(seed: u64, events: u64, bug: Option<Bug>) -> Result<Summary, String> {
    let store = Arc::new(open::sqlite_inline(catalog()));
    let effects: Arc<dyn EffectStore> = Arc::clone(&store) as _;
    let jobs: Arc<dyn JobStore> = match bug {
        None => store,
        Some(bug) => Arc::new(Buggy::new(store, bug)),
    };
    let mut world = World::new(jobs, effects, seed);
    world.run(events).map_err(|broken| {
        let (event, now) = (world.events(), world.now());
        format!("{broken}\n  seed {seed:#x}, event {event}, at {now}")
    })
}

//! L-1 and L-2 over a seeded world: the real handlers of tasks on the embedded database, with callers,
//! workers and a generator that do whatever the seed says, on manual time.
//!
//! Everything that goes on is a future that stops after each call of the database, and each step of the
//! world lets one of them go on, or lets something happen: so a task is made between "none is pending"
//! and the end of that round, a worker dies between any two writes, and another comes back as a zombie.
//! After every step the rules are held against what the database says. The same seed gives the same
//! run; a failure names its seed and the step.

mod fickle;
mod rules;
mod world;

use roundsman_testkit::env;

use self::rules::{LOOKED_AFTER, RESTS};
use self::world::{Summary, World};

/// Steps on every change, and in a run of everything.
const STEPS: (u64, u64) = (20_000, 1_000_000);
/// Enough for every seeded bug to show, many times over.
const STEPS_PER_BUG: u64 = 50_000;
const SEED: u64 = 0x5EED_0003;

/// Mistakes that others have made, or that we could make, made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// The row of a task is written, and its alarm is set by whoever lives on.
    AlarmAfterRow,
    /// A room has one slot, which the round that ends empties.
    OneSlot,
    /// A task that is made while a round runs is that round's business.
    JoinsTheRound,
    /// Who died does not come back.
    DeadForGood,
    /// The round comes back late.
    ComesBackLate,
    /// The round comes back although nothing is left.
    NeverRests,
}

impl Bug {
    const ALL: [Bug; 6] = [
        Bug::AlarmAfterRow,
        Bug::OneSlot,
        Bug::JoinsTheRound,
        Bug::DeadForGood,
        Bug::ComesBackLate,
        Bug::NeverRests,
    ];

    fn broken_rule(self) -> &'static str {
        match self {
            Bug::NeverRests => RESTS,
            _ => LOOKED_AFTER,
        }
    }
}

#[test]
fn l_1_whoever_waits_is_looked_after_whatever_happens() {
    let steps = if env::full() { STEPS.1 } else { STEPS.0 };
    let summary = simulate(SEED, steps, None).unwrap_or_else(|found| panic!("{found}"));
    // A world in which nothing goes wrong would prove nothing.
    let Summary { made, ended, rounds, idle_rounds, met, died, refused, rescued, robbed, .. } =
        summary;
    for (what, count) in [
        ("tasks made", made),
        ("tasks ended", ended),
        ("rounds", rounds),
        ("rounds that found nothing and ended", idle_rounds),
        ("tasks made while a round ran", met),
        ("runs that died", died),
        ("writes of zombies refused", refused),
        ("jobs rescued", rescued),
        ("alarms lost by an operator", robbed),
    ] {
        assert!(count > steps / 5_000, "only {count} {what}: {summary:?}");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    let run = |seed| simulate(seed, 2_000, None).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).digest, run(8).digest);
}

/// The rules would notice: each of these mistakes is found.
#[test]
fn every_seeded_bug_is_found() {
    for bug in Bug::ALL {
        let found = simulate(SEED, STEPS_PER_BUG, Some(bug));
        let found = found.expect_err(&format!("{bug:?} went unnoticed"));
        assert!(found.starts_with(bug.broken_rule()), "{bug:?} was taken for: {found}");
    }
}

/// Runs a world for so many steps, then lets it come to rest.
fn simulate(seed: u64, steps: u64, bug: Option<Bug>) -> Result<Summary, String> {
    // Looks are bounded by timers, which are made here and never run out.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let _context = runtime.enter();
    let mut world = World::new(seed, bug);
    world.run(steps).map_err(|broken| {
        let (step, now) = (world.summary().steps, world.now());
        format!("{broken}\n  seed {seed:#x}, step {step}, at {now}")
    })
}

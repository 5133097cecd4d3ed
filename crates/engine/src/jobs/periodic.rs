//! Periodic jobs: keyed jobs that answer `Again`, so that one node runs each at a time.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobKey, Json, KindName, KindSpec, MergeRule, NewJob, Role};
use roundsman_core::ports::Random;
use roundsman_core::users::UserId;

/// The key of a job of which there is one in the whole system.
const ONLY_KEY: &str = "all";

/// The policy of a periodic job: a short lease, so that another node takes over soon, and no limit
/// of attempts, because giving up housekeeping helps nobody.
pub fn periodic_spec(kind: &'static str) -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(15),
        heartbeat_every: Duration::from_secs(5),
        max_attempts: None,
        merge: MergeRule::Keep,
        concurrency: Some(1),
        role: Role::Scheduler,
        ..KindSpec::new(name(kind))
    }
}

/// The wish that keeps a periodic job alive; every start repeats it and joins what is there.
pub fn periodic_wish(kind: &'static str, now: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: name(kind),
        key: JobKey::new(ONLY_KEY).ok(),
        payload: Json::null(),
        priority: 0,
        run_at: now,
        max_attempts: None,
        tenant: None,
    }
}

/// The next round, up to a tenth of the interval late so that jobs and nodes spread out.
pub fn next_round(now: Timestamp, every: Duration, random: &dyn Random) -> Timestamp {
    let spread_micros = u64::try_from(every.as_micros() / 10).unwrap_or(u64::MAX);
    now + every + Duration::from_micros(random.below(spread_micros.saturating_add(1)))
}

/// Built-in kinds are named in the program, so a wrong name is found by the first test.
fn name(kind: &'static str) -> KindName {
    KindName::new(kind).expect("a built-in kind has a valid name")
}

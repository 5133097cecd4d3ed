//! Small things the measurements share.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{Json, KindCatalog, KindName, KindSpec, NewJob};
use roundsman_core::ports::Clock;
use roundsman_core::users::UserId;

/// The kind of the measured jobs.
pub(crate) const KIND: &str = "bench.nothing";

/// Tells whoever watches how far it is.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

pub(crate) fn spec() -> KindSpec {
    KindSpec::new(KindName::new(KIND).expect("the name is a kind"))
}

pub(crate) fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(spec()).with(spec()))
}

/// Job number `n`, due now.
pub(crate) fn wish(n: usize, clock: &dyn Clock) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: spec().kind,
        key: None,
        payload: Json::from_stored(format!("{{\"n\":{n}}}")),
        priority: 0,
        run_at: clock.now(),
        max_attempts: Some(3),
        tenant: None,
    }
}

/// So many things in that time, per second.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
pub(crate) fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

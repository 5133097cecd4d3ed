//! Small things the measurements share.

use std::sync::Arc;

use roundsman_core::jobs::{Json, KindCatalog, KindName, KindSpec, NewJob};
use roundsman_core::ports::Clock;
use roundsman_core::users::UserId;

/// The kind of the measured jobs.
pub(crate) const KIND: &str = "bench.nothing";

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

/// `1,000,000`.
pub(crate) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_000, 1_000_000].map(grouped), ["0", "999", "1,000", "1,000,000"]);
    }
}

//! The parts of `check` that both databases share: rules over what was read, not how to read it.
//!
//! An adapter reads rows in order and hands them here; what a constraint of the tables already
//! makes impossible is looked at again, because `check` is for the day when one was circumvented.

use std::collections::BTreeMap;

use roundsman_core::effects::{LoggedTransition, Violation, replay};
use roundsman_core::jobs::RunLog;

/// A log whose steps do not follow from each other.
pub(crate) const LOG_REPLAYS: &str = "log_replays";
/// A log that leads to another state than the row has.
pub(crate) const LOG_MATCHES_STATE: &str = "log_matches_state";
/// A job whose runs cannot have happened in this order.
pub(crate) const RUNS_IN_ORDER: &str = "runs_in_order";
/// A job that is in two tables at once.
pub(crate) const JOB_IN_ONE_PLACE: &str = "job_in_one_place";
/// A key with two waiting or two running jobs.
pub(crate) const KEY_ONCE: &str = "key_once";
/// A row whose columns contradict each other.
pub(crate) const ROW_CONSISTENT: &str = "row_consistent";
/// A number that is greater than the counter it must have come from.
pub(crate) const NUMBERS_FROM_COUNTER: &str = "numbers_from_counter";
/// A stream with a hole in it.
pub(crate) const FRAMES_GAPLESS: &str = "frames_gapless";
/// The database's own check of its file found something.
pub(crate) const STORAGE_SOUND: &str = "storage_sound";

/// The state of a token by its row: see `roundsman_core::ports::UserStore`.
pub(crate) fn token_state(revoked: bool) -> &'static str {
    if revoked { "revoked" } else { "active" }
}

pub(crate) fn violation(
    rule: &'static str,
    subject: impl Into<String>,
    explanation: impl Into<String>,
) -> Violation {
    Violation { rule, subject: subject.into(), explanation: explanation.into() }
}

/// Replays every log. `steps` are ordered by entity, its number, and the step's own number.
/// Returns what is wrong, and the state each sound log leads to.
pub(crate) fn replay_logs(
    steps: &[LoggedTransition],
) -> (Vec<Violation>, BTreeMap<(String, i64), String>) {
    let mut violations = Vec::new();
    let mut states = BTreeMap::new();
    let same = |a: &LoggedTransition, b: &LoggedTransition| {
        a.entity == b.entity && a.entity_id == b.entity_id
    };
    for log in steps.chunk_by(same) {
        let (entity, id) = (&log[0].entity, log[0].entity_id);
        match replay(log) {
            Ok(Some(state)) => {
                states.insert((entity.clone(), id), state.to_owned());
            }
            Ok(None) => {}
            Err(broken) => {
                violations.push(violation(
                    LOG_REPLAYS,
                    format!("{entity} {id}"),
                    broken.to_string(),
                ));
            }
        }
    }
    (violations, states)
}

/// Compares the tokens (number, whether revoked) with the states their logs lead to.
pub(crate) fn check_tokens(
    tokens: &[(i64, bool)],
    logged: &BTreeMap<(String, i64), String>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for &(id, revoked) in tokens {
        let recorded = token_state(revoked);
        let from_log = logged.get(&(super::TOKEN_ENTITY.to_owned(), id)).map(String::as_str);
        if from_log != Some(recorded) {
            violations.push(violation(
                LOG_MATCHES_STATE,
                format!("token {id}"),
                format!("the row says {recorded}, the log {}", from_log.unwrap_or("nothing")),
            ));
        }
    }
    violations
}

/// Looks at one job's log of runs.
pub(crate) fn check_runs(table: &str, id: i64, runs: &RunLog) -> Option<Violation> {
    let problem = runs.check().err()?;
    Some(violation(RUNS_IN_ORDER, format!("{table} {id}"), problem))
}

#[cfg(test)]
mod tests {
    use roundsman_core::Timestamp;

    use super::*;

    fn step(id: i64, entity_id: i64, from: Option<&str>, to: &str) -> LoggedTransition {
        LoggedTransition {
            id,
            entity: "token".to_owned(),
            entity_id,
            from_state: from.map(ToOwned::to_owned),
            to_state: to.to_owned(),
            cause: "test".to_owned(),
            detail: None,
            at: Timestamp::EPOCH,
        }
    }

    #[test]
    fn each_log_is_replayed_by_itself() {
        let steps = [
            step(1, 1, None, "active"),
            step(3, 1, Some("active"), "revoked"),
            step(2, 2, None, "active"),
            step(4, 3, Some("active"), "revoked"),
        ];
        let (violations, states) = replay_logs(&steps);
        assert_eq!(violations.len(), 1);
        assert_eq!((violations[0].rule, violations[0].subject.as_str()), (LOG_REPLAYS, "token 3"));
        let rows = [(1, true), (2, true), (4, false)];
        let subjects: Vec<String> =
            check_tokens(&rows, &states).into_iter().map(|one| one.subject).collect();
        assert_eq!(subjects, ["token 2", "token 4"]);
    }
}

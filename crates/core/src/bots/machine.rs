//! The one function that says what follows from what happened to a bot.
//!
//! Invariants: only the edges of [`may_follow`] are taken; what is over stays over; the same event
//! twice is the same as once. A callback that comes early takes the steps it skipped with it, so
//! that callbacks in any order end in the right state.

use super::ending::failure_stage;
use super::{BotEvent, BotState, BotStatus, BotStep, Ending, Refused, Stage, classify_exit};

/// Whether `to` may come directly after `from`.
pub fn may_follow(from: BotStatus, to: BotStatus) -> bool {
    use BotStatus::{Active, Completed, Failed, Reserved, Starting, Stopping};
    matches!(
        (from, to),
        (Reserved, Starting | Stopping | Failed)
            | (Starting, Active | Stopping | Failed)
            | (Active, Stopping | Completed | Failed)
            | (Stopping, Completed | Failed)
    )
}

/// What follows from `event`. On a bot that is over nothing does; the caller shows its state, so
/// that a late or repeated callback is answered and not retried for ever.
pub fn on_event(state: BotState, event: BotEvent) -> Result<BotStep, Refused> {
    if state.status.is_over() {
        return Ok(unchanged(state));
    }
    match event {
        BotEvent::Started => Ok(advance(state, BotStatus::Starting, state.stage)),
        BotEvent::AtStage(stage) => at_stage(state, stage),
        BotEvent::Joined if state.status == BotStatus::Stopping => Ok(unchanged(state)),
        BotEvent::Joined => Ok(advance(state, BotStatus::Active, None)),
        BotEvent::Leaving => Ok(advance(state, BotStatus::Stopping, None)),
        BotEvent::Exited(report) => Ok(end(state, classify_exit(state, &report))),
        BotEvent::Absent { reason } => Ok(end(state, absent(state, reason))),
        BotEvent::TimedOut { reason } => Ok(end(state, failed(state, reason.to_owned()))),
    }
}

fn at_stage(state: BotState, stage: Stage) -> Result<BotStep, Refused> {
    match state.status {
        BotStatus::Reserved | BotStatus::Starting => {
            // The door is behind whoever stands in the lobby already.
            let stage = state.stage.map_or(stage, |now| now.max(stage));
            Ok(advance(state, BotStatus::Starting, Some(stage)))
        }
        // A report of the past that came late.
        BotStatus::Active | BotStatus::Stopping => Ok(unchanged(state)),
        BotStatus::Completed | BotStatus::Failed => Err(Refused { current: state.status }),
    }
}

/// Goes on to `to`, through the states on the way; a state that was passed already stays.
fn advance(state: BotState, to: BotStatus, stage: Option<Stage>) -> BotStep {
    let order = [BotStatus::Reserved, BotStatus::Starting, BotStatus::Active];
    let path = match to {
        BotStatus::Stopping if state.status == BotStatus::Stopping => Vec::new(),
        BotStatus::Stopping => vec![BotStatus::Stopping],
        _ => {
            let at = order.iter().position(|status| *status == state.status);
            let goal = order.iter().position(|status| *status == to);
            match (at, goal) {
                (Some(at), Some(goal)) if at < goal => order[at + 1..=goal].to_vec(),
                _ => Vec::new(),
            }
        }
    };
    let reached = path.last().copied().unwrap_or(state.status);
    let stage = if reached == BotStatus::Starting { stage } else { None };
    BotStep { path, stage, ending: None }
}

/// Ends as `ending` says, through `stopping` where there is no direct way.
fn end(state: BotState, ending: Ending) -> BotStep {
    let path = if may_follow(state.status, ending.status) {
        vec![ending.status]
    } else {
        vec![BotStatus::Stopping, ending.status]
    };
    BotStep { path, stage: None, ending: Some(ending) }
}

/// A bot that is proven not to exist has left if it was asked to, and has failed otherwise.
fn absent(state: BotState, reason: String) -> Ending {
    if !state.stop_wanted && state.status != BotStatus::Stopping {
        return failed(state, reason);
    }
    let completion = if state.was_active { "stopped" } else { "stopped_before_join" };
    Ending {
        status: BotStatus::Completed,
        reason,
        completion_reason: Some(completion.to_owned()),
        failure_stage: None,
        exit_code: None,
        error_details: None,
    }
}

fn failed(state: BotState, reason: String) -> Ending {
    Ending {
        status: BotStatus::Failed,
        reason,
        completion_reason: None,
        failure_stage: Some(failure_stage(state)),
        exit_code: None,
        error_details: None,
    }
}

fn unchanged(state: BotState) -> BotStep {
    BotStep { path: Vec::new(), stage: state.stage, ending: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bots::ExitReport;

    fn reserved() -> BotState {
        BotState { status: BotStatus::Reserved, stage: None, stop_wanted: false, was_active: false }
    }

    fn exit(code: i32) -> BotEvent {
        BotEvent::Exited(ExitReport { exit_code: Some(code), ..ExitReport::default() })
    }

    /// Applies an event the way a store does, checking every edge.
    fn apply(state: BotState, event: BotEvent) -> BotState {
        let Ok(step) = on_event(state, event) else { return state };
        let mut next = BotState { stage: step.stage, ..state };
        for status in step.path {
            assert!(may_follow(next.status, status), "{:?} -> {status:?}", next.status);
            next.status = status;
            next.was_active |= status == BotStatus::Active;
        }
        next
    }

    fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
        if items.is_empty() {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for index in 0..items.len() {
            let mut rest = items.to_vec();
            let first = rest.remove(index);
            for mut order in orders(&rest) {
                order.insert(0, first.clone());
                all.push(order);
            }
        }
        all
    }

    #[test]
    fn callbacks_in_any_order_end_in_a_terminal_state() {
        let events = [
            BotEvent::Started,
            BotEvent::AtStage(Stage::AwaitingAdmission),
            BotEvent::Joined,
            BotEvent::Leaving,
            exit(0),
        ];
        for order in orders(&events) {
            let joined_before_exit = order
                .iter()
                .take_while(|event| !matches!(event, BotEvent::Exited(_)))
                .any(|event| *event == BotEvent::Joined);
            let left_before_exit = order
                .iter()
                .take_while(|event| !matches!(event, BotEvent::Exited(_)))
                .any(|event| *event == BotEvent::Leaving);
            let end = order.iter().cloned().fold(reserved(), apply);
            let expected = if joined_before_exit || left_before_exit {
                BotStatus::Completed
            } else {
                BotStatus::Failed
            };
            assert_eq!(end.status, expected, "{order:?}");
        }
    }

    #[test]
    fn an_early_callback_takes_the_skipped_steps_with_it() {
        let step = on_event(reserved(), BotEvent::Joined).unwrap();
        assert_eq!(step.path, [BotStatus::Starting, BotStatus::Active]);
        let wanted = BotState { stop_wanted: true, ..reserved() };
        let step = on_event(wanted, exit(0)).unwrap();
        assert_eq!(step.path, [BotStatus::Stopping, BotStatus::Completed]);
    }

    #[test]
    fn the_lobby_is_not_left_backwards() {
        let state = apply(reserved(), BotEvent::AtStage(Stage::AwaitingAdmission));
        let state = apply(state, BotEvent::AtStage(Stage::Joining));
        assert_eq!(state.stage, Some(Stage::AwaitingAdmission));
    }

    #[test]
    fn a_bot_that_cannot_be_launched_fails_and_one_that_was_to_stop_completes() {
        let absent = || BotEvent::Absent { reason: "image not found".to_owned() };
        assert_eq!(apply(reserved(), absent()).status, BotStatus::Failed);
        let wanted = BotState { stop_wanted: true, ..reserved() };
        assert_eq!(apply(wanted, absent()).status, BotStatus::Completed);
    }

    fn any_event() -> impl Strategy<Value = BotEvent> {
        prop_oneof![
            Just(BotEvent::Started),
            Just(BotEvent::AtStage(Stage::Joining)),
            Just(BotEvent::AtStage(Stage::AwaitingAdmission)),
            Just(BotEvent::Joined),
            Just(BotEvent::Leaving),
            (0i32..3).prop_map(exit),
            Just(BotEvent::Absent { reason: "gone".to_owned() }),
            Just(BotEvent::TimedOut { reason: "heartbeat_timeout" }),
        ]
    }

    proptest! {
        #[test]
        fn no_history_takes_an_undeclared_edge_or_leaves_an_end(
            events in proptest::collection::vec((any_event(), any::<bool>()), 0..20),
        ) {
            let mut state = reserved();
            for (event, wanted) in events {
                state.stop_wanted |= wanted;
                let before = state;
                state = apply(state, event.clone());
                if before.status.is_over() {
                    prop_assert_eq!(state.status, before.status);
                }
                let once_more = apply(state, event);
                prop_assert_eq!(once_more.status, state.status, "a repeat changes nothing");
            }
        }
    }
}

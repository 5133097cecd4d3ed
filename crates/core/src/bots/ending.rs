//! How a bot ended, and whether that was well.

use super::{BotState, BotStatus, Stage};

/// What a bot says at its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExitReport {
    /// `None` when nobody knows: the bot did not say.
    pub exit_code: Option<i32>,
    /// The bot's own word, such as `left_alone_timeout`.
    pub reason: Option<String>,
    pub completion_reason: Option<String>,
    /// Anything it knows about an error, as JSON text.
    pub error_details: Option<String>,
}

/// How a bot ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub status: BotStatus,
    pub reason: String,
    /// In Vexa's words: why it completed.
    pub completion_reason: Option<String>,
    /// In Vexa's words: where it was when it failed.
    pub failure_stage: Option<&'static str>,
    pub exit_code: Option<i32>,
    pub error_details: Option<String>,
}

/// What an exit means. A wish to stop explains any exit that is not a crash; an exit without one
/// is success only for a bot that was in the meeting.
pub fn classify_exit(state: BotState, report: &ExitReport) -> Ending {
    let clean = report.exit_code == Some(0);
    // Ended by the signals that we send when a bot does not hear its wish.
    let by_our_signal = matches!(report.exit_code, Some(130 | 137 | 143));
    let asked = state.stop_wanted || state.status == BotStatus::Stopping;
    let well = if asked { clean || by_our_signal } else { clean && state.was_active };
    let reason = report.reason.clone().unwrap_or_else(|| match (asked, clean) {
        (true, true) => "stopped".to_owned(),
        (true, false) => "crashed_while_leaving".to_owned(),
        (false, true) => "normal_completion".to_owned(),
        (false, false) => "crashed".to_owned(),
    });
    if well {
        let default = match (asked, state.was_active) {
            (true, false) => "stopped_before_join",
            _ => "stopped",
        };
        return Ending {
            status: BotStatus::Completed,
            completion_reason: Some(
                report.completion_reason.clone().unwrap_or_else(|| default.to_owned()),
            ),
            failure_stage: None,
            reason,
            exit_code: report.exit_code,
            error_details: report.error_details.clone(),
        };
    }
    Ending {
        status: BotStatus::Failed,
        completion_reason: report.completion_reason.clone(),
        failure_stage: Some(failure_stage(state)),
        reason,
        exit_code: report.exit_code,
        error_details: report.error_details.clone(),
    }
}

/// Where a bot was when it failed, in Vexa's words.
pub(super) fn failure_stage(state: BotState) -> &'static str {
    match (state.status, state.stage) {
        (BotStatus::Reserved, _) => "requested",
        (BotStatus::Starting, Some(Stage::AwaitingAdmission)) => "awaiting_admission",
        (BotStatus::Starting, _) => "joining",
        (BotStatus::Stopping, _) if !state.was_active => "joining",
        _ => "active",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_judged_by_what_was_asked_and_where_the_bot_was() {
        use BotStatus::{Active, Completed, Failed, Reserved, Starting, Stopping};
        let cases = [
            // status, was active, stop wanted, exit code -> status
            (Active, true, false, Some(0), Completed),
            (Active, true, false, Some(1), Failed),
            (Active, true, false, Some(137), Failed),
            (Active, true, false, None, Failed),
            (Active, true, true, Some(0), Completed),
            (Stopping, true, true, Some(143), Completed),
            (Stopping, true, true, Some(137), Completed),
            (Stopping, true, true, Some(1), Failed),
            (Stopping, true, false, Some(0), Completed),
            (Starting, false, false, Some(0), Failed),
            (Starting, false, true, Some(0), Completed),
            (Reserved, false, false, Some(0), Failed),
            (Reserved, false, true, Some(143), Completed),
        ];
        for (status, was_active, stop_wanted, exit_code, expected) in cases {
            let state = BotState { status, stage: None, stop_wanted, was_active };
            let report = ExitReport { exit_code, ..ExitReport::default() };
            let ending = classify_exit(state, &report);
            assert_eq!(ending.status, expected, "{state:?} {exit_code:?}");
            assert_eq!(ending.failure_stage.is_some(), expected == Failed);
        }
    }
}

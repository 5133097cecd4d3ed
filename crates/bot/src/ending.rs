//! How a bot says that it ended.

use serde::Serialize;
use serde_json::{Value, json};

use crate::wishes::LeaveCause;

/// What is reported at the end. The words are those of Vexa's bots where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ending {
    pub exit_code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_details: Option<Value>,
}

impl Ending {
    /// Everything went as it should.
    pub fn completed(reason: &str) -> Self {
        Ending {
            exit_code: 0,
            reason: Some(reason.to_owned()),
            completion_reason: None,
            error_details: None,
        }
    }

    /// The bot could not go on.
    pub fn failed(exit_code: i32, reason: &str) -> Self {
        Ending { exit_code, ..Ending::completed(reason) }
    }

    /// The bot left a meeting because it was told to.
    pub fn left(cause: LeaveCause) -> Self {
        Ending::completed(match cause {
            LeaveCause::Asked => "self_initiated_leave",
            LeaveCause::Terminated => "signal_sigterm",
            LeaveCause::Interrupted => "signal_sigint",
        })
        .because("stopped")
    }

    /// The bot was told to leave before it was let into the meeting.
    pub fn left_before_joining(cause: LeaveCause) -> Self {
        match cause {
            LeaveCause::Asked => Ending::completed("stop_requested_pre_admission"),
            LeaveCause::Terminated | LeaveCause::Interrupted => {
                Ending { completion_reason: None, ..Ending::left(cause) }
            }
        }
    }

    /// With a word for why the meeting was over for the bot.
    #[must_use]
    pub fn because(mut self, completion_reason: &str) -> Self {
        self.completion_reason = Some(completion_reason.to_owned());
        self
    }

    /// With what somebody who looks for the cause would want to read.
    #[must_use]
    pub fn details(mut self, message: &str) -> Self {
        self.error_details = Some(json!({"message": message}));
        self
    }
}

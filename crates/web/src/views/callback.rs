//! What bots report, and what they are told.
//!
//! Invariant: a report is never refused for what it says beside the point, because a bot has one
//! chance to say how it ended: members that are not known are ignored.

use roundsman_core::bots::{BotConfig, BotEvent, BotRecord, BotStatus, ExitReport, Stage};
use roundsman_engine::bots::Heard;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::bot::BotConfigView;
use super::problem::FIELD_REQUIRED;
use crate::problem::{Code, Problem};

/// The bot runs.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotStarted)]
pub(crate) struct StartedBody {
    #[schema(example = "9f86d081-884c-4d65-9a2f-eaa0c55ad015")]
    pub(crate) connection_id: String,
    /// The meeting the bot was started for.
    #[schema(example = 7)]
    pub(crate) meeting_id: Option<i64>,
}

/// The bot is in the meeting.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotJoined)]
pub(crate) struct JoinedBody {
    pub(crate) connection_id: String,
}

/// The bot is alive.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotHeartbeat)]
pub(crate) struct BeatBody {
    pub(crate) connection_id: String,
    /// Grows while the bot hears the meeting.
    #[schema(example = 480_000)]
    pub(crate) media_progress: Option<i64>,
    /// The newest configuration the bot has applied.
    #[schema(example = 2)]
    pub(crate) config_version: Option<u32>,
}

/// The bot is on its way in or out.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotStage)]
pub(crate) struct StageBody {
    pub(crate) connection_id: String,
    /// `joining`, `awaiting_admission` or `stopping`.
    #[schema(example = "stopping")]
    status: String,
}

/// The bot has ended.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotExited)]
pub(crate) struct ExitedBody {
    pub(crate) connection_id: String,
    #[schema(example = 0)]
    exit_code: Option<i64>,
    #[schema(example = "left_alone_timeout")]
    reason: Option<String>,
    #[schema(example = "left_alone")]
    completion_reason: Option<String>,
    error_details: Option<Value>,
}

/// What a stock Vexa bot reports, whatever the event. Which members matter depends on it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = VexaCallback)]
pub(crate) struct VexaCallbackBody {
    pub(crate) connection_id: String,
    /// Of `status_change`: `requested`, `joining`, `awaiting_admission`, `active`, `stopping`,
    /// `completed` or `failed`.
    #[schema(example = "active")]
    status: Option<String>,
    exit_code: Option<i64>,
    reason: Option<String>,
    completion_reason: Option<String>,
    error_details: Option<Value>,
    platform_specific_error: Option<Value>,
}

/// What a bot is told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallbackAnswer)]
pub(crate) struct CallbackView {
    /// Always `processed`.
    status: &'static str,
    #[schema(example = 7)]
    meeting_id: i64,
    /// What the bot is now, in our words.
    #[schema(example = "active")]
    state: &'static str,
    /// In Vexa's.
    #[schema(example = "active")]
    meeting_status: &'static str,
    /// Of a bot that is over: how it ended, in Vexa's words.
    #[schema(example = "completed")]
    final_status: Option<&'static str>,
    /// `run` or `leave`.
    #[schema(example = "run")]
    wanted: &'static str,
    #[schema(example = 2)]
    config_version: u32,
    config: BotConfigView,
}

impl StageBody {
    pub(crate) fn event(&self) -> Result<BotEvent, Problem> {
        match self.status.as_str() {
            "stopping" => Ok(BotEvent::Leaving),
            "joining" => Ok(BotEvent::AtStage(Stage::Joining)),
            "awaiting_admission" => Ok(BotEvent::AtStage(Stage::AwaitingAdmission)),
            _ => {
                let words = "must be stopping, joining or awaiting_admission";
                Err(Problem::field("status", words))
            }
        }
    }
}

impl ExitedBody {
    pub(crate) fn event(&self) -> BotEvent {
        BotEvent::Exited(ExitReport {
            exit_code: self.exit_code.map(exit_code),
            reason: self.reason.clone(),
            completion_reason: self.completion_reason.clone(),
            error_details: self.error_details.as_ref().and_then(details),
        })
    }
}

impl VexaCallbackBody {
    /// What happened, by the event in the path.
    pub(crate) fn event(&self, event: &str) -> Result<BotEvent, Problem> {
        match event {
            "started" => Ok(BotEvent::Joined),
            "joining" => Ok(BotEvent::AtStage(Stage::Joining)),
            "awaiting_admission" => Ok(BotEvent::AtStage(Stage::AwaitingAdmission)),
            "exited" => Ok(self.exited(self.exit_code)),
            "status_change" => self.status_change(),
            _ => Err(Problem::new(Code::NotFound, "There is no such callback.")),
        }
    }

    fn status_change(&self) -> Result<BotEvent, Problem> {
        let Some(status) = self.status.as_deref() else {
            return Err(Problem::field("status", FIELD_REQUIRED));
        };
        match status {
            "requested" => Ok(BotEvent::Started),
            "joining" => Ok(BotEvent::AtStage(Stage::Joining)),
            "awaiting_admission" => Ok(BotEvent::AtStage(Stage::AwaitingAdmission)),
            "active" => Ok(BotEvent::Joined),
            "stopping" => Ok(BotEvent::Leaving),
            "completed" => Ok(self.exited(self.exit_code.or(Some(0)))),
            "failed" => Ok(self.exited(self.exit_code.filter(|code| *code != 0).or(Some(1)))),
            _ => Err(Problem::field("status", "is no status of a meeting")),
        }
    }

    fn exited(&self, code: Option<i64>) -> BotEvent {
        let error_details = match (&self.error_details, &self.platform_specific_error) {
            (Some(details), Some(Value::Null) | None) => Some(details.clone()),
            (None, Some(error)) => Some(json!({ "platform_specific_error": error })),
            (Some(details), Some(error)) => {
                Some(json!({ "error_details": details, "platform_specific_error": error }))
            }
            (None, None) => None,
        };
        BotEvent::Exited(ExitReport {
            exit_code: code.map(exit_code),
            reason: self.reason.clone(),
            completion_reason: self.completion_reason.clone(),
            error_details: error_details.as_ref().and_then(details),
        })
    }
}

impl CallbackView {
    pub(crate) fn of_record(record: &BotRecord) -> Self {
        CallbackView {
            meeting_status: record.vexa_status(),
            final_status: record.status.is_over().then(|| record.vexa_status()),
            ..CallbackView::new(
                record.meeting.id.get(),
                record.status,
                record.bot.stop.is_some(),
                &record.bot.config,
            )
        }
    }

    pub(crate) fn of_beat(heard: &Heard) -> Self {
        let Heard { meeting_id, status, stage, stop_wanted, config } = heard;
        CallbackView {
            meeting_status: status.as_vexa(*stage),
            ..CallbackView::new(meeting_id.get(), *status, *stop_wanted, config)
        }
    }

    fn new(meeting_id: i64, status: BotStatus, stop_wanted: bool, config: &BotConfig) -> Self {
        let leaves = stop_wanted || status == BotStatus::Stopping || status.is_over();
        CallbackView {
            status: "processed",
            meeting_id,
            state: status.as_str(),
            meeting_status: status.as_vexa(None),
            final_status: None,
            wanted: if leaves { "leave" } else { "run" },
            config_version: config.version,
            config: BotConfigView { language: config.language.clone(), task: config.task.clone() },
        }
    }
}

/// A process has no exit code out of this range; whoever says so has failed.
fn exit_code(code: i64) -> i32 {
    i32::try_from(code).unwrap_or(if code < 0 { i32::MIN } else { i32::MAX })
}

/// Details as JSON text.
fn details(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vexa(body: Value) -> VexaCallbackBody {
        serde_json::from_value(body).unwrap()
    }

    fn report(event: BotEvent) -> ExitReport {
        match event {
            BotEvent::Exited(report) => report,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_statuses_of_a_stock_bot_are_understood() {
        let cases = [
            ("requested", BotEvent::Started),
            ("joining", BotEvent::AtStage(Stage::Joining)),
            ("awaiting_admission", BotEvent::AtStage(Stage::AwaitingAdmission)),
            ("active", BotEvent::Joined),
            ("stopping", BotEvent::Leaving),
        ];
        for (status, expected) in cases {
            let body = vexa(json!({"connection_id": "c", "container_id": "x", "status": status}));
            assert_eq!(body.event("status_change").unwrap(), expected, "{status}");
        }
        for (body, code) in [
            (json!({"connection_id": "c", "status": "completed"}), Some(0)),
            (json!({"connection_id": "c", "status": "failed"}), Some(1)),
            (json!({"connection_id": "c", "status": "failed", "exit_code": 0}), Some(1)),
            (json!({"connection_id": "c", "status": "failed", "exit_code": 143}), Some(143)),
        ] {
            let event = vexa(body.clone()).event("status_change").unwrap();
            assert_eq!(report(event).exit_code, code, "{body}");
        }
        for (status, event) in [(json!("asleep"), "status_change"), (json!(null), "status_change")]
        {
            let body = vexa(json!({"connection_id": "c", "status": status}));
            assert_eq!(body.event(event).unwrap_err().code, Code::InvalidRequest);
        }
        let body = vexa(json!({"connection_id": "c"}));
        assert_eq!(body.event("vanished").unwrap_err().code, Code::NotFound);
    }

    #[test]
    fn an_exit_is_heard_whatever_else_it_says() {
        let body = vexa(json!({"connection_id": "c", "exit_code": 4_294_967_295_i64,
            "reason": "kicked", "completion_reason": "removed_by_admin",
            "error_details": {"a": 1}, "failure_stage": "active", "timestamp": 7}));
        let report = report(body.event("exited").unwrap());
        assert_eq!((report.exit_code, report.reason.as_deref()), (Some(i32::MAX), Some("kicked")));
        assert_eq!(report.completion_reason.as_deref(), Some("removed_by_admin"));
        assert_eq!(report.error_details.as_deref(), Some(r#"{"a":1}"#));
        let body = vexa(json!({"connection_id": "c", "error_details": null,
            "platform_specific_error": "E7"}));
        let details = self::report(body.event("exited").unwrap()).error_details;
        assert_eq!(details.as_deref(), Some(r#"{"platform_specific_error":"E7"}"#));
    }
}

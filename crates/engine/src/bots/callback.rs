//! What bots say of themselves.
//!
//! Invariant: a token is checked before the database is asked anything, so that a flood of forged
//! callbacks costs no statement.

use roundsman_core::bots::{
    BotConfig, BotEvent, BotRecord, BotStatus, ConnectionId, ExitReport, MeetingId, Source, Stage,
    WorkloadId,
};
use roundsman_core::failpoint;
use roundsman_core::jobs::Json;
use roundsman_core::ports::{BeatAnswer, BotBeat, BotHappened, EventAnswer, StoreError};

use super::Bots;
use crate::FieldError;

/// A bot's own word for its end is cut to this length.
const REASON_CHARS_MAX: usize = 300;
/// What a bot knows about an error is cut to this length.
const ERROR_DETAILS_CHARS_MAX: usize = 8_000;

/// Why a callback was not taken.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The token is not one of this bot.
    #[error("the token does not belong to this bot")]
    Denied,
    #[error("no such bot")]
    NoSuchBot,
    /// The bot is over: it must exit.
    #[error("the bot is {}", status.as_str())]
    Gone { status: BotStatus },
    /// A later attempt has taken its place: it must exit.
    #[error("a later attempt has taken the place of this bot")]
    Superseded,
    /// The state excludes it.
    #[error("the bot is {}", current.as_str())]
    Refused { current: BotStatus },
    #[error("the callback is not valid")]
    Invalid(Vec<FieldError>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a heartbeat learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub meeting_id: MeetingId,
    pub status: BotStatus,
    /// How far it is, while it is starting.
    pub stage: Option<Stage>,
    /// The bot is to leave.
    pub stop_wanted: bool,
    pub config: BotConfig,
}

impl Bots {
    /// Something happened to a bot, as it says itself. A late or repeated callback of a bot that is
    /// over changes nothing and is shown how it is, so that it stops retrying. `beats` says that the
    /// bot speaks the protocol that has heartbeats.
    pub async fn callback(
        &self,
        token: &str,
        connection: &str,
        event: BotEvent,
        beats: bool,
    ) -> Result<BotRecord, CallbackError> {
        let (workload, connection) = self.identify(token, connection)?;
        let event = storable(event);
        let source = Source::Callback;
        let happened = BotHappened { workload, connection: Some(connection), event, source, beats };
        let now = self.deps.clock.now();
        let answer = self.deps.store.bot_event(happened, None, now).await?;
        failpoint::hit("bots.event");
        match answer {
            EventAnswer::Changed(announced) => {
                self.announcer.announce(&announced);
                Ok(announced.record)
            }
            EventAnswer::Unchanged(record) => Ok(*record),
            EventAnswer::NoSuchBot => Err(CallbackError::NoSuchBot),
            EventAnswer::Superseded => Err(CallbackError::Superseded),
            EventAnswer::Refused { current } => Err(CallbackError::Refused { current }),
            // Callbacks are made without a lease.
            EventAnswer::LeaseLost => {
                Err(StoreError::Failed("a lease was asked for".into()).into())
            }
        }
    }

    /// A bot's sign of life. Those that arrive together are written together.
    pub async fn heartbeat(
        &self,
        token: &str,
        connection: &str,
        media_progress: Option<i64>,
        config_applied: Option<u32>,
    ) -> Result<Heard, CallbackError> {
        let (workload, connection) = self.identify(token, connection)?;
        if media_progress.is_some_and(|progress| progress < 0) {
            let problem = FieldError::new("media_progress", "must not be negative");
            return Err(CallbackError::Invalid(vec![problem]));
        }
        let beat = BotBeat { workload, connection, media_progress, config_applied };
        self.deps.metrics.bot_beat();
        match self.beats.try_submit(beat).await? {
            BeatAnswer::Heard { status, stage, stop_wanted, config } => {
                Ok(Heard { meeting_id: workload.meeting_id, status, stage, stop_wanted, config })
            }
            BeatAnswer::Over { status } => Err(CallbackError::Gone { status }),
            BeatAnswer::Superseded => Err(CallbackError::Superseded),
            BeatAnswer::NoSuchBot => Err(CallbackError::NoSuchBot),
        }
    }

    fn identify(
        &self,
        token: &str,
        connection: &str,
    ) -> Result<(WorkloadId, ConnectionId), CallbackError> {
        let connection = ConnectionId::new(connection).map_err(|_| CallbackError::Denied)?;
        let workload = self.deps.callback_key.verify(token, &connection);
        Ok((workload.map_err(|_| CallbackError::Denied)?, connection))
    }
}

/// An end must be heard whatever the bot says about it: texts are cut rather than refused.
fn storable(event: BotEvent) -> BotEvent {
    match event {
        BotEvent::Exited(report) => BotEvent::Exited(ExitReport {
            exit_code: report.exit_code,
            reason: report.reason.and_then(|text| word(&text)),
            completion_reason: report.completion_reason.and_then(|text| word(&text)),
            error_details: report.error_details.map(|text| details(&text)),
        }),
        other => other,
    }
}

/// A short text on one line; nothing if nothing is left of it.
fn word(text: &str) -> Option<String> {
    let text = plain(text, REASON_CHARS_MAX);
    (!text.is_empty()).then_some(text)
}

/// JSON as it came if it can be stored, and its beginning as text otherwise.
fn details(text: &str) -> String {
    if text.len() <= ERROR_DETAILS_CHARS_MAX && Json::parse(text).is_ok() {
        return text.to_owned();
    }
    // An escaped NUL would come to life when somebody reads the text as JSON.
    plain(&text.replace("\\u0000", " "), ERROR_DETAILS_CHARS_MAX)
}

fn plain(text: &str, chars_max: usize) -> String {
    let spaced = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    spaced.take(chars_max).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_made_storable_whatever_it_says() {
        let report = ExitReport {
            exit_code: Some(1),
            reason: Some(format!("a\0b\n{}", "x".repeat(1000))),
            completion_reason: Some("\u{7}".to_owned()),
            error_details: Some(r#"{"stack":"a\u0000b"}"#.to_owned()),
        };
        let BotEvent::Exited(report) = storable(BotEvent::Exited(report)) else { panic!() };
        let reason = report.reason.unwrap();
        assert!(reason.starts_with("a b x") && reason.chars().count() == REASON_CHARS_MAX);
        assert_eq!(report.completion_reason, None);
        assert_eq!(report.error_details.unwrap(), r#"{"stack":"a b"}"#);
        assert_eq!(details(r#"{"a": 1}"#), r#"{"a": 1}"#);
        assert_eq!(details(&"[".repeat(100_000)).len(), ERROR_DETAILS_CHARS_MAX);
    }
}

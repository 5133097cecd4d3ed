//! Alarms of rooms.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::alarms::{Alarm, SetMode};
use roundsman_engine::alarms::{AlarmRequest, ShownAlarms};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::raw;
use crate::problem::Problem;

/// An alarm to be set.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AlarmRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlarmBody {
    /// What it is called; a room has several, each with a name of its own.
    #[schema(example = "remind", max_length = 64)]
    name: String,
    /// When it fires; a time that is over is now.
    #[schema(format = DateTime, example = "2026-12-24T18:00:00Z")]
    at: Option<String>,
    /// Or after so many seconds.
    #[schema(minimum = 0.0, example = 30.0)]
    after_secs: Option<f64>,
    /// Told when it fires.
    #[schema(value_type = Option<Object>)]
    payload: Option<Value>,
    /// What becomes of one that is set already: `earliest` keeps the earlier time, `replace` takes this
    /// one.
    #[schema(example = "earliest", default = "earliest")]
    mode: Option<String>,
}

impl AlarmBody {
    pub(crate) fn check(self) -> Result<AlarmRequest, Problem> {
        let at = match self.at.as_deref() {
            None => None,
            Some(text) => {
                let read = Timestamp::parse_rfc3339(text);
                Some(read.map_err(|error| Problem::field("at", error.to_string()))?)
            }
        };
        let after = match self.after_secs {
            None => None,
            Some(secs) => Some(Duration::try_from_secs_f64(secs).map_err(|_| {
                Problem::field("after_secs", "must be a number of seconds from 0 on")
            })?),
        };
        let mode = match self.mode.as_deref() {
            None | Some("earliest") => SetMode::Earliest,
            Some("replace") => SetMode::Replace,
            Some(_) => return Err(Problem::field("mode", "must be earliest or replace")),
        };
        let payload = self.payload.unwrap_or(Value::Null);
        Ok(AlarmRequest { name: self.name, at, after, payload, mode })
    }
}

/// The alarms of a room, and what it is waiting for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AlarmList)]
pub(crate) struct AlarmListView {
    /// `task_polling` while tasks are pending, `snapshot` while the document has changed, `idle`.
    #[schema(example = "task_polling")]
    alarm_type: &'static str,
    alarms: Vec<AlarmView>,
}

/// An alarm that is set, or firing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Alarm)]
struct AlarmView {
    #[schema(example = "task_polling")]
    name: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    is_firing: bool,
    /// How often in a row it came to nothing; it is tried on.
    attempts_failed: u32,
    /// It came to nothing many times.
    is_failing: bool,
    last_error: Option<String>,
}

impl From<&Alarm> for AlarmView {
    fn from(alarm: &Alarm) -> Self {
        AlarmView {
            name: alarm.name.clone(),
            at: alarm.at,
            payload: alarm.payload.as_ref().map(raw),
            is_firing: alarm.is_firing,
            attempts_failed: alarm.attempts_failed,
            is_failing: alarm.is_failing(),
            last_error: alarm.last_error.as_ref().map(|error| error.message.clone()),
        }
    }
}

impl From<ShownAlarms> for AlarmListView {
    fn from(shown: ShownAlarms) -> Self {
        AlarmListView {
            alarm_type: shown.alarm_type.as_str(),
            alarms: shown.alarms.iter().map(AlarmView::from).collect(),
        }
    }
}

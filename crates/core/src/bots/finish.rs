//! The work after a meeting: what is gathered, and who is told.

use serde_json::{Map, Value, json};

use super::wire::meeting_body;
use super::{BotRecord, BotStatus};
use crate::Timestamp;
use crate::effects::Effects;
use crate::jobs::Json;
use crate::ports::SpokenSummary;
use crate::webhooks::{WebhookEvent, event_id};

/// Gathers what was said into the meeting's data and tells the user's endpoint that it is over.
/// What the user has set already stays.
pub fn finish(mut record: BotRecord, said: &SpokenSummary, now: Timestamp) -> (BotRecord, Effects) {
    let mut data = match record.meeting.data.to_value() {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    if !said.speakers.is_empty() {
        data.entry("participants").or_insert_with(|| json!(said.speakers));
    }
    if !said.languages.is_empty() {
        data.entry("languages").or_insert_with(|| json!(said.languages));
    }
    data.insert("durations".to_owned(), durations(&record, said));
    record.meeting.data = Json::from_stored(Value::Object(data).to_string());
    record.meeting.updated_at = now;
    record.bot.finished_at = Some(now);

    let mut effects = Effects::default();
    let over = match record.status {
        BotStatus::Failed => "bot.failed",
        _ => "meeting.completed",
    };
    tell(&record, over, &mut effects, now);
    if said.segments > 0 {
        tell(&record, "transcription.ready", &mut effects, now);
    }
    (record, effects)
}

fn durations(record: &BotRecord, said: &SpokenSummary) -> Value {
    let meeting = &record.meeting;
    let attended = match (meeting.start_time, meeting.end_time) {
        (Some(start), Some(end)) => Some(end.since(start).as_secs_f64()),
        _ => None,
    };
    json!({
        "attended_secs": attended,
        "spoken_secs": said.spoken_secs,
        "segments": said.segments,
    })
}

fn tell(record: &BotRecord, event_type: &str, effects: &mut Effects, now: Timestamp) {
    let id = event_id(&[record.bot.connection_id.as_str(), event_type]);
    let data = json!({ "meeting": meeting_body(&record.meeting, Some(&record.bot)) });
    WebhookEvent::new(record.meeting.user_id, id, event_type, data, now).add_to(effects, now);
}

//! What happens when a user's alarm fires.

use serde_json::{Value, json};

use super::alarm_of_key;
use crate::Timestamp;
use crate::effects::{Effects, NewFrame};
use crate::jobs::{JobFacts, Json};
use crate::rooms::ProjectId;
use crate::tasks::room_stream;
use crate::users::UserId;
use crate::webhooks::{WebhookEvent, event_id};

const FIRED: &str = "alarm.fired";

/// An alarm that has fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    pub project: ProjectId,
    pub name: String,
    /// What its room and its owner are told.
    pub effects: Effects,
}

/// What firing brings; `None` if the job is no alarm of a user. The event is named by the job and its
/// time, so that whoever hears of one firing twice knows it.
pub fn fired(facts: &JobFacts, now: Timestamp) -> Option<Fired> {
    let (project, name) = alarm_of_key(facts.key.as_ref()?)?;
    let stored = facts.payload.to_value();
    let owner = UserId::new(stored.get("owner").and_then(Value::as_i64)?);
    let told = json!({
        "project_id": project.as_str(),
        "name": name.as_str(),
        "due_at": facts.run_at.to_string(),
        "fired_at": now.to_string(),
        "payload": stored.get("payload").cloned().unwrap_or(Value::Null),
    });
    let mut effects = Effects::default();
    let body = json!({ "type": FIRED, "alarm": told, "ts": now.to_string() });
    effects.frames.push(NewFrame {
        stream: room_stream(&project),
        body: Json::from_stored(body.to_string()),
    });
    let (job, due) = (facts.id.get().to_string(), facts.run_at.as_micros().to_string());
    let id = event_id(&[FIRED, &job, &due]);
    WebhookEvent::new(owner, id, FIRED, json!({ "alarm": told }), now).add_to(&mut effects, now);
    Some(Fired { project, name: name.as_str().to_owned(), effects })
}

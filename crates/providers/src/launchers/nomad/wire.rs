//! What is sent to and read from Nomad.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roundsman_core::ports::{LaunchSpec, Unanswered};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{INSTALLATION, NAME, NomadOptions};

/// Nomad takes no larger payload (since 1.0; the limit counts the bytes before encoding).
const PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// The variable with a bot's instructions, from which the metadata that Vexa's job files know is
/// taken: its key in the metadata, and its key in the instructions.
const BOT_CONFIG: &str = "BOT_CONFIG";
const FROM_CONFIG: [(&str, &str); 5] = [
    ("meeting_url", "meetingUrl"),
    ("bot_name", "botName"),
    ("user_token", "token"),
    ("language", "language"),
    ("task", "task"),
];

/// An instance of the job, in a list or on its own.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Instance {
    #[serde(rename = "ID")]
    pub(super) id: String,
    #[serde(rename = "ParentID")]
    pub(super) parent_id: String,
    pub(super) status: String,
    pub(super) meta: Option<HashMap<String, String>>,
}

/// The answer to a dispatch.
#[derive(Debug, Deserialize)]
pub(super) struct Dispatched {
    #[serde(rename = "DispatchedJobID")]
    pub(super) id: String,
}

/// Where an instance ran.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Allocations(Vec<Allocation>);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Allocation {
    client_status: String,
    create_index: u64,
    task_states: Option<HashMap<String, TaskState>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TaskState {
    events: Option<Vec<TaskEvent>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TaskEvent {
    r#type: String,
    time: i64,
    #[serde(default)]
    exit_code: i32,
    #[serde(default)]
    signal: i32,
}

impl Allocations {
    /// Whether nothing of it runs any more, by what its machines say of it.
    pub(super) fn have_ended(&self) -> Result<bool, Unanswered> {
        let mut ended = true;
        for allocation in &self.0 {
            match allocation.client_status.as_str() {
                "complete" | "failed" | "lost" => {}
                "pending" | "running" | "unknown" => ended = false,
                other => {
                    return Err(Unanswered::new(format!("Nomad says that it is {other:?}")));
                }
            }
        }
        Ok(ended)
    }

    /// Of the task that ended last in the newest allocation.
    pub(super) fn exit_code(&self) -> Option<i32> {
        let newest = self.0.iter().max_by_key(|allocation| allocation.create_index)?;
        let tasks = newest.task_states.iter().flat_map(HashMap::values);
        let events = tasks.flat_map(|task| task.events.iter().flatten());
        let ends = events.filter(|event| event.r#type == "Terminated");
        let last = ends.max_by_key(|event| event.time)?;
        // Some drivers tell a signal apart from the code that a shell would make of it.
        let is_signal = last.exit_code == 0 && last.signal != 0;
        Some(if is_signal { 128 + last.signal } else { last.exit_code })
    }
}

/// The body of a dispatch, or why Nomad would not take it.
pub(super) fn dispatch(
    options: &NomadOptions,
    spec: &LaunchSpec,
    name: &str,
) -> Result<Value, String> {
    let mut meta: BTreeMap<&str, String> = BTreeMap::from([
        ("user_id", spec.user_id.get().to_string()),
        ("meeting_id", spec.workload.meeting_id.to_string()),
        ("platform", spec.platform.clone()),
        ("native_meeting_id", spec.native_meeting_id.clone()),
        ("connection_id", spec.connection_id.clone()),
        (INSTALLATION, options.installation.as_str().to_owned()),
        (NAME, name.to_owned()),
    ]);
    let config = spec.env.iter().find(|(key, _)| key == BOT_CONFIG);
    let config: Option<Value> = config.and_then(|(_, text)| serde_json::from_str(text).ok());
    for (key, in_config) in FROM_CONFIG {
        let value = config.as_ref().and_then(|config| config.get(in_config)?.as_str());
        meta.extend(value.map(|value| (key, value.to_owned())));
    }
    let env: BTreeMap<&String, &String> =
        options.env.iter().chain(&spec.env).map(|(key, value)| (key, value)).collect();
    let payload = json!(env).to_string();
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(format!("the bot's environment is over {PAYLOAD_BYTES_MAX} bytes"));
    }
    Ok(json!({ "Meta": meta, "Payload": STANDARD.encode(payload) }))
}

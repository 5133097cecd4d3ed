//! What is sent to and read from the runtime.

use std::collections::HashMap;

use roundsman_core::bots::{MeetingId, WorkloadId};
use roundsman_core::ports::{LaunchSpec, Sighting, Unanswered};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{ATTEMPT, DockerOptions, INSTALLATION, MEETING, USER};
use crate::launchers::Installation;

const NANOS_PER_CPU: f64 = 1e9;

/// A container as far as we care.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) phase: Phase,
    pub(super) exit_code: Option<i32>,
    names: Vec<String>,
    labels: HashMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Created,
    Running,
    Exited,
    Removing,
}

impl Container {
    /// Whose it is, if name and labels agree on it.
    pub(super) fn workload(&self, installation: &Installation) -> Option<WorkloadId> {
        let label = |name: &str| self.labels.get(name);
        let workload = WorkloadId {
            meeting_id: MeetingId::new(label(MEETING)?.parse().ok()?),
            attempt: label(ATTEMPT)?.parse().ok()?,
        };
        let is_ours = label(INSTALLATION)? == installation.as_str()
            && self.names.contains(&installation.name_of(workload));
        is_ours.then_some(workload)
    }

    /// One that is made and not started yet counts as running: whoever made it is about to start
    /// it, and if not, the time limit on starting bots ends it.
    pub(super) fn sighting(&self) -> Sighting {
        match self.phase {
            Phase::Created | Phase::Running => Sighting::Running { handle: self.id.clone() },
            Phase::Exited | Phase::Removing => Sighting::Exited { exit_code: self.exit_code },
        }
    }
}

/// The body that makes a container.
pub(super) fn creation(options: &DockerOptions, spec: &LaunchSpec) -> Value {
    let env = options.env.iter().chain(&spec.env);
    let env: Vec<String> = env.map(|(key, value)| format!("{key}={value}")).collect();
    let mut labels: Map<String, Value> =
        options.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    labels.extend([
        (INSTALLATION.to_owned(), json!(options.installation.as_str())),
        (MEETING.to_owned(), json!(spec.workload.meeting_id.to_string())),
        (ATTEMPT.to_owned(), json!(spec.workload.attempt.to_string())),
        (USER.to_owned(), json!(spec.user_id.get().to_string())),
    ]);
    let mut host = json!({ "AutoRemove": false, "RestartPolicy": { "Name": "no" } });
    set(&mut host, "NetworkMode", options.network.as_ref().map(|network| json!(network)));
    set(&mut host, "Memory", options.memory_bytes_max.map(|bytes| json!(bytes)));
    set(&mut host, "NanoCpus", options.cpus_max.map(|cpus| json!(nano_cpus(cpus))));
    set(&mut host, "PidsLimit", options.pids_max.map(|pids| json!(pids)));
    let hosts = Some(&options.extra_hosts).filter(|hosts| !hosts.is_empty());
    set(&mut host, "ExtraHosts", hosts.map(|hosts| json!(hosts)));
    let mut body =
        json!({ "Image": options.image, "Env": env, "Labels": labels, "HostConfig": host });
    set(&mut body, "Cmd", options.command.as_ref().map(|command| json!(command)));
    body
}

#[expect(clippy::cast_possible_truncation, reason = "a number of processors fits many times")]
fn nano_cpus(cpus: f64) -> i64 {
    (cpus * NANOS_PER_CPU).round() as i64
}

fn set(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[key] = value;
    }
}

/// Reads the answer about one container.
pub(super) fn inspected(body: &Value) -> Result<Container, Unanswered> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Inspected {
        id: String,
        name: String,
        state: State,
        config: Config,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct State {
        status: String,
        exit_code: i32,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        labels: Option<HashMap<String, String>>,
    }
    let Inspected { id, name, state, config } = read(body)?;
    let phase = phase(&state.status)?;
    Ok(Container {
        id: plain_id(id)?,
        phase,
        exit_code: (phase == Phase::Exited).then_some(state.exit_code),
        names: vec![name.trim_start_matches('/').to_owned()],
        labels: config.labels.unwrap_or_default(),
    })
}

/// Reads the answer about all containers: all of it or nothing.
pub(super) fn listed(body: &Value) -> Result<Vec<Container>, Unanswered> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Listed {
        id: String,
        names: Vec<String>,
        labels: HashMap<String, String>,
        state: String,
        status: Option<String>,
    }
    let listed: Vec<Listed> = read(body)?;
    let container = |listed: Listed| {
        let phase = phase(&listed.state)?;
        let exit_code = listed.status.as_deref().and_then(exit_code_in_words);
        Ok(Container {
            id: plain_id(listed.id)?,
            phase,
            exit_code: exit_code.filter(|_| phase == Phase::Exited),
            names: listed.names.iter().map(|n| n.trim_start_matches('/').to_owned()).collect(),
            labels: listed.labels,
        })
    };
    listed.into_iter().map(container).collect()
}

fn read<T: DeserializeOwned>(body: &Value) -> Result<T, Unanswered> {
    T::deserialize(body)
        .map_err(|error| Unanswered::new(format!("the runtime's answer makes no sense: {error}")))
}

fn phase(status: &str) -> Result<Phase, Unanswered> {
    match status {
        "created" | "configured" | "initialized" => Ok(Phase::Created),
        "running" | "paused" | "restarting" | "stopping" => Ok(Phase::Running),
        "exited" | "dead" | "stopped" => Ok(Phase::Exited),
        "removing" => Ok(Phase::Removing),
        other => Err(Unanswered::new(format!("the runtime says that a container is {other:?}"))),
    }
}

/// Becomes part of a path, so it had better be what it is said to be.
fn plain_id(id: String) -> Result<String, Unanswered> {
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Unanswered::new("the runtime names a container by what is no id"));
    }
    Ok(id)
}

/// A list tells the exit code only in a sentence: `Exited (137) 3 minutes ago`.
fn exit_code_in_words(status: &str) -> Option<i32> {
    let (code, _) = status.strip_prefix("Exited (")?.split_once(')')?;
    code.parse().ok()
}

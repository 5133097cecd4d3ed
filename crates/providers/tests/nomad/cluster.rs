//! The stand-in for Nomad: a parameterized job whose instances are processes of this machine.
//!
//! It knows what the documentation of the jobs API says of the requests that the launcher makes, and
//! panics on any other, which the launcher sees as a broken connection.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roundsman_providers::conformance::COMMAND;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::stand_in::{Play, Seen, StandIn};

pub(crate) const JOB: &str = "bots";
pub(crate) const TOKEN: &str = "nomad-secret";

const META_REQUIRED: [&str; 7] = [
    "user_id",
    "meeting_id",
    "platform",
    "native_meeting_id",
    "connection_id",
    "roundsman_installation",
    "roundsman_name",
];
const META_OPTIONAL: [&str; 5] = ["meeting_url", "bot_name", "user_token", "language", "task"];
const PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// The stand-in's time until it kills what it has stopped, counted in looks at it.
const LOOKS_UNTIL_KILL: usize = 12;

pub(crate) struct Cluster {
    server: StandIn,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    instances: Vec<Instance>,
    made: usize,
    loses_answer: bool,
    lists_no_meta: bool,
    folder: Option<TempDir>,
}

struct Instance {
    id: String,
    token: String,
    meta: Map<String, Value>,
    child: Child,
    ended: Option<(i32, i32)>,
    stopped: bool,
    looks: usize,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let folder = Some(tempfile::tempdir().unwrap());
        let state = Arc::new(Mutex::new(State { folder, ..State::default() }));
        let shared = state.clone();
        let server = StandIn::answering(move |seen| shared.lock().unwrap().answer(seen)).await;
        Cluster { server, state }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn lose_next_answer(&self) {
        self.state.lock().unwrap().loses_answer = true;
    }

    pub(crate) fn leave_out_meta(&self) {
        self.state.lock().unwrap().lists_no_meta = true;
    }

    pub(crate) fn output(&self, name: &str) -> String {
        let state = self.state.lock().unwrap();
        let folder = state.folder.as_ref().unwrap().path();
        std::fs::read_to_string(folder.join(name)).unwrap_or_default()
    }

    pub(crate) fn meta(&self, name: &str) -> Value {
        let state = self.state.lock().unwrap();
        let instance = state.instances.iter().find(|instance| instance.token == name);
        json!(instance.unwrap().meta)
    }
}

impl State {
    fn answer(&mut self, seen: &Seen) -> Play {
        assert_eq!(seen.header("x-nomad-token"), Some(TOKEN));
        assert_eq!((seen.query("namespace"), seen.query("region")), (Some("calls"), Some("eu")));
        let parts: Vec<&str> = seen.path.trim_start_matches('/').split('/').collect();
        match (seen.method.as_str(), parts.as_slice()) {
            ("POST", ["v1", "job", JOB, "dispatch"]) => self.dispatch(seen),
            ("POST", ["v1", "job", _, "dispatch"]) => {
                Play::Answer(500, "rpc error: parameterized job not found".to_owned())
            }
            ("GET", ["v1", "jobs"]) => self.list(seen),
            ("GET", ["v1", "job", id]) => self.with(id, |instance| instance.describe(true)),
            ("GET", ["v1", "job", id, "allocations"]) => self.with(id, Instance::allocations),
            ("DELETE", ["v1", "job", id]) => self.deregister(id, seen.query("purge")),
            other => panic!("not in the documentation: {other:?}"),
        }
    }

    fn dispatch(&mut self, seen: &Seen) -> Play {
        let token = seen.query("idempotency_token").unwrap();
        if let Some(known) = self.instances.iter().find(|instance| instance.token == token) {
            return Play::Answer(200, json!({ "DispatchedJobID": known.id }).to_string());
        }
        let body: Map<String, Value> = serde_json::from_str(&seen.body).unwrap();
        assert!(body.keys().all(|key| ["Meta", "Payload"].contains(&key.as_str())));
        let meta = body["Meta"].as_object().unwrap().clone();
        let permitted = |key: &str| META_REQUIRED.contains(&key) || META_OPTIONAL.contains(&key);
        assert!(meta.iter().all(|(key, value)| permitted(key) && value.is_string()), "{meta:?}");
        assert!(META_REQUIRED.iter().all(|key| meta.contains_key(*key)), "{meta:?}");
        let payload = STANDARD.decode(body["Payload"].as_str().unwrap()).unwrap();
        assert!(payload.len() <= PAYLOAD_BYTES_MAX);
        let env: std::collections::HashMap<String, String> =
            serde_json::from_slice(&payload).unwrap();

        let folder = self.folder.as_ref().unwrap().path();
        let output = File::create(folder.join(token)).unwrap();
        let mut command = Command::new(COMMAND[0]);
        command.args(&COMMAND[1..]).env_clear().envs(env).process_group(0);
        command.stdin(Stdio::null()).stderr(output.try_clone().unwrap()).stdout(output);
        self.made += 1;
        let id = format!("{JOB}/dispatch-1485408778-{:08x}", self.made);
        self.instances.push(Instance {
            id: id.clone(),
            token: token.to_owned(),
            meta,
            child: command.spawn().unwrap(),
            ended: None,
            stopped: false,
            looks: 0,
        });
        if std::mem::take(&mut self.loses_answer) {
            return Play::Raw(Vec::new());
        }
        let answer = json!({ "Index": 13, "EvalID": "e5f5", "DispatchedJobID": id });
        Play::Answer(200, answer.to_string())
    }

    fn list(&mut self, seen: &Seen) -> Play {
        let prefix = seen.query("prefix").unwrap();
        assert_eq!(seen.query("meta"), Some("true"));
        let with_meta = !self.lists_no_meta;
        let matching = self.instances.iter_mut().filter(|i| i.id.starts_with(prefix));
        let mut jobs: Vec<Value> = matching.map(|i| i.describe(with_meta)).collect();
        // Instances of other jobs, and of this one by other hands, are in the same list.
        jobs.push(json!({ "ID": "bots/dispatch-0-0", "ParentID": JOB, "Status": "running",
            "Meta": { "user_id": "1" } }));
        Play::Answer(200, json!(jobs).to_string())
    }

    fn with(&mut self, id: &str, view: impl FnOnce(&mut Instance) -> Value) -> Play {
        match self.instances.iter_mut().find(|instance| instance.is_called(id)) {
            Some(instance) => Play::Answer(200, view(instance).to_string()),
            None => Play::Answer(404, "job not found".to_owned()),
        }
    }

    fn deregister(&mut self, id: &str, purge: Option<&str>) -> Play {
        let place = self.instances.iter().position(|instance| instance.is_called(id));
        let Some(place) = place else { return Play::Answer(404, "job not found".to_owned()) };
        let instance = &mut self.instances[place];
        instance.stop();
        if purge == Some("true") {
            assert!(instance.has_ended(), "purged while it ran: nobody would see it any more");
            self.instances.remove(place);
        }
        Play::Answer(200, json!({ "EvalID": "d092", "JobModifyIndex": 34 }).to_string())
    }
}

impl Instance {
    /// The slash in a job's name comes encoded, as one part of the path.
    fn is_called(&self, encoded: &str) -> bool {
        self.id.replace('/', "%2F") == encoded
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn has_ended(&mut self) -> bool {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().unwrap()
        {
            self.ended = Some((status.code().unwrap_or(0), status.signal().unwrap_or(0)));
        }
        self.ended.is_some()
    }

    fn stop(&mut self) {
        if !self.has_ended() {
            kill_process(self.pid(), Signal::TERM).unwrap();
        }
        self.stopped = true;
    }

    /// A stopped job is dead at once, whatever its machine is still doing.
    fn describe(&mut self, with_meta: bool) -> Value {
        let dead = self.stopped || self.has_ended();
        let mut view = json!({
            "ID": self.id, "ParentID": JOB, "Status": if dead { "dead" } else { "running" },
            "Stop": self.stopped, "Type": "batch",
        });
        if with_meta {
            view["Meta"] = json!(self.meta);
        }
        view
    }

    fn allocations(&mut self) -> Value {
        if self.stopped && !self.has_ended() {
            self.looks += 1;
            if self.looks >= LOOKS_UNTIL_KILL {
                kill_process_group(self.pid(), Signal::KILL).unwrap();
            }
        }
        self.has_ended();
        let mut events = vec![json!({ "Type": "Started", "Time": 1, "ExitCode": 0, "Signal": 0 })];
        let status = match self.ended {
            None => "running",
            Some((0, 0)) => "complete",
            Some(_) => "failed",
        };
        events.extend(self.ended.map(|(code, signal)| {
            json!({ "Type": "Terminated", "Time": 2, "ExitCode": code, "Signal": signal })
        }));
        json!([{
            "ID": "ed344e0a", "ClientStatus": status, "CreateIndex": 9,
            "DesiredStatus": if self.stopped { "stop" } else { "run" },
            "TaskStates": { "bot": { "State": "running", "Failed": false, "Events": events } },
        }])
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

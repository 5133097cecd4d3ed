//! Bots as containers: the suite on a real Podman, and what a runtime may do wrong.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{Launched, Launcher, Removed, Sighting};
use roundsman_providers::conformance::{
    COMMAND, LauncherHost, id, running, spec, until_exited, until_output,
};
use roundsman_providers::launcher_conformance_suite;
use roundsman_providers::launchers::{DockerAddress, DockerLauncher, DockerOptions, Installation};
use roundsman_testkit::PodmanService;
use serde_json::{Value, json};

use crate::stand_in::{Play, Seen, StandIn};

const IMAGE: &str = "local/bot:1";
const FOREVER: &str = "echo ready; while :; do sleep 0.1; done";
const ID: &str = "0123456789abcdef";

launcher_conformance_suite!(PodmanHost::new());

struct PodmanHost {
    podman: PodmanService,
}

impl PodmanHost {
    async fn new() -> Self {
        let podman = PodmanService::start().await.unwrap();
        podman.import_busybox(IMAGE).await.unwrap();
        PodmanHost { podman }
    }

    fn options(&self, installation: &str, image: &str) -> DockerOptions {
        let address = DockerAddress::parse(&self.podman.url()).unwrap();
        let installation = Installation::new(installation).unwrap();
        let mut options = DockerOptions::new(installation, address, image.to_owned());
        options.command = Some(COMMAND.map(str::to_owned).to_vec());
        options.network = Some("host".to_owned());
        options.env = vec![("CONFIGURED".to_owned(), "yes".to_owned())];
        options
    }

    fn with(&self, change: impl Fn(&mut DockerOptions)) -> Arc<dyn Launcher> {
        let mut options = self.options("one", IMAGE);
        change(&mut options);
        Arc::new(DockerLauncher::new(options))
    }
}

#[async_trait]
impl LauncherHost for PodmanHost {
    fn launcher(&self) -> Arc<dyn Launcher> {
        self.with(|_| {})
    }

    fn of_another_installation(&self) -> Arc<dyn Launcher> {
        Arc::new(DockerLauncher::new(self.options("two", IMAGE)))
    }

    fn of_something_missing(&self) -> Arc<dyn Launcher> {
        Arc::new(DockerLauncher::new(self.options("one", "local/none:1")))
    }

    async fn output(&self, workload: WorkloadId) -> String {
        self.podman.logs(&workload.name("one")).await.unwrap_or_default()
    }
}

#[tokio::test]
async fn a_program_that_the_image_lacks_is_refused_and_leaves_nothing() {
    let host = PodmanHost::new().await;
    let launcher = host.with(|options| options.command = Some(vec!["/no/such/bot".to_owned()]));
    let launched = launcher.ensure(&spec(id(1, 1), "")).await.unwrap();
    assert!(matches!(launched, Launched::Refused { .. }), "{launched:?}");
    assert_eq!(host.podman.containers().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn limits_labels_and_hosts_reach_the_container() {
    let host = PodmanHost::new().await;
    let launcher = host.with(|options| {
        options.memory_bytes_max = Some(64 * 1024 * 1024);
        options.cpus_max = Some(0.5);
        options.pids_max = Some(20);
        options.labels = vec![
            ("team".to_owned(), "calls".to_owned()),
            ("roundsman.meeting_id".to_owned(), "666".to_owned()),
        ];
        options.extra_hosts = vec!["meet.test:127.0.0.1".to_owned()];
    });
    running(launcher.ensure(&spec(id(7, 2), FOREVER)).await.unwrap());
    let inspected = host.podman.run(&["inspect", &id(7, 2).name("one")]).await.unwrap();
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let container = &inspected[0];
    let config = &container["HostConfig"];
    assert_eq!(config["Memory"], 64 * 1024 * 1024);
    assert_eq!(config["NanoCpus"], 500_000_000);
    assert_eq!(config["PidsLimit"], 20);
    assert_eq!(config["ExtraHosts"], json!(["meet.test:127.0.0.1"]));
    assert_eq!(config["AutoRemove"], false);
    let labels = &container["Config"]["Labels"];
    for (name, value) in [
        ("roundsman.installation", "one"),
        ("roundsman.meeting_id", "7"),
        ("roundsman.attempt", "2"),
        ("vexa.user_id", "42"),
        ("team", "calls"),
    ] {
        assert_eq!(labels[name], value);
    }
    // As with the process launcher, a kill from outside is an end like any other.
    host.podman.run(&["kill", "--signal", "KILL", &id(7, 2).name("one")]).await.unwrap();
    assert_eq!(until_exited(&host, id(7, 2)).await, Some(137));
}

#[tokio::test]
async fn a_container_that_was_made_and_not_started_is_started() {
    let host = PodmanHost::new().await;
    let launcher = host.launcher();
    let handle = running(launcher.ensure(&spec(id(1, 1), "exit 0")).await.unwrap());
    until_exited(&host, id(1, 1)).await;
    // As a crash between making and starting would leave it: the same labels, never started.
    let labels = ["roundsman.installation=one", "roundsman.meeting_id=2", "roundsman.attempt=1"];
    let labels = labels.map(|label| format!("--label={label}"));
    let [one, two, three] = &labels;
    let name = id(2, 1).name("one");
    let script = ["/bin/sh", "-c", FOREVER];
    let create = ["create", "--name", &name, one, two, three, IMAGE];
    host.podman.run(&[&create[..], &script[..]].concat()).await.unwrap();
    let sighting = launcher.look(id(2, 1)).await.unwrap();
    assert!(matches!(sighting, Sighting::Running { .. }), "{sighting:?}");
    assert_ne!(running(launcher.ensure(&spec(id(2, 1), FOREVER)).await.unwrap()), handle);
    until_output(&host, id(2, 1), "ready").await;
    assert_eq!(host.podman.containers().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_stranger_of_the_same_name_is_left_alone() {
    let host = PodmanHost::new().await;
    let name = id(1, 1).name("one");
    let create = ["run", "-d", "--name", &name, IMAGE, "/bin/sleep", "1000"];
    host.podman.run(&create).await.unwrap();
    let launcher = host.launcher();
    assert!(launcher.ensure(&spec(id(1, 1), FOREVER)).await.is_err());
    assert!(launcher.look(id(1, 1)).await.is_err());
    assert!(launcher.terminate(id(1, 1)).await.is_err());
    assert!(launcher.remove(id(1, 1)).await.is_err());
    assert_eq!(launcher.list().await, Ok(Vec::new()));
    let state = host.podman.run(&["inspect", "--format", "{{.State.Status}}", &name]).await;
    assert_eq!(state.unwrap().trim(), "running");
}

#[tokio::test]
async fn a_runtime_that_is_away_says_nothing_and_loses_nothing() {
    let mut host = PodmanHost::new().await;
    let workload = id(1, 1);
    let handle = running(host.launcher().ensure(&spec(workload, FOREVER)).await.unwrap());
    host.podman.kill_9().await.unwrap();
    nothing_is_known(&*host.launcher(), workload).await;
    host.podman.start_again().await.unwrap();
    let sighting = Sighting::Running { handle: handle.clone() };
    assert_eq!(host.launcher().look(workload).await, Ok(sighting.clone()));

    host.podman.pause().await.unwrap();
    let impatient = host.with(|options| {
        options.request_max = Duration::from_millis(300);
        options.remove_max = Duration::from_millis(300);
    });
    nothing_is_known(&*impatient, workload).await;
    host.podman.resume().unwrap();
    // The paused runtime may still carry out what it was asked before we gave up; what it was asked
    // first of all was to look, so nothing has come of the rest.
    assert_eq!(host.launcher().look(workload).await, Ok(sighting));
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_is_found_and_not_doubled() {
    let runtime = ScriptedRuntime::start(Fault::CreateHangs).await;
    let launcher = runtime.launcher();
    assert!(launcher.ensure(&spec(id(1, 1), "")).await.is_err());
    runtime.set(Fault::None);
    assert_eq!(running(launcher.ensure(&spec(id(1, 1), "")).await.unwrap()), ID);
    assert_eq!(running(launcher.ensure(&spec(id(1, 1), "")).await.unwrap()), ID);
    assert_eq!(runtime.state().made, 1);
}

#[tokio::test]
async fn a_start_whose_answer_was_lost_is_found() {
    let runtime = ScriptedRuntime::start(Fault::StartHangs).await;
    let launcher = runtime.launcher();
    assert!(launcher.ensure(&spec(id(1, 1), "")).await.is_err());
    runtime.set(Fault::None);
    assert_eq!(running(launcher.ensure(&spec(id(1, 1), "")).await.unwrap()), ID);
    assert_eq!(runtime.state().made, 1);
}

#[tokio::test]
async fn nonsense_is_no_answer_and_kills_nothing() {
    let nonsense = [
        Play::Answer(500, r#"{"message":"no such container"}"#.to_owned()),
        Play::Answer(503, "<html>overloaded</html>".to_owned()),
        // Something else is on that address.
        Play::Answer(404, "404 page not found".to_owned()),
        Play::Answer(404, r#"{"message":"page not found"}"#.to_owned()),
        Play::Answer(200, String::new()),
        Play::Answer(200, "{}".to_owned()),
        Play::Answer(200, "[]x".to_owned()),
        Play::Answer(200, "[{}]".to_owned()),
        Play::Answer(200, r#"[{"Id":"0a","Names":["/x"],"Labels":{},"State":"odd"}]"#.to_owned()),
        Play::Answer(200, r#"[{"Id":"0a/..","Names":[],"Labels":{},"State":"exited"}]"#.to_owned()),
        Play::Answer(301, String::new()),
        Play::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[".to_vec()),
        Play::Raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]\r\n".to_vec()),
        Play::Raw(b"SSH-2.0-x\r\n".to_vec()),
        Play::Raw(Vec::new()),
        Play::Hang,
    ];
    for play in nonsense {
        let shown = format!("{play:?}");
        let rule = move |_: &Seen| play.clone();
        let runtime = StandIn::answering(rule).await;
        let launcher = impatient(&runtime);
        assert!(launcher.list().await.is_err(), "{shown}");
        assert!(launcher.look(id(1, 1)).await.is_err(), "{shown}");
        assert!(launcher.ensure(&spec(id(1, 1), "")).await.is_err(), "{shown}");
        assert!(launcher.terminate(id(1, 1)).await.is_err(), "{shown}");
        assert!(launcher.remove(id(1, 1)).await.is_err(), "{shown}");
        let deeds = runtime.seen().into_iter().filter(|seen| {
            seen.method == "DELETE" || seen.path.ends_with("/kill") || seen.path.ends_with("/start")
        });
        assert_eq!(deeds.count(), 0, "{shown}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let mut body = b"HTTP/1.1 200 OK\r\n\r\n[".to_vec();
    body.resize(20 * 1024 * 1024, b' ');
    body.push(b']');
    let runtime = StandIn::answering(move |_| Play::Raw(body.clone())).await;
    let mut options = options(&runtime);
    options.request_max = Duration::from_secs(20);
    let error = DockerLauncher::new(options).list().await.unwrap_err();
    assert!(error.reason.contains("too long"), "{error}");
}

#[tokio::test]
async fn a_removal_under_way_is_waited_for() {
    let runtime = ScriptedRuntime::start(Fault::RemovalInProgress).await;
    let launcher = runtime.launcher();
    running(launcher.ensure(&spec(id(1, 1), "")).await.unwrap());
    let removed = Removed { was_there: true, exit_code: None };
    assert_eq!(launcher.remove(id(1, 1)).await, Ok(removed));
    // A removal that never comes to an end is no removal.
    running(launcher.ensure(&spec(id(1, 1), "")).await.unwrap());
    runtime.set(Fault::RemovalNeverEnds);
    let error = launcher.remove(id(1, 1)).await.unwrap_err();
    assert!(error.reason.contains("already in progress"), "{error}");
}

async fn nothing_is_known(launcher: &dyn Launcher, workload: WorkloadId) {
    assert!(launcher.look(workload).await.is_err());
    assert!(launcher.list().await.is_err());
    assert!(launcher.terminate(workload).await.is_err());
    assert!(launcher.remove(workload).await.is_err());
}

fn options(runtime: &StandIn) -> DockerOptions {
    let address = DockerAddress::parse(&format!("tcp://{}", runtime.address)).unwrap();
    let installation = Installation::new("one").unwrap();
    DockerOptions::new(installation, address, IMAGE.to_owned())
}

fn impatient(runtime: &StandIn) -> DockerLauncher {
    let mut options = options(runtime);
    options.request_max = Duration::from_millis(500);
    options.remove_max = Duration::from_secs(2);
    DockerLauncher::new(options)
}

/// What the scripted runtime does wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The container is made and the answer never comes.
    CreateHangs,
    StartHangs,
    /// The removal goes on after its refusal, and is done two looks later.
    RemovalInProgress,
    RemovalNeverEnds,
}

/// One container at most, as Docker tells of it.
#[derive(Debug, Clone, Copy)]
struct RuntimeState {
    fault: Fault,
    status: Option<&'static str>,
    made: usize,
    looks_until_gone: Option<usize>,
}

struct ScriptedRuntime {
    server: StandIn,
    state: Arc<Mutex<RuntimeState>>,
}

impl ScriptedRuntime {
    async fn start(fault: Fault) -> Self {
        let state = RuntimeState { fault, status: None, made: 0, looks_until_gone: None };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let server = StandIn::answering(move |seen| shared.lock().unwrap().answer(seen)).await;
        ScriptedRuntime { server, state }
    }

    fn launcher(&self) -> DockerLauncher {
        impatient(&self.server)
    }

    fn set(&self, fault: Fault) {
        self.state.lock().unwrap().fault = fault;
    }

    fn state(&self) -> RuntimeState {
        *self.state.lock().unwrap()
    }
}

impl RuntimeState {
    fn answer(&mut self, seen: &Seen) -> Play {
        let json = |status: u16, body: Value| Play::Answer(status, body.to_string());
        let message = |status: u16, text: &str| json(status, json!({ "message": text }));
        let by_id = format!("/v1.41/containers/{ID}");
        match (seen.method.as_str(), seen.path.as_str()) {
            ("POST", "/v1.41/containers/create") if self.status.is_some() => {
                message(409, "Conflict. The container name is already in use")
            }
            ("POST", "/v1.41/containers/create") => {
                assert_eq!(seen.query("name"), Some(id(1, 1).name("one").as_str()));
                (self.status, self.made) = (Some("created"), self.made + 1);
                if self.fault == Fault::CreateHangs {
                    return Play::Hang;
                }
                json(201, json!({ "Id": ID, "Warnings": [] }))
            }
            ("POST", path) if path == format!("{by_id}/start") => {
                self.status = Some("running");
                if self.fault == Fault::StartHangs { Play::Hang } else { message(204, "") }
            }
            ("DELETE", path) if path == by_id => {
                self.looks_until_gone = (self.fault == Fault::RemovalInProgress).then_some(2);
                message(409, "removal of container is already in progress")
            }
            ("GET", _) => {
                if self.looks_until_gone.take_if(|looks| *looks == 0).is_some() {
                    self.status = None;
                }
                self.looks_until_gone = self.looks_until_gone.map(|looks| looks - 1);
                self.status.map_or(message(404, "No such container"), |status| {
                    json(200, inspected(status))
                })
            }
            other => panic!("an unexpected request: {other:?}"),
        }
    }
}

fn inspected(status: &str) -> Value {
    let labels = json!({
        "roundsman.installation": "one", "roundsman.meeting_id": "1", "roundsman.attempt": "1",
    });
    json!({
        "Id": ID, "Name": format!("/{}", id(1, 1).name("one")),
        "State": { "Status": status, "ExitCode": 0 }, "Config": { "Labels": labels },
    })
}

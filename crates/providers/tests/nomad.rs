//! Bots on Nomad: the suite on a stand-in that runs real processes and checks every request against
//! the documented API, since Nomad itself is not to be had here.

mod cluster;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{Launched, Launcher, Sighting};
use roundsman_providers::conformance::{LauncherHost, id, running, spec, until_exited};
use roundsman_providers::launcher_conformance_suite;
use roundsman_providers::launchers::{
    Installation, InvalidNomadOptions, NomadLauncher, NomadOptions,
};
use serde_json::json;

use crate::stand_in::{Play, StandIn};
use cluster::{Cluster, JOB, TOKEN};

const FOREVER: &str = "while :; do sleep 0.1; done";

launcher_conformance_suite!(NomadHost::new());

struct NomadHost {
    cluster: Cluster,
}

impl NomadHost {
    async fn new() -> Self {
        NomadHost { cluster: Cluster::start().await }
    }

    fn of(&self, installation: &str, job: &str) -> Arc<dyn Launcher> {
        let mut options = options(&self.cluster.url(), job);
        options.installation = Installation::new(installation).unwrap();
        Arc::new(NomadLauncher::new(options).unwrap())
    }
}

#[async_trait]
impl LauncherHost for NomadHost {
    fn launcher(&self) -> Arc<dyn Launcher> {
        self.of("one", JOB)
    }

    fn of_another_installation(&self) -> Arc<dyn Launcher> {
        self.of("two", JOB)
    }

    fn of_something_missing(&self) -> Arc<dyn Launcher> {
        self.of("one", "no-such-job")
    }

    async fn output(&self, workload: WorkloadId) -> String {
        self.cluster.output(&workload.name("one"))
    }
}

#[tokio::test]
async fn a_dispatch_carries_what_vexas_job_files_expect() {
    let host = NomadHost::new().await;
    let mut spec = spec(id(7, 2), FOREVER);
    let config = json!({
        "meeting_id": 7, "meetingUrl": "https://meet.example/a", "botName": "Scribe",
        "token": "t.o.k", "language": null, "task": "transcribe",
    });
    spec.env.push(("BOT_CONFIG".to_owned(), config.to_string()));
    let handle = running(host.launcher().ensure(&spec).await.unwrap());
    assert!(handle.starts_with("bots/dispatch-"), "{handle}");
    let meta = host.cluster.meta(&id(7, 2).name("one"));
    let expected = json!({
        "user_id": "42", "meeting_id": "7", "platform": "google_meet",
        "native_meeting_id": "abc-defg-hij", "connection_id": "connection-7",
        "meeting_url": "https://meet.example/a", "bot_name": "Scribe", "user_token": "t.o.k",
        "task": "transcribe", "roundsman_installation": "one",
        "roundsman_name": "roundsman-one-bot-7-2",
    });
    assert_eq!(meta, expected);
}

#[tokio::test]
async fn a_dispatch_whose_answer_was_lost_is_found_and_not_doubled() {
    let host = NomadHost::new().await;
    host.cluster.lose_next_answer();
    assert!(host.launcher().ensure(&spec(id(1, 1), FOREVER)).await.is_err());
    running(host.launcher().ensure(&spec(id(1, 1), FOREVER)).await.unwrap());
    assert_eq!(host.launcher().list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_release_that_lists_no_metadata_is_read_job_by_job() {
    let host = NomadHost::new().await;
    host.cluster.leave_out_meta();
    let handle = running(host.launcher().ensure(&spec(id(1, 1), FOREVER)).await.unwrap());
    assert_eq!(host.launcher().look(id(1, 1)).await, Ok(Sighting::Running { handle }));
    assert!(host.launcher().remove(id(1, 1)).await.unwrap().was_there);
}

#[tokio::test]
async fn a_signal_makes_the_code_that_a_shell_would_make_of_it() {
    let host = NomadHost::new().await;
    host.launcher().ensure(&spec(id(1, 1), "kill -9 $$")).await.unwrap();
    assert_eq!(until_exited(&host, id(1, 1)).await, Some(137));
}

#[tokio::test]
async fn what_nomad_would_not_take_is_refused() {
    let host = NomadHost::new().await;
    let mut large = spec(id(1, 1), FOREVER);
    large.env.push(("LARGE".to_owned(), "x".repeat(16 * 1024)));
    let launched = host.launcher().ensure(&large).await.unwrap();
    assert!(matches!(launched, Launched::Refused { .. }), "{launched:?}");
    for words in [
        "Dispatch request included unpermitted metadata keys: [roundsman_name]",
        "Dispatch did not provide required meta keys: [x]",
        "Specified job \"bots\" is not a parameterized job",
    ] {
        let nomad = StandIn::answering(move |_| Play::Answer(500, words.to_owned())).await;
        let launcher = NomadLauncher::new(options(&nomad.url(), JOB)).unwrap();
        let launched = launcher.ensure(&spec(id(1, 1), FOREVER)).await.unwrap();
        assert_eq!(launched, Launched::Refused { reason: words.to_owned() });
    }
}

#[tokio::test]
async fn nonsense_is_no_answer_and_stops_nothing() {
    let ours = json!({
        "ID": "bots/dispatch-1-a", "ParentID": "bots", "Status": "dead",
        "Meta": { "roundsman_installation": "one", "roundsman_name": id(1, 1).name("one") },
    });
    let twice = json!([ours, ours]).to_string();
    let mut odd = ours.clone();
    odd["Status"] = json!("odd");
    let part = format!("HTTP/1.1 200 OK\r\nX-Nomad-NextToken: n\r\n\r\n{}", json!([]));
    let nonsense = [
        Play::Answer(500, "No cluster leader".to_owned()),
        Play::Answer(403, "Permission denied".to_owned()),
        Play::Answer(404, "<html>not found</html>".to_owned()),
        Play::Answer(200, String::new()),
        Play::Answer(200, "null".to_owned()),
        Play::Answer(200, r#"[{"ID":"bots/dispatch-1-a"}]"#.to_owned()),
        Play::Answer(200, twice),
        Play::Answer(200, json!([odd]).to_string()),
        Play::Raw(part.into_bytes()),
        Play::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[]".to_vec()),
        Play::Hang,
    ];
    for play in nonsense {
        let shown = format!("{play:?}");
        let nomad = StandIn::answering(move |_| play.clone()).await;
        let mut options = options(&nomad.url(), JOB);
        options.request_max = Duration::from_millis(500);
        let launcher = NomadLauncher::new(options).unwrap();
        assert!(launcher.list().await.is_err(), "{shown}");
        assert!(launcher.look(id(1, 1)).await.is_err(), "{shown}");
        assert!(launcher.ensure(&spec(id(1, 1), "")).await.is_err(), "{shown}");
        assert!(launcher.remove(id(1, 1)).await.is_err(), "{shown}");
        assert!(nomad.seen().iter().all(|seen| seen.method != "DELETE"), "{shown}");
    }
}

#[test]
fn settings_are_checked() {
    for address in ["", "nomad:4646", "unix:///x", "http://a/b", "http://user@a"] {
        let error = NomadLauncher::new(options(address, JOB)).err();
        assert_eq!(error, Some(InvalidNomadOptions::Address), "{address}");
    }
    assert!(NomadLauncher::new(options("https://[::1]", JOB)).is_ok());
    let mut options = options("http://nomad", JOB);
    options.token = Some("a\nb".into());
    assert_eq!(NomadLauncher::new(options).err(), Some(InvalidNomadOptions::Token));
}

fn options(address: &str, job: &str) -> NomadOptions {
    let installation = Installation::new("one").unwrap();
    let mut options = NomadOptions::new(installation, address.to_owned(), job.to_owned());
    options.token = Some(TOKEN.into());
    options.namespace = Some("calls".to_owned());
    options.region = Some("eu".to_owned());
    options.env = vec![("CONFIGURED".to_owned(), "yes".to_owned())];
    options
}

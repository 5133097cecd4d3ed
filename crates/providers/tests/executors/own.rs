//! A service of an operator's own, described in full.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::{
    Executor, ExecutorClash, Executors, ExternalTask, Idempotency, LookedUp, Polled, Submission,
    Submitted, TaskRequest,
};
use roundsman_providers::executors::{ExecutorOptions, HttpExecutor, Secrets};
use roundsman_testkit::ManualClock;
use serde_json::json;

use super::parts;
use crate::stand_in::{Play, StandIn};

const DESCRIPTION: &str = r#"
base_url = "URL/api"
idempotency = "repeat"

[auth]
kind = "query"
name = "key"

[task_types.upscale]
scale = 4

[params]
picture = { kind = "text", required = true }
scale = { kind = "integer", values = [2, 4] }

[submit]
id = ["/job/id"]
[submit.request]
method = "POST"
path = "/jobs"
headers = { Idempotency-Key = "{$key}" }
body = { picture = "{picture}", scale = "{scale|integer}", tags = ["fixed", "{$key}"] }

[poll]
request = { path = "/jobs/{$id}" }
status = "/state"
statuses = { waiting = "pending", done = "succeeded", gone = "expired" }

[result]
data = { width = "/width" }
needs = "anything"

[limits]
slots_max = 3
"#;

fn executor(url: &str, name: &str) -> Arc<dyn Executor> {
    let options = ExecutorOptions {
        name: name.to_owned(),
        description: DESCRIPTION.replace("URL", url).parse().unwrap(),
        secrets: Secrets::default().with("api_key", "top&secret".to_owned().into()),
    };
    Arc::new(HttpExecutor::new(options, &parts(&Arc::new(ManualClock::default()))).unwrap())
}

fn submission(params: serde_json::Value) -> Submission {
    let (task_type, key) = ("upscale".to_owned(), "k-1".to_owned());
    let request = TaskRequest { task_type, params, key };
    Submission { request, callback_url: None, time_max: Duration::from_secs(5) }
}

#[tokio::test]
async fn it_is_spoken_to_as_it_is_described() {
    let service = StandIn::answering(|seen| match seen.method.as_str() {
        "POST" => Play::Answer(202, r#"{"job": {"id": 17}}"#.to_owned()),
        _ if seen.path.ends_with("/17") => {
            Play::Answer(200, r#"{"state": "DONE", "width": 64}"#.to_owned())
        }
        _ if seen.path.ends_with("/18") => Play::Answer(200, r#"{"state": "gone"}"#.to_owned()),
        _ => Play::Answer(200, r#"{"state": "on fire"}"#.to_owned()),
    })
    .await;
    let executor = executor(&service.url(), "own");
    let submitted = executor.submit(&submission(json!({"picture": "p"}))).await;
    assert_eq!(submitted, Submitted::Accepted { external_task_id: "17".to_owned() });
    let seen = &service.seen()[0];
    assert!(seen.is("POST", "/api/jobs"));
    assert_eq!(seen.query("key"), Some("top&secret"));
    assert_eq!(seen.header("idempotency-key"), Some("k-1"));
    assert_eq!(seen.body, r#"{"picture":"p","scale":4,"tags":["fixed","k-1"]}"#);

    let task = |id: &str| ExternalTask {
        external_task_id: id.to_owned(),
        request: submission(json!({"picture": "p"})).request,
    };
    let Polled::Succeeded(result) = executor.poll(&task("17")).await else { panic!() };
    assert_eq!(result.data, json!({"width": 64}));
    let Polled::Failed(failure) = executor.poll(&task("18")).await else { panic!() };
    assert_eq!(failure.code.as_str(), "expired");
    let Polled::Unclear(unclear) = executor.poll(&task("19")).await else { panic!() };
    assert!(unclear.message.contains("on fire"), "{unclear}");
    // An id is no path.
    let Polled::Unclear(_) = executor.poll(&task("..")).await else { panic!() };
    assert_eq!(executor.look_up(&task("17").request).await, LookedUp::Unsupported);
    assert_eq!(executor.capabilities().idempotency, Idempotency::Repeat);
    assert_eq!(executor.capabilities().slots_max, Some(3));
}

#[tokio::test]
async fn what_is_not_allowed_is_said_before_anybody_is_asked() {
    let service = StandIn::answering(|_| Play::Hang).await;
    let executor = executor(&service.url(), "own");
    for (params, reason) in [
        (json!({}), "params.picture is missing"),
        (json!({"picture": ""}), "params.picture is missing"),
        (json!({"picture": ["a"]}), "params.picture: a text, please"),
        (json!({"picture": "p", "scale": 3}), "params.scale: one of 2, 4, please"),
        (json!({"picture": "p", "scale": "x"}), "params.scale: a whole number, please"),
        (json!({"picture": "p", "size": 1}), "params.size is unknown; there are picture, scale"),
    ] {
        assert_eq!(executor.check(&submission(params).request), Err(reason.to_owned()));
    }
    assert_eq!(service.connects(), 0);
}

/// The key is part of the address: no error may show it.
#[tokio::test]
async fn an_error_does_not_show_the_key() {
    let service = StandIn::answering(|_| Play::Raw(b"nonsense\r\n\r\n".to_vec())).await;
    let executor = executor(&service.url(), "own");
    let Submitted::Unknown { reason } = executor.submit(&submission(json!({"picture": "p"}))).await
    else {
        panic!()
    };
    assert!(!reason.contains("secret"), "{reason}");
}

#[test]
fn executors_are_found_by_type_and_by_name() {
    let own = executor("http://127.0.0.1:9", "own");
    let executors = Executors::new([own.clone()]).unwrap();
    assert_eq!(executors.of_task_type("upscale").unwrap().service(), "own");
    assert!(executors.of_service("own").is_some() && executors.of_service("other").is_none());
    assert_eq!(executors.task_types().collect::<Vec<_>>(), ["upscale"]);
    let clash = Executors::new([own.clone(), executor("http://127.0.0.1:9", "second")]);
    let expected = ExecutorClash::TaskType {
        task_type: "upscale".to_owned(),
        first: "own".to_owned(),
        second: "second".to_owned(),
    };
    assert_eq!(clash.unwrap_err(), expected);
}

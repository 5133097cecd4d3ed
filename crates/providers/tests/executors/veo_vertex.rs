//! Veo by Vertex AI.

use std::time::Duration;

use roundsman_core::ports::{Executor, Polled, ResultContent};
use roundsman_testkit::executors::{Ending, Fault, Provider, Wrong};
use serde_json::json;

use super::{Pair, Setup, failed};

const OVER: &str = "
[settings]
project = 'p-1'
[result]
storage_url = '{url}'
";

fn setup() -> Setup {
    Setup {
        preset: "veo_vertex",
        provider: Provider::VeoVertex,
        task_type: "veo_vertex_video",
        params: json!({"prompt": "a cat"}),
        over: OVER,
    }
}

async fn pair() -> Pair {
    Pair::new(setup()).await
}

roundsman_providers::executor_conformance_suite!(pair());

#[tokio::test]
async fn it_asks_as_documented() {
    let pair = pair().await;
    let task = pair.task("k").await;
    pair.executor.poll(&task).await;
    let mut sent = pair.sent();
    // Signed with the account's key; the stand-in has checked it.
    sent[0]["body"] = json!(sent[0]["body"].as_str().unwrap().split("&assertion=").next());
    insta::assert_json_snapshot!(sent);
}

/// One token serves until it is about to expire, or is refused.
#[tokio::test]
async fn a_token_is_got_once_an_hour() {
    let pair = pair().await;
    let task = pair.task("k").await;
    pair.executor.poll(&task).await;
    assert_eq!(pair.service.tokens(), 1);
    pair.clock.advance(Duration::from_secs(3500));
    pair.executor.poll(&task).await;
    assert_eq!(pair.service.tokens(), 2);
    pair.service.spoil_poll(Fault::Wrong(Wrong::Key));
    let refused = pair.executor.poll(&task).await;
    assert!(matches!(refused, Polled::Unclear(u) if u.code.as_str() == "unauthorized"));
    assert!(matches!(pair.executor.poll(&task).await, Polled::Pending { .. }));
    assert_eq!(pair.service.tokens(), 3);
}

#[tokio::test]
async fn results_come_from_a_bucket_or_with_the_answer() {
    let pair = pair().await;
    let Polled::Succeeded(result) = pair.ended(Ending::Succeeded).await else { panic!() };
    assert!(result.files[0].content == ResultContent::Inline(pair.service.file().into()));
    assert_eq!(result.files[0].media_type.as_deref(), Some("video/mp4"));

    let bucket = pair.with("[settings]\nstorage_uri = 'gs://bucket/out/'");
    let submission = pair.submission("b", pair.setup.params.clone());
    bucket.submit(&submission).await;
    let id = pair.service.ids().pop().unwrap();
    pair.service.end(&id, Ending::Succeeded);
    let task =
        roundsman_core::ports::ExternalTask { external_task_id: id, request: submission.request };
    let Polled::Succeeded(result) = bucket.poll(&task).await else { panic!() };
    let ResultContent::Link(link) = &result.files[0].content else { panic!() };
    assert!(link.ends_with("/storage/v1/b/bucket/o/out%2F2.mp4?alt=media"), "{link}");
    let to = pair.folder.path().join("b");
    bucket.download(&result.files[0], &to).await.unwrap();
    assert_eq!(std::fs::read(to).unwrap(), pair.service.file());
}

#[tokio::test]
async fn endings() {
    let pair = pair().await;
    assert_eq!(
        pair.failure(Ending::Filtered("x".to_owned())).await,
        ("content_policy", "x".to_owned())
    );
    assert_eq!(pair.failure(Ending::Empty).await.0, "no_result");
    assert_eq!(pair.failure(failed("8", "quota")).await.0, "rate_limited");
}

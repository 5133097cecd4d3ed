//! Kling, second generation.

use roundsman_core::ports::{Executor, ExternalTask, LookedUp, Polled};
use roundsman_testkit::executors::{Ending, Provider, Wrong};
use serde_json::json;

use super::{Pair, Setup, failed};

fn setup() -> Setup {
    Setup {
        preset: "kling3",
        provider: Provider::Kling3,
        task_type: "kling3_video",
        params: json!({"prompt": "a cat"}),
        over: "",
    }
}

async fn pair() -> Pair {
    Pair::new(setup()).await
}

roundsman_providers::executor_conformance_suite!(pair());

#[tokio::test]
async fn it_asks_as_documented() {
    let pair = pair().await;
    let params =
        json!({"prompt": "a cat", "resolution": "1080p", "aspect_ratio": "16:9", "duration": 12});
    pair.executor.submit(&pair.submission("k-1", params)).await;
    let params = json!({
        "prompt": "it runs", "image": "https://pictures.example/cat.png", "aspect_ratio": "16:9",
        "model": "kling-3.0-turbo",
    });
    pair.executor.submit(&pair.submission("k-2", params.clone())).await;
    let tasks = ["task-1", "task-2"].map(|id| ExternalTask {
        external_task_id: id.to_owned(),
        request: pair.asking("k", params.clone()),
    });
    pair.executor.poll_many(&tasks).await;
    pair.executor.look_up(&pair.asking("k-2", params)).await;
    insta::assert_json_snapshot!(pair.sent());
}

/// An unknown id is no error of this service: the list is empty.
#[tokio::test]
async fn an_empty_list_is_no_task() {
    let pair = pair().await;
    let task = pair.task("k").await;
    pair.service.forget(&task.external_task_id);
    assert_eq!(pair.executor.poll(&task).await, Polled::NotFound);
    assert_eq!(pair.executor.look_up(&task.request).await, LookedUp::Absent);
}

#[tokio::test]
async fn endings_and_refusals() {
    let pair = pair().await;
    let Polled::Succeeded(result) = pair.ended(Ending::Succeeded).await else { panic!() };
    assert_eq!(result.data, json!({"duration": "5.1"}));
    assert_eq!(pair.failure(failed("9", "broke")).await, ("provider", "9 broke".to_owned()));
    assert_eq!(pair.failure(Ending::Filtered("x".to_owned())).await.0, "content_policy");
    assert_eq!(pair.failure(Ending::Empty).await.0, "no_result");
    assert_eq!(pair.refusal(Wrong::Billing).await, ("billing", false));
    assert_eq!(pair.refusal(Wrong::Busy).await, ("busy", true));
}

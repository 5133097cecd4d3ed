//! Runway.

use roundsman_core::ports::{Executor, Polled};
use roundsman_testkit::executors::{Ending, Provider, Wrong};
use serde_json::json;

use super::{PIXEL, Pair, Setup, failed};

fn setup() -> Setup {
    Setup {
        preset: "runway",
        provider: Provider::Runway,
        task_type: "runway_video",
        params: json!({"prompt": "a cat", "image": "https://pictures.example/cat.png"}),
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
    let task = pair.task("k").await;
    pair.executor.poll(&task).await;
    pair.executor.cancel(&task).await;
    let params =
        json!({"prompt": "a cat", "image": PIXEL, "ratio": "960:960", "duration": 10, "seed": 7});
    pair.executor.submit(&pair.submission("k", params)).await;
    let params = json!({"prompt": "a cat", "model": "veo3.1"});
    pair.executor.submit(&pair.submission("k", params)).await;
    insta::assert_json_snapshot!(pair.sent());
}

#[tokio::test]
async fn progress_is_told_and_throttled_is_pending() {
    let pair = pair().await;
    let task = pair.task("k").await;
    for (percent, expected) in [(0, None), (42, Some(42)), (100, Some(100))] {
        pair.service.run(&task.external_task_id, percent);
        let polled = pair.executor.poll(&task).await;
        assert_eq!(polled, Polled::Pending { progress_percent: expected });
    }
    assert!(pair.executor.capabilities().schedule.pause(0, 0).as_secs() >= 5);
}

#[tokio::test]
async fn endings_and_refusals() {
    let pair = pair().await;
    assert_eq!(
        pair.failure(failed("INTERNAL.BAD_OUTPUT.CODE01", "An error")).await,
        ("provider", "INTERNAL.BAD_OUTPUT.CODE01: An error".to_owned())
    );
    assert_eq!(pair.failure(failed("ASSET.INVALID", "Too small")).await.0, "invalid_params");
    assert_eq!(pair.failure(Ending::Filtered("moderated".to_owned())).await.0, "content_policy");
    assert_eq!(pair.failure(Ending::Empty).await.0, "no_result");
    assert_eq!(pair.refusal(Wrong::Billing).await, ("billing", false));
    assert_eq!(pair.refusal(Wrong::Busy).await, ("rate_limited", true));
    assert_eq!(pair.refusal(Wrong::Params).await, ("invalid_params", false));
}

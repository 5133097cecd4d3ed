//! OpenAI-compatible videos.

use roundsman_core::ports::{Executor, Polled};
use roundsman_testkit::executors::{Ending, Provider, Wrong};
use serde_json::json;

use super::{PIXEL, Pair, Setup, failed};

fn setup() -> Setup {
    Setup {
        preset: "openai_video",
        provider: Provider::OpenAiVideo,
        task_type: "openai_video",
        params: json!({"prompt": "a cat", "model": "sora-2"}),
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
    let params = json!({"prompt": "a cat", "model": "sora-2", "duration": 8, "size": "1280x720", "image": PIXEL});
    pair.executor.submit(&pair.submission("k", params)).await;
    let task = pair.task("k").await;
    pair.service.run(&task.external_task_id, 30);
    let pending = Polled::Pending { progress_percent: Some(30) };
    assert_eq!(pair.executor.poll(&task).await, pending);
    pair.service.end(&task.external_task_id, Ending::Succeeded);
    let Polled::Succeeded(result) = pair.executor.poll(&task).await else { panic!() };
    assert_eq!(result.data, json!({"seconds": "4", "size": "720x1280"}));
    pair.executor.download(&result.files[0], &pair.folder.path().join("x")).await.unwrap();
    insta::assert_json_snapshot!(pair.sent());
}

#[tokio::test]
async fn endings_and_refusals() {
    let pair = pair().await;
    assert_eq!(
        pair.failure(failed("internal_error", "broke")).await,
        ("provider", "internal_error: broke".to_owned())
    );
    assert_eq!(pair.failure(Ending::Filtered("no".to_owned())).await.0, "content_policy");
    assert_eq!(pair.refusal(Wrong::Billing).await, ("billing", false));
    assert_eq!(pair.refusal(Wrong::Busy).await, ("rate_limited", true));
    assert_eq!(pair.refusal(Wrong::Content).await, ("content_policy", false));
}

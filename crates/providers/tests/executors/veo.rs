//! Veo by the Gemini API.

use roundsman_core::ports::{Executor, Polled};
use roundsman_testkit::executors::{Ending, Fault, Provider, Wrong};
use serde_json::json;

use super::{PIXEL, Pair, Setup, failed};

fn setup() -> Setup {
    Setup {
        preset: "veo",
        provider: Provider::Veo,
        task_type: "veo_video",
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
    let params = json!({
        "prompt": "a cat", "image": PIXEL, "last_frame": PIXEL, "reference_images": [PIXEL],
        "duration": "8", "aspect_ratio": "16:9", "resolution": "1080p", "negative_prompt": "dogs",
    });
    pair.executor.submit(&pair.submission("k", params)).await;
    let task = pair.task("k").await;
    pair.executor.poll(&task).await;
    pair.service.end(&task.external_task_id, Ending::Succeeded);
    let Polled::Succeeded(result) = pair.executor.poll(&task).await else { panic!() };
    pair.executor.download(&result.files[0], &pair.folder.path().join("x")).await.unwrap();
    insta::assert_json_snapshot!(pair.sent());
}

/// By its own word it is done; the filters took what there was.
#[tokio::test]
async fn done_without_samples_is_a_failure() {
    let pair = pair().await;
    let reason = "The video was filtered because of a celebrity.";
    let filtered = pair.failure(Ending::Filtered(reason.to_owned())).await;
    assert_eq!(filtered, ("content_policy", reason.to_owned()));
    assert_eq!(pair.failure(Ending::Empty).await.0, "no_result");
    assert_eq!(
        pair.failure(failed("3", "too long")).await,
        ("invalid_params", "3: too long".to_owned())
    );
    assert_eq!(pair.failure(failed("13", "broke")).await.0, "provider");
}

/// Known of this service: the submission is allowed, and asking after it is not, for a while.
#[tokio::test]
async fn a_forbidden_poll_is_no_failure_of_the_task() {
    let pair = pair().await;
    let task = pair.task("k").await;
    pair.service.spoil_poll(Fault::Wrong(Wrong::Forbidden));
    let Polled::Unclear(unclear) = pair.executor.poll(&task).await else { panic!() };
    assert_eq!(unclear.code.as_str(), "unauthorized");
    assert!(matches!(pair.executor.poll(&task).await, Polled::Pending { .. }));
}

/// The key goes to the service's own addresses, and not along with a redirect elsewhere.
#[tokio::test]
async fn the_key_is_not_told_to_others() {
    let pair = pair().await;
    let elsewhere = super::Pair::new(setup()).await;
    let link = format!("{}/files/1.mp4", elsewhere.service.url());
    let samples = json!({"generatedSamples": [{"video": {"uri": link}}]});
    let Polled::Succeeded(result) = pair.ended(Ending::SucceededWith(samples)).await else {
        panic!()
    };
    let refused = pair.executor.download(&result.files[0], &pair.folder.path().join("x")).await;
    assert!(refused.is_err());
    assert_eq!(elsewhere.service.seen().len(), 0);
}

//! Replicate.

use roundsman_core::ports::{Executor, Polled};
use roundsman_testkit::executors::{Ending, Provider, Wrong};
use serde_json::{Value, json};

use super::{Pair, Setup, failed};

fn setup() -> Setup {
    Setup {
        preset: "replicate",
        provider: Provider::Replicate,
        task_type: "replicate",
        params: json!({"version": "v1", "prompt": "a cat"}),
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
        json!({"model": "minimax/video-01", "input": {"prompt": "x", "steps": 4}, "prompt": "y"});
    let mut submission = pair.submission("k", params);
    submission.callback_url = None;
    pair.executor.submit(&submission).await;
    insta::assert_json_snapshot!(pair.sent());
}

/// The output is of any shape.
#[tokio::test]
async fn outputs_of_every_shape_are_read() {
    let pair = pair().await;
    let cases: [(Value, usize, Value); 6] = [
        (json!("{file}"), 1, json!({"predict_secs": 4.2})),
        (json!(["{file}", "{file}&n=2"]), 2, json!({"predict_secs": 4.2})),
        (
            json!({"video": "{file}", "seed": 3}),
            1,
            json!({"output": {"seed": 3}, "predict_secs": 4.2}),
        ),
        (json!({"a": [{"b": "{file}"}]}), 1, json!({"predict_secs": 4.2})),
        (json!("once upon a time"), 0, json!({"output": "once upon a time", "predict_secs": 4.2})),
        (json!(["to", "ken"]), 0, json!({"output": ["to", "ken"], "predict_secs": 4.2})),
    ];
    for (output, files, data) in cases {
        let polled = pair.ended(Ending::SucceededWith(output.clone())).await;
        let Polled::Succeeded(result) = polled else { panic!("{output}: {polled:?}") };
        assert_eq!((result.files.len(), result.data), (files, data), "{output}");
    }
}

#[tokio::test]
async fn endings_and_refusals() {
    let pair = pair().await;
    assert_eq!(
        pair.failure(failed("", "CUDA out of memory")).await,
        ("provider", "CUDA out of memory".to_owned())
    );
    assert_eq!(pair.failure(Ending::Filtered("x".to_owned())).await.0, "content_policy");
    assert_eq!(
        pair.failure(Ending::Cancelled).await,
        ("cancelled", "the task ended as cancelled".to_owned())
    );
    assert_eq!(pair.refusal(Wrong::Billing).await, ("billing", false));
    assert_eq!(pair.refusal(Wrong::Busy).await, ("rate_limited", true));
    assert_eq!(pair.refusal(Wrong::Content).await, ("content_policy", false));
    assert_eq!(pair.refusal(Wrong::Params).await, ("invalid_params", false));
}

/// Results are gone in an hour, so whoever keeps them must hurry.
#[tokio::test]
async fn it_says_how_long_results_last() {
    let pair = pair().await;
    let capabilities = pair.executor.capabilities();
    assert_eq!(capabilities.result_lifetime, Some(std::time::Duration::from_secs(3600)));
    let pauses = [0, 1, 2, 9].map(|looks| capabilities.schedule.pause(looks, 0).as_millis());
    assert_eq!(pauses, [2000, 3000, 4500, 10_000]);
}

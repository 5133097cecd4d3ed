//! fal.

use std::time::Duration;

use roundsman_core::ports::{Executor, Polled, Unverified, WebhookDelivery};
use roundsman_testkit::executors::{Ending, Fault, Provider, Wrong};
use serde_json::json;

use super::{PIXEL, Pair, Setup, failed};

const OVER: &str = "
[webhook]
keys_url = '{url}/.well-known/jwks.json'
";

fn setup() -> Setup {
    Setup {
        preset: "fal",
        provider: Provider::Fal,
        task_type: "fal",
        params: json!({"model": "fal-ai/kling-video/v2/pro/text-to-video", "prompt": "a cat"}),
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
    let params = json!({
        "model": "fal-ai/flux/dev", "input": {"num_images": 2}, "prompt": "a cat", "image": PIXEL,
    });
    pair.executor.submit(&pair.submission("k", params)).await;
    let task = pair.task("k").await;
    pair.service.end(&task.external_task_id, Ending::Succeeded);
    pair.executor.poll(&task).await;
    pair.executor.cancel(&task).await;
    insta::assert_json_snapshot!(pair.sent());
}

/// Completed says that it ended; the result says how.
#[tokio::test]
async fn completed_with_422_is_a_failure() {
    let pair = pair().await;
    let ended = failed("value_error", "the picture is too small");
    assert_eq!(
        pair.failure(ended).await,
        ("invalid_params", "422 value_error: the picture is too small".to_owned())
    );
    assert_eq!(pair.failure(Ending::Filtered("no".to_owned())).await.0, "content_policy");
    assert_eq!(pair.failure(Ending::Empty).await.0, "no_result");
}

/// A result that cannot be read now is not one that there is none of.
#[tokio::test]
async fn a_result_that_cannot_be_read_says_nothing() {
    let pair = pair().await;
    let task = pair.task("k").await;
    pair.service.end(&task.external_task_id, Ending::Succeeded);
    let faults = [
        Fault::Gateway(504),
        Fault::Gateway(500),
        Fault::RetryAfter(3),
        Fault::AnswerLost,
        Fault::Garbage,
        Fault::Wrong(Wrong::Key),
    ];
    for fault in faults {
        // The status comes first, and is good.
        pair.service.spoil_poll(Fault::Padded(0));
        pair.service.spoil_poll(fault.clone());
        let polled = pair.executor.poll(&task).await;
        assert!(matches!(polled, Polled::Unclear(_)), "{fault:?}: {polled:?}");
    }
    assert!(matches!(pair.executor.poll(&task).await, Polled::Succeeded(_)));
}

#[tokio::test]
async fn results_of_several_shapes_are_read() {
    let pair = pair().await;
    let cases = [
        (
            json!({"images": [{"url": "{file}"}, {"url": "{file}&n=2"}], "seed": 5}),
            2,
            json!({"seed": 5}),
        ),
        (json!({"image": {"url": "{file}"}}), 1, json!({})),
        (json!({"text": "what is said"}), 0, json!({"text": "what is said"})),
    ];
    for (output, files, data) in cases {
        let Polled::Succeeded(result) = pair.ended(Ending::SucceededWith(output)).await else {
            panic!()
        };
        assert_eq!((result.files.len(), result.data), (files, data));
    }
}

#[tokio::test]
async fn webhooks_are_verified_with_the_keys_that_fal_shows() {
    let pair = pair().await;
    let task = pair.task("k").await;
    let callback = pair.service.callback(&task.external_task_id).unwrap();
    assert_eq!(callback.url.as_deref(), Some("https://roundsman.example/webhooks/x"));
    let delivery =
        WebhookDelivery { headers: &callback.headers, query: "", body: callback.body.as_bytes() };
    let keys_asked =
        || pair.service.seen().iter().filter(|seen| seen.target.contains("jwks")).count();
    for _ in 0..3 {
        assert_eq!(
            pair.executor.verify_webhook(&delivery).await,
            Ok(task.external_task_id.clone())
        );
    }
    assert_eq!(keys_asked(), 1);
    // One who forges does not make us ask for keys again and again.
    let forged = WebhookDelivery { body: b"{}", ..delivery };
    for _ in 0..3 {
        assert_eq!(pair.executor.verify_webhook(&forged).await, Err(Unverified::Signature));
    }
    assert_eq!(keys_asked(), 1);
    pair.clock.advance(Duration::from_secs(61));
    assert_eq!(pair.executor.verify_webhook(&forged).await, Err(Unverified::Signature));
    assert_eq!(keys_asked(), 2);
    pair.clock.advance(Duration::from_secs(240));
    assert_eq!(pair.executor.verify_webhook(&delivery).await, Err(Unverified::Stale));
}

#[tokio::test]
async fn refusals() {
    let pair = pair().await;
    assert_eq!(pair.refusal(Wrong::Billing).await, ("billing", false));
    assert_eq!(pair.refusal(Wrong::Busy).await, ("rate_limited", true));
    assert_eq!(pair.refusal(Wrong::Content).await, ("content_policy", false));
    assert_eq!(pair.refusal(Wrong::Params).await, ("invalid_params", false));
}

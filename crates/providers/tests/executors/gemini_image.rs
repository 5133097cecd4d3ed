//! Gemini's pictures.

use roundsman_core::ports::{Executor, ResultContent, Submission, Submitted, TaskRequest};
use roundsman_testkit::executors::{Ending, Provider, Wrong};
use serde_json::json;

use super::{PIXEL, Pair, Setup};

fn setup() -> Setup {
    Setup {
        preset: "gemini_image",
        provider: Provider::GeminiImage,
        task_type: "nano_banana",
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
    pair.submit("k").await;
    let request = TaskRequest {
        task_type: "nano_banana_pro".to_owned(),
        params: json!({"prompt": "both", "image": [PIXEL, format!("data:image/png;base64,{PIXEL}")],
                       "aspect_ratio": "16:9", "image_size": "2K"}),
        key: "k".to_owned(),
    };
    pair.executor.submit(&Submission { request, ..pair.submission("k", json!({})) }).await;
    insta::assert_json_snapshot!(pair.sent());
}

#[tokio::test]
async fn the_picture_comes_with_the_answer() {
    let pair = pair().await;
    let Submitted::Completed(result) = pair.submit("k").await else { panic!() };
    assert!(result.files[0].content == ResultContent::Inline(pair.service.file().into()));
    assert_eq!(result.files[0].media_type.as_deref(), Some("image/png"));
    assert_eq!(result.data, json!({"text": "Here it is.", "model": "gemini-2.5-flash-image"}));
}

/// An answer of words alone was paid for, and is no picture.
#[tokio::test]
async fn words_alone_are_a_failure() {
    let pair = pair().await;
    for (ending, code, message) in [
        (Ending::Empty, "no_result", "I can only describe it."),
        (Ending::Filtered("PROHIBITED_CONTENT".to_owned()), "content_policy", "PROHIBITED_CONTENT"),
        (super::failed("IMAGE_SAFETY", ""), "content_policy", "IMAGE_SAFETY"),
        (
            super::failed("MAX_TOKENS", ""),
            "no_result",
            "the task ended well, and there is no result",
        ),
    ] {
        pair.service.end_at_once(ending);
        let submitted = pair.submit("k").await;
        let Submitted::Failed(failure) = submitted else { panic!("{submitted:?}") };
        assert_eq!((failure.code.as_str(), failure.message.as_str()), (code, message));
    }
    assert_eq!(pair.service.submissions_total(), 4);
}

#[tokio::test]
async fn refusals() {
    let pair = pair().await;
    assert_eq!(pair.refusal(Wrong::Billing).await, ("billing", false));
    assert_eq!(pair.refusal(Wrong::Busy).await, ("rate_limited", true));
    assert_eq!(pair.refusal(Wrong::Params).await, ("invalid_params", false));
}

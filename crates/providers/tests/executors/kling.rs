//! Kling, first generation.

use roundsman_core::ports::{Executor, Polled, ResultContent, Submitted};
use roundsman_testkit::executors::{Ending, Fault, Provider, Wrong};
use serde_json::json;

use super::{PIXEL, Pair, Setup, failed};

fn setup() -> Setup {
    Setup {
        preset: "kling",
        provider: Provider::Kling,
        task_type: "kling_video",
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
    let task = pair.task("k-1").await;
    pair.executor.poll(&task).await;
    pair.executor.look_up(&task.request).await;
    let params = json!({
        "prompt": "a cat", "image_url": format!("data:image/png;base64,{PIXEL}"), "image_tail": PIXEL,
        "model": "kling-v2-6", "duration": "10", "mode": "pro", "cfg_scale": "0.5",
        "aspect_ratio": "1:1", "sound": "on",
    });
    pair.executor.submit(&pair.submission("k-2", params)).await;
    let several = json!({"prompt": "two cats", "images": [PIXEL, PIXEL]});
    pair.executor.submit(&pair.submission("k-3", several)).await;
    insta::assert_json_snapshot!(pair.sent());
}

/// The status is the same: only the code tells whether waiting helps.
#[tokio::test]
async fn no_money_and_no_room_are_told_apart() {
    let pair = pair().await;
    assert_eq!(pair.refusal(Wrong::Billing).await, ("billing", false));
    assert_eq!(pair.refusal(Wrong::Busy).await, ("busy", true));
    assert_eq!(pair.refusal(Wrong::Content).await, ("content_policy", false));
    assert_eq!(pair.refusal(Wrong::Params).await, ("invalid_params", false));
    assert_eq!(pair.service.submissions_total(), 0);
}

#[tokio::test]
async fn both_generations_words_for_success_are_understood() {
    let pair = pair().await;
    let Polled::Succeeded(result) = pair.ended(Ending::Succeeded).await else { panic!() };
    assert_eq!(result.data, json!({"duration": "5.1", "video_id": "v-1"}));
    assert_eq!(result.files[0].media_type.as_deref(), Some("video/mp4"));
    let pictures =
        json!({"images": [{"index": 0, "url": "{file}"}, {"index": 1, "url": "not a link"}]});
    let Polled::Succeeded(result) = pair.ended(Ending::SucceededWith(pictures)).await else {
        panic!()
    };
    assert_eq!(result.files.len(), 1);
}

#[tokio::test]
async fn a_task_that_failed_says_why() {
    let pair = pair().await;
    assert_eq!(
        pair.failure(failed("9", "the model broke")).await,
        ("provider", "9 the model broke".to_owned())
    );
    assert_eq!(pair.failure(Ending::Filtered("violence".to_owned())).await.0, "content_policy");
    assert_eq!(pair.failure(Ending::Empty).await.0, "no_result");
}

/// A key is good once: who used it is found by it, and has not paid twice.
#[tokio::test]
async fn the_same_key_is_never_paid_for_twice() {
    let pair = pair().await;
    let first = pair.submit("once").await;
    assert!(matches!(first, Submitted::Accepted { .. }), "{first:?}");
    assert_eq!(pair.submit("once").await, first);
    assert_eq!(pair.service.submissions("once"), 1);
    // Nobody knows whether it is there if nobody can be asked.
    pair.service.spoil_poll(Fault::Gateway(503));
    assert!(matches!(pair.submit("once").await, Submitted::Unknown { .. }));
    assert_eq!(pair.service.submissions("once"), 1);
}

#[tokio::test]
async fn pictures_of_users_go_through_the_guard() {
    let pair = pair().await;
    for link in ["http://127.0.0.1:9/a.png", "http://169.254.169.254/latest", "http://[::1]/a.png"]
    {
        let submitted = pair.executor.submit(&pair.submission("k", json!({"image": link}))).await;
        let Submitted::Refused(refusal) = submitted else { panic!("{submitted:?}") };
        assert_eq!((refusal.code.as_str(), refusal.is_retryable), ("blocked_target", false));
    }
    for odd in ["not base64!", "data:image/png,x", "aGVsbG8="] {
        let submitted = pair.executor.submit(&pair.submission("k", json!({"image": odd}))).await;
        let Submitted::Refused(refusal) = submitted else { panic!("{submitted:?}") };
        assert_eq!(refusal.code.as_str(), "invalid_params", "{odd}");
    }
    assert_eq!(pair.service.seen().len(), 0);
}

/// Links of answers do, too: a service that was taken over must not lead us inside.
#[tokio::test]
async fn links_of_answers_go_through_the_guard() {
    let pair = pair().await;
    let inside = json!({"videos": [{"url": "http://127.0.0.1:9/secret"}]});
    let Polled::Succeeded(result) = pair.ended(Ending::SucceededWith(inside)).await else {
        panic!()
    };
    let ResultContent::Link(link) = &result.files[0].content else { panic!() };
    assert!(link.ends_with("/secret"));
    let error = pair.executor.download(&result.files[0], &pair.folder.path().join("x")).await;
    assert!(error.unwrap_err().to_string().contains("refused"));
    // Nor by a redirect.
    let Polled::Succeeded(result) = pair.ended(Ending::Succeeded).await else { panic!() };
    pair.service.spoil_file(Fault::Redirect("http://127.0.0.1:9/secret".to_owned()));
    let error = pair.executor.download(&result.files[0], &pair.folder.path().join("y")).await;
    assert!(error.unwrap_err().to_string().contains("refused"));
}

#[tokio::test]
async fn a_large_result_comes_whole() {
    let pair = pair().await;
    pair.service.set_file_bytes(50 * 1024 * 1024);
    let Polled::Succeeded(result) = pair.ended(Ending::Succeeded).await else { panic!() };
    let to = pair.folder.path().join("large");
    let fetched = pair.executor.download(&result.files[0], &to).await.unwrap();
    assert_eq!(fetched.bytes, 50 * 1024 * 1024);
    assert_eq!(std::fs::metadata(&to).unwrap().len(), fetched.bytes);
}

//! What every executor must do, as one suite.
//!
//! An adapter provides an [`ExecutorHost`], which plays the service, and calls
//! [`executor_conformance_suite!`](crate::executor_conformance_suite), which makes one test per case.
//! Cases ask what an executor can do and expect no more than that; what a service's own traps come to
//! is tested per service.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{
    Cancelled, Executor, ExternalTask, FailureCode, Idempotency, LookedUp, MediaError, Polled,
    Refusal, Submission, Submitted, TaskRequest, TaskResult, Unverified, WebhookDelivery,
};
use serde_json::json;

/// A service of which nobody else knows, and what may go wrong with it.
#[async_trait]
pub trait ExecutorHost: Send + Sync {
    fn executor(&self) -> Arc<dyn Executor>;

    /// One whose key is wrong.
    fn of_a_stranger(&self) -> Arc<dyn Executor>;

    /// One whose service does not listen.
    fn of_nobody(&self) -> Arc<dyn Executor>;

    /// One that waits for nothing longer than a moment, and downloads no more than 1,000 bytes.
    fn of_little_patience(&self) -> Arc<dyn Executor>;

    /// Something that the service takes.
    fn request(&self, key: &str) -> TaskRequest;

    /// What goes wrong with the next submission.
    fn spoil_submit(&self, trouble: Trouble);

    /// What goes wrong with the next poll.
    fn spoil_poll(&self, trouble: Trouble);

    fn succeed(&self, id: &str);

    fn fail(&self, id: &str);

    fn expire_files(&self);

    /// What the file of every result holds.
    fn file(&self) -> Vec<u8>;

    /// How many submissions were taken in all.
    fn taken(&self) -> u64;

    /// How many requests came, of whatever sort.
    fn requests(&self) -> usize;

    /// A genuine webhook about a task; `None` if the service sends none.
    fn webhook(&self, id: &str) -> Option<Genuine>;

    /// Where a result may be written.
    fn folder(&self) -> &Path;
}

/// A webhook as the service sends it.
#[derive(Debug, Clone)]
pub struct Genuine {
    pub headers: Vec<(String, String)>,
    pub query: String,
    pub body: String,
}

/// What goes wrong, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// A gateway answers 502 in the service's place.
    Gateway,
    /// The request is carried out, and its answer is lost.
    AnswerLost,
    /// The request is carried out, and nothing ever comes.
    Hangs,
    /// The request is carried out, and the answer cannot be understood.
    Garbage,
    /// The service fails, by its own word; nothing is carried out.
    Server,
    /// The service forbids it.
    Forbidden,
    /// 429 with nine seconds to wait.
    RetryAfter,
    /// The answer is far too long.
    TooLong,
    /// The request is led elsewhere.
    Redirect,
}

/// Makes one test of every case. `$host` is an expression that is awaited in each.
#[macro_export]
macro_rules! executor_conformance_suite {
    ($host:expr) => {
        $crate::executor_conformance_suite!($host;
            a_task_ends_well_and_its_result_can_be_had
            a_task_ends_badly_and_says_so
            a_lost_answer_is_never_a_refusal
            a_refusal_says_that_nothing_was_begun
            a_poll_that_went_wrong_says_nothing_about_the_task
            an_unknown_task_is_not_found
            several_are_asked_after_in_order
            wrong_parameters_are_refused_before_anybody_is_asked
            a_wish_to_cancel_is_passed_on
            webhooks_are_believed_only_if_they_are_genuine
            results_have_limits_and_expire
        );
    };
    ($host:expr; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::executors::conformance::$case($host.await).await;
            }
        )*
    };
}

pub async fn a_task_ends_well_and_its_result_can_be_had(host: impl ExecutorHost) {
    let executor = host.executor();
    let result = brought(&host, executor.as_ref(), "well").await;
    assert_eq!(result.files.len(), 1, "{result:?}");
    assert!(result.data.is_object(), "{result:?}");
    assert!(!result.data.to_string().contains("http"), "links are not told: {}", result.data);
    let to = host.folder().join("result");
    let fetched = executor.download(&result.files[0], &to).await.expect("a result");
    assert_eq!(std::fs::read(&to).expect("a file"), host.file());
    assert_eq!(fetched.bytes, host.file().len() as u64);
    assert_eq!(host.taken(), 1);
    assert!(executor.task_types().contains(&host.request("x").task_type.as_str()));
}

pub async fn a_task_ends_badly_and_says_so(host: impl ExecutorHost) {
    let executor = host.executor();
    if executor.capabilities().is_synchronous {
        host.fail("");
        let submitted = executor.submit(&submission(&host, "badly")).await;
        assert!(matches!(submitted, Submitted::Failed(_)), "{submitted:?}");
        return;
    }
    let task = accepted(&host, executor.as_ref(), "badly").await;
    host.fail(&task.external_task_id);
    for _ in 0..2 {
        match executor.poll(&task).await {
            Polled::Failed(failure) => assert!(!failure.message.is_empty()),
            other => panic!("{other:?}"),
        }
    }
}

pub async fn a_lost_answer_is_never_a_refusal(host: impl ExecutorHost) {
    let executor = host.of_little_patience();
    let troubles =
        [Trouble::AnswerLost, Trouble::Hangs, Trouble::Garbage, Trouble::Gateway, Trouble::TooLong];
    let mut taken = 0;
    for (n, trouble) in troubles.into_iter().enumerate() {
        let key = format!("lost-{n}");
        host.spoil_submit(trouble);
        let submitted = executor.submit(&submission(&host, &key)).await;
        assert!(matches!(submitted, Submitted::Unknown { .. }), "{trouble:?}: {submitted:?}");
        let was_taken = trouble != Trouble::Gateway;
        taken += u64::from(was_taken);
        let found = executor.look_up(&host.request(&key)).await;
        match executor.capabilities().idempotency {
            Idempotency::LookUp if was_taken => {
                let LookedUp::Found { external_task_id } = found else { panic!("{found:?}") };
                let task = ExternalTask { external_task_id, request: host.request(&key) };
                let polled = executor.poll(&task).await;
                assert!(matches!(polled, Polled::Pending { .. }), "{polled:?}");
                // Even who submits it again does not pay again.
                let again = executor.submit(&submission(&host, &key)).await;
                let expected = Submitted::Accepted { external_task_id: task.external_task_id };
                assert_eq!(again, expected);
            }
            Idempotency::LookUp => assert_eq!(found, LookedUp::Absent),
            Idempotency::None | Idempotency::Repeat => assert_eq!(found, LookedUp::Unsupported),
        }
        assert_eq!(host.taken(), taken, "{trouble:?}");
    }
}

pub async fn a_refusal_says_that_nothing_was_begun(host: impl ExecutorHost) {
    let stranger = host.of_a_stranger().submit(&submission(&host, "stranger")).await;
    let refusal = refused(&stranger);
    assert_eq!((refusal.code, refusal.is_retryable), (FailureCode::Unauthorized, false));

    let nobody = host.of_nobody().submit(&submission(&host, "nobody")).await;
    let refusal = refused(&nobody);
    assert_eq!((refusal.code, refusal.is_retryable), (FailureCode::Unavailable, true));

    let executor = host.executor();
    host.spoil_submit(Trouble::Server);
    assert!(refused(&executor.submit(&submission(&host, "server")).await).is_retryable);

    host.spoil_submit(Trouble::RetryAfter);
    let busy = executor.submit(&submission(&host, "busy")).await;
    let refusal = refused(&busy);
    assert!(refusal.is_retryable);
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(9)));

    host.spoil_submit(Trouble::Redirect);
    let elsewhere = executor.submit(&submission(&host, "elsewhere")).await;
    assert!(!refused(&elsewhere).is_retryable, "{elsewhere:?}");
    assert_eq!(host.taken(), 0);
}

pub async fn a_poll_that_went_wrong_says_nothing_about_the_task(host: impl ExecutorHost) {
    let executor = host.of_little_patience();
    if executor.capabilities().is_synchronous {
        return;
    }
    let task = accepted(&host, executor.as_ref(), "polled").await;
    let troubles = [
        (Trouble::Gateway, FailureCode::Provider),
        (Trouble::Server, FailureCode::Provider),
        (Trouble::Hangs, FailureCode::Unavailable),
        (Trouble::AnswerLost, FailureCode::Unavailable),
        (Trouble::Garbage, FailureCode::Odd),
        (Trouble::TooLong, FailureCode::Odd),
        (Trouble::Forbidden, FailureCode::Unauthorized),
        (Trouble::RetryAfter, FailureCode::RateLimited),
    ];
    for (trouble, code) in troubles {
        host.spoil_poll(trouble);
        let Polled::Unclear(unclear) = executor.poll(&task).await else { panic!("{trouble:?}") };
        assert_eq!(unclear.code, code, "{trouble:?}: {unclear}");
        let waits = (trouble == Trouble::RetryAfter).then_some(Duration::from_secs(9));
        assert_eq!(unclear.retry_after, waits, "{trouble:?}");
    }
    let stranger = host.of_a_stranger().poll(&task).await;
    assert!(matches!(stranger, Polled::Unclear(u) if u.code == FailureCode::Unauthorized));
    let nobody = host.of_nobody().poll(&task).await;
    assert!(matches!(nobody, Polled::Unclear(u) if u.code == FailureCode::Unavailable));
    let polled = executor.poll(&task).await;
    assert!(matches!(polled, Polled::Pending { .. }), "{polled:?}");
}

pub async fn an_unknown_task_is_not_found(host: impl ExecutorHost) {
    let executor = host.executor();
    let request = host.request("nobody");
    let mut external_task_id = "anything".to_owned();
    if !executor.capabilities().is_synchronous {
        // Like one that is there, but for its end.
        let there = accepted(&host, executor.as_ref(), "one").await;
        external_task_id = format!("{}99", there.external_task_id);
    }
    let task = ExternalTask { external_task_id, request };
    assert_eq!(executor.poll(&task).await, Polled::NotFound);
}

pub async fn several_are_asked_after_in_order(host: impl ExecutorHost) {
    let executor = host.executor();
    if executor.capabilities().is_synchronous {
        return;
    }
    let mut tasks = Vec::new();
    for n in 0..5 {
        tasks.push(accepted(&host, executor.as_ref(), &format!("several-{n}")).await);
    }
    host.succeed(&tasks[1].external_task_id);
    host.fail(&tasks[3].external_task_id);
    tasks[4].external_task_id.push_str("99");
    tasks.swap(0, 1);
    let before = host.requests();
    let polled = executor.poll_many(&tasks).await;
    let is = polled.iter().map(|polled| match polled {
        Polled::Pending { .. } => 'p',
        Polled::Succeeded(_) => 's',
        Polled::Failed(_) => 'f',
        Polled::NotFound => 'n',
        Polled::Unclear(_) => '?',
    });
    assert_eq!(is.collect::<String>(), "sppfn", "{polled:?}");
    if executor.capabilities().batch_max > 1 {
        assert_eq!(host.requests() - before, 1);
        host.spoil_poll(Trouble::Server);
        let polled = executor.poll_many(&tasks).await;
        assert!(polled.iter().all(|polled| matches!(polled, Polled::Unclear(_))), "{polled:?}");
        assert_eq!(polled.len(), tasks.len());
    }
    assert_eq!(executor.poll_many(&[]).await, []);
}

pub async fn wrong_parameters_are_refused_before_anybody_is_asked(host: impl ExecutorHost) {
    let executor = host.executor();
    let good = host.request("k");
    assert_eq!(executor.check(&good), Ok(()));
    for params in [json!(null), json!([]), json!("x"), json!({"no_such_parameter": 1})] {
        let request = TaskRequest { params, ..good.clone() };
        let reason = executor.check(&request).expect_err("wrong parameters");
        assert!(reason.starts_with("params"), "{reason}");
        let submission = Submission { request, ..submission(&host, "k") };
        let submitted = executor.submit(&submission).await;
        assert_eq!(refused(&submitted).code, FailureCode::InvalidParams);
    }
    let other = TaskRequest { task_type: "no_such_type".to_owned(), ..good };
    assert!(executor.check(&other).is_err());
    assert_eq!(host.requests(), 0);
}

pub async fn a_wish_to_cancel_is_passed_on(host: impl ExecutorHost) {
    let executor = host.executor();
    if !executor.capabilities().can_cancel {
        let external_task_id = "anything".to_owned();
        let task = ExternalTask { external_task_id, request: host.request("k") };
        assert_eq!(executor.cancel(&task).await, Cancelled::Unsupported);
        return;
    }
    let task = accepted(&host, executor.as_ref(), "cancelled").await;
    host.spoil_poll(Trouble::Gateway);
    assert!(matches!(executor.cancel(&task).await, Cancelled::Unclear(_)));
    assert_eq!(executor.cancel(&task).await, Cancelled::Accepted);
    // Some services forget it, the others say what became of it.
    match executor.poll(&task).await {
        Polled::NotFound => {}
        Polled::Failed(failure) => assert!(!failure.message.is_empty()),
        other => panic!("{other:?}"),
    }
    let ended = accepted(&host, executor.as_ref(), "ended").await;
    host.succeed(&ended.external_task_id);
    let late = executor.cancel(&ended).await;
    assert!(matches!(late, Cancelled::TooLate | Cancelled::Accepted), "{late:?}");
    assert!(matches!(executor.poll(&ended).await, Polled::Succeeded(_)));
}

pub async fn webhooks_are_believed_only_if_they_are_genuine(host: impl ExecutorHost) {
    let executor = host.executor();
    let nothing = WebhookDelivery { headers: &[], query: "", body: b"{}" };
    if !executor.capabilities().has_webhooks {
        assert_eq!(executor.verify_webhook(&nothing).await, Err(Unverified::NoWebhooks));
        return;
    }
    assert_eq!(executor.verify_webhook(&nothing).await, Err(Unverified::Signature));
    for n in 0..2 {
        let task = accepted(&host, executor.as_ref(), &format!("told-{n}")).await;
        host.succeed(&task.external_task_id);
        let told = host.webhook(&task.external_task_id).expect("a webhook");
        let Genuine { headers, query, body } = told;
        let genuine = WebhookDelivery { headers: &headers, query: &query, body: body.as_bytes() };
        // Twice, as services do.
        for _ in 0..2 {
            let id = executor.verify_webhook(&genuine).await;
            assert_eq!(id.as_ref(), Ok(&task.external_task_id));
        }
        let unsigned = WebhookDelivery { headers: &[], query: "", ..genuine };
        assert_eq!(executor.verify_webhook(&unsigned).await, Err(Unverified::Signature));
        let mut other: Vec<(String, String)> = headers.clone();
        for (_, value) in other.iter_mut().filter(|(name, _)| name.ends_with("signature")) {
            *value = value.chars().rev().collect();
        }
        let query: String = query.chars().rev().collect();
        let forged = WebhookDelivery { headers: &other, query: &query, body: body.as_bytes() };
        assert_eq!(executor.verify_webhook(&forged).await, Err(Unverified::Signature));
    }
}

pub async fn results_have_limits_and_expire(host: impl ExecutorHost) {
    let executor = host.executor();
    let result = brought(&host, executor.as_ref(), "large").await;
    let to = host.folder().join("large");
    let impatient = host.of_little_patience();
    let large = impatient.download(&result.files[0], &to).await;
    assert!(matches!(large, Err(MediaError::Refused(_))), "{large:?}");
    let is_link = format!("{:?}", result.files[0]).contains("Link");
    if is_link {
        host.expire_files();
        let gone: Result<_, MediaError> =
            executor.download(&result.files[0], &host.folder().join("gone")).await;
        let error = gone.expect_err("an expired link");
        assert!(matches!(error, MediaError::Failed(_) | MediaError::NotFound), "{error:?}");
        assert!(!error.to_string().contains("sig="), "{error}");
    }
    assert!(!format!("{result:?}").contains("sig="));
}

fn submission(host: &impl ExecutorHost, key: &str) -> Submission {
    Submission {
        request: host.request(key),
        callback_url: Some("https://roundsman.example/webhooks/x".to_owned()),
        time_max: Duration::from_secs(30),
    }
}

async fn accepted(host: &impl ExecutorHost, executor: &dyn Executor, key: &str) -> ExternalTask {
    match executor.submit(&submission(host, key)).await {
        Submitted::Accepted { external_task_id } => {
            ExternalTask { external_task_id, request: host.request(key) }
        }
        other => panic!("{other:?}"),
    }
}

/// Submits, sees it pending, and takes what it brings.
async fn brought(host: &impl ExecutorHost, executor: &dyn Executor, key: &str) -> TaskResult {
    if executor.capabilities().is_synchronous {
        let submitted = executor.submit(&submission(host, key)).await;
        let Submitted::Completed(result) = submitted else { panic!("{submitted:?}") };
        return result;
    }
    let task = accepted(host, executor, key).await;
    let polled = executor.poll(&task).await;
    assert!(matches!(polled, Polled::Pending { .. }), "{polled:?}");
    host.succeed(&task.external_task_id);
    let first = executor.poll(&task).await;
    // It is the same however often it is looked at.
    assert_eq!(executor.poll(&task).await, first);
    let Polled::Succeeded(result) = first else { panic!("{first:?}") };
    result
}

fn refused(submitted: &Submitted) -> &Refusal {
    match submitted {
        Submitted::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

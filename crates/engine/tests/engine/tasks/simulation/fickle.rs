//! A generator that takes tasks, loses them, fails and ends them as its dice fall.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{
    Cancelled, Executor, ExecutorCapabilities, ExternalTask, FailureCode, Fetched, Idempotency,
    LookedUp, MediaError, PollSchedule, Polled, Refusal, ResultFile, Submission, Submitted,
    TaskFailure, TaskRequest, TaskResult, Unclear, Unverified, WebhookDelivery,
};
use roundsman_testkit::SeededRandom;
use serde_json::json;

use crate::flaky::step_aside;

pub(super) const SERVICE: &str = "fickle";

pub(super) struct Fickle {
    capabilities: ExecutorCapabilities,
    dice: Arc<SeededRandom>,
    /// What it was paid for, by the keys that it was sent under.
    taken: Mutex<BTreeSet<String>>,
    is_paid_twice: AtomicBool,
    is_calm: AtomicBool,
}

impl Fickle {
    pub(super) fn new(dice: Arc<SeededRandom>) -> Self {
        let capabilities = ExecutorCapabilities {
            is_synchronous: false,
            idempotency: Idempotency::None,
            batch_max: 1,
            slots_max: None,
            schedule: PollSchedule::EVERY_TEN_SECS,
            result_lifetime: None,
            can_cancel: true,
            has_webhooks: true,
            submit_time_max: Duration::from_secs(30),
            poll_time_max: Duration::from_secs(10),
        };
        let (taken, no) = (Mutex::default(), AtomicBool::default);
        Fickle { capabilities, dice, taken, is_paid_twice: no(), is_calm: no() }
    }

    /// From now on everything ends well.
    pub(super) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_paid_twice(&self) -> bool {
        self.is_paid_twice.load(Ordering::Relaxed)
    }

    /// Of a hundred.
    fn throw(&self) -> u64 {
        if self.is_calm.load(Ordering::Relaxed) { 0 } else { self.dice.next_u64() % 100 }
    }

    fn pay(&self, key: &str) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if !taken.insert(key.to_owned()) {
            self.is_paid_twice.store(true, Ordering::Relaxed);
        }
    }
}

fn nothing_more() -> TaskResult {
    TaskResult { files: Vec::new(), data: json!({ "said": "done" }) }
}

fn refused(code: FailureCode) -> Submitted {
    let message = code.as_str().to_owned();
    Submitted::Refused(Refusal { code, message, is_retryable: true, retry_after: None })
}

fn broken() -> TaskFailure {
    TaskFailure { code: FailureCode::Provider, message: "it broke".to_owned() }
}

fn unclear(code: FailureCode, retry_after: Option<Duration>) -> Polled {
    Polled::Unclear(Unclear { code, message: code.as_str().to_owned(), retry_after })
}

#[async_trait]
impl Executor for Fickle {
    fn service(&self) -> &str {
        SERVICE
    }

    fn task_types(&self) -> Vec<&str> {
        vec![SERVICE]
    }

    fn capabilities(&self) -> &ExecutorCapabilities {
        &self.capabilities
    }

    fn check(&self, _request: &TaskRequest) -> Result<(), String> {
        Ok(())
    }

    async fn submit(&self, submission: &Submission) -> Submitted {
        step_aside().await;
        let key = &submission.request.key;
        let answer = match self.throw() {
            0..15 => Submitted::Completed(nothing_more()),
            15..70 => Submitted::Accepted { external_task_id: format!("ext-{key}") },
            70..80 => return refused(FailureCode::Unavailable),
            80..88 => return refused(FailureCode::Busy),
            88..94 => Submitted::Failed(broken()),
            _ => Submitted::Unknown { reason: "the connection broke".to_owned() },
        };
        self.pay(key);
        step_aside().await;
        answer
    }

    async fn look_up(&self, _request: &TaskRequest) -> LookedUp {
        LookedUp::Unsupported
    }

    async fn poll(&self, _task: &ExternalTask) -> Polled {
        step_aside().await;
        match self.throw() {
            0..35 => Polled::Succeeded(nothing_more()),
            35..75 => Polled::Pending { progress_percent: None },
            75..80 => Polled::Failed(broken()),
            80..85 => Polled::NotFound,
            85..95 => unclear(FailureCode::Unavailable, None),
            _ => unclear(FailureCode::RateLimited, Some(Duration::from_secs(25))),
        }
    }

    async fn poll_many(&self, tasks: &[ExternalTask]) -> Vec<Polled> {
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(self.poll(task).await);
        }
        answers
    }

    async fn cancel(&self, _task: &ExternalTask) -> Cancelled {
        step_aside().await;
        Cancelled::Accepted
    }

    async fn verify_webhook(&self, delivery: &WebhookDelivery<'_>) -> Result<String, Unverified> {
        String::from_utf8(delivery.body.to_vec()).map_err(|_| Unverified::NoTask)
    }

    async fn download(&self, _file: &ResultFile, _to: &Path) -> Result<Fetched, MediaError> {
        Err(MediaError::NotFound)
    }
}

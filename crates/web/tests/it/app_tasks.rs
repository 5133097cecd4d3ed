//! Tasks, alarms and documents of a test's server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{
    Cancelled, Executor, ExecutorCapabilities, Executors, ExternalTask, Fetched, Idempotency,
    LookedUp, MediaError, MediaStore, PollSchedule, Polled, ResultFile, Submission, Submitted,
    TaskRequest, Unverified, WebhookDelivery,
};
use roundsman_engine::alarms::Alarms;
use roundsman_engine::rooms::{RoomLimits, Rooms, RoomsDeps};
use roundsman_engine::tasks::{TaskNews, TaskOptions, TaskWork};
use roundsman_engine::users::Authenticator;

use crate::app_parts::Parts;

/// What every file holds.
pub(crate) const FILE: &[u8] = b"a picture of a cat";

pub(crate) fn rooms_of(parts: &Parts, authenticator: &Authenticator, limits: RoomLimits) -> Rooms {
    Rooms::new(RoomsDeps {
        store: parts.store.clone(),
        jobs: parts.store.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        bus: parts.bus.clone(),
        metrics: parts.metrics.clone(),
        authenticator: authenticator.clone(),
        limits,
    })
}

pub(crate) fn task_work(parts: &Parts, rooms: &Rooms) -> TaskWork {
    let folder = std::env::temp_dir().join(format!("web-results-{}", std::process::id()));
    let executors: Vec<Arc<dyn Executor>> = vec![Arc::new(Painter::new())];
    TaskWork {
        tasks: parts.store.clone(),
        rooms: parts.store.clone(),
        documents: Arc::new(rooms.clone()),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        wakes: parts.wakes.clone(),
        metrics: parts.metrics.clone(),
        executors: Executors::new(executors).unwrap(),
        media: Arc::new(OneFile),
        options: TaskOptions { submit_wait: Duration::ZERO, ..TaskOptions::new(folder) },
        news: TaskNews::default(),
    }
}

pub(crate) fn alarms_of(parts: &Parts) -> Alarms {
    Alarms {
        alarms: parts.store.clone(),
        rooms: parts.store.clone(),
        tasks: parts.store.clone(),
        clock: parts.clock.clone(),
        wakes: parts.wakes.clone(),
        alarms_per_room_max: 3,
    }
}

/// Somebody who paints; nobody works here, so nothing is ever sent.
struct Painter(ExecutorCapabilities);

impl Painter {
    fn new() -> Self {
        Painter(ExecutorCapabilities {
            is_synchronous: false,
            idempotency: Idempotency::None,
            batch_max: 1,
            slots_max: None,
            schedule: PollSchedule::EVERY_TEN_SECS,
            result_lifetime: None,
            can_cancel: false,
            has_webhooks: true,
            submit_time_max: Duration::from_secs(1),
            poll_time_max: Duration::from_secs(1),
        })
    }
}

#[async_trait]
impl Executor for Painter {
    fn service(&self) -> &'static str {
        "painter"
    }

    fn task_types(&self) -> Vec<&str> {
        vec!["painting"]
    }

    fn capabilities(&self) -> &ExecutorCapabilities {
        &self.0
    }

    fn check(&self, request: &TaskRequest) -> Result<(), String> {
        let has_prompt = request.params.get("prompt").is_some();
        if has_prompt { Ok(()) } else { Err("prompt is missing".to_owned()) }
    }

    async fn submit(&self, _submission: &Submission) -> Submitted {
        Submitted::Unknown { reason: "nobody is here".to_owned() }
    }

    async fn look_up(&self, _request: &TaskRequest) -> LookedUp {
        LookedUp::Unsupported
    }

    async fn poll(&self, _task: &ExternalTask) -> Polled {
        Polled::Pending { progress_percent: None }
    }

    async fn poll_many(&self, tasks: &[ExternalTask]) -> Vec<Polled> {
        vec![Polled::NotFound; tasks.len()]
    }

    async fn cancel(&self, _task: &ExternalTask) -> Cancelled {
        Cancelled::Unsupported
    }

    async fn verify_webhook(&self, delivery: &WebhookDelivery<'_>) -> Result<String, Unverified> {
        match (delivery.header("x-signature"), delivery.body) {
            (Some("good"), b"") => Err(Unverified::NoTask),
            (Some("good"), body) => Ok(String::from_utf8_lossy(body).into_owned()),
            _ => Err(Unverified::Signature),
        }
    }

    async fn download(&self, _file: &ResultFile, _to: &Path) -> Result<Fetched, MediaError> {
        Err(MediaError::NotFound)
    }
}

/// Every file is the same, but for one that is gone.
struct OneFile;

#[async_trait]
impl MediaStore for OneFile {
    async fn keep(&self, _file: &Path, sha256: &str) -> Result<String, MediaError> {
        Ok(sha256.to_owned())
    }

    async fn read(&self, blob: &str, to: &Path) -> Result<(), MediaError> {
        if blob == "gone" {
            return Err(MediaError::NotFound);
        }
        std::fs::write(to, FILE).map_err(|error| MediaError::Failed(error.to_string()))
    }

    async fn delete(&self, _blob: &str) -> Result<bool, MediaError> {
        Ok(true)
    }
}

//! A generator, a store of files and a notebook for documents that do what a test tells them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use roundsman_core::ports::{
    Cancelled, DocumentError, Executor, ExecutorCapabilities, ExternalTask, FailureCode, Fetched,
    Idempotency, LookedUp, MediaError, MediaStore, PollSchedule, Polled, ResultContent, ResultFile,
    RoomDocuments, Submission, Submitted, TaskRequest, TaskResult, Unclear, Unverified,
    WebhookDelivery,
};
use roundsman_core::rooms::{AppendRules, AppendedUpdate, NewUpdate, TaskCompletion, UpdateOrigin};
use serde_json::json;

/// What becomes of a submission.
#[derive(Debug, Clone)]
pub(super) enum OnSubmit {
    Accept,
    Complete(TaskResult),
    Answer(Submitted),
    /// It is taken, and the answer is lost.
    TakenAnswerLost,
    /// It never arrives, and nobody knows.
    LostOnTheWay,
    /// It is taken, and whoever asked dies before the answer.
    TakenThenHang,
}

/// What becomes of a look.
#[derive(Debug, Clone)]
pub(super) enum OnPoll {
    Answer(Polled),
    /// Never answers.
    Hang,
    Panic,
}

pub(super) struct Generator {
    service: &'static str,
    capabilities: ExecutorCapabilities,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    submits: VecDeque<OnSubmit>,
    /// What was taken, by the key it was sent under: each is paid.
    taken: Vec<(String, String)>,
    polls: BTreeMap<String, OnPoll>,
    scripts: BTreeMap<String, VecDeque<OnPoll>>,
    asked: Vec<String>,
    batches: Vec<usize>,
    cancelled: Vec<String>,
    unclear_look_ups: u32,
    dead_links: BTreeSet<String>,
    submissions: u32,
}

impl Generator {
    pub(super) fn new(service: &'static str) -> Self {
        Generator::with(service, |_| {})
    }

    pub(super) fn with(
        service: &'static str,
        change: impl FnOnce(&mut ExecutorCapabilities),
    ) -> Self {
        let mut capabilities = ExecutorCapabilities {
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
        change(&mut capabilities);
        Generator { service, capabilities, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The next submission comes to this; those without a word are accepted.
    pub(super) fn on_submit(&self, what: OnSubmit) {
        self.state().submits.push_back(what);
    }

    /// From now on a look at this task comes to this.
    pub(super) fn on_poll(&self, external: &str, what: OnPoll) {
        self.state().polls.insert(external.to_owned(), what);
    }

    /// The next look at it comes to this, before what is said with [`Generator::on_poll`].
    pub(super) fn next_poll(&self, external: &str, what: OnPoll) {
        self.state().scripts.entry(external.to_owned()).or_default().push_back(what);
    }

    pub(super) fn succeeds(&self, external: &str) {
        self.on_poll(external, OnPoll::Answer(Polled::Succeeded(video(external))));
    }

    pub(super) fn unclear_look_ups(&self, count: u32) {
        self.state().unclear_look_ups = count;
    }

    /// A file cannot be downloaded any more, or can again.
    pub(super) fn dead_link(&self, external: &str, is_dead: bool) {
        let mut state = self.state();
        if is_dead {
            state.dead_links.insert(external.to_owned());
        } else {
            state.dead_links.remove(external);
        }
    }

    /// How many are paid for.
    pub(super) fn paid(&self) -> usize {
        self.state().taken.len()
    }

    pub(super) fn submissions(&self) -> u32 {
        self.state().submissions
    }

    /// Which were looked at, in order, since the last time somebody asked.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().asked)
    }

    pub(super) fn batches(&self) -> Vec<usize> {
        std::mem::take(&mut self.state().batches)
    }

    pub(super) fn cancelled(&self) -> Vec<String> {
        self.state().cancelled.clone()
    }

    fn take(&self, request: &TaskRequest) -> String {
        let mut state = self.state();
        let known = state.taken.iter().find(|(key, _)| *key == request.key).cloned();
        if let (Idempotency::Repeat, Some((_, external))) = (self.capabilities.idempotency, known) {
            return external;
        }
        let external = format!("ext-{}", state.taken.len() + 1);
        state.taken.push((request.key.clone(), external.clone()));
        external
    }

    fn next(&self, external: &str) -> OnPoll {
        let mut state = self.state();
        state.asked.push(external.to_owned());
        let scripted = state.scripts.get_mut(external).and_then(VecDeque::pop_front);
        let usual = || OnPoll::Answer(Polled::Pending { progress_percent: None });
        scripted.or_else(|| state.polls.get(external).cloned()).unwrap_or_else(usual)
    }
}

pub(super) fn video(name: &str) -> TaskResult {
    TaskResult {
        files: vec![ResultFile {
            content: ResultContent::Link(format!("https://cdn.example/{name}.mp4?sig=secret")),
            media_type: Some("video/mp4".to_owned()),
        }],
        data: json!({ "seconds": 5 }),
    }
}

pub(super) fn picture() -> TaskResult {
    let content = ResultContent::Inline(Bytes::from_static(b"a picture"));
    let media_type = Some("image/png".to_owned());
    TaskResult { files: vec![ResultFile { content, media_type }], data: json!({}) }
}

pub(super) fn unclear(code: FailureCode, retry_after: Option<Duration>) -> Polled {
    Polled::Unclear(Unclear { code, message: format!("{code}"), retry_after })
}

#[async_trait]
impl Executor for Generator {
    fn service(&self) -> &str {
        self.service
    }

    fn task_types(&self) -> Vec<&str> {
        vec![self.service]
    }

    fn capabilities(&self) -> &ExecutorCapabilities {
        &self.capabilities
    }

    fn check(&self, request: &TaskRequest) -> Result<(), String> {
        let has_prompt = request.params.get("prompt").is_some_and(serde_json::Value::is_string);
        if has_prompt { Ok(()) } else { Err("prompt is missing".to_owned()) }
    }

    async fn submit(&self, submission: &Submission) -> Submitted {
        self.state().submissions += 1;
        let what = self.state().submits.pop_front().unwrap_or(OnSubmit::Accept);
        let unknown = |reason: &str| Submitted::Unknown { reason: reason.to_owned() };
        match what {
            OnSubmit::Accept => {
                Submitted::Accepted { external_task_id: self.take(&submission.request) }
            }
            OnSubmit::Complete(result) => {
                self.take(&submission.request);
                Submitted::Completed(result)
            }
            OnSubmit::Answer(answer) => answer,
            OnSubmit::TakenAnswerLost => {
                self.take(&submission.request);
                unknown("the connection broke")
            }
            OnSubmit::LostOnTheWay => unknown("the connection broke"),
            OnSubmit::TakenThenHang => {
                self.take(&submission.request);
                std::future::pending().await
            }
        }
    }

    async fn look_up(&self, request: &TaskRequest) -> LookedUp {
        if self.capabilities.idempotency != Idempotency::LookUp {
            return LookedUp::Unsupported;
        }
        let mut state = self.state();
        if state.unclear_look_ups > 0 {
            state.unclear_look_ups -= 1;
            let (code, message) = (FailureCode::Unavailable, "away".to_owned());
            return LookedUp::Unclear(Unclear { code, message, retry_after: None });
        }
        let found = state.taken.iter().find(|(key, _)| *key == request.key);
        found.map_or(LookedUp::Absent, |(_, external)| LookedUp::Found {
            external_task_id: external.clone(),
        })
    }

    async fn poll(&self, task: &ExternalTask) -> Polled {
        match self.next(&task.external_task_id) {
            OnPoll::Answer(polled) => polled,
            OnPoll::Hang => std::future::pending().await,
            OnPoll::Panic => panic!("a mistake in an executor"),
        }
    }

    async fn poll_many(&self, tasks: &[ExternalTask]) -> Vec<Polled> {
        self.state().batches.push(tasks.len());
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(self.poll(task).await);
        }
        answers
    }

    async fn cancel(&self, task: &ExternalTask) -> Cancelled {
        self.state().cancelled.push(task.external_task_id.clone());
        Cancelled::Accepted
    }

    async fn verify_webhook(&self, delivery: &WebhookDelivery<'_>) -> Result<String, Unverified> {
        if delivery.header("x-signature") != Some("good") {
            return Err(Unverified::Signature);
        }
        String::from_utf8(delivery.body.to_vec()).map_err(|_| Unverified::NoTask)
    }

    async fn download(&self, file: &ResultFile, to: &Path) -> Result<Fetched, MediaError> {
        let ResultContent::Link(link) = &file.content else { return Err(MediaError::NotFound) };
        if self.state().dead_links.iter().any(|dead| link.contains(dead)) {
            return Err(MediaError::NotFound);
        }
        std::fs::write(to, link).map_err(|error| MediaError::Failed(error.to_string()))?;
        Ok(Fetched { bytes: link.len() as u64, sha256: format!("sha-{}", link.len()) })
    }
}

/// Files in memory.
#[derive(Default)]
pub(super) struct Shelf {
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Shelf {
    pub(super) fn len(&self) -> usize {
        self.kept.lock().unwrap().len()
    }
}

#[async_trait]
impl MediaStore for Shelf {
    async fn keep(&self, file: &Path, sha256: &str) -> Result<String, MediaError> {
        let bytes = std::fs::read(file).map_err(|error| MediaError::Failed(error.to_string()))?;
        let name = format!("blob/{sha256}");
        self.kept.lock().unwrap().insert(name.clone(), bytes);
        Ok(name)
    }

    async fn read(&self, blob: &str, to: &Path) -> Result<(), MediaError> {
        let kept = self.kept.lock().unwrap();
        let bytes = kept.get(blob).ok_or(MediaError::NotFound)?;
        std::fs::write(to, bytes).map_err(|error| MediaError::Failed(error.to_string()))
    }

    async fn delete(&self, blob: &str) -> Result<bool, MediaError> {
        Ok(self.kept.lock().unwrap().remove(blob).is_some())
    }
}

/// What documents were told: what was stored is what counts.
#[derive(Default)]
pub(super) struct Notebook {
    told: Mutex<Vec<AppendedUpdate>>,
    is_torn: Mutex<bool>,
}

impl Notebook {
    /// Which tasks were told, in order: the status of each.
    pub(super) fn told(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        told.iter().map(|update| String::from_utf8_lossy(&update.payload).into_owned()).collect()
    }

    /// The documents cannot be read, or can again.
    pub(super) fn tear(&self, is_torn: bool) {
        *self.is_torn.lock().unwrap() = is_torn;
    }
}

#[async_trait]
impl RoomDocuments for Notebook {
    async fn completion_update(
        &self,
        completion: &TaskCompletion,
    ) -> Result<Option<NewUpdate>, DocumentError> {
        if *self.is_torn.lock().unwrap() {
            let (project, reason) = (completion.project.clone(), "torn".to_owned());
            return Err(DocumentError::Unreadable { project, reason });
        }
        let said = format!("{} {}", completion.task_id, completion.outcome.status());
        Ok(Some(NewUpdate {
            project: completion.project.clone(),
            payload: Bytes::from(said),
            origin: UpdateOrigin::Task,
            rules: AppendRules::default(),
        }))
    }

    async fn appended(&self, update: AppendedUpdate) {
        self.told.lock().unwrap().push(update);
    }
}

//! Outside generators: who makes pictures, videos and the like for a task.
//!
//! Invariants:
//! - An answer is evidence. What was sent and not clearly answered is [`Submitted::Unknown`] or
//!   [`Polled::Unclear`], never a failure: a generator is paid, and nobody pays twice for a guess.
//! - [`Submitted::Refused`] says that nothing was begun; only then may the same task be submitted
//!   again without looking it up.
//! - A webhook says which task to look at, never what became of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;

use super::{Fetched, MediaError};

/// Submits tasks to one service and asks after them. Every call is bounded in time and reads a
/// bounded answer.
#[async_trait]
pub trait Executor: Send + Sync {
    /// The service's name as operators configured it, and as `external_service` keeps it.
    fn service(&self) -> &str;

    /// The types of tasks that it takes.
    fn task_types(&self) -> Vec<&str>;

    fn capabilities(&self) -> &ExecutorCapabilities;

    /// Whether the task could be submitted at all, as far as it can be said without asking anybody.
    /// The text says what is wrong with the parameters.
    fn check(&self, request: &TaskRequest) -> Result<(), String>;

    /// Submits a task. Repeating it with the same key is safe only as far as
    /// [`ExecutorCapabilities::idempotency`] says.
    async fn submit(&self, submission: &Submission) -> Submitted;

    /// Finds what became of a submission by its key.
    async fn look_up(&self, request: &TaskRequest) -> LookedUp;

    /// How one task is.
    async fn poll(&self, task: &ExternalTask) -> Polled;

    /// How several are, with one request where the service can: answers in the order of `tasks`, as
    /// many as there are tasks. At most [`ExecutorCapabilities::batch_max`] at once.
    async fn poll_many(&self, tasks: &[ExternalTask]) -> Vec<Polled>;

    /// Wishes that a task ends. Whether it did is seen by polling it.
    async fn cancel(&self, task: &ExternalTask) -> Cancelled;

    /// Whether a webhook comes from the service, and about which task it is.
    async fn verify_webhook(&self, delivery: &WebhookDelivery<'_>) -> Result<String, Unverified>;

    /// Writes a result into a file, going on where a part of it ends if the source can. A link that
    /// has expired is [`MediaError::NotFound`] or [`MediaError::Failed`]; polling again may give a
    /// fresh one.
    async fn download(&self, file: &ResultFile, to: &Path) -> Result<Fetched, MediaError>;
}

/// What a task asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRequest {
    pub task_type: String,
    /// A JSON object, as the user gave it.
    pub params: Value,
    /// The same for every try of the same task and for no other: letters, digits, `-` and `_`.
    pub key: String,
}

/// A task on its way to the service.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub request: TaskRequest,
    /// Where the service may send its webhooks; `None` if it cannot reach this server.
    pub callback_url: Option<String>,
    /// How long may be waited for the answer, unless the executor's own limit is shorter.
    pub time_max: Duration,
}

/// A task that the service has taken.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalTask {
    pub external_task_id: String,
    pub request: TaskRequest,
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// It is done already.
    Completed(TaskResult),
    /// It was taken; ask after it by this id.
    Accepted { external_task_id: String },
    /// It was taken and came to nothing.
    Failed(TaskFailure),
    /// It was not taken: nothing runs and nothing is paid.
    Refused(Refusal),
    /// It was sent, and nobody knows whether it was taken.
    Unknown { reason: String },
}

/// Why a submission was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: FailureCode,
    pub message: String,
    /// Whether the same submission may be taken later.
    pub is_retryable: bool,
    /// Not before this, if the service says so.
    pub retry_after: Option<Duration>,
}

/// What a look-up by key found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookedUp {
    Found {
        external_task_id: String,
    },
    /// The service knows no task of that key. A submission that is still on its way may yet come.
    Absent,
    Unclear(Unclear),
    /// The service cannot be asked this.
    Unsupported,
}

/// How a task is.
#[derive(Debug, Clone, PartialEq)]
pub enum Polled {
    Pending {
        /// 0 to 100, where the service says it.
        progress_percent: Option<u8>,
    },
    Succeeded(TaskResult),
    Failed(TaskFailure),
    /// The service knows no such task: not yet, no more, or never.
    NotFound,
    /// Nothing was learned about the task.
    Unclear(Unclear),
}

/// Nothing was learned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unclear {
    pub code: FailureCode,
    pub message: String,
    /// Not before this, if the service says so.
    pub retry_after: Option<Duration>,
}

/// Why a task came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TaskFailure {
    pub code: FailureCode,
    pub message: String,
}

/// What a task brought.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskResult {
    /// In the service's order. May be empty where the result is text.
    pub files: Vec<ResultFile>,
    /// What is said about them: duration, size. No links.
    pub data: Value,
}

/// A file that a task brought.
#[derive(Clone, PartialEq, Eq)]
pub struct ResultFile {
    pub content: ResultContent,
    /// As the service or the name says it: `video/mp4`.
    pub media_type: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum ResultContent {
    /// Where it is, for as long as [`ExecutorCapabilities::result_lifetime`]. Often signed: never
    /// shown and never logged. Read it with [`Executor::download`], which knows whether it needs a
    /// key.
    Link(String),
    Inline(Bytes),
}

impl fmt::Debug for ResultFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match &self.content {
            ResultContent::Link(link) => {
                let shown = link.split(['?', '#']).next().unwrap_or_default();
                format!("Link({shown})")
            }
            ResultContent::Inline(bytes) => format!("Inline({} bytes)", bytes.len()),
        };
        f.debug_struct("ResultFile")
            .field("content", &format_args!("{content}"))
            .field("media_type", &self.media_type)
            .finish()
    }
}

/// What became of the wish to cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// The service takes the wish.
    Accepted,
    /// It has ended already, or there is none.
    TooLate,
    Unclear(Unclear),
    /// The service cannot cancel.
    Unsupported,
}

/// A webhook as it came.
#[derive(Debug, Clone, Copy)]
pub struct WebhookDelivery<'a> {
    /// Names in lower case.
    pub headers: &'a [(String, String)],
    /// What follows the `?`, encoded.
    pub query: &'a str,
    pub body: &'a [u8],
}

impl<'a> WebhookDelivery<'a> {
    /// The first header of that name; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Why a webhook is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    #[error("this service sends no webhooks")]
    NoWebhooks,
    #[error("it is not signed, or not by the service")]
    Signature,
    #[error("its time is too far from now")]
    Stale,
    #[error("it names no task")]
    NoTask,
    /// It may be believed later: the service's keys cannot be read now.
    #[error("the service's keys cannot be read: {0}")]
    KeysUnavailable(String),
}

/// What went wrong, in words that are the same for every service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureCode {
    /// The parameters are not what the service takes.
    InvalidParams,
    /// What was wished, or what came of it, is not allowed.
    ContentPolicy,
    /// The account has nothing left, or owes something.
    Billing,
    /// The key is wrong, or may not do this.
    Unauthorized,
    /// All slots of the account are taken.
    Busy,
    RateLimited,
    /// The service already has a task of this key.
    Duplicate,
    NotFound,
    Cancelled,
    /// The result, or the task itself, is no longer kept.
    Expired,
    /// It ended well by the service's word, and there is nothing to show for it.
    NoResult,
    /// The service failed, by its own word.
    Provider,
    /// The service could not be reached, or not in time.
    Unavailable,
    /// The answer cannot be understood.
    Odd,
    /// An address that must not be connected to.
    BlockedTarget,
}

impl FailureCode {
    pub const ALL: [FailureCode; 15] = [
        FailureCode::InvalidParams,
        FailureCode::ContentPolicy,
        FailureCode::Billing,
        FailureCode::Unauthorized,
        FailureCode::Busy,
        FailureCode::RateLimited,
        FailureCode::Duplicate,
        FailureCode::NotFound,
        FailureCode::Cancelled,
        FailureCode::Expired,
        FailureCode::NoResult,
        FailureCode::Provider,
        FailureCode::Unavailable,
        FailureCode::Odd,
        FailureCode::BlockedTarget,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            FailureCode::InvalidParams => "invalid_params",
            FailureCode::ContentPolicy => "content_policy",
            FailureCode::Billing => "billing",
            FailureCode::Unauthorized => "unauthorized",
            FailureCode::Busy => "busy",
            FailureCode::RateLimited => "rate_limited",
            FailureCode::Duplicate => "duplicate",
            FailureCode::NotFound => "not_found",
            FailureCode::Cancelled => "cancelled",
            FailureCode::Expired => "expired",
            FailureCode::NoResult => "no_result",
            FailureCode::Provider => "provider",
            FailureCode::Unavailable => "unavailable",
            FailureCode::Odd => "odd",
            FailureCode::BlockedTarget => "blocked_target",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        FailureCode::ALL.into_iter().find(|code| code.as_str() == text)
    }

    /// Whether the same call may go better later.
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            FailureCode::Busy
                | FailureCode::RateLimited
                | FailureCode::Provider
                | FailureCode::Unavailable
                | FailureCode::Odd
        )
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an executor can do, and how it wants to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutorCapabilities {
    /// Submissions answer with the result; there is nothing to poll.
    pub is_synchronous: bool,
    pub idempotency: Idempotency,
    /// How many tasks one [`Executor::poll_many`] may name; 1 where each is asked for by itself.
    pub batch_max: usize,
    /// How many tasks of this service may be under way at once; `None`: as many as there are.
    pub slots_max: Option<u32>,
    pub schedule: PollSchedule,
    /// How long results can be downloaded after they were seen; `None`: nobody says.
    pub result_lifetime: Option<Duration>,
    pub can_cancel: bool,
    pub has_webhooks: bool,
    /// Bounds one submission, its pictures included.
    pub submit_time_max: Duration,
    /// Bounds one poll.
    pub poll_time_max: Duration,
}

/// What helps when a submission's answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// Nothing does: it ends as `submit_unknown`.
    None,
    /// [`Executor::look_up`] finds the task by its key.
    LookUp,
    /// The same key may be submitted again: the service answers with the task that it has.
    Repeat,
}

/// When to ask after a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PollSchedule {
    pub first: Duration,
    /// Each pause is this much longer than the one before, up to [`max`](PollSchedule::max).
    pub factor: f64,
    pub max: Duration,
    /// How much a pause may be longer by chance, of itself.
    pub jitter_percent: u8,
}

impl PollSchedule {
    /// The seed's: every ten seconds.
    pub const EVERY_TEN_SECS: PollSchedule = PollSchedule {
        first: Duration::from_secs(10),
        factor: 1.0,
        max: Duration::from_secs(10),
        jitter_percent: 0,
    };

    /// The pause before the next look at a task that was looked at so often. `chance` is anything in
    /// `0..=100`, drawn by the caller.
    pub fn pause(&self, looks: u32, chance: u8) -> Duration {
        let grown =
            self.first.as_secs_f64() * self.factor.max(1.0).powi(looks.min(64).cast_signed());
        let pause = grown.min(self.max.as_secs_f64());
        let extra =
            pause * f64::from(self.jitter_percent) / 100.0 * f64::from(chance.min(100)) / 100.0;
        Duration::try_from_secs_f64(pause + extra).unwrap_or(self.max)
    }
}

/// All executors of a server, by the types of tasks they take and by their services' names.
#[derive(Clone, Default)]
pub struct Executors {
    by_task_type: BTreeMap<String, Arc<dyn Executor>>,
    by_service: BTreeMap<String, Arc<dyn Executor>>,
}

/// Two executors want the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecutorClash {
    #[error("two executors are called {0}")]
    Service(String),
    #[error("tasks of type {task_type} are taken by {first} and by {second}")]
    TaskType { task_type: String, first: String, second: String },
}

impl Executors {
    pub fn new(all: impl IntoIterator<Item = Arc<dyn Executor>>) -> Result<Self, ExecutorClash> {
        let mut executors = Executors::default();
        for executor in all {
            executors.add(&executor)?;
        }
        Ok(executors)
    }

    fn add(&mut self, executor: &Arc<dyn Executor>) -> Result<(), ExecutorClash> {
        let service = executor.service().to_owned();
        for task_type in executor.task_types() {
            if let Some(first) = self.by_task_type.get(task_type) {
                return Err(ExecutorClash::TaskType {
                    task_type: task_type.to_owned(),
                    first: first.service().to_owned(),
                    second: service,
                });
            }
            self.by_task_type.insert(task_type.to_owned(), executor.clone());
        }
        match self.by_service.insert(service.clone(), executor.clone()) {
            None => Ok(()),
            Some(_) => Err(ExecutorClash::Service(service)),
        }
    }

    pub fn of_task_type(&self, task_type: &str) -> Option<&Arc<dyn Executor>> {
        self.by_task_type.get(task_type)
    }

    pub fn of_service(&self, service: &str) -> Option<&Arc<dyn Executor>> {
        self.by_service.get(service)
    }

    /// In the order of their names.
    pub fn task_types(&self) -> impl Iterator<Item = &str> {
        self.by_task_type.keys().map(String::as_str)
    }

    /// In the order of their services' names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Executor>> {
        self.by_service.values()
    }

    pub fn is_empty(&self) -> bool {
        self.by_service.is_empty()
    }
}

impl fmt::Debug for Executors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_service.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_end_and_no_further() {
        let schedule = PollSchedule {
            first: Duration::from_secs(2),
            factor: 1.5,
            max: Duration::from_secs(10),
            jitter_percent: 50,
        };
        let pauses = [0, 1, 2, 4, 1000].map(|looks| schedule.pause(looks, 0).as_millis());
        assert_eq!(pauses, [2000, 3000, 4500, 10_000, 10_000]);
        assert_eq!(schedule.pause(0, 100).as_millis(), 3000);
        assert_eq!(schedule.pause(9, 255).as_millis(), 15_000);
        let steady = PollSchedule::EVERY_TEN_SECS;
        assert_eq!(steady.pause(7, 100), Duration::from_secs(10));
    }

    #[test]
    fn codes_are_written_as_they_are_read() {
        for code in FailureCode::ALL {
            assert_eq!(FailureCode::parse(code.as_str()), Some(code));
        }
        assert_eq!(FailureCode::parse("nothing"), None);
    }

    #[test]
    fn a_link_is_shown_without_what_opens_it() {
        let file = ResultFile {
            content: ResultContent::Link("https://cdn.example/a.mp4?sig=secret".to_owned()),
            media_type: None,
        };
        let shown = format!("{file:?}");
        assert!(
            shown.contains("https://cdn.example/a.mp4") && !shown.contains("secret"),
            "{shown}"
        );
    }
}

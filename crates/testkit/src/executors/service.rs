//! What makes one service different from another.

use roundsman_core::Timestamp;
use serde_json::Value;

use super::account::Account;
use super::faults::Wrong;
use super::task::Task;
use crate::daily::http::{Reply, Request};

/// What a request asks for.
pub(super) enum Ask {
    Submit(Order),
    /// By the ids of tasks.
    Poll(Vec<String>),
    /// By a key.
    LookUp(String),
    /// The result of a task, where that is another request.
    Result(String),
    Cancel(String),
    /// An OAuth token for a statement.
    Token(String),
    /// The public keys.
    Keys,
    /// A task's file, by its number.
    File(usize),
    Nothing,
}

/// What a submission says beside what is to be made.
#[derive(Default)]
pub(super) struct Order {
    pub(super) key: Option<String>,
    pub(super) callback_url: Option<String>,
}

/// A webhook, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// Where the submission wants it; `None` where that is the account's business.
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// The shapes of one service.
pub(super) trait Service: Send + Sync {
    /// Whether the request has the right key.
    fn admits(&self, request: &Request, account: &Account, now: Timestamp) -> bool;

    fn ask(&self, request: &Request) -> Ask;

    /// The answer has the result.
    fn is_synchronous(&self) -> bool {
        false
    }

    /// Whether a key may be used once only.
    fn has_unique_keys(&self) -> bool {
        false
    }

    /// Whether files are given only to who has the key.
    fn guards_files(&self) -> bool {
        false
    }

    fn id(&self, number: usize, path: &[String]) -> String {
        let _ = path;
        format!("task-{number}")
    }

    fn accepted(&self, task: &Task, url: &str, file: &[u8]) -> Reply;

    /// Of those that there are; `asked` is how many were asked for.
    fn polled(&self, found: &[&Task], url: &str, file: &[u8]) -> Reply;

    fn result(&self, task: &Task, url: &str) -> Reply {
        let _ = (task, url);
        self.wrong(Wrong::Missing)
    }

    fn cancelled(&self) -> Reply {
        Reply::new(204, "")
    }

    /// A task that has ended already is not cancelled.
    fn too_late(&self) -> Reply {
        self.wrong(Wrong::Missing)
    }

    fn wrong(&self, what: Wrong) -> Reply;

    /// What is said to who uses a key twice.
    fn duplicate(&self) -> Reply {
        self.wrong(Wrong::Params)
    }

    fn callback(
        &self,
        task: &Task,
        url: &str,
        account: &Account,
        now: Timestamp,
    ) -> Option<Callback> {
        let _ = (task, url, account, now);
        None
    }
}

/// The bearer token of a request.
pub(super) fn bearer(request: &Request) -> Option<&str> {
    request.header("authorization")?.strip_prefix("Bearer ")
}

/// The parts of the path.
pub(super) fn parts(request: &Request) -> Vec<&str> {
    request.path.iter().map(String::as_str).collect()
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

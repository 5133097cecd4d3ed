//! What the clients of a load know: what they were answered, and what they asked without an answer.
//!
//! Invariants: a 2xx is written down before the client does anything else; a request without an
//! answer is written down as such, and counts as "done or not done, but wholly"; whatever no server
//! may do is a problem here, found when it is seen or when the stored rows are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::watch;

/// How many problems are shown; one bug breaks many jobs.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// The sorts of jobs in a load, each with its own rules of who does what to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Enqueued once, worked on, never cancelled or retried by hand.
    Plain,
    /// Triggered again and again under a few keys, each key by one client with growing numbers.
    Keyed,
    /// Cancelled, and sometimes retried, by the client that enqueued it.
    Fickle,
}

/// What is known about one job.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) sort: Sort,
    /// Names the wish in the payload; `None` for a keyed job, which stands for many wishes.
    pub(crate) marker: Option<String>,
    /// The highest trigger that joined it.
    pub(crate) trigger: u64,
    /// The result of an acknowledged completion.
    pub(crate) done: Option<Value>,
    /// The latest lease that was known when it was completed. An answer that was held up may tell
    /// of an earlier one afterwards.
    done_lease: i64,
    /// Results of completions without an answer.
    pub(crate) maybe_done: Vec<Value>,
    /// An acknowledged failure without another try.
    pub(crate) failed: bool,
    /// A failure without another try and without an answer.
    pub(crate) maybe_failed: bool,
    pub(crate) owners_word: OwnersWord,
    /// A worker asked for it to be cancelled while it ran.
    pub(crate) cancelled_by_worker: bool,
}

/// What the owner of a fickle job was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnersWord {
    Enqueued,
    Cancelled,
    Retried,
    /// Something had no answer, or a worker decides.
    Unclear,
}

/// A request with an idempotency key, until it is answered.
#[derive(Debug, Clone)]
pub(crate) struct Idempotent {
    pub(crate) key: String,
    pub(crate) body: Value,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownToken {
    pub(crate) id: i64,
    pub(crate) text: String,
    /// `None` while a revocation has no answer.
    pub(crate) revoked: Option<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) jobs: BTreeMap<i64, Known>,
    /// Wishes that were sent once and not answered.
    pub(crate) maybe_enqueued: BTreeSet<String>,
    pub(crate) unanswered: Vec<Idempotent>,
    /// (address, number) of users.
    pub(crate) users: Vec<(String, i64)>,
    pub(crate) tokens: Vec<KnownToken>,
    /// Job and attempt of every lease that was handed out.
    leases: BTreeMap<i64, (i64, u64)>,
    problems: Vec<String>,
}

/// The book that all clients of a site write in.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Mutex<Entries>,
    acked: watch::Sender<u64>,
    numbers: AtomicU64,
    /// The token that the load's clients use.
    pub(crate) user_token: String,
}

impl Ledger {
    pub(crate) fn new(user_token: String) -> Self {
        Ledger {
            entries: Mutex::default(),
            acked: watch::Sender::new(0),
            numbers: AtomicU64::new(0),
            user_token,
        }
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other wish, trigger or name of this ledger has; later ones are higher.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count_acked(&self) {
        self.acked.send_modify(|count| *count += 1);
    }

    pub(crate) fn acked(&self) -> u64 {
        *self.acked.borrow()
    }

    /// Waits until so many more requests were acknowledged.
    pub(crate) async fn wait_for_more_acked(&self, more: u64, limit: Duration) -> Result<()> {
        let target = self.acked() + more;
        let mut acked = self.acked.subscribe();
        let reached = tokio::time::timeout(limit, acked.wait_for(|count| *count >= target)).await;
        reached.with_context(|| format!("{} of {target} were acknowledged", self.acked()))??;
        Ok(())
    }

    /// Something that must not happen has happened.
    pub(crate) fn problem(&self, text: impl Into<String>) {
        self.entries().problems.push(text.into());
    }

    /// Fails with what was found so far.
    pub(crate) fn expect_no_problems(&self) -> Result<()> {
        expect_none(&self.entries().problems)
    }

    /// A wish was acknowledged as job `id`.
    pub(crate) fn enqueued(&self, id: i64, sort: Sort, marker: &str) {
        let mut entries = self.entries();
        entries.maybe_enqueued.remove(marker);
        let known = entries.jobs.entry(id).or_insert_with(|| Known::new(sort, Some(marker)));
        if known.marker.as_deref() != Some(marker) {
            let text = format!("job {id} was given to {marker} and to {:?}", known.marker);
            entries.problems.push(text);
        }
    }

    /// A trigger was acknowledged as part of job `id`.
    pub(crate) fn triggered(&self, id: i64, trigger: u64) {
        let mut entries = self.entries();
        let known = entries.jobs.entry(id).or_insert_with(|| Known::new(Sort::Keyed, None));
        known.trigger = known.trigger.max(trigger);
    }

    /// A wish was sent and not answered.
    pub(crate) fn maybe_enqueued(&self, marker: &str) {
        self.entries().maybe_enqueued.insert(marker.to_owned());
    }

    /// A job was handed out. Its wish may have had no answer: this is then how we hear of it.
    pub(crate) fn claimed(&self, job: &Value) {
        let (id, lease_no) = (number(&job["id"]), number(&job["lease_no"]));
        let attempt = job["attempt"].as_u64().unwrap_or_default();
        let mut entries = self.entries();
        let marker = job["payload"]["marker"].as_str();
        let sort = Sort::of_kind(job["kind"].as_str().unwrap_or_default());
        entries.jobs.entry(id).or_insert_with(|| Known::new(sort, marker));
        if let Some((other, _)) = entries.leases.insert(lease_no, (id, attempt)) {
            entries.problems.push(format!("lease {lease_no} was given for {other} and {id}"));
        }
        let attempts_max = job["max_attempts"].as_u64().unwrap_or(u64::MAX);
        if attempt == 0 || attempt > attempts_max {
            entries.problems.push(format!("job {id}: attempt {attempt} of {attempts_max}"));
        }
        let later = |known: &Known| known.done.is_some() && lease_no > known.done_lease;
        if entries.jobs.get(&id).is_some_and(later) {
            entries.problems.push(format!("job {id} was handed out after it was completed"));
        }
    }

    /// A completion was acknowledged.
    pub(crate) fn completed(&self, id: i64, result: Value) {
        let mut entries = self.entries();
        let leases = entries.leases.iter().filter(|(_, (job, _))| *job == id);
        let latest = leases.map(|(lease_no, _)| *lease_no).max();
        let known = entries.jobs.get_mut(&id).expect("a claimed job is known");
        known.done_lease = latest.unwrap_or_default();
        if let Some(earlier) = known.done.replace(result) {
            entries.problems.push(format!("job {id} was completed twice, first as {earlier}"));
        }
    }

    /// Changes what is known about a job.
    pub(crate) fn note(&self, id: i64, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.entries().jobs.get_mut(&id) {
            change(known);
        }
    }
}

impl Known {
    fn new(sort: Sort, marker: Option<&str>) -> Self {
        Known {
            sort,
            marker: marker.filter(|_| sort != Sort::Keyed).map(str::to_owned),
            trigger: 0,
            done: None,
            done_lease: 0,
            maybe_done: Vec::new(),
            failed: false,
            maybe_failed: false,
            owners_word: OwnersWord::Enqueued,
            cancelled_by_worker: false,
        }
    }
}

impl Sort {
    pub(crate) const ALL: [Sort; 3] = [Sort::Plain, Sort::Keyed, Sort::Fickle];

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Sort::Plain => "load.plain",
            Sort::Keyed => "load.keyed",
            Sort::Fickle => "load.fickle",
        }
    }

    fn of_kind(kind: &str) -> Sort {
        Sort::ALL.into_iter().find(|sort| sort.kind() == kind).unwrap_or(Sort::Plain)
    }
}

/// The number of something in an answer; zero, which nothing has, if it is none.
pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Fails with the first of the problems, if there are any.
pub(crate) fn expect_none(problems: &[String]) -> Result<()> {
    anyhow::ensure!(
        problems.is_empty(),
        "{} problems, among them:\n{}",
        problems.len(),
        problems[..problems.len().min(PROBLEMS_SHOWN_MAX)].join("\n")
    );
    Ok(())
}

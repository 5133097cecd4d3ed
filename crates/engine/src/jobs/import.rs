//! Taking jobs over from elsewhere, line by line, as often as it takes.

use futures_util::future::join_all;
use roundsman_core::ports::{EnqueueAnswer, EnqueueRequest, IdempotencyKey};
use roundsman_core::users::Authenticated;
use sha2::{Digest, Sha256};

use super::JobWish;
use super::service::{Jobs, asker};
use super::wish::check_wishes;
use crate::{Error, FieldError};

/// Lines written at once: the database puts their commits together.
const LINES_AT_ONCE: usize = 64;
/// Under which lines are remembered.
const ROUTE: &str = "POST /jobs/import";

/// A line of what is imported. Nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct ImportLine {
    pub number: u64,
    /// The number that an exported job had where it came from.
    pub id: Option<i64>,
    pub wish: JobWish,
}

/// What came of some lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub enqueued: u64,
    /// A job with the same key was waiting.
    pub coalesced: u64,
    /// The same line, or another with its kind and key, was imported before.
    pub known: u64,
}

impl ImportReport {
    pub fn add(&mut self, other: ImportReport) {
        self.enqueued += other.enqueued;
        self.coalesced += other.coalesced;
        self.known += other.known;
    }
}

impl Jobs {
    /// Enqueues the jobs of some lines. Every line is written by itself: what was written before one
    /// that is refused stays, and is recognised when the lines are sent again.
    pub async fn import(
        &self,
        caller: &Authenticated,
        lines: Vec<ImportLine>,
    ) -> Result<ImportReport, Error> {
        let deps = &self.deps;
        let asker = asker(caller);
        let mut requests = Vec::with_capacity(lines.len());
        for line in lines {
            let key = name_of(&line);
            let ImportLine { number, wish, .. } = line;
            let checked = check_wishes(vec![wish], asker, &deps.catalog, &deps.limits, self.now());
            let job = checked.map_err(|error| at_line(error, number))?.remove(0);
            let body_hash = [0; 32];
            let key = IdempotencyKey { user_id: asker.user_id, route: ROUTE, key, body_hash };
            requests.push(EnqueueRequest { jobs: vec![job], idempotency: Some(key) });
        }
        let mut report = ImportReport::default();
        let mut lanes = Vec::new();
        for some in requests.chunks(LINES_AT_ONCE) {
            let writes = some.iter().map(|one| deps.store.enqueue(one.clone(), self.now()));
            for (request, answer) in some.iter().zip(join_all(writes).await) {
                match answer? {
                    EnqueueAnswer::Stored(jobs) => {
                        let joined = jobs.iter().all(|job| job.coalesced);
                        report.coalesced += u64::from(joined);
                        report.enqueued += u64::from(!joined);
                        deps.metrics.enqueued(request.jobs.iter().map(|job| &job.kind).zip(&jobs));
                    }
                    EnqueueAnswer::Replayed(_) | EnqueueAnswer::KeyReused => report.known += 1,
                }
                lanes.extend(request.jobs.iter().map(|job| (job.base_lane(), 1)));
            }
        }
        deps.wakes.signal(lanes);
        Ok(report)
    }
}

/// What makes a line the same as another: its kind and key or, without a key, all it says. A time that
/// it does not say is no part of that: it would be another one whenever the line is sent.
fn name_of(line: &ImportLine) -> String {
    let wish = &line.wish;
    let mut hash = Sha256::new();
    hash.update(&wish.kind);
    if let Some(key) = &wish.key {
        hash.update(format!("\n{key}"));
    } else {
        let limits = (wish.priority, wish.run_at, wish.max_attempts);
        let rest = (line.id, &wish.payload, limits, &wish.tenant);
        hash.update(format!("\n\n{rest:?}"));
    }
    hex::encode(hash.finalize())
}

fn at_line(error: Error, line: u64) -> Error {
    match error {
        Error::Invalid(problems) => {
            let placed = |problem: FieldError| {
                FieldError::new(format!("lines[{line}].{}", problem.field), problem.message)
            };
            Error::Invalid(problems.into_iter().map(placed).collect())
        }
        other => other,
    }
}

//! The alarm `snapshot`: merges the log of a room into its snapshot.
//!
//! Invariants: it is set by the update that makes a document dirty and ends when the document is clean,
//! so a room that nobody changes costs nothing; a document that cannot be read is never written, and
//! its alarm fails where everybody can see it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{JobError, KindName, KindSpec, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{
    CompactAnswer, DocumentError, EnqueueAnswer, EnqueueRequest, NewSnapshot, StoreError,
};
use roundsman_core::rooms::{ProjectId, SNAPSHOT_KIND, snapshot_due, snapshot_wish};

use super::service::Rooms;
use crate::jobs::{Handler, HandlerResult, JobContext};

/// Documents that are merged at once in one process.
const AT_ONCE_MAX: usize = 2;
/// A document that was not merged so long after its time has lost its alarm, or its alarm fails.
const LATE_BY: Duration = Duration::from_secs(60);
/// Alarms that are set in one transaction, and transactions in one run.
const ALARMS_PER_STEP_MAX: u32 = 500;
const STEPS_MAX: usize = 200;

/// The policy of the job: it is tried until it is done.
pub fn snapshot_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(60),
        heartbeat_every: Duration::from_secs(20),
        deadline: Some(Duration::from_secs(300)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Keep,
        concurrency: Some(AT_ONCE_MAX),
        ..KindSpec::new(KindName::new(SNAPSHOT_KIND).expect("a built-in kind has a valid name"))
    }
}

/// The policies of all kinds of jobs about documents.
pub fn room_specs() -> Vec<KindSpec> {
    vec![snapshot_spec()]
}

impl Rooms {
    /// The handlers of all kinds of jobs about documents.
    pub fn handlers(&self) -> Vec<Arc<dyn Handler>> {
        vec![Arc::new(Snapshots { rooms: self.clone() })]
    }

    /// Sets the alarms that a mistake or an operator has lost; those that are set stay as they are.
    /// Answers with how many there were. For whoever runs a node, now and then.
    pub async fn rearm(&self) -> Result<usize, StoreError> {
        let (mut after, mut lost) = (None, 0);
        for _ in 0..STEPS_MAX {
            let now = self.clock().now();
            let before = now - (self.limits().rules.snapshot_after + LATE_BY);
            let late = self.store().stale_rooms(before, after, ALARMS_PER_STEP_MAX).await?;
            after = late.last().cloned();
            if after.is_none() {
                break;
            }
            let jobs = late.iter().map(|project| snapshot_wish(project, now)).collect();
            let request = EnqueueRequest { jobs, idempotency: None };
            if let EnqueueAnswer::Stored(set) = self.jobs().enqueue(request, now).await? {
                lost += set.iter().filter(|alarm| !alarm.coalesced).count();
            }
        }
        if lost > 0 {
            tracing::warn!(alarms = lost, "rooms had lost their alarm, and have it again");
        }
        Ok(lost)
    }
}

struct Snapshots {
    rooms: Rooms,
}

#[async_trait]
impl Handler for Snapshots {
    fn spec(&self) -> KindSpec {
        snapshot_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let key = context.job.key.as_ref();
        let Some(project) = key.and_then(|key| ProjectId::new(key.as_str()).ok()) else {
            return done().into();
        };
        match self.merge(&project, &context).await {
            Ok(outcome) => outcome.into(),
            Err(DocumentError::NoSuchRoom(_)) => done().into(),
            Err(error) => {
                let code = match &error {
                    DocumentError::Unreadable { .. } => "unreadable",
                    _ => "storage",
                };
                let error = JobError::new(code, error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
        }
    }
}

impl Snapshots {
    async fn merge(
        &self,
        project: &ProjectId,
        context: &JobContext,
    ) -> Result<Outcome, DocumentError> {
        let rooms = &self.rooms;
        let (document, stored) = rooms.load(project).await?;
        let room = stored.room;
        if !room.is_dirty() {
            return Ok(done());
        }
        let work = rooms.workshop().run(move || (document.to_stored(), document.place()));
        let Some((bytes, frontiers)) = work.await else {
            let reason = "writing it out panicked".to_owned();
            return Err(DocumentError::Unreadable { project: project.clone(), reason });
        };
        let (from_seq, through_seq) = (room.snapshot_seq, room.head_seq);
        let snapshot = NewSnapshot { from_seq, through_seq, bytes, frontiers };
        let now = rooms.clock().now();
        let answer =
            rooms.store().compact_room(project.clone(), snapshot, context.lease, now).await?;
        Ok(match answer {
            CompactAnswer::Compacted(room) => {
                rooms.metrics().room_compacted();
                match snapshot_due(&room, &rooms.limits().rules) {
                    Some(at) => Outcome::Again { at, payload: None },
                    None => done(),
                }
            }
            // Somebody else has merged it; whether anything is left is seen next time.
            CompactAnswer::Superseded => Outcome::Again { at: now, payload: None },
            CompactAnswer::LeaseLost => Outcome::Release,
            CompactAnswer::NoSuchRoom => done(),
        })
    }
}

fn done() -> Outcome {
    Outcome::Done { result: roundsman_core::jobs::Json::null() }
}

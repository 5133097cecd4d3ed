//! The job that looks at one room and writes what is there: the only one that does.
//!
//! Invariants: when it began is noted before the provider is asked; what was heard and not yet
//! answered by a look is in the next wish, so that nothing that is heard meanwhile replaces it; a
//! look that failed is written down as such and changes nobody's session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{JobError, Json, KindName, KindSpec, MergeRule, Outcome, RetryPolicy};
use roundsman_core::limits::MERGED_ITEMS_MAX;
use roundsman_core::ports::{CommitAnswer, LookWritten, RoomsError, Scope, StoreError, Urgency};
use roundsman_core::presence::{
    EndReason, Hint, HintKind, Look, LookReport, POLL_KIND, poll_wish, read_hints,
};

use super::work::{PresenceWork, done, meeting_of, storage_failed};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// So many looks that fail in a row are told to the operator.
const ALERT_AFTER_FAILURES: u32 = 3;
/// Why a look failed is kept up to this length.
const REASON_CHARS_MAX: usize = 300;

/// The policy of the job. A room is looked at until it answers, so it has no limit of attempts.
pub fn poll_spec(at_once_max: usize) -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(120),
        heartbeat_every: Duration::from_secs(30),
        // Every call of the provider has a limit of its own; this is for when that fails.
        deadline: Some(Duration::from_secs(100)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(30) },
        merge: MergeRule::Append,
        concurrency: Some(at_once_max),
        lease_name: Some("meeting_presence_poll:{key}"),
        ..KindSpec::new(KindName::new(POLL_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn poller(work: &PresenceWork) -> Arc<dyn Handler> {
    Arc::new(Poller { work: work.clone() })
}

struct Poller {
    work: PresenceWork,
}

#[async_trait]
impl Handler for Poller {
    fn spec(&self) -> KindSpec {
        poll_spec(self.work.limits.looks_at_once_max)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let looked = self.look(&context).await;
        looked.unwrap_or_else(|error| storage_failed(&error).into())
    }
}

impl Poller {
    async fn look(&self, context: &JobContext) -> Result<HandlerResult, StoreError> {
        let PresenceWork { store, clock, rooms, metrics, .. } = &self.work;
        let Some(id) = meeting_of(&context.job) else { return Ok(done().into()) };
        let Some(meeting) = store.presence_meeting(Scope::All, id).await? else {
            return Ok(done().into());
        };
        // What its owner has ended stays ended, whoever is there.
        if !meeting.end_reason.is_none_or(EndReason::may_be_undone) {
            return Ok(done().into());
        }
        let hints = distinct(read_hints(&context.job.payload.to_value()));
        let urgency = if hints.is_empty() { Urgency::Routine } else { Urgency::Event };
        let began_at = clock.now();
        let look = match rooms.room_presence(&meeting.room, urgency).await {
            Ok(people) => Look::Seen(people),
            Err(RoomsError::NotFound) => Look::Gone,
            // Nobody can be asked before this process is another one.
            Err(RoomsError::NotConfigured) => return Ok(done().into()),
            Err(RoomsError::RateLimited { after }) => {
                metrics.presence_looked("rate_limited");
                let error = JobError::new("rate_limited", "the provider asks for patience");
                return Ok(Outcome::Retry { error, after }.into());
            }
            Err(error) => Look::Failed { reason: short(&error) },
        };
        metrics.presence_looked(match &look {
            Look::Seen(_) => "seen",
            Look::Gone => "gone",
            Look::Failed { .. } => "failed",
        });
        let failure = match &look {
            Look::Failed { reason } => Some(reason.clone()),
            _ => None,
        };
        let report = LookReport { no: context.lease.lease_no.get(), began_at, look, hints };
        let answer =
            store.commit_look(id, report, self.work.rules, context.lease, clock.now()).await?;
        Ok(self.written(id, answer, failure))
    }

    fn written(
        &self,
        id: MeetingId,
        answer: CommitAnswer,
        failure: Option<String>,
    ) -> HandlerResult {
        let meeting = id.get();
        match answer {
            CommitAnswer::Written(written) => {
                self.work.announce(&written);
                match failure {
                    Some(reason) => self.failed(&written, &reason).into(),
                    None => next_look(id, &written),
                }
            }
            CommitAnswer::Unchanged => {
                // The next run has a higher number.
                self.work.metrics.presence_stale_look();
                tracing::warn!(meeting, "a look was refused: a later one was written");
                let error = JobError::new("stale", "a later look was written");
                Outcome::Retry { error, after: None }.into()
            }
            CommitAnswer::NoSuchMeeting => done().into(),
            CommitAnswer::LeaseLost => {
                self.work.metrics.presence_stale_look();
                tracing::info!(meeting, "a look came too late: its lease is lost");
                // Whoever has the lease now goes on.
                Outcome::Release.into()
            }
        }
    }

    fn failed(&self, written: &LookWritten, reason: &str) -> Outcome {
        let (meeting, looks) = (written.meeting.id.get(), &written.meeting.looks);
        if looks.failures == ALERT_AFTER_FAILURES {
            self.work.metrics.presence_alert();
            let failures = looks.failures;
            tracing::error!(meeting, failures, reason, "a room cannot be looked at");
        } else {
            tracing::debug!(meeting, reason, "a look failed");
        }
        Outcome::Retry { error: JobError::new("provider", reason), after: None }
    }
}

/// What follows from a look. Hints go into a wish of their own: it joins one that came meanwhile, and
/// both keep what they tell, while a job that merely runs again gives its payload up for that of the
/// job it joins.
fn next_look(id: MeetingId, written: &LookWritten) -> HandlerResult {
    let hints = &written.hints[written.hints.len().saturating_sub(MERGED_ITEMS_MAX)..];
    match written.again_at {
        None => done().into(),
        Some(at) if hints.is_empty() => Outcome::Again { at, payload: Some(Json::null()) }.into(),
        Some(at) => {
            let jobs = vec![poll_wish(id, hints, at)];
            HandlerResult { outcome: done(), effects: Effects { jobs, ..Effects::default() } }
        }
    }
}

/// Each event once, whichever nodes have heard it.
fn distinct(hints: Vec<Hint>) -> Vec<Hint> {
    let mut known: BTreeSet<(String, HintKind)> = BTreeSet::new();
    hints.into_iter().filter(|hint| known.insert((hint.event.clone(), hint.what))).collect()
}

fn short(error: &RoomsError) -> String {
    error.to_string().chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use roundsman_core::Timestamp;

    use super::*;

    #[test]
    fn an_event_that_several_have_heard_counts_once() {
        let left = |secs: u64| Hint {
            what: HintKind::Left,
            ..Hint::look("e", Timestamp::EPOCH + Duration::from_secs(secs))
        };
        let look = Hint::look("e", Timestamp::EPOCH);
        let hints = vec![left(1), left(2), look.clone(), look.clone()];
        assert_eq!(distinct(hints), [left(1), look]);
    }

    #[test]
    fn the_reason_of_a_failure_is_short_and_plain() {
        let error = RoomsError::Odd("a\0\n".repeat(1000));
        let text = short(&error);
        assert_eq!(text.chars().count(), REASON_CHARS_MAX);
        assert!(!text.contains('\0') && !text.contains('\n'));
    }
}

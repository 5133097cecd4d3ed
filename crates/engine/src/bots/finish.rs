//! The job that does the work after a meeting: makes final what was said in it, then gathers it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::{FINISH_KIND, MeetingId};
use roundsman_core::jobs::{JobError, KindName, KindSpec, LeaseRef, MergeRule, Outcome};
use roundsman_core::ports::StoreError;
use roundsman_core::webhooks::DELIVER_KIND;

use super::BotWork;
use super::announce::Announcer;
use super::supervise::{done, meeting_of};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// The policy of the job.
pub fn finish_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(15),
        heartbeat_every: Duration::from_secs(5),
        deadline: Some(Duration::from_secs(120)),
        max_attempts: None,
        merge: MergeRule::Keep,
        ..KindSpec::new(KindName::new(FINISH_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn finisher(work: &BotWork) -> Arc<dyn Handler> {
    Arc::new(Finisher { announcer: work.announcer(), work: work.clone() })
}

struct Finisher {
    work: BotWork,
    announcer: Announcer,
}

#[async_trait]
impl Handler for Finisher {
    fn spec(&self) -> KindSpec {
        finish_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let Some(meeting) = meeting_of(&context.job) else { return done().into() };
        match self.finish(meeting, context.lease).await {
            Ok(()) => done().into(),
            Err(error) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
        }
    }
}

impl Finisher {
    async fn finish(&self, meeting: MeetingId, lease: LeaseRef) -> Result<(), StoreError> {
        let BotWork { store, clock, transcripts, .. } = &self.work;
        // Nothing changes any more: what the summary is made of need not be stable first.
        let sessions = transcripts.settle_all(meeting, Some(lease)).await?;
        if store.finish_meeting(meeting, lease, clock.now()).await? {
            // At least that the meeting is over; at most also that its transcript is ready.
            self.announcer.wake(DELIVER_KIND, 2);
        }
        transcripts.clear_cache(meeting, &sessions).await;
        Ok(())
    }
}

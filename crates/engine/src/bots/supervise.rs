//! The job that looks after one bot: launches it, stops it, clears away what is left of it.
//!
//! Invariants: the lease serialises everything done to one bot's workload; a status is written only
//! with the launcher's proof that no bot runs; a run does the one thing that is due and says when
//! the next look is, so that a crash between any two steps is mended by the next run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{
    BotEvent, BotRecord, BotStatus, ExitReport, MeetingId, SUPERVISE_KIND, Source,
};
use roundsman_core::failpoint;
use roundsman_core::jobs::{
    JobError, JobFacts, Json, KindName, KindSpec, MergeRule, Outcome, RetryPolicy,
};
use roundsman_core::ports::{
    BotHappened, EventAnswer, Launched, Launcher, Sighting, StoreError, Unanswered,
};

use super::announce::Announcer;
use super::{BotWork, LaunchOptions, launch_spec};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// How often a bot that was asked to leave is asked again and looked at.
const LEAVE_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How often a bot that got a signal is looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The longest wait after a runtime that did not answer. No trigger shortens it, so whoever waits for
/// a bot to come or to go waits at most this much longer than the runtime was away, and a
/// reservation does not run out meanwhile.
const UNANSWERED_AGAIN_AFTER_MAX: Duration = Duration::from_secs(5);
/// How long to wait before looking again at rows that changed under us.
const CHANGED_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// A launcher's reason is cut to this length.
const REASON_CHARS_MAX: usize = 300;

/// How bots are looked after.
#[derive(Debug, Clone)]
pub struct SuperviseOptions {
    /// From the wish to stop to SIGTERM.
    pub leave_grace: Duration,
    /// From SIGTERM to SIGKILL.
    pub kill_grace: Duration,
    /// How often a bot is launched that ends before it said anything.
    pub attempts_max: u32,
    /// Bots looked after at once by one process.
    pub at_once_max: usize,
    pub launch: LaunchOptions,
}

/// The policy of the job. It is never given up: somebody pays for what it clears away.
pub fn supervisor_spec(at_once_max: usize) -> KindSpec {
    KindSpec {
        // Short, so that a bot whose server has died in the middle of its stop is soon somebody's.
        lease_ttl: Duration::from_secs(15),
        heartbeat_every: Duration::from_secs(5),
        deadline: Some(Duration::from_secs(120)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(1), cap: UNANSWERED_AGAIN_AFTER_MAX },
        merge: MergeRule::Keep,
        concurrency: Some(at_once_max),
        lease_name: Some("bots:{key}"),
        ..KindSpec::new(KindName::new(SUPERVISE_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn supervisor(work: &BotWork, options: SuperviseOptions) -> Arc<dyn Handler> {
    Arc::new(Supervisor { announcer: work.announcer(), work: work.clone(), options })
}

struct Supervisor {
    work: BotWork,
    announcer: Announcer,
    options: SuperviseOptions,
}

/// Why a run could not do what is due.
enum Trouble {
    Store(StoreError),
    Unanswered(Unanswered),
}

#[async_trait]
impl Handler for Supervisor {
    fn spec(&self) -> KindSpec {
        supervisor_spec(self.options.at_once_max)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let outcome = self.look_after(&context).await.unwrap_or_else(|trouble| {
            let error = match trouble {
                Trouble::Store(error) => JobError::new("storage", error.to_string()),
                Trouble::Unanswered(error) => {
                    self.work.metrics.launcher_called("unanswered");
                    JobError::new("launcher_unanswered", error.to_string())
                }
            };
            Outcome::Retry { error, after: None }
        });
        outcome.into()
    }
}

impl Supervisor {
    async fn look_after(&self, context: &JobContext) -> Result<Outcome, Trouble> {
        let Some(meeting) = meeting_of(&context.job) else { return Ok(done()) };
        let Some(record) = self.work.store.bot(meeting).await? else { return Ok(done()) };
        match (record.status, &record.bot.stop) {
            (status, _) if status.is_over() => {
                self.launcher().remove(record.workload()).await?;
                failpoint::hit("bots.removed");
                Ok(done())
            }
            (_, Some(wish)) => self.stop(context, &record, wish.at).await,
            (BotStatus::Reserved, None) => self.launch(context, &record).await,
            // It spoke before the answer to its launch was written.
            (_, None) if record.meeting.container_id.is_none() => {
                self.name_container(context, &record).await
            }
            // It speaks for itself now, and the sweep listens.
            (_, None) => Ok(done()),
        }
    }

    async fn name_container(
        &self,
        context: &JobContext,
        record: &BotRecord,
    ) -> Result<Outcome, Trouble> {
        let workload = record.workload();
        if let Sighting::Running { handle } = self.launcher().look(workload).await? {
            self.work.store.bot_launched(workload, handle, context.lease).await?;
        }
        Ok(done())
    }

    async fn launch(&self, context: &JobContext, record: &BotRecord) -> Result<Outcome, Trouble> {
        let workload = record.workload();
        let spec = launch_spec(record, &self.options.launch);
        failpoint::hit("bots.launching");
        match self.launcher().ensure(&spec).await? {
            Launched::Running { handle } => {
                self.work.metrics.launcher_called("running");
                let store = &self.work.store;
                let kept = store.bot_launched(workload, handle, context.lease).await?;
                failpoint::hit("bots.launched");
                // Otherwise the bot has ended meanwhile, and must be cleared away.
                Ok(if kept { done() } else { self.again(CHANGED_AGAIN_AFTER, None) })
            }
            Launched::Exited { .. } if record.bot.attempt < self.options.attempts_max => {
                self.work.metrics.launcher_called("exited");
                self.launcher().remove(workload).await?;
                failpoint::hit("bots.removed");
                self.work.store.next_attempt(workload, context.lease).await?;
                Ok(self.again(Duration::ZERO, None))
            }
            Launched::Exited { exit_code } => {
                self.work.metrics.launcher_called("exited");
                let reason = Some("exited_before_start".to_owned());
                let report = ExitReport { exit_code, reason, ..ExitReport::default() };
                self.happened(context, record, BotEvent::Exited(report)).await
            }
            Launched::Refused { reason } => {
                self.work.metrics.launcher_called("refused");
                tracing::warn!(meeting = meeting_number(record), %reason, "a launch was refused");
                let reason = reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX);
                self.happened(context, record, BotEvent::Absent { reason: reason.collect() }).await
            }
        }
    }

    /// Asks, then signals, then kills, by the time since the wish.
    async fn stop(
        &self,
        context: &JobContext,
        record: &BotRecord,
        wished_at: Timestamp,
    ) -> Result<Outcome, Trouble> {
        let (workload, now) = (record.workload(), self.work.clock.now());
        let times = self.stop_times(record, wished_at);
        let mut told_at = told_at(&context.job.payload);
        if times.kill_is_due(told_at, now) {
            let removed = self.launcher().remove(workload).await?;
            failpoint::hit("bots.removed");
            return self.happened(context, record, stopped(removed.exit_code, "killed")).await;
        }
        // Repeated, for the first one may have come before the bot listened.
        self.announcer.command_leave(record);
        if now >= times.signal_at && told_at.is_none() {
            self.launcher().terminate(workload).await?;
            told_at = Some(now);
        }
        match self.launcher().look(workload).await? {
            Sighting::Exited { exit_code } => {
                self.happened(context, record, stopped(exit_code, "stopped")).await
            }
            Sighting::Absent => self.happened(context, record, stopped(None, "stopped")).await,
            Sighting::Running { .. } => {
                let wait = match told_at {
                    Some(at) => LOOK_AGAIN_AFTER.min((at + self.options.kill_grace).since(now)),
                    None => LEAVE_AGAIN_AFTER.min(times.signal_at.since(now)),
                };
                Ok(self.again(wait, told_at))
            }
        }
    }

    fn stop_times(&self, record: &BotRecord, wished_at: Timestamp) -> StopTimes {
        // A bot that has not said anything yet is in no meeting that it would have to leave.
        let leave_grace = match record.status {
            BotStatus::Reserved => Duration::ZERO,
            _ => self.options.leave_grace,
        };
        StopTimes { signal_at: wished_at + leave_grace, kill_grace: self.options.kill_grace }
    }

    /// There is proof that no bot runs.
    async fn happened(
        &self,
        context: &JobContext,
        record: &BotRecord,
        event: BotEvent,
    ) -> Result<Outcome, Trouble> {
        let happened = BotHappened {
            workload: record.workload(),
            connection: None,
            event,
            source: Source::Supervisor,
            beats: false,
        };
        let now = self.work.clock.now();
        let answer = self.work.store.bot_event(happened, Some(context.lease), now).await?;
        failpoint::hit("bots.event");
        Ok(match answer {
            EventAnswer::Changed(announced) => {
                self.announcer.announce(&announced);
                // The end has brought one more job, which clears away.
                done()
            }
            EventAnswer::Unchanged(_) | EventAnswer::NoSuchBot => done(),
            EventAnswer::Superseded | EventAnswer::Refused { .. } => {
                self.again(CHANGED_AGAIN_AFTER, None)
            }
            EventAnswer::LeaseLost => Outcome::Release,
        })
    }

    /// The next look; `told_at` is when the bot got its signal.
    fn again(&self, wait: Duration, told_at: Option<Timestamp>) -> Outcome {
        let payload = told_at.map(|at| Json::from_stored(at.as_micros().to_string()));
        let payload = Some(payload.unwrap_or_else(Json::null));
        Outcome::Again { at: self.work.clock.now() + wait, payload }
    }

    fn launcher(&self) -> &dyn Launcher {
        self.work.launcher.as_ref()
    }
}

/// When a bot that does not leave is helped.
#[derive(Debug, Clone, Copy)]
struct StopTimes {
    signal_at: Timestamp,
    kill_grace: Duration,
}

impl StopTimes {
    /// The time since the signal decides. When the job's note of the signal was lost, because
    /// somebody repeated the wish meanwhile, the time since the wish does; but not long after it,
    /// for then nobody may have looked in between, and the bot gets its signal first.
    fn kill_is_due(self, told_at: Option<Timestamp>, now: Timestamp) -> bool {
        let kill_at = told_at.unwrap_or(self.signal_at) + self.kill_grace;
        now >= kill_at && (told_at.is_some() || now < kill_at + self.kill_grace)
    }
}

/// A bot that was asked to stop is proven not to run.
fn stopped(exit_code: Option<i32>, reason: &str) -> BotEvent {
    let Some(code) = exit_code else { return BotEvent::Absent { reason: reason.to_owned() } };
    // A crash is told by its own word.
    let orderly = matches!(code, 0 | 130 | 137 | 143);
    BotEvent::Exited(ExitReport {
        exit_code: Some(code),
        reason: orderly.then(|| reason.to_owned()),
        ..ExitReport::default()
    })
}

fn told_at(payload: &Json) -> Option<Timestamp> {
    payload.to_value().as_i64().map(Timestamp::from_micros)
}

/// The job's key is the meeting's number.
pub(super) fn meeting_of(job: &JobFacts) -> Option<MeetingId> {
    job.key.as_ref()?.as_str().parse().ok().map(MeetingId::new)
}

pub(super) fn done() -> Outcome {
    Outcome::Done { result: Json::null() }
}

fn meeting_number(record: &BotRecord) -> i64 {
    record.meeting.id.get()
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Store(error)
    }
}

impl From<Unanswered> for Trouble {
    fn from(error: Unanswered) -> Self {
        Trouble::Unanswered(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_gets_its_signal_before_it_is_killed() {
        let at = |secs: u64| Timestamp::EPOCH + Duration::from_secs(secs);
        let times = StopTimes { signal_at: at(30), kill_grace: Duration::from_secs(8) };
        let cases = [
            (None, 29, false),
            (Some(30), 37, false),
            (Some(30), 38, true),
            // The note was lost.
            (None, 38, true),
            (None, 45, true),
            // Nobody looked for a long time.
            (None, 46, false),
            (Some(500), 507, false),
            (Some(500), 508, true),
        ];
        for (told, now, due) in cases {
            assert_eq!(times.kill_is_due(told.map(at), at(now)), due, "{told:?} at {now}");
        }
    }
}

//! The service: what producers, users and operators ask of transcripts.
//!
//! Invariant: everything it says was read from the database, and everything it is told is there
//! before it answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, MeetingTokens};
use roundsman_core::effects::{Frame, FrameChannel};
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    BotTarget, Bus, Clock, MessageAnswer, NewMessage, Random, Rename, Rewritten, SearchHit,
    SearchPage, SettleRequest, Store, StoreError, Transcript, TranscriptCache,
};
use roundsman_core::transcripts::{NAME_CHARS_MAX, SearchQuery, SpeakerEvent, TranscriptionFilter};
use roundsman_core::users::UserId;
use tokio_util::task::TaskTracker;

use super::TranscriptLimits;
use super::cache::Mirror;
use super::collector::Collector;
use super::hub::Hub;
use super::ingest::{Versions, Warned};
use super::listener::Listener;
use super::publish::FramePublisher;
use super::ring::RingLimits;
use crate::bots::nameable;
use crate::jobs::Batcher;
use crate::metrics::Metrics;
use crate::{Error, FieldError};

/// What the service is made of.
#[derive(Clone)]
pub struct TranscriptsDeps {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub bus: Arc<dyn Bus>,
    /// The cache that others read, if somebody does.
    pub cache: Option<Arc<dyn TranscriptCache>>,
    pub metrics: Metrics,
    pub tokens: MeetingTokens,
    pub filter: Arc<TranscriptionFilter>,
    pub limits: TranscriptLimits,
    /// Where frames are sent, so that a shutdown can wait for them.
    pub tasks: TaskTracker,
}

/// Takes, shows, changes and deletes transcripts, and lets listen to them. Cheap to clone.
#[derive(Clone)]
pub struct Transcripts {
    inner: Arc<Inner>,
}

struct Inner {
    deps: TranscriptsDeps,
    hub: Hub,
    collector: Collector,
    messages: Batcher<NewMessage, MessageAnswer>,
    speakers: Batcher<(MeetingId, SpeakerEvent), ()>,
    versions: Versions,
    warned: Warned,
}

impl Transcripts {
    pub fn new(deps: TranscriptsDeps) -> Self {
        let TranscriptsDeps { store, clock, bus, cache, metrics, limits, tasks, .. } = &deps;
        let rings = RingLimits {
            frames_max: limits.ring_frames_max,
            bytes_max: limits.ring_bytes_max,
            all_bytes_max: limits.rings_bytes_max,
            all_bytes: Arc::new(AtomicUsize::new(0)),
        };
        let hub =
            Hub::new(store.clone(), bus.clone(), clock.clone(), metrics.clone(), rings, limits);
        let frames = FramePublisher::new(
            store.clone(),
            clock.clone(),
            bus.clone(),
            metrics.clone(),
            hub.clone(),
            tasks.clone(),
        );
        let mirror = Mirror::new(cache.clone(), store.clone(), clock.clone(), metrics.clone());
        let (store, clock, metrics) = (store.clone(), clock.clone(), metrics.clone());
        let collector = Collector { store, clock, metrics, frames, mirror };
        // Not the process's tracker: these tasks live as long as somebody can still call.
        let own_tasks = TaskTracker::new();
        let (takes, hears) = (collector.clone(), collector.clone());
        let items_max = limits.batch_messages_max;
        let messages = Batcher::start_up_to(items_max, &own_tasks, move |messages| {
            let collector = takes.clone();
            async move { collector.take(messages).await }
        });
        let speakers = Batcher::start_up_to(items_max, &own_tasks, move |events| {
            let collector = hears.clone();
            async move { hear_all(&collector, events).await }
        });
        let (versions, warned) = (Versions::default(), Warned::default());
        let inner = Inner { deps, hub, collector, messages, speakers, versions, warned };
        Transcripts { inner: Arc::new(inner) }
    }

    /// What was said in a meeting, in no order. `None` if the user has no such meeting.
    pub async fn transcript(
        &self,
        user: UserId,
        target: BotTarget,
        since: Option<i64>,
    ) -> Result<Option<Transcript>, StoreError> {
        if !nameable(&target) {
            return Ok(None);
        }
        self.store().transcript(user, target, since).await
    }

    /// Segments of a user's meetings with these words, the newest first.
    pub async fn search(
        &self,
        user: UserId,
        query: SearchQuery,
        page: SearchPage,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let rows_max = page.rows_max.clamp(1, self.limits().page_rows_max);
        self.store().search_transcripts(user, query, SearchPage { rows_max, ..page }).await
    }

    /// Calls a speaker by another name, in all that was said and will be said. `None` if the user
    /// has no such meeting.
    pub async fn rename_speaker(
        &self,
        user: UserId,
        target: BotTarget,
        rename: Rename,
    ) -> Result<Option<Rewritten>, Error> {
        let names = [("from", &rename.from), ("to", &rename.to)];
        let problems: Vec<FieldError> =
            names.into_iter().filter_map(|(field, name)| check_name(field, name)).collect();
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        if !nameable(&target) {
            return Ok(None);
        }
        let now = self.clock().now();
        let rewritten = self.store().rename_speaker(user, target, rename, now).await?;
        if let Some(rewritten) = &rewritten {
            self.frames().publish(&rewritten.frames);
            self.mirror().changed(rewritten.meeting_id, &rewritten.live).await;
        }
        Ok(rewritten)
    }

    /// Deletes all that was said in a meeting. `None` if the user has no such meeting.
    pub async fn delete(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<Option<Rewritten>, StoreError> {
        if !nameable(&target) {
            return Ok(None);
        }
        let now = self.clock().now();
        let deleted = self.store().delete_transcript(user, target, now).await?;
        if let Some(deleted) = &deleted {
            let before = deleted.frames.first().map(|frame| frame.seq - 1);
            self.inner.hub.forget_before(deleted.meeting_id, before);
            self.frames().publish(&deleted.frames);
            self.mirror().forget(deleted.meeting_id, &deleted.sessions).await;
        }
        Ok(deleted)
    }

    /// One who listens; who may listen to which meeting is for the caller to know.
    pub fn listen(&self) -> Listener {
        Listener::new(self.inner.hub.clone())
    }

    /// Meetings that somebody on this node listens to.
    pub fn meetings_listened_to(&self) -> usize {
        self.inner.hub.meeting_count()
    }

    /// Finds frames that the bus has lost for listeners here. Every two seconds is often enough.
    pub async fn look(&self) -> Result<(), StoreError> {
        self.inner.hub.tick().await
    }

    /// Writes down which frames were published, and repairs what is known to be wrong in the cache.
    /// Every second, on every node.
    pub async fn tick(&self) -> Result<(), StoreError> {
        let noted = self.frames().tick().await;
        let repaired = self.mirror().repair_suspects().await;
        noted.and(repaired)
    }

    /// Something has happened to a meeting's bot, which may have moved what was said: these frames
    /// were committed with it.
    pub(crate) fn announce(&self, meeting: MeetingId, frames: &[Frame]) {
        self.frames().publish(frames);
        let said = frames.iter().filter(|frame| frame.channel() == FrameChannel::Transcript);
        let said = said.count();
        if said > 0 {
            self.metrics().transcript_frames(said);
            self.mirror().moved(meeting);
        }
    }

    /// All of a meeting becomes final at once. Returns its sessions.
    pub(crate) async fn settle_all(
        &self,
        meeting: MeetingId,
        guard: Option<LeaseRef>,
    ) -> Result<Vec<String>, StoreError> {
        loop {
            let request = self.settle_request(None);
            let settled = self.collector().settle(meeting, request, guard).await?;
            // The latter without a lease, or while somebody else is at it.
            if settled.left == 0 || settled.gone.is_empty() {
                return Ok(settled.sessions);
            }
        }
    }

    /// What is kept of a meeting outside the database, for when it can no longer be asked for.
    pub(crate) async fn traces(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<Option<Traces>, StoreError> {
        let Some(row) = self.store().meeting(user, target).await? else { return Ok(None) };
        let meeting = row.meeting.id;
        let connection = row.bot.map(|bot| bot.connection_id.as_str().to_owned());
        let mut sessions: BTreeSet<String> = connection.into_iter().collect();
        if self.mirror().exists() {
            let target = BotTarget::Meeting(meeting);
            let transcript = self.store().transcript(user, target, None).await?;
            let lines = transcript.map(|transcript| transcript.lines).unwrap_or_default();
            sessions.extend(lines.into_iter().filter_map(|line| line.segment.key.session_uid));
        }
        Ok(Some(Traces { meeting, sessions: sessions.into_iter().collect() }))
    }

    /// What was said in a meeting was deleted: nothing of it is to be read any more.
    pub(crate) async fn forget(&self, traces: &Traces) {
        self.inner.hub.forget_before(traces.meeting, None);
        self.clear_cache(traces.meeting, &traces.sessions).await;
    }

    /// A meeting is over: nothing of it is to be left in the cache.
    pub(crate) async fn clear_cache(&self, meeting: MeetingId, sessions: &[String]) {
        self.mirror().forget(meeting, sessions).await;
    }

    pub(super) fn frames(&self) -> &FramePublisher {
        &self.inner.collector.frames
    }

    pub(super) fn collector(&self) -> &Collector {
        &self.inner.collector
    }

    pub(super) fn mirror(&self) -> &Mirror {
        &self.inner.collector.mirror
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.deps.store
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.deps.clock
    }

    pub(super) fn random(&self) -> &Arc<dyn Random> {
        &self.inner.deps.random
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.inner.deps.metrics
    }

    pub(super) fn tokens(&self) -> &MeetingTokens {
        &self.inner.deps.tokens
    }

    pub(super) fn limits(&self) -> &TranscriptLimits {
        &self.inner.deps.limits
    }

    pub(super) fn messages(&self) -> &Batcher<NewMessage, MessageAnswer> {
        &self.inner.messages
    }

    pub(super) fn speakers(&self) -> &Batcher<(MeetingId, SpeakerEvent), ()> {
        &self.inner.speakers
    }

    pub(super) fn versions(&self) -> &Versions {
        &self.inner.versions
    }

    pub(super) fn warned(&self) -> &Warned {
        &self.inner.warned
    }

    /// Segments that have not changed since then, or all.
    pub(super) fn settle_request(&self, stable_before: Option<Timestamp>) -> SettleRequest {
        let TranscriptsDeps { filter, limits, .. } = &self.inner.deps;
        SettleRequest { stable_before, filter: filter.clone(), rows_max: limits.settled_rows_max }
    }
}

/// What is kept of a meeting outside the database.
pub(crate) struct Traces {
    meeting: MeetingId,
    sessions: Vec<String>,
}

impl std::fmt::Debug for Transcripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transcripts").field("limits", self.limits()).finish_non_exhaustive()
    }
}

async fn hear_all(
    collector: &Collector,
    events: Vec<(MeetingId, SpeakerEvent)>,
) -> Result<Vec<()>, StoreError> {
    let answers = vec![(); events.len()];
    let events = events.into_iter().map(|(meeting, event)| (Some(meeting), event)).collect();
    collector.hear(events).await?;
    Ok(answers)
}

fn check_name(field: &str, name: &str) -> Option<FieldError> {
    let fits = !name.trim().is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.chars().any(char::is_control);
    let problem =
        format!("must be 1 to {NAME_CHARS_MAX} characters, none of them control characters");
    (!fits).then(|| FieldError::new(field, problem))
}

//! Recordings, and what people say about being recorded.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Effects, Frame};
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{
    AnnounceAnswer, BeginAnswer, FinishAnswer, RecordingFilter, RecordingStore, Scope, StoreError,
};
use roundsman_core::recordings::{
    self, Announcement, Changed, Consent, Media, Recording, RecordingId, RecordingStatus,
    SpokenSegment, erase_wish, nearest, session_uid,
};
use roundsman_core::transcripts::{Line, Segment, mutable_frames};
use roundsman_core::users::UserId;

use super::heard::{segment, storable};
use super::{Reference, State, next_id, sees};

/// What was recorded.
#[derive(Default)]
pub(super) struct Recorded {
    rows: BTreeMap<RecordingId, Recording>,
    consents: BTreeMap<(MeetingId, String), Consent>,
    cursor: Option<RecordingId>,
}

#[async_trait]
impl RecordingStore for Reference {
    async fn announce_recordings(
        &self,
        announcements: Vec<Announcement>,
        now: Timestamp,
    ) -> Result<Vec<AnnounceAnswer>, StoreError> {
        let mut state = self.lock();
        let announce = |announcement: Announcement| {
            let known = state.recorded.rows.get(&announcement.id).cloned();
            let mut announced = recordings::announce(known, announcement, now);
            if !announced.is_repeated {
                announced.recording.no = next_id(state.recorded.rows.len());
            }
            for step in &mut announced.effects.transitions {
                step.entity_id = announced.recording.no;
            }
            let (recording, effects) = (announced.recording, announced.effects);
            let recording = state.put_recording(&self.rules, Changed { recording, effects }, now);
            AnnounceAnswer { recording, is_repeated: announced.is_repeated }
        };
        Ok(announcements.into_iter().map(announce).collect())
    }

    async fn known_recordings(&self, ids: Vec<RecordingId>) -> Result<Vec<bool>, StoreError> {
        let rows = &self.lock().recorded.rows;
        Ok(ids.iter().map(|id| rows.contains_key(id)).collect())
    }

    async fn recording(
        &self,
        scope: Scope,
        id: RecordingId,
    ) -> Result<Option<Recording>, StoreError> {
        let rows = &self.lock().recorded.rows;
        Ok(rows.get(&id).filter(|recording| is_theirs(scope, recording)).cloned())
    }

    async fn recordings(
        &self,
        scope: Scope,
        filter: RecordingFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<Recording>, StoreError> {
        let wanted = |recording: &Recording| {
            is_theirs(scope, recording)
                && before.is_none_or(|before| recording.no < before)
                && filter.status.is_none_or(|status| recording.status == status)
                && (filter.meeting.is_none() || recording.meeting_id == filter.meeting)
        };
        let mut found = self.lock().recorded.all(wanted);
        found.reverse();
        found.truncate(rows_max as usize);
        Ok(found)
    }

    async fn begin_recording(
        &self,
        id: RecordingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<BeginAnswer, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(BeginAnswer::LeaseLost);
        }
        let Some(known) = state.recorded.rows.get(&id).cloned() else {
            return Ok(BeginAnswer::NotFound);
        };
        if known.status == RecordingStatus::Completed {
            return Ok(BeginAnswer::Done);
        }
        if known.is_anonymous() {
            state.put_recording(&self.rules, recordings::abandon(known, now), now);
            return Ok(BeginAnswer::Done);
        }
        let Some((meeting, owner)) = state.meeting_of(&known) else {
            return Ok(BeginAnswer::NoMeeting);
        };
        let changed = recordings::begin(known, meeting, owner, now);
        Ok(BeginAnswer::Begun(Box::new(state.put_recording(&self.rules, changed, now))))
    }

    async fn keep_media(
        &self,
        id: RecordingId,
        media: Vec<Media>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        Ok(state.rewrite(&id, guard, |known| recordings::keep(known, media, now)))
    }

    async fn finish_recording(
        &self,
        id: RecordingId,
        spoken: Vec<SpokenSegment>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<FinishAnswer, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(FinishAnswer::LeaseLost);
        }
        let Some(known) = state.recorded.rows.get(&id).cloned() else {
            return Ok(FinishAnswer::NotFound);
        };
        if known.status == RecordingStatus::Completed {
            return Ok(FinishAnswer::Done);
        }
        let Some(meeting) = known.meeting_id else { return Ok(FinishAnswer::NotFound) };
        if known.is_anonymous() {
            state.put_recording(&self.rules, recordings::abandon(known, now), now);
            return Ok(FinishAnswer::Saved { meeting, frames: vec![] });
        }
        let (frames, count) = state.save(&self.rules, &known, meeting, spoken, now);
        let is_denied = state.recorded.is_denied(meeting);
        let changed = recordings::finish(known, count, is_denied, now);
        state.put_recording(&self.rules, changed, now);
        Ok(FinishAnswer::Saved { meeting, frames })
    }

    async fn fail_recording(
        &self,
        id: RecordingId,
        error: String,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let known = state.recorded.rows.get(&id).filter(|_| state.holds(guard)).cloned();
        let Some(known) = known else { return Ok(false) };
        if known.status != RecordingStatus::Completed {
            let changed = if known.is_anonymous() {
                recordings::abandon(known, now)
            } else {
                recordings::fail(known, error.replace('\0', ""), now)
            };
            state.put_recording(&self.rules, changed, now);
        }
        Ok(true)
    }

    async fn retry_recordings(
        &self,
        scope: Scope,
        id: Option<RecordingId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<u32, StoreError> {
        let mut state = self.lock();
        let mut failed = state.recorded.all(|recording| {
            recording.status == RecordingStatus::Failed
                && is_theirs(scope, recording)
                && id.as_ref().is_none_or(|id| recording.id == *id)
        });
        failed.truncate(rows_max as usize);
        let count = failed.len();
        for known in failed {
            state.put_recording(&self.rules, recordings::retry(known, now), now);
        }
        Ok(u32::try_from(count).expect("a test writes few rows"))
    }

    async fn set_consent(
        &self,
        scope: Scope,
        meeting: MeetingId,
        consent: Consent,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let found = state.rooms.find(scope, meeting);
        if found.is_none_or(|meeting| meeting.room.as_str().is_empty()) {
            return Ok(false);
        }
        let Consent { person, given, at } = consent;
        let person = person.replace('\0', "");
        let key = (meeting, person.clone());
        if state.recorded.consents.get(&key).is_none_or(|known| known.at <= at) {
            state.recorded.consents.insert(key, Consent { person, given, at });
        }
        if !given {
            let jobs = vec![erase_wish(meeting, at)];
            state.apply(&self.rules, Effects { jobs, ..Effects::default() }, at);
        }
        Ok(true)
    }

    async fn consents(&self, meeting: MeetingId) -> Result<Vec<Consent>, StoreError> {
        let consents = &self.lock().recorded.consents;
        let of_meeting = consents.iter().filter(|((of, _), _)| *of == meeting);
        Ok(of_meeting.map(|(_, consent)| consent.clone()).collect())
    }

    async fn recordings_to_erase(&self, meeting: MeetingId) -> Result<Vec<Recording>, StoreError> {
        let recorded = &self.lock().recorded;
        let is_denied = recorded.is_denied(meeting);
        Ok(recorded.all(|recording| {
            recording.meeting_id == Some(meeting)
                && recording.erased_at.is_none()
                && (is_denied || recording.is_anonymous())
        }))
    }

    async fn media_erased(
        &self,
        id: RecordingId,
        error: Option<String>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let error = error.map(|error| error.replace('\0', ""));
        let mut state = self.lock();
        Ok(state.rewrite(&id, guard, |known| recordings::erase(known, error, now)))
    }

    async fn recording_cursor(&self) -> Result<Option<RecordingId>, StoreError> {
        Ok(self.lock().recorded.cursor.clone())
    }

    async fn set_recording_cursor(
        &self,
        id: RecordingId,
        _now: Timestamp,
    ) -> Result<(), StoreError> {
        self.lock().recorded.cursor = Some(id);
        Ok(())
    }

    async fn recording_counts(&self) -> Result<Vec<(RecordingStatus, u64)>, StoreError> {
        let mut counts: BTreeMap<RecordingStatus, u64> = BTreeMap::new();
        for recording in self.lock().recorded.rows.values() {
            *counts.entry(recording.status).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }
}

impl Recorded {
    /// Those that are wanted, by ascending number.
    fn all(&self, wanted: impl Fn(&Recording) -> bool) -> Vec<Recording> {
        let mut found: Vec<Recording> =
            self.rows.values().filter(|recording| wanted(recording)).cloned().collect();
        found.sort_by_key(|recording| recording.no);
        found
    }

    fn is_denied(&self, meeting: MeetingId) -> bool {
        self.consents.iter().any(|((of, _), consent)| *of == meeting && !consent.given)
    }

    /// Tables of which traces are looked for.
    pub(super) fn tables(&self) -> [(&'static str, String); 2] {
        [("recordings", format!("{:?}", self.rows)), ("consents", format!("{:?}", self.consents))]
    }
}

impl State {
    /// Does what the rules say.
    fn put_recording(
        &mut self,
        rules: &KindCatalog,
        Changed { recording, effects }: Changed,
        now: Timestamp,
    ) -> Recording {
        self.recorded.rows.insert(recording.id.clone(), recording.clone());
        self.apply(rules, effects, now);
        recording
    }

    /// Changes a recording that is there, under a lease that is held.
    fn rewrite(
        &mut self,
        id: &RecordingId,
        guard: LeaseRef,
        change: impl FnOnce(Recording) -> Recording,
    ) -> bool {
        let known = self.recorded.rows.get(id).filter(|_| self.holds(guard)).cloned();
        let Some(known) = known else { return false };
        self.recorded.rows.insert(id.clone(), change(known));
        true
    }

    /// The meeting that a recording is of, and whose it is.
    fn meeting_of(&self, recording: &Recording) -> Option<(MeetingId, UserId)> {
        let meeting = recording.meeting_id.or_else(|| {
            let began = self.rooms.all_in(&recording.room);
            let began = began.map(|one| (one.id, one.started_at.unwrap_or(one.created_at)));
            nearest(recording.started_at, began)
        })?;
        Some((meeting, self.meetings[&meeting].user_id))
    }

    /// Writes what was heard as final rows, and tells of it.
    fn save(
        &mut self,
        rules: &KindCatalog,
        recording: &Recording,
        meeting: MeetingId,
        spoken: Vec<SpokenSegment>,
        now: Timestamp,
    ) -> (Vec<Frame>, u32) {
        let uid = session_uid(&recording.id);
        self.set_start(meeting, &uid, recording.started_at);
        let mut segments: Vec<Segment> = Vec::new();
        for mut one in spoken.into_iter().flat_map(storable) {
            let name = one.speaker.as_ref();
            let name = name.and_then(|name| self.speech.names.get(&(meeting, name.clone())));
            one.speaker = name.cloned().or(one.speaker);
            segments.push(segment(&uid, segments.len() + 1, one, now));
        }
        let lines: Vec<Line> =
            segments.iter().map(|segment| self.line(meeting, segment.clone(), true)).collect();
        let frames = self.append(rules, mutable_frames(meeting, &lines, now), now);
        let count = u32::try_from(segments.len()).expect("a test writes few rows");
        for mut segment in segments {
            segment.seq = frames.last().map_or(0, |frame| frame.seq);
            self.add_row(meeting, segment, now);
        }
        (frames, count)
    }

    /// Forgets what the recordings of a meeting that is over say of anybody.
    pub(super) fn forget_recordings(
        &mut self,
        rules: &KindCatalog,
        id: MeetingId,
        owner: UserId,
        now: Timestamp,
    ) {
        let is_of = |recording: &Recording| {
            !recording.is_anonymous()
                && self.meeting_of(recording).is_some_and(|(meeting, _)| meeting == id)
        };
        for known in self.recorded.all(is_of) {
            self.put_recording(rules, recordings::forget(known, id, owner, now), now);
        }
        self.recorded.consents.retain(|(of, _), _| *of != id);
    }
}

fn is_theirs(scope: Scope, recording: &Recording) -> bool {
    recording.user_id.map_or(scope == Scope::All, |owner| sees(scope, owner))
}

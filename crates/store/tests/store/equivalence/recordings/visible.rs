//! Everything that can be seen of recordings in a store. Its numbers are translated into places of
//! appearance, because a database may skip numbers.

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::{Frame, LoggedTransition, replay};
use roundsman_core::jobs::{Job, Json};
use roundsman_core::ports::{
    BotTarget, ListFilter, ListPage, RecordingFilter, Scope, SearchPage, StoreError,
};
use roundsman_core::recordings::{
    Consent, ERASE_KIND, PROCESS_KIND, RECORDING_ENTITY, Recording, RecordingId, RecordingStatus,
    session_uid,
};
use roundsman_core::transcripts::{Line, SearchQuery, in_order};
use roundsman_core::webhooks::DELIVER_KIND;
use roundsman_store::conformance::kind;
use serde_json::Value;

use super::subject::Subject;

/// By places.
#[derive(Debug, PartialEq)]
pub(super) struct Visible {
    recordings: Vec<Recorded>,
    /// The ids that each user sees, and how many of each state there are.
    theirs: Vec<Vec<RecordingId>>,
    counts: Vec<(RecordingStatus, u64)>,
    cursor: Option<RecordingId>,
    meetings: Vec<Said>,
    jobs: Vec<String>,
    events: Vec<Value>,
}

#[derive(Debug, PartialEq)]
struct Recorded {
    recording: Recording,
    log: Vec<String>,
    state: String,
}

/// What was said in a meeting, and about its being recorded.
#[derive(Debug, PartialEq)]
struct Said {
    consents: Vec<Consent>,
    to_erase: Vec<RecordingId>,
    lines: Vec<Line>,
    frames: Vec<(i64, Timestamp, Value)>,
    found: Vec<Line>,
}

impl Subject {
    pub(super) async fn look(&self, now: Timestamp) -> Result<Visible, StoreError> {
        let store = &self.store;
        let all = RecordingFilter::default();
        let found = store.recordings(Scope::All, all.clone(), None, 1000).await?;
        let mut recordings = Vec::new();
        for recording in found {
            recordings.push(self.recorded(recording).await?);
        }
        let mut theirs = Vec::new();
        for user in &self.users {
            let found = store.recordings(Scope::User(*user), all.clone(), None, 1000).await?;
            theirs.push(found.into_iter().map(|recording| recording.id).collect());
        }
        let mut counts = store.recording_counts().await?;
        counts.retain(|(status, count)| *status != RecordingStatus::Completed && *count > 0);
        counts.sort_unstable();
        let mut meetings = Vec::new();
        for (id, _) in &self.meetings {
            meetings.push(self.said(*id).await?);
        }
        let events = store.webhook_events(0, 1000).await?;
        let ready = events.iter().filter(|(_, event)| event.event_type == "recording.ready");
        let events = ready.map(|(_, event)| self.about_meeting(&event.body)).collect();
        Ok(Visible {
            recordings,
            theirs,
            counts,
            cursor: store.recording_cursor().await?,
            meetings,
            jobs: self.jobs(now).await?,
            events,
        })
    }

    async fn recorded(&self, recording: Recording) -> Result<Recorded, StoreError> {
        let found = self.store.recording(Scope::All, recording.id.clone()).await?;
        assert_eq!(found.as_ref(), Some(&recording), "it is as it is listed");
        let log = self.store.transitions(RECORDING_ENTITY.to_owned(), recording.no).await?;
        let state = replay(&log).map_err(|broken| StoreError::Failed(broken.into()))?;
        let state = state.unwrap_or_default().to_owned();
        let step = |step: &LoggedTransition| {
            format!("{:?} {} {} {}", step.from_state, step.to_state, step.cause, step.at)
        };
        let log = log.iter().map(step).collect();
        Ok(Recorded { recording: self.placed(recording), log, state })
    }

    async fn said(&self, id: MeetingId) -> Result<Said, StoreError> {
        let store = &self.store;
        let owner = self.meetings[usize::try_from(self.place(id).get()).expect("a place")].1;
        let transcript = store.transcript(owner, BotTarget::Meeting(id), None).await?;
        let frames = store.frames(stream_of(id), 0, 1000).await?;
        let query = SearchQuery::parse("alpha").expect("a query");
        let page = SearchPage { before: None, rows_max: 1000 };
        let hits = store.search_transcripts(owner, query, page).await?;
        let hits = hits.into_iter().filter(|hit| hit.meeting_id == id);
        let to_erase = store.recordings_to_erase(id).await?;
        Ok(Said {
            consents: store.consents(id).await?,
            to_erase: to_erase.into_iter().map(|recording| recording.id).collect(),
            lines: in_order(transcript.expect("it was made").lines),
            frames: frames.iter().map(|frame| unordered(self.told(frame))).collect(),
            found: hits.map(|hit| hit.line).collect(),
        })
    }

    /// The jobs that recordings bring, oldest first.
    async fn jobs(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let mut told = Vec::new();
        for name in [PROCESS_KIND, ERASE_KIND, DELIVER_KIND] {
            let filter = ListFilter { kind: Some(kind(name)), ..ListFilter::default() };
            let page = ListPage { before: None, rows_max: 1000 };
            let jobs = self.store.jobs(Scope::All, filter, page, now).await?;
            let line = |job: &Job| {
                let facts = job.facts();
                let key = facts.key.as_ref().map_or("", |key| key.as_str());
                let key = if name == ERASE_KIND {
                    let meeting = MeetingId::new(key.parse().expect("a meeting's number"));
                    self.place(meeting).to_string()
                } else {
                    key.to_owned()
                };
                let state = job.state(now);
                format!("{name} {key} {state:?} {} {}", facts.run_at, facts.triggered_at)
            };
            told.extend(jobs.iter().rev().map(line));
        }
        Ok(told)
    }

    pub(super) fn place(&self, id: MeetingId) -> MeetingId {
        let place = self.meetings.iter().position(|(known, _)| *known == id);
        MeetingId::new(i64::try_from(place.expect("it was made")).expect("a test makes few"))
    }

    /// Its number says when it appeared, and nothing else.
    pub(super) fn placed(&self, mut recording: Recording) -> Recording {
        recording.no = 0;
        recording.meeting_id = recording.meeting_id.map(|id| self.place(id));
        recording
    }

    pub(super) fn told(&self, frame: &Frame) -> (i64, Timestamp, Value) {
        let mut body = frame.body.to_value();
        let id = MeetingId::new(body["meeting"]["id"].as_i64().expect("it names its meeting"));
        assert_eq!(frame.stream, stream_of(id));
        body["meeting"]["id"] = Value::from(self.place(id).get());
        (frame.seq, frame.at, body)
    }

    /// The body of an event about a recording.
    fn about_meeting(&self, body: &Json) -> Value {
        let mut body = body.to_value();
        for place in ["/recording/meeting_id", "/data/recording/meeting_id"] {
            let Some(number) = body.pointer_mut(place) else { continue };
            let id = MeetingId::new(number.as_i64().expect("a number"));
            *number = Value::from(self.place(id).get());
        }
        body
    }
}

/// The same with its segments sorted: where nobody gives their order, it is nobody's business.
fn unordered((seq, at, mut body): (i64, Timestamp, Value)) -> (i64, Timestamp, Value) {
    if let Some(Value::Array(segments)) = body.pointer_mut("/payload/segments") {
        segments.sort_by_key(Value::to_string);
    }
    (seq, at, body)
}

impl Visible {
    /// R8 and what follows from it: what must be so after any step.
    pub(super) fn follows(&self, before: Option<&Visible>) -> Result<(), String> {
        for one in &self.recordings {
            let Recorded { recording, state, .. } = one;
            if *state != recording.status.as_str() {
                return Err(format!("the log says {state}, the row {recording:?}"));
            }
            let uid = Some(session_uid(&recording.id));
            let is_its = |line: &&Line| line.segment.key.session_uid == uid;
            let lines = self.meetings.iter().flat_map(|said| &said.lines).filter(is_its).count();
            if lines > recording.segments as usize {
                return Err(format!("{lines} lines of {recording:?}"));
            }
            let is_waiting = |job: &&String| {
                let waits = job.contains("Pending") || job.contains("Scheduled");
                waits && job.starts_with(&format!("{PROCESS_KIND} {} ", recording.id.as_str()))
            };
            if self.jobs.iter().filter(is_waiting).count() > 1 {
                return Err(format!("more than one job waits for {recording:?}"));
            }
        }
        let Some(before) = before else { return Ok(()) };
        for Recorded { recording: was, .. } in &before.recordings {
            let mut now = self.recordings.iter().map(|one| &one.recording);
            let Some(now) = now.find(|now| now.id == was.id) else {
                return Err(format!("{was:?} is gone"));
            };
            let is_done = |one: &Recording| one.status == RecordingStatus::Completed;
            if is_done(was) && (!is_done(now) || now.segments != was.segments) {
                return Err(format!("{was:?} was done and is {now:?}"));
            }
            let has_moved = was.meeting_id.is_some() && was.meeting_id != now.meeting_id;
            if has_moved || now.repeats < was.repeats {
                return Err(format!("{was:?} has become {now:?}"));
            }
        }
        Ok(())
    }
}

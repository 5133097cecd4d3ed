//! Short names for what the cases of recordings do.

use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Frame, LoggedTransition, Transition, replay};
use roundsman_core::jobs::{Job, LeaseRef};
use roundsman_core::ports::{
    AnnounceAnswer, BeginAnswer, FinishAnswer, ListFilter, RecordingFilter, Scope, Transcript,
};
use roundsman_core::recordings::{
    self as rules, Announcement, Changed, Consent, Media, PROCESS_KIND, RECORDING_ENTITY,
    Recording, RecordingId, RecordingKind, RecordingStatus, SpokenSegment, Track, TrackMedium, Via,
    session_uid,
};
use roundsman_core::transcripts::{Line, in_order};

use super::attend::{Everything, all_events, by_number, everything, frames_of, meetings_of};
use super::fixture::Fixture;
use super::speak::{apply, shown};
use super::visit::{lease, meeting, room_name};
use super::wishes::{key, kind};

pub(super) fn recording_id(text: &str) -> RecordingId {
    RecordingId::new(text).expect("the suite names valid recordings")
}

/// A recording of a room that began now and is one file; an event told of it.
pub(super) fn announcement(fx: &Fixture, id: &str, room: &str) -> Announcement {
    Announcement {
        id: recording_id(id),
        room: room_name(room),
        kind: RecordingKind::Cloud,
        started_at: fx.now(),
        duration_ms: 60_000,
        tracks: vec![],
        via: Via::Event,
    }
}

pub(super) fn track(key: &str) -> Track {
    Track { medium: TrackMedium::Audio, key: key.to_owned(), bytes: Some(7) }
}

pub(super) async fn announce_all(
    fx: &Fixture,
    announcements: Vec<Announcement>,
) -> Vec<AnnounceAnswer> {
    let count = announcements.len();
    let answers = fx.store.announce_recordings(announcements, fx.now()).await;
    let answers = answers.expect("announce_recordings");
    assert_eq!(answers.len(), count, "one answer per announcement");
    answers
}

pub(super) async fn announce(fx: &Fixture, announcement: Announcement) -> AnnounceAnswer {
    announce_all(fx, vec![announcement]).await.remove(0)
}

/// Announces a recording that nobody knows.
pub(super) async fn new_recording(fx: &Fixture, announcement: Announcement) -> Recording {
    let answer = announce(fx, announcement).await;
    assert!(!answer.is_repeated, "nobody has told of it");
    answer.recording
}

pub(super) async fn find(fx: &Fixture, scope: Scope, id: &RecordingId) -> Option<Recording> {
    fx.store.recording(scope, id.clone()).await.expect("recording")
}

/// The recording as it is now.
pub(super) async fn recording(fx: &Fixture, id: &RecordingId) -> Recording {
    find(fx, Scope::All, id).await.unwrap_or_else(|| panic!("recording {id:?} is gone"))
}

pub(super) async fn recordings(
    fx: &Fixture,
    scope: Scope,
    filter: RecordingFilter,
) -> Vec<Recording> {
    fx.store.recordings(scope, filter, None, 100_000).await.expect("recordings")
}

pub(super) async fn begin(fx: &Fixture, id: &RecordingId, guard: LeaseRef) -> BeginAnswer {
    fx.store.begin_recording(id.clone(), guard, fx.now()).await.expect("begin_recording")
}

/// Begins under a lease of its own.
pub(super) async fn begun(fx: &Fixture, id: &RecordingId) -> (Recording, LeaseRef) {
    let guard = lease(fx).await;
    match begin(fx, id, guard).await {
        BeginAnswer::Begun(recording) => (*recording, guard),
        other => panic!("expected {id:?} to begin, got {other:?}"),
    }
}

/// A recording of a room's meeting that has begun, and the lease.
pub(super) async fn new_begun(fx: &Fixture, id: &str, room: &str) -> (Recording, LeaseRef) {
    let made = new_recording(fx, announcement(fx, id, room)).await;
    begun(fx, &made.id).await
}

pub(super) async fn finish(
    fx: &Fixture,
    id: &RecordingId,
    spoken: Vec<SpokenSegment>,
    guard: LeaseRef,
) -> FinishAnswer {
    let finished = fx.store.finish_recording(id.clone(), spoken, guard, fx.now()).await;
    finished.expect("finish_recording")
}

/// Saves a transcript, which must be the first, and compares everything that is answered and written
/// with what the rules say.
pub(super) async fn save(
    fx: &Fixture,
    id: &RecordingId,
    spoken: Vec<SpokenSegment>,
    guard: LeaseRef,
) -> Vec<Frame> {
    let known = recording(fx, id).await;
    let of = known.meeting_id.expect("it has begun");
    let (earlier, told) = (transcript(fx, of).await, frames_of(fx, of).await);
    let (log, events) = (log_of(fx, known.no).await, all_events(fx).await.len());
    let is_denied = consents(fx, of).await.iter().any(|consent| !consent.given);
    let FinishAnswer::Saved { meeting, frames } = finish(fx, id, spoken.clone(), guard).await
    else {
        panic!("expected {id:?} to be saved");
    };
    assert_eq!(meeting, of);
    let count = u32::try_from(spoken.len()).expect("few");
    let changed = rules::finish(known, count, is_denied, fx.now());
    assert_changed(fx, &log, &changed).await;
    let heard: Vec<_> = all_events(fx).await.into_iter().skip(events).collect();
    assert_eq!(heard.len(), changed.effects.webhooks.len(), "its owner is told");
    for ((_, event), expected) in heard.iter().zip(&changed.effects.webhooks) {
        assert_eq!(event.body.to_value(), expected.body.to_value());
        assert_eq!((event.user_id, &event.event_id), (expected.user_id, &expected.event_id));
    }
    assert_eq!(frames_of(fx, of).await, [told, frames.clone()].concat());
    assert!(frames.iter().all(|frame| frame.at == fx.now()));
    let now = transcript(fx, of).await;
    let lines = lines_of(&now, id);
    assert_eq!(sorted(as_spoken(&lines)), sorted(spoken));
    for line in &lines {
        assert!(line.kept, "{line:?} is final");
        assert_eq!(line.session_start, Some(changed.recording.started_at));
        assert_eq!((line.segment.created_at, line.segment.updated_at), (fx.now(), fx.now()));
        assert!(line.segment.seq > earlier.seq && line.segment.seq <= now.seq);
    }
    assert_replays(of, &earlier, &frames, &now);
    frames
}

/// The change of a recording, all of it and nothing else, is written.
pub(super) async fn assert_changed(fx: &Fixture, log: &[LoggedTransition], changed: &Changed) {
    let expected = &changed.recording;
    assert_eq!(recording(fx, &expected.id).await, *expected);
    let now = log_of(fx, expected.no).await;
    let (old, new) = now.split_at(log.len());
    assert_eq!(old, log);
    assert_eq!(new.iter().map(step).collect::<Vec<_>>(), changed.effects.transitions);
    assert!(new.iter().all(|step| step.at == fx.now()));
}

pub(super) fn step(step: &LoggedTransition) -> Transition {
    assert_eq!(step.entity, RECORDING_ENTITY);
    Transition {
        entity: RECORDING_ENTITY,
        entity_id: step.entity_id,
        from_state: step.from_state.clone(),
        to_state: step.to_state.clone(),
        cause: step.cause.clone(),
        detail: step.detail.clone(),
    }
}

/// T4: the frames after a reading make it the next one.
pub(super) fn assert_replays(
    meeting: MeetingId,
    earlier: &Transcript,
    frames: &[Frame],
    now: &Transcript,
) {
    let mut replayed = shown(meeting, &earlier.lines);
    for frame in frames.iter().filter(|frame| frame.seq > earlier.seq) {
        apply(&mut replayed, frame);
    }
    assert_eq!(replayed, shown(meeting, &now.lines));
}

/// What was said in a room's meeting, in order.
pub(super) async fn transcript(fx: &Fixture, id: MeetingId) -> Transcript {
    transcript_since(fx, id, None).await
}

pub(super) async fn transcript_since(
    fx: &Fixture,
    id: MeetingId,
    since: Option<i64>,
) -> Transcript {
    let owner = meeting(fx, id).await.user_id;
    let found = fx.store.transcript(owner, by_number(id), since).await;
    let mut found = found.expect("transcript").expect("it is theirs");
    found.lines = in_order(found.lines);
    found
}

/// Those lines of a transcript that are of one recording.
pub(super) fn lines_of(transcript: &Transcript, id: &RecordingId) -> Vec<Line> {
    let uid = Some(session_uid(id));
    let lines = transcript.lines.iter();
    lines.filter(|line| line.segment.key.session_uid == uid).cloned().collect()
}

pub(super) fn as_spoken(lines: &[Line]) -> Vec<SpokenSegment> {
    let spoken = lines.iter().map(|Line { segment, .. }| SpokenSegment {
        start_ms: segment.start_ms,
        end_ms: segment.content.end_ms,
        text: segment.content.text.clone(),
        speaker: segment.content.speaker.clone(),
        language: segment.content.language.clone(),
    });
    spoken.collect()
}

/// In an order that does not depend on how segments are named that were said at once.
pub(super) fn sorted(mut spoken: Vec<SpokenSegment>) -> Vec<SpokenSegment> {
    spoken.sort_by(|a, b| {
        let place = |one: &SpokenSegment| (one.start_ms, one.end_ms, one.speaker.clone());
        place(a).cmp(&place(b)).then_with(|| a.text.cmp(&b.text))
    });
    spoken
}

pub(super) fn says(speaker: &str, start_ms: i64, end_ms: i64, text: &str) -> SpokenSegment {
    SpokenSegment {
        start_ms,
        end_ms,
        text: text.to_owned(),
        speaker: Some(speaker.to_owned()),
        language: Some("en".to_owned()),
    }
}

/// What is heard in most recordings.
pub(super) fn conversation() -> Vec<SpokenSegment> {
    vec![
        says("Ann", 0, 900, "shall we begin with alpha"),
        says("Bob", 1000, 2500, "yes, bravo comes later"),
        SpokenSegment { speaker: None, language: None, ..says("", 2600, 2700, "mhm") },
    ]
}

pub(super) async fn fail(fx: &Fixture, id: &RecordingId, error: &str, guard: LeaseRef) -> bool {
    let failed = fx.store.fail_recording(id.clone(), error.to_owned(), guard, fx.now()).await;
    failed.expect("fail_recording")
}

pub(super) async fn retry(fx: &Fixture, scope: Scope, id: Option<&RecordingId>, max: u32) -> u32 {
    let retried = fx.store.retry_recordings(scope, id.cloned(), max, fx.now()).await;
    retried.expect("retry_recordings")
}

/// A new recording brought into a state. Its room has a meeting near it.
pub(super) async fn recording_in(
    fx: &Fixture,
    id: &str,
    room: &str,
    status: RecordingStatus,
) -> Recording {
    let made = new_recording(fx, announcement(fx, id, room)).await;
    if status == RecordingStatus::Pending {
        return made;
    }
    let (_, guard) = begun(fx, &made.id).await;
    match status {
        RecordingStatus::Pending | RecordingStatus::Processing => {}
        RecordingStatus::Completed => drop(save(fx, &made.id, conversation(), guard).await),
        RecordingStatus::Failed => assert!(fail(fx, &made.id, "broken", guard).await),
    }
    let now = recording(fx, &made.id).await;
    assert_eq!(now.status, status);
    now
}

pub(super) async fn says_of_consent(
    fx: &Fixture,
    scope: Scope,
    meeting: MeetingId,
    person: &str,
    given: bool,
) -> bool {
    let consent = Consent { person: person.to_owned(), given, at: fx.now() };
    fx.store.set_consent(scope, meeting, consent).await.expect("set_consent")
}

pub(super) async fn consents(fx: &Fixture, meeting: MeetingId) -> Vec<Consent> {
    fx.store.consents(meeting).await.expect("consents")
}

pub(super) async fn to_erase(fx: &Fixture, meeting: MeetingId) -> Vec<Recording> {
    fx.store.recordings_to_erase(meeting).await.expect("recordings_to_erase")
}

pub(super) fn media(track: &str, version: u64) -> Media {
    Media {
        track: track.to_owned(),
        blob: format!("blob-{version}"),
        bytes: version * 1000,
        sha256: format!("{version:064x}"),
    }
}

pub(super) async fn keep(
    fx: &Fixture,
    id: &RecordingId,
    media: Vec<Media>,
    guard: LeaseRef,
) -> bool {
    fx.store.keep_media(id.clone(), media, guard, fx.now()).await.expect("keep_media")
}

pub(super) async fn erased(
    fx: &Fixture,
    id: &RecordingId,
    error: Option<&str>,
    guard: LeaseRef,
) -> bool {
    let error = error.map(ToOwned::to_owned);
    fx.store.media_erased(id.clone(), error, guard, fx.now()).await.expect("media_erased")
}

/// The jobs that process a recording, in whatever state.
pub(super) async fn process_jobs(fx: &Fixture, id: &RecordingId) -> Vec<Job> {
    let filter = ListFilter {
        kind: Some(kind(PROCESS_KIND)),
        key: Some(key(id.as_str())),
        ..ListFilter::default()
    };
    fx.list(Scope::All, filter).await
}

pub(super) fn waiting(jobs: &[Job]) -> usize {
    jobs.iter().filter(|job| matches!(job, Job::Waiting(_))).count()
}

pub(super) async fn log_of(fx: &Fixture, no: i64) -> Vec<LoggedTransition> {
    fx.store.transitions(RECORDING_ENTITY.to_owned(), no).await.expect("transitions")
}

/// The states a recording went through, as the log has them.
pub(super) async fn states_of(fx: &Fixture, recording: &Recording) -> Vec<String> {
    let log = log_of(fx, recording.no).await;
    assert!(replay(&log).is_ok(), "{log:?}");
    log.into_iter().map(|step| step.to_state).collect()
}

/// Everything that an operation on recordings could have written.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) recordings: Vec<Recording>,
    everything: Everything,
    logs: Vec<Vec<LoggedTransition>>,
    consents: Vec<Vec<Consent>>,
    lines: Vec<Vec<Line>>,
    cursor: Option<RecordingId>,
}

impl Snapshot {
    pub(super) async fn of(fx: &Fixture) -> Self {
        let recordings = recordings(fx, Scope::All, RecordingFilter::default()).await;
        let mut logs = Vec::new();
        for recording in &recordings {
            logs.push(log_of(fx, recording.no).await);
        }
        let users = fx.store.users(0, 1000).await.expect("users");
        let users: Vec<_> = users.into_iter().map(|user| user.id).collect();
        let (mut said, mut lines) = (Vec::new(), Vec::new());
        for user in &users {
            for row in meetings_of(fx, *user).await {
                said.push(consents(fx, row.meeting.id).await);
                let found = fx.store.transcript(*user, by_number(row.meeting.id), None).await;
                lines.push(in_order(found.expect("transcript").expect("it is theirs").lines));
            }
        }
        Snapshot {
            recordings,
            everything: everything(fx, &users).await,
            logs,
            consents: said,
            lines,
            cursor: fx.store.recording_cursor().await.expect("recording_cursor"),
        }
    }
}

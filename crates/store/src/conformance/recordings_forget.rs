//! A meeting that is anonymised takes along what its recordings say of anybody, and what was heard in
//! them; their media are erased.

use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::effects::LoggedTransition;
use roundsman_core::ports::{AnonymiseAnswer, BeginAnswer, FinishAnswer, RecordingFilter, Scope};
use roundsman_core::recordings::{
    self as rules, Announcement, ERASE_KIND, Recording, RecordingStatus, SpokenSegment,
};

use super::attend::{by_number, frames_of, jobs_of};
use super::fixture::{Fixture, Task, at_once, boxed};
use super::record::{
    announce, announcement, assert_changed, begin, begun, consents, erased, fail, finish, keep,
    log_of, media, new_recording, recording, recording_id, recording_in, recordings, retry, save,
    says, says_of_consent, to_erase, track, transcript, waiting,
};
use super::visit::{deactivate, lease, meeting, room};
use super::wishes::{MINUTE, SECOND, done};

/// Words that nothing may have that is left of a meeting in the room `zanzibar`.
const WORDS: [&str; 3] = ["zanzibar", "xanthippe", "quetzalcoatl"];

pub async fn an_anonymised_meeting_names_nobody(fx: &Arc<Fixture>) {
    let id = room(fx, "zanzibar").await;
    for status in RecordingStatus::ALL {
        named_recording(fx, status).await;
    }
    let other = ordinary_meeting(fx).await;
    let untouched = (recordings_of(fx, other).await, transcript(fx, other).await.lines);
    assert!(says_of_consent(fx, Scope::All, id, "Xanthippe", true).await);
    assert!(says_of_consent(fx, Scope::All, other, "Ann", false).await);
    deactivate(fx, id).await;
    fx.advance(MINUTE);
    let known = recordings(fx, Scope::All, RecordingFilter::default()).await;
    let known = with_logs(fx, &known).await;
    anonymise(fx, id).await;
    let owner = meeting(fx, id).await.user_id;
    for (known, log) in known {
        let status = known.status;
        let changed = rules::forget(known, id, owner, fx.now());
        assert_changed(fx, &log, &changed).await;
        let now = changed.recording;
        assert_eq!((now.room.as_str(), now.meeting_id), ("", Some(id)), "{status:?}");
    }
    assert_eq!(consents(fx, id).await, vec![]);
    assert_eq!(transcript(fx, id).await.lines, vec![]);
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1);
    assert_eq!(to_erase(fx, id).await.len(), 4, "whatever anybody has said");
    let failed = recording_id(RecordingStatus::Failed.as_str());
    assert_eq!(retry(fx, Scope::All, Some(&failed), 1).await, 0, "it is not tried again");
    let now = (recordings_of(fx, other).await, transcript(fx, other).await.lines);
    assert_eq!(now, untouched, "nobody else is forgotten");
    assert_eq!(consents(fx, other).await.len(), 1);
    assert_no_traces(fx, id).await;
}

/// Nobody had looked yet which meeting they are of.
pub async fn what_is_still_to_be_found_is_forgotten(fx: &Arc<Fixture>) {
    let first = room(fx, "zanzibar").await;
    let at = |wait| fx.now() + wait;
    let (near, late) = (at(MINUTE), at(MINUTE * 50));
    let far = at(rules::MATCH_WITHIN * 3);
    fx.advance(MINUTE * 2);
    deactivate(fx, first).await;
    fx.advance(MINUTE * 58);
    let second = room(fx, "zanzibar").await;
    let announce = async |name: &str, started_at| {
        let wish = Announcement { started_at, ..announcement(fx, name, "zanzibar") };
        new_recording(fx, wish).await
    };
    let mine = announce("mine", near).await;
    let theirs = announce("theirs", late).await;
    let nobodys = announce("nobodys", far).await;
    anonymise(fx, first).await;
    let owner = meeting(fx, first).await.user_id;
    let changed = rules::forget(mine, first, owner, fx.now());
    assert_eq!(recording(fx, &changed.recording.id).await, changed.recording);
    assert_eq!(changed.recording.status, RecordingStatus::Completed, "there is nothing to do");
    for other in [&theirs, &nobodys] {
        assert_eq!(recording(fx, &other.id).await, *other, "it is not of this meeting");
    }
    let guard = lease(fx).await;
    assert_eq!(begin(fx, &changed.recording.id, guard).await, BeginAnswer::Done);
    assert_eq!(begun(fx, &theirs.id).await.0.meeting_id, Some(second));
    assert_eq!(begin(fx, &nobodys.id, guard).await, BeginAnswer::NoMeeting);
}

/// Whoever is about to save what was heard saves nothing.
pub async fn what_is_being_processed_ends_without_words(fx: &Arc<Fixture>) {
    for (number, how) in ["finish", "begin", "fail"].into_iter().enumerate() {
        let id = room(fx, "zanzibar").await;
        let name = format!("rec-{number}");
        let wish = Announcement { tracks: tracks(), ..announcement(fx, &name, "zanzibar") };
        let made = new_recording(fx, wish).await;
        let (begun, guard) = begun(fx, &made.id).await;
        deactivate(fx, id).await;
        anonymise(fx, id).await;
        let left = recording(fx, &begun.id).await;
        assert_eq!(left.status, RecordingStatus::Processing, "it is left to its job");
        assert!(keep(fx, &begun.id, vec![media("zanzibar/a", 1)], guard).await);
        run_eraser(fx).await;
        fx.advance(SECOND);
        match how {
            "finish" => {
                let answer = finish(fx, &begun.id, words(), guard).await;
                assert!(saves_nothing(&answer), "{answer:?}");
            }
            "begin" => {
                let guard = lease(fx).await;
                assert_eq!(begin(fx, &begun.id, guard).await, BeginAnswer::Done);
            }
            _ => assert!(fail(fx, &begun.id, "no zanzibar", guard).await),
        }
        let over = recording(fx, &begun.id).await;
        assert_eq!((over.status, over.segments), (RecordingStatus::Completed, 0), "{how}");
        assert_eq!((over.completed_at, over.error.as_deref()), (Some(fx.now()), None), "{how}");
        assert_eq!(over.media.len(), 1, "what is kept is known until it is erased");
        assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1, "{how}");
        assert_eq!(to_erase(fx, id).await, [over]);
        assert_eq!(transcript(fx, id).await.lines, vec![]);
        assert_eq!(frames_of(fx, id).await, vec![]);
        assert_no_traces(fx, id).await;
        run_eraser(fx).await;
    }
}

/// What comes late brings nothing back.
pub async fn what_is_forgotten_stays_so(fx: &Arc<Fixture>) {
    let id = room(fx, "zanzibar").await;
    let known = named_recording(fx, RecordingStatus::Completed).await;
    deactivate(fx, id).await;
    anonymise(fx, id).await;
    let again =
        Announcement { tracks: tracks(), ..announcement(fx, known.id.as_str(), "zanzibar") };
    let answer = announce(fx, again).await;
    assert_eq!((answer.is_repeated, answer.recording.repeats), (true, 1));
    for given in [true, false] {
        assert!(!says_of_consent(fx, Scope::All, id, "Xanthippe", given).await);
    }
    assert_no_traces(fx, id).await;
    // A new recording of the room is of another meeting.
    let made = new_recording(fx, announcement(fx, "next", "zanzibar")).await;
    let guard = lease(fx).await;
    assert_eq!(begin(fx, &made.id, guard).await, BeginAnswer::NoMeeting);
    let next = room(fx, "zanzibar").await;
    assert_eq!(begun(fx, &made.id).await.0.meeting_id, Some(next));
}

pub async fn what_was_erased_before_is_not_erased_again(fx: &Arc<Fixture>) {
    let id = room(fx, "zanzibar").await;
    let known = named_recording(fx, RecordingStatus::Completed).await;
    assert!(says_of_consent(fx, Scope::All, id, "Xanthippe", false).await);
    let guard = fx.claim_one(ERASE_KIND).await.lease_ref();
    assert!(erased(fx, &known.id, None, guard).await);
    fx.land(guard, done("null")).await;
    deactivate(fx, id).await;
    anonymise(fx, id).await;
    assert_eq!(to_erase(fx, id).await, vec![]);
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 0);
    assert_no_traces(fx, id).await;
}

/// Whoever works on it while its meeting is forgotten brings nothing back.
pub async fn work_and_forgetting_at_once_leave_nothing(fx: &Arc<Fixture>) {
    for round in 0..fx.traits.start_rounds {
        let id = room(fx, "zanzibar").await;
        let announced = async |name: &str| {
            let name = format!("{name}-{round}");
            let wish = Announcement { tracks: tracks(), ..announcement(fx, &name, "zanzibar") };
            new_recording(fx, wish).await
        };
        let (heard, waits) = (announced("heard").await, announced("waits").await);
        let (_, guard) = begun(fx, &heard.id).await;
        deactivate(fx, id).await;
        let beginning = lease(fx).await;
        let (saver, beginner, forgetter) = (Arc::clone(fx), Arc::clone(fx), Arc::clone(fx));
        let (saved, begins) = (heard.id.clone(), waits.id.clone());
        let tasks: Vec<Task<()>> = vec![
            boxed(async move {
                keep(&saver, &saved, vec![media("zanzibar/a", 1)], guard).await;
                let answer = finish(&saver, &saved, words(), guard).await;
                assert!(matches!(answer, FinishAnswer::Saved { .. }), "{answer:?}");
            }),
            boxed(async move {
                let answer = begin(&beginner, &begins, beginning).await;
                assert!(matches!(answer, BeginAnswer::Begun(_) | BeginAnswer::Done), "{answer:?}");
            }),
            boxed(async move { anonymise(&forgetter, id).await }),
        ];
        at_once(tasks).await;
        assert_eq!(recording(fx, &heard.id).await.status, RecordingStatus::Completed);
        for id in [&heard.id, &waits.id] {
            assert!(recording(fx, id).await.is_anonymous(), "{id:?}");
        }
        let left: Vec<i64> = to_erase(fx, id).await.iter().map(|one| one.no).collect();
        assert_eq!(left, [heard.no, waits.no], "both are erased");
        assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1);
        assert_no_traces(fx, id).await;
    }
}

/// A recording of the room `zanzibar` with the word in all places that have one.
async fn named_recording(fx: &Fixture, status: RecordingStatus) -> Recording {
    let wish = Announcement { tracks: tracks(), ..announcement(fx, status.as_str(), "zanzibar") };
    let made = new_recording(fx, wish).await;
    if status == RecordingStatus::Pending {
        return made;
    }
    let (begun, guard) = begun(fx, &made.id).await;
    assert!(keep(fx, &begun.id, vec![media("zanzibar/a", 1), media("zanzibar/b", 2)], guard).await);
    match status {
        RecordingStatus::Completed => drop(save(fx, &begun.id, words(), guard).await),
        RecordingStatus::Failed => assert!(fail(fx, &begun.id, "no Zanzibar", guard).await),
        RecordingStatus::Pending | RecordingStatus::Processing => {}
    }
    recording(fx, &begun.id).await
}

fn tracks() -> Vec<rules::Track> {
    vec![track("zanzibar/a"), track("zanzibar/b")]
}

fn words() -> Vec<SpokenSegment> {
    vec![says("Xanthippe", 0, 900, "Quetzalcoatl"), says("Ann", 1000, 1900, "in Zanzibar")]
}

async fn ordinary_meeting(fx: &Fixture) -> MeetingId {
    let id = room(fx, "other").await;
    for status in RecordingStatus::ALL {
        let name = format!("other-{}", status.as_str());
        recording_in(fx, &name, "other", status).await;
    }
    id
}

async fn recordings_of(fx: &Fixture, meeting: MeetingId) -> Vec<Recording> {
    let filter = RecordingFilter { meeting: Some(meeting), status: None };
    recordings(fx, Scope::All, filter).await
}

/// Those that are of the room, each with its log.
async fn with_logs(fx: &Fixture, known: &[Recording]) -> Vec<(Recording, Vec<LoggedTransition>)> {
    let mut logs = Vec::new();
    for one in known.iter().filter(|one| one.room.as_str() == "zanzibar") {
        logs.push((one.clone(), log_of(fx, one.no).await));
    }
    assert_eq!(logs.len(), RecordingStatus::ALL.len());
    logs
}

async fn anonymise(fx: &Fixture, id: MeetingId) {
    let owner = meeting(fx, id).await.user_id;
    let answer = fx.store.anonymise_meeting(owner, by_number(id), fx.now()).await;
    assert_eq!(answer.expect("anonymise_meeting"), AnonymiseAnswer::Done);
}

/// Runs the job that erases to its end without doing anything.
async fn run_eraser(fx: &Fixture) {
    let job = fx.claim_one(ERASE_KIND).await;
    fx.land(job.lease_ref(), done("null")).await;
}

fn saves_nothing(answer: &FinishAnswer) -> bool {
    match answer {
        FinishAnswer::Saved { frames, .. } => frames.is_empty(),
        FinishAnswer::Done => true,
        FinishAnswer::NotFound | FinishAnswer::LeaseLost => false,
    }
}

/// The names of the provider's files go with the files.
async fn assert_no_traces(fx: &Fixture, id: MeetingId) {
    for one in to_erase(fx, id).await {
        let guard = lease(fx).await;
        assert!(erased(fx, &one.id, None, guard).await);
    }
    let Some(door) = &fx.backdoor else { return };
    for word in WORDS {
        assert_eq!(door.traces(word).await, Vec::<String>::new(), "{word}");
    }
}

//! What was heard in a recording is saved once, and read where all transcripts are.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{
    FinishAnswer, MessageAnswer, NewMessage, Rename, SearchHit, SearchPage,
};
use roundsman_core::recordings::{
    HeardSegment, HeardTrack, RecordingStatus, SpokenSegment, merge_tracks, session_uid,
};
use roundsman_core::transcripts::{MessageBody, SearchQuery, mutable_frames};
use roundsman_core::users::UserId;

use super::attend::{by_number, frames_of, lose_leases, user};
use super::fixture::Fixture;
use super::record::{
    Snapshot, announcement, as_spoken, assert_replays, begun, conversation, finish, lines_of,
    new_begun, new_recording, recording, recording_id, recording_in, save, says, sorted, states_of,
    transcript, transcript_since,
};
use super::speak::{take, told};
use super::visit::{lease, meeting, open, room, room_with};
use super::wishes::{MINUTE, SECOND};

pub async fn what_was_heard_is_read_as_a_transcript(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a"]).await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    assert_eq!(begun.meeting_id, Some(id));
    fx.advance(MINUTE);
    let place = transcript(fx, id).await.seq;
    let frames = save(fx, &begun.id, conversation(), guard).await;
    let now = transcript(fx, id).await;
    assert_eq!(as_spoken(&now.lines), conversation());
    // They are told in the order in which they were said, after all that was told before.
    let bodies: Vec<_> = frames.iter().map(|frame| frame.body.to_value()).collect();
    let expected: Vec<_> = mutable_frames(id, &now.lines, fx.now())
        .into_iter()
        .map(|frame| frame.body.to_value())
        .collect();
    assert_eq!(bodies, expected);
    assert_eq!(frames.iter().map(|frame| frame.seq).collect::<Vec<_>>(), [place + 1]);
    assert_eq!(now.seq, place + 1);
    assert!(now.lines.iter().all(|line| line.segment.seq == now.seq), "the place of the frame");
    assert_eq!(fx.store.live_lines(id).await.expect("live_lines"), vec![]);
    assert_eq!(states_of(fx, &begun).await, ["pending", "processing", "completed"]);
    let Some(door) = &fx.backdoor else { return };
    assert_eq!(door.sessions(id).await, [(session_uid(&begun.id), begun.started_at)]);
    assert_eq!(door.count_said(id).await, conversation().len());
}

pub async fn only_what_is_new_is_read_since(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let (first, guard) = new_begun(fx, "one", "weekly").await;
    save(fx, &first.id, conversation(), guard).await;
    fx.advance(SECOND);
    let place = transcript(fx, id).await.seq;
    assert_eq!(transcript_since(fx, id, Some(place)).await.lines, vec![]);
    let (second, guard) = new_begun(fx, "two", "weekly").await;
    save(fx, &second.id, vec![says("Cat", 0, 800, "charlie at last")], guard).await;
    let since = transcript_since(fx, id, Some(place)).await;
    assert_eq!(as_spoken(&since.lines), [says("Cat", 0, 800, "charlie at last")]);
    assert_eq!(transcript_since(fx, id, Some(since.seq)).await.lines, vec![]);
    let all = transcript_since(fx, id, Some(0)).await;
    assert_eq!(all.lines, transcript(fx, id).await.lines);
    assert_eq!(all.retracted, vec![]);
}

pub async fn words_of_recordings_are_found(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    open(fx, ada, "weekly").await;
    open(fx, bob, "other").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    assert_eq!(search(fx, ada, "alpha").await, vec![]);
    save(fx, &begun.id, conversation(), guard).await;
    let lines = transcript(fx, begun.meeting_id.expect("it has one")).await.lines;
    for (query, places) in [
        ("alpha", vec![0]),
        ("\"bravo comes\"", vec![1]),
        ("BEGIN*", vec![0]),
        ("mhm", vec![2]),
        ("charlie", vec![]),
    ] {
        let hits = search(fx, ada, query).await;
        let found: Vec<_> = hits.iter().map(|hit| &hit.line).collect();
        assert_eq!(found, places.iter().map(|place| &lines[*place]).collect::<Vec<_>>(), "{query}");
        for hit in hits {
            assert!(hit.id.is_some(), "it is final");
            assert_eq!((Some(hit.meeting_id), hit.platform.as_str()), (begun.meeting_id, "daily"));
            assert_eq!(hit.native_id.as_deref(), Some("weekly"));
        }
        assert_eq!(search(fx, bob, query).await, vec![], "nobody else's");
    }
}

/// Several recordings of a meeting, and what was told while it went on, are one transcript.
pub async fn all_that_was_said_is_read_as_one(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let start = fx.now();
    let live = vec![told(0, 900, "told live"), told(4000, 4900, "told later")];
    hear(fx, id, MessageBody::SessionStart { uid: "live".to_owned(), start }).await;
    hear(
        fx,
        id,
        MessageBody::Transcription {
            uid: Some("live".to_owned()),
            segments: live,
            refused: vec![],
        },
    )
    .await;
    fx.advance(SECOND);
    let (first, one) = new_begun(fx, "one", "weekly").await;
    fx.advance(SECOND);
    let (second, two) = new_begun(fx, "two", "weekly").await;
    let earlier = transcript(fx, id).await;
    // The same times within each: only the starts of the sessions tell them apart.
    save(fx, &second.id, vec![says("Bob", 0, 900, "second")], two).await;
    save(fx, &first.id, vec![says("Ann", 0, 900, "first"), says("Ann", 4000, 4900, "last")], one)
        .await;
    let now = transcript(fx, id).await;
    let texts: Vec<&str> =
        now.lines.iter().map(|line| line.segment.content.text.as_str()).collect();
    assert_eq!(texts, ["told live", "first", "second", "told later", "last"]);
    assert_eq!(
        now.lines.iter().map(|line| line.kept).collect::<Vec<_>>(),
        [false, true, true, false, true]
    );
    assert_replays(id, &earlier, &frames_of(fx, id).await, &now);
    assert_eq!(fx.store.live_lines(id).await.expect("live_lines").len(), 2);
}

/// People speak at the same time; whoever listens can tell their segments apart.
pub async fn what_was_said_at_once_is_all_kept(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    let spoken = vec![
        says("Ann", 0, 900, "yes"),
        says("Bob", 0, 900, "yes"),
        says("Bob", 0, 900, "no"),
        says("Ann", 0, 900, "yes"),
        says("Cat", 0, 0, "ah"),
        says("Ann", 20, 1000, "yes"),
        says("Ann", 1000, 1900, "well"),
        SpokenSegment { speaker: None, ..says("", 1000, 1900, "well") },
    ];
    save(fx, &begun.id, spoken.clone(), guard).await;
    assert_eq!(transcript(fx, id).await.lines.len(), spoken.len());
    let Some(door) = &fx.backdoor else { return };
    assert_eq!(door.count_said(id).await, spoken.len());
}

pub async fn a_transcript_is_saved_once(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    save(fx, &begun.id, conversation(), guard).await;
    fx.advance(MINUTE);
    let another = lease(fx).await;
    let before = Snapshot::of(fx).await;
    for guard in [guard, another] {
        for spoken in [conversation(), vec![says("Eve", 9000, 9900, "echo")], vec![]] {
            assert_eq!(finish(fx, &begun.id, spoken, guard).await, FinishAnswer::Done);
            assert_eq!(Snapshot::of(fx).await, before);
        }
    }
}

pub async fn where_nothing_was_said_nothing_is_told(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a"]).await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    let frames = save(fx, &begun.id, vec![], guard).await;
    assert_eq!(frames, vec![]);
    assert_eq!(transcript(fx, id).await.lines, vec![]);
    assert_eq!(recording(fx, &begun.id).await.segments, 0);
    assert_eq!(finish(fx, &begun.id, conversation(), guard).await, FinishAnswer::Done);
    assert_eq!(transcript(fx, id).await.lines, vec![]);
}

pub async fn saving_needs_the_lease(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    lose_leases(fx).await;
    let before = Snapshot::of(fx).await;
    for spoken in [conversation(), vec![]] {
        assert_eq!(finish(fx, &begun.id, spoken, guard).await, FinishAnswer::LeaseLost);
        assert_eq!(Snapshot::of(fx).await, before);
    }
}

pub async fn what_is_not_there_is_not_saved(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let alone = new_recording(fx, announcement(fx, "alone", "elsewhere")).await;
    let guard = lease(fx).await;
    let before = Snapshot::of(fx).await;
    let nobody = finish(fx, &recording_id("nobody"), conversation(), guard).await;
    assert_eq!(nobody, FinishAnswer::NotFound);
    // One that belongs to no meeting has no place for it.
    assert_eq!(finish(fx, &alone.id, conversation(), guard).await, FinishAnswer::NotFound);
    assert_eq!(Snapshot::of(fx).await, before);
}

/// The rules of several tracks and the store agree about what is one conversation.
pub async fn tracks_are_saved_as_one_conversation(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    let heard = |start_ms: i64| HeardSegment {
        start_ms,
        end_ms: start_ms + 700,
        text: format!(" at {start_ms}\0 "),
    };
    let track = |name: &str, offset_ms: i64| HeardTrack {
        speaker: Some(name.to_owned()),
        offset_ms,
        language: Some("en".to_owned()),
        segments: (0..20).map(|n| heard(n * 1000)).collect(),
    };
    let spoken = merge_tracks(vec![track("Ann", 0), track("Bob", 300), track("Cat", 1000)]);
    assert_eq!(spoken.len(), 60);
    save(fx, &begun.id, spoken.clone(), guard).await;
    assert_eq!(sorted(as_spoken(&transcript(fx, id).await.lines)), sorted(spoken));
}

/// Names that users have given hold for what is heard later, too.
pub async fn speakers_are_called_by_their_names(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let (first, one) = new_begun(fx, "one", "weekly").await;
    fx.advance(SECOND);
    let (second, two) = new_begun(fx, "two", "weekly").await;
    save(fx, &first.id, conversation(), one).await;
    let place = transcript(fx, id).await.seq;
    let owner = meeting(fx, id).await.user_id;
    let rename = Rename { from: "Ann".to_owned(), to: "Anna".to_owned() };
    let renamed = fx.store.rename_speaker(owner, by_number(id), rename, fx.now()).await;
    let renamed = renamed.expect("rename_speaker").expect("it is theirs");
    assert_eq!((renamed.changed, renamed.frames.len()), (1, 1));
    let since = transcript_since(fx, id, Some(place)).await;
    assert_eq!(as_spoken(&since.lines), [says("Anna", 0, 900, "shall we begin with alpha")]);
    let answer = finish(fx, &second.id, conversation(), two).await;
    let FinishAnswer::Saved { frames, .. } = answer else { panic!("{answer:?}") };
    let now = transcript(fx, id).await;
    let spoken = as_spoken(&lines_of(&now, &second.id));
    let names: Vec<_> = spoken.iter().map(|one| one.speaker.as_deref()).collect();
    assert_eq!(names, [Some("Anna"), Some("Bob"), None]);
    let told = frames[0].body.to_value()["payload"]["segments"][0]["speaker"].clone();
    assert_eq!(told, "Anna");
}

/// It stays done when what was said is deleted: nobody hears it a second time.
pub async fn a_deleted_transcript_is_not_made_again(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let done = recording_in(fx, "rec", "weekly", RecordingStatus::Completed).await;
    let owner = meeting(fx, id).await.user_id;
    fx.advance(SECOND);
    let deleted = fx.store.delete_transcript(owner, by_number(id), fx.now()).await;
    let deleted = deleted.expect("delete_transcript").expect("it is theirs");
    assert_eq!(deleted.changed, conversation().len() as u64);
    assert_eq!(deleted.sessions, [session_uid(&done.id)]);
    assert_eq!(transcript(fx, id).await.lines, vec![]);
    assert_eq!(search(fx, owner, "alpha").await, vec![]);
    let guard = lease(fx).await;
    assert_eq!(finish(fx, &done.id, conversation(), guard).await, FinishAnswer::Done);
    assert_eq!(transcript(fx, id).await.lines, vec![]);
    assert_eq!(recording(fx, &done.id).await, done);
    // Another recording of the same meeting is heard like any other.
    let made = new_recording(fx, announcement(fx, "next", "weekly")).await;
    let (_, guard) = begun(fx, &made.id).await;
    save(fx, &made.id, conversation(), guard).await;
}

async fn hear(fx: &Fixture, id: MeetingId, body: MessageBody) {
    let message = NewMessage {
        meeting_id: id,
        user_id: meeting(fx, id).await.user_id,
        token_issued_at: fx.now() - Duration::from_secs(1),
        version: 1,
        start_hint: None,
        body,
    };
    let answer = take(fx, vec![message]).await.remove(0);
    assert!(matches!(answer, MessageAnswer::Taken(_)), "{answer:?}");
}

pub(super) async fn search(fx: &Fixture, user: UserId, text: &str) -> Vec<SearchHit> {
    let query = SearchQuery::parse(text).expect("a query");
    let page = SearchPage { before: None, rows_max: 10_000 };
    fx.store.search_transcripts(user, query, page).await.expect("search_transcripts")
}

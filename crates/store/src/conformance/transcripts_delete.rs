//! What is deleted is gone: from every table, from the frames, for everybody.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotStatus, MeetingId};
use roundsman_core::effects::FrameChannel;
use roundsman_core::ports::{AnonymiseAnswer, MessageAnswer, NewShare, Rewritten, Share};
use roundsman_core::transcripts::SpeakerEventKind;
use roundsman_core::users::UserId;

use super::attend::{at_address, by_number, change, exit, frames_of, user};
use super::backdoor::Said;
use super::fixture::Fixture;
use super::speak::{
    NOISE, Room, UID, assert_replays, event, hear, keep_events, live_lines, read, read_since,
    rename, room, room_of, settle_all, shown, speech, spoken, take, texts, told, told_by, turn,
};
use super::wishes::{MINUTE, SECOND};

/// Words that nothing but the transcript of one meeting has.
const WORDS: [&str; 4] = ["zanzibar", "xanthippe", "yggdrasil", "quetzalcoatl"];

pub async fn what_is_deleted_is_retracted(fx: &Arc<Fixture>) {
    let room = full_room(fx, "ada").await;
    let before = read(fx, &room).await;
    assert_eq!(before.lines.len(), 4);
    fx.advance(SECOND);
    let deleted = delete(fx, &room).await;
    assert_eq!((deleted.meeting_id, deleted.changed, deleted.live), (room.meeting, 4, vec![]));
    assert!(deleted.sessions.contains(&UID.to_owned()), "{:?}", deleted.sessions);
    assert_eq!(deleted.frames.len(), 1);
    let after = read(fx, &room).await;
    assert_eq!((&after.lines, after.seq), (&vec![], before.seq + 1));
    assert_eq!(live_lines(fx, &room).await, vec![]);
    // A listener who was there is told of every line that is gone.
    let mut listener = shown(room.meeting, &before.lines);
    super::speak::apply(&mut listener, &deleted.frames[0]);
    assert!(listener.is_empty(), "{listener:?}");
    assert_replays(fx, &room, &before).await;
    // Only that is left of the frames about it, and their numbers stay used.
    let frames = frames_of(fx, room.meeting).await;
    let said: Vec<_> =
        frames.into_iter().filter(|frame| frame.channel() == FrameChannel::Transcript).collect();
    assert_eq!(said, deleted.frames);
    // Again there is nothing to delete.
    let again = delete(fx, &room).await;
    assert_eq!((again.changed, again.frames), (0, vec![]));
    assert_eq!(read(fx, &room).await.seq, after.seq);
}

/// Whatever told of it is gone, wherever it was.
pub async fn a_deleted_transcript_leaves_nothing(fx: &Arc<Fixture>) {
    let room = full_room(fx, "ada").await;
    let other = ordinary_room(fx, "bob").await;
    let (link, link_of_other) = (share(fx, &room, 1).await, share(fx, &other, 2).await);
    let elsewhere = spoken(fx, &other).await;
    fx.advance(SECOND);
    delete(fx, &room).await;
    assert_no_traces(fx).await;
    assert_eq!(spoken(fx, &other).await, with_live_of(fx, &other, elsewhere).await);
    assert_eq!(find(fx, 1).await, None, "nor is {link:?} of use");
    assert_eq!(find(fx, 2).await, Some(link_of_other));
    assert_eq!(shares(fx, &room).await, vec![]);
    // What comes later has none of the names and nobody's events.
    let said = vec![told_by("Xanthippe", 0, 900, "alpha"), told(1000, 1900, "bravo")];
    let taken = hear(fx, room.says(1, said)).await;
    let names: Vec<_> =
        taken.live.iter().map(|line| line.segment.content.speaker.as_deref()).collect();
    assert_eq!(names, [Some("Xanthippe"), None]);
}

/// A meeting that goes on may be told anew: from then on it is as if nothing had been said.
pub async fn what_is_told_after_a_deletion_is_new(fx: &Arc<Fixture>) {
    let room = full_room(fx, "ada").await;
    let start = read(fx, &room).await.lines[0].session_start;
    delete(fx, &room).await;
    let before = read(fx, &room).await;
    // An older version of what is gone is as new as any.
    let taken = hear(fx, room.says(0, speech(2, "alpha"))).await;
    assert_eq!((taken.changed, taken.session_start), (2, start), "its session is still known");
    assert_eq!(read(fx, &room).await.seq, before.seq + 1);
    assert_eq!(texts(&read(fx, &room).await.lines), ["alpha number 0", "alpha number 1"]);
    assert_replays(fx, &room, &before).await;
    settle_all(fx, &room).await;
    assert_eq!(read(fx, &room).await.lines.len(), 2);
    // Nor does anybody remember who declared that.
    let declared = hear(fx, room.starts(UID, fx.now(), Timestamp::EPOCH)).await;
    assert_eq!((declared.changed, declared.session_start), (2, Some(fx.now())));
    assert_eq!(read_since(fx, &room, Some(0)).await.retracted, vec![], "what was refused is gone");
}

pub async fn nobody_deletes_what_others_said(fx: &Arc<Fixture>) {
    let (room, other) = (ordinary_room(fx, "ada").await, ordinary_room(fx, "bob").await);
    let before = spoken(fx, &room).await;
    for (user, target) in [
        (other.user, room.target()),
        (other.user, room.address()),
        (UserId::new(1_000_000), room.target()),
        (room.user, by_number(MeetingId::new(1_000_000))),
        (room.user, at_address("nowhere")),
    ] {
        let deleted = fx.store.delete_transcript(user, target, fx.now()).await;
        assert_eq!(deleted.expect("delete_transcript"), None);
    }
    assert_eq!(spoken(fx, &room).await, before);
}

pub async fn an_address_deletes_the_latest(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut rooms = Vec::new();
    for word in ["first", "second"] {
        let room = room_of(fx, ada, "weekly", BotStatus::Completed).await;
        hear(fx, room.says(1, speech(1, word))).await;
        rooms.push(room);
    }
    let deleted = fx.store.delete_transcript(ada, rooms[0].address(), fx.now()).await;
    let deleted = deleted.expect("delete_transcript").expect("it is theirs");
    assert_eq!((deleted.meeting_id, deleted.changed), (rooms[1].meeting, 1));
    assert_eq!(read(fx, &rooms[0]).await.lines.len(), 1);
    assert_eq!(read(fx, &rooms[1]).await.lines.len(), 0);
}

/// A meeting that is forgotten takes all of it along, and is heard no more.
pub async fn an_anonymised_meeting_leaves_nothing(fx: &Arc<Fixture>) {
    let room = full_room(fx, "ada").await;
    let other = ordinary_room(fx, "bob").await;
    let link = share(fx, &room, 1).await;
    let seq = read(fx, &room).await.seq;
    change(fx, &room.bot, exit(0)).await;
    let elsewhere = spoken(fx, &other).await;
    let answer = fx.store.anonymise_meeting(room.user, room.target(), fx.now()).await;
    assert_eq!(answer.expect("anonymise_meeting"), AnonymiseAnswer::Done);
    assert_no_traces(fx).await;
    assert_eq!(spoken(fx, &other).await, with_live_of(fx, &other, elsewhere).await);
    assert_eq!(find(fx, 1).await, None, "nor is {link:?} of use");
    let after = read(fx, &room).await;
    assert_eq!(after.lines, vec![]);
    assert!(after.seq >= seq, "numbers stay used");
    let frames = frames_of(fx, room.meeting).await;
    for frame in frames.iter().filter(|frame| frame.channel() == FrameChannel::Transcript) {
        assert_eq!(frame.body.to_value()["type"], "transcript.retracted");
    }
    assert_eq!(
        take(fx, vec![room.says(9, speech(1, "alpha"))]).await,
        [MessageAnswer::NoSuchMeeting]
    );
    let count = fx.store.live_segment_count().await.expect("live_segment_count");
    assert_eq!(count, live_lines(fx, &other).await.len() as u64);
}

/// Rows that somebody else wrote are what was said, too.
pub async fn rows_of_somebody_else_are_deleted_too(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    for (room, word) in [(&room, "zanzibar"), (&other, "elsewhere")] {
        for _ in 0..3 {
            let said = Said { end: 1.0, text: word.to_owned(), ..Said::default() };
            door.put_said(room.meeting, said).await;
        }
    }
    fx.store.index_transcriptions(100).await.expect("index_transcriptions");
    let deleted = delete(fx, &room).await;
    assert_eq!((deleted.changed, deleted.frames.len()), (3, 1));
    assert_eq!(door.count_said(room.meeting).await, 0);
    assert_eq!(door.count_said(other.meeting).await, 3);
    assert_eq!(door.traces("zanzibar").await, Vec::<String>::new());
}

/// A meeting in which everything was said that can be: final, live and refused, by speakers of whom
/// was heard and who were given names.
async fn full_room(fx: &Fixture, name: &str) -> Room {
    let room = room(fx, name).await;
    hear(fx, room.starts(UID, fx.now(), fx.now())).await;
    keep_events(fx, Some(room.meeting), turn("Xanthippe", 0, 900)).await;
    keep_events(fx, None, turn("Quetzalcoatl", 1000, 1900)).await;
    let said = vec![
        told(0, 900, "Zanzibar kept"),
        told(1000, 1900, "kept as well"),
        told_by("Yggdrasil", 2000, 2900, NOISE),
    ];
    hear(fx, room.says(5, said)).await;
    settle_all(fx, &room).await;
    let live = vec![told_by("Yggdrasil", 5000, 5900, "Zanzibar live"), told(7000, 7900, "live")];
    hear(fx, room.says(5, live)).await;
    rename(fx, &room, "Xanthippe", "Quetzalcoatl").await;
    let Some(door) = &fx.backdoor else { return room };
    for word in WORDS {
        assert_ne!(door.traces(word).await, Vec::<String>::new(), "{word} is somewhere");
    }
    room
}

/// Another meeting, with the same name of a session and events of its own.
async fn ordinary_room(fx: &Fixture, name: &str) -> Room {
    let room = room(fx, name).await;
    keep_events(fx, Some(room.meeting), [event(UID, SpeakerEventKind::Start, "Ann", 0)]).await;
    hear(fx, room.says(1, speech(2, "kept"))).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(1, vec![told(5000, 5900, "live"), told(6000, 6900, NOISE)])).await;
    room
}

/// What there was of a room, if other rooms have nothing live any more.
async fn with_live_of(
    fx: &Fixture,
    room: &Room,
    mut before: super::speak::Spoken,
) -> super::speak::Spoken {
    before.live.retain(|live| live.meeting_id == room.meeting);
    let live = fx.store.live_meetings(None, 100).await.expect("live_meetings");
    assert_eq!(live, before.live, "the deleted one is not live");
    before
}

async fn assert_no_traces(fx: &Fixture) {
    let Some(door) = &fx.backdoor else { return };
    for word in WORDS {
        assert_eq!(door.traces(word).await, Vec::<String>::new(), "{word}");
    }
}

async fn delete(fx: &Fixture, room: &Room) -> Rewritten {
    let deleted = fx.store.delete_transcript(room.user, room.target(), fx.now()).await;
    deleted.expect("delete_transcript").expect("it is theirs")
}

async fn share(fx: &Fixture, room: &Room, number: u8) -> Share {
    let new = NewShare { secret_hash: [number; 32], expires_at: fx.now() + MINUTE };
    let made = fx.store.share_transcript(room.user, room.target(), new, fx.now()).await;
    made.expect("share_transcript").expect("it is theirs")
}

async fn find(fx: &Fixture, number: u8) -> Option<Share> {
    fx.store.share([number; 32], fx.now()).await.expect("share")
}

async fn shares(fx: &Fixture, room: &Room) -> Vec<Share> {
    fx.store.shares(room.user, room.meeting, fx.now()).await.expect("shares")
}

//! Messages that could not be taken are put away, once each, and everything has an end.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::ports::{DeadLetter, NewDeadLetter, TranscriptPrune};
use roundsman_core::transcripts::{DEAD_LETTER_BYTES_MAX, SpeakerEventKind};

use super::fixture::{Fixture, at_once};
use super::speak::{
    NOISE, UID, event, hear, keep_events, read, room, settle_all, speakers, speech, told, turn,
};
use super::wishes::{MINUTE, SECOND};

pub async fn letters_are_kept_newest_first(fx: &Arc<Fixture>) {
    let mut put_away = Vec::new();
    for number in 0..5 {
        fx.advance(SECOND);
        let new = NewDeadLetter { deliveries: number, ..letter("stream", &number.to_string()) };
        put(fx, vec![new.clone()]).await;
        put_away.insert(0, (new, fx.now()));
    }
    let found = letters(fx, None, 100).await;
    let contents: Vec<_> = found.iter().map(|found| (found.letter.clone(), found.at)).collect();
    assert_eq!(contents, put_away);
    assert!(found.windows(2).all(|pair| pair[0].id > pair[1].id));
    assert_eq!(letters(fx, None, 2).await, found[..2]);
    assert_eq!(letters(fx, Some(found[1].id), 2).await, found[2..4]);
    assert_eq!(letters(fx, Some(found[4].id), 2).await, vec![]);
    for each in &found {
        let one = fx.store.dead_letter(each.id).await.expect("dead_letter");
        assert_eq!(one.as_ref(), Some(each));
    }
}

/// A message that is put away by two, or again after a crash, is there once.
pub async fn a_letter_is_one_by_its_source_and_entry(fx: &Arc<Fixture>) {
    let batch = || {
        vec![
            letter("stream", "1-0"),
            letter("stream", "1-0"),
            letter("stream", "1-1"),
            letter("other", "1-0"),
        ]
    };
    put(fx, batch()).await;
    let first = letters(fx, None, 100).await;
    assert_eq!(first.len(), 3);
    fx.advance(SECOND);
    let callers = (0..6).map(|_| {
        let fx = Arc::clone(fx);
        async move { put(&fx, batch()).await }
    });
    at_once(callers).await;
    put(fx, vec![]).await;
    let names = |letters: &[DeadLetter]| -> Vec<(i64, String, String)> {
        let name = |one: &DeadLetter| (one.id, one.letter.source.clone(), one.letter.entry.clone());
        letters.iter().map(name).collect()
    };
    assert_eq!(names(&letters(fx, None, 100).await), names(&first));
}

pub async fn a_letter_is_deleted_once(fx: &Arc<Fixture>) {
    put(fx, vec![letter("stream", "a"), letter("stream", "b")]).await;
    let found = letters(fx, None, 100).await;
    let delete = async |id: i64| fx.store.delete_dead_letter(id).await.expect("delete_dead_letter");
    assert!(!delete(found[0].id + 1000).await);
    assert!(delete(found[0].id).await);
    assert!(!delete(found[0].id).await);
    assert_eq!(letters(fx, None, 100).await, found[1..]);
    assert_eq!(fx.store.dead_letter(found[0].id).await.expect("dead_letter"), None);
    // It may be put away again.
    put(fx, vec![found[0].letter.clone()]).await;
    assert_eq!(letters(fx, None, 100).await.len(), 2);
}

/// Whatever a stream had in it can be put away, or it would be delivered for ever.
pub async fn whatever_came_can_be_put_away(fx: &Arc<Fixture>) {
    let payloads = [
        String::new(),
        "not JSON '\"; --".to_owned(),
        "😀 \u{202e} \u{feff} \u{1}".to_owned(),
        "x".repeat(DEAD_LETTER_BYTES_MAX),
    ];
    for (number, payload) in payloads.iter().enumerate() {
        let entry = number.to_string();
        put(fx, vec![NewDeadLetter { payload: payload.clone(), ..letter("stream", &entry) }]).await;
        assert_eq!(letters(fx, None, 1).await[0].letter.payload, *payload);
    }
    // A database may have no place for NUL. The rest of the payload is still worth keeping.
    let nul = NewDeadLetter { payload: "before\0after".to_owned(), ..letter("stream", "nul") };
    put(fx, vec![nul, letter("stream", "next")]).await;
    let found = letters(fx, None, 2).await;
    let entries: Vec<&str> = found.iter().map(|found| found.letter.entry.as_str()).collect();
    assert_eq!(entries, ["next", "nul"]);
    let payload = &found[1].letter.payload;
    assert!(payload.starts_with("before") && payload.ends_with("after"), "{payload:?}");
}

pub async fn old_letters_are_pruned(fx: &Arc<Fixture>) {
    for number in 0..5 {
        put(fx, vec![letter("stream", &number.to_string())]).await;
        fx.advance(MINUTE);
    }
    let limit = fx.now() - MINUTE;
    let request = TranscriptPrune { dead_letters_before: limit, ..keep_all(3) };
    assert_eq!(prune(fx, request).await, 3, "no more than it may");
    assert_eq!(prune(fx, request).await, 1);
    assert_eq!(prune(fx, request).await, 0);
    let left = letters(fx, None, 100).await;
    assert_eq!((left.len(), left[0].letter.entry.as_str()), (1, "4"));
}

/// Who spoke is known from what was told with it; the events themselves have served then.
pub async fn old_events_are_pruned_and_nobody_is_forgotten(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 2900)).await;
    keep_events(fx, None, [event("elsewhere", SpeakerEventKind::Start, "Eve", 0)]).await;
    hear(fx, room.says(1, vec![told(0, 900, "alpha")])).await;
    let heard_at = fx.now();
    fx.advance(MINUTE);
    keep_events(fx, Some(room.meeting), turn("Bob", 5000, 5900)).await;
    let before = |limit| TranscriptPrune { speaker_events_before: limit, ..keep_all(2) };
    assert_eq!(prune(fx, before(heard_at)).await, 0, "not before their time");
    assert_eq!(prune(fx, before(heard_at + SECOND)).await, 2, "no more than it may");
    assert_eq!(prune(fx, before(heard_at + SECOND)).await, 1);
    assert_eq!(prune(fx, before(heard_at + SECOND)).await, 0);
    let told_again =
        vec![told(0, 900, "alpha bravo"), told(1000, 1900, "new"), told(5000, 5900, "x")];
    hear(fx, room.says(2, told_again)).await;
    assert_eq!(speakers(&read(fx, &room).await.lines), [Some("Ann"), None, Some("Bob")]);
}

/// Every sort has its own time, and what is still of use has none.
pub async fn what_is_of_use_is_never_pruned(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let mut segments = speech(2, "kept");
    segments.push(told(5000, 5900, NOISE));
    hear(fx, room.starts(UID, fx.now(), fx.now())).await;
    hear(fx, room.says(1, segments)).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(2, vec![told(9000, 9900, "live")])).await;
    put(fx, vec![letter("stream", "a")]).await;
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 900)).await;
    fx.advance(MINUTE);
    let lines = read(fx, &room).await;
    assert_eq!(prune(fx, keep_all(100)).await, 0);
    let late = fx.now();
    let all = TranscriptPrune {
        speaker_events_before: late,
        dead_letters_before: late,
        shares_before: late,
        dropped_before: late,
        rows_max: 100,
    };
    assert_eq!(prune(fx, all).await, 4, "two events, a letter, what was refused");
    let after = read(fx, &room).await;
    assert_eq!((after.lines, after.seq), (lines.lines, lines.seq));
}

fn letter(source: &str, entry: &str) -> NewDeadLetter {
    NewDeadLetter {
        source: source.to_owned(),
        entry: entry.to_owned(),
        reason: "uid is missing".to_owned(),
        deliveries: 5,
        payload: format!("{{\"entry\":\"{entry}\"}}"),
    }
}

fn keep_all(rows_max: u32) -> TranscriptPrune {
    let never = Timestamp::EPOCH;
    TranscriptPrune {
        speaker_events_before: never,
        dead_letters_before: never,
        shares_before: never,
        dropped_before: never,
        rows_max,
    }
}

async fn put(fx: &Fixture, letters: Vec<NewDeadLetter>) {
    fx.store.put_dead_letters(letters, fx.now()).await.expect("put_dead_letters");
}

async fn letters(fx: &Fixture, before: Option<i64>, rows_max: u32) -> Vec<DeadLetter> {
    fx.store.dead_letters(before, rows_max).await.expect("dead_letters")
}

async fn prune(fx: &Fixture, request: TranscriptPrune) -> u64 {
    fx.store.prune_transcripts(request).await.expect("prune_transcripts")
}

//! When sessions started: declared, guessed or not known yet, and what follows for the times of
//! what was said in them.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::bots::{self, BotEvent, BotStatus, Source, Stage};
use roundsman_core::ports::{NewMessage, Taken};

use super::attend::{changed, frames_of, happen, unchanged, user};
use super::fixture::Fixture;
use super::speak::{
    NOISE, Room, UID, assert_replays, hear, read, read_since, room, room_of, settle_all, speech,
    spoken, texts, told,
};
use super::wishes::{MINUTE, SECOND};

/// T-11: what was said before its session began has times once it is known when that was: live and
/// final, with frames.
pub async fn a_late_start_fills_back_what_was_said(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let mut said = speech(2, "kept");
    said.push(told(2000, 2900, NOISE));
    let first = hear(fx, room.says(1, said)).await;
    assert_eq!(first.session_start, None);
    settle_all(fx, &room).await;
    hear(fx, room.says(2, vec![told(3000, 3900, "live")])).await;
    hear(fx, room.says_in(Some("session-b"), 2, vec![told(0, 900, "elsewhere")])).await;
    let before = read(fx, &room).await;
    assert_eq!(before.lines.len(), 4);
    assert!(before.lines.iter().all(|line| line.session_start.is_none()));

    fx.advance(SECOND);
    let start = fx.now() - MINUTE;
    let declared = hear(fx, room.starts(UID, start, fx.now())).await;
    assert_eq!((declared.changed, declared.session_start), (3, Some(start)));
    assert_eq!(declared.frames.len(), 1, "one frame tells of all");
    assert_eq!(texts(&declared.live), ["live"]);
    let after = read(fx, &room).await;
    assert_eq!(texts(&after.lines), ["kept number 0", "kept number 1", "live", "elsewhere"]);
    for line in &after.lines {
        let is_mine = line.segment.key.session_uid.as_deref() == Some(UID);
        assert_eq!(line.session_start, is_mine.then_some(start));
        assert_eq!(line.segment.seq == after.seq, is_mine, "who was told of it has its place");
    }
    assert_eq!(read_since(fx, &room, Some(before.seq)).await.lines, after.lines[..3]);
    assert_replays(fx, &room, &before).await;
    assert!(read_since(fx, &room, Some(before.seq)).await.retracted.is_empty());
}

/// A start is told as often as its producer likes; the first declaration stands.
pub async fn the_first_start_stands(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, speech(2, "alpha"))).await;
    let (start, issued) = (fx.now(), fx.now());
    assert_eq!(hear(fx, room.starts(UID, start, issued)).await.changed, 2);
    let before = spoken(fx, &room).await;
    fx.advance(SECOND);
    for (start_again, issued_again) in [
        (start, issued),
        (start + MINUTE, issued),
        (start - MINUTE, issued),
        (start + MINUTE, issued - SECOND),
        (start, issued - SECOND),
    ] {
        let again = hear(fx, room.starts(UID, start_again, issued_again)).await;
        assert_eq!(again, Taken { session_start: Some(start), ..Taken::default() });
        assert_eq!(spoken(fx, &room).await, before);
    }
}

/// T-11: unless a producer with a newer token says otherwise.
pub async fn a_newer_token_moves_the_start(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let (start, issued) = (fx.now(), fx.now());
    hear(fx, room.starts(UID, start, issued)).await;
    hear(fx, room.says(1, speech(2, "alpha"))).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(2, vec![told(9000, 9900, "live")])).await;
    let before = read(fx, &room).await;
    let later = start + SECOND * 5;
    let moved = hear(fx, room.starts(UID, later, issued + SECOND)).await;
    assert_eq!((moved.changed, moved.session_start), (3, Some(later)));
    let after = read(fx, &room).await;
    assert!(after.lines.iter().all(|line| line.session_start == Some(later)));
    assert_replays(fx, &room, &before).await;
    // The older one has nothing to say any more.
    let older = hear(fx, room.starts(UID, start, issued)).await;
    assert_eq!((older.changed, older.session_start), (0, Some(later)));
    // The same start by a newer token moves nothing, but it is now the newer one that counts.
    let before = spoken(fx, &room).await;
    let sure = hear(fx, room.starts(UID, later, issued + MINUTE)).await;
    assert_eq!(sure, Taken { session_start: Some(later), ..Taken::default() });
    let between = hear(fx, room.starts(UID, start, issued + SECOND * 30)).await;
    assert_eq!(between, Taken { session_start: Some(later), ..Taken::default() });
    assert_eq!(spoken(fx, &room).await, before);
}

/// A bot's own session begins when the bot does, until its producer says when it really was.
pub async fn the_start_that_a_bot_brings_is_a_guess(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let uid = room.bot.bot.connection_id.as_str().to_owned();
    let guessed = fx.now();
    fx.advance(MINUTE);
    let said = hear(fx, room.says_in(Some(&uid), 1, vec![told(0, 900, "alpha")])).await;
    assert_eq!(said.session_start, Some(guessed));
    let before = read(fx, &room).await;
    let start = guessed + SECOND * 3;
    // However old the token is: nobody has declared anything before.
    let declared = hear(fx, room.starts(&uid, start, Timestamp::EPOCH)).await;
    assert_eq!((declared.changed, declared.session_start), (1, Some(start)));
    assert_eq!(read(fx, &room).await.lines[0].session_start, Some(start));
    assert_replays(fx, &room, &before).await;
    if let Some(door) = &fx.backdoor {
        assert_eq!(door.sessions(room.meeting).await, [(uid, start)], "it is the same row");
    }
}

/// What a bot's session was told of before the bot began has times once it does: live and final, under
/// every name of the session, with frames.
pub async fn a_bot_that_begins_fills_back_what_was_said(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for (native_id, event) in [
        ("a", BotEvent::Started),
        ("b", BotEvent::AtStage(Stage::AwaitingAdmission)),
        ("c", BotEvent::Joined),
    ] {
        let room = room_of(fx, ada, native_id, BotStatus::Reserved).await;
        let uid = room.bot.bot.connection_id.as_str().to_owned();
        let mut said = speech(2, "kept");
        said.push(told(2000, 2900, NOISE));
        hear(fx, room.says_in(Some(&uid), 1, said)).await;
        settle_all(fx, &room).await;
        hear(fx, room.says_in(Some(&uid), 2, vec![told(3000, 3900, "live")])).await;
        let zoom = format!("zoom_{uid}");
        hear(fx, room.says_in(Some(&zoom), 2, vec![told(4000, 4900, "zoomed")])).await;
        hear(fx, room.says(2, vec![told(0, 900, "elsewhere")])).await;
        hear(fx, room.says_in(None, 2, vec![told(0, 900, "nowhere")])).await;
        let before = read(fx, &room).await;
        assert!(before.lines.iter().all(|line| line.session_start.is_none()));

        fx.advance(SECOND);
        let begun = fx.now();
        let announced = changed(happen(fx, &room.bot, event.clone()).await);
        let expected = bots::change(room.bot.clone(), event.clone(), Source::Callback, begun);
        let steps = expected.expect("it may happen").effects.frames.len();
        assert_eq!(announced.frames.len(), steps + 1, "{event:?}: one frame tells of all");
        let stored = frames_of(fx, room.meeting).await;
        assert_eq!(announced.frames, stored[stored.len() - steps - 1..], "{event:?}");
        let after = read(fx, &room).await;
        let mut moved = Vec::new();
        for line in &after.lines {
            let is_mine =
                line.segment.key.session_uid.as_deref().is_some_and(|of| of.ends_with(&uid));
            assert_eq!(line.session_start, is_mine.then_some(begun), "{event:?}");
            assert_eq!(line.segment.seq == after.seq, is_mine, "{event:?}");
            if is_mine {
                moved.push(line.clone());
            }
        }
        assert_eq!(texts(&moved), ["kept number 0", "kept number 1", "live", "zoomed"]);
        assert_replays(fx, &room, &before).await;
        assert_eq!(read_since(fx, &room, Some(before.seq)).await.lines, moved);
        assert!(read_since(fx, &room, Some(before.seq)).await.retracted.is_empty());
        let before = spoken(fx, &room).await;
        unchanged(happen(fx, &room.bot, event).await);
        assert_eq!(spoken(fx, &room).await, before, "it begins once");
    }
}

/// A start that is known is not guessed.
pub async fn a_bot_that_begins_moves_no_start(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let room = room_of(fx, ada, "a", BotStatus::Reserved).await;
    let uid = room.bot.bot.connection_id.as_str().to_owned();
    let start = fx.now() - MINUTE;
    hear(fx, room.starts(&uid, start, Timestamp::EPOCH)).await;
    hear(fx, room.says_in(Some(&uid), 1, speech(2, "alpha"))).await;
    let before = read(fx, &room).await;
    fx.advance(SECOND);
    let announced = changed(happen(fx, &room.bot, BotEvent::Started).await);
    assert_eq!(announced.frames.len(), 1, "only how the bot is");
    let after = read(fx, &room).await;
    assert_eq!(after.lines, before.lines);
    assert!(after.lines.iter().all(|line| line.session_start == Some(start)));
    assert_replays(fx, &room, &before).await;
    if let Some(door) = &fx.backdoor {
        assert_eq!(door.sessions(room.meeting).await, [(uid, start)]);
    }
}

/// What the cache knows of a start helps only where the database knows nothing, and is then known.
pub async fn a_hint_is_taken_only_where_nothing_is_known(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let (hint, wrong) = (fx.now() - MINUTE, fx.now() - MINUTE * 9);
    let first = hear(fx, hinted(&room, UID, 1, "alpha", Some(hint))).await;
    assert_eq!((first.changed, first.session_start), (1, Some(hint)));
    assert_eq!(first.live[0].session_start, Some(hint));
    // It was kept: the next message has it without being told, and believes nothing else.
    for again in [None, Some(wrong)] {
        let said = hear(fx, hinted(&room, UID, 2, "bravo", again)).await;
        assert_eq!(said.session_start, Some(hint));
    }
    let lines = read(fx, &room).await.lines;
    assert_eq!((texts(&lines), lines[0].session_start), (vec!["bravo"], Some(hint)));
    // It is a guess like that of a bot.
    let start = fx.now();
    assert_eq!(hear(fx, room.starts(UID, start, Timestamp::EPOCH)).await.changed, 1);
    assert_eq!(read(fx, &room).await.lines[0].session_start, Some(start));

    // Where a start was declared, a hint says nothing.
    hear(fx, room.starts("session-b", start, start)).await;
    let said = hear(fx, hinted(&room, "session-b", 1, "charlie", Some(wrong))).await;
    assert_eq!(said.session_start, Some(start));
    if let Some(door) = &fx.backdoor {
        let sessions = door.sessions(room.meeting).await;
        let starts = sessions.iter().filter(|(uid, _)| uid.starts_with("session-"));
        assert_eq!(starts.filter(|(_, at)| *at == start).count(), 2, "{sessions:?}");
    }
}

/// A hint is a start: what was said before it has times from then on, and that is told.
pub async fn a_hint_fills_back_what_was_said(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, speech(3, "alpha"))).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(2, vec![told(9000, 9900, "live")])).await;
    let before = read(fx, &room).await;
    let hint = fx.now() - MINUTE;
    hear(fx, hinted(&room, UID, 3, "another", Some(hint))).await;
    let after = read(fx, &room).await;
    assert_eq!(after.lines.len(), 5);
    assert!(after.lines.iter().all(|line| line.session_start == Some(hint)));
    assert_eq!(read_since(fx, &room, Some(before.seq)).await.lines, after.lines);
    assert_replays(fx, &room, &before).await;
}

/// Whoever does not say which session it was gets no times, least of all those of another.
pub async fn segments_without_a_session_have_no_times(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    hear(fx, room.starts(UID, start, start)).await;
    hear(fx, room.says(1, vec![told(1500, 2400, "inside")])).await;
    let hinted = NewMessage {
        start_hint: Some(start),
        ..room.says_in(None, 1, vec![told(1500, 2400, "outside")])
    };
    let said = hear(fx, hinted).await;
    assert_eq!((said.changed, said.session_start), (1, None));
    hear(fx, room.starts("session-b", start, start)).await;
    for settled in [false, true] {
        let lines = read(fx, &room).await.lines;
        assert_eq!(texts(&lines), ["inside", "outside"]);
        let without = &lines[1];
        assert_eq!((without.session_start, without.kept), (None, settled));
        assert_eq!(without.segment.key.session_uid, None);
        assert_eq!(without.segment.key.field, "1.500");
        assert_eq!(without.segment.absolute(without.session_start), None);
        settle_all(fx, &room).await;
    }
    let Some(door) = &fx.backdoor else { return };
    let said = door.said(room.meeting).await;
    let sessions: Vec<_> = said.iter().map(|(_, said)| said.session_uid.as_deref()).collect();
    assert!(sessions.contains(&None) && sessions.contains(&Some(UID)), "{sessions:?}");
    let uids = door.sessions(room.meeting).await;
    assert!(uids.iter().all(|(uid, _)| !uid.is_empty()), "{uids:?}");
}

/// T-9: two sessions of one meeting that count from their own beginnings.
pub async fn sessions_with_the_same_times_stay_apart(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let (first, second) = (fx.now(), fx.now() + MINUTE);
    hear(fx, room.starts(UID, first, first)).await;
    hear(fx, room.starts("session-b", second, first)).await;
    let before = read(fx, &room).await;
    for (uid, word) in [("session-b", "later"), (UID, "sooner")] {
        for version in 1..=2 {
            let word = format!("{word} v{version}");
            hear(fx, room.says_in(Some(uid), version, speech(2, &word))).await;
        }
    }
    let expected =
        ["sooner v2 number 0", "sooner v2 number 1", "later v2 number 0", "later v2 number 1"];
    assert_eq!(texts(&read(fx, &room).await.lines), expected);
    assert_replays(fx, &room, &before).await;
    settle_all(fx, &room).await;
    assert_eq!(texts(&read(fx, &room).await.lines), expected);
    let third = vec![told(0, 900, "sooner v3")];
    assert_eq!(hear(fx, room.says(3, third)).await.changed, 1);
    assert_eq!(texts(&read(fx, &room).await.lines)[2..], expected[2..]);
    assert_replays(fx, &room, &before).await;
}

/// The same name of a session in two meetings is two sessions.
pub async fn sessions_are_a_meetings_own(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    hear(fx, other.starts(UID, fx.now(), fx.now())).await;
    let said = hear(fx, room.says(1, vec![told(0, 900, "alpha")])).await;
    assert_eq!(said.session_start, None);
    let before = spoken(fx, &room).await;
    assert_eq!(hear(fx, other.starts(UID, fx.now() + SECOND, fx.now() + SECOND)).await.changed, 0);
    assert_eq!(spoken(fx, &room).await, before);
}

pub async fn a_start_without_segments_is_no_frame(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let before = read(fx, &room).await.seq;
    let start = fx.now() - MINUTE;
    let declared = hear(fx, room.starts(UID, start, start)).await;
    assert_eq!(declared, Taken { session_start: Some(start), ..Taken::default() });
    assert_eq!(read(fx, &room).await.seq, before);
    // A start that differs by less than a second is another start.
    hear(fx, room.says(1, vec![told(0, 900, "alpha")])).await;
    let start = Timestamp::from_micros(start.as_micros() + 1);
    assert_eq!(hear(fx, room.starts(UID, start, start)).await.changed, 1);
    assert_eq!(read(fx, &room).await.lines[0].session_start, Some(start));
}

/// T-11: an end is nothing that anybody sees, and late segments are taken.
pub async fn late_segments_are_taken_after_the_end(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    hear(fx, room.starts(UID, start, start)).await;
    hear(fx, room.says(1, speech(2, "alpha"))).await;
    let before = spoken(fx, &room).await;
    let ended = hear(fx, room.ends(UID)).await;
    assert_eq!(ended, Taken { session_start: Some(start), ..Taken::default() });
    assert_eq!(hear(fx, room.ends("never heard of")).await, Taken::default());
    assert_eq!(hear(fx, room.ends(UID)).await.frames, vec![]);
    let after = spoken(fx, &room).await;
    assert_eq!(after, before);
    let late = hear(fx, room.says(2, speech(3, "alpha"))).await;
    assert_eq!((late.changed, late.session_start), (1, Some(start)));
    let late = hear(fx, room.says_in(Some("never heard of"), 1, speech(1, "bravo"))).await;
    assert_eq!((late.changed, late.session_start), (1, None));
    let start = hear(fx, room.starts("never heard of", start, start)).await;
    assert_eq!(start.changed, 1, "an end declares no start");
}

/// Some producers write the platform before the name of a session.
pub async fn a_platform_before_the_name_is_not_part_of_it(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    hear(fx, room.starts(UID, start, start)).await;
    let before = read(fx, &room).await;
    for (version, platform) in (1..).zip(["google_meet", "zoom", "teams"]) {
        let uid = format!("{platform}_{UID}");
        let said = hear(fx, room.says_in(Some(&uid), version, speech(1, platform))).await;
        assert_eq!(said.session_start, Some(start), "{platform}");
        assert_eq!(said.live[0].segment.key.session_uid, Some(uid));
    }
    let lines = read(fx, &room).await.lines;
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.session_start == Some(start)));
    assert_replays(fx, &room, &before).await;
    // Their own start is closer to the truth, and what is read is what is told.
    let own = start + SECOND;
    hear(fx, room.starts(&format!("zoom_{UID}"), own, start)).await;
    let lines = read(fx, &room).await.lines;
    let moved = lines.iter().filter(|line| line.session_start == Some(own));
    assert_eq!(texts(&moved.cloned().collect::<Vec<_>>()), ["zoom number 0"]);
    assert_replays(fx, &room, &before).await;
}

fn hinted(
    room: &Room,
    uid: &str,
    version: i64,
    text: &str,
    start_hint: Option<Timestamp>,
) -> NewMessage {
    let told = vec![told(5000, 5900, text)];
    NewMessage { start_hint, ..room.says_in(Some(uid), version, told) }
}

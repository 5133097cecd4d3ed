//! What has not changed for a while is final, or refused; what is told after that still counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotStatus, MeetingId};
use roundsman_core::ports::{SettleRequest, SettledSegments, Taken, Transcript, TranscriptPrune};
use roundsman_core::transcripts::{
    DropReason, FilterConfig, Line, SegmentKey, SpeakerStatus, TranscriptionFilter, seconds_of,
};

use super::attend::{claim_for, frames_of, lose_leases, user};
use super::backdoor::Said;
use super::fixture::Fixture;
use super::speak::{
    NOISE, UID, all, assert_replays, hear, keep_events, live_lines, read, read_since, room,
    room_of, settle, settle_all, speakers, speech, spoken, stable, texts, told, told_by, turn,
};
use super::wishes::{MINUTE, SECOND};

/// What is stable moves, word for word, and whoever reads sees no difference.
pub async fn stable_segments_become_final(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    hear(fx, room.starts(UID, start, start)).await;
    hear(fx, room.says(1, vec![told_by("Ann", 1500, 2400, "first"), told(3000, 3900, "second")]))
        .await;
    let stable_at = fx.now();
    fx.advance(SECOND);
    hear(fx, room.says(2, vec![told(5000, 5900, "third")])).await;
    let before = read(fx, &room).await;
    fx.advance(SECOND);
    let settled = settle(fx, &room, stable(stable_at)).await;
    let keys: BTreeSet<SegmentKey> = settled.gone.iter().cloned().collect();
    let expected =
        SettledSegments { kept: 2, gone: settled.gone.clone(), left: 1, ..Default::default() };
    assert_eq!(settled, expected);
    assert_eq!(keys, before.lines[..2].iter().map(|line| line.segment.key.clone()).collect());

    let after = read(fx, &room).await;
    assert_eq!(after.seq, before.seq, "nobody is told: nothing changed");
    for (was, is) in before.lines.iter().zip(&after.lines) {
        let settled = keys.contains(&is.segment.key);
        let mut expected = was.clone();
        expected.kept = settled;
        if settled {
            expected.segment.created_at = fx.now();
        }
        assert_eq!(*is, expected);
    }
    assert_eq!(texts(&live_lines(fx, &room).await), ["third"]);
    assert_eq!(read_since(fx, &room, Some(before.seq)).await.lines, vec![]);
    assert_replays(fx, &room, &before).await;
    let Some(door) = &fx.backdoor else { return };
    let said: Vec<Said> = door.said(room.meeting).await.into_iter().map(|(_, said)| said).collect();
    let rows: Vec<Said> = after.lines[..2].iter().map(row_of).collect();
    assert_eq!(said, rows);
}

/// T-4: whatever was interrupted is done again, and leaves one row.
pub async fn what_is_settled_twice_is_there_once(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let mut segments = speech(3, "alpha");
    segments.push(told(9000, 9900, NOISE));
    hear(fx, room.says(1, segments.clone())).await;
    let settled = settle_all(fx, &room).await;
    assert_eq!((settled.kept, settled.left), (3, 0));
    let written = spoken(fx, &room).await;
    for _ in 0..3 {
        let again = settle_all(fx, &room).await;
        let nothing = SettledSegments { sessions: settled.sessions.clone(), ..Default::default() };
        assert_eq!(again, nothing);
        assert_eq!(hear(fx, room.says(2, segments.clone())).await, Taken::default());
        assert_eq!(spoken(fx, &room).await, written);
    }
}

/// T-5: an update between the look at what is stable and its removal stays live.
pub async fn what_changes_in_between_stays_live(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, speech(3, "alpha"))).await;
    let stable_at = fx.now();
    fx.advance(SECOND);
    hear(fx, room.says(2, vec![told(1000, 1900, "newer")])).await;
    let before = read(fx, &room).await;
    let settled = settle(fx, &room, stable(stable_at)).await;
    assert_eq!((settled.kept, settled.left, settled.sessions.len()), (2, 1, 0));
    assert_eq!(texts(&live_lines(fx, &room).await), ["newer"]);
    assert_eq!(texts(&read(fx, &room).await.lines), ["alpha number 0", "newer", "alpha number 2"]);
    let settled = settle(fx, &room, stable(fx.now())).await;
    assert_eq!((settled.kept, settled.left), (1, 0));
    assert_eq!(texts(&read(fx, &room).await.lines), ["alpha number 0", "newer", "alpha number 2"]);
    assert_replays(fx, &room, &before).await;
}

/// T-6: the final row is the row that changes, and listeners are told.
pub async fn an_update_of_a_final_segment_changes_its_row(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    hear(fx, room.starts(UID, start, start)).await;
    hear(fx, room.says(1, speech(3, "alpha"))).await;
    settle_all(fx, &room).await;
    let before = read(fx, &room).await;
    fx.advance(MINUTE);
    // Its start has moved a little, as it may.
    let mut update = told_by("Ann", 1010, 2500, "bravo");
    update.language = Some("de".to_owned());
    let taken = hear(fx, room.says(2, vec![update, told(2000, 2900, "alpha number 2")])).await;
    assert_eq!((taken.changed, taken.frames.len(), taken.live), (1, 1, vec![]));
    let after = read(fx, &room).await;
    assert_eq!(texts(&after.lines), ["alpha number 0", "bravo", "alpha number 2"]);
    let line = &after.lines[1];
    assert!(line.kept);
    assert_eq!(line.segment.start_ms, 1000);
    assert_eq!(line.segment.content.end_ms, 2500);
    assert_eq!(line.segment.speaker_status, SpeakerStatus::ProducerLabeled);
    assert_eq!((line.segment.version, line.segment.updated_at), (2, fx.now()));
    assert_eq!(
        (line.segment.seq, line.segment.created_at),
        (after.seq, before.lines[1].segment.created_at)
    );
    let since = read_since(fx, &room, Some(before.seq)).await;
    assert_eq!(since.lines, std::slice::from_ref(line));
    assert_replays(fx, &room, &before).await;
    assert_eq!(live_lines(fx, &room).await, vec![]);
    let older = hear(fx, room.says(1, vec![told(1000, 1900, "older")])).await;
    assert_eq!(older.changed, 0);
    let Some(door) = &fx.backdoor else { return };
    let said = door.said(room.meeting).await;
    let rows: Vec<Said> = after.lines.iter().map(row_of).collect();
    assert_eq!(said.iter().map(|(_, said)| said.clone()).collect::<Vec<_>>(), rows);
}

/// What the filter refuses leaves, is told of, and does not come back until it has changed.
pub async fn what_is_refused_is_retracted_and_remembered(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    hear(fx, room.starts(UID, start, start)).await;
    let noise = || vec![told(0, 900, NOISE), told(1000, 1900, "ok"), told(2000, 2900, "!!!!!!!!")];
    hear(fx, room.says(1, noise())).await;
    hear(fx, room.says(1, vec![told(3000, 3900, "speech")])).await;
    let before = read(fx, &room).await;
    let settled = settle_all(fx, &room).await;
    let reasons =
        [(DropReason::TooShort, 1), (DropReason::Noise, 1), (DropReason::RepeatedCharacter, 1)];
    assert_eq!((settled.kept, settled.left, settled.gone.len()), (1, 0, 4));
    assert_eq!(settled.dropped, BTreeMap::from(reasons));
    assert_eq!(settled.frames.len(), 1);
    assert_eq!(settled.frames[0].body.to_value()["type"], "transcript.retracted");
    assert_eq!(frames_of(fx, room.meeting).await.last(), settled.frames.last());
    let after = read(fx, &room).await;
    assert_eq!((texts(&after.lines), after.seq), (vec!["speech"], before.seq + 1));
    assert_replays(fx, &room, &before).await;
    let since = read_since(fx, &room, Some(before.seq)).await;
    assert_eq!((since.lines, since.retracted.len()), (vec![], 3));
    assert!(since.retracted.iter().all(|line| line.session_start == Some(start)));
    assert_eq!(read_since(fx, &room, Some(after.seq)).await.retracted, vec![]);
    assert_eq!(after.retracted, vec![], "only who names a place is told");

    fx.advance(SECOND);
    let written = spoken(fx, &room).await;
    assert_eq!(hear(fx, room.says(2, noise())).await.changed, 0, "it does not come back");
    assert_eq!(spoken(fx, &room).await, written);
    let revived = hear(fx, room.says(3, vec![told(1000, 1900, "okay then")])).await;
    assert_eq!((revived.changed, texts(&revived.live)), (1, vec!["okay then"]));
    assert_eq!(texts(&read(fx, &room).await.lines), ["okay then", "speech"]);
    assert_replays(fx, &room, &before).await;
    assert_eq!(settle_all(fx, &room).await.kept, 1);
    assert_eq!(read_since(fx, &room, Some(before.seq)).await.retracted.len(), 2);
    assert_replays(fx, &room, &before).await;
}

/// The last look may find the speaker of what is refused all the same: told again, it is unchanged.
pub async fn what_is_refused_stays_so_when_its_speaker_was_found(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let noise = || vec![told(0, 900, NOISE)];
    hear(fx, room.says(1, noise())).await;
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 900)).await;
    assert_eq!(settle_all(fx, &room).await.gone.len(), 1);
    let before = frames_of(fx, room.meeting).await;
    assert_eq!(hear(fx, room.says(2, noise())).await, Taken::default());
    assert_eq!(frames_of(fx, room.meeting).await, before);
}

/// What was refused is forgotten in the end; told after that, it is new.
pub async fn what_was_refused_long_ago_is_forgotten(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, vec![told(0, 900, NOISE), told(1000, 1900, "speech")])).await;
    settle_all(fx, &room).await;
    let dropped_at = fx.now();
    fx.advance(MINUTE);
    hear(fx, room.says(1, vec![told(2000, 2900, NOISE), told(3000, 3900, "live")])).await;
    settle(fx, &room, stable(dropped_at)).await;
    assert_eq!(prune_dropped(fx, dropped_at).await, 0, "not before its time");
    assert_eq!(prune_dropped(fx, dropped_at + SECOND).await, 1);
    assert_eq!(prune_dropped(fx, fx.now() + MINUTE).await, 0, "what is live is not refused yet");
    assert_eq!(hear(fx, room.says(2, vec![told(0, 900, NOISE)])).await.changed, 1);
    assert_eq!(read(fx, &room).await.lines.len(), 4);
}

/// The filter looks at what is final already: the same within its time, and less within more.
pub async fn what_is_final_is_compared_with(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, vec![told(0, 5000, "a long and final text")])).await;
    settle_all(fx, &room).await;
    let again = vec![
        told(1000, 2000, "a long and final text"),
        told(3000, 4000, "final text"),
        told(4500, 6000, "final text too"),
    ];
    hear(fx, room.says(2, again)).await;
    // Elsewhere the same words are new.
    hear(fx, room.says_in(Some("session-b"), 2, vec![told(1000, 2000, "final text")])).await;
    hear(fx, room.says_in(None, 2, vec![told(1000, 2000, "final text")])).await;
    let settled = settle_all(fx, &room).await;
    let reasons = BTreeMap::from([(DropReason::Duplicate, 1), (DropReason::Contained, 1)]);
    assert_eq!((settled.kept, settled.dropped), (3, reasons));
    // It is the filter of the request that decides.
    hear(fx, room.says(3, vec![told(2200, 2900, "less text")])).await;
    let config = FilterConfig { drop_contained: false, ..FilterConfig::default() };
    let filter = Arc::new(TranscriptionFilter::new(config).expect("the defaults are good"));
    let settled = settle(fx, &room, SettleRequest { filter, ..all() }).await;
    assert_eq!((settled.kept, settled.dropped), (1, BTreeMap::new()));
}

/// By session and time, as many as may be.
pub async fn settling_takes_no_more_than_it_may(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says_in(Some("b"), 1, speech(2, "bravo"))).await;
    hear(fx, room.says_in(Some("a"), 1, speech(3, "alpha"))).await;
    hear(fx, room.says_in(None, 1, speech(1, "nobody"))).await;
    let (mut left, mut final_texts) = (6, Vec::new());
    for (kept, rows_max) in [(0, 0), (2, 2), (3, 3), (1, 2), (0, 2)] {
        fx.advance(SECOND);
        let settled = settle(fx, &room, SettleRequest { rows_max, ..all() }).await;
        left -= u64::from(kept);
        assert_eq!((settled.kept, settled.left, settled.gone.len()), (kept, left, kept as usize));
        assert_eq!(settled.sessions.is_empty(), left > 0);
        let mut lines = read(fx, &room).await.lines;
        lines.retain(|line| line.kept && !final_texts.contains(&line.segment.content.text));
        final_texts.extend(lines.into_iter().map(|line| line.segment.content.text));
    }
    let expected = ["nobody number 0", "alpha number 0", "alpha number 1", "alpha number 2"];
    assert_eq!(final_texts[..2], expected[..2]);
    let next: BTreeSet<&str> = final_texts[2..5].iter().map(String::as_str).collect();
    assert_eq!(next, BTreeSet::from([expected[2], expected[3], "bravo number 0"]));
}

/// A last look at who spoke, for those of whom it was not known: told like any change.
pub async fn who_spoke_is_looked_for_once_more(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let said = vec![
        told(0, 900, "alpha"),
        told(5000, 5900, "nobody's"),
        told_by("Bob", 7000, 7900, "labelled"),
    ];
    hear(fx, room.says(1, said)).await;
    hear(fx, room.says_in(None, 1, vec![told(0, 900, "of no session")])).await;
    let before = read(fx, &room).await;
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 900)).await;
    keep_events(fx, Some(room.meeting), turn("Eve", 7000, 7900)).await;
    let settled = settle_all(fx, &room).await;
    assert_eq!((settled.kept, settled.frames.len()), (4, 1));
    let body = settled.frames[0].body.to_value();
    assert_eq!(body["type"], "transcript.mutable");
    assert_eq!(body["payload"]["segments"].as_array().map(Vec::len), Some(1));
    let after = read(fx, &room).await;
    let named = |name: &str| after.lines.iter().find(|line| line.segment.content.text == name);
    let alpha = &named("alpha").expect("it is there").segment;
    assert_eq!(alpha.content.speaker.as_deref(), Some("Ann"));
    assert_eq!((alpha.speaker_status, alpha.seq), (SpeakerStatus::Mapped, after.seq));
    let nobody = &named("nobody's").expect("it is there").segment;
    assert_eq!((&nobody.content.speaker, nobody.seq), (&None, before.seq - 1));
    assert_eq!(speakers(&after.lines).iter().flatten().count(), 2);
    assert_replays(fx, &room, &before).await;
    assert_eq!(read_since(fx, &room, Some(before.seq)).await.lines.len(), 1);
}

/// A speaker that was found and a segment that was refused are told of one after the other.
pub async fn one_settling_may_tell_of_both(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, vec![told(0, 900, "alpha"), told(1000, 1900, NOISE)])).await;
    let before = read(fx, &room).await;
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 1900)).await;
    let settled = settle_all(fx, &room).await;
    let kinds: Vec<_> =
        settled.frames.iter().map(|frame| frame.body.to_value()["type"].clone()).collect();
    assert_eq!(kinds, ["transcript.mutable", "transcript.retracted"]);
    let Transcript { seq, lines, retracted, .. } = read_since(fx, &room, Some(before.seq)).await;
    assert_eq!(lines[0].segment.seq, seq - 1, "each has the place of its own frame");
    assert_eq!(retracted[0].segment.seq, seq);
    assert_replays(fx, &room, &before).await;
}

pub async fn the_sessions_are_told_once_nothing_is_left(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let bots_own = room.bot.bot.connection_id.as_str();
    hear(fx, room.starts("declared", fx.now(), fx.now())).await;
    hear(fx, room.says_in(Some("kept"), 1, speech(1, "alpha"))).await;
    hear(fx, room.says_in(Some("dropped"), 1, vec![told(0, 900, NOISE)])).await;
    hear(fx, room.says_in(None, 1, speech(1, "alpha"))).await;
    let stable_at = fx.now();
    fx.advance(SECOND);
    hear(fx, room.says_in(Some("last"), 1, speech(1, "alpha"))).await;
    assert_eq!(settle(fx, &room, stable(stable_at)).await.sessions, Vec::<String>::new());
    let settled = settle_all(fx, &room).await;
    let sessions: BTreeSet<&str> = settled.sessions.iter().map(String::as_str).collect();
    assert_eq!(sessions, BTreeSet::from([bots_own, "declared", "kept", "dropped", "last"]));
    assert_eq!(sessions.len(), settled.sessions.len(), "each once");
}

pub async fn settling_needs_the_lease(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let room = room_of(fx, ada, "a", BotStatus::Completed).await;
    let mut segments = speech(2, "alpha");
    segments.push(told(9000, 9900, NOISE));
    hear(fx, room.says(1, segments)).await;
    let lease = claim_for(fx, roundsman_core::bots::FINISH_KIND, &room.bot).await;
    let before = spoken(fx, &room).await;
    let settle = async |guard| {
        let settled = fx.store.settle_segments(room.meeting, all(), Some(guard), fx.now());
        settled.await.expect("settle_segments")
    };
    let stranger = roundsman_core::jobs::LeaseRef {
        lease_no: roundsman_core::jobs::LeaseNo::new(i64::MAX),
        ..lease
    };
    assert_eq!(settle(stranger).await, SettledSegments::default());
    assert_eq!(spoken(fx, &room).await, before);
    let held = settle(lease).await;
    assert_eq!((held.kept, held.gone.len()), (2, 3));

    hear(fx, room.says(2, vec![told(20_000, 20_900, "more")])).await;
    let before = spoken(fx, &room).await;
    lose_leases(fx).await;
    assert_eq!(settle(lease).await, SettledSegments::default());
    assert_eq!(spoken(fx, &room).await, before);
}

pub async fn where_nothing_was_said_nothing_settles(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let before = spoken(fx, &room).await;
    for meeting in [room.meeting, MeetingId::new(1_000_000), MeetingId::new(i64::MAX)] {
        let settled = fx.store.settle_segments(meeting, all(), None, fx.now()).await;
        let settled = settled.expect("settle_segments");
        let sessions = settled.sessions.clone();
        assert_eq!(settled, SettledSegments { sessions, ..Default::default() });
    }
    assert_eq!(spoken(fx, &room).await, before);
}

async fn prune_dropped(fx: &Fixture, dropped_before: Timestamp) -> u64 {
    let never = Timestamp::EPOCH;
    let request = TranscriptPrune {
        speaker_events_before: never,
        dead_letters_before: never,
        shares_before: never,
        dropped_before,
        rows_max: 100,
    };
    fx.store.prune_transcripts(request).await.expect("prune_transcripts")
}

/// The row of `transcriptions` that a line is.
fn row_of(line: &Line) -> Said {
    let segment = line.segment.clone();
    Said {
        start: seconds_of(segment.start_ms),
        end: seconds_of(segment.content.end_ms),
        text: segment.content.text,
        speaker: segment.content.speaker,
        language: segment.content.language,
        session_uid: segment.key.session_uid,
    }
}

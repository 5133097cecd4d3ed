//! What is told is read at once, and only what has changed is told on.

use std::sync::Arc;

use roundsman_core::bots::{BotStatus, MeetingId, stream_of};
use roundsman_core::effects::Frame;
use roundsman_core::ports::{AnonymiseAnswer, MessageAnswer, NewMessage, Taken};
use roundsman_core::transcripts::{
    FRAME_BYTES_MAX, LANGUAGE_CHARS_MAX, Line, NAME_CHARS_MAX, SEGMENTS_PER_MESSAGE_MAX, Speakers,
    TEXT_BYTES_MAX, TIME_MS_MAX, ToldSegment, UID_BYTES_MAX, collect, mutable_frames,
};
use roundsman_core::users::UserId;

use super::attend::{frames_of, user};
use super::fixture::Fixture;
use super::speak::{
    UID, assert_replays, hear, live_lines, read, read_since, room, room_of, settle, speech, spoken,
    take, taken, texts, told, told_as, told_by, unfiltered,
};
use super::wishes::{MINUTE, SECOND};

/// The answer, the rows and the frame are those that the rules say.
pub async fn what_is_told_is_read_at_once(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now() - MINUTE;
    hear(fx, room.starts(UID, start, fx.now())).await;
    let before = read(fx, &room).await;
    assert_eq!(before.lines, vec![]);
    let told = vec![
        told(1500, 4250, "alpha"),
        ToldSegment {
            completed: Some(true),
            language: None,
            ..told_as("x 1", 5000, 6000, "bravo")
        },
        told_by("Ann", 7000, 7001, "charlie"),
    ];
    fx.advance(SECOND);
    let answer = hear(fx, room.says(7, told.clone())).await;

    let seq = before.seq + 1;
    let changed = collect(Some(UID), &told, vec![], &Speakers::default(), 7, fx.now());
    let mut lines: Vec<Line> = changed
        .into_iter()
        .map(|known| Line { segment: known.segment, session_start: Some(start), kept: false })
        .collect();
    let mut frames = mutable_frames(room.meeting, &lines, fx.now());
    let body = frames.remove(0).body;
    let frame = Frame { stream: stream_of(room.meeting), seq, body, at: fx.now() };
    for line in &mut lines {
        line.segment.seq = seq;
    }
    let expected = Taken {
        changed: 3,
        frames: vec![frame.clone()],
        live: lines.clone(),
        session_start: Some(start),
    };
    assert_eq!(answer, expected);
    assert_eq!(frames_of(fx, room.meeting).await.last(), Some(&frame));
    let now = read(fx, &room).await;
    assert_eq!((now.seq, &now.lines, &now.retracted), (seq, &lines, &vec![]));
    assert_eq!(live_lines(fx, &room).await, lines);
    assert_replays(fx, &room, &before).await;
}

/// T-1: one frame, one write.
pub async fn the_same_a_hundred_times_is_written_once(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let first = hear(fx, room.says(1, speech(3, "alpha"))).await;
    assert_eq!((first.changed, first.frames.len()), (3, 1));
    let written = spoken(fx, &room).await;
    let segment = read(fx, &room).await.lines.remove(0).segment;
    assert_eq!((segment.version, segment.updated_at), (1, fx.now()));
    for version in 2..=100 {
        fx.advance(SECOND);
        let again = hear(fx, room.says(version, speech(3, "alpha"))).await;
        assert_eq!(again, Taken::default());
    }
    assert_eq!(spoken(fx, &room).await, written, "neither version nor time nor frame");
}

pub async fn only_what_has_changed_is_told_on(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, speech(5, "alpha"))).await;
    let before = read(fx, &room).await;
    fx.advance(SECOND);
    let mut revised = speech(5, "alpha");
    revised[1].text.push_str(" and more");
    revised[3].end_ms += 1;
    let answer = hear(fx, room.says(2, revised)).await;
    assert_eq!((answer.changed, answer.frames.len()), (2, 1));
    assert_eq!(texts(&answer.live), ["alpha number 1 and more", "alpha number 3"]);
    let body = answer.frames[0].body.to_value();
    assert_eq!(body["payload"]["segments"].as_array().map(Vec::len), Some(2));
    let after = read(fx, &room).await;
    for (was, is) in before.lines.iter().zip(&after.lines) {
        let changed = [1000, 3000].contains(&is.segment.start_ms);
        let segment = &is.segment;
        assert_eq!(was != is, changed, "{is:?}");
        assert_eq!(segment.seq == after.seq, changed);
        assert_eq!(segment.updated_at == fx.now(), changed);
        assert_eq!(segment.version, if changed { 2 } else { 1 });
        assert_eq!(segment.created_at, was.segment.created_at);
    }
    assert_replays(fx, &room, &before).await;
}

/// What a listener does not see is not worth a frame: that the producer is done with a segment.
pub async fn what_nobody_sees_is_no_change(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, vec![told(0, 900, "alpha")])).await;
    let written = spoken(fx, &room).await;
    let done = ToldSegment { completed: Some(true), ..told(0, 900, "alpha") };
    assert_eq!(hear(fx, room.says(2, vec![done])).await, Taken::default());
    assert_eq!(spoken(fx, &room).await, written);
}

/// T-7: v3, v1, v2.
pub async fn an_older_telling_changes_nothing(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    for (version, text, changed) in [(3, "third", 1), (1, "first", 0), (2, "second", 0)] {
        let answer = hear(fx, room.says(version, vec![told(0, 900, text)])).await;
        assert_eq!(answer.changed, changed);
        assert_eq!(texts(&read(fx, &room).await.lines), ["third"]);
    }
    // The same number may say more: it was one message that was sent in two parts.
    assert_eq!(hear(fx, room.says(3, vec![told(0, 900, "third part")])).await.changed, 1);
    assert_eq!(texts(&read(fx, &room).await.lines), ["third part"]);
}

/// T-3: messages that are delivered again after they were taken.
pub async fn a_redelivery_changes_nothing(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    let batch = vec![
        room.starts(UID, start, start),
        room.says(1, speech(3, "alpha")),
        room.says(2, speech(5, "bravo")),
        room.says(3, vec![told(1000, 1900, "charlie")]),
        room.ends(UID),
    ];
    take(fx, batch.clone()).await;
    let written = spoken(fx, &room).await;
    for redelivered in [&batch[..], &batch[1..2], &batch[..3], &batch[3..]] {
        fx.advance(SECOND);
        for answer in take(fx, redelivered.to_vec()).await {
            let taken = taken(answer);
            assert_eq!((taken.changed, taken.frames, taken.live), (0, vec![], vec![]));
        }
        assert_eq!(spoken(fx, &room).await, written);
    }
}

/// T-8: a producer without ids whose times move by milliseconds while the text grows.
pub async fn a_start_that_moves_a_little_is_the_same_segment(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let told = [
        told(1000, 2000, "he"),
        told(1012, 2500, "hello"),
        told(995, 3000, "hello there"),
        told(1050, 3100, "hello there all"),
    ];
    for (version, segment) in (1..).zip(told) {
        assert_eq!(hear(fx, room.says(version, vec![segment])).await.changed, 1);
        let lines = read(fx, &room).await.lines;
        assert_eq!(lines.len(), 1);
        let segment = &lines[0].segment;
        assert_eq!((segment.start_ms, segment.key.field.as_str()), (1000, "1.000"));
    }
    assert_eq!(texts(&read(fx, &room).await.lines), ["hello there all"]);
}

/// T-9: the same start twice, apart by the producer's ids or by the session.
pub async fn segments_with_one_start_stay_apart(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let both = vec![told_as("a", 1000, 2000, "alpha"), told_as("b", 1000, 2000, "bravo")];
    hear(fx, room.says(1, both.clone())).await;
    hear(fx, room.says(2, vec![told(1000, 2000, "charlie")])).await;
    hear(fx, room.says_in(Some("session-b"), 1, vec![told(1000, 2000, "delta")])).await;
    hear(fx, room.says_in(None, 1, vec![told(1000, 2000, "echo")])).await;
    let mut lines = texts(&read(fx, &room).await.lines).join(" ");
    assert_eq!(lines.split(' ').count(), 5, "{lines}");
    // An id names its segment wherever it has moved.
    let moved = vec![told_as("a", 1700, 2700, "alpha moved")];
    assert_eq!(hear(fx, room.says(3, moved)).await.changed, 1);
    lines = texts(&read(fx, &room).await.lines).join(" ");
    assert_eq!(lines.split(' ').count(), 6, "{lines}");
    assert!(lines.contains("alpha moved"), "{lines}");
    assert_eq!(hear(fx, room.says(4, both)).await.changed, 1, "only the one that had moved");
}

pub async fn a_message_sees_what_those_before_it_did(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let start = fx.now();
    let before = read(fx, &room).await;
    let batch = vec![
        room.says(1, vec![told(0, 900, "alpha")]),
        room.starts(UID, start, start),
        room.says(3, vec![told(0, 900, "alpha bravo"), told(1000, 1900, "new")]),
        room.says(2, vec![told(0, 900, "older"), told(1000, 1900, "older")]),
        room.says(4, vec![told(0, 900, "alpha bravo"), told(1000, 1900, "new")]),
        room.starts(UID, start + SECOND, start),
    ];
    let answers: Vec<Taken> = take(fx, batch).await.into_iter().map(taken).collect();
    let changed: Vec<u32> = answers.iter().map(|taken| taken.changed).collect();
    assert_eq!(changed, [1, 1, 2, 0, 0, 0]);
    let starts: Vec<_> = answers.iter().map(|taken| taken.session_start).collect();
    assert_eq!(starts[0], None);
    assert!(starts[1..].iter().all(|known| *known == Some(start)), "{starts:?}");
    let seqs: Vec<i64> =
        answers.iter().flat_map(|taken| &taken.frames).map(|frame| frame.seq).collect();
    assert_eq!(seqs, [before.seq + 1, before.seq + 2, before.seq + 3]);
    assert_eq!(texts(&read(fx, &room).await.lines), ["alpha bravo", "new"]);
    assert_replays(fx, &room, &before).await;
}

pub async fn a_batch_of_several_meetings_is_answered_in_order(fx: &Arc<Fixture>) {
    let (first, second) = (room(fx, "ada").await, room(fx, "bob").await);
    let nobody = NewMessage {
        meeting_id: MeetingId::new(1_000_000),
        ..first.says(9, vec![told(0, 900, "nowhere")])
    };
    let (before_first, before_second) = (read(fx, &first).await, read(fx, &second).await);
    let batch = vec![
        second.says(1, speech(2, "second")),
        nobody,
        first.says(1, speech(3, "first")),
        second.says(2, speech(1, "revised")),
        first.says(2, speech(3, "first")),
    ];
    let answers = take(fx, batch).await;
    assert_eq!(answers[1], MessageAnswer::NoSuchMeeting);
    let changed: Vec<Option<(u32, Vec<i64>)>> = answers
        .into_iter()
        .map(|answer| match answer {
            MessageAnswer::Taken(taken) => {
                Some((taken.changed, taken.frames.iter().map(|frame| frame.seq).collect()))
            }
            MessageAnswer::NoSuchMeeting => None,
        })
        .collect();
    let (a, b) = (before_first.seq, before_second.seq);
    let expected = [
        Some((2, vec![b + 1])),
        None,
        Some((3, vec![a + 1])),
        Some((1, vec![b + 2])),
        Some((0, vec![])),
    ];
    assert_eq!(changed, expected);
    assert_eq!(texts(&read(fx, &second).await.lines), ["revised number 0", "second number 1"]);
    assert_replays(fx, &first, &before_first).await;
    assert_replays(fx, &second, &before_second).await;
}

pub async fn who_is_not_there_is_not_heard(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let bob = user(fx, "bob").await;
    let forgotten = room_of(fx, room.user, "forgotten", BotStatus::Completed).await;
    let answer = fx.store.anonymise_meeting(room.user, forgotten.target(), fx.now()).await;
    assert_eq!(answer.expect("anonymise_meeting"), AnonymiseAnswer::Done);
    let before = (spoken(fx, &room).await, spoken(fx, &forgotten).await);
    let segments = vec![told(0, 900, "alpha")];
    let strangers = [
        (MeetingId::new(1_000_000), room.user),
        (MeetingId::new(0), room.user),
        (MeetingId::new(i64::MAX), room.user),
        (room.meeting, bob),
        (room.meeting, UserId::new(1_000_000)),
        (forgotten.meeting, room.user),
    ];
    for (meeting_id, user_id) in strangers {
        let messages = [
            room.says(1, segments.clone()),
            room.says_in(None, 1, segments.clone()),
            room.starts(UID, fx.now(), fx.now()),
            room.ends(UID),
        ];
        for message in messages {
            let message = NewMessage { meeting_id, user_id, ..message };
            assert_eq!(take(fx, vec![message]).await, [MessageAnswer::NoSuchMeeting]);
        }
    }
    assert_eq!((spoken(fx, &room).await, spoken(fx, &forgotten).await), before);
}

/// What was said just before a meeting ended comes after it has ended.
pub async fn a_meeting_is_heard_in_every_state(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in BotStatus::ALL {
        let room = room_of(fx, ada, status.as_str(), status).await;
        assert_eq!(hear(fx, room.says(1, speech(2, "alpha"))).await.changed, 2, "{status:?}");
        assert_eq!(read(fx, &room).await.lines.len(), 2);
    }
}

/// The limits of a message: it is one change, told by as many frames as it takes.
pub async fn the_largest_message_is_taken_whole(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let before = read(fx, &room).await;
    let count = i64::try_from(SEGMENTS_PER_MESSAGE_MAX).expect("few");
    let mut segments = speech(count, &"word ".repeat(200));
    segments[0].text = "é".repeat(TEXT_BYTES_MAX / 2);
    let bytes: usize = segments.iter().map(|segment| segment.text.len()).sum();
    let answer = hear(fx, room.says(1, segments.clone())).await;
    assert_eq!(answer.changed as usize, SEGMENTS_PER_MESSAGE_MAX);
    assert_eq!(answer.live.len(), SEGMENTS_PER_MESSAGE_MAX);
    assert!(answer.frames.len() > bytes / FRAME_BYTES_MAX, "{} frames", answer.frames.len());
    let seqs: Vec<i64> = answer.frames.iter().map(|frame| frame.seq).collect();
    let last = before.seq + i64::try_from(answer.frames.len()).expect("few");
    assert_eq!(seqs, (before.seq + 1..=last).collect::<Vec<_>>());
    let after = read(fx, &room).await;
    assert_eq!((after.seq, after.lines.len()), (last, SEGMENTS_PER_MESSAGE_MAX));
    assert!(after.lines.iter().all(|line| line.segment.seq == last));
    // Whoever got only some of the frames learns all of it.
    assert_eq!(read_since(fx, &room, Some(last - 1)).await.lines, after.lines);
    assert_replays(fx, &room, &before).await;
    assert_eq!(hear(fx, room.says(2, segments)).await, Taken::default());
}

pub async fn every_text_comes_back_as_it_was_told(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let long = "x".repeat(TEXT_BYTES_MAX);
    let texts = [
        "",
        "  x  ",
        "it's \"quoted\" \\ %_ $1 ?1 {}",
        "zwei\nZeilen\r\n\tund ein Tab",
        "שלום \u{202e} 😀 e\u{301} \u{2028} \u{feff}",
        "<script>alert(1)</script>",
        "'; DROP TABLE transcriptions; --",
        &long,
    ];
    let told: Vec<ToldSegment> = texts
        .iter()
        .zip(0i64..)
        .map(|(text, n)| ToldSegment {
            text: (*text).to_owned(),
            speaker: Some(format!("{}{n}", "ß".repeat(NAME_CHARS_MAX - 1))),
            language: Some("é".repeat(LANGUAGE_CHARS_MAX)),
            segment_id: Some(format!("{}{n}", "i".repeat(UID_BYTES_MAX - 1))),
            ..told(n * 1000, TIME_MS_MAX, "")
        })
        .collect();
    let uid = "u".repeat(UID_BYTES_MAX);
    hear(fx, room.says_in(Some(&uid), i64::MAX, told.clone())).await;
    for settled in [false, true] {
        let lines = read(fx, &room).await.lines;
        assert_eq!(lines.len(), told.len());
        for line in lines {
            let segment = &line.segment;
            let index = usize::try_from(segment.start_ms / 1000).expect("few");
            let was = &told[index];
            assert_eq!(segment.key.session_uid.as_ref(), Some(&uid));
            assert_eq!(segment.version, i64::MAX);
            assert_eq!(segment.segment_id, was.segment_id);
            let content = &segment.content;
            assert_eq!(content.text, was.text);
            assert_eq!((&content.speaker, &content.language), (&was.speaker, &was.language));
            assert_eq!(content.end_ms, TIME_MS_MAX);
            assert_eq!(line.kept, settled);
        }
        settle(fx, &room, unfiltered()).await;
    }
}

pub async fn nothing_said_is_nothing_written(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let before = spoken(fx, &room).await;
    assert_eq!(take(fx, vec![]).await, vec![]);
    for uid in [None, Some(UID)] {
        assert_eq!(hear(fx, room.says_in(uid, 1, vec![])).await, Taken::default());
    }
    assert_eq!(spoken(fx, &room).await, before);
}

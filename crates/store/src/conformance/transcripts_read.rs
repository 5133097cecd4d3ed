//! What is read of transcripts and their streams, and by whom.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotStatus, MeetingId, stream_of};
use roundsman_core::effects::{Effects, Frame, NewFrame};
use roundsman_core::ports::{BotTarget, LiveMeeting};
use roundsman_core::transcripts::{
    Line, SEQ_RANGES_MAX, SegmentKey, SeqRange, SpeakerStatus, TIME_MS_MAX, field_of,
};
use roundsman_core::users::UserId;

use super::attend::{as_row, at_address, change, exit, frames_of, plain_row, user};
use super::backdoor::Said;
use super::fixture::Fixture;
use super::speak::{
    NOISE, Room, UID, assert_replays, hear, live_lines, read, read_since, room, room_of,
    settle_all, speech, spoken, take, texts, told,
};
use super::wishes::{MINUTE, SECOND, json};

pub async fn final_and_live_are_read_as_one(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let empty = read(fx, &room).await;
    assert_eq!(plain_row(empty.row.clone()), as_row(&room.bot));
    assert_eq!((empty.lines, empty.retracted), (vec![], vec![]));
    hear(fx, room.says(1, speech(4, "alpha"))).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(2, speech(6, "alpha"))).await;
    hear(fx, room.says(3, vec![told(1000, 1900, "revised")])).await;
    let read_all = read(fx, &room).await;
    let kept: Vec<bool> = read_all.lines.iter().map(|line| line.kept).collect();
    assert_eq!(kept, [true, true, true, true, false, false]);
    assert_eq!(texts(&read_all.lines)[..2], ["alpha number 0", "revised"]);
    let by_address = fx.store.transcript(room.user, room.address(), None).await;
    let by_address = by_address.expect("transcript").expect("it is theirs");
    assert_eq!((by_address.seq, by_address.lines.len()), (read_all.seq, 6));
}

/// The frames about the meeting and those about what is said count together.
pub async fn the_place_is_that_of_the_last_frame(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let last = async || frames_of(fx, room.meeting).await.last().map_or(0, |frame| frame.seq);
    let begun = read(fx, &room).await.seq;
    assert_eq!(begun, last().await, "the bot was told of");
    assert!(begun > 0);
    hear(fx, room.says(1, speech(2, "alpha"))).await;
    assert_eq!(read(fx, &room).await.seq, begun + 1);
    change(fx, &room.bot, exit(0)).await;
    let ended = read(fx, &room).await.seq;
    assert_eq!(ended, last().await);
    assert!(ended > begun + 1, "and it was told of its end");
    hear(fx, room.says(2, speech(3, "alpha"))).await;
    assert_eq!((read(fx, &room).await.seq, last().await), (ended + 1, ended + 1));
    let seqs: Vec<i64> = frames_of(fx, room.meeting).await.iter().map(|frame| frame.seq).collect();
    assert_eq!(seqs, (1..=ended + 1).collect::<Vec<_>>());
}

/// Whoever names a place gets what has changed after it, wherever it is now.
pub async fn only_what_changed_since_is_read(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let mut places = vec![read(fx, &room).await];
    hear(fx, room.says(1, speech(3, "alpha"))).await;
    places.push(read(fx, &room).await);
    hear(fx, room.says(2, vec![told(1000, 1900, "revised"), told(3000, 3900, NOISE)])).await;
    places.push(read(fx, &room).await);
    settle_all(fx, &room).await;
    places.push(read(fx, &room).await);
    hear(fx, room.says(3, vec![told(2000, 2900, "revised late"), told(5000, 5900, "new")])).await;
    places.push(read(fx, &room).await);
    let expected = [
        (vec!["alpha number 0", "revised", "revised late", "new"], 1),
        (vec!["revised", "revised late", "new"], 1),
        (vec!["revised late", "new"], 1),
        (vec!["revised late", "new"], 0),
        (vec![], 0),
    ];
    let end = places[4].seq;
    for (place, (lines, retracted)) in places.iter().zip(expected) {
        let since = read_since(fx, &room, Some(place.seq)).await;
        assert_eq!((texts(&since.lines), since.retracted.len()), (lines, retracted));
        assert_eq!(since.seq, end);
        assert_replays(fx, &room, place).await;
    }
    for beyond in [end + 1, i64::MAX] {
        assert_eq!(read_since(fx, &room, Some(beyond)).await.lines, vec![]);
    }
    assert_eq!(read_since(fx, &room, Some(i64::MIN)).await.lines.len(), 4);
}

pub async fn nobody_reads_the_meetings_of_others(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    hear(fx, room.says(1, speech(3, "alpha"))).await;
    settle_all(fx, &room).await;
    let nowhere = [
        (other.user, room.target()),
        (other.user, room.address()),
        (UserId::new(1_000_000), room.target()),
        (room.user, BotTarget::Meeting(MeetingId::new(1_000_000))),
        (room.user, BotTarget::Meeting(MeetingId::new(i64::MAX))),
        (room.user, at_address("nowhere")),
    ];
    for (user, target) in nowhere {
        let found = fx.store.transcript(user, target, None).await.expect("transcript");
        assert_eq!(found, None);
    }
    assert_eq!(read(fx, &other).await.lines, vec![]);
}

/// Meetings that come back at the same address: the latest is meant.
pub async fn an_address_means_the_latest_meeting(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let weekly = async |word: &str| {
        let room = room_of(fx, ada, "weekly", BotStatus::Completed).await;
        hear(fx, room.says(1, speech(1, word))).await;
        room
    };
    let (first, second) = (weekly("first").await, weekly("second").await);
    let found = fx.store.transcript(ada, first.address(), None).await;
    let found = found.expect("transcript").expect("it is theirs");
    assert_eq!(
        (found.row.meeting.id, texts(&found.lines)),
        (second.meeting, vec!["second number 0"])
    );
    assert_eq!(texts(&read(fx, &first).await.lines), ["first number 0"]);
}

pub async fn live_meetings_are_listed_in_pages(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut expected = Vec::new();
    for number in 0..7i64 {
        let room = room_of(fx, ada, &number.to_string(), BotStatus::Active).await;
        let begun = fx.now();
        if number % 3 == 2 {
            continue;
        }
        hear(fx, room.says(1, speech(number + 1, "alpha"))).await;
        fx.advance(SECOND);
        // Only what changed is younger.
        hear(fx, room.says(2, vec![told(0, 900, "revised")])).await;
        let unchanged_since = if number == 0 { fx.now() } else { begun };
        let segments = u64::try_from(number + 1).expect("few");
        let meeting_id = room.meeting;
        expected.push((room, LiveMeeting { meeting_id, segments, unchanged_since }));
    }
    let live = async |after, rows_max| {
        fx.store.live_meetings(after, rows_max).await.expect("live_meetings")
    };
    let listed: Vec<LiveMeeting> = expected.iter().map(|(_, live)| *live).collect();
    assert_eq!(live(None, 100).await, listed);
    assert_eq!(live(None, 2).await, listed[..2]);
    assert_eq!(live(Some(listed[1].meeting_id), 2).await, listed[2..4]);
    assert_eq!(live(Some(MeetingId::new(i64::MAX)), 2).await, vec![]);
    let count = async || fx.store.live_segment_count().await.expect("live_segment_count");
    assert_eq!(count().await, listed.iter().map(|live| live.segments).sum::<u64>());

    // What is final or refused is not live.
    settle_all(fx, &expected[1].0).await;
    let other = &expected[0].0;
    hear(fx, other.says(3, vec![told(0, 900, NOISE)])).await;
    settle_all(fx, other).await;
    assert_eq!(live(None, 100).await, listed[2..]);
    let left: u64 = listed[2..].iter().map(|live| live.segments).sum();
    assert_eq!(count().await, left);
    hear(fx, other.says(4, vec![told(0, 900, "back again")])).await;
    let back = LiveMeeting { meeting_id: other.meeting, segments: 1, unchanged_since: fx.now() };
    assert_eq!(live(None, 1).await, [back]);
}

/// By session, then by field, both as bytes: whoever reads the cache reads the same order.
pub async fn live_lines_are_in_the_order_of_their_keys(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    for uid in [Some("b"), Some("B"), Some("é"), Some("a-b"), Some("a_b"), Some("a b"), None] {
        let segments = [10_000, 9000, 100_000].map(|at| told(at, at + 900, "alpha"));
        hear(fx, room.says_in(uid, 1, segments.to_vec())).await;
    }
    let keys = |lines: &[Line]| -> Vec<SegmentKey> {
        lines.iter().map(|line| line.segment.key.clone()).collect()
    };
    let found = keys(&live_lines(fx, &room).await);
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!((found.len(), &found), (21, &sorted));
    assert_eq!(live_of(fx, MeetingId::new(1_000_000)).await, vec![]);
}

/// Rows of `transcriptions` that somebody else wrote are read like our own, as far as they go.
pub async fn rows_of_somebody_else_are_read(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let room = room(fx, "ada").await;
    let start = fx.now() - MINUTE;
    door.put_session(room.meeting, "bare", start).await;
    let said = |at: f64, text: &str, uid: Option<&str>| Said {
        start: at,
        end: at + 1.5,
        text: text.to_owned(),
        speaker: (text == "known").then(|| "Ann".to_owned()),
        language: Some("fr".to_owned()),
        session_uid: uid.map(ToOwned::to_owned),
    };
    let rows = [
        said(1.25, "known", Some("bare")),
        said(3.0, "prefixed", Some("google_meet_bare")),
        said(5.0, "unknown session", Some("lost")),
        said(5.0, "unknown session again", Some("lost")),
        said(7.0, "no session", None),
    ];
    for row in rows {
        door.put_said(room.meeting, row).await;
    }
    hear(fx, room.says(1, vec![told(9000, 9900, "ours")])).await;
    let found = read(fx, &room).await;
    let expected =
        ["known", "prefixed", "unknown session", "unknown session again", "no session", "ours"];
    let all: BTreeSet<&str> = texts(&found.lines).into_iter().collect();
    assert_eq!((all, found.lines.len()), (BTreeSet::from(expected), 6));
    for line in found.lines.iter().filter(|line| line.segment.content.text != "ours") {
        let segment = &line.segment;
        let has_start = ["known", "prefixed"].contains(&segment.content.text.as_str());
        assert_eq!(line.session_start, has_start.then_some(start));
        assert_eq!((line.kept, segment.seq, segment.version), (true, 0, 0));
        assert_eq!(segment.key.field, field_of(segment.start_ms));
        assert_eq!(segment.content.end_ms, segment.start_ms + 1500);
        assert_eq!(segment.content.language.as_deref(), Some("fr"));
        let status = match segment.content.speaker {
            Some(_) => SpeakerStatus::Mapped,
            None => SpeakerStatus::Unknown,
        };
        assert_eq!(segment.speaker_status, status);
        assert_eq!((segment.segment_id.as_deref(), segment.completed), (None, None));
        assert_eq!(segment.updated_at, segment.created_at);
    }
    // They were never told of, so nobody waits for them.
    assert_eq!(texts(&read_since(fx, &room, Some(0)).await.lines), ["ours"]);
}

/// Whatever times somebody else wrote, the row can be read.
pub async fn odd_times_of_somebody_else_are_read(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let room = room(fx, "ada").await;
    door.put_session(room.meeting, UID, Timestamp::EPOCH).await;
    let times = [
        (-1.0, 1.0),
        (5.0, 2.0),
        (1e308, 1e308),
        (0.0, f64::INFINITY),
        (f64::NEG_INFINITY, 0.0),
        (86_400.1, 90_000.0),
        (0.000_4, 0.000_6),
    ];
    for (start, end) in times {
        let (text, session_uid) = ("odd".to_owned(), Some(UID.to_owned()));
        door.put_said(room.meeting, Said { start, end, text, session_uid, ..Said::default() })
            .await;
    }
    let lines = read(fx, &room).await.lines;
    assert_eq!(lines.len(), times.len());
    for line in lines {
        let segment = &line.segment;
        let within = 0..=TIME_MS_MAX;
        assert!(within.contains(&segment.start_ms) && within.contains(&segment.content.end_ms));
        assert!(segment.absolute(line.session_start).is_some());
    }
}

pub async fn the_ends_of_streams_are_told_in_order(fx: &Arc<Fixture>) {
    let (first, second) = (room(fx, "ada").await, room(fx, "bob").await);
    hear(fx, second.says(1, speech(1, "alpha"))).await;
    let (a, b) = (read(fx, &first).await.seq, read(fx, &second).await.seq);
    assert_ne!(a, b);
    let nobody = MeetingId::new(1_000_000);
    let asked = vec![second.meeting, nobody, first.meeting, second.meeting];
    let ends = fx.store.stream_ends(asked).await.expect("stream_ends");
    assert_eq!(ends, [b, 0, a, b]);
    assert_eq!(fx.store.stream_ends(vec![]).await.expect("stream_ends"), Vec::<i64>::new());
}

/// T-2: frames of which nobody has noted that they were handed on are found again.
pub async fn frames_that_were_not_handed_on_are_found(fx: &Arc<Fixture>) {
    let (first, second) = (room(fx, "ada").await, room(fx, "bob").await);
    // Nobody hands on what is not a meeting's.
    let frame = NewFrame { stream: "presence".to_owned(), body: json("{}") };
    let effects = Effects { frames: vec![frame], ..Effects::default() };
    fx.store.commit(None, effects, fx.now()).await.expect("commit");
    let all = |frames: &[Frame]| -> Vec<(String, i64)> {
        frames.iter().map(|frame| (frame.stream.clone(), frame.seq)).collect()
    };
    let everything = async || {
        let mut frames = frames_of(fx, first.meeting).await;
        frames.extend(frames_of(fx, second.meeting).await);
        frames.sort_by(|a, b| (&a.stream, a.seq).cmp(&(&b.stream, b.seq)));
        frames
    };
    fx.advance(MINUTE);
    hear(fx, first.says(1, speech(1, "alpha"))).await;
    hear(fx, second.says(1, speech(1, "alpha"))).await;
    assert_eq!(waiting(fx, 1000).await, everything().await, "with bodies and times");
    assert_eq!(waiting(fx, 2).await, everything().await[..2]);

    let (a, b) = (read(fx, &first).await.seq, read(fx, &second).await.seq);
    published(fx, &[(&first, a), (&second, b - 1)]).await;
    assert_eq!(all(&waiting(fx, 1000).await), [(stream_of(second.meeting), b)]);
    // It never goes back, and knows each meeting by itself.
    published(fx, &[(&first, a - 1), (&second, 0), (&first, 1)]).await;
    assert_eq!(all(&waiting(fx, 1000).await), [(stream_of(second.meeting), b)]);
    published(fx, &[(&second, b)]).await;
    published(fx, &[]).await;
    assert_eq!(waiting(fx, 1000).await, vec![]);
    hear(fx, first.says(2, speech(2, "alpha"))).await;
    assert_eq!(all(&waiting(fx, 1000).await), [(stream_of(first.meeting), a + 1)]);
}

/// T3: a node dies with a frame while another one hands on a later one.
pub async fn a_later_frame_hides_no_earlier_one(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    fill(fx, &room, 12).await;
    fill(fx, &other, 5).await;
    handed_on(fx, &room, &[(1, 4)]).await;
    // The fifth is the dead node's.
    handed_on(fx, &room, &[(6, 6)]).await;
    assert_eq!(missing(fx, &room).await, [5, 7, 8, 9, 10, 11, 12]);
    handed_on(fx, &room, &[(8, 9), (11, 11), (7, 7), (6, 8)]).await;
    assert_eq!(missing(fx, &room).await, [5, 10, 12]);
    assert_eq!(missing(fx, &other).await, [1, 2, 3, 4, 5], "each meeting by itself");
    assert_eq!(waiting(fx, 2).await, waiting(fx, 10_000).await[..2], "what is ahead takes no room");
    // Whoever finds it hands it on, and what was ahead of it is known.
    handed_on(fx, &room, &[(5, 5)]).await;
    assert_eq!(missing(fx, &room).await, [10, 12]);
    for _ in 0..2 {
        let ranges = [(&room, 10, 10), (&room, 12, 12), (&other, 2, 5), (&other, 1, 1)];
        let ranges = ranges.map(|(room, first, last)| (room.meeting, SeqRange::new(first, last)));
        fx.store.frames_published(ranges.to_vec()).await.expect("frames_published");
        assert_eq!(waiting(fx, 10_000).await, vec![]);
    }
    fill(fx, &room, 14).await;
    assert_eq!(missing(fx, &room).await, [13, 14]);
    handed_on(fx, &room, &[(14, 14)]).await;
    assert_eq!(missing(fx, &room).await, [13]);
}

/// What is forgotten because there is too much of it is handed on again, and then all is known.
pub async fn more_holes_than_are_remembered_are_found_again(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let holes = i64::try_from(SEQ_RANGES_MAX).expect("few") + 5;
    fill(fx, &room, 2 * holes).await;
    for hole in 1..=holes {
        handed_on(fx, &room, &[(2 * hole, 2 * hole)]).await;
    }
    let forgotten = missing(fx, &room).await;
    let odd: Vec<i64> = (1..=holes).map(|hole| 2 * hole - 1).collect();
    assert!(odd.iter().all(|seq| forgotten.contains(seq)), "{forgotten:?}");
    assert!(forgotten.len() > odd.len(), "not everything can be remembered");
    let found: Vec<(i64, i64)> = forgotten.iter().map(|seq| (*seq, *seq)).collect();
    handed_on(fx, &room, &found).await;
    assert_eq!(missing(fx, &room).await, Vec::<i64>::new());
}

/// A frame that is gone before anybody handed it on holds nothing up.
pub async fn a_frame_that_is_gone_is_not_looked_for(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    fill(fx, &room, 8).await;
    handed_on(fx, &room, &[(6, 7)]).await;
    let deleted = fx.store.delete_transcript(room.user, room.target(), fx.now()).await;
    let frames = deleted.expect("delete_transcript").expect("it is theirs").frames;
    let seqs: Vec<i64> = frames.iter().map(|frame| frame.seq).collect();
    assert_eq!((missing(fx, &room).await, &seqs), (vec![9], &vec![9]));
    handed_on(fx, &room, &[(9, 9)]).await;
    fill(fx, &room, 10).await;
    assert_eq!(missing(fx, &room).await, [10]);
}

/// Only those of the time that is asked for.
pub async fn frames_are_looked_for_between_times(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let mut told_at = Vec::new();
    for version in 1..=3 {
        fx.advance(MINUTE);
        let taken = hear(fx, room.says(version, vec![told(0, 900, &format!("v{version}"))])).await;
        told_at.push((fx.now(), taken.frames[0].clone()));
    }
    let found = async |from: Timestamp, until: Timestamp| {
        fx.store.unpublished_frames(from, until, 100).await.expect("unpublished_frames")
    };
    let (second, frame) = told_at[1].clone();
    assert_eq!(found(second - SECOND, second + SECOND).await, [frame]);
    let until = found(second - SECOND, fx.now() + SECOND).await;
    assert_eq!(until.len(), 2);
    assert_eq!(found(second + SECOND, second + SECOND * 2).await, vec![]);
}

/// Whoever only reads writes nothing.
pub async fn a_look_changes_nothing(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, speech(3, "alpha"))).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(2, vec![told(5000, 5900, "live")])).await;
    let before = spoken(fx, &room).await;
    for _ in 0..3 {
        fx.advance(SECOND);
        read_since(fx, &room, Some(1)).await;
        waiting(fx, 10).await;
        fx.store.live_segment_count().await.expect("live_segment_count");
        fx.store.stream_ends(vec![room.meeting]).await.expect("stream_ends");
    }
    assert_eq!(spoken(fx, &room).await, before);
}

async fn live_of(fx: &Fixture, meeting: MeetingId) -> Vec<Line> {
    fx.store.live_lines(meeting).await.expect("live_lines")
}

async fn waiting(fx: &Fixture, rows_max: u32) -> Vec<Frame> {
    let (from, until) = (Timestamp::EPOCH, fx.now() + SECOND);
    let frames = fx.store.unpublished_frames(from, until, rows_max).await;
    frames.expect("unpublished_frames")
}

/// Everything of a meeting up to a place was handed on.
async fn published(fx: &Fixture, places: &[(&Room, i64)]) {
    let ranges = places.iter().map(|(room, seq)| (room.meeting, SeqRange::up_to(*seq))).collect();
    fx.store.frames_published(ranges).await.expect("frames_published");
}

/// Some frames of a meeting were handed on: the first and the last of each range.
async fn handed_on(fx: &Fixture, room: &Room, ranges: &[(i64, i64)]) {
    let range = |(first, last): &(i64, i64)| (room.meeting, SeqRange::new(*first, *last));
    let ranges = ranges.iter().map(range).collect();
    fx.store.frames_published(ranges).await.expect("frames_published");
}

/// The places of a meeting's frames of which it is not known that they were handed on.
async fn missing(fx: &Fixture, room: &Room) -> Vec<i64> {
    let stream = stream_of(room.meeting);
    let frames = waiting(fx, 10_000).await;
    frames.into_iter().filter(|frame| frame.stream == stream).map(|frame| frame.seq).collect()
}

/// Says something until the meeting has so many frames.
async fn fill(fx: &Fixture, room: &Room, frames: i64) {
    let begun = read(fx, room).await.seq;
    let messages = (begun + 1..=frames).map(|n| room.says(n, vec![told(0, 900, &format!("{n}"))]));
    take(fx, messages.collect()).await;
    assert_eq!(read(fx, room).await.seq, frames);
}

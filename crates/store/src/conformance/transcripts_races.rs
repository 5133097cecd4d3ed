//! Many at once on the same transcripts: the newest stays, nothing is missing or doubled, and
//! whoever follows the frames sees what is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use roundsman_core::bots::{BotEvent, BotStatus, MeetingId, stream_of};
use roundsman_core::effects::Frame;
use roundsman_core::ports::{
    AnonymiseAnswer, MessageAnswer, NewMessage, Rename, SearchPage, SettleRequest, Transcript,
};
use roundsman_core::transcripts::{SearchQuery, SegmentKey, SeqRange};

use super::attend::{happen, user};
use super::fixture::{Fixture, Task, at_once};
use super::speak::{
    Room, Shown, UID, all, apply, hear, keep_events, live_lines, read, rename, room, room_of,
    settle, shown, speech, take, taken, told, told_by, turn,
};
use super::wishes::SECOND;

/// What one reader saw of one meeting, one look after the other.
type Looks = BTreeMap<MeetingId, Vec<Transcript>>;

/// T1, T2, T4: revisions of the same segments by many, while others settle and read.
pub async fn the_newest_of_many_revisions_stays(fx: &Arc<Fixture>) {
    const SEGMENTS: i64 = 8;
    const TELLERS: usize = 6;
    let rooms = Arc::new(rooms(fx, 3).await);
    let revisions = fx.traits.transcript_revisions;
    let (told, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks: Vec<Task<Looks>> = Vec::new();
    for teller in 0..TELLERS {
        let (fx, rooms) = (Arc::clone(fx), Arc::clone(&rooms));
        let (told, done) = (Arc::clone(&told), Arc::clone(&done));
        tasks.push(Box::pin(async move {
            for version in (teller..=revisions).step_by(TELLERS) {
                let version = i64::try_from(version).expect("few");
                let mut batch: Vec<NewMessage> = rooms
                    .iter()
                    .map(|room| {
                        room.says(version, speech(SEGMENTS, &format!("revision {version}")))
                    })
                    .collect();
                let places = batch.len();
                batch.rotate_left(teller % places);
                take(&fx, batch).await;
                for room in rooms.iter() {
                    let lines = read(&fx, room).await.lines;
                    assert_eq!(lines.len(), usize::try_from(SEGMENTS).expect("few"));
                    let old = lines.iter().find(|line| line.segment.version < version);
                    assert_eq!(old, None, "what was acknowledged is read from then on");
                }
                tokio::task::yield_now().await;
            }
            if told.fetch_add(1, Ordering::SeqCst) + 1 == TELLERS {
                done.store(true, Ordering::SeqCst);
            }
            Looks::new()
        }));
    }
    for _ in 0..2 {
        tasks.push(settler(fx, &rooms, &done));
        tasks.push(reader(fx, &rooms, &done));
    }
    let looks = at_once(tasks).await;
    for room in rooms.iter() {
        for line in read(fx, room).await.lines {
            let n = line.segment.start_ms / 1000;
            assert_eq!(line.segment.content.text, format!("revision {revisions} number {n}"));
        }
        let seen = looks.iter().flat_map(|looks| looks.get(&room.meeting).into_iter().flatten());
        assert_frames_lead_from_look_to_look(fx, room, seen.cloned().collect()).await;
    }
}

/// T-19: while segments become final, every look has every segment once.
pub async fn no_look_misses_or_doubles_a_segment(fx: &Arc<Fixture>) {
    const SEGMENTS: i64 = 45;
    const READERS: usize = 4;
    let ada = user(fx, "ada").await;
    let (mut reads, mut mixed, mut round) = (0, 0, 0);
    while reads < fx.traits.transcript_reads {
        let room = Arc::new(room_of(fx, ada, &format!("{round}"), BotStatus::Active).await);
        round += 1;
        hear(fx, room.says(1, speech(SEGMENTS, "alpha"))).await;
        let done = Arc::new(AtomicBool::new(false));
        let mut tasks: Vec<Task<(usize, usize)>> = Vec::new();
        for _ in 0..READERS {
            let (fx, room, done) = (Arc::clone(fx), Arc::clone(&room), Arc::clone(&done));
            tasks.push(Box::pin(async move {
                let (mut reads, mut mixed) = (0, 0);
                while !done.load(Ordering::SeqCst) || reads == 0 {
                    let lines = read(&fx, &room).await.lines;
                    let keys: BTreeSet<&SegmentKey> =
                        lines.iter().map(|line| &line.segment.key).collect();
                    let expected = usize::try_from(SEGMENTS).expect("few");
                    assert_eq!((lines.len(), keys.len()), (expected, expected));
                    let kept = lines.iter().filter(|line| line.kept).count();
                    mixed += usize::from(kept > 0 && kept < lines.len());
                    reads += 1;
                    tokio::task::yield_now().await;
                }
                (reads, mixed)
            }));
        }
        let (fx_too, room_too) = (Arc::clone(fx), Arc::clone(&room));
        tasks.push(Box::pin(async move {
            loop {
                let few = SettleRequest { rows_max: 2, ..all() };
                let settled = settle(&fx_too, &room_too, few).await;
                tokio::task::yield_now().await;
                if settled.left == 0 {
                    break;
                }
            }
            done.store(true, Ordering::SeqCst);
            (0, 0)
        }));
        for (more_reads, more_mixed) in at_once(tasks).await {
            reads += more_reads;
            mixed += more_mixed;
        }
    }
    assert!(mixed > 0, "none of {reads} looks fell between, which is no race");
}

/// T-3: one message, delivered to many at once.
pub async fn one_of_many_deliveries_is_a_change(fx: &Arc<Fixture>) {
    let room = Arc::new(room(fx, "ada").await);
    for version in 1..=20 {
        let before = read(fx, &room).await.seq;
        let callers = (0..8).map(|_| {
            let (fx, room) = (Arc::clone(fx), Arc::clone(&room));
            async move { hear(&fx, room.says(version, speech(3, &format!("v{version}")))).await }
        });
        let answers = at_once(callers).await;
        let changes: u32 = answers.iter().map(|taken| taken.changed).sum();
        let frames: usize = answers.iter().map(|taken| taken.frames.len()).sum();
        assert_eq!((changes, frames), (3, 1));
        assert_eq!(read(fx, &room).await.seq, before + 1);
    }
}

/// T-4: one row for each segment, whoever settles it.
pub async fn each_segment_is_settled_once(fx: &Arc<Fixture>) {
    const SEGMENTS: i64 = 60;
    let room = Arc::new(room(fx, "ada").await);
    hear(fx, room.says(1, speech(SEGMENTS, "alpha"))).await;
    let settlers = (0..6).map(|_| {
        let (fx, room) = (Arc::clone(fx), Arc::clone(&room));
        async move {
            let mut kept = Vec::new();
            loop {
                let few = SettleRequest { rows_max: 7, ..all() };
                let settled = settle(&fx, &room, few).await;
                let left = settled.left;
                kept.extend(settled.gone);
                if left == 0 {
                    return kept;
                }
            }
        }
    });
    let kept: Vec<SegmentKey> = at_once(settlers).await.into_iter().flatten().collect();
    let once: BTreeSet<&SegmentKey> = kept.iter().collect();
    assert_eq!((kept.len(), once.len()), (60, 60));
    assert_eq!(read(fx, &room).await.lines.len(), 60);
    assert_eq!(live_lines(fx, &room).await, vec![]);
    if let Some(door) = &fx.backdoor {
        assert_eq!(door.count_said(room.meeting).await, 60);
    }
}

/// Messages of the same meetings in every order wait for each other and never for ever.
pub async fn batches_in_any_order_do_not_deadlock(fx: &Arc<Fixture>) {
    const CALLERS: usize = 8;
    const ROUNDS: usize = 10;
    let rooms = Arc::new(rooms(fx, 5).await);
    let callers = (0..CALLERS).map(|caller| {
        let (fx, rooms) = (Arc::clone(fx), Arc::clone(&rooms));
        async move {
            for round in 0..ROUNDS {
                let uid = format!("session-{caller}");
                let version = i64::try_from(round).expect("few");
                let word = format!("caller {caller} round {round}");
                let mut batch: Vec<NewMessage> = rooms
                    .iter()
                    .map(|room| room.says_in(Some(&uid), version, speech(2, &word)))
                    .collect();
                batch.rotate_left((caller + round) % rooms.len());
                if caller % 2 == 0 {
                    batch.reverse();
                }
                for answer in take(&fx, batch).await {
                    assert_eq!(taken(answer).changed, 2);
                }
            }
        }
    });
    at_once(callers).await;
    for room in rooms.iter() {
        let lines = read(fx, room).await.lines;
        assert_eq!(lines.len(), CALLERS * 2);
        assert!(lines.iter().all(|line| line.segment.content.text.contains("round 9")));
        assert_frames_lead_from_look_to_look(fx, room, vec![]).await;
    }
}

/// T5: a start that comes while segments do is the start of all of them.
pub async fn a_start_and_segments_at_once_agree(fx: &Arc<Fixture>) {
    for round in 0..10 {
        let room = Arc::new(room(fx, &format!("ada-{round}")).await);
        let before = read(fx, &room).await;
        let start = fx.now();
        let mut tasks: Vec<Task<()>> = Vec::new();
        for teller in 0..4i64 {
            let (fx, room) = (Arc::clone(fx), Arc::clone(&room));
            tasks.push(Box::pin(async move {
                for n in 0..5 {
                    let at = (n * 4 + teller) * 1000;
                    hear(&fx, room.says(1, vec![told(at, at + 900, "alpha")])).await;
                    tokio::task::yield_now().await;
                }
            }));
        }
        let (fx_too, room_too) = (Arc::clone(fx), Arc::clone(&room));
        tasks.push(Box::pin(async move {
            settle(&fx_too, &room_too, all()).await;
            hear(&fx_too, room_too.starts(UID, start, start)).await;
        }));
        at_once(tasks).await;
        let lines = read(fx, &room).await.lines;
        assert_eq!(lines.len(), 20);
        assert!(lines.iter().all(|line| line.session_start == Some(start)), "{lines:?}");
        assert_frames_lead_from_look_to_look(fx, &room, vec![before]).await;
    }
}

/// T5: so is the one that a bot brings while others speak, settle, rename and look after bots.
pub async fn a_bot_that_begins_while_others_speak_fills_back_all(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for round in 0..10 {
        let room = room_of(fx, ada, &format!("room-{round}"), BotStatus::Reserved).await;
        let uid = room.bot.bot.connection_id.as_str().to_owned();
        let (room, begun) = (Arc::new(room), fx.now());
        let before = read(fx, &room).await;
        let mut tasks: Vec<Task<()>> = Vec::new();
        for teller in 0..4i64 {
            let (fx, room, uid) = (Arc::clone(fx), Arc::clone(&room), uid.clone());
            tasks.push(Box::pin(async move {
                for n in 0..5 {
                    let at = (n * 4 + teller) * 1000;
                    let said = vec![told_by("Ann", at, at + 900, "alpha bravo")];
                    hear(&fx, room.says_in(Some(&uid), 1, said)).await;
                    tokio::task::yield_now().await;
                }
            }));
        }
        for event in [BotEvent::Started, BotEvent::Joined] {
            let (fx, room) = (Arc::clone(fx), Arc::clone(&room));
            tasks.push(Box::pin(async move {
                tokio::task::yield_now().await;
                happen(&fx, &room.bot, event).await;
                let kept = fx.store.anonymise_meeting(room.user, room.target(), fx.now()).await;
                assert!(matches!(kept, Ok(AnonymiseAnswer::NotOver(_))), "{kept:?}");
            }));
        }
        let (fx_too, room_too) = (Arc::clone(fx), Arc::clone(&room));
        tasks.push(Box::pin(async move {
            for name in ["Bob", "Cat"] {
                settle(&fx_too, &room_too, all()).await;
                rename(&fx_too, &room_too, "Ann", name).await;
            }
        }));
        at_once(tasks).await;
        let lines = read(fx, &room).await.lines;
        assert_eq!(lines.len(), 20);
        assert!(lines.iter().all(|line| line.session_start == Some(begun)), "{lines:?}");
        assert_frames_lead_from_look_to_look(fx, &room, vec![before]).await;
    }
}

/// All operations on few meetings by many callers: no call fails, and what is left agrees.
pub async fn everything_at_once_fails_nobody(fx: &Arc<Fixture>) {
    let rooms = Arc::new(rooms(fx, 3).await);
    let callers = (0..12usize).map(|caller| {
        let (fx, rooms) = (Arc::clone(fx), Arc::clone(&rooms));
        async move {
            for round in 0..15usize {
                let room = &rooms[(caller + round) % rooms.len()];
                do_something(&fx, room, caller, round).await;
            }
        }
    });
    at_once(callers).await;
    for room in rooms.iter() {
        let now = read(fx, room).await;
        shown(room.meeting, &now.lines);
        let live = live_lines(fx, room).await;
        let live_read: BTreeSet<_> =
            now.lines.iter().filter(|line| !line.kept).map(|line| &line.segment.key).collect();
        assert_eq!(live.iter().map(|line| &line.segment.key).collect::<BTreeSet<_>>(), live_read);
        let frames = all_frames(fx, room.meeting).await;
        let first = frames.first().map_or(now.seq + 1, |frame| frame.seq);
        let seqs: Vec<i64> = frames.iter().map(|frame| frame.seq).collect();
        assert_eq!(seqs, (first..=now.seq).collect::<Vec<_>>(), "what stays has no hole");
    }
}

async fn do_something(fx: &Fixture, room: &Room, caller: usize, round: usize) {
    let version = i64::try_from(round).expect("few");
    let (store, now) = (&fx.store, fx.now());
    match (caller * 5 + round) % 12 {
        0 => drop(settle(fx, room, SettleRequest { rows_max: 5, ..all() }).await),
        1 => {
            let rename = Rename { from: "Ann".to_owned(), to: format!("Ann {caller}") };
            let renamed = store.rename_speaker(room.user, room.target(), rename, now).await;
            renamed.expect("rename_speaker").expect("it is theirs");
        }
        2 if caller.is_multiple_of(4) => {
            let deleted = store.delete_transcript(room.user, room.target(), now).await;
            deleted.expect("delete_transcript").expect("it is theirs");
        }
        3 => {
            let issued = now + SECOND * u32::try_from(round).expect("few");
            hear(fx, room.starts(UID, now, issued)).await;
        }
        4 => keep_events(fx, Some(room.meeting), turn("Ann", version * 1000, 90_000)).await,
        5 => {
            let query = SearchQuery::parse("alpha").expect("a word");
            let page = SearchPage { before: None, rows_max: 50 };
            store.search_transcripts(room.user, query, page).await.expect("search_transcripts");
        }
        6 => {
            let seq = read(fx, room).await.seq;
            let few = i64::try_from(caller).expect("few");
            let ranges = vec![(room.meeting, SeqRange::new(seq - few, seq))];
            store.frames_published(ranges).await.expect("frames_published");
        }
        7 => drop(store.index_transcriptions(10).await.expect("index_transcriptions")),
        _ => {
            let says = |room: &Room| room.says(version, speech(6, &format!("alpha {round}")));
            let answers = take(fx, vec![says(room), says(room)]).await;
            assert!(answers.iter().all(|answer| *answer != MessageAnswer::NoSuchMeeting));
        }
    }
}

async fn rooms(fx: &Fixture, count: usize) -> Vec<Room> {
    let ada = user(fx, "ada").await;
    let mut rooms = Vec::new();
    for number in 0..count {
        rooms.push(room_of(fx, ada, &number.to_string(), BotStatus::Active).await);
    }
    rooms
}

/// Makes segments final until the tellers are done.
fn settler(fx: &Arc<Fixture>, rooms: &Arc<Vec<Room>>, done: &Arc<AtomicBool>) -> Task<Looks> {
    let (fx, rooms, done) = (Arc::clone(fx), Arc::clone(rooms), Arc::clone(done));
    Box::pin(async move {
        while !done.load(Ordering::SeqCst) {
            for room in rooms.iter() {
                settle(&fx, room, SettleRequest { rows_max: 3, ..all() }).await;
                tokio::task::yield_now().await;
            }
        }
        Looks::new()
    })
}

/// Reads until the tellers are done: what was read once is never older or missing afterwards.
fn reader(fx: &Arc<Fixture>, rooms: &Arc<Vec<Room>>, done: &Arc<AtomicBool>) -> Task<Looks> {
    let (fx, rooms, done) = (Arc::clone(fx), Arc::clone(rooms), Arc::clone(done));
    Box::pin(async move {
        let mut looks = Looks::new();
        while !done.load(Ordering::SeqCst) {
            for room in rooms.iter() {
                let now = read(&fx, room).await;
                let seen = looks.entry(room.meeting).or_default();
                if let Some(last) = seen.last() {
                    assert_not_older(last, &now);
                }
                seen.push(now);
                tokio::task::yield_now().await;
            }
        }
        looks
    })
}

fn assert_not_older(last: &Transcript, now: &Transcript) {
    assert!(last.seq <= now.seq);
    let versions: BTreeMap<&SegmentKey, i64> =
        now.lines.iter().map(|line| (&line.segment.key, line.segment.version)).collect();
    for line in &last.lines {
        let version = versions.get(&line.segment.key).copied();
        assert!(version >= Some(line.segment.version), "{line:?} is missing or older");
        let is = now.lines.iter().find(|other| other.segment.key == line.segment.key);
        assert!(!line.kept || is.is_some_and(|is| is.kept), "what is final stays final");
    }
}

/// T3, T4: the frames between two looks make the second of the first; no frame tells what was told
/// before; numbers have no hole.
async fn assert_frames_lead_from_look_to_look(
    fx: &Fixture,
    room: &Room,
    mut looks: Vec<Transcript>,
) {
    let frames = all_frames(fx, room.meeting).await;
    let seqs: Vec<i64> = frames.iter().map(|frame| frame.seq).collect();
    assert_eq!(seqs, (1..).take(frames.len()).collect::<Vec<_>>(), "no hole, nothing twice");
    looks.push(read(fx, room).await);
    looks.sort_by_key(|look| look.seq);
    let mut state = Shown::new();
    let mut frames = frames.iter().peekable();
    for look in &looks {
        while let Some(frame) = frames.next_if(|frame| frame.seq <= look.seq) {
            assert_tells_something(&state, frame);
            apply(&mut state, frame);
        }
        assert_eq!(state, shown(room.meeting, &look.lines), "at {}", look.seq);
    }
    assert_eq!(frames.next(), None, "the last look saw the last frame");
}

fn assert_tells_something(state: &Shown, frame: &Frame) {
    if frame.body.to_value()["type"] == "transcript.mutable" {
        let mut after = state.clone();
        apply(&mut after, frame);
        assert_ne!(after, *state, "{frame:?} tells what is known");
    }
}

async fn all_frames(fx: &Fixture, meeting: MeetingId) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    loop {
        let last = frames.last().map_or(0, |frame| frame.seq);
        let page = fx.store.frames(stream_of(meeting), last, 1000).await.expect("frames");
        if page.is_empty() {
            return frames;
        }
        frames.extend(page);
    }
}

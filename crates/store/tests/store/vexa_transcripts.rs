//! What was said in a database that Vexa made is read, found and continued, and stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{
    BotTarget, EffectStore, MessageAnswer, NewMessage, Rename, SearchHit, SearchPage,
    SettleRequest, Taken, Transcript, TranscriptStore,
};
use roundsman_core::transcripts::{
    FilterConfig, Line, MessageBody, SearchQuery, SpeakerStatus, ToldSegment, TranscriptionFilter,
    in_order,
};
use roundsman_core::users::UserId;
use roundsman_store::postgres::PostgresStore;

use crate::vexa_database::{ADA, BOB, DESCRIBE, NOW, SETTLED, open, text};

const WEEKLY: MeetingId = MeetingId::new(1);
const NIGHT_SHIFT: MeetingId = MeetingId::new(6);

#[tokio::test]
async fn what_was_said_is_read_whole() {
    let (_database, operator, store) = open().await;
    let settled = text(&operator, SETTLED).await;
    let weekly = read(&store, ADA, WEEKLY).await;
    assert_eq!(weekly.seq, 0, "nobody was told of anything yet");
    let found: BTreeMap<&str, &Line> =
        weekly.lines.iter().map(|line| (line.segment.content.text.as_str(), line)).collect();
    let start = Some("2025-12-01T09:00:00.000000Z".to_owned());
    for (text, start_ms, end_ms, session_start) in [
        ("Good morning", 0, 2500, &start),
        ("Guten Morgen zusammen", 3000, 4250, &start),
        ("Nobody knows when", 5000, 6000, &None),
        ("Nor where", 7000, 8000, &None),
        ("Not a time", 0, 24 * 60 * 60 * 1000, &start),
    ] {
        let line = found.get(text).unwrap_or_else(|| panic!("{text:?} is missing"));
        let segment = &line.segment;
        assert_eq!((segment.start_ms, segment.content.end_ms), (start_ms, end_ms), "{text}");
        assert_eq!(line.session_start.map(|at| at.to_string()), *session_start, "{text}");
        assert_eq!((line.kept, segment.seq), (true, 0));
        let status = match segment.content.speaker {
            Some(_) => SpeakerStatus::Mapped,
            None => SpeakerStatus::Unknown,
        };
        assert_eq!(segment.speaker_status, status);
    }
    assert_eq!(weekly.lines.len(), 5);
    let night = read(&store, BOB, NIGHT_SHIFT).await;
    assert_eq!(texts(&night), ["Guten Abend", "hello", "noise"]);
    let starts: Vec<_> = night.lines.iter().map(|line| line.session_start).collect();
    assert_eq!(starts[1].expect("its session is known").to_string(), "2025-12-31T23:20:00.000000Z");
    assert_eq!(starts[2], None);
    assert_eq!(store.transcript(BOB, BotTarget::Meeting(WEEKLY), None).await.unwrap(), None);
    assert_eq!(text(&operator, SETTLED).await, settled, "a look changes nothing");
}

#[tokio::test]
async fn what_was_said_is_found_once_it_was_looked_at() {
    let (_database, operator, store) = open().await;
    let settled = text(&operator, SETTLED).await;
    assert_eq!(search(&store, ADA, "morning").await, vec![]);
    let mut looked_at = 0;
    loop {
        match store.index_transcriptions(3).await.expect("index_transcriptions") {
            0 => break,
            count => looked_at += count,
        }
    }
    assert_eq!(looked_at, 8);
    let hits = search(&store, ADA, "morning OR").await;
    assert_eq!(hits, vec![]);
    let hits = search(&store, ADA, "mor*").await;
    let found: Vec<&str> = hits.iter().map(|hit| hit.line.segment.content.text.as_str()).collect();
    assert_eq!(found, ["Guten Morgen zusammen", "Good morning"], "newest first");
    assert_eq!(hits[0].native_id.as_deref(), Some("abc-defg-hij"));
    assert_eq!(search(&store, BOB, "guten").await.len(), 1, "only his own");
    assert_eq!(text(&operator, SETTLED).await, settled);
}

/// Vexa writes while we look: a row that is committed late has a lower number than those before it.
#[tokio::test]
async fn a_row_that_is_committed_late_is_found() {
    let (database, operator, store) = open().await;
    while store.index_transcriptions(100).await.expect("index_transcriptions") > 0 {}
    let say = |word: &str| {
        format!(
            "INSERT INTO public.transcriptions (meeting_id, start_time, end_time, text)
             VALUES (1, 100, 101, '{word}')"
        )
    };
    let slow = database.connect().await.expect("a connection");
    slow.batch_execute(&format!("BEGIN; {}", say("slowly"))).await.expect("a row");
    operator.batch_execute(&say("quickly")).await.expect("a row");
    store.index_transcriptions(100).await.expect("index_transcriptions");
    slow.batch_execute("COMMIT").await.expect("commit");
    while store.index_transcriptions(100).await.expect("index_transcriptions") > 0 {}
    assert_eq!(search(&store, ADA, "quickly").await.len(), 1);
    assert_eq!(search(&store, ADA, "slowly").await.len(), 1, "it was passed by");
}

#[tokio::test]
async fn what_was_said_is_continued_and_stays_as_it_is() {
    let (_database, operator, store) = open().await;
    operator.batch_execute("SET search_path = public").await.unwrap();
    let (described, settled) = (text(&operator, DESCRIBE).await, text(&operator, SETTLED).await);
    let before = read(&store, BOB, NIGHT_SHIFT).await;
    let hour = before.lines[1].session_start.expect("its session is known");
    let taken = tell(&store, "session-6-late", 1, "good night all").await;
    assert_eq!((taken.changed, taken.session_start), (1, Some(hour)));
    // The same session as its producer writes it.
    let taken = tell(&store, "google_meet_session-6-late", 2, "sleep well").await;
    assert_eq!(taken.session_start, Some(hour));
    let taken = tell(&store, "session-new", 3, "another session").await;
    assert_eq!(taken.session_start, None);
    let live = read(&store, BOB, NIGHT_SHIFT).await;
    assert_eq!(live.lines.len(), 6);

    settle(&store).await;
    let after = read(&store, BOB, NIGHT_SHIFT).await;
    assert_eq!(texts(&after), texts(&live));
    assert!(after.lines.iter().all(|line| line.kept));
    let rows =
        "SELECT string_agg(session_uid || ' ' || text || ' ' || start_time, '; ' ORDER BY id)
                  FROM public.transcriptions WHERE meeting_id = 6 AND id > 8";
    assert_eq!(
        text(&operator, rows).await,
        "google_meet_session-6-late sleep well 2; session-6-late good night all 1; \
         session-new another session 3"
    );
    assert_eq!(search(&store, BOB, "night").await.len(), 1, "ours need not be looked at");
    assert_eq!(store.check().await.unwrap(), []);
    // Nothing that was there is any different.
    let delete = "DELETE FROM public.transcriptions WHERE id > 8";
    operator.batch_execute(delete).await.unwrap();
    assert_eq!(text(&operator, SETTLED).await, settled);
    assert_eq!(text(&operator, DESCRIBE).await, described);
}

/// Nothing but the name, and nowhere but in the meeting.
#[tokio::test]
async fn a_speaker_of_old_rows_is_renamed() {
    let (_database, operator, store) = open().await;
    let settled = text(&operator, SETTLED).await;
    let rename = Rename { from: "Ada".to_owned(), to: "Countess".to_owned() };
    let target = BotTarget::Meeting(NIGHT_SHIFT);
    let renamed = store.rename_speaker(BOB, target, rename, NOW).await.expect("rename_speaker");
    assert_eq!(renamed.expect("it is his").changed, 1);
    let night = read(&store, BOB, NIGHT_SHIFT).await;
    assert_eq!(night.lines[1].segment.content.speaker.as_deref(), Some("Countess"));
    let back = "UPDATE public.transcriptions SET speaker = 'Ada' WHERE speaker = 'Countess'";
    operator.batch_execute(back).await.unwrap();
    assert_eq!(text(&operator, SETTLED).await, settled);
}

async fn read(store: &PostgresStore, user: UserId, meeting: MeetingId) -> Transcript {
    let found = store.transcript(user, BotTarget::Meeting(meeting), None).await;
    let mut found = found.expect("transcript").expect("it is theirs");
    found.lines = in_order(found.lines);
    found
}

fn texts(transcript: &Transcript) -> Vec<&str> {
    transcript.lines.iter().map(|line| line.segment.content.text.as_str()).collect()
}

async fn search(store: &PostgresStore, user: UserId, query: &str) -> Vec<SearchHit> {
    let query = SearchQuery::parse(query).expect("a query");
    let page = SearchPage { before: None, rows_max: 100 };
    store.search_transcripts(user, query, page).await.expect("search_transcripts")
}

/// Tells one segment of the night shift, at so many seconds.
async fn tell(store: &PostgresStore, uid: &str, second: i64, text: &str) -> Taken {
    let segment = ToldSegment {
        start_ms: second * 1000,
        end_ms: second * 1000 + 900,
        text: text.to_owned(),
        language: None,
        speaker: None,
        completed: None,
        segment_id: None,
    };
    let body = MessageBody::Transcription {
        uid: Some(uid.to_owned()),
        segments: vec![segment],
        refused: vec![],
    };
    let message = NewMessage {
        meeting_id: NIGHT_SHIFT,
        user_id: BOB,
        token_issued_at: Timestamp::EPOCH,
        version: 1,
        start_hint: None,
        body,
    };
    let answer = store.take_messages(vec![message], NOW).await.expect("take_messages").remove(0);
    let MessageAnswer::Taken(taken) = answer else { panic!("the meeting is there") };
    taken
}

async fn settle(store: &PostgresStore) {
    let filter = TranscriptionFilter::new(FilterConfig::default()).expect("the defaults are good");
    let request = SettleRequest { stable_before: None, filter: Arc::new(filter), rows_max: 100 };
    let later = NOW + Duration::from_secs(60);
    let settled = store.settle_segments(NIGHT_SHIFT, request, None, later).await;
    assert_eq!(settled.expect("settle_segments").kept, 3);
}

//! What is particular to this adapter: its index of words, and rows that somebody else made.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::bots::{BotWish, ConnectionId, NewBot, Platform};
use roundsman_core::jobs::{KindCatalog, KindName, KindSpec, MergeRule, RetryPolicy, Role};
use roundsman_core::ports::{BotStore, Database, EffectStore, ReserveAnswer, UserStore};
use roundsman_core::transcripts::{
    FilterConfig, MessageBody, SeqRange, ToldSegment, TranscriptionFilter, in_order,
};
use roundsman_core::users::NewUser;

use super::*;
use crate::sqlite::SqliteOptions;

const SESSION: &str = "s-1";

fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: KindName::new("render").unwrap(),
        lease_ttl: Duration::from_mins(1),
        heartbeat_every: Duration::from_secs(15),
        deadline: None,
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_mins(1) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }))
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

fn store() -> SqliteStore {
    SqliteStore::open_in_memory_inline(catalog()).unwrap()
}

/// A user with a meeting.
async fn meeting(store: &SqliteStore, name: &str) -> (UserId, MeetingId) {
    let user = NewUser {
        email: format!("{name}@example.org"),
        name: None,
        image_url: None,
        max_concurrent_bots: 10,
    };
    let (user, _) = store.find_or_create_user(user, at(1)).await.unwrap();
    let bot = NewBot {
        user_id: user.id,
        platform: Platform::Zoom,
        native_id: "1234567890".to_owned(),
        connection_id: ConnectionId::from_stored(format!("c-{name}")),
        language: None,
        task: None,
        wish: BotWish::default(),
    };
    match store.reserve_bot(bot, at(1)).await.unwrap() {
        ReserveAnswer::Reserved(reserved) => (user.id, reserved.record.meeting.id),
        other => panic!("{other:?}"),
    }
}

/// Tells of texts, one second each, and returns the place of the last frame.
async fn say(store: &SqliteStore, of: (UserId, MeetingId), version: i64, texts: &[&str]) {
    let segments = (0..).zip(texts).map(|(second, text)| ToldSegment {
        start_ms: second * 1000,
        end_ms: (second + 1) * 1000,
        text: (*text).to_owned(),
        language: None,
        speaker: Some("Ann".to_owned()),
        completed: None,
        segment_id: None,
    });
    let message = NewMessage {
        meeting_id: of.1,
        user_id: of.0,
        token_issued_at: at(1),
        version,
        start_hint: None,
        body: MessageBody::Transcription {
            uid: Some(SESSION.to_owned()),
            segments: segments.collect(),
            refused: Vec::new(),
        },
    };
    let answers = store.take_messages(vec![message], at(version)).await.unwrap();
    assert!(matches!(answers[..], [MessageAnswer::Taken(_)]), "{answers:?}");
}

async fn settle(store: &SqliteStore, meeting: MeetingId) {
    let config = FilterConfig { min_chars: 1, min_real_words: 0, ..FilterConfig::default() };
    let filter = Arc::new(TranscriptionFilter::new(config).unwrap());
    let request = SettleRequest { stable_before: None, filter, rows_max: 100 };
    let settled = store.settle_segments(meeting, request, None, at(100)).await.unwrap();
    assert_eq!((settled.left, settled.dropped.len()), (0, 0), "{settled:?}");
}

async fn found(store: &SqliteStore, user: UserId, query: &str) -> Vec<String> {
    let query = SearchQuery::parse(query).unwrap();
    let page = SearchPage { before: None, rows_max: 100 };
    let hits = store.search_transcripts(user, query, page).await.unwrap();
    hits.into_iter().map(|hit| hit.line.segment.content.text).collect()
}

async fn write(store: &SqliteStore, statements: &'static str) {
    store.write("store.ping", move |conn, _| Ok(conn.execute_batch(statements)?)).await.unwrap();
}

async fn count(store: &SqliteStore, query: &'static str) -> i64 {
    store.read(move |conn| Ok(conn.query_row(query, [], |row| row.get(0))?)).await.unwrap()
}

#[tokio::test]
async fn the_index_cuts_no_word_that_the_program_did_not() {
    let store = store();
    let ada = meeting(&store, "ada").await;
    let texts = ["Größe und STRAẞE", "हिन्दी में", "naïve e\u{301}cole", "x-ray 1e5a", "ΟΔΟΣ"];
    say(&store, ada, 1, &texts).await;
    for is_final in [false, true] {
        if is_final {
            settle(&store, ada.1).await;
        }
        for (query, text) in [
            ("größe", texts[0]),
            ("gr*", texts[0]),
            ("हिन्दी", texts[1]),
            ("\"x ray\"", texts[3]),
            ("1e5a", texts[3]),
            ("οδος", texts[4]),
        ] {
            assert_eq!(found(&store, ada.0, query).await, [text], "{query} {is_final}");
        }
        for query in ["ray-x \"ray x\"", "gro", "ह", "grosse"] {
            assert_eq!(found(&store, ada.0, query).await, [""; 0], "{query} {is_final}");
        }
    }
}

#[tokio::test]
async fn the_words_of_a_final_segment_follow_its_text() {
    let store = store();
    let ada = meeting(&store, "ada").await;
    let bob = meeting(&store, "bob").await;
    say(&store, ada, 1, &["green apples"]).await;
    say(&store, bob, 1, &["green pears"]).await;
    settle(&store, ada.1).await;
    settle(&store, bob.1).await;
    assert_eq!(found(&store, ada.0, "green").await, ["green apples"]);
    say(&store, ada, 2, &["red apples"]).await;
    assert_eq!(found(&store, ada.0, "green").await, [""; 0]);
    assert_eq!(found(&store, ada.0, "red").await, ["red apples"]);
    store.delete_transcript(ada.0, BotTarget::Meeting(ada.1), at(200)).await.unwrap().unwrap();
    assert_eq!(found(&store, ada.0, "apples").await, [""; 0]);
    assert_eq!(found(&store, bob.0, "green").await, ["green pears"]);
    assert_eq!(count(&store, "SELECT count(*) FROM transcript_words").await, 1);
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test]
async fn a_user_cannot_ask_for_what_belongs_to_another() {
    let store = store();
    let (ada, bob) = (meeting(&store, "ada").await, meeting(&store, "bob").await);
    say(&store, bob, 1, &["secret 1 words owner"]).await;
    settle(&store, bob.1).await;
    for query in ["secret", "owner", "1", "\"1\" words", "owner:1", "secret) OR (words : secret"] {
        assert_eq!(found(&store, ada.0, query).await, [""; 0], "{query}");
    }
    assert_eq!(found(&store, bob.0, "words owner").await.len(), 1);
}

#[tokio::test]
async fn rows_of_somebody_else_are_indexed_once_and_read_as_they_are() {
    let store = store();
    let ada = meeting(&store, "ada").await;
    say(&store, ada, 1, &["our own words"]).await;
    settle(&store, ada.1).await;
    write(
        &store,
        "INSERT INTO transcriptions (meeting_id, start_time, end_time, text, speaker, created_at,
             session_uid)
         VALUES (1, 90000.5, 2.0, 'their words', 'Ann', 5, 'zoom_x'),
                (1, -1.0, 1.5, 'more words', NULL, 6, NULL);
         INSERT INTO meeting_sessions (meeting_id, session_uid, session_start_time)
         VALUES (1, 'x', 7000000);",
    )
    .await;
    assert_eq!(found(&store, ada.0, "words").await, ["our own words"]);
    assert_eq!(store.index_transcriptions(2).await.unwrap(), 2);
    assert_eq!(found(&store, ada.0, "words").await, ["their words", "our own words"]);
    assert_eq!(store.index_transcriptions(2).await.unwrap(), 1);
    assert_eq!(store.index_transcriptions(2).await.unwrap(), 0);
    let words = found(&store, ada.0, "words").await;
    assert_eq!(words, ["more words", "their words", "our own words"]);

    let read = store.transcript(ada.0, BotTarget::Meeting(ada.1), None).await.unwrap().unwrap();
    let lines = in_order(read.lines);
    let starts: Vec<_> =
        lines.iter().map(|line| (line.segment.start_ms, line.session_start)).collect();
    assert_eq!(starts, [(86_400_000, Some(at(7))), (0, None), (0, None)]);
    let since = store.transcript(ada.0, BotTarget::Meeting(ada.1), Some(0)).await.unwrap().unwrap();
    assert_eq!(since.lines.len(), 1, "nobody was ever told of the others");

    let rename = Rename { from: "Ann".to_owned(), to: "Anna".to_owned() };
    let renamed =
        store.rename_speaker(ada.0, BotTarget::Meeting(ada.1), rename, at(300)).await.unwrap();
    assert_eq!(renamed.unwrap().changed, 2);
    let named = "SELECT count(*) FROM transcriptions WHERE speaker = 'Anna'";
    assert_eq!(count(&store, named).await, 2);
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test]
async fn frames_of_other_streams_are_nobodys_to_publish() {
    let store = store();
    let ada = meeting(&store, "ada").await;
    write(
        &store,
        "INSERT INTO frame_streams (stream, last_seq) VALUES ('meeting', 1), ('meetings', 1),
             ('meeting:10', 2), ('other', 1);
         INSERT INTO frames (stream, seq, body, at) VALUES ('meeting', 1, '{}', 5),
             ('meetings', 1, '{}', 5), ('meeting:10', 1, '{}', 5), ('meeting:10', 2, '{}', 5),
             ('other', 1, '{}', 5);",
    )
    .await;
    let places = |frames: Vec<Frame>| -> Vec<(String, i64)> {
        frames.into_iter().map(|frame| (frame.stream, frame.seq)).collect()
    };
    let all = store.unpublished_frames(at(0), at(50), 10).await.unwrap();
    let own = ("meeting:1".to_owned(), 1);
    let tenth = |seq| ("meeting:10".to_owned(), seq);
    assert_eq!(places(all), [own, tenth(1), tenth(2)]);
    let first = SeqRange::one(1);
    store.frames_published(vec![(ada.1, first), (MeetingId::new(10), first)]).await.unwrap();
    store.frames_published(vec![(ada.1, SeqRange::up_to(0))]).await.unwrap();
    let left = store.unpublished_frames(at(0), at(50), 10).await.unwrap();
    assert_eq!(places(left), [tenth(2)]);
}

#[tokio::test]
async fn what_is_deleted_leaves_no_hole_and_no_event_behind() {
    let store = store();
    let ada = meeting(&store, "ada").await;
    say(&store, ada, 2, &["one", "two"]).await;
    // A session that the meeting was only ever told the speakers of.
    let event = SpeakerEvent {
        session_uid: "unheard".to_owned(),
        kind: roundsman_core::transcripts::SpeakerEventKind::Start,
        participant: "p".to_owned(),
        name: "Ann".to_owned(),
        at_ms: 5,
    };
    let in_session = SpeakerEvent { session_uid: SESSION.to_owned(), ..event.clone() };
    let elsewhere = SpeakerEvent { session_uid: "elsewhere".to_owned(), ..event.clone() };
    let events = vec![(Some(ada.1), event), (None, in_session), (None, elsewhere)];
    store.keep_speaker_events(events, at(3)).await.unwrap();
    let target = BotTarget::Meeting(ada.1);
    let deleted = store.delete_transcript(ada.0, target.clone(), at(4)).await.unwrap().unwrap();
    assert_eq!((deleted.changed, deleted.frames.len()), (2, 1));
    let left = store.frames("meeting:1".to_owned(), 0, 10).await.unwrap();
    assert_eq!(left, deleted.frames);
    assert_eq!(count(&store, "SELECT count(*) FROM speaker_events").await, 1);
    let read = store.transcript(ada.0, target, None).await.unwrap().unwrap();
    assert_eq!((read.lines, read.seq), (Vec::new(), deleted.frames[0].seq));
    assert_eq!(store.check().await.unwrap(), []);
}

/// A reader that has searched remembers how the index was, and the writer merges it.
#[tokio::test]
async fn a_reader_that_has_searched_does_not_take_the_index_for_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { readers: 1, ..SqliteOptions::new(folder.path().join("x.db")) };
    let store = SqliteStore::open(&options, catalog()).unwrap();
    let ada = meeting(&store, "ada").await;
    let texts: Vec<String> = (0..40).map(|number| format!("alpha {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (version, number) in (1..).zip(1..=texts.len()) {
        say(&store, ada, version, &texts[..number]).await;
        settle(&store, ada.1).await;
        if number == 20 {
            assert_eq!(found(&store, ada.0, "alpha").await.len(), 20);
        }
    }
    assert_eq!(store.check().await.unwrap(), []);
    assert_eq!(found(&store, ada.0, "alpha").await.len(), 40);
    store.close().await;
}

/// As the writer undoes one request of a group.
#[tokio::test]
async fn words_of_a_request_that_was_undone_are_not_found() {
    let store = store();
    let ada = meeting(&store, "ada").await;
    say(&store, ada, 1, &["alpha"]).await;
    settle(&store, ada.1).await;
    let group = |conn: &rusqlite::Connection, _: &KindCatalog| {
        for (words, undone) in [("bravo", false), ("charlie", true), ("delta", false)] {
            conn.execute_batch("SAVEPOINT request")?;
            search::put_words(conn, 1, words)?;
            if undone {
                conn.execute_batch("ROLLBACK TO request")?;
            }
            conn.execute_batch("RELEASE request")?;
            if undone {
                let ids = "SELECT count(*) FROM transcript_words WHERE transcript_words MATCH ?1";
                let found: i64 = conn.query_row(ids, ["words : bravo"], |row| row.get(0))?;
                assert_eq!(found, 1, "the request before it goes on");
            }
        }
        Ok(())
    };
    store.write("store.ping", group).await.unwrap();
    for (word, hits) in [("alpha", 0), ("bravo", 0), ("charlie", 0), ("delta", 1)] {
        assert_eq!(found(&store, ada.0, word).await.len(), hits, "{word}");
    }
    assert_eq!(store.check().await.unwrap(), []);
}

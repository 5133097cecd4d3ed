//! What is said, where PostgreSQL is different: what a message touches, numbers that are committed
//! late, and damage that somebody did by hand.

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{
    EffectStore, MessageAnswer, NewMessage, SearchPage, SettleRequest, TranscriptStore,
};
use roundsman_core::transcripts::{
    FilterConfig, MessageBody, SearchQuery, ToldSegment, TranscriptionFilter,
};

use super::*;

const MEETINGS: &str = "
INSERT INTO public.users (email, max_concurrent_bots) VALUES ('ada@example.org', 1);
INSERT INTO public.meetings (user_id, platform, platform_specific_id, status)
SELECT 1, 'google_meet', 'm-' || n, 'active' FROM generate_series(1, 100) n";

/// Segments of a second each, the first at `first_secs`.
fn says(meeting: i64, first_secs: i64, texts: &[&str]) -> NewMessage {
    let told = |(text, secs): (&&str, i64)| ToldSegment {
        start_ms: secs * 1000,
        end_ms: secs * 1000 + 900,
        text: (*text).to_owned(),
        language: None,
        speaker: None,
        completed: None,
        segment_id: None,
    };
    NewMessage {
        meeting_id: MeetingId::new(meeting),
        user_id: ADA,
        token_issued_at: NOW,
        version: 1,
        start_hint: None,
        body: MessageBody::Transcription {
            uid: Some("u".to_owned()),
            segments: texts.iter().zip(first_secs..).map(told).collect(),
            refused: Vec::new(),
        },
    }
}

async fn settle_all(store: &PostgresStore, meeting: i64) -> u32 {
    let filter = Arc::new(TranscriptionFilter::new(FilterConfig::default()).unwrap());
    let request = SettleRequest { stable_before: None, filter, rows_max: 1000 };
    let settled = store.settle_segments(MeetingId::new(meeting), request, None, NOW).await;
    settled.unwrap().kept
}

async fn found(store: &PostgresStore, words: &str) -> Vec<Option<i64>> {
    let query = SearchQuery::parse(words).unwrap();
    let page = SearchPage { before: None, rows_max: 100 };
    let hits = store.search_transcripts(ADA, query, page).await.unwrap();
    hits.into_iter().map(|hit| hit.id).collect()
}

/// Only then is a segment that is told again rewritten in its page and nothing else. `dropped` is in
/// the condition of one, and changes twice in a segment's life at most.
#[tokio::test]
async fn what_a_message_changes_is_in_no_index() {
    let (_store, database) = store().await;
    let operator = database.connect().await.unwrap();
    let count = async |table: &str, columns: &[&str]| -> i64 {
        operator.query_one(INDEXED, &[&table, &columns]).await.unwrap().get(0)
    };
    let of_segment = [
        "end_ms",
        "text",
        "speaker",
        "language",
        "speaker_status",
        "completed",
        "version",
        "updated_at",
        "seq",
    ];
    assert_eq!(count("roundsman.live_segments", &of_segment).await, 0);
    let of_stream = ["last_seq", "published_seq", "published_ahead"];
    assert_eq!(count("roundsman.frame_streams", &of_stream).await, 0);
    assert!(count("roundsman.live_segments", &["start_ms"]).await > 0, "the question is wrong");
}

/// The lock is all that keeps two batches apart that tell the same for the first time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_meet_tell_of_a_segment_once() {
    let (store, database) = store().await;
    database.connect().await.unwrap().batch_execute(MEETINGS).await.unwrap();
    let store = Arc::new(store);
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..6_i64 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut changed = 0;
            for round in 0..20 {
                let mut ids: Vec<i64> = (1..=20).collect();
                ids.rotate_left(usize::try_from(caller * 3).unwrap());
                if caller % 2 == 0 {
                    ids.reverse();
                }
                let batch = ids.iter().map(|id| says(*id, round, &["said", "said"])).collect();
                for answer in store.take_messages(batch, NOW).await.unwrap() {
                    let MessageAnswer::Taken(taken) = answer else { panic!("{answer:?}") };
                    changed += taken.changed;
                }
            }
            changed
        });
    }
    let changed: u32 = callers.join_all().await.into_iter().sum();
    assert_eq!(changed, 20 * 21, "21 segments in 20 meetings");
    assert_eq!(store.live_segment_count().await.unwrap(), 20 * 21);
    assert_eq!(store.check().await.unwrap(), []);
}

/// A row that was numbered before another one and committed after it.
#[tokio::test]
async fn a_number_that_appears_late_is_found_too() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    operator.batch_execute(MEETINGS).await.unwrap();
    let insert = async |id: i32, text: &str| {
        let sql = "INSERT INTO public.transcriptions (id, meeting_id, start_time, end_time, text)
                   VALUES ($1, 1, 0, 1, $2)";
        operator.execute(sql, &[&id, &text]).await.unwrap();
    };
    insert(7, "early words").await;
    assert_eq!(store.index_transcriptions(100).await.unwrap(), 1);
    insert(5, "late words").await;
    assert_eq!(store.index_transcriptions(100).await.unwrap(), 1);
    assert_eq!(found(&store, "words").await, [Some(7), Some(5)]);
    assert_eq!(store.index_transcriptions(100).await.unwrap(), 0, "nothing is looked at for ever");
}

/// What is done to a sound database, and the rule that must be found broken.
const DAMAGES: [(&str, &str); 6] = [
    ("segment_in_one_place", "UPDATE roundsman.kept_segments SET field = '2.000'"),
    ("kept_is_final", "DELETE FROM public.transcriptions"),
    ("kept_is_final", "UPDATE roundsman.kept_segments SET meeting_id = 2"),
    ("live_is_active", "DELETE FROM roundsman.active_transcripts"),
    ("segment_was_told", "UPDATE roundsman.live_segments SET seq = 100"),
    ("segment_was_told", "UPDATE roundsman.kept_segments SET seq = 100"),
];

#[tokio::test]
async fn damage_to_what_was_said_is_found() {
    for (rule, damage) in DAMAGES {
        let (store, database) = store().await;
        let operator = database.connect().await.unwrap();
        operator.batch_execute(MEETINGS).await.unwrap();
        store.take_messages(vec![says(1, 0, &["alpha bravo"])], NOW).await.unwrap();
        assert_eq!(settle_all(&store, 1).await, 1);
        store.take_messages(vec![says(1, 2, &["charlie delta"])], NOW).await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
        operator.batch_execute(damage).await.unwrap();
        let found = store.check().await.unwrap();
        assert!(found.iter().any(|violation| violation.rule == rule), "{damage}: {found:?}");
    }
}

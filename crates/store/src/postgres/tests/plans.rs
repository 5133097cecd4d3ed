//! The hot statements go by their indexes, whatever the statistics say.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tokio::task::JoinSet;

use super::*;
use crate::postgres::session::Session;
use crate::postgres::{bots, jobs, transcripts, webhooks};

/// What the plan of a statement must contain.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "claim",
        &[
            "Index Scan using job_queue_ready",
            "Index Only Scan using job_queue_due",
            "using job_running_key",
            "Index Scan using job_queue_pkey",
        ],
    ),
    ("promote_due", &["Index Scan using job_queue_due", "Index Scan using job_queue_pkey"]),
    ("finish", &["Index Scan using job_running_pkey"]),
    ("take", &["Index Scan using job_running_pkey"]),
    ("extend", &["Index Scan using job_running_pkey"]),
    ("take_expired", &["Index Scan using job_running_until", "using job_running_pkey"]),
    ("take_overdue", &["Index Scan using job_running_deadline", "using job_running_pkey"]),
    ("lock_waiting", &["Index Scan using job_queue_key"]),
    (
        "jobs_of_user",
        &["Scan Backward using job_queue_user", "Scan Backward using job_finished_user"],
    ),
    (
        "lock_records",
        &["using bots_pkey", "using meetings_pkey on meetings", "Index Cond: (id = b.meeting_id)"],
    ),
    ("hear", &["Index Scan using bots_", "Index Scan using meetings_pkey"]),
    ("not_heard", &["Index Cond: (meeting_id = given.id)", "using meetings_pkey"]),
    ("overdue", &["Index Scan using bots_live", "Index Scan using meetings_pkey"]),
    // Which of the indexes is the shortest depends on the table.
    ("live_of_user", &["using ix_meeting"]),
    ("live_bots", &["Index Scan using bots_live", "Index Scan using meetings_pkey"]),
    ("live_workloads", &["Index Cond: (meeting_id = given.id)"]),
    ("meetings", &["Index Scan using ix_meeting", "Index Scan using bots_pkey"]),
    ("latest", &["Index Scan using ix_meeting", "Index Scan using bots_pkey"]),
    ("events_of", &["Scan Backward using webhook_events_user"]),
    ("deliveries_of", &["Index Scan using webhook_deliveries_event"]),
    ("prune_events", &["Index Scan using webhook_events_created", "using webhook_events_pkey"]),
    ("live_near", &["Index Scan using live_segments_start"]),
    ("kept_near", &["Index Scan using kept_segments_start", "using transcriptions_pkey"]),
    ("meetings_heard", &["Index Scan using meetings_pkey", "using active_transcripts_pkey"]),
    ("starts", &["on meeting_sessions", "Index Cond: (meeting_id = ANY"]),
    (
        "sessions_of",
        &["on meeting_sessions", "using transcript_sessions_pkey", "on transcriptions"],
    ),
    ("session_facts", &["Index Scan using transcript_sessions_pkey"]),
    ("names", &["Index Scan using speaker_names_pkey"]),
    ("events_near", &["Index Scan Backward using speaker_events_pkey"]),
    ("keep_events", &["using speaker_events_pkey"]),
    ("put_live", &["Conflict Arbiter Indexes: live_segments_pkey"]),
    ("revise_kept", &["Index Scan using kept_segments_pkey"]),
    ("revise_final", &["Index Scan using transcriptions_pkey"]),
    ("stable", &["Index Scan using live_segments_"]),
    ("kept_beside", &["Index Scan using kept_segments_start", "using transcriptions_pkey"]),
    ("remove_live", &["Index Scan using live_segments_pkey"]),
    ("mark_dropped", &["Index Scan using live_segments_pkey"]),
    ("live_meetings", &["using active_transcripts_pkey", "Index Scan using live_segments_"]),
    ("live_of_meeting", &["Index Scan using live_segments_"]),
    (
        "final_of_meeting",
        &["Index Scan using ix_transcription", "Index Scan using kept_segments_pkey"],
    ),
    ("kept_since", &["Index Scan using kept_segments_seq", "using transcriptions_pkey"]),
    ("stream_ends", &["Index Scan using frame_streams_pkey"]),
    ("published", &["Index Cond: (stream = x.stream)"]),
    ("note_published", &["Conflict Arbiter Indexes: frame_streams_pkey"]),
    ("unpublished", &["Index Scan using frames_at", "Index Scan using frame_streams_pkey"]),
    ("newest", &["Index Scan Backward using frames_pkey"]),
    ("share_by_secret", &["Index Scan using transcript_shares_secret_hash_key"]),
    ("shares_of", &["Index Scan Backward using transcript_shares_meeting"]),
    ("letters", &["Index Scan Backward using dead_letters_pkey"]),
    ("prune_dropped", &["Index Scan using live_segments_dropped"]),
    ("prune_speaker_events", &["Index Scan using speaker_events_heard"]),
    ("forget_heard", &["Index Scan using speaker_events_meeting"]),
    (
        "live_of_user_said",
        &["using active_transcripts_pkey", "Index Cond: (meeting_id = a.meeting_id)"],
    ),
    ("unindexed", &["Index Scan using transcriptions_pkey", "using transcript_words_pkey"]),
];

/// The tables whose statistics are made wrong.
const TABLES: [&str; 18] = [
    "roundsman.job_queue",
    "roundsman.job_running",
    "roundsman.job_finished",
    "roundsman.bots",
    "roundsman.webhook_events",
    "roundsman.webhook_deliveries",
    "roundsman.frames",
    "roundsman.frame_streams",
    "roundsman.live_segments",
    "roundsman.active_transcripts",
    "roundsman.kept_segments",
    "roundsman.transcript_sessions",
    "roundsman.transcript_words",
    "roundsman.speaker_events",
    "roundsman.speaker_names",
    "public.meetings",
    "public.meeting_sessions",
    "public.transcriptions",
];

#[tokio::test]
async fn hot_statements_use_their_indexes_on_an_empty_and_on_a_full_table() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    // Nothing repairs the statistics: they stay those of empty tables, as they do when a million
    // jobs arrive faster than the next analysis.
    for table in TABLES {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        operator.batch_execute(&off).await.unwrap();
    }
    operator.batch_execute("ANALYZE").await.unwrap();
    assert_plans(&store, "analysed when empty").await;

    operator.batch_execute(FILL).await.unwrap();
    assert_plans(&store, "full, with the statistics of empty tables").await;
    assert_by_number(&store, "full, with the statistics of empty tables").await;

    operator.batch_execute("ANALYZE").await.unwrap();
    assert_plans(&store, "full, with statistics").await;
    assert_by_number(&store, "full, with statistics").await;
    assert_words_are_found(&store).await;

    for table in ["job_queue", "job_running", "bots", "webhook_events", "live_segments"] {
        operator.batch_execute(&format!("DELETE FROM roundsman.{table}")).await.unwrap();
        operator.batch_execute(&format!("VACUUM roundsman.{table}")).await.unwrap();
    }
    assert_plans(&store, "empty, with the statistics of full tables").await;
}

/// With rows in the tables these look for each row by its number or name. On empty tables, where it
/// costs nothing, the planner may begin with all there are.
const BY_NUMBER: [(&str, &[&str]); 4] = [
    ("hear", &["Index Cond: (meeting_id = beat.id)", "Index Cond: (id = heard.meeting_id)"]),
    ("live_near", &["Index Scan using live_segments_id"]),
    ("kept_near", &["Index Scan using kept_segments_id"]),
    ("live_of_user_said", &["Index Cond: (id = a.meeting_id)"]),
];

async fn assert_by_number(store: &PostgresStore, when: &str) {
    let mut session = store.pool.lend().await.unwrap();
    for (name, parts) in BY_NUMBER {
        let sql = hot_statements().find(|sql| name_of(sql) == name).unwrap();
        let plan = explain(&mut session, sql).await;
        for part in parts {
            assert!(plan.contains(part), "{name}, {when}, should contain {part}:\n{plan}");
        }
    }
    session.give_back();
}

/// Rows enough that the wrong plan would be chosen if it were allowed.
const FILL: &str = "
INSERT INTO roundsman.job_queue
    (id, user_id, state, priority, attempt, rank, due_at, run_at, triggered_at, created_at, lane,
     kind, key, payload)
SELECT n, n % 3, n % 2, 0, 0, t, t, t, t, t, (n % 3) || '/render', 'render',
       CASE WHEN n % 2 = 0 THEN n::text END, 'null'
  FROM generate_series(1, 100000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.job_running
    (id, user_id, priority, attempt, run_at, triggered_at, created_at, lease_no, lease_until,
     lease_ttl_us, claimed_at, heartbeat_at, deadline_at, kind, key, worker, payload)
SELECT n, n % 3, 0, 1, t, t, t, n, t, 1, t, t, t, 'render', n::text, 'w', 'null'
  FROM generate_series(100001, 120000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.job_finished
    (id, user_id, state, priority, attempt, run_at, triggered_at, created_at, finished_at, kind,
     payload, result)
SELECT n, n % 3, 3, 0, 1, t, t, t, t, 'render', 'null', 'null'
  FROM generate_series(120001, 170000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO public.users (email, max_concurrent_bots, data)
SELECT n || '@example.org', 1, '{}' FROM generate_series(1, 100) n;
INSERT INTO public.meetings (user_id, platform, platform_specific_id, status, data)
SELECT 1 + n % 100, 'google_meet', 'm-' || n,
       CASE WHEN n % 20 = 0 THEN 'active' ELSE 'completed' END, '{}'
  FROM generate_series(1, 50000) n;
INSERT INTO roundsman.bots
    (meeting_id, user_id, connection_id, attempt, live, was_active, beats, reserved_at, entered_at,
     missed, config_version, config_applied, wish)
SELECT id, user_id, 'c-' || id, 1, status = 'active', true, true, t, t, 0, 0, 0, '{}'
  FROM public.meetings, LATERAL (SELECT to_timestamp(id) AS t) x;
INSERT INTO roundsman.webhook_events
    (user_id, event_id, event_type, body, created_at, state, since)
SELECT n % 100, 'e-' || n, 'meeting.completed', '{}', t, 'delivered', t
  FROM generate_series(1, 50000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.webhook_deliveries (event, at, url, duration_us)
SELECT id, created_at, 'https://example.org', 1 FROM roundsman.webhook_events;
INSERT INTO roundsman.frame_streams (stream, last_seq, published_seq)
SELECT 'meeting:' || n, 10, 10 FROM generate_series(1, 5000) n;
INSERT INTO roundsman.frames (stream, seq, body, at)
SELECT 'meeting:' || n, seq, '{}', to_timestamp(n * 10 + seq)
  FROM generate_series(1, 5000) n, generate_series(1, 10) seq;
INSERT INTO roundsman.active_transcripts SELECT n FROM generate_series(1, 500) n;
INSERT INTO roundsman.live_segments
    (meeting_id, session_uid, field, segment_id, start_ms, end_ms, text, speaker_status, version,
     created_at, updated_at, seq, dropped)
SELECT m, 'u-' || m, n::text, 's-' || n, n, n + 1, 'said', 'MAPPED', 1, t, t, 1, n % 20 = 0
  FROM generate_series(1, 500) m, generate_series(1, 100) n,
       LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO public.meeting_sessions (meeting_id, session_uid)
SELECT id, 'u-' || id FROM public.meetings;
INSERT INTO roundsman.transcript_sessions (meeting_id, session_uid)
SELECT id, 'u-' || id FROM public.meetings;
INSERT INTO public.transcriptions (meeting_id, session_uid, start_time, end_time, text)
SELECT m, 'u-' || m, n, n + 1, 'said' FROM generate_series(1, 1000) m, generate_series(1, 50) n;
INSERT INTO roundsman.kept_segments
    (transcription_id, meeting_id, session_uid, field, segment_id, start_ms, end_ms,
     speaker_status, version, updated_at, seq)
SELECT id, meeting_id, session_uid, id, 's-' || id, start_time * 1000, end_time * 1000, 'MAPPED', 1,
       to_timestamp(id), 1
  FROM public.transcriptions;
INSERT INTO roundsman.transcript_words (transcription_id, words)
SELECT id, ('@' || meeting_id % 100 || ' said:1')::tsvector FROM public.transcriptions;
INSERT INTO roundsman.speaker_events
    (session_uid, meeting_id, at_ms, kind, participant, name, heard_at)
SELECT 'u-' || m, m, n, 'SPEAKER_START', 'p', 'p', to_timestamp(n)
  FROM generate_series(1, 500) m, generate_series(1, 100) n;
INSERT INTO roundsman.speaker_names (meeting_id, name, shown_as)
SELECT n, 'a', 'b' FROM generate_series(1, 10000) n";

/// The index of words is read as the search reads it.
async fn assert_words_are_found(store: &PostgresStore) {
    let mut session = store.pool.lend().await.unwrap();
    session.begin();
    session.batch(transcripts::SEARCH_SETTINGS).await.unwrap();
    let plan = explain(&mut session, transcripts::FINAL_WITH_WORDS).await;
    for part in ["Bitmap Index Scan on transcript_words_words", "using transcriptions_pkey"] {
        assert!(plan.contains(part), "the search should contain {part}:\n{plan}");
    }
    assert!(!plan.contains("Seq Scan"), "{plan}");
    session.commit().await.unwrap();
    session.give_back();
}

async fn assert_plans(store: &PostgresStore, when: &str) {
    let mut session = store.pool.lend().await.unwrap();
    let mut seen = BTreeSet::new();
    for sql in hot_statements() {
        let name = name_of(sql);
        let plan = explain(&mut session, sql).await;
        assert!(!plan.contains("Seq Scan"), "{name}, {when}:\n{plan}");
        let (_, parts) = EXPECTED.iter().find(|(known, _)| *known == name).expect(name);
        for part in *parts {
            assert!(plan.contains(part), "{name}, {when}, should contain {part}:\n{plan}");
        }
        seen.insert(name);
    }
    assert_eq!(seen.len(), EXPECTED.len(), "every expectation is about a statement");
    session.give_back();
}

fn hot_statements() -> impl Iterator<Item = &'static str> {
    jobs::hot_statements()
        .into_iter()
        .chain(bots::hot_statements())
        .chain(transcripts::hot_statements())
        .chain(webhooks::hot_statements())
}

fn name_of(sql: &'static str) -> &'static str {
    sql.lines().next().unwrap().trim_start_matches("-- ")
}

/// The plan that every connection of the pool would use: it does not depend on the values.
async fn explain(session: &mut Session, sql: &'static str) -> String {
    let parameters = session.client().prepare(sql).await.unwrap().params().len();
    let nulls = vec!["NULL"; parameters].join(", ");
    session.batch(&format!("PREPARE explained AS {sql}")).await.unwrap();
    let rows = session
        .client()
        .simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE explained({nulls})"))
        .await
        .unwrap();
    session.batch("DEALLOCATE explained").await.unwrap();
    let mut plan = String::new();
    for row in rows {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = row {
            writeln!(plan, "{}", row.get(0).unwrap_or_default()).unwrap();
        }
    }
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_at_once_take_no_more_than_they_ask_for() {
    let (store, _database) = store().await;
    let store = Arc::new(store);
    enqueue(&store, 1_000).await;
    let mut workers = JoinSet::new();
    for _ in 0..12 {
        let store = Arc::clone(&store);
        workers.spawn(async move {
            let mut taken = Vec::new();
            loop {
                let jobs = store.claim(claim(7), NOW).await.unwrap().jobs;
                assert!(jobs.len() <= 7, "{}", jobs.len());
                if jobs.is_empty() {
                    return taken;
                }
                taken.extend(jobs.into_iter().map(|job| (job.facts.id, job.lease.lease_no)));
            }
        });
    }
    let taken: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    let jobs: BTreeSet<_> = taken.iter().map(|(id, _)| *id).collect();
    let numbers: BTreeSet<_> = taken.iter().map(|(_, number)| *number).collect();
    assert_eq!((taken.len(), jobs.len(), numbers.len()), (1_000, 1_000, 1_000));
}

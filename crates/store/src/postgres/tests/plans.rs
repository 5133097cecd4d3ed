//! The hot statements go by their indexes, whatever the statistics say.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tokio::task::JoinSet;

use super::*;
use crate::postgres::session::Session;
use crate::postgres::{
    audits, bots, jobs, presence, recordings, rooms, tasks, transcripts, webhooks,
};

/// How the view of audits looks for the job of each.
const JOB_OF_AUDIT: &str = "Index Cond: ((id >= a.job_id) AND (id <= a.job_id))";

/// What the plan of a statement must contain.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "claim",
        &[
            "Index Scan using job_queue_ready",
            "Index Only Scan using job_queue_due",
            "using job_running_key",
            "Index Scan using job_queue_pkey",
            "using job_gates_pkey",
        ],
    ),
    ("lanes_waiting", &["using job_queue_ready", "using job_running_key"]),
    ("lanes_running", &["using job_running_lane"]),
    ("dead_of_user", &["Scan Backward using job_finished_dead_user"]),
    ("dead_of_all", &["Scan Backward using job_finished_dead"]),
    ("dead_kinds", &["using job_finished_dead_kind"]),
    ("prune_dead", &["using job_finished_dead_kind"]),
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
    ("room", &["Index Scan using rooms_pkey"]),
    ("rooms_of_user", &["Index Scan using rooms_"]),
    ("room_snapshot", &["Index Scan using room_snapshots_pkey"]),
    ("room_updates", &["Index Scan using room_updates_pkey"]),
    ("room_heads", &["Index Scan using rooms_pkey"]),
    ("lock_rooms", &["Index Scan using rooms_pkey"]),
    ("update_rooms", &["Index Scan using rooms_pkey"]),
    ("forget_updates", &["Index Scan using room_updates_pkey"]),
    ("log_weight", &["Index Scan using room_updates_pkey"]),
    ("room_versions", &["Index Scan Backward using room_versions_"]),
    ("kept_presence", &["Index Scan using room_presence_pkey"]),
    ("kept_presence_versions", &["Index Scan using room_presence_pkey"]),
    ("room_tokens", &["Index Scan Backward using room_tokens_project"]),
    ("prune_room_tokens", &["Index Scan using room_tokens_expires"]),
    ("lock_presence", &["Index Scan using presence_pkey"]),
    ("presence_of", &["Index Scan using presence_pkey", "Index Scan using meetings_pkey"]),
    ("open_in_room", &["Index Scan using presence_open_room"]),
    (
        "known_sessions",
        &["Index Scan using presence_sessions_open", "Index Scan using presence_sessions_pkey"],
    ),
    ("open_sessions", &["Index Scan using presence_sessions_open"]),
    ("joining_until", &["Index Scan using presence_joining_pkey"]),
    ("forget_events", &["Index Scan using inbox_room"]),
    ("put_sessions", &["Conflict Arbiter Indexes: presence_sessions_pkey"]),
    ("update_presence", &["Index Scan using presence_pkey", "Scan using presence_sessions_open"]),
    ("presence_of_all", &["Scan Backward using presence_pkey", "using meetings_pkey"]),
    ("presence_of_user", &["Scan Backward using presence_user", "using meetings_pkey"]),
    ("presence_in_room", &["Scan Backward using presence_room", "using meetings_pkey"]),
    ("presence_open", &["Scan Backward using presence_open", "using meetings_pkey"]),
    ("sessions_of_meeting", &["Index Scan using presence_sessions_joined"]),
    ("sessions_open", &["Index Scan using presence_sessions_"]),
    ("meetings_of_rooms", &["using presence_open_room", "Scan Backward using presence_room"]),
    ("open_presences", &["Index Scan using presence_open", "using presence_sessions_open"]),
    ("empty_presences", &["Index Only Scan using presence_empty"]),
    ("presence_counts", &["Index Scan using presence_open"]),
    (
        "note_joining",
        &["Index Scan using presence_", "Conflict Arbiter Indexes: presence_joining_pkey"],
    ),
    ("keep_inbox", &["Conflict Arbiter Indexes: inbox_service_event_key"]),
    ("inbox", &["Index Scan Backward using inbox_pkey"]),
    ("inbox_of_room", &["Index Scan Backward using inbox_room"]),
    ("inbox_of_outcome", &["Index Scan Backward using inbox_outcome"]),
    ("prune_inbox", &["Index Scan using inbox_at"]),
    ("prune_joining", &["Index Scan using presence_joining_until"]),
    ("hold_room", &["Index Scan using presence_pkey"]),
    ("recording_of", &["Index Scan using recordings_recording_id_key"]),
    ("lock_recording", &["Index Scan using recordings_recording_id_key"]),
    ("update_recordings", &["Index Scan using recordings_pkey"]),
    ("announce_recordings", &["Conflict Arbiter Indexes: recordings_recording_id_key"]),
    ("announced", &["Index Scan using recordings_recording_id_key"]),
    ("meetings_near", &["Index Scan using presence_room", "Index Scan using meetings_pkey"]),
    ("consents", &["Index Scan using consents_pkey"]),
    ("is_denied", &["Index Scan using consents_pkey"]),
    ("to_erase", &["Index Scan using recordings_meeting", "Index Scan using consents_pkey"]),
    (
        "of_meeting",
        &["Index Scan using recordings_meeting", "Index Only Scan using recordings_unmatched"],
    ),
    ("lock_recordings", &["Index Scan using recordings_recording_id_key"]),
    ("known_recordings", &["Index Only Scan using recordings_recording_id_key"]),
    ("recordings_of_all", &["Scan Backward using recordings_pkey"]),
    ("recordings_of_meeting", &["Scan Backward using recordings_meeting"]),
    ("recordings_of_user", &["Scan Backward using recordings_user"]),
    ("recordings_unfinished", &["Scan Backward using recordings_unfinished"]),
    ("recording_counts", &["Index Only Scan using recordings_unfinished"]),
    (
        "lock_failed",
        &["Index Scan using recordings_unfinished", "using recordings_recording_id_key"],
    ),
    ("earlier_request", &["Index Scan using audit_records_request"]),
    ("audits_unfinished", &["Index Only Scan using audit_records_unfinished"]),
    ("set_audit_job", &["Index Scan using audit_records_pkey", "Index Cond: (id = $1)"]),
    (
        "audit",
        &[
            "Index Scan using audit_records_pkey",
            "Index Scan using job_queue_pkey",
            "Index Scan using job_running_pkey",
            JOB_OF_AUDIT,
        ],
    ),
    ("audits_of_all", &["Scan Backward using audit_records_pkey", JOB_OF_AUDIT]),
    ("audits_of_user", &["Scan Backward using audit_records_user", JOB_OF_AUDIT]),
    ("audits_of_url", &["Scan Backward using audit_records_url", JOB_OF_AUDIT]),
    ("audits_of_recurring", &["Scan Backward using audit_records_recurring", JOB_OF_AUDIT]),
    ("audit_report", &["Index Scan using audit_records_pkey", JOB_OF_AUDIT]),
    ("previous_audit", &["Scan Backward using audit_records_url", JOB_OF_AUDIT]),
    (
        "audit_screenshot",
        &["using audit_screenshots_pkey", "Index Scan using audit_records_pkey", JOB_OF_AUDIT],
    ),
    ("write_audit_result", &["Index Scan using audit_records_pkey"]),
    (
        "prune_audits",
        &[
            "Index Scan using audit_records_finished",
            JOB_OF_AUDIT,
            "Index Cond: (audit_id = ANY ($",
            "Index Cond: (id = ANY ($",
        ],
    ),
    ("audits_of_jobs", &["Index Scan using audit_records_job_id_key", "Index Cond: (job_id = ANY"]),
    ("recurring", &["Index Scan using recurring_audits_pkey"]),
    ("lock_recurring", &["Index Scan using recurring_audits_pkey"]),
    ("update_recurring", &["Index Scan using recurring_audits_pkey"]),
    ("recurring_count", &["Index Only Scan using recurring_audits_user"]),
    ("recurring_of_all", &["Scan Backward using recurring_audits_pkey"]),
    ("recurring_of_user", &["Scan Backward using recurring_audits_user"]),
    ("lock_task", &["Index Scan using tasks_pkey"]),
    ("update_task", &["Index Scan using tasks_pkey"]),
    ("slots_taken", &["Index Scan using tasks_slots"]),
    ("one_task", &["Index Scan using tasks_pkey"]),
    ("task_of_result", &["Index Scan using tasks_result_key_key"]),
    ("tasks_of_all", &["Scan Backward using tasks_pkey"]),
    ("tasks_of_user", &["Scan Backward using tasks_user"]),
    ("tasks_of_project", &["Scan Backward using tasks_project"]),
    ("task_looks", &["Index Scan using tasks_active"]),
    ("tasks_pending", &["Scan using tasks_active"]),
    ("unfinished_tasks", &["Index Scan using tasks_unfinished"]),
    ("untold_tasks", &["Index Scan using tasks_untold"]),
    ("hint_task", &["Index Scan using tasks_external"]),
    ("prune_tasks", &["Index Scan using tasks_ended", "using tasks_pkey"]),
];

/// The tables whose statistics are made wrong.
const TABLES: [&str; 28] = [
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
    "roundsman.presence",
    "roundsman.presence_sessions",
    "roundsman.presence_joining",
    "roundsman.inbox",
    "roundsman.recordings",
    "roundsman.consents",
    "roundsman.tasks",
    "roundsman.audit_records",
    "roundsman.audit_screenshots",
    "roundsman.recurring_audits",
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

    let emptied = ["job_queue", "job_running", "bots", "webhook_events", "live_segments"];
    for table in emptied.into_iter().chain(["presence_joining", "inbox"]) {
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
const FILL: &str = include_str!("plans/fill.sql");

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
        .chain(presence::hot_statements())
        .chain(recordings::hot_statements())
        .chain(audits::hot_statements())
        .chain(rooms::hot_statements())
        .chain(tasks::hot_statements())
        .chain(webhooks::hot_statements())
}

fn name_of(sql: &'static str) -> &'static str {
    sql.lines().next().unwrap().trim_start_matches("-- ")
}

/// The plan that every connection of the pool would use: it does not depend on the values.
async fn explain(session: &mut Session, sql: &'static str) -> String {
    let parameters = session.client().prepare(sql).await.unwrap().params().len();
    let nulls = match parameters {
        0 => String::new(),
        _ => format!("({})", vec!["NULL"; parameters].join(", ")),
    };
    session.batch(&format!("PREPARE explained AS {sql}")).await.unwrap();
    let rows = session
        .client()
        .simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE explained{nulls}"))
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

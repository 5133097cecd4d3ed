//! Looks at everything and says what cannot be true. Reads one snapshot; a table at a time.

use roundsman_core::effects::Violation;
use roundsman_core::jobs::JobFacts;
use rusqlite::{Connection, Row};

use super::audits::check::check as audits;
use super::bots::columns::{bot_columns, read_bot};
use super::effects::read_transition;
use super::error::Result;
use super::jobs::columns::{
    fact_columns, finished_columns, read_finished, read_running, read_waiting, running_columns,
    waiting_columns,
};
use super::presence::check::check as presence;
use super::recordings::check::check as recordings;
use super::rooms::check::LOGS_WITH_HOLES;
use super::tasks::check::check as tasks;
use super::time::At;
use crate::rows::bots::{BOTS, BotFacts, check_bots};
use crate::rows::check::{
    FRAMES_GAPLESS, JOB_IN_ONE_PLACE, KEY_ONCE, NUMBERS_FROM_COUNTER, ROW_CONSISTENT,
    STORAGE_SOUND, check_runs, check_tokens, replay_logs, violation,
};
use crate::rows::rooms::LOG_GAPLESS;
use crate::rows::transcripts::{
    KEPT_IS_FINAL, LIVE_IS_ACTIVE, SEGMENT_IN_ONE_PLACE, SEGMENT_WAS_TOLD,
};
use crate::rows::{FINISHED, PENDING, QUEUE, RUNNING, SCHEDULED, inconsistent};

pub(super) fn check(conn: &Connection) -> Result<Vec<Violation>> {
    let mut found = storage(conn)?;
    found.extend(logs(conn)?);
    found.extend(jobs(conn, QUEUE, ALL_WAITING, waiting)?);
    found.extend(jobs(conn, RUNNING, ALL_RUNNING, |row| Ok(read_running(row)?.into_job()?.facts))?);
    found.extend(jobs(conn, FINISHED, ALL_FINISHED, |row| {
        Ok(read_finished(row)?.into_job()?.facts)
    })?);
    for rule in RULES {
        found.extend(suspects(conn, rule)?);
    }
    Ok(found)
}

/// A statement that selects (subject, explanation) of whatever breaks a rule.
struct Rule {
    name: &'static str,
    suspects: &'static str,
}

const RULES: &[Rule] = &[
    Rule { name: JOB_IN_ONE_PLACE, suspects: IN_TWO_TABLES },
    Rule { name: KEY_ONCE, suspects: KEY_TWICE },
    Rule { name: ROW_CONSISTENT, suspects: CONTRADICTORY_FINISHED },
    Rule { name: NUMBERS_FROM_COUNTER, suspects: BEYOND_COUNTER },
    Rule { name: FRAMES_GAPLESS, suspects: STREAMS_WITH_HOLES },
    Rule { name: SEGMENT_IN_ONE_PLACE, suspects: LIVE_AND_FINAL },
    Rule { name: KEPT_IS_FINAL, suspects: KEPT_WITHOUT_ROW },
    Rule { name: LIVE_IS_ACTIVE, suspects: LIVE_UNNOTICED },
    Rule { name: SEGMENT_WAS_TOLD, suspects: NEVER_TOLD },
    Rule { name: LOG_GAPLESS, suspects: LOGS_WITH_HOLES },
];

const IN_TWO_TABLES: &str = "-- in_two_tables
    SELECT 'job ' || id, 'is in ' || group_concat(place, ' and ')
      FROM (SELECT id, 'job_queue' AS place FROM job_queue
            UNION ALL SELECT id, 'job_running' FROM job_running
            UNION ALL SELECT id, 'job_finished' FROM job_finished)
     GROUP BY id HAVING count(*) > 1";

const KEY_TWICE: &str = "-- key_twice
    SELECT 'user ' || user_id || ' ' || kind || ' ' || key, count(*) || ' wait'
      FROM job_queue WHERE key IS NOT NULL
     GROUP BY user_id, kind, key HAVING count(*) > 1
    UNION ALL
    SELECT 'user ' || user_id || ' ' || kind || ' ' || key, count(*) || ' run'
      FROM job_running WHERE key IS NOT NULL
     GROUP BY user_id, kind, key HAVING count(*) > 1";

const CONTRADICTORY_FINISHED: &str = "-- contradictory_finished
    SELECT 'job_finished ' || id, 'result, error or run do not fit the state'
      FROM job_finished
     WHERE state NOT IN (3, 4, 5)
        OR (state = 3) <> (result IS NOT NULL)
        OR (state = 4) <> (error_code IS NOT NULL)
        OR (folded_into IS NOT NULL AND state <> 5)
        OR (lease_no IS NULL) <> (claimed_at IS NULL)
        OR (lease_no IS NULL) <> (worker IS NULL)
        OR (lease_no IS NOT NULL AND runs IS NOT NULL)";

const BEYOND_COUNTER: &str = "-- beyond_counter
    SELECT 'counter ' || name, 'stands at ' || value || ' but ' || used || ' is in use'
      FROM counters
      JOIN (SELECT 'job_id' AS counter,
                   max(coalesce((SELECT max(id) FROM job_queue), 0),
                       coalesce((SELECT max(id) FROM job_running), 0),
                       coalesce((SELECT max(id) FROM job_finished), 0)) AS used
            UNION ALL SELECT 'lease_no', max(coalesce((SELECT max(lease_no) FROM job_running), 0),
                                             coalesce((SELECT max(lease_no) FROM job_finished), 0))
            UNION ALL SELECT 'process_no', coalesce(max(owner_process), 0) FROM job_running)
        ON counter = name
     WHERE used > value";

/// Pruning takes frames from the front, so those that are left end at the last number given.
const STREAMS_WITH_HOLES: &str = "-- streams_with_holes
    SELECT 'stream ' || f.stream,
           count(*) || ' frames from ' || min(f.seq) || ' to ' || max(f.seq) || ', last given '
               || coalesce(s.last_seq, 'none')
      FROM frames AS f LEFT JOIN frame_streams AS s ON s.stream = f.stream
     GROUP BY f.stream
    HAVING count(*) <> max(f.seq) - min(f.seq) + 1
        OR s.last_seq IS NULL OR max(f.seq) <> s.last_seq";

const LIVE_AND_FINAL: &str = "-- live_and_final
    SELECT 'segment ' || l.meeting_id || '/' || l.session_uid || '/' || l.field,
           'is live and final'
      FROM live_segments AS l
      JOIN kept_segments AS k ON k.meeting_id = l.meeting_id AND k.session_uid = l.session_uid
                             AND k.field = l.field
     WHERE l.dropped = 0";

const KEPT_WITHOUT_ROW: &str = "-- kept_without_row
    SELECT 'transcription ' || k.transcription_id,
           'is known of meeting ' || k.meeting_id || ' but is of ' || coalesce(t.meeting_id, 'none')
      FROM kept_segments AS k LEFT JOIN transcriptions AS t ON t.id = k.transcription_id
     WHERE t.meeting_id IS NOT k.meeting_id";

const LIVE_UNNOTICED: &str = "-- live_unnoticed
    SELECT 'meeting ' || l.meeting_id, count(*) || ' segments are live, the meeting is not active'
      FROM live_segments AS l
     WHERE l.dropped = 0
       AND NOT EXISTS (SELECT 1 FROM active_transcripts AS a WHERE a.meeting_id = l.meeting_id)
     GROUP BY l.meeting_id";

const NEVER_TOLD: &str = "-- never_told
    SELECT 'meeting ' || said.meeting_id,
           'a segment was told by ' || max(said.seq) || ', last given '
               || coalesce(s.last_seq, 'none')
      FROM (SELECT meeting_id, seq FROM live_segments
            UNION ALL SELECT meeting_id, seq FROM kept_segments) AS said
      LEFT JOIN frame_streams AS s ON s.stream = 'meeting:' || said.meeting_id
     GROUP BY said.meeting_id
    HAVING max(said.seq) > coalesce(s.last_seq, 0)";

fn suspects(conn: &Connection, rule: &Rule) -> Result<Vec<Violation>> {
    let mut statement = conn.prepare(rule.suspects)?;
    let found = statement.query_map([], |row| {
        Ok(violation(rule.name, row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn storage(conn: &Connection) -> Result<Vec<Violation>> {
    // The check of the words trusts what this connection remembers of their index, which the writer
    // may have merged since. Only whoever begins to read them looks whether it has.
    conn.prepare("SELECT rowid FROM transcript_words LIMIT 1")?.exists([])?;
    let mut statement = conn.prepare("PRAGMA quick_check")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines = lines.collect::<rusqlite::Result<Vec<_>>>()?;
    let bad = lines.into_iter().filter(|line| line != "ok");
    Ok(bad.map(|line| violation(STORAGE_SOUND, "file", line)).collect())
}

const ALL_TRANSITIONS: &str = "-- all_transitions
    SELECT id, entity, entity_id, from_state, to_state, cause, detail, at
      FROM transitions
     ORDER BY entity, entity_id, id";

const ALL_TOKENS: &str = "-- all_tokens
    SELECT id, revoked_at IS NOT NULL FROM api_tokens ORDER BY id";

fn logs(conn: &Connection) -> Result<Vec<Violation>> {
    let steps = conn
        .prepare(ALL_TRANSITIONS)?
        .query_map([], read_transition)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let tokens = conn
        .prepare(ALL_TOKENS)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let (mut found, states) = replay_logs(&steps);
    found.extend(check_tokens(&tokens, &states));
    let (unreadable, bots) = bots(conn)?;
    found.extend(unreadable);
    found.extend(check_bots(&bots, &states));
    found.extend(presence(conn, &states)?);
    found.extend(recordings(conn, &states)?);
    found.extend(audits(conn)?);
    found.extend(tasks(conn, &states)?);
    Ok(found)
}

const ALL_BOTS: &str = concat!(
    "-- all_bots\nSELECT b.meeting_id, m.status, b.live, m.end_time IS NOT NULL, ",
    bot_columns!(),
    " FROM bots AS b LEFT JOIN meetings AS m ON m.id = b.meeting_id ORDER BY b.meeting_id"
);

/// What is to be compared of every bot, and those that cannot be read.
fn bots(conn: &Connection) -> Result<(Vec<Violation>, Vec<BotFacts>)> {
    let mut statement = conn.prepare(ALL_BOTS)?;
    let mut rows = statement.query([])?;
    let (mut unreadable, mut facts) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let meeting_id: i64 = row.get(0)?;
        if let Err(error) = read_bot(row, 4)?.into_bot() {
            let subject = format!("{BOTS} {meeting_id}");
            unreadable.push(violation(ROW_CONSISTENT, subject, error.to_string()));
        }
        let (status, live, ended) = (row.get(1)?, row.get(2)?, row.get(3)?);
        facts.push(BotFacts { meeting_id, status, live, ended });
    }
    Ok((unreadable, facts))
}

const ALL_WAITING: &str = concat!(
    "-- all_waiting\nSELECT ",
    waiting_columns!(),
    ", state, due_at, rank, lane FROM job_queue"
);

const ALL_RUNNING: &str =
    concat!("-- all_running\nSELECT ", running_columns!(), " FROM job_running");

const ALL_FINISHED: &str =
    concat!("-- all_finished\nSELECT ", finished_columns!(), " FROM job_finished");

/// Due time, rank and lane are stored to be indexed; they must follow from the rest.
fn waiting(row: &Row<'_>) -> Result<JobFacts> {
    let job = read_waiting(row)?.into_job()?;
    let id = job.facts.id.get();
    let [At(due_at), At(rank)] = [row.get("due_at")?, row.get("rank")?];
    let state: i16 = row.get("state")?;
    let lane: String = row.get("lane")?;
    let wrong = [
        ("due_at", due_at != job.due_at()),
        ("rank", rank != job.rank()),
        ("lane", lane != job.facts.lane().as_str()),
        ("state", ![SCHEDULED, PENDING].contains(&state)),
    ];
    match wrong.into_iter().find(|(_, wrong)| *wrong) {
        Some((column, _)) => {
            let reason = "does not follow from the other columns".to_owned();
            Err(inconsistent(QUEUE, column, id, reason).into())
        }
        None => Ok(job.facts),
    }
}

/// Reads every job of a table: a row that cannot be read is a violation, not the end of the check.
fn jobs(
    conn: &Connection,
    table: &'static str,
    all: &str,
    read: fn(&Row<'_>) -> Result<JobFacts>,
) -> Result<Vec<Violation>> {
    let mut statement = conn.prepare(all)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match read(row) {
            Ok(facts) => found.extend(check_runs(table, id, &facts.runs)),
            Err(failure) => {
                let error = roundsman_core::ports::StoreError::from(failure);
                found.push(violation(ROW_CONSISTENT, format!("{table} {id}"), error.to_string()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::check::{LOG_MATCHES_STATE, LOG_REPLAYS, RUNS_IN_ORDER};
    use crate::sqlite::{connection, schema};

    /// One job of each sort, a token, two bots, a stream, and what was said in a meeting: nothing is
    /// wrong with them.
    const SOUND: &str = "
        UPDATE counters SET value = 9;
        INSERT INTO job_queue (id, user_id, state, priority, attempt, rank, due_at, run_at,
            triggered_at, created_at, lane, kind, key, payload)
        VALUES (1, 1, 1, 0, 0, 5, 5, 5, 5, 5, '1/render', 'render', 'a', 'null');
        INSERT INTO job_running (id, user_id, priority, attempt, run_at, triggered_at, created_at,
            lease_no, lease_until, lease_ttl_us, claimed_at, heartbeat_at, kind, key, worker,
            payload)
        VALUES (2, 1, 0, 1, 5, 5, 5, 3, 9, 4, 5, 5, 'render', 'a', 'w', 'null');
        INSERT INTO job_finished (id, user_id, state, priority, attempt, run_at, triggered_at,
            created_at, finished_at, lease_no, claimed_at, worker, kind, payload, result)
        VALUES (3, 1, 3, 0, 1, 5, 5, 5, 9, 2, 6, 'w', 'render', 'null', 'null');
        INSERT INTO api_tokens (id, user_id, scopes, secret_hash, created_at)
        VALUES (1, 1, '', zeroblob(32), 5);
        INSERT INTO transitions (entity, entity_id, to_state, cause, at)
        VALUES ('token', 1, 'active', 'created', 5);
        INSERT INTO users (id, email, created_at) VALUES (1, 'ada@example.org', 5);
        INSERT INTO meetings (id, user_id, platform, status, end_time, created_at, updated_at)
        VALUES (1, 1, 'zoom', 'joining', NULL, 5, 5), (2, 1, 'zoom', 'failed', 6, 5, 6);
        INSERT INTO bots (meeting_id, user_id, connection_id, attempt, live, was_active, beats,
            reserved_at, entered_at, missed, config_version, config_applied, wish)
        VALUES (1, 1, 'c-1', 1, 1, 0, 0, 5, 5, 0, 0, 0, '{}'),
               (2, 1, 'c-2', 1, 0, 0, 0, 5, 5, 0, 0, 0, '{}');
        INSERT INTO transitions (entity, entity_id, from_state, to_state, cause, at)
        VALUES ('meeting', 1, NULL, 'starting', 'adopted', 5),
               ('meeting', 2, NULL, 'reserved', 'user', 5),
               ('meeting', 2, 'reserved', 'failed', 'sweeper', 6);
        INSERT INTO frame_streams (stream, last_seq) VALUES ('s', 3);
        INSERT INTO frames (stream, seq, body, at) VALUES ('s', 2, 'null', 5), ('s', 3, 'null', 5);
        INSERT INTO frame_streams (stream, last_seq) VALUES ('meeting:1', 3);
        INSERT INTO live_segments (meeting_id, session_uid, field, start_ms, end_ms, text,
            speaker_status, version, created_at, updated_at, seq, dropped)
        VALUES (1, 'u', '2.000', 2000, 3000, 'two', 'UNKNOWN', 1, 5, 5, 2, 0),
               (1, 'u', '3.000', 3000, 4000, '', 'UNKNOWN', 1, 5, 6, 3, 1);
        INSERT INTO active_transcripts (meeting_id) VALUES (1);
        INSERT INTO transcriptions (id, meeting_id, start_time, end_time, text, created_at)
        VALUES (1, 1, 1.0, 2.0, 'one', 5);
        INSERT INTO kept_segments (transcription_id, meeting_id, session_uid, field, start_ms,
            end_ms, speaker_status, version, updated_at, seq)
        VALUES (1, 1, 'u', '1.000', 1000, 2000, 'UNKNOWN', 1, 5, 1);
        INSERT INTO transcript_words (rowid, words, owner) VALUES (1, 'one', '1');";

    fn check_after(damage: &str) -> Vec<Violation> {
        let conn = connection::open_in_memory().unwrap();
        schema::migrate(&conn).unwrap();
        conn.execute_batch(SOUND).unwrap();
        conn.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        conn.execute_batch(damage).unwrap();
        conn.execute_batch("PRAGMA ignore_check_constraints = OFF").unwrap();
        check(&conn).unwrap()
    }

    #[test]
    fn nothing_is_wrong_with_what_is_sound() {
        assert_eq!(check_after(""), []);
    }

    #[test]
    fn every_rule_finds_what_breaks_it() {
        let run = |lease_no: i64| {
            format!(
                r#"{{"attempt":1,"lease_no":{lease_no},"worker":"w","outcome":"retry",
                    "started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:00:01Z"}}"#
            )
        };
        let runs = format!(r#"{{"total":2,"runs":[{},{}]}}"#, run(4), run(3));
        let out_of_order = format!("UPDATE job_running SET runs = '{runs}'");
        let copy_of_key = "DROP INDEX job_running_key;
            INSERT INTO job_running (id, user_id, priority, attempt, run_at, triggered_at,
                created_at, lease_no, lease_until, lease_ttl_us, claimed_at, heartbeat_at, kind,
                key, worker, payload)
            SELECT 4, user_id, priority, attempt, run_at, triggered_at, created_at, 5, lease_until,
                lease_ttl_us, claimed_at, heartbeat_at, kind, key, worker, payload
              FROM job_running";
        let cases = [
            (LOG_REPLAYS, "UPDATE transitions SET from_state = 'revoked' WHERE entity = 'token'"),
            (LOG_MATCHES_STATE, "UPDATE api_tokens SET revoked_at = 6"),
            (LOG_MATCHES_STATE, "DELETE FROM transitions"),
            (LOG_MATCHES_STATE, "UPDATE meetings SET status = 'active' WHERE id = 1"),
            (ROW_CONSISTENT, "UPDATE meetings SET end_time = NULL"),
            (ROW_CONSISTENT, "UPDATE meetings SET status = 'open' WHERE id = 1"),
            (ROW_CONSISTENT, "UPDATE bots SET live = 1"),
            (ROW_CONSISTENT, "UPDATE bots SET stage = 'nowhere'"),
            (ROW_CONSISTENT, "UPDATE bots SET meeting_id = 3 WHERE meeting_id = 1"),
            (RUNS_IN_ORDER, out_of_order.as_str()),
            (JOB_IN_ONE_PLACE, "UPDATE job_running SET id = 3"),
            (KEY_ONCE, copy_of_key),
            (ROW_CONSISTENT, "UPDATE job_queue SET state = 2"),
            (ROW_CONSISTENT, "UPDATE job_queue SET rank = 4"),
            (ROW_CONSISTENT, "UPDATE job_queue SET due_at = 4"),
            (ROW_CONSISTENT, "UPDATE job_queue SET lane = 'render'"),
            (ROW_CONSISTENT, "UPDATE job_running SET kind = 'No Kind'"),
            (ROW_CONSISTENT, "UPDATE job_running SET runs = '{'"),
            (ROW_CONSISTENT, "UPDATE job_finished SET result = NULL"),
            (ROW_CONSISTENT, "UPDATE job_finished SET claimed_at = NULL"),
            (NUMBERS_FROM_COUNTER, "UPDATE counters SET value = 2 WHERE name = 'job_id'"),
            (NUMBERS_FROM_COUNTER, "UPDATE counters SET value = 2 WHERE name = 'lease_no'"),
            (FRAMES_GAPLESS, "UPDATE frames SET seq = 1 WHERE seq = 2"),
            (FRAMES_GAPLESS, "UPDATE frame_streams SET last_seq = 4"),
            (FRAMES_GAPLESS, "DELETE FROM frame_streams"),
            (SEGMENT_IN_ONE_PLACE, "UPDATE kept_segments SET field = '2.000'"),
            (KEPT_IS_FINAL, "DELETE FROM transcriptions"),
            (KEPT_IS_FINAL, "UPDATE kept_segments SET meeting_id = 2"),
            (LIVE_IS_ACTIVE, "DELETE FROM active_transcripts"),
            (SEGMENT_WAS_TOLD, "UPDATE live_segments SET seq = 4 WHERE dropped = 0"),
            (SEGMENT_WAS_TOLD, "UPDATE kept_segments SET seq = 4"),
            (SEGMENT_WAS_TOLD, "DELETE FROM frame_streams"),
            (STORAGE_SOUND, "DELETE FROM transcript_words_data WHERE id > 10"),
        ];
        for (rule, damage) in cases {
            let found = check_after(damage);
            assert!(found.iter().any(|one| one.rule == rule), "{damage}: {found:?}");
        }
    }
}

//! Looks at everything and says what cannot be true.
//!
//! One snapshot, read as a stream: a table that does not fit into memory can still be checked.

use std::time::Duration;

use futures_util::TryStreamExt;
use roundsman_core::Timestamp;
use roundsman_core::effects::Violation;
use roundsman_core::jobs::JobFacts;
use roundsman_core::ports::StoreError;
use tokio_postgres::Row;

use super::audits::check::check as audits;
use super::bots::columns::{bot, bot_columns};
use super::columns::{self, finished_columns, running_columns, waiting_columns};
use super::effects::transition;
use super::error::Failure;
use super::pool::{Operation, Pool};
use super::presence::check::{ROOM_TWICE, check as presence};
use super::recordings::check::{CONSENT_OF_NONE, check as recordings};
use super::rooms::check::LOGS_WITH_HOLES;
use super::session::Session;
use super::tasks::check::check as tasks;
use super::types::Time;
use crate::rows::bots::{BOTS, BotFacts, check_bots};
use crate::rows::check::{
    FRAMES_GAPLESS, JOB_IN_ONE_PLACE, KEY_ONCE, NUMBERS_FROM_COUNTER, ROW_CONSISTENT, check_runs,
    check_tokens, replay_logs, violation,
};
use crate::rows::presence::ROOM_ONCE;
use crate::rows::rooms::LOG_GAPLESS;
use crate::rows::transcripts::{
    KEPT_IS_FINAL, LIVE_IS_ACTIVE, SEGMENT_IN_ONE_PLACE, SEGMENT_WAS_TOLD,
};
use crate::rows::{FINISHED, QUEUE, RUNNING};

/// Reading everything takes as long as it takes, within reason.
const CHECK_LIMIT: Duration = Duration::from_secs(1800);

/// The other settings of a connection fit look-ups; here whole tables are read and joined.
const SETTINGS: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL statement_timeout = 0;
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;
SET LOCAL enable_mergejoin = on";

pub(super) async fn run(pool: &Pool) -> Result<Vec<Violation>, StoreError> {
    pool.run_within(&Check, CHECK_LIMIT).await
}

struct Check;

impl Operation for Check {
    type Answer = Vec<Violation>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Violation>, Failure> {
        session.begin();
        session.batch(SETTINGS).await?;
        let mut found = logs(session).await?;
        found.extend(
            jobs(session, QUEUE, ALL_WAITING, |row| Ok(columns::waiting(row)?.facts)).await?,
        );
        found.extend(
            jobs(session, RUNNING, ALL_RUNNING, |row| Ok(columns::running(row)?.facts)).await?,
        );
        found.extend(
            jobs(session, FINISHED, ALL_FINISHED, |row| Ok(columns::finished(row)?.facts)).await?,
        );
        for (rule, suspects) in RULES {
            found.extend(accuse(rule, &session.query(suspects, &[]).await?)?);
        }
        let rows = session.query(CONTRADICTORY_WAITING, &[&Time(Timestamp::MAX)]).await?;
        found.extend(accuse(ROW_CONSISTENT, &rows)?);
        session.commit().await?;
        Ok(found)
    }
}

/// Statements that select (subject, explanation) of whatever breaks a rule.
const RULES: [(&str, &str); 12] = [
    (JOB_IN_ONE_PLACE, IN_TWO_TABLES),
    (KEY_ONCE, KEY_TWICE),
    (ROW_CONSISTENT, CONTRADICTORY_FINISHED),
    (NUMBERS_FROM_COUNTER, BEYOND_COUNTER),
    (FRAMES_GAPLESS, STREAMS_WITH_HOLES),
    (SEGMENT_IN_ONE_PLACE, LIVE_AND_FINAL),
    (KEPT_IS_FINAL, KEPT_WITHOUT_ROW),
    (LIVE_IS_ACTIVE, LIVE_UNNOTICED),
    (SEGMENT_WAS_TOLD, NEVER_TOLD),
    (ROOM_ONCE, ROOM_TWICE),
    (ROW_CONSISTENT, CONSENT_OF_NONE),
    (LOG_GAPLESS, LOGS_WITH_HOLES),
];

fn accuse(rule: &'static str, rows: &[Row]) -> Result<Vec<Violation>, Failure> {
    let accused = |row: &Row| {
        let (subject, explanation): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        Ok(violation(rule, subject, explanation))
    };
    rows.iter().map(accused).collect()
}

const IN_TWO_TABLES: &str = "-- in_two_tables
SELECT 'job ' || id, 'is in ' || string_agg(place, ' and ')
  FROM (SELECT id, 'job_queue' AS place FROM roundsman.job_queue
        UNION ALL SELECT id, 'job_running' FROM roundsman.job_running
        UNION ALL SELECT id, 'job_finished' FROM roundsman.job_finished) everywhere
 GROUP BY id HAVING count(*) > 1";

const KEY_TWICE: &str = "-- key_twice
SELECT 'user ' || user_id || ' ' || kind || ' ' || key, count(*) || ' wait'
  FROM roundsman.job_queue WHERE key IS NOT NULL
 GROUP BY user_id, kind, key HAVING count(*) > 1
UNION ALL
SELECT 'user ' || user_id || ' ' || kind || ' ' || key, count(*) || ' run'
  FROM roundsman.job_running WHERE key IS NOT NULL
 GROUP BY user_id, kind, key HAVING count(*) > 1";

/// Due time and rank must follow from the columns they are computed from; a rank that would lie
/// beyond the last instant is cut to it.
const CONTRADICTORY_WAITING: &str = "-- contradictory_waiting
SELECT 'job_queue ' || id, 'state, due time, rank and lane do not follow from the other columns'
  FROM roundsman.job_queue
 WHERE due_at <> greatest(run_at, not_before)
    OR (rank <> due_at - priority * interval '60 seconds'
        AND rank <> $1)
    OR NOT (lane IN (kind, user_id || '/' || kind) OR starts_with(lane, kind || '/')
            OR starts_with(lane, user_id || '/' || kind || '/'))
    OR attempt < 0";

/// Differs from SQLite, where a run is kept in columns only if it is the job's only one.
const CONTRADICTORY_FINISHED: &str = "-- contradictory_finished
SELECT 'job_finished ' || id, 'result, error or run do not fit the state'
  FROM roundsman.job_finished
 WHERE (state = 3) <> (result IS NOT NULL)
    OR (state = 4) <> (error_code IS NOT NULL)
    OR (folded_into IS NOT NULL AND state <> 5)
    OR (lease_no IS NULL) <> (claimed_at IS NULL)
    OR (lease_no IS NULL) <> (worker IS NULL)
    OR (lease_no IS NOT NULL AND state <> 3)";

/// Sequences are outside of snapshots and only grow, so reading them late cannot accuse anybody.
const BEYOND_COUNTER: &str = "-- beyond_counter
SELECT 'sequence ' || name, 'stands at ' || value || ' but ' || used || ' is in use'
  FROM (SELECT 'job_id_seq' AS name,
               greatest((SELECT max(id) FROM roundsman.job_queue),
                        (SELECT max(id) FROM roundsman.job_running),
                        (SELECT max(id) FROM roundsman.job_finished)) AS used,
               (SELECT last_value FROM roundsman.job_id_seq) AS value
        UNION ALL
        SELECT 'lease_no_seq',
               greatest((SELECT max(lease_no) FROM roundsman.job_running),
                        (SELECT max(lease_no) FROM roundsman.job_finished)),
               (SELECT last_value FROM roundsman.lease_no_seq)
        UNION ALL
        SELECT 'process_no_seq', (SELECT max(owner_process) FROM roundsman.job_running),
               (SELECT last_value FROM roundsman.process_no_seq)) numbers
 WHERE used > value";

/// Pruning takes frames from the front, so those that are left end at the last number given.
const STREAMS_WITH_HOLES: &str = "-- streams_with_holes
SELECT 'stream ' || f.stream,
       count(*) || ' frames from ' || min(f.seq) || ' to ' || max(f.seq) || ', last given '
           || coalesce(s.last_seq::text, 'none')
  FROM roundsman.frames f LEFT JOIN roundsman.frame_streams s ON s.stream = f.stream
 GROUP BY f.stream, s.last_seq
HAVING count(*) <> max(f.seq) - min(f.seq) + 1
    OR s.last_seq IS NULL OR max(f.seq) <> s.last_seq";

const LIVE_AND_FINAL: &str = "-- live_and_final
SELECT 'segment ' || l.meeting_id || '/' || l.session_uid || '/' || l.field, 'is live and final'
  FROM roundsman.live_segments l
  JOIN roundsman.kept_segments k
    ON k.meeting_id = l.meeting_id AND k.session_uid = l.session_uid AND k.field = l.field
 WHERE NOT l.dropped";

const KEPT_WITHOUT_ROW: &str = "-- kept_without_row
SELECT 'transcription ' || k.transcription_id,
       'is known of meeting ' || k.meeting_id || ' but is of '
           || coalesce(t.meeting_id::text, 'none')
  FROM roundsman.kept_segments k
  LEFT JOIN public.transcriptions t ON t.id = k.transcription_id
 WHERE t.meeting_id IS DISTINCT FROM k.meeting_id";

const LIVE_UNNOTICED: &str = "-- live_unnoticed
SELECT 'meeting ' || l.meeting_id, count(*) || ' segments are live, the meeting is not active'
  FROM roundsman.live_segments l
 WHERE NOT l.dropped
   AND NOT EXISTS (SELECT FROM roundsman.active_transcripts a WHERE a.meeting_id = l.meeting_id)
 GROUP BY l.meeting_id";

const NEVER_TOLD: &str = "-- never_told
SELECT 'meeting ' || said.meeting_id,
       'a segment was told by ' || max(said.seq) || ', last given '
           || coalesce(s.last_seq::text, 'none')
  FROM (SELECT meeting_id, seq FROM roundsman.live_segments
        UNION ALL SELECT meeting_id, seq FROM roundsman.kept_segments) said
  LEFT JOIN roundsman.frame_streams s ON s.stream = 'meeting:' || said.meeting_id
 GROUP BY said.meeting_id, s.last_seq
HAVING max(said.seq) > coalesce(s.last_seq, 0)";

const ALL_TRANSITIONS: &str = "-- all_transitions
SELECT id, entity, entity_id, from_state, to_state, cause, detail, at
  FROM roundsman.transitions ORDER BY entity, entity_id, id";

const ALL_TOKENS: &str = "-- all_tokens
SELECT id, revoked_at IS NOT NULL FROM roundsman.api_tokens ORDER BY id";

async fn logs(session: &mut Session) -> Result<Vec<Violation>, Failure> {
    let rows = session.query(ALL_TRANSITIONS, &[]).await?;
    let steps = rows.iter().map(transition).collect::<Result<Vec<_>, _>>()?;
    let mut tokens = Vec::new();
    for row in session.query(ALL_TOKENS, &[]).await? {
        tokens.push((row.try_get(0)?, row.try_get(1)?));
    }
    let (mut found, states) = replay_logs(&steps);
    found.extend(check_tokens(&tokens, &states));
    let (unreadable, bots) = all_bots(session).await?;
    found.extend(unreadable);
    found.extend(check_bots(&bots, &states));
    found.extend(presence(session, &states).await?);
    found.extend(recordings(session, &states).await?);
    found.extend(audits(session).await?);
    found.extend(tasks(session, &states).await?);
    Ok(found)
}

const ALL_BOTS: &str = concat!(
    "-- all_bots\nSELECT b.meeting_id, m.status::text, b.live, m.end_time IS NOT NULL, ",
    bot_columns!(),
    " FROM roundsman.bots b LEFT JOIN public.meetings m ON m.id = b.meeting_id
 ORDER BY b.meeting_id"
);

/// What is to be compared of every bot, and those that cannot be read.
async fn all_bots(session: &mut Session) -> Result<(Vec<Violation>, Vec<BotFacts>), Failure> {
    let (mut unreadable, mut facts) = (Vec::new(), Vec::new());
    let mut rows = Box::pin(session.stream(ALL_BOTS).await?);
    while let Some(row) = rows.try_next().await? {
        let meeting_id: i64 = row.try_get(0)?;
        if let Err(failure) = bot(&row, 4) {
            let reason = failure.into_store_error().to_string();
            unreadable.push(violation(ROW_CONSISTENT, format!("{BOTS} {meeting_id}"), reason));
        }
        let (status, live, ended) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        facts.push(BotFacts { meeting_id, status, live, ended });
    }
    Ok((unreadable, facts))
}

const ALL_WAITING: &str =
    concat!("-- all_waiting\nSELECT ", waiting_columns!(), " FROM roundsman.job_queue");

const ALL_RUNNING: &str =
    concat!("-- all_running\nSELECT ", running_columns!(), " FROM roundsman.job_running");

const ALL_FINISHED: &str =
    concat!("-- all_finished\nSELECT ", finished_columns!(), " FROM roundsman.job_finished");

/// Reads every job of a table: a row that cannot be read is a violation, not the end of the check.
async fn jobs(
    session: &mut Session,
    table: &'static str,
    all: &'static str,
    read: fn(&Row) -> Result<JobFacts, Failure>,
) -> Result<Vec<Violation>, Failure> {
    let mut rows = Box::pin(session.stream(all).await?);
    let mut found = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let id: i64 = row.try_get(0)?;
        match read(&row) {
            Ok(facts) => found.extend(check_runs(table, id, &facts.runs)),
            Err(failure) => {
                let reason = failure.into_store_error().to_string();
                found.push(violation(ROW_CONSISTENT, format!("{table} {id}"), reason));
            }
        }
    }
    Ok(found)
}

//! Signs of life of bots.
//!
//! A whole batch is one statement that rewrites one row of `bots` and one of `meetings` for each bot
//! and touches no index: what it changes is in none.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{BeatAnswer, BotBeat};
use tokio_postgres::Row;

use crate::postgres::columns::{Reader, count};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::bots::{ConfigColumns, NotHeard, stage_from_text, status_from_text};

/// Whoever waits for a sweep or an event here compares `live` and `attempt` again when that is done:
/// a bot that was given up a moment ago is not among those that are heard. The status is returned by
/// the second update, which waits for the same and reads the row anew; a plain look would show how
/// it was before. `live` and the connection are spelt so that only the number leads to a row: the
/// index of live bots is short until suddenly it is not, and that of connections is in no order.
pub(super) const HEAR: &str = "-- hear
WITH heard AS (
    UPDATE roundsman.bots b
       SET heartbeat_at = greatest(b.heartbeat_at, $6::timestamptz),
           beats = true,
           media_at = CASE WHEN beat.progress IS NOT NULL
                            AND (b.media_progress IS NULL OR b.media_progress < beat.progress)
                           THEN $6 ELSE b.media_at END,
           media_progress = greatest(b.media_progress, beat.progress),
           config_applied = greatest(b.config_applied, beat.applied)
      FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[], $5::integer[])
           AS beat(id, attempt, connection, progress, applied)
     WHERE b.meeting_id = beat.id AND b.attempt = beat.attempt
       AND b.connection_id || '' = beat.connection AND b.live::integer = 1
    RETURNING b.meeting_id, b.attempt, b.connection_id, b.stop_wanted_at IS NOT NULL AS stop_wanted,
              b.stage, b.config_version, b.config_applied, b.language, b.task
)
UPDATE public.meetings m
   SET updated_at = $6 AT TIME ZONE 'UTC'
  FROM heard
 WHERE m.id = heard.meeting_id
RETURNING heard.meeting_id, heard.attempt, heard.connection_id, m.status::text, heard.stop_wanted,
          heard.stage, heard.config_version, heard.config_applied, heard.language, heard.task";

/// How the bots are of which nothing was heard. `OFFSET 0` keeps this a look for each of them.
pub(super) const NOT_HEARD: &str = "-- not_heard
SELECT bot.*
  FROM unnest($1::bigint[]) AS given(id)
 CROSS JOIN LATERAL (
    SELECT b.meeting_id, b.attempt, b.connection_id, m.status::text
      FROM roundsman.bots b JOIN public.meetings m ON m.id = b.meeting_id
     WHERE b.meeting_id = given.id
    OFFSET 0) bot";

/// What makes two beats those of one bot.
type Speaker<'a> = (WorkloadId, &'a str);

/// What is said by one bot, be it in several beats.
#[derive(Default)]
struct Said {
    progress: Option<i64>,
    applied: Option<i32>,
}

pub(super) struct Hear<'a> {
    pub(super) beats: &'a [BotBeat],
    pub(super) now: Timestamp,
}

impl Operation for Hear<'_> {
    type Answer = Vec<BeatAnswer>;

    async fn run(&self, session: &mut Session) -> Result<Vec<BeatAnswer>, Failure> {
        if self.beats.is_empty() {
            return Ok(Vec::new());
        }
        // By number, so that batches that meet wait for each other in one direction.
        let mut said: BTreeMap<Speaker<'_>, Said> = BTreeMap::new();
        for beat in self.beats {
            let known = said.entry(speaker(beat)).or_default();
            known.progress = known.progress.max(beat.media_progress);
            known.applied = known.applied.max(beat.config_applied.map(count));
        }
        let mut answers = self.hear(session, &said).await?;
        let unheard: BTreeSet<Speaker<'_>> =
            said.keys().filter(|speaker| !answers.contains_key(*speaker)).copied().collect();
        if !unheard.is_empty() {
            answers.extend(explain(session, &unheard).await?);
        }
        let answer = |beat| answers.get(&speaker(beat)).cloned().unwrap_or(BeatAnswer::NoSuchBot);
        Ok(self.beats.iter().map(answer).collect())
    }
}

impl Hear<'_> {
    async fn hear<'s>(
        &self,
        session: &mut Session,
        said: &BTreeMap<Speaker<'s>, Said>,
    ) -> Result<BTreeMap<Speaker<'s>, BeatAnswer>, Failure> {
        let ids: Vec<i64> = said.keys().map(|(workload, _)| workload.meeting_id.get()).collect();
        let attempts: Vec<i32> = said.keys().map(|(workload, _)| count(workload.attempt)).collect();
        let connections: Vec<&str> = said.keys().map(|(_, connection)| *connection).collect();
        let progress: Vec<Option<i64>> = said.values().map(|said| said.progress).collect();
        let applied: Vec<Option<i32>> = said.values().map(|said| said.applied).collect();
        let rows = session
            .query(HEAR, &[&ids, &attempts, &connections, &progress, &applied, &Time(self.now)])
            // Hearing the same twice is hearing it, so a broken connection may be repeated.
            .await?;
        let by_place = places(said.keys().copied());
        let mut answers = BTreeMap::new();
        for row in &rows {
            let place: (i64, i32, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if let Some(&speaker) = by_place.get(&place) {
                answers.insert(speaker, heard(row)?);
            }
        }
        Ok(answers)
    }
}

fn speaker(beat: &BotBeat) -> Speaker<'_> {
    (beat.workload, beat.connection.as_str())
}

/// Speakers by the columns that name them.
fn places<'s>(
    speakers: impl Iterator<Item = Speaker<'s>>,
) -> BTreeMap<(i64, i32, &'s str), Speaker<'s>> {
    let place = |(workload, connection): Speaker<'s>| {
        (workload.meeting_id.get(), count(workload.attempt), connection)
    };
    speakers.map(|speaker| (place(speaker), speaker)).collect()
}

fn heard(row: &Row) -> Result<BeatAnswer, Failure> {
    let id: i64 = row.try_get(0)?;
    let mut reader = Reader::from(row, 3);
    let status = status_from_text(reader.value()?, id)?;
    let stop_wanted = reader.value()?;
    let stage = stage_from_text(reader.value()?, id)?;
    let config = ConfigColumns {
        version: reader.value::<i32>()?.into(),
        applied: reader.value::<i32>()?.into(),
        language: reader.value()?,
        task: reader.value()?,
    };
    Ok(BeatAnswer::Heard { status, stage, stop_wanted, config: config.into_config(id)? })
}

/// Why these were not heard. What is over stays over, so a second look is early enough.
async fn explain<'s>(
    session: &mut Session,
    unheard: &BTreeSet<Speaker<'s>>,
) -> Result<BTreeMap<Speaker<'s>, BeatAnswer>, Failure> {
    let ids: BTreeSet<i64> =
        unheard.iter().map(|(workload, _)| workload.meeting_id.get()).collect();
    let ids: Vec<i64> = ids.into_iter().collect();
    let rows = session.query(NOT_HEARD, &[&ids]).await?;
    let mut bots: BTreeMap<i64, &Row> = BTreeMap::new();
    for row in &rows {
        bots.insert(row.try_get(0)?, row);
    }
    let mut answers = BTreeMap::new();
    for &(workload, connection) in unheard {
        let id = workload.meeting_id.get();
        let answer = match bots.get(&id) {
            None => BeatAnswer::NoSuchBot,
            Some(row) if row.try_get::<_, &str>(2)? != connection => NotHeard::Stranger.of_beat(),
            Some(row) if row.try_get::<_, i32>(1)? != count(workload.attempt) => {
                NotHeard::Superseded.of_beat()
            }
            Some(row) => {
                let status = status_from_text(row.try_get(3)?, id)?;
                if !status.is_over() {
                    // It has become this bot's turn in between: listen again.
                    return Err(Failure::Raced);
                }
                BeatAnswer::Over { status }
            }
        };
        answers.insert((workload, connection), answer);
    }
    Ok(answers)
}

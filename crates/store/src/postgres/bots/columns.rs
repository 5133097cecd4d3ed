//! Between rows of meetings and bots and the types of `roundsman_core`.
//!
//! `public.meetings` may be the table of an existing Vexa database: its times are without a zone and
//! mean UTC, its numbers have either width, and what it says may be absent in rows of others.
//!
//! Invariant: readers go by position, in the order of the lists that the macros here spell out.

use std::borrow::Cow;

use roundsman_core::Timestamp;
use roundsman_core::bots::{Bot, BotRecord, Meeting, MeetingId, Stage};
use roundsman_core::jobs::Json;
use roundsman_core::ports::MeetingRow;
use roundsman_core::users::UserId;
use serde_json::{Map, Value};
use tokio_postgres::Row;

use crate::postgres::columns::{Reader, count};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::postgres::users::plain_json;
use crate::rows::bots::{BotColumns, ConfigColumns, bot_record, wish_to_text};

/// A row of `public.meetings`, named `m`.
macro_rules! meeting_columns {
    () => {
        "m.id::bigint, m.user_id::bigint, m.platform::text, m.platform_specific_id::text, \
         m.status::text, m.bot_container_id::text, m.start_time AT TIME ZONE 'UTC', \
         m.end_time AT TIME ZONE 'UTC', m.data::text, m.created_at AT TIME ZONE 'UTC', \
         m.updated_at AT TIME ZONE 'UTC'"
    };
}

/// How many columns [`meeting_columns`] names.
const MEETING_COLUMNS: usize = 11;

/// A row of `roundsman.bots`, named `b`.
macro_rules! bot_columns {
    () => {
        "b.meeting_id, b.connection_id, b.attempt, b.stage, b.was_active, b.beats, b.reserved_at, \
         b.entered_at, b.heartbeat_at, b.seen_at, b.missed, b.media_progress, b.media_at, \
         b.stop_wanted_at, b.stop_wanted_by, b.config_version, b.config_applied, b.language, \
         b.task, b.wish, b.completion_reason, b.failure_stage, b.exit_code, b.end_reason, \
         b.finished_at"
    };
}

/// Both, as [`record`] and [`meeting_row`] read them.
macro_rules! record_columns {
    () => {
        concat!(
            $crate::postgres::bots::columns::meeting_columns!(),
            ", ",
            $crate::postgres::bots::columns::bot_columns!()
        )
    };
}

pub(in crate::postgres) use bot_columns;
pub(super) use {meeting_columns, record_columns};

/// Reads a row with [`meeting_columns`].
pub(super) fn meeting(row: &Row) -> Result<Meeting, Failure> {
    let mut reader = Reader::new(row);
    let meeting = Meeting {
        id: MeetingId::new(reader.value()?),
        user_id: UserId::new(reader.value()?),
        platform: reader.value()?,
        native_id: reader.value()?,
        status: reader.value()?,
        container_id: reader.value()?,
        start_time: reader.time_opt()?,
        end_time: reader.time_opt()?,
        data: Json::from_stored(plain_json(reader.value::<Option<&str>>()?.unwrap_or("{}"))),
        // Rows that others wrote may lack both.
        created_at: reader.time_opt()?.unwrap_or(Timestamp::EPOCH),
        updated_at: Timestamp::EPOCH,
    };
    let updated_at = reader.time_opt()?.unwrap_or(meeting.created_at);
    Ok(Meeting { updated_at, ..meeting })
}

/// Reads a row with [`record_columns`].
pub(super) fn record(row: &Row) -> Result<BotRecord, Failure> {
    Ok(bot_record(meeting(row)?, bot(row, MEETING_COLUMNS)?)?)
}

/// Reads a row with [`record_columns`] whose bot may be absent.
pub(super) fn meeting_row(row: &Row) -> Result<MeetingRow, Failure> {
    let has_bot = row.try_get::<_, Option<i64>>(MEETING_COLUMNS)?.is_some();
    let bot = if has_bot { Some(bot(row, MEETING_COLUMNS)?) } else { None };
    Ok(MeetingRow { meeting: meeting(row)?, bot })
}

/// Reads [`bot_columns`], of which the first is the row's column `first`.
pub(in crate::postgres) fn bot(row: &Row, first: usize) -> Result<Bot, Failure> {
    let mut reader = Reader::from(row, first);
    let columns = BotColumns {
        meeting_id: reader.value()?,
        connection_id: reader.value()?,
        attempt: reader.value::<i32>()?.into(),
        stage: reader.value()?,
        was_active: reader.value()?,
        beats: reader.value()?,
        reserved_at: reader.time()?,
        entered_at: reader.time()?,
        heartbeat_at: reader.time_opt()?,
        seen_at: reader.time_opt()?,
        missed: reader.value::<i32>()?.into(),
        media_progress: reader.value()?,
        media_at: reader.time_opt()?,
        stop_wanted_at: reader.time_opt()?,
        stop_wanted_by: reader.value()?,
        config: ConfigColumns {
            version: reader.value::<i32>()?.into(),
            applied: reader.value::<i32>()?.into(),
            language: reader.value()?,
            task: reader.value()?,
        },
        wish: reader.value()?,
        completion_reason: reader.value()?,
        failure_stage: reader.value()?,
        exit_code: reader.value()?,
        end_reason: reader.value()?,
        finished_at: reader.time_opt()?,
    };
    Ok(columns.into_bot()?)
}

/// A bot that is new, or newly adopted. One whose connection's name is taken is left out.
const INSERT_BOT: &str = "-- insert_bot
INSERT INTO roundsman.bots
    (meeting_id, user_id, connection_id, attempt, live, stage, was_active, beats, reserved_at,
     entered_at, missed, config_version, config_applied, language, task, wish)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13, $14, $15)
ON CONFLICT DO NOTHING";

/// Whether there was no such bot yet.
pub(super) async fn insert_bot(session: &mut Session, record: &BotRecord) -> Result<bool, Failure> {
    let (meeting, bot) = (&record.meeting, &record.bot);
    let inserted = session
        .execute(
            INSERT_BOT,
            &[
                &meeting.id.get(),
                &meeting.user_id.get(),
                &bot.connection_id.as_str(),
                &count(bot.attempt),
                &!record.status.is_over(),
                &bot.stage.map(Stage::as_str),
                &bot.was_active,
                &bot.beats,
                &Time(bot.reserved_at),
                &Time(bot.entered_at),
                &count(bot.config.version),
                &count(bot.config.applied),
                &bot.config.language,
                &bot.config.task,
                &wish_to_text(&bot.wish),
            ],
        )
        .await?;
    Ok(inserted > 0)
}

/// What a change of status may change; the rest is not in the rules' hands.
const UPDATE_BOTS: &str = "-- update_bots
UPDATE roundsman.bots b
   SET live = x.live, stage = x.stage, was_active = x.was_active, beats = x.beats,
       entered_at = x.entered_at, seen_at = x.seen_at, missed = x.missed,
       completion_reason = x.completion_reason, failure_stage = x.failure_stage,
       exit_code = x.exit_code, end_reason = x.end_reason, finished_at = x.finished_at
  FROM unnest($1::bigint[], $2::boolean[], $3::text[], $4::boolean[], $5::boolean[],
              $6::timestamptz[], $7::timestamptz[], $8::integer[], $9::text[], $10::text[],
              $11::integer[], $12::text[], $13::timestamptz[])
       AS x(meeting_id, live, stage, was_active, beats, entered_at, seen_at, missed,
            completion_reason, failure_stage, exit_code, end_reason, finished_at)
 WHERE b.meeting_id = x.meeting_id";

/// Writes bots back that were locked before; their meetings stay.
pub(super) async fn update_bots(
    session: &mut Session,
    records: &[&BotRecord],
) -> Result<(), Failure> {
    let bots = || records.iter().map(|record| &record.bot);
    let ids: Vec<i64> = records.iter().map(|record| record.meeting.id.get()).collect();
    let live: Vec<bool> = records.iter().map(|record| !record.status.is_over()).collect();
    let stages: Vec<Option<&str>> = bots().map(|bot| bot.stage.map(Stage::as_str)).collect();
    let was_active: Vec<bool> = bots().map(|bot| bot.was_active).collect();
    let beats: Vec<bool> = bots().map(|bot| bot.beats).collect();
    let entered: Vec<Time> = bots().map(|bot| Time(bot.entered_at)).collect();
    let seen: Vec<Option<Time>> = bots().map(|bot| bot.seen_at.map(Time)).collect();
    let missed: Vec<i32> = bots().map(|bot| count(bot.missed)).collect();
    let reasons: Vec<Option<Cow<'_, str>>> =
        bots().map(|bot| bot.completion_reason.as_deref().map(storable_text)).collect();
    let failure_stages: Vec<Option<&str>> =
        bots().map(|bot| bot.failure_stage.as_deref()).collect();
    let exit_codes: Vec<Option<i32>> = bots().map(|bot| bot.exit_code).collect();
    let ends: Vec<Option<Cow<'_, str>>> =
        bots().map(|bot| bot.end_reason.as_deref().map(storable_text)).collect();
    let finished: Vec<Option<Time>> = bots().map(|bot| bot.finished_at.map(Time)).collect();
    session
        .execute(
            UPDATE_BOTS,
            &[
                &ids,
                &live,
                &stages,
                &was_active,
                &beats,
                &entered,
                &seen,
                &missed,
                &reasons,
                &failure_stages,
                &exit_codes,
                &ends,
                &finished,
            ],
        )
        .await?;
    Ok(())
}

const UPDATE_MEETINGS: &str = "-- update_meetings
UPDATE public.meetings m
   SET status = x.status, start_time = x.start_time AT TIME ZONE 'UTC',
       end_time = x.end_time AT TIME ZONE 'UTC', data = x.data::jsonb,
       updated_at = x.updated_at AT TIME ZONE 'UTC'
  FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[],
              $6::timestamptz[])
       AS x(id, status, start_time, end_time, data, updated_at)
 WHERE m.id = x.id";

/// Writes meetings and bots back that were locked before, in the order of their numbers.
pub(super) async fn update_records(
    session: &mut Session,
    records: &[&BotRecord],
) -> Result<(), Failure> {
    if records.is_empty() {
        return Ok(());
    }
    update_bots(session, records).await?;
    let meetings = || records.iter().map(|record| &record.meeting);
    let ids: Vec<i64> = meetings().map(|meeting| meeting.id.get()).collect();
    let statuses: Vec<&str> = meetings().map(|meeting| meeting.status.as_str()).collect();
    let starts: Vec<Option<Time>> =
        meetings().map(|meeting| meeting.start_time.map(Time)).collect();
    let ends: Vec<Option<Time>> = meetings().map(|meeting| meeting.end_time.map(Time)).collect();
    let data: Vec<Cow<'_, str>> = meetings().map(|meeting| storable_json(&meeting.data)).collect();
    let updated: Vec<Time> = meetings().map(|meeting| Time(meeting.updated_at)).collect();
    session.execute(UPDATE_MEETINGS, &[&ids, &statuses, &starts, &ends, &data, &updated]).await?;
    Ok(())
}

/// Text without NUL: bots send whatever they like, and the server stores any other character.
pub(in crate::postgres) fn storable_text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "")) } else { Cow::Borrowed(text) }
}

/// JSON that `jsonb` takes: the same, without NUL in its strings.
pub(super) fn storable_json(json: &Json) -> Cow<'_, str> {
    if !json.as_str().contains("\\u0000") {
        return Cow::Borrowed(json.as_str());
    }
    Cow::Owned(without_nul(json.to_value()).to_string())
}

fn without_nul(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace('\0', "")),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nul).collect()),
        Value::Object(members) => {
            let clean = members.into_iter().map(|(k, v)| (k.replace('\0', ""), without_nul(v)));
            Value::Object(clean.collect::<Map<_, _>>())
        }
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_that_the_server_cannot_store() {
        assert_eq!(storable_text("a\0b"), "ab");
        assert!(matches!(storable_text("ab"), Cow::Borrowed("ab")));
        let odd = Json::from_stored(r#"{"a\u0000":["\u0000x",{"b":"\\u0000"}]}"#.to_owned());
        assert_eq!(storable_json(&odd), r#"{"a":["x",{"b":"\\u0000"}]}"#);
    }
}

//! The columns of `meetings` and `bots`, in the order in which every statement names them, and how
//! they are read and written. Statements call the tables `m` and `b`.

use roundsman_core::bots::{Bot, BotRecord, Meeting, MeetingId, Stage};
use roundsman_core::jobs::Json;
use roundsman_core::ports::{MeetingRow, StoreError};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::rows::bots::{BotColumns, ConfigColumns, bot_record, wish_to_text};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

macro_rules! meeting_columns {
    () => {
        "m.id, m.user_id, m.platform, m.platform_specific_id, m.status, m.bot_container_id, \
         m.start_time, m.end_time, m.data, m.created_at, m.updated_at"
    };
}

macro_rules! bot_columns {
    () => {
        "b.meeting_id, b.connection_id, b.attempt, b.stage, b.was_active, b.beats, b.reserved_at, \
         b.entered_at, b.heartbeat_at, b.seen_at, b.missed, b.media_progress, b.media_at, \
         b.stop_wanted_at, b.stop_wanted_by, b.config_version, b.config_applied, b.language, \
         b.task, b.wish, b.completion_reason, b.failure_stage, b.exit_code, b.end_reason, \
         b.finished_at"
    };
}

/// A meeting's columns and then its bot's.
macro_rules! record_columns {
    () => {
        concat!(meeting_columns!(), ", ", bot_columns!())
    };
}

pub(in crate::sqlite) use {bot_columns, meeting_columns, record_columns};

/// How many columns `meeting_columns!` names.
const MEETING: usize = 11;

pub(super) fn read_meeting(row: &Row<'_>) -> rusqlite::Result<Meeting> {
    Ok(Meeting {
        id: MeetingId::new(row.get(0)?),
        user_id: UserId::new(row.get(1)?),
        platform: row.get(2)?,
        native_id: row.get(3)?,
        status: row.get(4)?,
        container_id: row.get(5)?,
        start_time: optional(row.get(6)?),
        end_time: optional(row.get(7)?),
        data: Json::from_stored(row.get(8)?),
        created_at: row.get(9).map(|At(at)| at)?,
        updated_at: row.get(10).map(|At(at)| at)?,
    })
}

/// Reads the columns of `bot_columns!`, which begin at `first`.
pub(in crate::sqlite) fn read_bot(row: &Row<'_>, first: usize) -> rusqlite::Result<BotColumns> {
    let instant = |index: usize| row.get(first + index).map(|At(instant)| instant);
    let maybe = |index: usize| row.get(first + index).map(optional);
    Ok(BotColumns {
        meeting_id: row.get(first)?,
        connection_id: row.get(first + 1)?,
        attempt: row.get(first + 2)?,
        stage: row.get(first + 3)?,
        was_active: row.get(first + 4)?,
        beats: row.get(first + 5)?,
        reserved_at: instant(6)?,
        entered_at: instant(7)?,
        heartbeat_at: maybe(8)?,
        seen_at: maybe(9)?,
        missed: row.get(first + 10)?,
        media_progress: row.get(first + 11)?,
        media_at: maybe(12)?,
        stop_wanted_at: maybe(13)?,
        stop_wanted_by: row.get(first + 14)?,
        config: read_config(row, first + 15)?,
        wish: row.get(first + 19)?,
        completion_reason: row.get(first + 20)?,
        failure_stage: row.get(first + 21)?,
        exit_code: row.get(first + 22)?,
        end_reason: row.get(first + 23)?,
        finished_at: maybe(24)?,
    })
}

/// Reads version, applied version, language and task, which begin at `first`.
pub(super) fn read_config(row: &Row<'_>, first: usize) -> rusqlite::Result<ConfigColumns> {
    Ok(ConfigColumns {
        version: row.get(first)?,
        applied: row.get(first + 1)?,
        language: row.get(first + 2)?,
        task: row.get(first + 3)?,
    })
}

/// Reads a meeting that has a bot.
pub(super) fn read_record(row: &Row<'_>) -> Result<BotRecord> {
    let bot = read_bot(row, MEETING)?.into_bot()?;
    Ok(bot_record(read_meeting(row)?, bot)?)
}

/// Reads a meeting that may have a bot.
pub(super) fn read_row(row: &Row<'_>) -> Result<MeetingRow> {
    let has_bot = row.get::<_, Option<i64>>(MEETING)?.is_some();
    let bot = if has_bot { Some(read_bot(row, MEETING)?.into_bot()?) } else { None };
    Ok(MeetingRow { meeting: read_meeting(row)?, bot })
}

const RECORD: &str = concat!(
    "-- record
    SELECT ",
    record_columns!(),
    " FROM bots AS b JOIN meetings AS m ON m.id = b.meeting_id WHERE b.meeting_id = ?1"
);

pub(super) fn record(conn: &Connection, id: MeetingId) -> Result<Option<BotRecord>> {
    let mut statement = conn.prepare_cached(RECORD)?;
    let mut rows = statement.query([id.get()])?;
    rows.next()?.map(read_record).transpose()
}

const INSERT_MEETING: &str = "-- insert_meeting
    INSERT INTO meetings (user_id, platform, platform_specific_id, status, bot_container_id,
        start_time, end_time, data, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    RETURNING id";

/// Writes a meeting that has no number yet, and returns the one it was given.
pub(in crate::sqlite) fn insert_meeting(conn: &Connection, meeting: &Meeting) -> Result<MeetingId> {
    let id = conn.prepare_cached(INSERT_MEETING)?.query_row(
        params![
            meeting.user_id.get(),
            meeting.platform,
            meeting.native_id,
            meeting.status,
            meeting.container_id,
            meeting.start_time.map(At),
            meeting.end_time.map(At),
            meeting.data.as_str(),
            At(meeting.created_at),
            At(meeting.updated_at),
        ],
        |row| row.get(0),
    )?;
    Ok(MeetingId::new(id))
}

const UPDATE_MEETING: &str = "-- update_meeting
    UPDATE meetings SET status = ?2, start_time = ?3, end_time = ?4, data = ?5, updated_at = ?6
     WHERE id = ?1";

/// Writes what the rules may change of a meeting.
pub(super) fn update_meeting(conn: &Connection, meeting: &Meeting) -> Result<()> {
    conn.prepare_cached(UPDATE_MEETING)?.execute(params![
        meeting.id.get(),
        meeting.status,
        meeting.start_time.map(At),
        meeting.end_time.map(At),
        meeting.data.as_str(),
        At(meeting.updated_at),
    ])?;
    Ok(())
}

/// Whatever follows the four that never change; both statements bind the same.
const PUT_BOT: &str = "-- put_bot
    INSERT INTO bots (meeting_id, user_id, connection_id, reserved_at, attempt, live, stage,
        was_active, beats, entered_at, heartbeat_at, seen_at, missed, media_progress, media_at,
        stop_wanted_at, stop_wanted_by, config_version, config_applied, language, task, wish,
        completion_reason, failure_stage, exit_code, end_reason, finished_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)
    ON CONFLICT (connection_id) DO NOTHING
    RETURNING meeting_id";

const UPDATE_BOT: &str = "-- update_bot
    UPDATE bots
       SET attempt = ?5, live = ?6, stage = ?7, was_active = ?8, beats = ?9, entered_at = ?10,
           heartbeat_at = ?11, seen_at = ?12, missed = ?13, media_progress = ?14, media_at = ?15,
           stop_wanted_at = ?16, stop_wanted_by = ?17, config_version = ?18, config_applied = ?19,
           language = ?20, task = ?21, wish = ?22, completion_reason = ?23, failure_stage = ?24,
           exit_code = ?25, end_reason = ?26, finished_at = ?27
     WHERE meeting_id = ?1 AND user_id = ?2 AND connection_id = ?3 AND reserved_at = ?4
    RETURNING meeting_id";

/// Writes the bot of a meeting that has none.
pub(super) fn insert_bot(conn: &Connection, record: &BotRecord) -> Result<()> {
    if write_bot(conn, PUT_BOT, record)? {
        Ok(())
    } else {
        Err(StoreError::Conflict { what: "a bot with this connection" }.into())
    }
}

/// Writes all that may change of a bot.
pub(super) fn update_bot(conn: &Connection, record: &BotRecord) -> Result<()> {
    write_bot(conn, UPDATE_BOT, record)?;
    Ok(())
}

fn write_bot(conn: &Connection, statement: &str, record: &BotRecord) -> Result<bool> {
    let BotRecord { meeting, bot, status } = record;
    let Bot { config, stop, .. } = bot;
    let written: Option<i64> = conn
        .prepare_cached(statement)?
        .query_row(
            params![
                meeting.id.get(),
                meeting.user_id.get(),
                bot.connection_id.as_str(),
                At(bot.reserved_at),
                bot.attempt,
                !status.is_over(),
                bot.stage.map(Stage::as_str),
                bot.was_active,
                bot.beats,
                At(bot.entered_at),
                bot.heartbeat_at.map(At),
                bot.seen_at.map(At),
                bot.missed,
                bot.media_progress,
                bot.media_at.map(At),
                stop.as_ref().map(|stop| At(stop.at)),
                stop.as_ref().map(|stop| &stop.by),
                config.version,
                config.applied,
                config.language,
                config.task,
                wish_to_text(&bot.wish),
                bot.completion_reason,
                bot.failure_stage,
                bot.exit_code,
                bot.end_reason,
                bot.finished_at.map(At),
            ],
            |row| row.get(0),
        )
        .optional()?;
    Ok(written.is_some())
}

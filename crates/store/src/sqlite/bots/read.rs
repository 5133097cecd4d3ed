//! Looks at meetings and bots.

use roundsman_core::bots::{BotRecord, BotStatus, ConnectionId, MeetingId, WorkloadId};
use roundsman_core::ports::{BotTarget, MeetingFilter, MeetingPage, MeetingRow};
use roundsman_core::users::UserId;
use rusqlite::{Connection, Params, params};

use super::columns::{bot_columns, meeting_columns, read_record, read_row, record_columns};
use crate::rows::bots::{live_statuses, status_from_text, status_words};
use crate::sqlite::error::Result;

pub(super) fn by_connection(
    conn: &Connection,
    connection: &ConnectionId,
) -> Result<Option<BotRecord>> {
    let mut statement = conn.prepare_cached(BY_CONNECTION)?;
    let mut rows = statement.query([connection.as_str()])?;
    rows.next()?.map(read_record).transpose()
}

pub(super) fn live_bots(
    conn: &Connection,
    after: Option<MeetingId>,
    rows_max: u32,
) -> Result<Vec<BotRecord>> {
    let mut statement = conn.prepare_cached(LIVE_BOTS)?;
    let mut rows = statement.query(params![after.map_or(i64::MIN, MeetingId::get), rows_max])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_record(row)?);
    }
    Ok(found)
}

pub(super) fn live_workloads(
    conn: &Connection,
    workloads: Vec<WorkloadId>,
) -> Result<Vec<WorkloadId>> {
    let mut statement = conn.prepare_cached(IS_LIVE)?;
    let mut live = Vec::new();
    for workload in workloads {
        if statement.exists(params![workload.meeting_id.get(), workload.attempt])? {
            live.push(workload);
        }
    }
    Ok(live)
}

pub(in crate::sqlite) fn meeting(
    conn: &Connection,
    user: UserId,
    target: &BotTarget,
) -> Result<Option<MeetingRow>> {
    match target {
        BotTarget::Meeting(id) => one_row(conn, MEETING_BY_NUMBER, params![user.get(), id.get()]),
        BotTarget::Address { platform, native_id } => {
            one_row(conn, LATEST_MEETING_AT, params![user.get(), platform.as_str(), native_id])
        }
    }
}

pub(super) fn meetings(
    conn: &Connection,
    user: UserId,
    filter: &MeetingFilter,
    page: MeetingPage,
) -> Result<Vec<MeetingRow>> {
    let mut statement =
        conn.prepare_cached(if filter.live { LIST_LIVE_MEETINGS } else { LIST_MEETINGS })?;
    let words = filter.status.map(status_words).unwrap_or_default();
    let mut rows = statement.query(params![
        user.get(),
        page.before.map_or(i64::MAX, MeetingId::get),
        filter.platform.map(roundsman_core::bots::Platform::as_str),
        words.first(),
        words.get(1),
        words.get(2),
        page.rows_max,
        page.skip,
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_row(row)?);
    }
    Ok(found)
}

pub(super) fn counts(conn: &Connection) -> Result<Vec<(BotStatus, u64)>> {
    let mut counts = BotStatus::ALL.map(|status| (status, 0)).to_vec();
    counts.retain(|(status, _)| !status.is_over());
    let mut statement = conn.prepare_cached(COUNT_LIVE_BY_STATUS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let status = status_from_text(&row.get::<_, String>(0)?, 0)?;
        for (_, count) in counts.iter_mut().filter(|(counted, _)| *counted == status) {
            *count += u64::from(row.get::<_, u32>(1)?);
        }
    }
    Ok(counts)
}

const BY_CONNECTION: &str = concat!(
    "-- by_connection
    SELECT ",
    record_columns!(),
    " FROM bots AS b JOIN meetings AS m ON m.id = b.meeting_id WHERE b.connection_id = ?1"
);

/// Without naming the index SQLite would walk all bots by number, those that are over too.
pub(super) const LIVE_BOTS: &str = concat!(
    "-- live_bots
    SELECT ",
    record_columns!(),
    " FROM bots AS b INDEXED BY bots_live CROSS JOIN meetings AS m ON m.id = b.meeting_id
     WHERE b.live = 1 AND b.meeting_id > ?1
     ORDER BY b.meeting_id LIMIT ?2"
);

const IS_LIVE: &str = "-- is_live
    SELECT 1 FROM bots WHERE meeting_id = ?1 AND attempt = ?2 AND live = 1";

const MEETING_BY_NUMBER: &str = concat!(
    "-- meeting_by_number
    SELECT ",
    record_columns!(),
    " FROM meetings AS m LEFT JOIN bots AS b ON b.meeting_id = m.id
     WHERE m.user_id = ?1 AND m.id = ?2"
);

/// Without naming the index SQLite would walk back through all meetings of the user.
pub(super) const LATEST_MEETING_AT: &str = concat!(
    "-- latest_meeting_at
    SELECT ",
    record_columns!(),
    " FROM meetings AS m LEFT JOIN bots AS b ON b.meeting_id = m.id
     WHERE m.id = (SELECT max(id)
                     FROM meetings INDEXED BY ix_meeting_user_platform_native_id_created_at
                    WHERE user_id = ?1 AND platform = ?2 AND platform_specific_id = ?3)"
);

pub(super) const LIST_MEETINGS: &str = concat!(
    "-- list_meetings
    SELECT ",
    record_columns!(),
    " FROM meetings AS m LEFT JOIN bots AS b ON b.meeting_id = m.id
     WHERE m.user_id = ?1 AND m.id < ?2 AND (?3 IS NULL OR m.platform = ?3)
       AND (?4 IS NULL OR m.status IN (?4, ?5, ?6))
     ORDER BY m.id DESC LIMIT ?7 OFFSET ?8"
);

/// A statement of its own, because only one that names the words can use the index of them.
pub(super) const LIST_LIVE_MEETINGS: &str = concat!(
    "-- list_live_meetings
    SELECT ",
    record_columns!(),
    " FROM meetings AS m INDEXED BY meetings_live LEFT JOIN bots AS b ON b.meeting_id = m.id
     WHERE m.user_id = ?1 AND m.id < ?2 AND (?3 IS NULL OR m.platform = ?3)
       AND (?4 IS NULL OR m.status IN (?4, ?5, ?6))
       AND m.status IN ",
    live_statuses!(),
    " ORDER BY m.id DESC LIMIT ?7 OFFSET ?8"
);

pub(super) const COUNT_LIVE_BY_STATUS: &str = concat!(
    "-- count_live_by_status
    SELECT status, count(*) FROM meetings INDEXED BY meetings_live
     WHERE status IN ",
    live_statuses!(),
    " GROUP BY status"
);

fn one_row(conn: &Connection, statement: &str, params: impl Params) -> Result<Option<MeetingRow>> {
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read_row).transpose()
}

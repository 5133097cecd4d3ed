//! Links to transcripts.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, NewShare, Share, StoreError};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sqlite::bots::read::meeting;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn share_transcript(
    conn: &Connection,
    user: UserId,
    target: &BotTarget,
    share: NewShare,
    now: Timestamp,
) -> Result<Option<Share>> {
    let Some(row) = meeting(conn, user, target)? else { return Ok(None) };
    let made = conn
        .prepare_cached(INSERT)?
        .query_row(
            params![
                user.get(),
                row.meeting.id.get(),
                share.secret_hash,
                At(now),
                At(share.expires_at),
            ],
            read,
        )
        .optional()?;
    match made {
        Some(share) => Ok(Some(share)),
        None => Err(StoreError::Conflict { what: "a link with this secret" }.into()),
    }
}

pub(super) fn share(
    conn: &Connection,
    secret_hash: [u8; 32],
    now: Timestamp,
) -> Result<Option<Share>> {
    let mut statement = conn.prepare_cached(BY_SECRET)?;
    Ok(statement.query_row(params![secret_hash, At(now)], read).optional()?)
}

pub(super) fn shares(
    conn: &Connection,
    user: UserId,
    meeting: MeetingId,
    now: Timestamp,
) -> Result<Vec<Share>> {
    let mut statement = conn.prepare_cached(OF_MEETING)?;
    let rows = statement.query_map(params![user.get(), meeting.get(), At(now)], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn end(conn: &Connection, user: UserId, share: i64) -> Result<bool> {
    Ok(conn.prepare_cached(DELETE)?.execute([share, user.get()])? > 0)
}

/// Deletes a user's links to a meeting.
pub(super) fn forget(conn: &Connection, user: UserId, meeting: MeetingId) -> Result<()> {
    conn.prepare_cached(DELETE_OF_MEETING)?.execute([user.get(), meeting.get()])?;
    Ok(())
}

macro_rules! columns {
    () => {
        "id, user_id, meeting_id, created_at, expires_at"
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<Share> {
    Ok(Share {
        id: row.get(0)?,
        user_id: UserId::new(row.get(1)?),
        meeting_id: MeetingId::new(row.get(2)?),
        created_at: row.get(3).map(|At(at)| at)?,
        expires_at: row.get(4).map(|At(at)| at)?,
    })
}

const INSERT: &str = concat!(
    "-- insert
    INSERT INTO transcript_shares (user_id, meeting_id, secret_hash, created_at, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (secret_hash) DO NOTHING
    RETURNING ",
    columns!()
);

pub(super) const BY_SECRET: &str = concat!(
    "-- by_secret
    SELECT ",
    columns!(),
    " FROM transcript_shares WHERE secret_hash = ?1 AND expires_at > ?2"
);

pub(super) const OF_MEETING: &str = concat!(
    "-- of_meeting
    SELECT ",
    columns!(),
    " FROM transcript_shares WHERE user_id = ?1 AND meeting_id = ?2 AND expires_at > ?3
     ORDER BY id DESC"
);

const DELETE: &str = "-- delete
    DELETE FROM transcript_shares WHERE id = ?1 AND user_id = ?2";

pub(super) const DELETE_OF_MEETING: &str = "-- delete_of_meeting
    DELETE FROM transcript_shares WHERE user_id = ?1 AND meeting_id = ?2";

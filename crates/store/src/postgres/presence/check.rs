//! What cannot be true of meetings in rooms.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use roundsman_core::effects::Violation;

use super::columns::{meeting, presence_columns, room_session, session_columns};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::rows::check::{ROW_CONSISTENT, violation};
use crate::rows::presence::{PRESENCE, PresenceFacts, SESSIONS, check_presence};

/// Compares every meeting with its sessions, its row in `public.meetings` and the state that its log
/// leads to.
pub(in crate::postgres) async fn check(
    session: &mut Session,
    logged: &BTreeMap<(String, i64), String>,
) -> Result<Vec<Violation>, Failure> {
    let (mut found, facts) = meetings(session).await?;
    found.extend(check_presence(&facts, logged));
    found.extend(sessions(session).await?);
    Ok(found)
}

const ALL_PRESENCE: &str = concat!(
    "-- all_presence\nSELECT ",
    presence_columns!(),
    ", p.open, m.end_time IS NOT NULL,
       (SELECT count(*) FROM roundsman.presence_sessions s
         WHERE s.meeting_id = p.meeting_id AND s.left_at IS NULL),
       m.platform = 'daily' AND coalesce(m.platform_specific_id, '') = p.room
  FROM roundsman.presence p LEFT JOIN public.meetings m ON m.id = p.meeting_id
 ORDER BY p.meeting_id"
);

/// How many columns `presence_columns!` names.
const COLUMNS: usize = 20;

/// What is to be compared of every meeting, and those that cannot be read or are elsewhere.
async fn meetings(session: &mut Session) -> Result<(Vec<Violation>, Vec<PresenceFacts>), Failure> {
    let (mut found, mut facts) = (Vec::new(), Vec::new());
    let mut rows = Box::pin(session.stream(ALL_PRESENCE).await?);
    while let Some(row) = rows.try_next().await? {
        let meeting_id: i64 = row.try_get(0)?;
        let subject = || format!("{PRESENCE} {meeting_id}");
        let status: Option<String> = row.try_get(4)?;
        if status.is_some() {
            found.extend(unreadable(meeting(&row).err(), subject));
        }
        if row.try_get::<_, Option<bool>>(COLUMNS + 3)? == Some(false) {
            found.push(violation(ROW_CONSISTENT, subject(), "its meeting is in another room"));
        }
        facts.push(PresenceFacts {
            meeting_id,
            status,
            open: row.try_get(COLUMNS)?,
            ended: row.try_get(COLUMNS + 1)?,
            end_reason: row.try_get(10)?,
            num_clients: row.try_get::<_, i32>(11)?.into(),
            counted: row.try_get(COLUMNS + 2)?,
        });
    }
    Ok((found, facts))
}

const ALL_SESSIONS: &str = concat!(
    "-- all_sessions\nSELECT ",
    session_columns!(),
    ", coalesce(s.left_at < s.joined_at, false),
       NOT EXISTS (SELECT FROM roundsman.presence p WHERE p.meeting_id = s.meeting_id)
  FROM roundsman.presence_sessions s"
);

async fn sessions(session: &mut Session) -> Result<Vec<Violation>, Failure> {
    let mut found = Vec::new();
    let mut rows = Box::pin(session.stream(ALL_SESSIONS).await?);
    while let Some(row) = rows.try_next().await? {
        let (meeting_id, session_id): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
        let subject = || format!("{SESSIONS} {meeting_id}/{session_id}");
        found.extend(unreadable(room_session(&row).err(), subject));
        for (index, explanation) in [(7, "ends before it begins"), (8, "has no meeting")] {
            if row.try_get(index)? {
                found.push(violation(ROW_CONSISTENT, subject(), explanation));
            }
        }
    }
    Ok(found)
}

fn unreadable(failure: Option<Failure>, subject: impl Fn() -> String) -> Option<Violation> {
    let reason = failure?.into_store_error().to_string();
    Some(violation(ROW_CONSISTENT, subject(), reason))
}

/// Selects (subject, explanation), as the rules of [`crate::postgres::check`] do.
pub(in crate::postgres) const ROOM_TWICE: &str = "-- room_twice
SELECT 'room ' || room, count(*) || ' meetings are open' FROM roundsman.presence
 WHERE open GROUP BY room HAVING count(*) > 1";

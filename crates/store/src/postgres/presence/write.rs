//! Writing what the rules have decided about a meeting that is locked.

use std::borrow::Cow;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::LookWritten;
use roundsman_core::presence::{ClosedBy, EndReason, LookPlan, PresenceMeeting, PresenceSession};

use crate::postgres::bots::columns::storable_text;
use crate::postgres::columns::count;
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::presence::{assert_counted, meeting_row_differs, written};

/// Writes a plan: the sessions first, because those that are open are counted.
pub(super) async fn write_plan(
    session: &mut Session,
    before: &PresenceMeeting,
    plan: LookPlan,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Box<LookWritten>, Failure> {
    put_sessions(session, plan.meeting.id, &plan.sessions).await?;
    let counted = update_presence(session, &plan.meeting).await?;
    assert_counted(&plan.meeting, counted)?;
    if meeting_row_differs(before, &plan.meeting) {
        update_meeting(session, &plan.meeting, now).await?;
    }
    let frames = write_effects(session, &[&plan.effects], catalog, now).await?;
    Ok(written(plan, frames))
}

pub(super) const PUT_SESSIONS: &str = "-- put_sessions
INSERT INTO roundsman.presence_sessions
    (meeting_id, session_id, user_id, user_name, joined_at, left_at, closed_by)
SELECT $1::bigint, x.*
  FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
              $7::text[]) AS x(session_id, user_id, user_name, joined_at, left_at, closed_by)
ON CONFLICT (meeting_id, session_id) DO UPDATE
   SET user_id = excluded.user_id, user_name = excluded.user_name,
       joined_at = excluded.joined_at, left_at = excluded.left_at,
       closed_by = excluded.closed_by";

async fn put_sessions(
    session: &mut Session,
    meeting: MeetingId,
    sessions: &[PresenceSession],
) -> Result<(), Failure> {
    if sessions.is_empty() {
        return Ok(());
    }
    let storable = |text: fn(&PresenceSession) -> Option<&String>| -> Vec<Option<Cow<'_, str>>> {
        sessions.iter().map(|one| text(one).map(|text| storable_text(text))).collect()
    };
    let ids: Vec<&str> = sessions.iter().map(|one| one.session_id.as_str()).collect();
    let users = storable(|one| one.user_id.as_ref());
    let names = storable(|one| one.user_name.as_ref());
    let joined: Vec<Time> = sessions.iter().map(|one| Time(one.joined_at)).collect();
    let closed = || sessions.iter().map(|one| one.closed);
    let left: Vec<Option<Time>> = closed().map(|end| end.map(|end| Time(end.at))).collect();
    let by: Vec<Option<&str>> =
        closed().map(|end| end.map(|end| ClosedBy::as_str(end.by))).collect();
    session
        .execute(PUT_SESSIONS, &[&meeting.get(), &ids, &users, &names, &joined, &left, &by])
        .await?;
    Ok(())
}

/// What a look that sees no change sets here is in no index.
pub(super) const UPDATE_PRESENCE: &str = "-- update_presence
UPDATE roundsman.presence
   SET open = $2, end_reason = $3, last_left_at = $4, look_no = $5, looked_at = $6, failures = $7,
       failing_since = $8, failure = $9, empty_since = $10, gone_since = $11,
       num_clients = (SELECT count(*) FROM roundsman.presence_sessions s
                       WHERE s.meeting_id = $1 AND s.left_at IS NULL)
 WHERE meeting_id = $1
RETURNING num_clients";

/// Writes what is known of a meeting, and how many of its sessions are open.
async fn update_presence(session: &mut Session, meeting: &PresenceMeeting) -> Result<i64, Failure> {
    let looks = &meeting.looks;
    let row = session
        .query_opt(
            UPDATE_PRESENCE,
            &[
                &meeting.id.get(),
                &meeting.is_active(),
                &meeting.end_reason.map(EndReason::as_str),
                &meeting.last_left_at.map(Time),
                &looks.last_no,
                &looks.looked_at.map(Time),
                &count(looks.failures),
                &looks.failing_since.map(Time),
                &looks.failure.as_deref().map(storable_text),
                &looks.empty_since.map(Time),
                &looks.gone_since.map(Time),
            ],
        )
        .await?
        .ok_or(Failure::Raced)?;
    Ok(row.try_get::<_, i32>(0)?.into())
}

const UPDATE_ROOM_MEETING: &str = "-- update_room_meeting
UPDATE public.meetings
   SET status = $2, start_time = $3::timestamptz AT TIME ZONE 'UTC',
       end_time = $4::timestamptz AT TIME ZONE 'UTC',
       updated_at = $5::timestamptz AT TIME ZONE 'UTC'
 WHERE id = $1::bigint";

async fn update_meeting(
    session: &mut Session,
    meeting: &PresenceMeeting,
    now: Timestamp,
) -> Result<(), Failure> {
    session
        .execute(
            UPDATE_ROOM_MEETING,
            &[
                &meeting.id.get(),
                &meeting.status.as_str(),
                &meeting.started_at.map(Time),
                &meeting.ended_at.map(Time),
                &Time(now),
            ],
        )
        .await?;
    Ok(())
}

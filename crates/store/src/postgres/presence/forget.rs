//! Forgetting who was in a meeting.

use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::presence::EndReason;

use super::LOCK_PRESENCE;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// From here on nobody opens the meeting again, if it is one in a room. Before the row of the
/// meeting, as by whoever changes it.
pub(in crate::postgres) async fn lock_presence(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<(), Failure> {
    session.query_opt(LOCK_PRESENCE, &[&meeting.get()]).await?;
    Ok(())
}

const PLACE: &str = "-- place
SELECT room, created_at FROM roundsman.presence WHERE meeting_id = $1";

const FORGET_PEOPLE: &str = "-- forget_people
UPDATE roundsman.presence_sessions SET user_id = NULL, user_name = NULL WHERE meeting_id = $1";

const FORGET_EXPECTED: &str = "-- forget_expected
DELETE FROM roundsman.presence_joining WHERE meeting_id = $1";

/// Also those of a later meeting in the same room: which one they were about is not known. The time is
/// spelt so that only the room leads to a row.
pub(super) const FORGET_EVENTS: &str = "-- forget_events
DELETE FROM roundsman.inbox WHERE room = $1 AND (at >= $2) IS TRUE";

/// They tell who came and went. Their numbers stay used.
const FORGET_FRAMES: &str = "-- forget_frames
DELETE FROM roundsman.frames WHERE stream = $1";

const FORGET_ROOM: &str = "-- forget_room
UPDATE roundsman.presence SET room = '', room_url = NULL, failure = NULL, end_reason = $2
 WHERE meeting_id = $1";

/// Takes away what could name a meeting that is over, or anybody who was in it; the caller holds its
/// lock. Nothing is left for which it could be opened again. Does nothing to a meeting that is in no
/// room.
pub(in crate::postgres) async fn forget_people(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<(), Failure> {
    let id = meeting.get();
    let Some(row) = session.query_opt(PLACE, &[&id]).await? else {
        return Ok(());
    };
    let (room, created_at): (&str, Time) = (row.try_get(0)?, row.try_get(1)?);
    session.execute(FORGET_PEOPLE, &[&id]).await?;
    session.execute(FORGET_EXPECTED, &[&id]).await?;
    session.execute(FORGET_EVENTS, &[&room, &created_at]).await?;
    session.execute(FORGET_FRAMES, &[&stream_of(meeting)]).await?;
    session.execute(FORGET_ROOM, &[&id, &EndReason::Deactivated.as_str()]).await?;
    Ok(())
}

//! Making a meeting.

use roundsman_core::Timestamp;
use roundsman_core::bots::{Meeting, MeetingId};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::OpenAnswer;
use roundsman_core::presence::{NewPresenceMeeting, PresenceMeeting, RoomName, opening_effects};

use crate::postgres::bots::columns::storable_text;
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::presence::{UNNUMBERED, meeting_row};

/// The user stays until the meeting is there.
const HOLD_USER: &str = "-- hold_user
SELECT FROM public.users WHERE id = $1::bigint FOR KEY SHARE";

pub(super) const OPEN_IN_ROOM: &str = "-- open_in_room
SELECT meeting_id FROM roundsman.presence WHERE room = $1 AND open";

/// The number of the meeting that is open in a room.
pub(super) async fn open_in_room(
    session: &mut Session,
    room: &RoomName,
) -> Result<Option<MeetingId>, Failure> {
    match session.query_opt(OPEN_IN_ROOM, &[&room.as_str()]).await? {
        Some(row) => Ok(Some(MeetingId::new(row.try_get(0)?))),
        None => Ok(None),
    }
}

const INSERT_ROOM_MEETING: &str = "-- insert_room_meeting
INSERT INTO public.meetings
    (user_id, platform, platform_specific_id, status, data, created_at, updated_at)
VALUES ($1::bigint, $2, $3, $4, $5::text::jsonb, $6::timestamptz AT TIME ZONE 'UTC',
        $6 AT TIME ZONE 'UTC')
RETURNING id::bigint";

/// Whoever opens a meeting in the same room at the same time waits here, and then writes nothing.
const INSERT_PRESENCE: &str = "-- insert_presence
INSERT INTO roundsman.presence
    (meeting_id, user_id, room, room_url, open, starts_at, ends_at, created_at, num_clients,
     look_no, failures)
VALUES ($1, $2, $3, $4, true, $5, $6, $7, 0, 0, 0)
ON CONFLICT (room) WHERE open DO NOTHING";

pub(super) struct OpenMeeting<'a> {
    pub(super) wish: NewPresenceMeeting,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for OpenMeeting<'_> {
    type Answer = OpenAnswer;

    async fn run(&self, session: &mut Session) -> Result<OpenAnswer, Failure> {
        session.begin();
        if session.query_opt(HOLD_USER, &[&self.wish.user_id.get()]).await?.is_none() {
            session.commit().await?;
            return Ok(OpenAnswer::NoSuchUser);
        }
        if let Some(meeting) = open_in_room(session, &self.wish.room).await? {
            session.commit().await?;
            return Ok(OpenAnswer::RoomTaken { meeting });
        }
        let meeting = self.insert(session).await?;
        let effects = opening_effects(&meeting, self.now);
        write_effects(session, &[&effects], self.catalog, self.now).await?;
        session.commit().await?;
        Ok(OpenAnswer::Opened(Box::new(meeting)))
    }
}

impl OpenMeeting<'_> {
    /// The database gives the number; everything else of the rows is known before.
    async fn insert(&self, session: &mut Session) -> Result<PresenceMeeting, Failure> {
        let mut meeting = self.wish.clone().meeting(UNNUMBERED, self.now);
        let Meeting { platform, native_id, status, data, .. } = meeting_row(&meeting);
        let (user, now) = (meeting.user_id.get(), Time(self.now));
        let row = session
            .query_opt(
                INSERT_ROOM_MEETING,
                &[&user, &platform, &native_id, &status, &data.as_str(), &now],
            )
            .await?
            .ok_or(Failure::Raced)?;
        meeting.id = MeetingId::new(row.try_get(0)?);
        let room_url = meeting.room_url.as_deref().map(storable_text);
        let schedule = meeting.schedule;
        let inserted = session
            .execute(
                INSERT_PRESENCE,
                &[
                    &meeting.id.get(),
                    &user,
                    &meeting.room.as_str(),
                    &room_url,
                    &schedule.map(|schedule| Time(schedule.starts_at)),
                    &schedule.map(|schedule| Time(schedule.ends_at)),
                    &now,
                ],
            )
            .await?;
        // Somebody was faster. The next try finds their meeting, if it is still open.
        if inserted > 0 { Ok(meeting) } else { Err(Failure::Raced) }
    }
}

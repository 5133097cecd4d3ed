//! Naming a project.

use roundsman_core::Timestamp;
use roundsman_core::ports::OpenRoomAnswer;
use roundsman_core::rooms::{ProjectId, Room};
use roundsman_core::users::UserId;

use super::read::{ROOM, room};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// The user stays until the room is there.
const HOLD_OWNER: &str = "-- hold_owner
SELECT FROM public.users WHERE id = $1::bigint FOR KEY SHARE";

/// Whoever names the same project at the same time waits here, and then writes nothing.
const INSERT_ROOM: &str = "-- insert_room
INSERT INTO roundsman.rooms (project_id, user_id, head_seq, snapshot_seq, snapshot_bytes, log_bytes,
                             created_at, updated_at)
VALUES ($1, $2, 0, 0, 0, 0, $3, $3)
ON CONFLICT (project_id) DO NOTHING";

pub(super) struct OpenRoom {
    pub(super) user: UserId,
    pub(super) project: ProjectId,
    pub(super) now: Timestamp,
}

impl Operation for OpenRoom {
    type Answer = OpenRoomAnswer;

    async fn run(&self, session: &mut Session) -> Result<OpenRoomAnswer, Failure> {
        // Nearly always it is there.
        if let Some(answer) = self.find(session).await? {
            return Ok(answer);
        }
        session.begin();
        if session.query_opt(HOLD_OWNER, &[&self.user.get()]).await?.is_none() {
            session.commit().await?;
            return Ok(OpenRoomAnswer::NoSuchUser);
        }
        let values = (self.project.as_str(), self.user.get(), Time(self.now));
        let made = session.execute(INSERT_ROOM, &[&values.0, &values.1, &values.2]).await? > 0;
        session.commit().await?;
        if made {
            let room = Room::new(self.project.clone(), self.user, self.now);
            return Ok(OpenRoomAnswer::Open { room, is_new: true });
        }
        let found = self.find(session).await?;
        // Whoever was first has taken it back.
        found.ok_or(Failure::Raced)
    }
}

impl OpenRoom {
    async fn find(&self, session: &mut Session) -> Result<Option<OpenRoomAnswer>, Failure> {
        let row = session.query_opt(ROOM, &[&self.project.as_str()]).await?;
        let found = row.as_ref().map(room).transpose()?;
        Ok(found.map(|room| {
            if room.owner == self.user {
                OpenRoomAnswer::Open { room, is_new: false }
            } else {
                OpenRoomAnswer::Foreign
            }
        }))
    }
}

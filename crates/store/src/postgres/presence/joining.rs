//! People who have said that they are on their way.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;

use crate::postgres::bots::columns::storable_text;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// The lock is the one that whoever ends the meeting waits for, and which waits for whoever has just
/// ended it: then the row is compared again, and nobody is noted.
pub(super) const NOTE_JOINING: &str = "-- note_joining
WITH held AS MATERIALIZED (
    SELECT meeting_id FROM roundsman.presence WHERE meeting_id = $1 AND open FOR SHARE
)
INSERT INTO roundsman.presence_joining (meeting_id, connection, until)
SELECT meeting_id, $2, $3 FROM held
ON CONFLICT (meeting_id, connection) DO UPDATE SET until = excluded.until";

pub(super) struct NoteJoining {
    pub(super) meeting: MeetingId,
    pub(super) connection: String,
    pub(super) until: Timestamp,
}

impl Operation for NoteJoining {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        let connection = storable_text(&self.connection);
        // Noting the same twice is noting it, so a broken connection may be repeated.
        let noted = session
            .execute(NOTE_JOINING, &[&self.meeting.get(), &connection, &Time(self.until)])
            .await?;
        Ok(noted > 0)
    }
}

const END_JOINING: &str = "-- end_joining
DELETE FROM roundsman.presence_joining WHERE meeting_id = $1 AND connection = $2";

pub(super) struct EndJoining {
    pub(super) meeting: MeetingId,
    pub(super) connection: String,
}

impl Operation for EndJoining {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        // In a transaction, so that a broken connection is not taken for somebody who was not there.
        session.begin();
        let connection = storable_text(&self.connection);
        let ended = session.execute(END_JOINING, &[&self.meeting.get(), &connection]).await? > 0;
        session.commit().await?;
        Ok(ended)
    }
}

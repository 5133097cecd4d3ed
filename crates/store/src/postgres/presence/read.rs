//! Looking at meetings in rooms and who is in them.

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{
    OpenPresence, PresenceCounts, PresenceFilter, PresencePage, Scope, SessionFilter,
};
use roundsman_core::presence::{EndReason, PresenceMeeting, PresenceSession, RoomName};
use tokio_postgres::Row;

use super::PRESENCE_OF;
use super::columns::{meeting, meeting_of, presence_columns, session_columns, sessions};
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::jobs::user_of;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::presence::end_reason_from_text;

pub(super) struct OneMeeting {
    pub(super) scope: Scope,
    pub(super) meeting: MeetingId,
}

impl Operation for OneMeeting {
    type Answer = Option<PresenceMeeting>;

    async fn run(&self, session: &mut Session) -> Result<Option<PresenceMeeting>, Failure> {
        let found = meeting_of(&session.query(PRESENCE_OF, &[&self.meeting.get()]).await?)?;
        let user = user_of(self.scope);
        Ok(found.filter(|meeting| user.is_none_or(|user| user == meeting.user_id.get())))
    }
}

/// The page is cut before the meetings are looked up, in the order of an index. Where that has
/// another column first, condition and order name it as a range: with `room = $5` the planner may
/// prefer to read everybody's rows by number.
macro_rules! list {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            presence_columns!(),
            "
  FROM (SELECT * FROM roundsman.presence p
         WHERE ",
            $which,
            "
           AND ($1::bigint IS NULL OR p.user_id = $1) AND ($4::boolean IS NULL OR p.open = $4)
           AND ($5::text IS NULL OR p.room = $5)
         ORDER BY ",
            $order,
            "
         LIMIT $3) p
  JOIN public.meetings m ON m.id = p.meeting_id
 ORDER BY p.meeting_id DESC"
        )
    };
}

pub(super) const ALL_MEETINGS: &str =
    list!("presence_of_all", "p.meeting_id < $2", "p.meeting_id DESC");

pub(super) const MEETINGS_OF_USER: &str = list!(
    "presence_of_user",
    "(p.user_id, p.meeting_id) < ($1, $2) AND p.user_id >= $1",
    "p.user_id DESC, p.meeting_id DESC"
);

pub(super) const MEETINGS_IN_ROOM: &str = list!(
    "presence_in_room",
    "(p.room, p.meeting_id) < ($5, $2) AND p.room >= $5",
    "p.room DESC, p.meeting_id DESC"
);

/// Those that are open are few, whoever's they are.
pub(super) const OPEN_MEETINGS: &str =
    list!("presence_open", "p.open AND p.meeting_id < $2", "p.meeting_id DESC");

pub(super) struct Meetings {
    pub(super) scope: Scope,
    pub(super) filter: PresenceFilter,
    pub(super) page: PresencePage,
}

impl Operation for Meetings {
    type Answer = Vec<PresenceMeeting>;

    async fn run(&self, session: &mut Session) -> Result<Vec<PresenceMeeting>, Failure> {
        let PresenceFilter { active, room } = &self.filter;
        let sql = match (room, active, self.scope) {
            (Some(_), ..) => MEETINGS_IN_ROOM,
            (None, Some(true), _) => OPEN_MEETINGS,
            (None, _, Scope::User(_)) => MEETINGS_OF_USER,
            (None, _, Scope::All) => ALL_MEETINGS,
        };
        let before = self.page.before.map_or(i64::MAX, MeetingId::get);
        let room = room.as_ref().map(RoomName::as_str);
        let rows_max = i64::from(self.page.rows_max);
        let rows =
            session.query(sql, &[&user_of(self.scope), &before, &rows_max, active, &room]).await?;
        rows.iter().map(meeting).collect()
    }
}

macro_rules! sessions_of {
    ($name:literal, $which:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            session_columns!(),
            "
  FROM roundsman.presence_sessions s
 WHERE s.meeting_id = $1
   AND (s.joined_at, s.session_id)
       > (coalesce($2::timestamptz, '-infinity'), coalesce($3::text, ''))
   AND ",
            $which,
            "
 ORDER BY s.joined_at, s.session_id
 LIMIT $4"
        )
    };
}

pub(super) const SESSIONS_OF: &str = sessions_of!("sessions_of_meeting", "true");
/// Spelt out so that the index of those who are there may serve.
pub(super) const SESSIONS_OPEN: &str = sessions_of!("sessions_open", "s.left_at IS NULL");
const SESSIONS_CLOSED: &str = sessions_of!("sessions_closed", "s.left_at IS NOT NULL");

pub(super) struct Sessions {
    pub(super) meeting: MeetingId,
    pub(super) filter: SessionFilter,
}

impl Operation for Sessions {
    type Answer = Vec<PresenceSession>;

    async fn run(&self, session: &mut Session) -> Result<Vec<PresenceSession>, Failure> {
        let SessionFilter { open, after, rows_max } = &self.filter;
        let sql = match open {
            None => SESSIONS_OF,
            Some(true) => SESSIONS_OPEN,
            Some(false) => SESSIONS_CLOSED,
        };
        let (joined_at, id) = after.as_ref().map(|(at, id)| (Time(*at), id.as_str())).unzip();
        let rows_max = i64::from(*rows_max);
        let rows = session.query(sql, &[&self.meeting.get(), &joined_at, &id, &rows_max]).await?;
        sessions(&rows)
    }
}

/// The open meeting of each room, and the latest: with how it ended, if it did.
pub(super) const MEETINGS_OF_ROOMS: &str = "-- meetings_of_rooms
SELECT (SELECT p.meeting_id FROM roundsman.presence p WHERE p.room = given.room AND p.open),
       latest.meeting_id, latest.end_reason
  FROM unnest($1::text[]) WITH ORDINALITY AS given(room, place)
  LEFT JOIN LATERAL (
    SELECT p.meeting_id, p.end_reason FROM roundsman.presence p
     WHERE p.room >= given.room AND p.room <= given.room
     ORDER BY p.room DESC, p.meeting_id DESC
     LIMIT 1) latest ON true
 ORDER BY given.place";

pub(super) struct OfRooms<'a> {
    pub(super) rooms: &'a [RoomName],
}

impl Operation for OfRooms<'_> {
    type Answer = Vec<Option<MeetingId>>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Option<MeetingId>>, Failure> {
        if self.rooms.is_empty() {
            return Ok(Vec::new());
        }
        let rooms: Vec<&str> = self.rooms.iter().map(RoomName::as_str).collect();
        let rows = session.query(MEETINGS_OF_ROOMS, &[&rooms]).await?;
        rows.iter().map(meant).collect()
    }
}

/// The meeting that events of a room are about.
fn meant(row: &Row) -> Result<Option<MeetingId>, Failure> {
    let mut reader = Reader::new(row);
    let (open, latest): (Option<i64>, Option<i64>) = (reader.value()?, reader.value()?);
    let ended = end_reason_from_text(reader.value()?, latest.unwrap_or(0))?;
    let undone = latest.filter(|_| ended.is_none_or(EndReason::may_be_undone));
    Ok(open.or(undone).map(MeetingId::new))
}

pub(super) const OPEN_PRESENCES: &str = "-- open_presences
SELECT p.meeting_id, p.room,
       ARRAY (SELECT s.session_id FROM roundsman.presence_sessions s
               WHERE s.meeting_id = p.meeting_id AND s.left_at IS NULL
               ORDER BY s.session_id)
  FROM roundsman.presence p
 WHERE p.open AND p.meeting_id > $1
 ORDER BY p.meeting_id
 LIMIT $2";

pub(super) struct OpenPresences {
    pub(super) after: Option<MeetingId>,
    pub(super) rows_max: u32,
}

impl Operation for OpenPresences {
    type Answer = Vec<OpenPresence>;

    async fn run(&self, session: &mut Session) -> Result<Vec<OpenPresence>, Failure> {
        let after = self.after.map_or(i64::MIN, MeetingId::get);
        let rows = session.query(OPEN_PRESENCES, &[&after, &i64::from(self.rows_max)]).await?;
        let open = |row: &Row| {
            let mut reader = Reader::new(row);
            Ok(OpenPresence {
                meeting_id: MeetingId::new(reader.value()?),
                room: RoomName::from_stored(reader.value()?),
                open: reader.value()?,
            })
        };
        rows.iter().map(open).collect()
    }
}

pub(super) const EMPTY_PRESENCES: &str = "-- empty_presences
SELECT meeting_id FROM roundsman.presence
 WHERE open AND num_clients = 0 AND meeting_id > $1
 ORDER BY meeting_id
 LIMIT $2";

pub(super) struct EmptyPresences {
    pub(super) after: Option<MeetingId>,
    pub(super) rows_max: u32,
}

impl Operation for EmptyPresences {
    type Answer = Vec<MeetingId>;

    async fn run(&self, session: &mut Session) -> Result<Vec<MeetingId>, Failure> {
        let after = self.after.map_or(i64::MIN, MeetingId::get);
        let rows = session.query(EMPTY_PRESENCES, &[&after, &i64::from(self.rows_max)]).await?;
        rows.iter().map(|row| Ok(MeetingId::new(row.try_get(0)?))).collect()
    }
}

pub(super) const COUNTS: &str = "-- presence_counts
SELECT count(*), coalesce(sum(num_clients), 0)::bigint,
       count(*) FILTER (WHERE failing_since IS NOT NULL)
  FROM roundsman.presence WHERE open";

pub(super) struct Counts;

impl Operation for Counts {
    type Answer = PresenceCounts;

    async fn run(&self, session: &mut Session) -> Result<PresenceCounts, Failure> {
        let row = session.query_opt(COUNTS, &[]).await?.ok_or(Failure::Raced)?;
        let mut reader = Reader::new(&row);
        let mut next =
            || -> Result<u64, Failure> { Ok(u64::try_from(reader.value::<i64>()?).unwrap_or(0)) };
        Ok(PresenceCounts { open: next()?, clients: next()?, failing: next()? })
    }
}

//! Looking at recordings.

use std::collections::HashSet;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{RecordingFilter, Scope};
use roundsman_core::recordings::{Recording, RecordingId, RecordingStatus};
use roundsman_core::users::UserId;

use super::columns::{RECORDING_OF, recording_columns, recording_of, recordings};
use crate::postgres::error::Failure;
use crate::postgres::jobs::user_of;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::inconsistent;
use crate::rows::recordings::{RECORDINGS, id_from_text};

pub(super) const KNOWN: &str = "-- known_recordings
SELECT recording_id FROM roundsman.recordings WHERE recording_id = ANY ($1::text[])";

pub(super) struct Known<'a> {
    pub(super) ids: &'a [RecordingId],
}

impl Operation for Known<'_> {
    type Answer = Vec<bool>;

    async fn run(&self, session: &mut Session) -> Result<Vec<bool>, Failure> {
        if self.ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<&str> = self.ids.iter().map(RecordingId::as_str).collect();
        let rows = session.query(KNOWN, &[&ids]).await?;
        let mut known: HashSet<&str> = HashSet::with_capacity(rows.len());
        for row in &rows {
            known.insert(row.try_get(0)?);
        }
        Ok(ids.into_iter().map(|id| known.contains(id)).collect())
    }
}

pub(super) struct OneRecording {
    pub(super) scope: Scope,
    pub(super) id: RecordingId,
}

impl Operation for OneRecording {
    type Answer = Option<Recording>;

    async fn run(&self, session: &mut Session) -> Result<Option<Recording>, Failure> {
        let found = recording_of(&session.query(RECORDING_OF, &[&self.id.as_str()]).await?)?;
        let user = user_of(self.scope);
        let is_theirs =
            |known: &Recording| user.is_none() || known.user_id.map(UserId::get) == user;
        Ok(found.filter(is_theirs))
    }
}

/// As in the list of meetings: the first column of the index is named as a range.
macro_rules! list {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            recording_columns!(),
            "
  FROM roundsman.recordings r
 WHERE ",
            $which,
            "
   AND ($1::bigint IS NULL OR r.user_id = $1) AND ($4::bigint IS NULL OR r.meeting_id = $4)
   AND ($5::text IS NULL OR r.status = $5)
 ORDER BY ",
            $order,
            "
 LIMIT $3"
        )
    };
}

pub(super) const ALL_RECORDINGS: &str = list!("recordings_of_all", "r.no < $2", "r.no DESC");

pub(super) const RECORDINGS_OF_MEETING: &str = list!(
    "recordings_of_meeting",
    "(r.meeting_id, r.no) < ($4, $2) AND r.meeting_id >= $4",
    "r.meeting_id DESC, r.no DESC"
);

pub(super) const RECORDINGS_OF_USER: &str = list!(
    "recordings_of_user",
    "(r.user_id, r.no) < ($1, $2) AND r.user_id >= $1",
    "r.user_id DESC, r.no DESC"
);

pub(super) const RECORDINGS_UNFINISHED: &str = list!(
    "recordings_unfinished",
    "(r.status, r.no) < ($5, $2) AND r.status >= $5 AND r.status <> 'completed'",
    "r.status DESC, r.no DESC"
);

pub(super) struct Recordings {
    pub(super) scope: Scope,
    pub(super) filter: RecordingFilter,
    pub(super) before: Option<i64>,
    pub(super) rows_max: u32,
}

impl Operation for Recordings {
    type Answer = Vec<Recording>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Recording>, Failure> {
        let RecordingFilter { meeting, status } = self.filter;
        // Most are completed.
        let unfinished = status.filter(|status| *status != RecordingStatus::Completed);
        let sql = match (meeting, self.scope, unfinished) {
            (Some(_), ..) => RECORDINGS_OF_MEETING,
            (None, Scope::User(_), _) => RECORDINGS_OF_USER,
            (None, Scope::All, Some(_)) => RECORDINGS_UNFINISHED,
            (None, Scope::All, None) => ALL_RECORDINGS,
        };
        let before = self.before.unwrap_or(i64::MAX);
        let (meeting, status) = (meeting.map(MeetingId::get), status.map(RecordingStatus::as_str));
        let rows_max = i64::from(self.rows_max);
        let rows = session
            .query(sql, &[&user_of(self.scope), &before, &rows_max, &meeting, &status])
            .await?;
        recordings(&rows)
    }
}

const CURSOR: &str = "-- cursor
SELECT recording_id FROM roundsman.recording_cursor WHERE one";

pub(super) struct Cursor;

impl Operation for Cursor {
    type Answer = Option<RecordingId>;

    async fn run(&self, session: &mut Session) -> Result<Option<RecordingId>, Failure> {
        let Some(row) = session.query_opt(CURSOR, &[]).await? else {
            return Ok(None);
        };
        Ok(Some(id_from_text(row.try_get(0)?, 0)?))
    }
}

const SET_CURSOR: &str = "-- set_cursor
INSERT INTO roundsman.recording_cursor (recording_id, read_at) VALUES ($1, $2)
ON CONFLICT (one) DO UPDATE SET recording_id = excluded.recording_id, read_at = excluded.read_at";

pub(super) struct SetCursor {
    pub(super) id: RecordingId,
    pub(super) now: Timestamp,
}

impl Operation for SetCursor {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        // Noting the same twice is noting it, so a broken connection may be repeated.
        session.execute(SET_CURSOR, &[&self.id.as_str(), &Time(self.now)]).await?;
        Ok(())
    }
}

/// Nobody asks how many are completed.
pub(super) const COUNTS: &str = "-- recording_counts
SELECT r.status, count(*)
  FROM (SELECT status FROM roundsman.recordings WHERE status <> 'completed'
         ORDER BY status, no OFFSET 0) r
 GROUP BY r.status";

pub(super) struct Counts;

impl Operation for Counts {
    type Answer = Vec<(RecordingStatus, u64)>;

    async fn run(&self, session: &mut Session) -> Result<Vec<(RecordingStatus, u64)>, Failure> {
        let mut counts = Vec::new();
        for row in session.query(COUNTS, &[]).await? {
            let (word, count): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
            let status = RecordingStatus::parse(word)
                .ok_or_else(|| inconsistent(RECORDINGS, "status", 0, format!("{word:?}")))?;
            counts.push((status, u64::try_from(count).unwrap_or(0)));
        }
        Ok(counts)
    }
}

//! The stream of one meeting while several frames are added to it: its end is read once and written
//! once.

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::{Frame, NewFrame};
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

/// Nobody else may add frames until it is closed.
pub(super) struct Stream {
    name: String,
    last_seq: i64,
    /// When the last frame was stored, if it is still there.
    last_at: Option<Timestamp>,
    is_longer: bool,
}

impl Stream {
    pub(super) fn open(conn: &Connection, meeting: MeetingId) -> Result<Self> {
        let name = stream_of(meeting);
        let mut statement = conn.prepare_cached(END)?;
        let end = statement.query_row([&name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let (last_seq, last_at) = end.unwrap_or((0, None));
        Ok(Stream { name, last_seq, last_at: optional(last_at), is_longer: false })
    }

    /// Stores a frame, never with an earlier time than the one before it: frames are pruned by their
    /// time, and pruning must take them in the order of their numbers.
    pub(super) fn append(
        &mut self,
        conn: &Connection,
        frame: NewFrame,
        now: Timestamp,
    ) -> Result<Frame> {
        let seq = self.last_seq + 1;
        let at = self.last_at.map_or(now, |last| last.max(now));
        let mut insert = conn.prepare_cached(INSERT)?;
        insert.execute(params![self.name, seq, frame.body.as_str(), At(at)])?;
        (self.last_seq, self.last_at, self.is_longer) = (seq, Some(at), true);
        Ok(Frame { stream: frame.stream, seq, body: frame.body, at: now })
    }

    /// Writes how long the stream is now.
    pub(super) fn close(self, conn: &Connection) -> Result<()> {
        if self.is_longer {
            conn.prepare_cached(PUT_END)?.execute(params![self.name, self.last_seq])?;
        }
        Ok(())
    }
}

pub(super) const END: &str = "-- end
    SELECT s.last_seq, (SELECT f.at FROM frames AS f
                         WHERE f.stream = s.stream AND f.seq = s.last_seq)
      FROM frame_streams AS s WHERE s.stream = ?1";

const INSERT: &str = "-- insert_next
    INSERT INTO frames (stream, seq, body, at) VALUES (?1, ?2, ?3, ?4)";

const PUT_END: &str = "-- put_end_of_stream
    INSERT INTO frame_streams (stream, last_seq) VALUES (?1, ?2)
    ON CONFLICT (stream) DO UPDATE SET last_seq = excluded.last_seq";

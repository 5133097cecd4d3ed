//! Frames of meetings: where streams end, and which were handed to the bus.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::Frame;
use roundsman_core::jobs::Json;
use roundsman_core::transcripts::SeqRange;
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::transcripts::{by_stream, last_said, published};

pub(super) const STREAM_ENDS: &str = "-- stream_ends
SELECT stream, last_seq FROM roundsman.frame_streams WHERE stream = ANY ($1::text[])";

/// The last places of these streams, by their names; those without one are absent.
async fn stream_ends(
    session: &mut Session,
    streams: &[String],
) -> Result<BTreeMap<String, i64>, Failure> {
    let mut ends = BTreeMap::new();
    for row in session.query(STREAM_ENDS, &[&streams]).await? {
        ends.insert(row.try_get(0)?, row.try_get(1)?);
    }
    Ok(ends)
}

/// The last place of a meeting's stream.
pub(super) async fn stream_end(session: &mut Session, meeting: MeetingId) -> Result<i64, Failure> {
    let stream = stream_of(meeting);
    let ends = stream_ends(session, std::slice::from_ref(&stream)).await?;
    Ok(ends.get(&stream).copied().unwrap_or(0))
}

pub(super) struct StreamEnds<'a> {
    pub(super) meetings: &'a [MeetingId],
}

impl Operation for StreamEnds<'_> {
    type Answer = Vec<i64>;

    async fn run(&self, session: &mut Session) -> Result<Vec<i64>, Failure> {
        if self.meetings.is_empty() {
            return Ok(Vec::new());
        }
        let streams: Vec<String> = self.meetings.iter().copied().map(stream_of).collect();
        let ends = stream_ends(session, &streams).await?;
        Ok(streams.iter().map(|stream| ends.get(stream).copied().unwrap_or(0)).collect())
    }
}

/// Streams are locked in the order given, which is that of their names, as by whoever writes frames.
/// A lateral look with a lock in it cannot be turned into a join that begins with all streams.
pub(super) const PUBLISHED: &str = "-- published
SELECT s.stream, s.published_seq, s.published_ahead
  FROM unnest($1::text[], $2::bigint[]) AS x(stream, last)
 CROSS JOIN LATERAL (
    SELECT stream, published_seq, published_ahead FROM roundsman.frame_streams
     WHERE stream = x.stream AND published_seq < x.last
       FOR NO KEY UPDATE) s";

/// The rows are there and locked. An update would be a join, which on a small table begins with all
/// streams; this way leads to each by its name.
pub(super) const NOTE_PUBLISHED: &str = "-- note_published
INSERT INTO roundsman.frame_streams (stream, last_seq, published_seq, published_ahead)
SELECT x.stream, 0, x.up_to, x.ahead
  FROM unnest($1::text[], $2::bigint[], $3::text[]) AS x(stream, up_to, ahead)
ON CONFLICT (stream) DO UPDATE
   SET published_seq = excluded.published_seq, published_ahead = excluded.published_ahead";

pub(super) struct NotePublished<'a> {
    pub(super) ranges: &'a [(MeetingId, SeqRange)],
}

impl Operation for NotePublished<'_> {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        let by_stream = by_stream(self.ranges);
        if by_stream.is_empty() {
            return Ok(());
        }
        let (streams, lasts): (Vec<&str>, Vec<i64>) = by_stream
            .iter()
            .filter_map(|(stream, ranges)| {
                Some((stream.as_str(), ranges.iter().map(|range| range.last).max()?))
            })
            .unzip();
        session.begin();
        let rows = session.query(PUBLISHED, &[&streams, &lasts]).await?;
        let (mut streams, mut up_to, mut ahead) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let stream: &str = row.try_get(0)?;
            let before = published(stream, row.try_get(1)?, row.try_get(2)?)?;
            let mut after = before.clone();
            for range in by_stream.get(stream).into_iter().flatten() {
                after.note(*range);
            }
            if after != before {
                streams.push(stream);
                up_to.push(after.up_to());
                ahead.push(after.ahead_text());
            }
        }
        if !streams.is_empty() {
            session.execute(NOTE_PUBLISHED, &[&streams, &up_to, &ahead]).await?;
        }
        session.commit().await
    }
}

/// By the time, because an index of the streams that are behind would be touched by every frame.
/// Streams of meetings have names from `meeting:` to `meeting;`, the next character. What was handed
/// on ahead is looked at only for frames of streams that are behind.
pub(super) const UNPUBLISHED: &str = "-- unpublished
SELECT f.stream, f.seq, f.body, f.at
  FROM (SELECT * FROM roundsman.frames WHERE at BETWEEN $1 AND $2 OFFSET 0) f
  JOIN roundsman.frame_streams s ON s.stream = f.stream
 WHERE f.seq > s.published_seq AND f.stream > 'meeting:' AND f.stream < 'meeting;'
   AND NOT EXISTS (
        SELECT FROM unnest(string_to_array(s.published_ahead, ',')) AS ahead(range)
         WHERE f.seq BETWEEN split_part(ahead.range, '-', 1)::bigint
                         AND split_part(ahead.range, '-', 2)::bigint)
 ORDER BY f.stream, f.seq
 LIMIT $3";

pub(super) struct Unpublished {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) rows_max: u32,
}

impl Operation for Unpublished {
    type Answer = Vec<Frame>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Frame>, Failure> {
        let rows_max = i64::from(self.rows_max);
        let values: [&(dyn postgres_types::ToSql + Sync); 3] =
            [&Time(self.from), &Time(self.until), &rows_max];
        let rows = session.query(UNPUBLISHED, &values).await?;
        rows.iter().map(frame).collect()
    }
}

/// Enough that most meetings need one look: few frames tell of anything but what is said.
const NEWEST_MAX: i64 = 64;

pub(super) const NEWEST: &str = "-- newest
SELECT stream, seq, body, at FROM roundsman.frames
 WHERE stream = $1 AND seq < $2
 ORDER BY seq DESC
 LIMIT $3";

const DELETE_UP_TO: &str = "-- delete_up_to
DELETE FROM roundsman.frames WHERE stream = $1 AND seq <= $2";

/// Deletes the frames that tell of what was said in a meeting. Their numbers stay used.
pub(super) async fn forget_frames(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<(), Failure> {
    let stream = stream_of(meeting);
    let mut before = i64::MAX;
    loop {
        let rows = session.query(NEWEST, &[&stream, &before, &NEWEST_MAX]).await?;
        let frames: Vec<Frame> = rows.iter().map(frame).collect::<Result<_, _>>()?;
        let Some(oldest) = frames.last().map(|frame| frame.seq) else {
            return Ok(());
        };
        if let Some(last) = last_said(frames) {
            session.execute(DELETE_UP_TO, &[&stream, &last]).await?;
            return Ok(());
        }
        before = oldest;
    }
}

fn frame(row: &Row) -> Result<Frame, Failure> {
    let mut reader = Reader::new(row);
    Ok(Frame {
        stream: reader.value()?,
        seq: reader.value()?,
        body: Json::from_stored(reader.value()?),
        at: reader.time()?,
    })
}

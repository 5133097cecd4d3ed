//! Looking at what was said.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, LiveMeeting, Transcript};
use roundsman_core::transcripts::Line;
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::columns::{final_columns, finished, live, live_columns};
use super::frames::stream_end;
use super::sessions::starts_of;
use crate::postgres::bots::find_target;
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::transcripts::SessionStarts;

pub(super) const LIVE_MEETINGS: &str = "-- live_meetings
SELECT a.meeting_id, l.segments, l.unchanged_since
  FROM roundsman.active_transcripts a
 CROSS JOIN LATERAL (
    SELECT count(*) AS segments, min(updated_at) AS unchanged_since
      FROM roundsman.live_segments WHERE meeting_id = a.meeting_id AND NOT dropped) l
 WHERE a.meeting_id > $1
 ORDER BY a.meeting_id
 LIMIT $2";

pub(super) struct LiveMeetings {
    pub(super) after: Option<MeetingId>,
    pub(super) rows_max: u32,
}

impl Operation for LiveMeetings {
    type Answer = Vec<LiveMeeting>;

    async fn run(&self, session: &mut Session) -> Result<Vec<LiveMeeting>, Failure> {
        let after = self.after.map_or(i64::MIN, MeetingId::get);
        let rows = session.query(LIVE_MEETINGS, &[&after, &i64::from(self.rows_max)]).await?;
        let meeting = |row: &Row| {
            let mut reader = Reader::new(row);
            Ok(LiveMeeting {
                meeting_id: MeetingId::new(reader.value()?),
                segments: u64::try_from(reader.value::<i64>()?).unwrap_or(0),
                unchanged_since: reader.time_opt()?.unwrap_or(Timestamp::EPOCH),
            })
        };
        rows.iter().map(meeting).collect()
    }
}

/// Those told of after a place, dropped or not; without a place all that are not dropped.
pub(super) const LIVE_OF_MEETING: &str = concat!(
    "-- live_of_meeting\nSELECT ",
    live_columns!(),
    "
  FROM roundsman.live_segments l
 WHERE l.meeting_id = $1
   AND CASE WHEN $2::bigint IS NULL THEN NOT l.dropped ELSE l.seq > $2 END
 ORDER BY l.session_uid, l.field"
);

/// Live segments of a meeting, by whether they were dropped.
pub(super) struct LiveSince {
    pub(super) lines: Vec<Line>,
    /// Only if a place was asked for.
    pub(super) retracted: Vec<Line>,
}

/// In the order of their keys.
pub(super) async fn live_since(
    session: &mut Session,
    meeting: MeetingId,
    starts: &SessionStarts,
    since: Option<i64>,
) -> Result<LiveSince, Failure> {
    let (mut lines, mut retracted) = (Vec::new(), Vec::new());
    for row in session.query(LIVE_OF_MEETING, &[&meeting.get(), &since]).await? {
        let row = live(&row)?;
        let line = starts.live_line(row.segment);
        if row.dropped { &mut retracted } else { &mut lines }.push(line);
    }
    Ok(LiveSince { lines, retracted })
}

pub(super) const FINAL_OF_MEETING: &str = concat!(
    "-- final_of_meeting\nSELECT ",
    final_columns!(),
    "
  FROM public.transcriptions t
  LEFT JOIN roundsman.kept_segments k ON k.transcription_id = t.id
 WHERE t.meeting_id = $1::bigint
 ORDER BY t.start_time, t.id"
);

/// For what happens seldom, and must happen in the same order in both databases.
const FINAL_BY_NUMBER: &str = concat!(
    "-- final_by_number\nSELECT ",
    final_columns!(),
    "
  FROM public.transcriptions t
  LEFT JOIN roundsman.kept_segments k ON k.transcription_id = t.id
 WHERE t.meeting_id = $1::bigint
 ORDER BY t.id"
);

/// All final lines of a meeting, by their numbers.
pub(super) async fn finals(
    session: &mut Session,
    meeting: MeetingId,
    starts: &SessionStarts,
) -> Result<Vec<Line>, Failure> {
    let rows = session.query(FINAL_BY_NUMBER, &[&meeting.get()]).await?;
    rows.iter().map(|row| Ok(starts.kept_line(finished(row)?.segment))).collect()
}

/// Rows of others have no place, and are as they were.
pub(super) const KEPT_SINCE: &str = concat!(
    "-- kept_since\nSELECT ",
    final_columns!(),
    "
  FROM roundsman.kept_segments k
 CROSS JOIN LATERAL (
    SELECT * FROM public.transcriptions WHERE id = k.transcription_id OFFSET 0) t
 WHERE k.meeting_id = $1 AND k.seq > $2
 ORDER BY k.seq"
);

/// All final lines of a meeting, or those told of after a place.
pub(super) async fn final_since(
    session: &mut Session,
    meeting: MeetingId,
    starts: &SessionStarts,
    since: Option<i64>,
) -> Result<Vec<Line>, Failure> {
    let rows = match since {
        Some(since) => session.query(KEPT_SINCE, &[&meeting.get(), &since]).await?,
        None => session.query(FINAL_OF_MEETING, &[&meeting.get()]).await?,
    };
    rows.iter().map(|row| Ok(starts.kept_line(finished(row)?.segment))).collect()
}

pub(super) struct LiveLines {
    pub(super) meeting: MeetingId,
}

impl Operation for LiveLines {
    type Answer = Vec<Line>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Line>, Failure> {
        session.begin_snapshot();
        let starts = starts_of(session, self.meeting).await?;
        let live = live_since(session, self.meeting, &starts, None).await?;
        session.commit().await?;
        Ok(live.lines)
    }
}

pub(super) struct WholeTranscript {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) since: Option<i64>,
}

impl Operation for WholeTranscript {
    type Answer = Option<Transcript>;

    async fn run(&self, session: &mut Session) -> Result<Option<Transcript>, Failure> {
        session.begin_snapshot();
        let transcript = self.read(session).await?;
        session.commit().await?;
        Ok(transcript)
    }
}

impl WholeTranscript {
    async fn read(&self, session: &mut Session) -> Result<Option<Transcript>, Failure> {
        let Some(row) = find_target(session, self.user, &self.target).await? else {
            return Ok(None);
        };
        let id = row.meeting.id;
        let seq = stream_end(session, id).await?;
        let starts = starts_of(session, id).await?;
        let LiveSince { mut lines, retracted } =
            live_since(session, id, &starts, self.since).await?;
        lines.extend(final_since(session, id, &starts, self.since).await?);
        Ok(Some(Transcript { row, seq, lines, retracted }))
    }
}

const LIVE_COUNT: &str = "-- live_count
SELECT count(*) FROM roundsman.live_segments WHERE NOT dropped";

pub(super) struct LiveCount;

impl Operation for LiveCount {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        let row = session.query_opt(LIVE_COUNT, &[]).await?.ok_or(Failure::Raced)?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0))
    }
}

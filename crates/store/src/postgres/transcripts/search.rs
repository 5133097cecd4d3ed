//! Finding what was said, by its words.
//!
//! Final segments have their words in `transcript_words`; live ones are few and are looked at one by
//! one.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{SearchHit, SearchPage};
use roundsman_core::transcripts::{SearchQuery, Segment, matches};
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::columns::{FINAL_COLUMNS, LIVE_COLUMNS, final_columns, finished, live, live_columns};
use super::sessions::{STARTS, starts};
use super::write::{owner_word, put_words};
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::transcripts::SessionStarts;

/// The index of words can only be read as a bitmap, which other statements are kept from. `LOCAL`
/// ends with the transaction, but the plan that was made under it stays.
pub(in crate::postgres) const SETTINGS: &str = "SET LOCAL enable_bitmapscan = on";

/// From the meetings with live segments, which are fewer than all of a user.
pub(super) const LIVE_OF_USER_SAID: &str = concat!(
    "-- live_of_user_said\nSELECT ",
    live_columns!(),
    ", m.platform::text, m.platform_specific_id::text
  FROM roundsman.active_transcripts a
 CROSS JOIN LATERAL (
    SELECT platform, platform_specific_id FROM public.meetings
     WHERE id = a.meeting_id AND user_id = $1::bigint
    OFFSET 0) m
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.live_segments WHERE meeting_id = a.meeting_id AND NOT dropped
    OFFSET 0) l
 ORDER BY l.meeting_id DESC, l.session_uid DESC, l.start_ms DESC, l.field DESC"
);

/// The index of words has a user's texts together, so what is found is cut before anything else is
/// looked up. `+ 0` keeps the planner from reading everybody's rows by their numbers instead. That
/// the meeting is the user's is looked at once more, because the words are only a copy.
pub(in crate::postgres) const FINAL_WITH_WORDS: &str = concat!(
    "-- final_with_words
WITH found AS MATERIALIZED (
    SELECT transcription_id FROM roundsman.transcript_words
     WHERE words @@ $2::text::tsquery AND transcription_id + 0 < $3
     ORDER BY transcription_id + 0 DESC
     LIMIT $4
)
SELECT ",
    final_columns!(),
    ", m.platform::text, m.platform_specific_id::text
  FROM found
  JOIN public.transcriptions t ON t.id = found.transcription_id
  JOIN public.meetings m ON m.id = t.meeting_id AND m.user_id = $1::bigint
  LEFT JOIN roundsman.kept_segments k ON k.transcription_id = t.id
 ORDER BY t.id DESC"
);

pub(super) struct Search {
    pub(super) user: UserId,
    pub(super) query: SearchQuery,
    pub(super) page: SearchPage,
}

/// A segment that was found.
struct Found {
    id: Option<i64>,
    meeting: MeetingId,
    segment: Segment,
    platform: String,
    native_id: Option<String>,
}

impl Operation for Search {
    type Answer = Vec<SearchHit>;

    async fn run(&self, session: &mut Session) -> Result<Vec<SearchHit>, Failure> {
        // One moment for all: a segment that becomes final meanwhile is found once.
        session.begin_snapshot();
        session.batch(SETTINGS).await?;
        let mut found = Vec::new();
        if self.page.before.is_none() {
            found = self.live(session).await?;
        }
        let left = i64::from(self.page.rows_max) - i64::try_from(found.len()).unwrap_or(i64::MAX);
        if left > 0 {
            found.extend(self.kept(session, left).await?);
        }
        let hits = hits(session, found).await?;
        session.commit().await?;
        Ok(hits)
    }
}

impl Search {
    async fn live(&self, session: &mut Session) -> Result<Vec<Found>, Failure> {
        let rows_max = usize::try_from(self.page.rows_max).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        for row in session.query(LIVE_OF_USER_SAID, &[&self.user.get()]).await? {
            if found.len() == rows_max {
                break;
            }
            let said = live(&row)?;
            if matches(&said.segment.content.text, &self.query) {
                found.push(found_in(&row, LIVE_COLUMNS, None, said.meeting, said.segment)?);
            }
        }
        Ok(found)
    }

    async fn kept(&self, session: &mut Session, rows_max: i64) -> Result<Vec<Found>, Failure> {
        let words = format!("{} & {}", owner_word(self.user), self.query.to_tsquery());
        let before = self.page.before.unwrap_or(i64::MAX);
        let values: [&(dyn postgres_types::ToSql + Sync); 4] =
            [&self.user.get(), &words, &before, &rows_max];
        let rows = session.query(FINAL_WITH_WORDS, &values).await?;
        let found = |row: &Row| {
            let said = finished(row)?;
            found_in(row, FINAL_COLUMNS, Some(said.id), said.meeting, said.segment)
        };
        rows.iter().map(found).collect()
    }
}

/// `first` is the column after those of the segment.
fn found_in(
    row: &Row,
    first: usize,
    id: Option<i64>,
    meeting: MeetingId,
    segment: Segment,
) -> Result<Found, Failure> {
    let mut reader = Reader::from(row, first);
    let (platform, native_id) = (reader.value()?, reader.value()?);
    Ok(Found { id, meeting, segment, platform, native_id })
}

/// Adds when the sessions started.
async fn hits(session: &mut Session, found: Vec<Found>) -> Result<Vec<SearchHit>, Failure> {
    let meetings: BTreeSet<i64> = found.iter().map(|found| found.meeting.get()).collect();
    let meetings: Vec<i64> = meetings.into_iter().collect();
    let mut by_meeting: BTreeMap<MeetingId, SessionStarts> = BTreeMap::new();
    if !meetings.is_empty() {
        by_meeting = starts(&session.query(STARTS, &[&meetings]).await?)?;
    }
    let unknown = SessionStarts::default();
    let hit = |found: Found| {
        let starts = by_meeting.get(&found.meeting).unwrap_or(&unknown);
        let line = match found.id {
            Some(_) => starts.kept_line(found.segment),
            None => starts.live_line(found.segment),
        };
        SearchHit {
            id: found.id,
            meeting_id: found.meeting,
            platform: found.platform,
            native_id: found.native_id,
            line,
        }
    };
    Ok(found.into_iter().map(hit).collect())
}

/// Numbers are drawn before they are committed, so a row with a lower one may appear after we have
/// looked at a higher one. So many numbers are looked at again each time.
const NUMBERS_AGAIN: i64 = 1000;

/// One node at a time.
const LOCK_INDEX: &str = "-- lock_index
SELECT upto FROM roundsman.transcript_index FOR UPDATE";

/// Rows that nobody has looked at, with their text if they have no words yet: those that we wrote
/// have them from the beginning. The lock keeps a row from being deleted before its words are there
/// to be deleted with it; a row that is being deleted is left out, so that nobody waits for whom waits
/// for us.
pub(super) const UNINDEXED: &str = "-- unindexed
SELECT t.id::bigint, CASE WHEN w.transcription_id IS NULL THEN t.text::text END,
       m.user_id::bigint
  FROM public.transcriptions t
  JOIN public.meetings m ON m.id = t.meeting_id
  LEFT JOIN roundsman.transcript_words w ON w.transcription_id = t.id
 WHERE t.id > $1::bigint - $2::bigint AND (t.id > $1 OR w.transcription_id IS NULL)
 ORDER BY t.id
 LIMIT $3
   FOR KEY SHARE OF t SKIP LOCKED";

const INDEXED: &str = "-- indexed
UPDATE roundsman.transcript_index SET upto = greatest(upto, $1)";

pub(super) struct Index {
    pub(super) rows_max: u32,
}

impl Operation for Index {
    type Answer = u32;

    async fn run(&self, session: &mut Session) -> Result<u32, Failure> {
        session.begin();
        let row = session.query_opt(LOCK_INDEX, &[]).await?.ok_or(Failure::Raced)?;
        let upto: i64 = row.try_get(0)?;
        let values: [&(dyn postgres_types::ToSql + Sync); 3] =
            [&upto, &NUMBERS_AGAIN, &i64::from(self.rows_max)];
        let rows = session.query(UNINDEXED, &values).await?;
        let mut last = upto;
        let mut texts: Vec<(i64, UserId, &str)> = Vec::new();
        for row in &rows {
            let mut reader = Reader::new(row);
            let id = reader.value()?;
            last = last.max(id);
            if let Some(text) = reader.value::<Option<&str>>()? {
                texts.push((id, UserId::new(reader.value()?), text));
            }
        }
        put_words(session, texts.into_iter()).await?;
        if last > upto {
            session.execute(INDEXED, &[&last]).await?;
        }
        session.commit().await?;
        Ok(u32::try_from(rows.len()).unwrap_or(u32::MAX))
    }
}

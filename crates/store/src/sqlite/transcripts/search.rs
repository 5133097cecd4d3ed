//! Finds what was said, by its words.
//!
//! Final segments have their words in `transcript_words`; live ones are few and are looked at one
//! by one.

use std::collections::HashMap;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{SearchHit, SearchPage};
use roundsman_core::transcripts::{SearchQuery, matches, searchable};
use roundsman_core::users::UserId;
use rusqlite::{Connection, params};

use super::columns::{FINAL, LIVE, final_columns, live_columns, read_final, read_live};
use super::sessions::starts;
use crate::rows::transcripts::SessionStarts;
use crate::sqlite::error::Result;

pub(super) fn search(
    conn: &Connection,
    user: UserId,
    query: &SearchQuery,
    page: SearchPage,
) -> Result<Vec<SearchHit>> {
    let mut found = Found { conn, starts: HashMap::new(), hits: Vec::new() };
    if page.before.is_none() {
        found.live(user, query, page.rows_max)?;
    }
    let left = page.rows_max.saturating_sub(u32::try_from(found.hits.len()).unwrap_or(u32::MAX));
    found.kept(user, query, page.before.unwrap_or(i64::MAX), left)?;
    Ok(found.hits)
}

/// Whether there are rows that were not looked at yet.
pub(super) fn is_behind(conn: &Connection) -> Result<bool> {
    Ok(conn.prepare_cached(IS_BEHIND)?.query_row([], |row| row.get(0))?)
}

/// Looks at rows that came since the last time, and indexes those that somebody else has written:
/// our own have their words already.
pub(super) fn index(conn: &Connection, rows_max: u32) -> Result<u32> {
    let mut statement = conn.prepare_cached(NOT_LOOKED_AT)?;
    let mut rows = statement.query([rows_max])?;
    let (mut looked_at, mut foreign) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        looked_at.push(id);
        if let Some(text) = row.get::<_, Option<String>>(1)? {
            foreign.push((id, searchable(&text)));
        }
    }
    drop(rows);
    for (id, words) in foreign {
        put_words(conn, id, &words)?;
    }
    if let Some(last) = looked_at.last() {
        conn.prepare_cached(LOOKED_AT)?.execute([last])?;
    }
    Ok(u32::try_from(looked_at.len()).unwrap_or(u32::MAX))
}

/// Makes a final segment found by these words, and no others.
pub(super) fn put_words(conn: &Connection, id: i64, words: &str) -> Result<()> {
    conn.prepare_cached(PUT_WORDS)?.execute(params![id, words])?;
    Ok(())
}

/// Makes the final segments of a meeting found no more.
pub(super) fn forget(conn: &Connection, meeting: MeetingId) -> Result<()> {
    conn.prepare_cached(DELETE_WORDS)?.execute([meeting.get()])?;
    Ok(())
}

struct Found<'a> {
    conn: &'a Connection,
    /// Hits are often of one meeting.
    starts: HashMap<MeetingId, SessionStarts>,
    hits: Vec<SearchHit>,
}

impl Found<'_> {
    fn live(&mut self, user: UserId, query: &SearchQuery, rows_max: u32) -> Result<()> {
        let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let mut statement = self.conn.prepare_cached(LIVE_OF_USER)?;
        let mut rows = statement.query([user.get()])?;
        while self.hits.len() < rows_max
            && let Some(row) = rows.next()?
        {
            let is_hit = matches(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?, query);
            if is_hit {
                let meeting = MeetingId::new(row.get(LIVE)?);
                let line = self.starts_of(meeting)?.live_line(read_live(row, meeting)?);
                let (platform, native_id) = (row.get(LIVE + 1)?, row.get(LIVE + 2)?);
                self.hits.push(SearchHit {
                    id: None,
                    meeting_id: meeting,
                    platform,
                    native_id,
                    line,
                });
            }
        }
        Ok(())
    }

    fn kept(
        &mut self,
        user: UserId,
        query: &SearchQuery,
        before: i64,
        rows_max: u32,
    ) -> Result<()> {
        let mut statement = self.conn.prepare_cached(FINAL_WITH)?;
        let words = format!("owner : \"{}\" AND words : ({})", user.get(), query.to_fts5());
        let mut rows = statement.query(params![words, before, user.get(), rows_max])?;
        while let Some(row) = rows.next()? {
            let meeting = MeetingId::new(row.get(FINAL)?);
            let line = self.starts_of(meeting)?.kept_line(read_final(row, meeting)?);
            let (platform, native_id) = (row.get(FINAL + 1)?, row.get(FINAL + 2)?);
            let id = Some(row.get(FINAL + 3)?);
            self.hits.push(SearchHit { id, meeting_id: meeting, platform, native_id, line });
        }
        Ok(())
    }

    fn starts_of(&mut self, meeting: MeetingId) -> Result<&SessionStarts> {
        match self.starts.entry(meeting) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                Ok(unknown.insert(starts(self.conn, meeting)?))
            }
        }
    }
}

/// From the meetings with live segments, which are fewer than all of a user.
pub(super) const LIVE_OF_USER: &str = concat!(
    "-- live_of_user
    SELECT ",
    live_columns!(),
    ", m.id, m.platform, m.platform_specific_id
      FROM active_transcripts AS a
      CROSS JOIN meetings AS m ON m.id = a.meeting_id
      CROSS JOIN live_segments AS l INDEXED BY live_segments_start ON l.meeting_id = a.meeting_id
     WHERE m.user_id = ?1 AND l.dropped = 0
     ORDER BY a.meeting_id DESC, l.session_uid DESC, l.start_ms DESC, l.field DESC"
);

/// The index gives rows in the order of their numbers. That the meeting is the user's is looked at
/// once more, because the index is only a copy.
pub(super) const FINAL_WITH: &str = concat!(
    "-- final_with
    SELECT ",
    final_columns!(),
    ", m.id, m.platform, m.platform_specific_id, t.id
      FROM transcript_words AS w
      CROSS JOIN transcriptions AS t ON t.id = w.rowid
      CROSS JOIN meetings AS m ON m.id = t.meeting_id
      LEFT JOIN kept_segments AS k ON k.transcription_id = t.id
     WHERE w.transcript_words MATCH ?1 AND w.rowid < ?2 AND m.user_id = ?3
     ORDER BY w.rowid DESC LIMIT ?4"
);

const IS_BEHIND: &str = "-- is_behind
    SELECT EXISTS (SELECT 1 FROM transcriptions WHERE id > (SELECT upto FROM transcript_index))";

pub(super) const NOT_LOOKED_AT: &str = "-- not_looked_at
    SELECT t.id, CASE WHEN k.transcription_id IS NULL THEN t.text END
      FROM transcriptions AS t LEFT JOIN kept_segments AS k ON k.transcription_id = t.id
     WHERE t.id > (SELECT upto FROM transcript_index)
     ORDER BY t.id LIMIT ?1";

const LOOKED_AT: &str = "-- looked_at
    UPDATE transcript_index SET upto = max(upto, ?1)";

const PUT_WORDS: &str = "-- put_words
    INSERT OR REPLACE INTO transcript_words (rowid, words, owner)
    SELECT t.id, ?2, m.user_id
      FROM transcriptions AS t JOIN meetings AS m ON m.id = t.meeting_id WHERE t.id = ?1";

pub(super) const DELETE_WORDS: &str = "-- delete_words
    DELETE FROM transcript_words
     WHERE rowid IN (SELECT id FROM transcriptions WHERE meeting_id = ?1)";

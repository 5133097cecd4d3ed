//! Recordings that can be had.

use std::collections::HashMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::AnnounceAnswer;
use roundsman_core::recordings::{Announcement, Recording, RecordingId};

use super::columns::{recording_columns, recordings, update_recordings};
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::recordings::{
    AnnouncedAll, Announcing, id_from_text, media_to_text, tracks_to_text,
};

/// Makes those that nobody knows and locks the others, in the order of their ids, so that calls that
/// meet wait and never deadlock; numbers follow the order in which they were announced. A row whose
/// update is not wanted is locked all the same, and not returned.
pub(super) const ANNOUNCE: &str = "-- announce_recordings
WITH given AS MATERIALIZED (
    SELECT nextval('roundsman.recordings_no_seq') AS no, a.*
      FROM (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[],
                                 $5::bigint[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY
                   AS given(recording_id, room, kind, started_at, duration_ms, tracks, media,
                            status, place)
             ORDER BY place OFFSET 0) a
)
INSERT INTO roundsman.recordings AS known
    (no, recording_id, room, kind, started_at, duration_ms, tracks, media, status, repeats,
     segments, announced_at, updated_at) OVERRIDING SYSTEM VALUE
SELECT no, recording_id, room, kind, started_at, duration_ms, tracks, media, status, 0, 0, $9, $9
  FROM given
 ORDER BY recording_id COLLATE \"C\"
ON CONFLICT (recording_id) DO UPDATE SET repeats = known.repeats WHERE false
RETURNING recording_id, no";

/// What is known by now: whoever has waited for another call sees what that has made.
pub(super) const ANNOUNCED: &str = concat!(
    "-- announced\nSELECT ",
    recording_columns!(),
    " FROM roundsman.recordings r WHERE r.recording_id = ANY ($1::text[])"
);

pub(super) struct Announce<'a> {
    announcing: Announcing,
    rows: Vec<Recording>,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

impl<'a> Announce<'a> {
    pub(super) fn new(
        announcements: Vec<Announcement>,
        catalog: &'a KindCatalog,
        now: Timestamp,
    ) -> Self {
        let announcing = Announcing::new(announcements, now);
        Announce { rows: announcing.rows(), announcing, catalog, now }
    }
}

impl Operation for Announce<'_> {
    type Answer = Vec<AnnounceAnswer>;

    async fn run(&self, session: &mut Session) -> Result<Vec<AnnounceAnswer>, Failure> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        session.begin();
        let (known, made) = self.make(session).await?;
        let AnnouncedAll { answers, changed, effects } = self.announcing.take(known, &made);
        update_recordings(session, &changed).await?;
        write_effects(session, &[&effects], self.catalog, self.now).await?;
        session.commit().await?;
        Ok(answers)
    }
}

impl Announce<'_> {
    /// Those that were known, and the numbers of those that are new.
    async fn make(
        &self,
        session: &mut Session,
    ) -> Result<(Vec<Recording>, HashMap<RecordingId, i64>), Failure> {
        let rows = &self.rows;
        let texts = |text: fn(&Recording) -> &str| -> Vec<&str> { rows.iter().map(text).collect() };
        let ids = texts(|new| new.id.as_str());
        let started: Vec<Time> = rows.iter().map(|new| Time(new.started_at)).collect();
        let durations: Vec<i64> = rows.iter().map(|new| new.duration_ms).collect();
        let tracks: Vec<String> = rows.iter().map(|new| tracks_to_text(&new.tracks)).collect();
        let media: Vec<String> = rows.iter().map(|new| media_to_text(&new.media)).collect();
        let [inserted, all] = session
            .query_all([
                (
                    ANNOUNCE,
                    &[
                        &ids,
                        &texts(|new| new.room.as_str()),
                        &texts(|new| new.kind.as_str()),
                        &started,
                        &durations,
                        &tracks,
                        &media,
                        &texts(|new| new.status.as_str()),
                        &Time(self.now),
                    ],
                ),
                (ANNOUNCED, &[&ids]),
            ])
            .await?;
        let mut made = HashMap::with_capacity(inserted.len());
        for row in &inserted {
            let no = row.try_get(1)?;
            made.insert(id_from_text(row.try_get(0)?, no)?, no);
        }
        let mut known = recordings(&all)?;
        known.retain(|recording| !made.contains_key(&recording.id));
        Ok((known, made))
    }
}

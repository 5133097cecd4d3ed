//! Forgetting whose voices were recorded.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::recordings::{Recording, forget};
use roundsman_core::users::UserId;

use super::begin::{meant, meetings_near};
use super::columns::{recording_columns, recordings, write};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;

const PLACE_OF: &str = "-- place_of
SELECT room, user_id FROM roundsman.presence WHERE meeting_id = $1";

/// Those of a meeting, and those of its room of which it is not known yet whose they are. Spelt as the
/// lists are, so that each look goes by its index.
pub(super) const OF_MEETING: &str = "-- of_meeting
(SELECT recording_id FROM roundsman.recordings
  WHERE meeting_id >= $1 AND meeting_id <= $1
  ORDER BY meeting_id, no OFFSET 0)
UNION ALL
(SELECT recording_id FROM roundsman.recordings
  WHERE meeting_id IS NULL AND room >= $2 AND room <= $2
  ORDER BY room, recording_id OFFSET 0)";

/// In the order of their ids, as by whoever announces them.
pub(super) const LOCK_RECORDINGS: &str = concat!(
    "-- lock_recordings\nSELECT ",
    recording_columns!(),
    "
  FROM roundsman.recordings r
 WHERE r.recording_id = ANY ($1::text[])
 ORDER BY r.recording_id
   FOR NO KEY UPDATE"
);

const FORGET_CONSENTS: &str = "-- forget_consents
DELETE FROM roundsman.consents WHERE meeting_id = $1";

/// Takes away what could name anybody in the recordings of a meeting that is being anonymised, and has
/// their media erased; the caller holds the locks of the meeting. Comes before its room is forgotten,
/// by which those are found that nobody has begun to process. Does nothing to a meeting that is in no
/// room.
pub(in crate::postgres) async fn forget_recordings(
    session: &mut Session,
    meeting: MeetingId,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    let Some(row) = session.query_opt(PLACE_OF, &[&meeting.get()]).await? else {
        return Ok(());
    };
    let (room, owner): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
    let own = own_recordings(session, meeting, room).await?;
    if !own.is_empty() {
        let owner = UserId::new(owner);
        let forgotten = own.into_iter().map(|known| forget(known, meeting, owner, now)).collect();
        write(session, forgotten, catalog, now).await?;
    }
    session.execute(FORGET_CONSENTS, &[&meeting.get()]).await?;
    Ok(())
}

/// The recordings of a meeting, locked, in the order of their numbers.
async fn own_recordings(
    session: &mut Session,
    meeting: MeetingId,
    room: &str,
) -> Result<Vec<Recording>, Failure> {
    let mut ids: Vec<String> = Vec::new();
    for row in session.query(OF_MEETING, &[&meeting.get(), &room]).await? {
        ids.push(row.try_get(0)?);
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = recordings(&session.query(LOCK_RECORDINGS, &[&ids]).await?)?;
    let unmatched = || all.iter().filter(|recording| recording.meeting_id.is_none());
    let first = unmatched().map(|recording| recording.started_at).min();
    let last = unmatched().map(|recording| recording.started_at).max();
    let near = match first.zip(last) {
        Some(span) => meetings_near(session, room, span).await?,
        None => Vec::new(),
    };
    // Somebody may have found that one is of another meeting.
    all.retain(|recording| match recording.meeting_id {
        Some(of) => of == meeting,
        None => meant(recording, &near).is_some_and(|of| of.id == meeting),
    });
    all.sort_by_key(|recording| recording.no);
    Ok(all)
}

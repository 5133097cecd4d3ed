//! Between rows of recordings and the types of `roundsman_core`.
//!
//! Invariant: readers go by position, in the order of the list that the macro here spells out.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::recordings::{Changed, Recording, RecordingId};
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::recordings::{RecordingColumns, media_to_text, tracks_to_text};

/// A row of `roundsman.recordings`, named `r`.
macro_rules! recording_columns {
    () => {
        "r.no, r.recording_id, r.meeting_id, r.user_id, r.room, r.kind, r.started_at, \
         r.duration_ms, r.tracks, r.media, r.status, r.error, r.repeats, r.segments, \
         r.announced_at, r.updated_at, r.completed_at, r.erased_at, r.erase_error"
    };
}

pub(super) use recording_columns;

/// How many columns [`recording_columns`] names.
pub(super) const COLUMNS: usize = 19;

/// Reads a row that begins with [`recording_columns`].
pub(super) fn recording(row: &Row) -> Result<Recording, Failure> {
    let mut reader = Reader::new(row);
    let columns = RecordingColumns {
        no: reader.value()?,
        recording_id: reader.value()?,
        meeting_id: reader.value()?,
        user_id: reader.value()?,
        room: reader.value()?,
        kind: reader.value()?,
        started_at: reader.time()?,
        duration_ms: reader.value()?,
        tracks: reader.value()?,
        media: reader.value()?,
        status: reader.value()?,
        error: reader.value()?,
        repeats: reader.value()?,
        segments: reader.value()?,
        announced_at: reader.time()?,
        updated_at: reader.time()?,
        completed_at: reader.time_opt()?,
        erased_at: reader.time_opt()?,
        erase_error: reader.value()?,
    };
    Ok(columns.into_recording()?)
}

/// Reads rows with [`recording_columns`].
pub(super) fn recordings(rows: &[Row]) -> Result<Vec<Recording>, Failure> {
    rows.iter().map(recording).collect()
}

/// Reads the one row that there is, if there is one.
pub(super) fn recording_of(rows: &[Row]) -> Result<Option<Recording>, Failure> {
    rows.first().map(recording).transpose()
}

pub(super) const RECORDING_OF: &str = concat!(
    "-- recording_of\nSELECT ",
    recording_columns!(),
    " FROM roundsman.recordings r WHERE r.recording_id = $1"
);

pub(super) const LOCK_RECORDING: &str = concat!(
    "-- lock_recording\nSELECT ",
    recording_columns!(),
    " FROM roundsman.recordings r WHERE r.recording_id = $1 FOR NO KEY UPDATE"
);

/// The recording as it is now; nobody else changes it until the transaction ends.
pub(super) async fn lock_recording(
    session: &mut Session,
    id: &RecordingId,
) -> Result<Option<Recording>, Failure> {
    recording_of(&session.query(LOCK_RECORDING, &[&id.as_str()]).await?)
}

pub(super) const UPDATE_RECORDINGS: &str = "-- update_recordings
UPDATE roundsman.recordings r
   SET meeting_id = x.meeting_id, user_id = x.user_id, room = x.room, tracks = x.tracks,
       media = x.media, status = x.status, error = x.error, repeats = x.repeats,
       segments = x.segments, updated_at = x.updated_at, completed_at = x.completed_at,
       erased_at = x.erased_at, erase_error = x.erase_error
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[],
              $7::text[], $8::text[], $9::bigint[], $10::bigint[], $11::timestamptz[],
              $12::timestamptz[], $13::timestamptz[], $14::text[])
       AS x(no, meeting_id, user_id, room, tracks, media, status, error, repeats, segments,
            updated_at, completed_at, erased_at, erase_error)
 WHERE r.no = x.no";

/// Writes all that may change of recordings whose rows are locked.
pub(super) async fn update_recordings(
    session: &mut Session,
    changed: &[Recording],
) -> Result<(), Failure> {
    if changed.is_empty() {
        return Ok(());
    }
    let numbers =
        |number: fn(&Recording) -> i64| -> Vec<i64> { changed.iter().map(number).collect() };
    let optional = |number: fn(&Recording) -> Option<i64>| -> Vec<Option<i64>> {
        changed.iter().map(number).collect()
    };
    let texts = |text: fn(&Recording) -> Option<&str>| -> Vec<Option<&str>> {
        changed.iter().map(text).collect()
    };
    let times = |time: fn(&Recording) -> Option<Timestamp>| -> Vec<Option<Time>> {
        changed.iter().map(|one| time(one).map(Time)).collect()
    };
    let tracks: Vec<String> = changed.iter().map(|one| tracks_to_text(&one.tracks)).collect();
    let media: Vec<String> = changed.iter().map(|one| media_to_text(&one.media)).collect();
    session
        .execute(
            UPDATE_RECORDINGS,
            &[
                &numbers(|one| one.no),
                &optional(|one| one.meeting_id.map(MeetingId::get)),
                &optional(|one| one.user_id.map(UserId::get)),
                &texts(|one| Some(one.room.as_str())),
                &tracks,
                &media,
                &texts(|one| Some(one.status.as_str())),
                &texts(|one| one.error.as_deref()),
                &numbers(|one| one.repeats.into()),
                &numbers(|one| one.segments.into()),
                &times(|one| Some(one.updated_at)),
                &times(|one| one.completed_at),
                &times(|one| one.erased_at),
                &texts(|one| one.erase_error.as_deref()),
            ],
        )
        .await?;
    Ok(())
}

/// Writes what the rules have decided about recordings whose rows are locked, with all it brings.
pub(super) async fn write(
    session: &mut Session,
    changed: Vec<Changed>,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Vec<Recording>, Failure> {
    let (recordings, effects): (Vec<Recording>, Vec<Effects>) =
        changed.into_iter().map(|Changed { recording, effects }| (recording, effects)).unzip();
    update_recordings(session, &recordings).await?;
    write_effects(session, &effects.iter().collect::<Vec<_>>(), catalog, now).await?;
    Ok(recordings)
}

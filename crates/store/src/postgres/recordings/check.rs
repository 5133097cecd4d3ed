//! What cannot be true of recordings.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use roundsman_core::effects::Violation;

use super::columns::{COLUMNS, recording, recording_columns};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::rows::check::{ROW_CONSISTENT, violation};
use crate::rows::recordings::{RECORDINGS, RecordingFacts, check_recordings};

const ALL_RECORDINGS: &str = concat!(
    "-- all_recordings\nSELECT ",
    recording_columns!(),
    ", p.user_id,
       (SELECT count(*) FROM roundsman.kept_segments k
         WHERE k.meeting_id = r.meeting_id AND k.session_uid = 'recording:' || r.recording_id)
  FROM roundsman.recordings r LEFT JOIN roundsman.presence p ON p.meeting_id = r.meeting_id
 ORDER BY r.no"
);

/// Compares every recording with its meeting, its transcript and the state that its log leads to.
pub(in crate::postgres) async fn check(
    session: &mut Session,
    logged: &BTreeMap<(String, i64), String>,
) -> Result<Vec<Violation>, Failure> {
    let (mut found, mut facts) = (Vec::new(), Vec::new());
    let mut rows = Box::pin(session.stream(ALL_RECORDINGS).await?);
    while let Some(row) = rows.try_next().await? {
        let no: i64 = row.try_get(0)?;
        match recording(&row) {
            Ok(recording) => {
                let (owner, said) = (row.try_get(COLUMNS)?, row.try_get(COLUMNS + 1)?);
                facts.push(RecordingFacts { recording, owner, said });
            }
            Err(failure) => {
                let reason = failure.into_store_error().to_string();
                found.push(violation(ROW_CONSISTENT, format!("{RECORDINGS} {no}"), reason));
            }
        }
    }
    found.extend(check_recordings(&facts, logged));
    Ok(found)
}

/// Selects (subject, explanation), as the rules of [`crate::postgres::check`] do.
pub(in crate::postgres) const CONSENT_OF_NONE: &str = "-- consent_of_none
SELECT 'consents ' || c.meeting_id, 'there is no such meeting'
  FROM roundsman.consents c
 WHERE NOT EXISTS (SELECT FROM roundsman.presence p WHERE p.meeting_id = c.meeting_id)
 GROUP BY c.meeting_id";

//! Recordings that can be had.

use std::collections::HashMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::AnnounceAnswer;
use roundsman_core::recordings::Announcement;
use rusqlite::Connection;

use super::columns::{insert_recording, recording, update_recording};
use crate::rows::recordings::{AnnouncedAll, Announcing};
use crate::sqlite::effects;
use crate::sqlite::error::Result;

pub(super) fn announce_all(
    conn: &Connection,
    catalog: &KindCatalog,
    announcements: Vec<Announcement>,
    now: Timestamp,
) -> Result<Vec<AnnounceAnswer>> {
    let announcing = Announcing::new(announcements, now);
    let (mut known, mut made) = (Vec::new(), HashMap::new());
    for row in announcing.rows() {
        match recording(conn, &row.id)? {
            Some(recording) => known.push(recording),
            None => drop(made.insert(row.id.clone(), insert_recording(conn, &row)?)),
        }
    }
    let AnnouncedAll { answers, changed, effects } = announcing.take(known, &made);
    for recording in &changed {
        update_recording(conn, recording)?;
    }
    effects::apply(conn, catalog, effects, now)?;
    Ok(answers)
}

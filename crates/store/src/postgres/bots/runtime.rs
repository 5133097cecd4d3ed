//! What the runtime says about bots.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, Change, MeetingId, Source, change};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{Announced, RuntimeNote, Seen};

use super::columns::update_bots;
use super::event::write_changes;
use super::lock_records;
use super::read::place;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::bots::event_of_gone;

/// Nearly all notes: one statement for all of them.
const SEEN_RUNNING: &str = "-- seen_running
UPDATE roundsman.bots b SET seen_at = greatest(b.seen_at, $3), missed = 0
  FROM unnest($1::bigint[], $2::integer[]) AS given(id, attempt)
 WHERE b.meeting_id = given.id AND b.attempt = given.attempt AND b.live::integer = 1";

pub(super) struct NoteRuntime<'a> {
    pub(super) notes: &'a [RuntimeNote],
    pub(super) misses_max: u32,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for NoteRuntime<'_> {
    type Answer = Vec<Announced>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Announced>, Failure> {
        let gone: BTreeSet<MeetingId> = self
            .notes
            .iter()
            .filter(|note| note.seen != Seen::Running)
            .map(|note| note.workload.meeting_id)
            .collect();
        // By number, as everywhere.
        let running: BTreeSet<(i64, i32)> = self
            .notes
            .iter()
            .filter(|note| !gone.contains(&note.workload.meeting_id))
            .map(|note| place(note.workload))
            .collect();
        if !running.is_empty() {
            let (ids, attempts): (Vec<i64>, Vec<i32>) = running.into_iter().unzip();
            // By itself, so that the locks of the two parts cannot meet in the wrong order. Seen
            // twice is seen, so a broken connection may be repeated.
            session.execute(SEEN_RUNNING, &[&ids, &attempts, &Time(self.now)]).await?;
        }
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        session.begin();
        let ended = self.note_gone(session, &gone).await?;
        session.commit().await?;
        Ok(ended)
    }
}

impl NoteRuntime<'_> {
    /// Takes note of bots of which one was gone, in the order of the notes.
    async fn note_gone(
        &self,
        session: &mut Session,
        gone: &BTreeSet<MeetingId>,
    ) -> Result<Vec<Announced>, Failure> {
        let ids: Vec<i64> = gone.iter().map(|id| id.get()).collect();
        let mut records: BTreeMap<MeetingId, BotRecord> = BTreeMap::new();
        for record in lock_records(session, &ids).await? {
            records.insert(record.meeting.id, record);
        }
        let mut noted: BTreeSet<MeetingId> = BTreeSet::new();
        let mut endings: BTreeMap<MeetingId, Change> = BTreeMap::new();
        for note in self.notes {
            let id = note.workload.meeting_id;
            let Some(record) = records.get_mut(&id) else {
                continue;
            };
            if record.workload() != note.workload || record.status.is_over() {
                continue;
            }
            noted.insert(id);
            if let Some(change) = self.note_one(record, note.seen) {
                record.status = change.record.status;
                endings.insert(id, change);
            }
        }
        let missed: Vec<&BotRecord> = records
            .values()
            .filter(|record| noted.contains(&record.meeting.id))
            .filter(|record| !endings.contains_key(&record.meeting.id))
            .collect();
        if !missed.is_empty() {
            update_bots(session, &missed).await?;
        }
        write_changes(session, endings.into_values().collect(), self.catalog, self.now).await
    }

    /// What a note makes of a live bot; its end, if this is it.
    fn note_one(&self, record: &mut BotRecord, seen: Seen) -> Option<Change> {
        if seen == Seen::Running {
            record.bot.seen_at = record.bot.seen_at.max(Some(self.now));
            record.bot.missed = 0;
            return None;
        }
        record.bot.missed = record.bot.missed.saturating_add(1);
        if record.bot.missed < self.misses_max {
            return None;
        }
        // Rules that would not end a live bot leave it for the sweep.
        let ending = change(record.clone(), event_of_gone(seen), Source::Sweeper, self.now);
        ending.ok().filter(|change| change.changed)
    }
}

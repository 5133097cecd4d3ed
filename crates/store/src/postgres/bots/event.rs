//! What happens to a bot: callbacks, and what its launcher has proven.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, Change, Refused, change};
use roundsman_core::effects::{Effects, Frame};
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{Announced, BotHappened, EventAnswer};

use super::columns::{update_bots, update_records};
use super::lock_record;
use crate::postgres::effects::{holds_lease, write_effects};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::transcripts::{begin_sessions, lock_meeting};
use crate::rows::bots::speaks_for;

pub(super) struct Happen<'a> {
    pub(super) happened: BotHappened,
    pub(super) guard: Option<LeaseRef>,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Happen<'_> {
    type Answer = EventAnswer;

    async fn run(&self, session: &mut Session) -> Result<EventAnswer, Failure> {
        session.begin();
        let answer = if holds_lease(session, self.guard).await? {
            self.happen(session).await?
        } else {
            EventAnswer::LeaseLost
        };
        session.commit().await?;
        Ok(answer)
    }
}

impl Happen<'_> {
    async fn happen(&self, session: &mut Session) -> Result<EventAnswer, Failure> {
        let BotHappened { workload, connection, event, source, beats } = &self.happened;
        if event.may_begin_session() {
            // What was said before is told anew then. Before any row, as everywhere.
            lock_meeting(session, workload.meeting_id).await?;
        }
        let Some(mut record) = lock_record(session, workload.meeting_id).await? else {
            return Ok(EventAnswer::NoSuchBot);
        };
        if let Err(not_heard) = speaks_for(&record.bot, *workload, connection.as_ref()) {
            return Ok(not_heard.of_event());
        }
        let learned_beats = *beats && !record.bot.beats && !record.status.is_over();
        record.bot.beats |= learned_beats;
        match change(record, event.clone(), *source, self.now) {
            Err(Refused { current }) => Ok(EventAnswer::Refused { current }),
            Ok(Change { record, changed: false, .. }) => {
                if learned_beats {
                    update_bots(session, &[&record]).await?;
                }
                Ok(EventAnswer::Unchanged(Box::new(record)))
            }
            Ok(change) => {
                let mut announced =
                    write_changes(session, vec![change], self.catalog, self.now).await?;
                let one = announced.pop().ok_or(Failure::Raced)?;
                Ok(EventAnswer::Changed(Box::new(one)))
            }
        }
    }
}

/// Writes what the rules have made of bots that were locked before, and what that brings with it.
/// Whoever begins sessions has locked what is said in their meetings before the bots.
pub(super) async fn write_changes(
    session: &mut Session,
    mut changes: Vec<Change>,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Vec<Announced>, Failure> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let records: Vec<&BotRecord> = changes.iter().map(|change| &change.record).collect();
    update_records(session, &records).await?;
    let begun = changes.iter().filter(|change| change.begins_session);
    let begun: Vec<&BotRecord> = begun.map(|change| &change.record).collect();
    let mut moved = begin_sessions(session, &begun, now).await?;
    for change in &mut changes {
        change.effects.frames.extend(moved.frames(change.record.meeting.id, now));
    }
    let effects: Vec<&Effects> = changes.iter().map(|change| &change.effects).collect();
    let mut frames = write_effects(session, &effects, catalog, now).await?.into_iter();
    let mut announced = Vec::with_capacity(changes.len());
    for change in changes {
        let frames: Vec<Frame> = frames.by_ref().take(change.effects.frames.len()).collect();
        moved.told_by(change.record.meeting.id, &frames);
        announced.push(Announced { record: change.record, frames });
    }
    moved.write(session).await?;
    Ok(announced)
}

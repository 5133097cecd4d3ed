//! What happens to a bot: callbacks, and what its launcher has proven.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, Change, Refused, change};
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{Announced, BotHappened, EventAnswer};

use super::columns::{update_bots, update_records};
use super::lock_record;
use crate::postgres::effects::{holds_lease, write_effects};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
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

/// A repeated start finds the session that the first one began.
const BEGIN_SESSIONS: &str = "-- begin_sessions
INSERT INTO public.meeting_sessions (meeting_id, session_uid, session_start_time)
SELECT x.meeting_id, x.session_uid, $3::timestamptz
  FROM unnest($1::bigint[], $2::text[]) AS x(meeting_id, session_uid)
 WHERE NOT EXISTS (SELECT FROM public.meeting_sessions known
                    WHERE known.meeting_id = x.meeting_id AND known.session_uid = x.session_uid)
ON CONFLICT DO NOTHING";

/// Writes what the rules have made of bots that were locked before, and what that brings with it.
pub(super) async fn write_changes(
    session: &mut Session,
    changes: Vec<Change>,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Vec<Announced>, Failure> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let records: Vec<&BotRecord> = changes.iter().map(|change| &change.record).collect();
    update_records(session, &records).await?;
    let (meetings, sessions): (Vec<i64>, Vec<&str>) = changes
        .iter()
        .filter(|change| change.begins_session)
        .map(|change| (change.record.meeting.id.get(), change.record.bot.connection_id.as_str()))
        .unzip();
    if !meetings.is_empty() {
        session.execute(BEGIN_SESSIONS, &[&meetings, &sessions, &Time(now)]).await?;
    }
    let effects: Vec<&Effects> = changes.iter().map(|change| &change.effects).collect();
    let mut frames = write_effects(session, &effects, catalog, now).await?.into_iter();
    let announced = changes.into_iter().map(|change| Announced {
        record: change.record,
        frames: frames.by_ref().take(change.effects.frames.len()).collect(),
    });
    Ok(announced.collect())
}

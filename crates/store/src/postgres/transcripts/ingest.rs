//! Taking messages.
//!
//! A whole batch is read by one round trip to the server, taken in memory ([`super::work`]), and
//! written by one statement for each table. A batch that changes nothing writes nothing.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::ports::{MessageAnswer, NewMessage};
use roundsman_core::transcripts::{MessageBody, Place, Reach, reach_of};

use super::known::{KEPT_NEAR, LIVE_NEAR, Near, SessionPlace, known_rows};
use super::sessions::{
    MEETINGS_HEARD, SESSION_FACTS, STARTS, SessionBook, meetings_heard, whole_sessions,
};
use super::speakers::{EVENTS_NEAR, EventsNear, NAMES, names};
use super::work::{Work, is_heard};
use super::write::{Revised, activate, put_live, revise};
use super::{LOCK_CLASS, LOCK_MEETINGS, lock_keys};
use crate::postgres::effects::write_frames;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::told::heard_until;
use crate::rows::transcripts::session_to_column;

pub(super) struct TakeMessages<'a> {
    pub(super) messages: &'a [NewMessage],
    pub(super) now: Timestamp,
}

impl Operation for TakeMessages<'_> {
    type Answer = Vec<MessageAnswer>;

    async fn run(&self, session: &mut Session) -> Result<Vec<MessageAnswer>, Failure> {
        if self.messages.is_empty() {
            return Ok(Vec::new());
        }
        session.begin();
        let mut work = self.read(session).await?;
        for message in self.messages {
            work.take(message);
        }
        // Sessions before frames, as by a bot's callback, which writes both as well.
        work.book.write(session, self.now).await?;
        let frames = write_frames(session, &work.frames(), self.now).await?;
        let answers = work.answers(frames);
        write(session, &work).await?;
        session.commit().await?;
        Ok(answers)
    }
}

impl TakeMessages<'_> {
    /// Locks the meetings and reads what the messages may be about. The lock is the first statement,
    /// and the ones after it are sent without waiting for it: each begins when the one before it is
    /// done and reads what is committed by then, because the transaction is `READ COMMITTED`.
    async fn read(&self, session: &mut Session) -> Result<Work<'_>, Failure> {
        let keys = lock_keys(self.messages.iter().map(|message| message.meeting_id));
        let mut ids: Vec<i64> = self.messages.iter().map(|one| one.meeting_id.get()).collect();
        ids.sort_unstable();
        ids.dedup();
        let reaches = self.reaches();
        let near = Near::of(&reaches);
        let events = EventsNear::of(&self.heard_until());
        let [_, meetings, starts, facts, names_rows, live, kept, event_rows] = session
            .query_all([
                (LOCK_MEETINGS, &[&LOCK_CLASS, &keys]),
                (MEETINGS_HEARD, &[&ids]),
                (STARTS, &[&ids]),
                (SESSION_FACTS, &[&ids]),
                (NAMES, &[&ids]),
                (LIVE_NEAR, &near.values()),
                (KEPT_NEAR, &near.values()),
                (EVENTS_NEAR, &events.values()),
            ])
            .await?;
        let meetings = meetings_heard(&meetings)?;
        let heard = self.messages.iter().filter(|message| is_heard(&meetings, message));
        let moved = SessionBook::new(&starts, &facts)?.moved(heard);
        let book = SessionBook::new(&starts, &facts)?;
        let events = events.events(&event_rows)?;
        let mut work = Work::new(meetings, book, names(&names_rows)?, events, self.now);
        work.learn(known_rows(&live, &kept)?);
        if !moved.is_empty() {
            work.learn(whole_sessions(session, &moved).await?);
        }
        Ok(work)
    }

    /// What is told of each session.
    fn reaches(&self) -> BTreeMap<SessionPlace<'_>, Vec<Reach>> {
        let mut reaches: BTreeMap<SessionPlace<'_>, Vec<Reach>> = BTreeMap::new();
        for message in self.messages {
            if let MessageBody::Transcription { uid, segments, .. } = &message.body
                && let Some(reach) = reach_of(segments)
            {
                let place = (message.meeting_id, session_to_column(uid.as_deref()));
                reaches.entry(place).or_default().push(reach);
            }
        }
        reaches
    }

    /// Up to when events of each session are wanted, first and last.
    fn heard_until(&self) -> BTreeMap<SessionPlace<'_>, (i64, i64)> {
        let mut wanted: BTreeMap<SessionPlace<'_>, (i64, i64)> = BTreeMap::new();
        for message in self.messages {
            if let MessageBody::Transcription { uid: Some(uid), segments, .. } = &message.body
                && let Some(until) = heard_until(segments)
            {
                wanted
                    .entry((message.meeting_id, uid.as_str()))
                    .and_modify(|(first, last)| {
                        *first = until.min(*first);
                        *last = until.max(*last);
                    })
                    .or_insert((until, until));
            }
        }
        wanted
    }
}

/// Writes the segments that have changed.
async fn write(session: &mut Session, work: &Work<'_>) -> Result<(), Failure> {
    let (mut live, mut kept, mut newly_active) = (Vec::new(), Vec::new(), Vec::new());
    let changed = work.changed();
    for one in &changed {
        let segment = &one.entry.known.segment;
        if let (Place::Kept, Some(id)) = (one.entry.known.place, one.entry.id) {
            kept.push(Revised { id, user: one.user, segment, content: one.entry.revised });
            continue;
        }
        live.push((one.meeting, segment));
        if work.meetings.get(&one.meeting).is_some_and(|meeting| !meeting.active) {
            newly_active.push(one.meeting.get());
        }
    }
    newly_active.dedup();
    put_live(session, &live).await?;
    activate(session, &newly_active).await?;
    revise(session, &kept).await
}

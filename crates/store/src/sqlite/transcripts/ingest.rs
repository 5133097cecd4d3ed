//! Takes messages of producers.
//!
//! Most of what is told was told before, so the way to find that out is short: what a batch may be
//! about is read once ([`super::batch`]), and only what has changed makes a frame and is written.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{MessageAnswer, NewMessage, Taken};
use roundsman_core::transcripts::{
    KnownStart, Line, MessageBody, ToldSegment, declare_start, mutable_frames,
};
use rusqlite::Connection;

use super::batch::Batch;
use super::frames::append;
use super::segments::moved_lines;
use super::sessions::{declared, end, put_start, start, start_of, starts, tell_moved};
use crate::rows::transcripts::{changed_lines, only_moved, taken, told_by};
use crate::sqlite::error::Result;

pub(super) fn take(
    conn: &Connection,
    messages: &[NewMessage],
    now: Timestamp,
) -> Result<Vec<MessageAnswer>> {
    let mut batch = Batch::new(conn, messages, now);
    let take_next = |message| take_one(conn, &mut batch, message, now);
    let answers = messages.iter().map(take_next).collect::<Result<_>>()?;
    batch.write()?;
    Ok(answers)
}

fn take_one<'a>(
    conn: &Connection,
    batch: &mut Batch<'a>,
    message: &'a NewMessage,
    now: Timestamp,
) -> Result<MessageAnswer> {
    let meeting = message.meeting_id;
    if !batch.hears(meeting, message.user_id)? {
        return Ok(MessageAnswer::NoSuchMeeting);
    }
    match &message.body {
        MessageBody::Transcription { uid, segments, .. } => {
            let told = Told { meeting, uid: uid.as_deref(), segments, version: message.version };
            told.take(conn, batch, message.start_hint, now)
        }
        MessageBody::SessionStart { uid, start } => {
            batch.leave(meeting)?;
            let start =
                declare_start(declared(conn, meeting, uid)?, *start, message.token_issued_at);
            session_start(conn, meeting, uid, start, now)
        }
        MessageBody::SessionEnd { uid } => {
            end(conn, meeting, uid, now)?;
            let session_start = batch.start(meeting, Some(uid))?;
            Ok(MessageAnswer::Taken(Taken { session_start, ..Taken::default() }))
        }
        MessageBody::Speaker(_) => Ok(MessageAnswer::Taken(Taken::default())),
    }
}

/// A message about segments of one session.
struct Told<'a> {
    meeting: MeetingId,
    uid: Option<&'a str>,
    segments: &'a [ToldSegment],
    version: i64,
}

impl<'a> Told<'a> {
    fn take(
        &self,
        conn: &Connection,
        batch: &mut Batch<'a>,
        start_hint: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<MessageAnswer> {
        let start = batch.start(self.meeting, self.uid)?;
        if let (Some(uid), None, Some(start)) = (self.uid, start, start_hint) {
            return self.take_with_start(conn, batch, uid, start, now);
        }
        let mut lines = self.changed(batch, start)?;
        if lines.is_empty() {
            return Ok(taken(lines, Vec::new(), start));
        }
        let frames = batch.append(self.meeting, mutable_frames(self.meeting, &lines, now))?;
        told_by(&mut lines, &frames);
        batch.put(self.meeting, self.uid, &lines)?;
        Ok(taken(lines, frames, start))
    }

    /// A start that only the cache knows is now everybody's, and moves what was told before.
    fn take_with_start(
        &self,
        conn: &Connection,
        batch: &mut Batch<'a>,
        uid: &'a str,
        start: Timestamp,
        now: Timestamp,
    ) -> Result<MessageAnswer> {
        let meeting = self.meeting;
        batch.leave(meeting)?;
        let changed = self.changed(batch, Some(start))?;
        let before = starts(conn, meeting)?;
        let after = before.with(uid, start);
        let mut moved = only_moved(moved_lines(conn, meeting, &before, &after)?, &changed);
        if changed.is_empty() && moved.is_empty() {
            return Ok(taken(changed, Vec::new(), Some(start)));
        }
        put_start(conn, meeting, uid, KnownStart { start, declared_by: None })?;
        let mut lines = changed;
        let number_changed = lines.len();
        lines.append(&mut moved);
        let frames = append(conn, mutable_frames(meeting, &lines, now), now)?;
        told_by(&mut lines, &frames);
        batch.put(meeting, self.uid, &lines[..number_changed])?;
        batch.leave(meeting)?;
        tell_moved(conn, meeting, &mut lines[number_changed..], &frames)?;
        Ok(taken(lines, frames, Some(start)))
    }

    fn changed(&self, batch: &mut Batch<'a>, start: Option<Timestamp>) -> Result<Vec<Line>> {
        let changed = batch.changed(self.meeting, self.uid, self.segments, self.version)?;
        Ok(changed_lines(changed, start))
    }
}

/// Writes a start, if it is one, and moves what was told of the session.
fn session_start(
    conn: &Connection,
    meeting: MeetingId,
    uid: &str,
    declared: Option<KnownStart>,
    now: Timestamp,
) -> Result<MessageAnswer> {
    let Some(declared) = declared else {
        return Ok(taken(Vec::new(), Vec::new(), start_of(conn, meeting, uid)?));
    };
    let mut lines = start(conn, meeting, uid, declared)?;
    let frames = append(conn, mutable_frames(meeting, &lines, now), now)?;
    tell_moved(conn, meeting, &mut lines, &frames)?;
    Ok(taken(lines, frames, Some(declared.start)))
}

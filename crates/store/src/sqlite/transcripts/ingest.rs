//! Takes messages of producers.
//!
//! Most of what is told was told before, so the way to find that out is short: a look at the
//! meeting, the start of the session, and two ranges of segments. Only what has changed makes a
//! frame and is written.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{MessageAnswer, NewMessage, Taken};
use roundsman_core::transcripts::{
    Known, KnownStart, MessageBody, SPEAKER_EVENT_SLACK_MS, ToldSegment, collect, declare_start,
    mutable_frames, reach_of,
};
use rusqlite::{Connection, params};

use super::frames::append;
use super::segments::{known_within, moved_lines, put_line, put_place, set_active};
use super::sessions::{declared, end, put_start, start_of, starts};
use super::speakers::speakers;
use crate::rows::transcripts::{changed_lines, only_moved, taken, told_by};
use crate::sqlite::error::Result;

pub(super) fn take(
    conn: &Connection,
    messages: Vec<NewMessage>,
    now: Timestamp,
) -> Result<Vec<MessageAnswer>> {
    messages.into_iter().map(|message| take_one(conn, message, now)).collect()
}

fn take_one(conn: &Connection, message: NewMessage, now: Timestamp) -> Result<MessageAnswer> {
    let meeting = message.meeting_id;
    let open = params![meeting.get(), message.user_id.get()];
    if !conn.prepare_cached(OPEN_MEETING)?.exists(open)? {
        return Ok(MessageAnswer::NoSuchMeeting);
    }
    match message.body {
        MessageBody::Transcription { uid, segments, .. } => {
            let told = Told {
                meeting,
                session: uid.as_deref(),
                segments: &segments,
                version: message.version,
                start_hint: message.start_hint,
            };
            told.take(conn, now)
        }
        MessageBody::SessionStart { uid, start } => {
            let start =
                declare_start(declared(conn, meeting, &uid)?, start, message.token_issued_at);
            session_start(conn, meeting, &uid, start, now)
        }
        MessageBody::SessionEnd { uid } => {
            end(conn, meeting, &uid, now)?;
            let session_start = start_of(conn, meeting, &uid)?;
            Ok(MessageAnswer::Taken(Taken { session_start, ..Taken::default() }))
        }
        MessageBody::Speaker(_) => Ok(MessageAnswer::Taken(Taken::default())),
    }
}

/// A message about segments of one session.
struct Told<'a> {
    meeting: MeetingId,
    session: Option<&'a str>,
    segments: &'a [ToldSegment],
    version: i64,
    start_hint: Option<Timestamp>,
}

impl Told<'_> {
    fn take(&self, conn: &Connection, now: Timestamp) -> Result<MessageAnswer> {
        let meeting = self.meeting;
        let known_start = match self.session {
            Some(uid) => start_of(conn, meeting, uid)?,
            None => None,
        };
        // A start that only the cache knows is now everybody's, and moves what was told before.
        let learned = match (self.session, known_start, self.start_hint) {
            (Some(uid), None, Some(start)) => Some((uid, start)),
            _ => None,
        };
        let start = known_start.or(learned.map(|(_, start)| start));
        let mut changed = changed_lines(self.changed(conn, now)?, start);
        let mut moved = Vec::new();
        if let Some((uid, start)) = learned {
            let before = starts(conn, meeting)?;
            let after = before.with(uid, start);
            moved = only_moved(moved_lines(conn, meeting, &before, &after)?, &changed);
        }
        if changed.is_empty() && moved.is_empty() {
            return Ok(taken(changed, Vec::new(), start));
        }
        if let Some((uid, start)) = learned {
            put_start(conn, meeting, uid, KnownStart { start, declared_by: None })?;
        }
        let number_changed = changed.len();
        changed.append(&mut moved);
        let frames = append(conn, mutable_frames(meeting, &changed, now), now)?;
        told_by(&mut changed, &frames);
        for (index, line) in changed.iter().enumerate() {
            if index < number_changed {
                put_line(conn, meeting, line)?;
            } else {
                put_place(conn, meeting, line)?;
            }
        }
        if changed.iter().any(|line| !line.kept) {
            set_active(conn, meeting)?;
        }
        Ok(taken(changed, frames, start))
    }

    fn changed(&self, conn: &Connection, now: Timestamp) -> Result<Vec<Known>> {
        let Some(reach) = reach_of(self.segments) else { return Ok(Vec::new()) };
        let known = known_within(conn, self.meeting, self.session, &reach)?;
        // Events are needed only if the producer does not say who spoke.
        let all_said = self.segments.iter().all(|segment| segment.speaker.is_some());
        let end_ms = self.segments.iter().map(|segment| segment.end_ms).max();
        let end_ms = end_ms.filter(|_| !all_said);
        let heard_until = end_ms.map(|ms| ms.saturating_add(SPEAKER_EVENT_SLACK_MS));
        let speakers = speakers(conn, self.meeting, self.session, heard_until)?;
        Ok(collect(self.session, self.segments, known, &speakers, self.version, now))
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
    let before = starts(conn, meeting)?;
    put_start(conn, meeting, uid, declared)?;
    let after = before.with(uid, declared.start);
    let mut lines = moved_lines(conn, meeting, &before, &after)?;
    let frames = append(conn, mutable_frames(meeting, &lines, now), now)?;
    told_by(&mut lines, &frames);
    for line in &lines {
        put_place(conn, meeting, line)?;
    }
    Ok(taken(lines, frames, Some(declared.start)))
}

/// One that was anonymised has no address any more, and hears nothing.
pub(super) const OPEN_MEETING: &str = "-- open_meeting
    SELECT 1 FROM meetings WHERE id = ?1 AND user_id = ?2 AND platform_specific_id IS NOT NULL";

//! A transcript that comes whole and is final at once: that of a recording.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Frame;
use roundsman_core::transcripts::{Line, mutable_frames};
use roundsman_core::users::UserId;

use super::keep::keep_final;
use super::sessions::put_start;
use super::speakers::names_of;
use crate::postgres::effects::write_frames;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::rows::transcripts::told_by;

/// The names that users gave to the speakers of a meeting.
pub(in crate::postgres) async fn names_in(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<BTreeMap<String, String>, Failure> {
    names_of(session, meeting).await
}

/// Writes the lines of a session and its start, searchable and told by frames, which are returned.
/// The caller holds the lock of the meeting, which is this user's. Nobody else speaks in the session,
/// so its start moves nothing that was said.
pub(in crate::postgres) async fn keep_whole(
    session: &mut Session,
    (meeting, owner): (MeetingId, UserId),
    (uid, start): (&str, Timestamp),
    lines: &mut [Line],
    now: Timestamp,
) -> Result<Vec<Frame>, Failure> {
    put_start(session, meeting, uid, start).await?;
    let frames = mutable_frames(meeting, lines, now);
    let frames = write_frames(session, &frames.iter().collect::<Vec<_>>(), now).await?;
    told_by(lines, &frames);
    keep_final(session, (meeting, owner), lines, now).await?;
    Ok(frames)
}

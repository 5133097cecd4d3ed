//! Forgetting what was said in a meeting.

use roundsman_core::bots::MeetingId;
use roundsman_core::users::UserId;

use super::frames::forget_frames;
use super::sessions::sessions_of;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;

/// The words go after the rows: whoever makes a row searchable holds it until its words are there.
const FORGET_FINAL: &str = "-- forget_final
DELETE FROM public.transcriptions WHERE meeting_id = $1::bigint RETURNING id::bigint";

const FORGET_WORDS: &str = "-- forget_words
DELETE FROM roundsman.transcript_words WHERE transcription_id = ANY ($1::bigint[])";

const FORGET_KEPT: &str = "-- forget_kept
DELETE FROM roundsman.kept_segments WHERE meeting_id = $1";

const FORGET_LIVE: &str = "-- forget_live
DELETE FROM roundsman.live_segments WHERE meeting_id = $1";

const FORGET_ACTIVE: &str = "-- forget_active
DELETE FROM roundsman.active_transcripts WHERE meeting_id = $1";

const FORGET_SESSIONS: &str = "-- forget_sessions
DELETE FROM roundsman.transcript_sessions WHERE meeting_id = $1";

pub(super) const FORGET_NAMES: &str = "-- forget_names
DELETE FROM roundsman.speaker_names WHERE meeting_id = $1";

/// The second comparison is for the index, which leaves out those without a meeting.
pub(super) const FORGET_HEARD: &str = "-- forget_heard
DELETE FROM roundsman.speaker_events WHERE meeting_id = $1 AND meeting_id <> 0";

const FORGET_HEARD_IN: &str = "-- forget_heard_in
DELETE FROM roundsman.speaker_events
 WHERE session_uid = ANY ($1::text[]) AND meeting_id = 0";

const FORGET_SHARES: &str = "-- forget_shares
DELETE FROM roundsman.transcript_shares WHERE user_id = $1 AND meeting_id = $2";

/// Deletes all that was said in a meeting and what was kept for it; the caller holds the meeting's
/// lock. Returns the names of its sessions.
pub(in crate::postgres) async fn forget_said(
    session: &mut Session,
    user: UserId,
    meeting: MeetingId,
) -> Result<Vec<String>, Failure> {
    let id = meeting.get();
    let sessions = sessions_of(session, meeting).await?;
    let mut numbers: Vec<i64> = Vec::new();
    for row in session.query(FORGET_FINAL, &[&id]).await? {
        numbers.push(row.try_get(0)?);
    }
    session.execute(FORGET_WORDS, &[&numbers]).await?;
    let of_meeting =
        [FORGET_KEPT, FORGET_LIVE, FORGET_ACTIVE, FORGET_SESSIONS, FORGET_NAMES, FORGET_HEARD];
    for statement in of_meeting {
        session.execute(statement, &[&id]).await?;
    }
    session.execute(FORGET_HEARD_IN, &[&sessions]).await?;
    session.execute(FORGET_SHARES, &[&user.get(), &id]).await?;
    forget_frames(session, meeting).await?;
    Ok(sessions)
}

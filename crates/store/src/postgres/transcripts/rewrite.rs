//! What a user changes in what was said: who said it, or that it was said at all.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Frame, NewFrame};
use roundsman_core::ports::{BotTarget, Rename, Rewritten};
use roundsman_core::transcripts::{Line, mutable_frames, retracted_frames};
use roundsman_core::users::UserId;

use super::forget::{FORGET_NAMES, forget_said};
use super::lock_target;
use super::read::{finals, live_since};
use super::sessions::starts_of;
use super::speakers::names_of;
use crate::postgres::bots::columns::storable_text;
use crate::postgres::effects::write_frames;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::transcripts::{rename_lines, renamed, told_by};

pub(super) struct RenameSpeaker {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) rename: Rename,
    pub(super) now: Timestamp,
}

impl Operation for RenameSpeaker {
    type Answer = Option<Rewritten>;

    async fn run(&self, session: &mut Session) -> Result<Option<Rewritten>, Failure> {
        session.begin();
        let rewritten = match lock_target(session, self.user, &self.target).await? {
            Some(row) => Some(self.rename(session, row.meeting.id).await?),
            None => None,
        };
        session.commit().await?;
        Ok(rewritten)
    }
}

const RENAME_LIVE: &str = "-- rename_live
UPDATE roundsman.live_segments SET speaker = $3, updated_at = $4, seq = $5
 WHERE meeting_id = $1 AND speaker = $2 AND NOT dropped";

const RENAME_DROPPED: &str = "-- rename_dropped
UPDATE roundsman.live_segments SET speaker = $3
 WHERE meeting_id = $1 AND speaker = $2 AND dropped";

/// Before the rows themselves, by which they are found.
const TELL_KEPT: &str = "-- tell_kept
UPDATE roundsman.kept_segments k SET updated_at = $3, seq = $4
  FROM public.transcriptions t
 WHERE t.meeting_id = $1::bigint AND t.speaker = $2 AND k.transcription_id = t.id";

const RENAME_FINAL: &str = "-- rename_final
UPDATE public.transcriptions SET speaker = $3 WHERE meeting_id = $1::bigint AND speaker = $2";

const PUT_NAMES: &str = "-- put_names
INSERT INTO roundsman.speaker_names (meeting_id, name, shown_as)
SELECT $1, x.name, x.shown_as FROM unnest($2::text[], $3::text[]) AS x(name, shown_as)";

impl RenameSpeaker {
    async fn rename(&self, session: &mut Session, id: MeetingId) -> Result<Rewritten, Failure> {
        // No name that is stored has a NUL in it, and none gets one.
        let storable = |name: &str| storable_text(name).into_owned();
        let rename = Rename { from: storable(&self.rename.from), to: storable(&self.rename.to) };
        if rename.from != rename.to {
            let names = names_of(session, id).await?;
            put_names(session, id, &renamed(names, &rename)).await?;
        }
        let mut lines = rename_lines(lines(session, id).await?, &rename, self.now);
        let frames = tell(session, mutable_frames(id, &lines, self.now), self.now).await?;
        told_by(&mut lines, &frames);
        let Rename { from, to } = &rename;
        let (meeting, now) = (id.get(), Time(self.now));
        if let Some(Frame { seq, .. }) = frames.last() {
            session.execute(RENAME_LIVE, &[&meeting, from, to, &now, seq]).await?;
            session.execute(TELL_KEPT, &[&meeting, from, &now, seq]).await?;
            session.execute(RENAME_FINAL, &[&meeting, from, to]).await?;
        }
        // Otherwise what is told again as it was would be a change, and come back.
        session.execute(RENAME_DROPPED, &[&meeting, from, to]).await?;
        Ok(Rewritten {
            meeting_id: id,
            changed: lines.len() as u64,
            frames,
            live: lines.into_iter().filter(|line| !line.kept).collect(),
            sessions: Vec::new(),
        })
    }
}

/// Makes the names of a meeting's speakers exactly these.
async fn put_names(
    session: &mut Session,
    meeting: MeetingId,
    names: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    session.execute(FORGET_NAMES, &[&meeting.get()]).await?;
    let (names, shown_as): (Vec<&str>, Vec<&str>) =
        names.iter().map(|(name, shown_as)| (name.as_str(), shown_as.as_str())).unzip();
    session.execute(PUT_NAMES, &[&meeting.get(), &names, &shown_as]).await?;
    Ok(())
}

pub(super) struct DeleteTranscript {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) now: Timestamp,
}

impl Operation for DeleteTranscript {
    type Answer = Option<Rewritten>;

    async fn run(&self, session: &mut Session) -> Result<Option<Rewritten>, Failure> {
        session.begin();
        let rewritten = match lock_target(session, self.user, &self.target).await? {
            Some(row) => Some(self.delete(session, row.meeting.id).await?),
            None => None,
        };
        session.commit().await?;
        Ok(rewritten)
    }
}

impl DeleteTranscript {
    async fn delete(&self, session: &mut Session, id: MeetingId) -> Result<Rewritten, Failure> {
        let lines = lines(session, id).await?;
        let sessions = forget_said(session, self.user, id).await?;
        let frames = tell(session, retracted_frames(id, &lines, self.now), self.now).await?;
        let changed = lines.len() as u64;
        Ok(Rewritten { meeting_id: id, changed, frames, live: Vec::new(), sessions })
    }
}

/// All that can be read of a meeting: live lines by their keys, then final ones by their numbers.
async fn lines(session: &mut Session, meeting: MeetingId) -> Result<Vec<Line>, Failure> {
    let starts = starts_of(session, meeting).await?;
    let mut lines = live_since(session, meeting, &starts, None).await?.lines;
    lines.extend(finals(session, meeting, &starts).await?);
    Ok(lines)
}

async fn tell(
    session: &mut Session,
    frames: Vec<NewFrame>,
    now: Timestamp,
) -> Result<Vec<Frame>, Failure> {
    write_frames(session, &frames.iter().collect::<Vec<_>>(), now).await
}

//! Hears what is said in the files of a recording, and by whom.

use std::collections::BTreeMap;

use roundsman_core::bots::MeetingId;
use roundsman_core::failpoint;
use roundsman_core::ports::{SessionFilter, StoreError, Transcriber};
use roundsman_core::presence::PresenceSession;
use roundsman_core::recordings::{
    HeardSegment, HeardTrack, Recording, SpokenSegment, TrackName, merge_tracks, parse_track_name,
};

use super::folder::WorkFolder;
use super::gather::{Gathered, report};
use super::trouble::{Stopped, Trouble};
use super::work::RecordingWork;
use crate::jobs::JobContext;

/// Sessions read at once.
const SESSIONS_PER_STEP_MAX: u32 = 500;
/// A meeting of which more is known is no meeting of people; the others have no names.
const SESSION_STEPS_MAX: u32 = 100;

/// One run over one recording.
pub(super) struct Hearing<'a> {
    pub(super) work: &'a RecordingWork,
    pub(super) transcriber: &'a dyn Transcriber,
    pub(super) recording: &'a Recording,
    pub(super) folder: &'a WorkFolder,
    pub(super) context: &'a JobContext,
}

impl Hearing<'_> {
    /// All that was said, in the order in which it was.
    pub(super) async fn run(&self, files: &[Gathered]) -> Result<Vec<SpokenSegment>, Stopped> {
        let names: Vec<Option<TrackName>> = files.iter().map(name_of).collect();
        let speakers = self.speakers(&names).await?;
        let mut tracks = Vec::with_capacity(files.len());
        for (index, (file, name)) in files.iter().zip(&names).enumerate() {
            report(self.context, "transcribing", index, files.len());
            let offset_ms = name.as_ref().map_or(0, TrackName::offset_ms);
            let segments = self.one(file, offset_ms).await?;
            let speaker = name.as_ref().and_then(|name| speakers.get(&name.session_id).cloned());
            let language = self.work.options.language.clone();
            tracks.push(HeardTrack { speaker, offset_ms, language, segments });
        }
        Ok(merge_tracks(tracks))
    }

    async fn one(&self, file: &Gathered, offset_ms: i64) -> Result<Vec<HeardSegment>, Stopped> {
        // A track of somebody who was muted all the time.
        if file.bytes == 0 {
            return Ok(Vec::new());
        }
        if let Some(heard) = self.folder.heard(&file.sha256).await {
            return Ok(heard);
        }
        let mut heard = self.transcriber.transcribe(&file.path).await.map_err(|error| {
            let which = file.track.as_ref().map_or("the recording", |track| &track.key);
            Trouble::of_media(&format!("transcribing {which}"), &error)
        })?;
        // A transcriber that knows no times has said it all at once.
        if let [all] = heard.as_mut_slice()
            && all.end_ms <= 0
        {
            all.end_ms = self.recording.duration_ms.saturating_sub(offset_ms).max(0);
        }
        self.work.metrics.recording_heard();
        failpoint::hit("recordings.heard");
        self.folder.keep_heard(&file.sha256, &heard).await;
        Ok(heard)
    }

    /// Who has which session. People without a name are numbered, so that they are not one.
    async fn speakers(
        &self,
        names: &[Option<TrackName>],
    ) -> Result<BTreeMap<String, String>, Stopped> {
        let ids: Vec<&str> = names.iter().flatten().map(|name| name.session_id.as_str()).collect();
        let known = match self.recording.meeting_id {
            Some(meeting) if !ids.is_empty() => self.names(meeting, &ids).await?,
            _ => BTreeMap::new(),
        };
        let mut speakers: BTreeMap<String, String> = BTreeMap::new();
        let mut nameless = 0;
        for id in ids {
            let number = || {
                nameless += 1;
                format!("Speaker {nameless}")
            };
            let named = || known.get(id).cloned().unwrap_or_else(number);
            speakers.entry(id.to_owned()).or_insert_with(named);
        }
        Ok(speakers)
    }

    async fn names(
        &self,
        meeting: MeetingId,
        ids: &[&str],
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let mut names = BTreeMap::new();
        let mut after = None;
        for _ in 0..SESSION_STEPS_MAX {
            let filter = SessionFilter { open: None, after, rows_max: SESSIONS_PER_STEP_MAX };
            let sessions = self.work.store.presence_sessions(meeting, filter).await?;
            let step = sessions.len();
            after = sessions.last().map(|last| (last.joined_at, last.session_id.clone()));
            for session in sessions.into_iter().filter(|s| ids.contains(&s.session_id.as_str())) {
                names.extend(named(session));
            }
            if step < SESSIONS_PER_STEP_MAX as usize {
                break;
            }
        }
        Ok(names)
    }
}

fn named(session: PresenceSession) -> Option<(String, String)> {
    let PresenceSession { session_id, user_name, user_id, .. } = session;
    // Of somebody without a token the provider makes the session's id the user's.
    let user_id = user_id.filter(|user_id| *user_id != session_id);
    let name = user_name.filter(|name| !name.trim().is_empty()).or(user_id)?;
    Some((session_id, name))
}

fn name_of(file: &Gathered) -> Option<TrackName> {
    file.track.as_ref().and_then(|track| parse_track_name(&track.key))
}

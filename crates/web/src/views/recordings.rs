//! Recordings and what people say about being recorded.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::RecordingFilter;
use roundsman_core::recordings::{Consent, Media, Recording, RecordingStatus, Track, TrackMedium};
use roundsman_core::users::UserId;
use roundsman_engine::recordings::ConsentWish;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{next_before, page_rows};
use crate::problem::{Place, Problem};

/// Which recordings, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecordingListQuery {
    /// Only those of this meeting.
    meeting_id: Option<i64>,
    /// Only those that are this far: `pending`, `processing`, `completed` or `failed`.
    #[param(example = "failed")]
    status: Option<String>,
    /// Only recordings with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Recordings on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A page of recordings, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecordingList)]
pub(crate) struct RecordingListView {
    recordings: Vec<RecordingView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// A recording of a meeting.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recording)]
pub(crate) struct RecordingView {
    /// The provider's name for it.
    #[schema(example = "08fa0b24-9220-44c5-846c-3f116cf8e738")]
    id: String,
    /// Its place in the list.
    #[schema(example = 12)]
    number: i64,
    /// The meeting in its room that began nearest to it; `null` until one is found.
    #[schema(example = 7)]
    meeting_id: Option<i64>,
    /// Whose meeting that is.
    #[schema(example = 3)]
    user_id: Option<i64>,
    #[schema(example = "weekly-sync")]
    room: String,
    /// `cloud`, `cloud-audio-only` or `raw-tracks`.
    #[schema(example = "raw-tracks")]
    r#type: &'static str,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    #[schema(example = 61.5)]
    duration_secs: f64,
    /// Its files at the provider, if it has several.
    tracks: Vec<TrackView>,
    /// Its files here.
    media: Vec<MediaView>,
    /// `pending`, `processing`, `completed` or `failed`.
    #[schema(example = "completed")]
    status: &'static str,
    /// Why it could not be processed.
    error: Option<String>,
    /// How often it was announced beyond the first time.
    #[schema(example = 0)]
    repeats: u32,
    /// How many segments its transcript has.
    #[schema(example = 40)]
    segments: u32,
    #[schema(value_type = String, format = DateTime)]
    announced_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Timestamp>,
    /// When its media were deleted, because somebody had not agreed.
    #[schema(value_type = Option<String>, format = DateTime)]
    erased_at: Option<Timestamp>,
    /// Why they are not deleted yet.
    erase_error: Option<String>,
}

/// A file of a recording at the provider.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecordingTrack)]
struct TrackView {
    /// `audio` or `video`.
    #[schema(example = "audio")]
    r#type: &'static str,
    key: String,
    bytes: Option<u64>,
}

/// A file of a recording that is kept here.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecordingMedia)]
struct MediaView {
    /// The track that it is; empty for a recording that is one file.
    track: String,
    /// Its name in the store of media.
    blob: String,
    bytes: u64,
    sha256: String,
}

/// What somebody says about being recorded.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ConsentRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConsentBody {
    /// Who; without it, somebody who has no name here and is counted by themselves.
    #[schema(max_length = 200, example = "ada")]
    person: Option<String>,
    /// Whether they agree. `consent_given` is read, too.
    #[serde(alias = "consent_given")]
    given: bool,
}

/// What somebody has said about being recorded.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Consent)]
pub(crate) struct ConsentView {
    #[schema(example = "ada")]
    person: String,
    given: bool,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

/// The latest word of each person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConsentList)]
pub(crate) struct ConsentListView {
    consents: Vec<ConsentView>,
    /// Somebody does not agree: media are not kept.
    is_denied: bool,
}

impl RecordingListQuery {
    pub(crate) fn check(self) -> Result<(RecordingFilter, Option<i64>, u32), Problem> {
        let RecordingListQuery { meeting_id, status, before, limit } = self;
        let status = status
            .map(|text| {
                let unknown = || Problem::field("status", "is no status").at(Place::Query);
                RecordingStatus::parse(&text).ok_or_else(unknown)
            })
            .transpose()?;
        let rows_max = page_rows(limit).map_err(|problem| problem.at(Place::Query))?;
        let meeting = meeting_id.map(MeetingId::new);
        Ok((RecordingFilter { meeting, status }, before, rows_max))
    }
}

impl RecordingListView {
    pub(crate) fn new(recordings: Vec<Recording>, rows_max: u32) -> Self {
        RecordingListView {
            next_before: next_before(recordings.iter().map(|recording| recording.no), rows_max),
            recordings: recordings.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Recording> for RecordingView {
    fn from(recording: Recording) -> Self {
        let duration_ms = u64::try_from(recording.duration_ms).unwrap_or(0);
        RecordingView {
            id: recording.id.as_str().to_owned(),
            number: recording.no,
            meeting_id: recording.meeting_id.map(MeetingId::get),
            user_id: recording.user_id.map(UserId::get),
            room: recording.room.as_str().to_owned(),
            r#type: recording.kind.as_str(),
            started_at: recording.started_at,
            duration_secs: std::time::Duration::from_millis(duration_ms).as_secs_f64(),
            tracks: recording.tracks.into_iter().map(Into::into).collect(),
            media: recording.media.into_iter().map(Into::into).collect(),
            status: recording.status.as_str(),
            error: recording.error,
            repeats: recording.repeats,
            segments: recording.segments,
            announced_at: recording.announced_at,
            updated_at: recording.updated_at,
            completed_at: recording.completed_at,
            erased_at: recording.erased_at,
            erase_error: recording.erase_error,
        }
    }
}

impl From<Track> for TrackView {
    fn from(track: Track) -> Self {
        let r#type = match track.medium {
            TrackMedium::Audio => "audio",
            TrackMedium::Video => "video",
        };
        TrackView { r#type, key: track.key, bytes: track.bytes }
    }
}

impl From<Media> for MediaView {
    fn from(media: Media) -> Self {
        let Media { track, blob, bytes, sha256 } = media;
        MediaView { track, blob, bytes, sha256 }
    }
}

impl From<ConsentBody> for ConsentWish {
    fn from(body: ConsentBody) -> Self {
        ConsentWish { person: body.person, given: body.given }
    }
}

impl From<Consent> for ConsentView {
    fn from(consent: Consent) -> Self {
        let Consent { person, given, at } = consent;
        ConsentView { person, given, at }
    }
}

impl From<Vec<Consent>> for ConsentListView {
    fn from(consents: Vec<Consent>) -> Self {
        let is_denied = consents.iter().any(|consent| !consent.given);
        let consents = consents.into_iter().map(Into::into).collect();
        ConsentListView { consents, is_denied }
    }
}

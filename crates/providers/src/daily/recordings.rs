//! Recordings at Daily.
//!
//! Daily gives a link to a recording that is one file. Raw tracks it writes into a bucket of its
//! customer's and gives no link to: they are read there, by a link that we sign ourselves, and
//! deleted there. A base that gives links to them (`access-link?s3_key=…`) is configured as one,
//! because Daily would pass over the question and answer for the whole recording.

use async_trait::async_trait;
use hyper::Method;
use roundsman_core::daily::{Listed, ListedPage, read_listed, read_recordings_page};
use roundsman_core::ports::{MediaError, RecordingsPage, RoomsError, Urgency, VideoRecordings};
use roundsman_core::recordings::{RecordingId, Track};

use super::api::Ask;
use super::limiter::Class;
use super::{DailyClient, wire};

/// As many as Daily gives at once.
const PAGE_ENTRIES: usize = 100;
/// How long a link is good for: it is used at once, and asked for again when a download is resumed.
const LINK_SECS: u32 = 3600;
/// Why raw tracks can be neither read nor deleted.
const NO_BUCKET: &str = "raw tracks are in a bucket of the domain's, and none is configured";

#[async_trait]
impl VideoRecordings for DailyClient {
    async fn recordings_page(&self, after: Option<&str>) -> Result<RecordingsPage, RoomsError> {
        let limit = PAGE_ENTRIES.to_string();
        let mut query = vec![("limit", limit.as_str())];
        query.extend(after.map(|id| ("starting_after", id)));
        let ask = Ask::new(Method::GET, &["recordings"], Urgency::Routine);
        let body = self.api.ask(Ask { query: &query, class: Class::Scarce, ..ask }).await?;
        page(read_recordings_page(&body)?, after)
    }

    async fn access_link(
        &self,
        id: &RecordingId,
        track: Option<&Track>,
    ) -> Result<String, RoomsError> {
        if let Some(track) = track
            && !self.has_track_links
        {
            let bucket = self.tracks.as_ref().ok_or_else(no_bucket)?;
            return Ok(bucket.link(&track.key, LINK_SECS));
        }
        let valid_for = LINK_SECS.to_string();
        let mut query = vec![("valid_for_secs", valid_for.as_str())];
        query.extend(track.map(|track| ("s3_key", track.key.as_str())));
        let path = ["recordings", id.as_str(), "access-link"];
        let ask = Ask::new(Method::GET, &path, Urgency::Routine);
        let body = self.api.ask(Ask { query: &query, ..ask }).await?;
        wire::access_link(&body)
    }

    async fn delete_recording(&self, id: &RecordingId) -> Result<bool, RoomsError> {
        // Whoever asks may have forgotten the names of its tracks; Daily has not.
        let tracks = if self.tracks.is_some() { self.tracks_of(id).await? } else { Vec::new() };
        self.delete_tracks(&tracks).await?;
        self.delete(&["recordings", id.as_str()], Class::Most).await
    }

    async fn delete_tracks(&self, tracks: &[Track]) -> Result<(), RoomsError> {
        // Who gives links to tracks has them, and deletes them with their recording.
        if tracks.is_empty() || self.has_track_links {
            return Ok(());
        }
        let bucket = self.tracks.as_ref().ok_or_else(no_bucket)?;
        for track in tracks {
            bucket.delete(&track.key).await.map_err(|error| undeleted(&error))?;
        }
        Ok(())
    }
}

impl DailyClient {
    /// The tracks of a recording, as Daily knows them; none if there is no such recording.
    async fn tracks_of(&self, id: &RecordingId) -> Result<Vec<Track>, RoomsError> {
        let path = ["recordings", id.as_str()];
        let body = match self.api.ask(Ask::new(Method::GET, &path, Urgency::Routine)).await {
            Err(RoomsError::NotFound) => return Ok(Vec::new()),
            body => body?,
        };
        Ok(match read_listed(&wire::object(&body)?) {
            Listed::Finished(found) => found.tracks,
            Listed::Unfinished(_) | Listed::Nothing | Listed::Odd(_) => Vec::new(),
        })
    }
}

fn no_bucket() -> RoomsError {
    RoomsError::Refused(NO_BUCKET.to_owned())
}

fn undeleted(error: &MediaError) -> RoomsError {
    let said = format!("a raw track: {error}");
    match error {
        MediaError::Refused(_) => RoomsError::Refused(said),
        _ => RoomsError::Unavailable(said),
    }
}

fn page(listed: ListedPage, after: Option<&str>) -> Result<RecordingsPage, RoomsError> {
    let ListedPage { entries, total, last } = listed;
    let count = entries.len();
    // Of a first page the total tells whether it is whole; of a later one only its length does.
    let is_short = after.is_none()
        && total.is_some_and(|total| u64::try_from(count).is_ok_and(|count| count < total));
    let has_more = count >= PAGE_ENTRIES || is_short;
    let mut page = RecordingsPage::default();
    for entry in entries {
        match entry {
            Listed::Finished(announcement) => page.finished.push(announcement),
            Listed::Unfinished(id) => page.unfinished.push(id),
            Listed::Nothing => {}
            Listed::Odd(reason) => {
                tracing::debug!(%reason, "an entry of the list of recordings is left out");
                page.odd += 1;
            }
        }
    }
    if has_more {
        // Without a name to go on from, what follows would be lost without a word.
        let last = last.ok_or_else(|| RoomsError::Odd("it is not whole".to_owned()))?;
        // Going on from where we began would never end.
        if after == Some(last.as_str()) {
            return Err(RoomsError::Odd("it does not go on".to_owned()));
        }
        page.next_after = Some(last);
    }
    Ok(page)
}

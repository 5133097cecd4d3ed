//! The provider, its files, where they are kept and who hears them. What is said in a file is what is
//! written in it: a line for each segment, such as `1500-2000 hello`.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use roundsman_core::ports::{
    Fetched, MediaError, MediaFetcher, MediaStore, RecordingsPage, RoomsError, Transcriber,
    VideoRecordings,
};
use roundsman_core::recordings::{Announcement, HeardSegment, RecordingId, Track, Via};
use sha2::{Digest, Sha256};

use super::steps::Steps;

/// Everything outside, and what it was asked.
pub(super) struct Outside {
    pub(super) steps: Arc<Steps>,
    state: Mutex<State>,
}

struct State {
    /// Newest first, with whether it is finished.
    list: Vec<(Announcement, bool)>,
    page_entries: usize,
    /// After so many pages the provider does not know where the next one begins.
    forgets_after: Option<usize>,
    pages: usize,
    /// Whatever is asked for is answered with the first page.
    is_circle: bool,
    files: BTreeMap<String, String>,
    blobs: BTreeMap<String, Vec<u8>>,
    heard: Vec<String>,
    deleted: Vec<String>,
    provider_faults: BTreeMap<&'static str, VecDeque<RoomsError>>,
    media_faults: BTreeMap<&'static str, VecDeque<MediaError>>,
}

impl Outside {
    pub(super) fn new(steps: Arc<Steps>) -> Self {
        let state = State {
            list: Vec::new(),
            page_entries: 100,
            forgets_after: None,
            pages: 0,
            is_circle: false,
            files: BTreeMap::new(),
            blobs: BTreeMap::new(),
            heard: Vec::new(),
            deleted: Vec::new(),
            provider_faults: BTreeMap::new(),
            media_faults: BTreeMap::new(),
        };
        Outside { steps, state: Mutex::new(state) }
    }

    /// The provider lists a recording from now on, as the newest.
    pub(super) fn list(&self, announcement: &Announcement) {
        let announcement = Announcement { via: Via::Poll, ..announcement.clone() };
        self.state().list.insert(0, (announcement, true));
    }

    /// The same for one that goes on.
    pub(super) fn list_unfinished(&self, announcement: &Announcement) {
        self.list(announcement);
        self.state().list[0].1 = false;
    }

    /// It is finished.
    pub(super) fn finish(&self, id: &RecordingId) {
        let mut state = self.state();
        state.list.iter_mut().find(|(listed, _)| listed.id == *id).unwrap().1 = true;
    }

    /// Somebody deletes it at the provider.
    pub(super) fn unlist(&self, id: &str) {
        self.state().list.retain(|(listed, _)| listed.id.as_str() != id);
    }

    pub(super) fn pages_of(&self, entries: usize) {
        self.state().page_entries = entries;
    }

    /// From now on places in the list are forgotten, each time after so many pages; or no more.
    pub(super) fn forget_places_after(&self, pages: Option<usize>) {
        let mut state = self.state();
        (state.forgets_after, state.pages) = (pages, 0);
    }

    /// The list goes round in a circle, or no more.
    pub(super) fn go_round(&self, is_circle: bool) {
        self.state().is_circle = is_circle;
    }

    /// What is said in a recording, or in one of its tracks.
    pub(super) fn says(&self, id: &RecordingId, track: &str, content: &str) {
        self.state().files.insert(link(id, track), content.to_owned());
    }

    /// The next call of this name is answered so; several in order.
    pub(super) fn provider_fails(&self, call: &'static str, error: RoomsError) {
        self.state().provider_faults.entry(call).or_default().push_back(error);
    }

    pub(super) fn media_fails(&self, call: &'static str, error: MediaError) {
        self.state().media_faults.entry(call).or_default().push_back(error);
    }

    /// The names of all that is kept.
    pub(super) fn blobs(&self) -> Vec<String> {
        self.state().blobs.keys().cloned().collect()
    }

    /// Somebody deletes what is kept.
    pub(super) fn lose_blobs(&self) {
        self.state().blobs.clear();
    }

    /// What was transcribed, in order.
    pub(super) fn heard(&self) -> Vec<String> {
        self.state().heard.clone()
    }

    /// What was deleted at the provider.
    pub(super) fn deleted(&self) -> Vec<String> {
        self.state().deleted.clone()
    }

    fn provider_fault(&self, call: &'static str) -> Result<(), RoomsError> {
        let mut state = self.state();
        state.provider_faults.get_mut(call).and_then(VecDeque::pop_front).map_or(Ok(()), Err)
    }

    fn media_fault(&self, call: &'static str) -> Result<(), MediaError> {
        let mut state = self.state();
        state.media_faults.get_mut(call).and_then(VecDeque::pop_front).map_or(Ok(()), Err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self, after: Option<&str>) -> Result<RecordingsPage, RoomsError> {
        self.provider_fault("recordings_page")?;
        let mut state = self.state();
        if state.forgets_after == Some(state.pages) {
            state.pages = 0;
            return Err(RoomsError::Refused("no such cursor".to_owned()));
        }
        state.pages += 1;
        let start = match after.filter(|_| !state.is_circle) {
            None => 0,
            Some(after) => {
                let place = state.list.iter().position(|(listed, _)| listed.id.as_str() == after);
                place.ok_or_else(|| RoomsError::Refused("no such cursor".to_owned()))? + 1
            }
        };
        let entries: Vec<_> = state.list.iter().skip(start).take(state.page_entries).collect();
        let more = start + entries.len() < state.list.len();
        let last = entries.last().map(|(last, _)| last.id.as_str().to_owned());
        let (finished, unfinished): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(_, finished)| *finished);
        Ok(RecordingsPage {
            finished: finished.into_iter().map(|(listed, _)| listed.clone()).collect(),
            unfinished: unfinished.iter().map(|(l, _)| l.id.as_str().to_owned()).collect(),
            odd: 0,
            next_after: last.filter(|_| more),
        })
    }
}

#[async_trait]
impl VideoRecordings for Outside {
    async fn recordings_page(&self, after: Option<&str>) -> Result<RecordingsPage, RoomsError> {
        self.steps.step("recordings_page", async { self.page(after) }).await
    }

    async fn access_link(
        &self,
        id: &RecordingId,
        track: Option<&Track>,
    ) -> Result<String, RoomsError> {
        let work = async {
            self.provider_fault("access_link")?;
            Ok(link(id, track.map_or("", |track| &track.key)))
        };
        self.steps.step("access_link", work).await
    }

    async fn delete_recording(&self, id: &RecordingId) -> Result<bool, RoomsError> {
        let work = async {
            self.provider_fault("delete_recording")?;
            let mut state = self.state();
            let is_new = !state.deleted.iter().any(|deleted| deleted == id.as_str());
            state.deleted.push(id.as_str().to_owned());
            Ok(is_new)
        };
        self.steps.step("delete_recording", work).await
    }
}

#[async_trait]
impl MediaFetcher for Outside {
    async fn download(&self, link: &str, to: &Path) -> Result<Fetched, MediaError> {
        let work = async {
            self.media_fault("download")?;
            let content = self.state().files.get(link).cloned().ok_or(MediaError::NotFound)?;
            std::fs::write(to, &content).unwrap();
            Ok(Fetched { bytes: content.len() as u64, sha256: sha256(content.as_bytes()) })
        };
        self.steps.step("download", work).await
    }
}

#[async_trait]
impl MediaStore for Outside {
    async fn keep(&self, file: &Path, hash: &str) -> Result<String, MediaError> {
        let work = async {
            self.media_fault("keep")?;
            let content = std::fs::read(file).unwrap();
            assert_eq!(sha256(&content), hash);
            self.state().blobs.insert(hash.to_owned(), content);
            Ok(hash.to_owned())
        };
        self.steps.step("keep", work).await
    }

    async fn read(&self, blob: &str, to: &Path) -> Result<(), MediaError> {
        let work = async {
            self.media_fault("read")?;
            let content = self.state().blobs.get(blob).cloned().ok_or(MediaError::NotFound)?;
            std::fs::write(to, content).unwrap();
            Ok(())
        };
        self.steps.step("read", work).await
    }

    async fn delete(&self, blob: &str) -> Result<bool, MediaError> {
        let work = async {
            self.media_fault("delete")?;
            Ok(self.state().blobs.remove(blob).is_some())
        };
        self.steps.step("delete", work).await
    }
}

#[async_trait]
impl Transcriber for Outside {
    async fn transcribe(&self, audio: &Path) -> Result<Vec<HeardSegment>, MediaError> {
        let work = async {
            self.media_fault("transcribe")?;
            let content = std::fs::read_to_string(audio).unwrap();
            self.state().heard.push(content.clone());
            Ok(content.lines().map(segment).collect())
        };
        self.steps.step("transcribe", work).await
    }
}

fn segment(line: &str) -> HeardSegment {
    let (times, text) = line.split_once(' ').unwrap();
    let (start, end) = times.split_once('-').unwrap();
    let (start_ms, end_ms) = (start.parse().unwrap(), end.parse().unwrap());
    HeardSegment { start_ms, end_ms, text: text.to_owned() }
}

fn link(id: &RecordingId, track: &str) -> String {
    format!("https://files.example/{}?track={track}", id.as_str())
}

fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

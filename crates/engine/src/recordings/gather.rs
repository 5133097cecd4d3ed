//! Gets the files of a recording: those that are kept already from where they are kept, the others
//! from the provider.

use std::path::{Path, PathBuf};

use roundsman_core::failpoint;
use roundsman_core::jobs::{Json, LeaseRef};
use roundsman_core::ports::{MediaError, VideoRecordings, files_of};
use roundsman_core::recordings::{Media, Recording, Track};
use serde_json::json;

use super::folder::WorkFolder;
use super::trouble::{Stopped, Trouble};
use super::work::RecordingWork;
use crate::jobs::JobContext;

/// A file of a recording that is here and kept.
#[derive(Debug)]
pub(super) struct Gathered {
    /// `None` for a recording that is one file.
    pub(super) track: Option<Track>,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// One run over one recording.
pub(super) struct Gathering<'a> {
    pub(super) work: &'a RecordingWork,
    pub(super) provider: &'a dyn VideoRecordings,
    pub(super) recording: &'a Recording,
    pub(super) folder: &'a WorkFolder,
    pub(super) context: &'a JobContext,
}

impl Gathering<'_> {
    pub(super) async fn run(&self) -> Result<Vec<Gathered>, Stopped> {
        let tracks = files_of(self.recording);
        let mut gathered = Vec::with_capacity(tracks.len());
        for (index, track) in tracks.iter().enumerate() {
            report(self.context, "downloading", index, tracks.len());
            gathered.push(self.one(index, *track).await?);
        }
        Ok(gathered)
    }

    async fn one(&self, index: usize, track: Option<&Track>) -> Result<Gathered, Stopped> {
        let path = self.folder.file(index);
        let key = track.map_or("", |track| track.key.as_str());
        let kept = self.recording.media.iter().find(|media| media.track == key);
        let media = match kept {
            Some(media) if self.is_read(media, &path).await? => media.clone(),
            _ => self.download(track, key, &path).await?,
        };
        let Media { bytes, sha256, .. } = media;
        Ok(Gathered { track: track.cloned(), path, bytes, sha256 })
    }

    /// Whether a file could be taken from where it is kept.
    async fn is_read(&self, media: &Media, path: &Path) -> Result<bool, Stopped> {
        match self.work.media.read(&media.blob, path).await {
            Ok(()) => Ok(true),
            Err(MediaError::NotFound) => Ok(false),
            Err(error) => Err(Trouble::of_media("reading what was kept", &error).into()),
        }
    }

    /// Each file is noted as soon as it is kept, so that what follows may fail without it.
    async fn download(
        &self,
        track: Option<&Track>,
        key: &str,
        path: &Path,
    ) -> Result<Media, Stopped> {
        let RecordingWork { recordings, fetcher, media, metrics, clock, .. } = self.work;
        let id = &self.recording.id;
        let link = self.provider.access_link(id, track).await;
        let link = link.map_err(|error| Trouble::of_provider(&error))?;
        let fetched = fetcher.download(&link, path).await;
        let fetched = fetched.map_err(|error| Trouble::of_media("downloading", &error))?;
        metrics.recording_downloaded(fetched.bytes);
        failpoint::hit("recordings.downloaded");
        let blob = media.keep(path, &fetched.sha256).await;
        let blob = blob.map_err(|error| Trouble::of_media("keeping", &error))?;
        failpoint::hit("recordings.kept");
        let kept =
            Media { track: key.to_owned(), blob, bytes: fetched.bytes, sha256: fetched.sha256 };
        let lease: LeaseRef = self.context.lease;
        let noted =
            recordings.keep_media(id.clone(), vec![kept.clone()], lease, clock.now()).await?;
        if noted { Ok(kept) } else { Err(Stopped::LeaseLost) }
    }
}

/// Tells how far the work is.
pub(super) fn report(context: &JobContext, doing: &'static str, index: usize, files: usize) {
    let progress = json!({"doing": doing, "file": index + 1, "files": files});
    context.report_progress(Json::from_value(&progress).unwrap_or_else(|_| Json::null()));
}

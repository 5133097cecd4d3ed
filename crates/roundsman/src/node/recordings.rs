//! Recordings of this node: where their files are kept, who hears what is said in them, and the jobs
//! that do both.

use std::sync::Arc;

use anyhow::Context;
use roundsman_core::Timestamp;
use roundsman_core::jobs::NewJob;
use roundsman_core::ports::{MediaStore, Transcriber, VideoRecordings};
use roundsman_engine::jobs::Handler;
use roundsman_engine::recordings::{RecordingOptions, RecordingWork, Recordings, recording_wishes};
use roundsman_engine::transcripts::Transcripts;
use roundsman_providers::media::{
    FetchLimits, FolderMediaStore, HttpMediaFetcher, S3MediaStore, S3Options,
};
use roundsman_providers::transcriber::{HttpTranscriber, TranscriberOptions};
use secrecy::ExposeSecret;

use super::bots::Parts;
use crate::config::{Config, MediaPlace, endpoint_of};

/// In the data folder: what is kept, and what is being worked on.
const MEDIA_FOLDER: &str = "media";
const WORK_FOLDER: &str = "recordings";

/// The service for the edge, and the handlers for the worker.
pub(super) struct NodeRecordings {
    pub(super) recordings: Recordings,
    pub(super) handlers: Vec<Arc<dyn Handler>>,
}

impl NodeRecordings {
    /// `provider` is `None` if nobody is configured.
    pub(super) fn build(
        parts: &Parts<'_>,
        transcripts: &Transcripts,
        provider: Option<Arc<dyn VideoRecordings>>,
    ) -> anyhow::Result<NodeRecordings> {
        let config = parts.config;
        let limits =
            FetchLimits { bytes_max: config.recordings.file_bytes_max, ..FetchLimits::default() };
        let fetcher = HttpMediaFetcher::new(limits, None).context("[recordings]")?;
        let work = RecordingWork {
            store: parts.store.clone(),
            recordings: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            wakes: parts.wakes.clone(),
            metrics: parts.metrics.clone(),
            transcripts: transcripts.clone(),
            provider,
            fetcher: Arc::new(fetcher),
            media: media(parts)?,
            transcriber: transcriber(config)?,
            options: options(config),
        };
        let handlers = work.handlers();
        Ok(NodeRecordings { recordings: Recordings::new(&work), handlers })
    }

    /// The wishes that keep the periodic jobs alive. Nobody is asked without a key.
    pub(super) fn wishes(config: &Config, now: Timestamp) -> Vec<NewJob> {
        if config.daily.api_key.is_some() { recording_wishes(now) } else { Vec::new() }
    }
}

fn options(config: &Config) -> RecordingOptions {
    let settings = &config.recordings;
    let has_events = config.daily.webhook_secret.is_some();
    RecordingOptions {
        poll_every: if has_events { settings.poll } else { settings.poll_without_events },
        at_once_max: settings.process_at_once_max,
        language: config.transcriber.language.clone(),
        ..RecordingOptions::new(config.server.data.join(WORK_FOLDER), has_events)
    }
}

pub(super) fn media(parts: &Parts<'_>) -> anyhow::Result<Arc<dyn MediaStore>> {
    let settings = &parts.config.recordings;
    let (bucket, prefix) = match &settings.media {
        MediaPlace::Data => {
            let folder = parts.config.server.data.join(MEDIA_FOLDER);
            return Ok(Arc::new(FolderMediaStore::new(folder)));
        }
        MediaPlace::Folder(folder) => return Ok(Arc::new(FolderMediaStore::new(folder.clone()))),
        MediaPlace::Bucket { bucket, prefix } => (bucket, prefix),
    };
    let access_key =
        settings.s3_access_key.as_ref().context("[recordings] s3_access_key is empty")?;
    let secret_key =
        settings.s3_secret_key.clone().context("[recordings] s3_secret_key is empty")?;
    let options = S3Options::new(
        settings.s3_endpoint(),
        settings.s3_region.clone(),
        bucket.clone(),
        access_key.expose_secret().to_owned(),
        secret_key,
    );
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    let store = S3MediaStore::new(&S3Options { prefix, ..options }, parts.clock.clone());
    Ok(Arc::new(store.context("[recordings]")?))
}

/// Where the provider puts raw tracks; what is not said of it is as with what we keep.
pub(super) fn tracks(config: &Config) -> anyhow::Result<Option<S3Options>> {
    let (daily, settings) = (&config.daily, &config.recordings);
    let Some(bucket) = &daily.tracks_bucket else { return Ok(None) };
    let access_key = daily.tracks_s3_access_key.as_ref().or(settings.s3_access_key.as_ref());
    let secret_key = daily.tracks_s3_secret_key.as_ref().or(settings.s3_secret_key.as_ref());
    let region = daily.tracks_s3_region.as_ref().unwrap_or(&settings.s3_region);
    let endpoint = match (&daily.tracks_s3_endpoint, &daily.tracks_s3_region) {
        (Some(endpoint), _) => endpoint.clone(),
        (None, Some(region)) => endpoint_of(region),
        (None, None) => settings.s3_endpoint(),
    };
    Ok(Some(S3Options::new(
        endpoint,
        region.clone(),
        bucket.clone(),
        access_key.context("[daily] tracks_s3_access_key is empty")?.expose_secret().to_owned(),
        secret_key.context("[daily] tracks_s3_secret_key is empty")?.clone(),
    )))
}

/// `None` if nobody is configured.
fn transcriber(config: &Config) -> anyhow::Result<Option<Arc<dyn Transcriber>>> {
    let settings = &config.transcriber;
    let Some(url) = &settings.url else { return Ok(None) };
    let options = TranscriberOptions {
        model: settings.model.clone(),
        language: settings.language.clone(),
        api_key: settings.api_key.clone(),
        time_max: settings.request_max,
        ..TranscriberOptions::new(url.clone())
    };
    Ok(Some(Arc::new(HttpTranscriber::new(&options).context("[transcriber]")?)))
}

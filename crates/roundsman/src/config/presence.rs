//! The sections about video rooms: the provider, who is in which room, what was recorded there.

use std::path::PathBuf;
use std::time::Duration;

use roundsman_core::presence::PresenceRules;
use secrecy::SecretString;

use super::bots::parse_url;
use super::reader::Reader;
use super::sections::{hours, ms, secs};

#[derive(Debug, Clone)]
pub(crate) struct Daily {
    pub(crate) api_url: String,
    pub(crate) api_key: Option<SecretString>,
    pub(crate) webhook_secret: Option<SecretString>,
    pub(crate) webhook_secrets_accepted: Vec<SecretString>,
    pub(crate) webhook_url: Option<String>,
    pub(crate) webhook_window: Duration,
    pub(crate) requests_per_sec_max: usize,
    pub(crate) recording_requests_per_sec_max: usize,
    pub(crate) request_max: Duration,
    /// Where raw tracks are; what is not said is as with recordings.
    pub(crate) tracks_bucket: Option<String>,
    pub(crate) tracks_s3_endpoint: Option<String>,
    pub(crate) tracks_s3_region: Option<String>,
    pub(crate) tracks_s3_access_key: Option<SecretString>,
    pub(crate) tracks_s3_secret_key: Option<SecretString>,
}

#[derive(Debug, Clone)]
pub(crate) struct Presence {
    pub(crate) rules: PresenceRules,
    pub(crate) debounce: Duration,
    pub(crate) debounce_max: Duration,
    pub(crate) reconcile: Duration,
    pub(crate) process: Duration,
    pub(crate) subscription: Duration,
    pub(crate) inbox: Duration,
    pub(crate) looks_at_once_max: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Recordings {
    pub(crate) poll: Duration,
    pub(crate) poll_without_events: Duration,
    pub(crate) process_at_once_max: usize,
    pub(crate) file_bytes_max: u64,
    pub(crate) media: MediaPlace,
    pub(crate) s3_endpoint: Option<String>,
    pub(crate) s3_region: String,
    pub(crate) s3_access_key: Option<SecretString>,
    pub(crate) s3_secret_key: Option<SecretString>,
}

/// Where files are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MediaPlace {
    /// In the data folder.
    Data,
    Folder(PathBuf),
    Bucket {
        bucket: String,
        prefix: String,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Transcriber {
    pub(crate) url: Option<String>,
    pub(crate) api_key: Option<SecretString>,
    pub(crate) model: String,
    pub(crate) language: Option<String>,
    pub(crate) request_max: Duration,
}

impl Daily {
    pub(super) fn read(reader: &mut Reader<'_>) -> Daily {
        Daily {
            api_url: reader.text("daily.api_url", String::new(), |text| {
                parse_url(text)?.ok_or_else(|| "write https://api.daily.co/v1".to_owned())
            }),
            api_key: reader.secret("daily.api_key", 1),
            webhook_secret: reader.secret("daily.webhook_secret", 1),
            webhook_secrets_accepted: reader.secrets("daily.webhook_secrets_accepted", 1),
            webhook_url: reader.text("daily.webhook_url", None, parse_url),
            webhook_window: reader.duration("daily.webhook_window_secs", secs(1)..=hours(24)),
            requests_per_sec_max: reader.number("daily.requests_per_sec_max", 1..=10_000),
            recording_requests_per_sec_max: reader
                .number("daily.recording_requests_per_sec_max", 1..=10_000),
            request_max: reader.duration("daily.request_secs_max", ms(100)..=secs(60)),
            tracks_bucket: reader.text("daily.tracks_bucket", None, parse_bucket),
            tracks_s3_endpoint: reader.text("daily.tracks_s3_endpoint", None, parse_url),
            tracks_s3_region: reader.text("daily.tracks_s3_region", None, optional_word),
            tracks_s3_access_key: reader.secret("daily.tracks_s3_access_key", 1),
            tracks_s3_secret_key: reader.secret("daily.tracks_s3_secret_key", 1),
        }
    }
}

impl Presence {
    pub(super) fn read(reader: &mut Reader<'_>) -> Presence {
        let day = hours(24);
        let rules = PresenceRules {
            lag: reader.duration("presence.lag_secs", ms(0)..=hours(1)),
            gone_grace: reader.duration("presence.gone_grace_secs", ms(0)..=day),
            empty_grace: reader.duration("presence.empty_grace_secs", ms(0)..=day),
            unused_for: reader.duration("presence.unused_secs", secs(1)..=day * 30),
            ..PresenceRules::default()
        };
        Presence {
            rules,
            debounce: reader.duration("presence.debounce_secs", ms(0)..=secs(60)),
            debounce_max: reader.duration("presence.debounce_secs_max", ms(0)..=secs(60)),
            reconcile: reader.duration("presence.reconcile_secs", ms(100)..=hours(1)),
            process: reader.duration("presence.process_secs", ms(100)..=hours(1)),
            subscription: reader.duration("presence.subscription_secs", secs(1)..=day),
            inbox: reader.duration("presence.inbox_hours", hours(1)..=hours(87_600)),
            looks_at_once_max: reader.number("presence.looks_at_once_max", 1..=1000),
        }
    }
}

impl Recordings {
    /// The region's, if no other is named.
    pub(crate) fn s3_endpoint(&self) -> String {
        self.s3_endpoint.clone().unwrap_or_else(|| endpoint_of(&self.s3_region))
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Recordings {
        let hour = hours(1);
        Recordings {
            poll: reader.duration("recordings.poll_secs", ms(100)..=hour),
            poll_without_events: reader
                .duration("recordings.poll_without_events_secs", ms(100)..=hour),
            process_at_once_max: reader.number("recordings.process_at_once_max", 1..=100),
            file_bytes_max: reader.number("recordings.file_bytes_max", 1..=1 << 44),
            media: reader.text("recordings.media", MediaPlace::Data, parse_media),
            s3_endpoint: reader.text("recordings.s3_endpoint", None, parse_url),
            s3_region: reader.text("recordings.s3_region", String::new(), word),
            s3_access_key: reader.secret("recordings.s3_access_key", 1),
            s3_secret_key: reader.secret("recordings.s3_secret_key", 1),
        }
    }
}

impl Transcriber {
    pub(super) fn read(reader: &mut Reader<'_>) -> Transcriber {
        Transcriber {
            url: reader.text("transcriber.url", None, parse_url),
            api_key: reader.secret("transcriber.api_key", 1),
            model: reader.text("transcriber.model", String::new(), word),
            language: reader.text("transcriber.language", None, optional_word),
            request_max: reader.duration("transcriber.request_secs_max", secs(1)..=hours(24)),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the shape that the reader asks for")]
fn word(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "the shape that the reader asks for")]
fn optional_word(text: &str) -> Result<Option<String>, String> {
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Where a region's S3 is.
pub(crate) fn endpoint_of(region: &str) -> String {
    format!("https://s3.{region}.amazonaws.com")
}

/// Names of objects come from the provider, whole: there is nothing to put before them.
fn parse_bucket(text: &str) -> Result<Option<String>, String> {
    let bucket = text.strip_prefix("s3://").unwrap_or(text).trim_end_matches('/');
    if bucket.contains('/') {
        return Err("write the name of a bucket, or s3://BUCKET".to_owned());
    }
    optional_word(bucket)
}

fn parse_media(text: &str) -> Result<MediaPlace, String> {
    let Some(rest) = text.strip_prefix("s3://") else {
        return Ok(match text {
            "" => MediaPlace::Data,
            path => MediaPlace::Folder(PathBuf::from(path)),
        });
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err("write a path, or s3://BUCKET/PREFIX".to_owned());
    }
    let prefix = prefix.trim_matches('/').to_owned();
    Ok(MediaPlace::Bucket { bucket: bucket.to_owned(), prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_tracks_are_in_a_bucket() {
        for text in ["b", "s3://b", "s3://b/"] {
            assert_eq!(parse_bucket(text), Ok(Some("b".to_owned())), "{text}");
        }
        assert_eq!(parse_bucket(""), Ok(None));
        assert!(parse_bucket("s3://b/p").is_err());
    }

    #[test]
    fn media_are_kept_in_a_folder_or_a_bucket() {
        assert_eq!(parse_media(""), Ok(MediaPlace::Data));
        assert_eq!(parse_media("/srv/x"), Ok(MediaPlace::Folder(PathBuf::from("/srv/x"))));
        let bucket = |prefix: &str| {
            Ok(MediaPlace::Bucket { bucket: "b".to_owned(), prefix: prefix.to_owned() })
        };
        assert_eq!(parse_media("s3://b"), bucket(""));
        assert_eq!(parse_media("s3://b/p/q/"), bucket("p/q"));
        assert!(parse_media("s3://").is_err());
    }
}

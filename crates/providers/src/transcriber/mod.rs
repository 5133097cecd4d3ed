//! Hears what is said in a file, through an OpenAI-compatible endpoint.
//!
//! Invariants: the file is sent as it is read, never held in memory; an answer that cannot be
//! understood is no transcript; the key appears in no log and no error.

mod form;
mod reading;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use roundsman_core::ports::{MediaError, Transcriber};
use roundsman_core::recordings::HeardSegment;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use url::Url;

use crate::http::{self, CallError, Exchange, FileBody, Place, StreamedCall, Tls};

/// Hours of talk are a few megabytes of text and times.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How much of what the endpoint says is passed on.
const MESSAGE_CHARS_MAX: usize = 300;
const PATH: &str = "audio/transcriptions";

/// Where speech becomes text. Not `Debug`: it holds a secret.
#[derive(Clone)]
pub struct TranscriberOptions {
    /// With or without `/v1` at its end.
    pub url: String,
    pub model: String,
    /// What is spoken, as ISO 639-1; `None` lets the endpoint find out.
    pub language: Option<String>,
    pub api_key: Option<SecretString>,
    /// Certificates to trust beside the system's, as PEM.
    pub ca_pem: Option<String>,
    /// For one file, from sending to the end of the answer.
    pub time_max: Duration,
}

impl TranscriberOptions {
    pub fn new(url: String) -> Self {
        TranscriberOptions {
            url,
            model: "whisper-1".to_owned(),
            language: None,
            api_key: None,
            ca_pem: None,
            time_max: Duration::from_secs(3600),
        }
    }
}

/// Why the endpoint cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTranscriberOptions {
    #[error("a transcriber is named by http://host:port or https://host, without a query")]
    Url,
    #[error("the transcriber's key has characters that no header can carry")]
    Key,
    #[error("{0}")]
    Tls(String),
}

/// An OpenAI-compatible endpoint.
pub struct HttpTranscriber {
    place: Place,
    authorization: Option<HeaderValue>,
    model: String,
    language: Option<String>,
    time_max: Duration,
}

impl HttpTranscriber {
    pub fn new(options: &TranscriberOptions) -> Result<Self, InvalidTranscriberOptions> {
        let url = endpoint(&options.url).ok_or(InvalidTranscriberOptions::Url)?;
        let tls = Tls::new(options.ca_pem.as_deref());
        let tls = tls.map_err(|error| InvalidTranscriberOptions::Tls(error.to_string()))?;
        let place = Place::of(&url, &tls).ok_or(InvalidTranscriberOptions::Url)?;
        let authorization = options.api_key.as_ref().map(|key| {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()));
            let mut value = value.map_err(|_| InvalidTranscriberOptions::Key)?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(HttpTranscriber {
            place,
            authorization: authorization.transpose()?,
            model: options.model.clone(),
            language: options.language.clone(),
            time_max: options.time_max,
        })
    }

    async fn ask(&self, audio: &Path) -> Result<Vec<HeardSegment>, MediaError> {
        let call = StreamedCall {
            method: Method::POST,
            place: self.place.clone(),
            headers: self.headers()?,
            extra: HeaderMap::new(),
            body: self.body(audio).await?,
        };
        let mut answer =
            http::begin(call, self.time_max).await.map_err(|error| unanswered(&error))?;
        let body = answer.whole(ANSWER_BYTES_MAX).await.map_err(|error| unanswered(&error))?;
        let too_long = || MediaError::Failed("the transcriber's answer is too long".to_owned());
        let body = body.ok_or_else(too_long)?;
        if !(200..300).contains(&answer.status) {
            return Err(refusal(&answer, &body));
        }
        reading::segments(&body).ok_or_else(|| {
            MediaError::Failed("the transcriber's answer cannot be understood".to_owned())
        })
    }

    fn headers(&self) -> Result<Vec<(&'static str, HeaderValue)>, MediaError> {
        let form = HeaderValue::from_str(&form::content_type());
        let form = form.map_err(|error| MediaError::Failed(error.to_string()))?;
        let json = HeaderValue::from_static("application/json");
        let mut headers = vec![("content-type", form), ("accept", json)];
        headers.extend(self.authorization.clone().map(|value| ("authorization", value)));
        Ok(headers)
    }

    async fn body(&self, audio: &Path) -> Result<FileBody, MediaError> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => MediaError::NotFound,
            _ => MediaError::Failed(error.to_string()),
        };
        let mut file = tokio::fs::File::open(audio).await.map_err(failed)?;
        let bytes = file.metadata().await.map_err(failed)?.len();
        let mut first = Vec::new();
        let head = (&mut file).take(form::SIGNATURE_BYTES).read_to_end(&mut first).await;
        head.map_err(failed)?;
        let mut fields = vec![
            ("model", self.model.as_str()),
            ("response_format", "verbose_json"),
            ("timestamp_granularities[]", "segment"),
        ];
        fields.extend(self.language.as_deref().map(|language| ("language", language)));
        let (before, after) = form::around_a_file(&fields, &first);
        let part = FileBody::part(file, 0, bytes).await.map_err(failed)?;
        Ok(part.between(before, after))
    }
}

#[async_trait]
impl Transcriber for HttpTranscriber {
    async fn transcribe(&self, audio: &Path) -> Result<Vec<HeardSegment>, MediaError> {
        let time_max = self.time_max;
        let too_slow = || MediaError::Failed(format!("no transcript within {time_max:?}"));
        timeout(time_max, self.ask(audio)).await.unwrap_or_else(|_| Err(too_slow()))
    }
}

impl std::fmt::Debug for HttpTranscriber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpTranscriber").field("model", &self.model).finish_non_exhaustive()
    }
}

/// The whole address of the endpoint, of which people write more or less.
fn endpoint(base: &str) -> Option<Url> {
    let mut url = Url::parse(base).ok()?;
    if url.query().is_some() || url.fragment().is_some() {
        return None;
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let path = match path {
        path if path.ends_with(PATH) => path,
        path if path.ends_with("/v1") => format!("{path}/{PATH}"),
        path => format!("{path}/v1/{PATH}"),
    };
    url.set_path(&path);
    Some(url)
}

fn refusal(answer: &Exchange, body: &[u8]) -> MediaError {
    let status = answer.status;
    let message = reading::error_message(body, MESSAGE_CHARS_MAX);
    let said = format!("the transcriber says {status}: {message}");
    match status {
        408 | 425 | 429 => MediaError::Failed(said),
        400..500 => MediaError::Refused(said),
        _ => MediaError::Failed(said),
    }
}

fn unanswered(error: &CallError) -> MediaError {
    MediaError::Failed(format!("the transcriber does not answer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_may_be_written_in_several_ways() {
        let whole = "http://stt:8000/v1/audio/transcriptions";
        for base in [
            "http://stt:8000",
            "http://stt:8000/",
            "http://stt:8000/v1",
            "http://stt:8000/v1/",
            "http://stt:8000/v1/audio/transcriptions",
        ] {
            assert_eq!(endpoint(base).unwrap().as_str(), whole, "{base}");
        }
        let below = endpoint("https://example.org/whisper").unwrap();
        assert_eq!(below.as_str(), "https://example.org/whisper/v1/audio/transcriptions");
        for bad in ["", "stt:8000/v1?x=y", "http://stt?x", "http://stt#x"] {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
        for bad in ["ftp://stt", "http://user:secret@stt"] {
            let made = HttpTranscriber::new(&TranscriberOptions::new(bad.to_owned()));
            assert_eq!(made.err(), Some(InvalidTranscriberOptions::Url), "{bad}");
        }
    }
}

//! Pictures that parameters name: fetched, or read out of the parameter itself.
//!
//! Invariant: addresses come from users. Every one, and every redirect of it, goes through the guard,
//! and no key goes with it.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderMap;
use roundsman_core::ports::FailureCode;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::description::Limits;
use super::template::{self, Filter, Picture, Pictures, Source};
use crate::egress::{EgressError, EgressGuard};
use crate::http::{self, FileBody, Place, StreamedCall, Tls};

const REDIRECTS_MAX: usize = 3;
const TIME_MAX: Duration = Duration::from_secs(20);

/// Why a picture cannot be had.
pub(super) struct NoPicture {
    pub(super) code: FailureCode,
    pub(super) message: String,
}

/// Fetches what the places of a request need.
pub(super) struct PictureFetcher {
    pub(super) guard: EgressGuard,
    pub(super) tls: Tls,
    pub(super) limits: Limits,
}

impl PictureFetcher {
    pub(super) async fn fetch_all(
        &self,
        places: &[template::Place],
        params: &Map<String, Value>,
    ) -> Result<Pictures, NoPicture> {
        let mut pictures = Pictures::new();
        for place in places.iter().filter(|place| wants_picture(place)) {
            let Source::Param(name) = &place.source else { continue };
            for text in texts(params.get(name)) {
                if pictures.contains_key(text) {
                    continue;
                }
                if pictures.len() == self.limits.pictures_max {
                    let message = format!("more than {} pictures", self.limits.pictures_max);
                    return Err(NoPicture { code: FailureCode::InvalidParams, message });
                }
                let picture = self.one(text).await.map_err(|error| NoPicture {
                    message: format!("params.{name}: {}", error.message),
                    ..error
                })?;
                pictures.insert(text.to_owned(), picture);
            }
        }
        Ok(pictures)
    }

    async fn one(&self, text: &str) -> Result<Picture, NoPicture> {
        if text.starts_with("http://") || text.starts_with("https://") {
            let fetched = timeout(TIME_MAX, self.fetch(text)).await;
            return fetched.unwrap_or_else(|_| Err(passing("the picture does not come")));
        }
        let (declared, encoded) = match text.strip_prefix("data:").map(|rest| rest.split_once(','))
        {
            None => (None, text),
            Some(Some((head, encoded))) if head.ends_with(";base64") => {
                (Some(head.trim_end_matches(";base64")), encoded)
            }
            Some(_) => return Err(wrong("a data: address in base64, please")),
        };
        let bytes = BASE64_STANDARD.decode(encoded.trim());
        let bytes = bytes.map_err(|_| wrong("neither an address nor base64"))?;
        self.checked(declared, bytes.into())
    }

    async fn fetch(&self, link: &str) -> Result<Picture, NoPicture> {
        let mut link = link.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let target = self.guard.resolve(&link).await.map_err(|error| blocked(&error))?;
            let from = target.url.clone();
            let call = StreamedCall {
                method: Method::GET,
                place: Place::pinned(target, &self.tls),
                headers: Vec::new(),
                extra: HeaderMap::new(),
                body: FileBody::default(),
            };
            let broken =
                |error: http::CallError| passing(&format!("the picture does not come: {error}"));
            let mut answer = http::begin(call, TIME_MAX).await.map_err(broken)?;
            if matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
                let next = answer.header("location").and_then(|next| from.join(next).ok());
                link = next.ok_or_else(|| wrong("a redirect leads nowhere"))?.to_string();
                continue;
            }
            if answer.status != 200 {
                let message = format!("the picture's server says {}", answer.status);
                return Err(if answer.status >= 500 { passing(&message) } else { wrong(&message) });
            }
            let declared = answer.header("content-type").map(str::to_owned);
            let bytes = answer.whole(self.limits.picture_bytes_max).await.map_err(broken)?;
            let bytes = bytes.ok_or_else(|| self.too_large())?;
            return self.checked(declared.as_deref(), bytes);
        }
        Err(wrong("there are too many redirects"))
    }

    fn checked(&self, declared: Option<&str>, bytes: Bytes) -> Result<Picture, NoPicture> {
        if bytes.len() > self.limits.picture_bytes_max {
            return Err(self.too_large());
        }
        let declared = declared.and_then(|text| text.split(';').next()).map(str::trim);
        let declared = declared.filter(|text| text.starts_with("image/"));
        // What the bytes say is better known than what somebody says of them.
        let media_type =
            media_type_of(&bytes).or(declared).ok_or_else(|| wrong("it is no picture"))?;
        Ok(Picture { media_type: media_type.to_owned(), bytes })
    }

    fn too_large(&self) -> NoPicture {
        wrong(&format!("it is larger than {} bytes", self.limits.picture_bytes_max))
    }
}

fn wants_picture(place: &template::Place) -> bool {
    place.filters.iter().any(|filter: &Filter| filter.wants_picture())
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn wrong(message: &str) -> NoPicture {
    NoPicture { code: FailureCode::InvalidParams, message: message.to_owned() }
}

fn passing(message: &str) -> NoPicture {
    NoPicture { code: FailureCode::Unavailable, message: message.to_owned() }
}

fn blocked(error: &EgressError) -> NoPicture {
    let code = match error {
        EgressError::Refused(_) => FailureCode::BlockedTarget,
        EgressError::Unresolved(_) => FailureCode::Unavailable,
    };
    NoPicture { code, message: error.to_string() }
}

//! One request to Daily, and what can be said of its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use roundsman_core::ports::{Clock, RoomsError, Urgency};
use secrecy::ExposeSecret;
use serde_json::Value;
use url::{Position, Url};

use super::limiter::{Class, Limiter, Ticket};
use super::{DailyOptions, InvalidDailyOptions};
use crate::http::{self, Answer, Call, CallError, CallLimits, Route, Tls};

/// Everybody in a very full room, or the longest page of a list.
const ANSWER_BYTES_MAX: usize = 10 * 1024 * 1024;
/// About 150,000 people: what an answer about all rooms says of one takes some 200 bytes.
pub(super) const DOMAIN_ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How much of what Daily says is passed on.
const MESSAGE_CHARS_MAX: usize = 300;

pub(super) struct Api {
    base: Url,
    route: Route,
    authorization: HeaderValue,
    request_max: Duration,
    pub(super) limiter: Limiter,
}

/// What is asked.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// Parts of the path, as they are.
    pub(super) path: &'a [&'a str],
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) body: Option<Value>,
    pub(super) class: Class,
    pub(super) urgency: Urgency,
    /// A longer answer is none.
    pub(super) answer_bytes_max: usize,
}

impl<'a> Ask<'a> {
    pub(super) fn new(method: Method, path: &'a [&'a str], urgency: Urgency) -> Self {
        let (class, answer_bytes_max) = (Class::Most, ANSWER_BYTES_MAX);
        Ask { method, path, query: &[], body: None, class, urgency, answer_bytes_max }
    }

    /// A refusal of something new is about what was wished, of anything else about what is named.
    fn is_about_something_there(&self) -> bool {
        self.body.is_none()
    }
}

impl Api {
    pub(super) fn new(
        options: &DailyOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, InvalidDailyOptions> {
        let base = Url::parse(&options.base_url).map_err(|_| InvalidDailyOptions::BaseUrl)?;
        let is_plain = base.username().is_empty()
            && base.password().is_none()
            && base.query().is_none()
            && base.fragment().is_none();
        let name = base.host_str().filter(|_| is_plain).ok_or(InvalidDailyOptions::BaseUrl)?;
        let tls = match base.scheme() {
            "http" => None,
            "https" => {
                let tls = Tls::new(options.ca_pem.as_deref());
                Some(tls.map_err(|error| InvalidDailyOptions::Tls(error.to_string()))?)
            }
            _ => return Err(InvalidDailyOptions::BaseUrl),
        };
        let port = base.port_or_known_default().ok_or(InvalidDailyOptions::BaseUrl)?;
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let key = options.api_key.expose_secret().trim();
        let authorization = HeaderValue::from_str(&format!("Bearer {key}"));
        let mut authorization = authorization.map_err(|_| InvalidDailyOptions::ApiKey)?;
        if key.is_empty() {
            return Err(InvalidDailyOptions::ApiKey);
        }
        authorization.set_sensitive(true);
        Ok(Api {
            route: Route::Host { name, port, tls },
            base,
            authorization,
            request_max: options.request_max,
            limiter: Limiter::new(options.limits.clone(), clock),
        })
    }

    /// Waits for the turn to ask, and asks. Only the body of a whole, good answer is returned.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Bytes, RoomsError> {
        let is_about_something_there = ask.is_about_something_there();
        let target = self.target(ask.path, ask.query)?;
        let ticket = self.limiter.enter(ask.class, ask.urgency).await?;
        let call = Call {
            method: ask.method,
            target,
            host: self.base[Position::BeforeHost..Position::AfterPort].to_owned(),
            headers: vec![("authorization".to_owned(), self.authorization.clone())],
            json: ask.body.map(|body| body.to_string().into()),
        };
        let answer_bytes_max = ask.answer_bytes_max;
        let limits = CallLimits { time_max: self.request_max, answer_bytes_max };
        let answer = http::send(&self.route, call, limits).await;
        let answer = answer.map_err(unavailable)?;
        self.tell_limiter(&ticket, &answer);
        read(answer, is_about_something_there)
    }

    fn target(&self, path: &[&str], query: &[(&str, &str)]) -> Result<String, RoomsError> {
        let mut url = self.base.clone();
        // These would be left out of the path, and something else would be asked.
        if path.iter().any(|part| matches!(*part, "" | "." | "..")) {
            return Err(RoomsError::NotFound);
        }
        match url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
            Err(()) => return Err(RoomsError::Refused("the base is no address".to_owned())),
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url[Position::BeforePath..Position::AfterQuery].to_owned())
    }

    fn tell_limiter(&self, ticket: &Ticket, answer: &Answer) {
        match answer.status {
            429 => self.limiter.refused(ticket, answer.retry_after),
            _ => self.limiter.answered(ticket),
        }
    }
}

fn unavailable(error: CallError) -> RoomsError {
    match error {
        CallError::Invalid(error) => RoomsError::Refused(error.to_string()),
        other => RoomsError::Unavailable(other.to_string()),
    }
}

fn read(answer: Answer, is_about_something_there: bool) -> Result<Bytes, RoomsError> {
    let told = Told::read(&answer);
    let said = |words: &str| format!("{} {words}", answer.status);
    match answer.status {
        200..=299 if answer.is_whole => Ok(answer.body),
        200..=299 => Err(RoomsError::Odd("it is longer than any answer should be".to_owned())),
        429 => Err(RoomsError::RateLimited { after: answer.retry_after }),
        // Something else than Daily may answer under its name, and knows no room at all.
        404 if told.is_daily => Err(RoomsError::NotFound),
        404 => Err(RoomsError::Odd(said("without saying what there is not"))),
        400 | 410 if is_about_something_there && told.is_gone() => Err(RoomsError::NotFound),
        408 | 500.. => Err(RoomsError::Unavailable(said(&told.message))),
        400..=499 => Err(RoomsError::Refused(said(&told.message))),
        _ => Err(RoomsError::Odd(said(&told.message))),
    }
}

/// What an answer that is no success says.
struct Told {
    /// It has the form of Daily's errors.
    is_daily: bool,
    is_deleted: bool,
    message: String,
}

impl Told {
    fn read(answer: &Answer) -> Self {
        if answer.status < 300 {
            return Told { is_daily: true, is_deleted: false, message: String::new() };
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let message = format!("{}: {}", text("error"), text("info"));
        let message = message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_MAX).collect();
        let is_deleted = body.get("deleted") == Some(&Value::Bool(true));
        Told { is_daily: is_deleted || !text("error").is_empty(), is_deleted, message }
    }

    /// Expired rooms are as good as deleted, in whatever words.
    fn is_gone(&self) -> bool {
        let message = self.message.to_lowercase();
        let words = ["not-found", "not found", "does not exist", "has expired", "is expired"];
        self.is_deleted || words.iter().any(|words| message.contains(words))
    }
}

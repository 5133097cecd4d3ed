//! One request to a page's server, and its answer: with the time that each part took, and never
//! more of it than is wanted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, HOST, HeaderMap, LOCATION, ORIGIN,
    USER_AGENT,
};
use hyper::{Request, Response, Version};
use roundsman_core::audits::observed::{Fetched, Headers, Hop, HttpVersion, Timing, TlsSeen};
use roundsman_core::ports::{Clock, ObserveError, ObserveErrorKind as Kind};
use tokio::time::timeout;
use url::{Position, Url};

use super::connection::{Connection, Opener, Phases, Sender};
use super::encoding::{self, DecodeError, Decoder};
use super::polite::{Turn, Turns};
use super::trouble::{of_hyper, trouble};

/// Connections that wait to be used again; more are closed.
const IDLE_PER_ORIGIN_MAX: usize = 6;

/// What is read of an answer that leads elsewhere.
const HOP_BYTES_MAX: u64 = 64 * 1024;
const HOP_TIME_MAX: Duration = Duration::from_secs(1);

type Answered = (Connection, Phases, Response<Incoming>, Duration);

/// Asks on behalf of one look: keeps its connections and its time.
pub(super) struct Client<'a> {
    pub(super) opener: Opener<'a>,
    pub(super) turns: &'a Turns,
    pub(super) agent: &'a str,
    /// When the look began, by the monotonic clock.
    pub(super) began: Duration,
    idle: Mutex<HashMap<String, Vec<Connection>>>,
}

/// What a request asks for, and in whose name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accept {
    pub(super) kinds: &'static str,
    pub(super) origin: Option<&'static str>,
}

impl Accept {
    pub(super) const fn kinds(kinds: &'static str) -> Self {
        Accept { kinds, origin: None }
    }
}

/// An answer whose body is still to be read.
pub(super) struct Answer {
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) version: HttpVersion,
    pub(super) tls: Option<TlsSeen>,
    pub(super) timing: Timing,
    body: Incoming,
    connection: Connection,
    turn: Turn,
}

/// How much of a body is read, and how much of that is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Appetite {
    pub(super) decoded_bytes_max: u64,
    pub(super) kept_bytes_max: u64,
}

/// A body that was read.
#[derive(Debug)]
pub(super) struct Eaten {
    pub(super) fetched: Fetched,
    pub(super) decoded_bytes: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        opener: Opener<'a>,
        turns: &'a Turns,
        agent: &'a str,
        began: Duration,
    ) -> Self {
        Client { opener, turns, agent, began, idle: Mutex::default() }
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.opener.clock
    }

    /// Waits for a turn, asks, and reads the head of the answer.
    pub(super) async fn ask(&self, url: &Url, accept: Accept) -> Result<Answer, ObserveError> {
        let turn = self.turns.request(url.host_str().unwrap_or_default()).await;
        let began = self.clock().monotonic().saturating_sub(self.began);
        let answered = self.ask_again(url, accept).await;
        let (connection, phases, response, wait) = if let Some(answered) = answered {
            answered
        } else {
            let (connection, phases) = self.opener.open(url).await?;
            self.send(url, accept, connection, phases).await?
        };
        let Phases { dns, connect, tls } = phases;
        let (head, body) = response.into_parts();
        Ok(Answer {
            url: url.clone(),
            status: head.status.as_u16(),
            headers: head.headers,
            version: version(head.version),
            tls: connection.tls.clone(),
            timing: Timing { began, dns, connect, tls, wait, download: Duration::ZERO },
            body,
            connection,
            turn,
        })
    }

    /// Over a connection that is there already. One that fails may just have been closed by the
    /// server, which a new one shows.
    async fn ask_again(&self, url: &Url, accept: Accept) -> Option<Answered> {
        let connection = self.idle_connection(url).await?;
        self.send(url, accept, connection, Phases::default()).await.ok()
    }

    async fn send(
        &self,
        url: &Url,
        accept: Accept,
        mut connection: Connection,
        phases: Phases,
    ) -> Result<Answered, ObserveError> {
        let request = self.request(url, accept, &connection.sender)?;
        let sent_at = self.clock().monotonic();
        let limit = self.opener.limits.answer_max;
        let answered = timeout(limit, connection.sender.send(request)).await;
        let response = answered
            .map_err(|_| trouble(Kind::Timeout, format!("no answer within {limit:?}")))?
            .map_err(|error| of_hyper(&error))?;
        let wait = self.clock().monotonic().saturating_sub(sent_at);
        Ok((connection, phases, response, wait))
    }

    /// What is remembered of an answer that leads elsewhere. Its body is read if it is short, so that
    /// the connection can be used again.
    pub(super) async fn hop(&self, answer: Answer, location: Option<&Url>) -> Hop {
        let hop = Hop {
            url: answer.url.as_str().to_owned(),
            status: answer.status,
            location: location.map(|url| url.as_str().to_owned()),
            headers: headers_seen(&answer.headers),
            timing: answer.timing,
        };
        let appetite = Appetite { decoded_bytes_max: HOP_BYTES_MAX, kept_bytes_max: 0 };
        let _ = timeout(HOP_TIME_MAX, self.eat(answer, appetite)).await;
        hop
    }

    /// Reads the body. What is over the limit is cut off there; what is too slow is an error.
    pub(super) async fn eat(
        &self,
        answer: Answer,
        appetite: Appetite,
    ) -> Result<Eaten, ObserveError> {
        let Answer { url, status, headers, version, tls, mut timing, mut body, .. } = answer;
        let (connection, turn) = (answer.connection, answer.turn);
        let encodings = encodings(&headers);
        let mut decoder =
            Decoder::new(&encodings, appetite.decoded_bytes_max, appetite.kept_bytes_max);
        let began = self.clock().monotonic();
        let (transfer_bytes, is_whole) = self.drain(&mut body, &mut decoder, appetite).await?;
        timing.download = self.clock().monotonic().saturating_sub(began);
        if is_whole {
            self.keep(&url, connection);
        }
        drop(turn);
        let decoded_bytes = decoder.decoded_bytes();
        let fetched = Fetched {
            url: url.into(),
            status,
            headers: headers_seen(&headers),
            body: decoder.into_kept().bytes,
            is_whole,
            transfer_bytes,
            http_version: version,
            tls,
            timing,
        };
        Ok(Eaten { fetched, decoded_bytes })
    }

    /// Every stretch of time must bring its share. Says how much came, and whether it was all.
    async fn drain(
        &self,
        body: &mut Incoming,
        decoder: &mut Decoder,
        appetite: Appetite,
    ) -> Result<(u64, bool), ObserveError> {
        let limits = self.opener.limits;
        let share = limits.bytes_per_sec_min.saturating_mul(limits.slow_for.as_secs().max(1));
        let mut transferred = 0;
        loop {
            let stretch = async {
                let enough_at = transferred + share;
                while transferred < enough_at {
                    let Some(frame) = body.frame().await else {
                        return decoder.finish().map(|()| Some(true)).map_err(Stop::Decode);
                    };
                    let frame = frame.map_err(Stop::Broken)?;
                    let Ok(piece) = frame.into_data() else { continue };
                    transferred += piece.len() as u64;
                    if transferred > appetite.decoded_bytes_max {
                        return Ok(Some(false));
                    }
                    decoder.take(&piece).map_err(Stop::Decode)?;
                }
                Ok(None)
            };
            match timeout(limits.slow_for, stretch).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(is_whole))) => return Ok((transferred, is_whole)),
                Ok(Err(Stop::Decode(DecodeError::TooLarge))) => return Ok((transferred, false)),
                Ok(Err(Stop::Decode(error))) => {
                    return Err(trouble(Kind::ProtocolError, error.to_string()));
                }
                Ok(Err(Stop::Broken(error))) => return Err(of_hyper(&error)),
                Err(_) => {
                    let least = limits.bytes_per_sec_min;
                    let detail = format!("the body came slower than {least} bytes per second");
                    return Err(trouble(Kind::Timeout, detail));
                }
            }
        }
    }

    fn request(
        &self,
        url: &Url,
        accept: Accept,
        sender: &Sender,
    ) -> Result<Request<Empty<Bytes>>, ObserveError> {
        let builder = Request::builder()
            .header(USER_AGENT, self.agent)
            .header(ACCEPT, accept.kinds)
            .header(ACCEPT_LANGUAGE, "en")
            .header(ACCEPT_ENCODING, encoding::ACCEPTED);
        let builder = match accept.origin {
            Some(origin) => builder.header(ORIGIN, origin),
            None => builder,
        };
        let builder = if sender.is_http2() {
            builder.uri(&url[..Position::AfterQuery])
        } else {
            builder
                .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
                .uri(&url[Position::BeforePath..Position::AfterQuery])
        };
        builder
            .body(Empty::new())
            .map_err(|error| trouble(Kind::InvalidUrl, format!("it cannot be asked for: {error}")))
    }

    async fn idle_connection(&self, url: &Url) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                let waiting = idle.get_mut(origin(url))?;
                match waiting.last() {
                    // One connection carries many requests at once.
                    Some(Connection { sender: Sender::Http2(sender), tls }) => {
                        let (sender, tls) = (Sender::Http2(sender.clone()), tls.clone());
                        if sender_is_closed(&sender) {
                            waiting.pop();
                            continue;
                        }
                        Connection { sender, tls }
                    }
                    _ => waiting.pop()?,
                }
            };
            if connection.sender.is_ready().await {
                return Some(connection);
            }
        }
    }

    fn keep(&self, url: &Url, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.entry(origin(url).to_owned()).or_default();
        let is_there = connection.sender.is_http2() && !waiting.is_empty();
        if !is_there && waiting.len() < IDLE_PER_ORIGIN_MAX && !sender_is_closed(&connection.sender)
        {
            waiting.push(connection);
        }
    }
}

impl Answer {
    /// Where it leads, if it is a redirect.
    pub(super) fn redirect(&self) -> Option<Result<Url, ObserveError>> {
        if !matches!(self.status, 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let location = self.headers.get(LOCATION)?;
        let location = String::from_utf8_lossy(location.as_bytes());
        let Ok(mut next) = self.url.join(location.trim()) else {
            return Some(Err(trouble(Kind::ProtocolError, "a redirect leads nowhere")));
        };
        next.set_fragment(None);
        Some(Ok(next))
    }
}

enum Stop {
    Decode(DecodeError),
    Broken(hyper::Error),
}

fn sender_is_closed(sender: &Sender) -> bool {
    match sender {
        Sender::Http1(sender) => sender.is_closed(),
        Sender::Http2(sender) => sender.is_closed(),
    }
}

/// Scheme, host and port.
pub(super) fn origin(url: &Url) -> &str {
    &url[..Position::AfterPort]
}

fn version(version: Version) -> HttpVersion {
    match version {
        Version::HTTP_2 => HttpVersion::Http2,
        Version::HTTP_10 | Version::HTTP_09 => HttpVersion::Http10,
        _ => HttpVersion::Http11,
    }
}

fn encodings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
}

fn headers_seen(headers: &HeaderMap) -> Headers {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let pair = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.as_str().to_owned(), text(value.as_bytes()))
    };
    Headers(headers.iter().map(pair).collect())
}

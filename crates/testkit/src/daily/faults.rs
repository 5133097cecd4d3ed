//! What can be wrong with an answer.

use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Body, Reply, Sent};
use super::meter::Route;
use crate::random::SeededRandom;
use roundsman_core::ports::Random;

/// More than a client reads.
const HUGE_BYTES: usize = 33 * 1024 * 1024;

/// Something that goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Daily's error with this status.
    Status(u16),
    TooManyRequests {
        retry_after_secs: Option<u64>,
    },
    /// This body under this status.
    Answer(u16, String),
    /// Nothing ever comes.
    Hang,
    /// The answer comes later, in real time.
    Slow(Duration),
    /// The connection ends without an answer.
    Reset,
    /// A page for people, as a success.
    Html,
    /// `{}`.
    EmptyObject,
    /// JSON that ends in the middle.
    Truncated,
    /// The connection ends in the middle, after at most so many bytes.
    CutAfter(usize),
    /// Numbers as texts, lists as objects.
    WrongTypes,
    /// More than eleven million bytes.
    Huge,
    /// One entry stands twice, in the place of another.
    DuplicateIds,
    /// Nobody has an id.
    MissingIds,
    /// Nobody has a name.
    NullNames,
    /// One entry of several is left out, and counted.
    Partial,
    /// Nobody is there.
    SpuriousEmpty,
    /// As it was so long ago, beside the usual lag.
    Stale(Duration),
    /// There is no such thing.
    NotFound,
    /// There is no such room any more.
    Expired,
    /// A link that is none.
    LinkError(String),
}

/// When something goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    pub route: Route,
    pub fault: Fault,
    /// Of the requests, by the seed.
    pub percent: u8,
    /// How often yet; `None` for ever.
    pub times: Option<u32>,
}

impl FaultRule {
    pub fn always(route: Route, fault: Fault) -> Self {
        FaultRule { route, fault, percent: 100, times: None }
    }

    pub fn times(route: Route, fault: Fault, times: u32) -> Self {
        FaultRule { times: Some(times), ..FaultRule::always(route, fault) }
    }
}

/// The rules that are in force, the first of which that fits is followed.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) rules: Vec<FaultRule>,
}

impl Faults {
    pub(super) fn draw(&mut self, route: Route, random: &SeededRandom) -> Option<Fault> {
        let hits = |rule: &FaultRule| {
            rule.route == route && rule.times != Some(0) && random.below(100) < rule.percent.into()
        };
        let rule = self.rules.iter_mut().find(|rule| hits(rule))?;
        rule.times = rule.times.map(|times| times - 1);
        Some(rule.fault.clone())
    }
}

impl Fault {
    /// The answer that comes without the right one having been made.
    pub(super) fn instead(&self, route: Route) -> Option<Reply> {
        let reply = match self {
            Fault::Status(status) => {
                let code = match status {
                    401 => "authentication-error",
                    403 => "forbidden-error",
                    400..=499 => "invalid-request-error",
                    _ => "server-error",
                };
                Reply::error(*status, code, "as the test has asked")
            }
            Fault::TooManyRequests { retry_after_secs } => too_many(*retry_after_secs),
            Fault::Answer(status, body) => Reply::new(*status, body.clone()),
            Fault::Hang => Reply { sent: Sent::Never, ..Reply::new(200, "") },
            Fault::Reset => Reply { sent: Sent::Reset, ..Reply::new(200, "") },
            Fault::Html => Reply {
                headers: vec![("content-type", "text/html".to_owned())],
                ..Reply::new(200, "<!doctype html><title>Maintenance</title>")
            },
            Fault::EmptyObject => Reply::new(200, "{}"),
            Fault::WrongTypes => Reply::new(200, r#"{"total_count":"0","data":{}}"#),
            Fault::SpuriousEmpty if route == Route::DomainPresence => Reply::new(200, "{}"),
            Fault::SpuriousEmpty => Reply::new(200, r#"{"total_count":0,"data":[]}"#),
            Fault::NotFound => Reply::error(404, "not-found", "there is no such thing"),
            Fault::Expired => expired("it"),
            _ => return None,
        };
        Some(reply)
    }

    /// What becomes of the right answer.
    pub(super) fn spoil(&self, mut reply: Reply) -> Reply {
        let Body::Text(text) = &reply.body else {
            return self.spoil_sending(reply);
        };
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        let text = match self {
            Fault::Truncated => text[..text.len() / 2].to_owned(),
            // It would still be the right answer, to who reads it to its end.
            Fault::Huge => format!("{text}{}", " ".repeat(HUGE_BYTES)),
            Fault::DuplicateIds | Fault::MissingIds | Fault::NullNames | Fault::Partial => {
                for_each_list(&mut value, |list| self.spoil_list(list));
                value.to_string()
            }
            Fault::LinkError(text) => {
                value["download_link"] = json!(text);
                value.to_string()
            }
            _ => return self.spoil_sending(reply),
        };
        reply.body = Body::Text(text);
        reply
    }

    fn spoil_sending(&self, reply: Reply) -> Reply {
        match self {
            Fault::Slow(time) => Reply { sent: Sent::After(*time), ..reply },
            Fault::CutAfter(bytes) => Reply { sent: Sent::CutAfter(*bytes), ..reply },
            _ => reply,
        }
    }

    fn spoil_list(&self, list: &mut Vec<Value>) {
        match self {
            Fault::DuplicateIds if list.len() > 1 => list[0] = list[1].clone(),
            Fault::DuplicateIds => list.extend(list.clone()),
            Fault::Partial => drop(list.pop()),
            Fault::MissingIds => list.iter_mut().for_each(|item| {
                item.as_object_mut().and_then(|item| item.remove("id"));
            }),
            Fault::NullNames => list.iter_mut().for_each(|item| {
                item["userName"] = Value::Null;
                item["userId"] = Value::Null;
            }),
            _ => {}
        }
    }
}

pub(super) fn too_many(retry_after_secs: Option<u64>) -> Reply {
    let mut reply = Reply::error(429, "rate-limit-error", "too many requests");
    reply.headers.extend(retry_after_secs.map(|secs| ("retry-after", secs.to_string())));
    reply
}

/// How all of Daily answers about a room whose time is over.
pub(super) fn expired(room: &str) -> Reply {
    let info = format!("room {room} not found");
    Reply::new(404, json!({"error": "not-found", "info": info, "deleted": true}).to_string())
}

/// The list of an answer, or those of its rooms.
fn for_each_list(value: &mut Value, mut change: impl FnMut(&mut Vec<Value>)) {
    if let Some(list) = value.get_mut("data").and_then(Value::as_array_mut) {
        change(list);
    } else if let Some(rooms) = value.as_object_mut() {
        rooms.values_mut().filter_map(Value::as_array_mut).for_each(change);
    }
}

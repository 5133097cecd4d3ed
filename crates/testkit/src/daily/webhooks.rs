//! The domain's webhook: what it is, which events wait for it, and what becomes of those that are
//! not taken.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::daily::WebhookSecret;
use roundsman_core::ports::Random;
use serde_json::{Value, json};

use super::events::Event;
use super::rooms::iso;
use crate::random::SeededRandom;

/// So many refusals in a row switch a webhook off.
const FAILURES_MAX: u32 = 3;
/// How often an event is tried, if it is tried again at all.
const TRIES_MAX: u32 = 5;
/// Pauses between the tries.
const PAUSE_MIN: Duration = Duration::from_secs(15);
const PAUSE_MAX: Duration = Duration::from_mins(15);
/// Older deliveries are forgotten.
const DELIVERED_MAX: usize = 100_000;

/// What goes wrong with events on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebhookFaults {
    /// Never sent.
    pub lose_percent: u8,
    /// Sent twice.
    pub double_percent: u8,
    /// Sent up to this much later.
    pub delay_max: Duration,
    /// Those that are sent together are sent in any order.
    pub is_reordered: bool,
}

/// An event that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub id: String,
    pub kind: String,
    /// `None` if there was no answer.
    pub status: Option<u16>,
}

#[derive(Debug, Default)]
pub(super) struct Webhooks {
    hook: Option<Hook>,
    waiting: Vec<Message>,
    sent: u64,
    pub(super) faults: WebhookFaults,
    pub(super) delivered: Vec<Delivered>,
    pub(super) lost: u64,
}

/// The webhook.
#[derive(Debug, Clone)]
pub(super) struct Hook {
    uuid: String,
    url: String,
    hmac: String,
    retry_type: String,
    event_types: Vec<String>,
    is_active: bool,
    failures: u32,
    pushed_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// An event on its way.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) body: String,
    number: u64,
    due_at: Timestamp,
    tries: u32,
}

/// Where a message goes, and what it is signed with.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) url: String,
    pub(super) secret: WebhookSecret,
}

/// Why a webhook cannot be as it is wished.
pub(super) struct Refused(pub(super) &'static str);

impl Webhooks {
    pub(super) fn list(&self) -> Value {
        json!(self.hook.iter().map(Hook::describe).collect::<Vec<_>>())
    }

    pub(super) fn get(&self, uuid: &str) -> Option<Value> {
        self.hook.as_ref().filter(|hook| hook.uuid == uuid).map(Hook::describe)
    }

    /// What is to be tried before the webhook is as it is wished; `uuid` of the one that changes.
    pub(super) fn draft(
        &self,
        uuid: Option<&str>,
        wish: &Value,
        random: &SeededRandom,
        now: Timestamp,
    ) -> Result<(Hook, Target), Refused> {
        let old = match (uuid, &self.hook) {
            (None, None) => None,
            (None, Some(_)) => return Err(Refused("a domain has one webhook")),
            (Some(uuid), Some(hook)) if hook.uuid == uuid => Some(hook),
            (Some(_), _) => return Err(Refused("not found")),
        };
        let text = |name: &str| wish.get(name).and_then(Value::as_str).map(str::to_owned);
        let url = text("url").or(old.map(|hook| hook.url.clone()));
        let url = url.filter(|url| url.starts_with("http")).ok_or(Refused("url is missing"))?;
        let hmac = text("hmac").or(old.map(|hook| hook.hmac.clone()));
        let hmac = hmac.unwrap_or_else(|| draw_secret(random));
        let secret = WebhookSecret::parse(&hmac).map_err(|_| Refused("hmac is not base64"))?;
        let retry_type = text("retryType").or(old.map(|hook| hook.retry_type.clone()));
        let retry_type = retry_type.unwrap_or_else(|| "circuit-breaker".to_owned());
        if !["circuit-breaker", "exponential"].contains(&retry_type.as_str()) {
            return Err(Refused("retryType is unknown"));
        }
        let types = wish.get("eventTypes").and_then(Value::as_array);
        let types = types.map(|types| types.iter().filter_map(Value::as_str).map(str::to_owned));
        let types = types.map(Iterator::collect).or(old.map(|hook| hook.event_types.clone()));
        let hook = Hook {
            uuid: old.map_or_else(|| super::draw_uuid(random), |hook| hook.uuid.clone()),
            url: url.clone(),
            hmac,
            retry_type,
            event_types: types.unwrap_or_default(),
            is_active: true,
            failures: 0,
            pushed_at: Some(now),
            created_at: old.map_or(now, |hook| hook.created_at),
            updated_at: now,
        };
        Ok((hook, Target { url, secret }))
    }

    /// The webhook is as it was drafted, because somebody answered there.
    pub(super) fn set(&mut self, drafted: Hook) -> Value {
        self.hook.insert(drafted).describe()
    }

    pub(super) fn delete(&mut self, uuid: &str) -> bool {
        let is_there = self.hook.as_ref().is_some_and(|hook| hook.uuid == uuid);
        if is_there {
            self.hook = None;
            self.waiting.clear();
        }
        is_there
    }

    /// Something happened that may be told.
    pub(super) fn push(&mut self, event: &Event, random: &SeededRandom, now: Timestamp) {
        let is_wanted =
            |hook: &Hook| hook.is_active && hook.event_types.iter().any(|t| t == event.kind);
        if !self.hook.as_ref().is_some_and(is_wanted) {
            return;
        }
        let chance = |percent: u8| percent > 0 && random.below(100) < percent.into();
        if chance(self.faults.lose_percent) {
            self.lost += 1;
            return;
        }
        let copies = if chance(self.faults.double_percent) { 2 } else { 1 };
        for _ in 0..copies {
            self.sent += 1;
            let delay = u64::try_from(self.faults.delay_max.as_micros()).unwrap_or(u64::MAX);
            let delay = Duration::from_micros(random.below(delay.saturating_add(1)));
            let (id, kind, body) = (event.id.clone(), event.kind.to_owned(), event.body.clone());
            let (number, due_at) = (self.sent, now + delay);
            self.waiting.push(Message { id, kind, body, number, due_at, tries: 0 });
        }
    }

    /// Those that are due, in the order in which they are sent.
    pub(super) fn take_due(&mut self, random: &SeededRandom, now: Timestamp) -> Vec<Message> {
        let all = std::mem::take(&mut self.waiting);
        let (mut due, later): (Vec<Message>, Vec<Message>) =
            all.into_iter().partition(|message| message.due_at <= now);
        self.waiting = later;
        due.sort_by_key(|message| (message.due_at, message.number));
        if self.faults.is_reordered {
            due.sort_by_cached_key(|_| random.next_u64());
        }
        due
    }

    /// When the next is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.iter().map(|message| message.due_at).min()
    }

    pub(super) fn target(&self) -> Option<Target> {
        let hook = self.hook.as_ref().filter(|hook| hook.is_active)?;
        let secret = WebhookSecret::parse(&hook.hmac).ok()?;
        Some(Target { url: hook.url.clone(), secret })
    }

    /// What became of one that was sent.
    pub(super) fn report(&mut self, mut message: Message, status: Option<u16>, now: Timestamp) {
        let (id, kind) = (message.id.clone(), message.kind.clone());
        if self.delivered.len() >= DELIVERED_MAX {
            self.delivered.clear();
        }
        self.delivered.push(Delivered { id, kind, status });
        let Some(hook) = &mut self.hook else { return };
        if status == Some(200) {
            hook.failures = 0;
            hook.pushed_at = Some(now);
            return;
        }
        hook.failures += 1;
        if hook.retry_type == "circuit-breaker" {
            if hook.failures >= FAILURES_MAX {
                hook.is_active = false;
                self.waiting.clear();
            }
            return;
        }
        message.tries += 1;
        if message.tries < TRIES_MAX {
            let pause = PAUSE_MIN.saturating_mul(4_u32.saturating_pow(message.tries - 1));
            message.due_at = now + pause.min(PAUSE_MAX);
            self.waiting.push(message);
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Hook {
    fn describe(&self) -> Value {
        json!({
            "uuid": self.uuid, "url": self.url, "hmac": self.hmac, "basicAuth": null,
            "retryType": self.retry_type, "eventTypes": self.event_types,
            "state": if self.is_active { "ACTIVE" } else { "FAILED" },
            "failedCount": self.failures, "lastMomentPushed": self.pushed_at.map(iso),
            "domainId": "stand-in", "createdAt": iso(self.created_at),
            "updatedAt": iso(self.updated_at),
        })
    }
}

fn draw_secret(random: &SeededRandom) -> String {
    use base64::Engine;
    let mut bytes = [0u8; 32];
    random.fill(&mut bytes);
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

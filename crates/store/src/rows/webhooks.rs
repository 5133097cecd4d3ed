//! Endpoints, events and deliveries between rows and the types of `roundsman_core`.

use std::collections::BTreeMap;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::Json;
use roundsman_core::ports::{DeliveryEntry, StoreError};
use roundsman_core::users::UserId;
use roundsman_core::webhooks::{
    Delivery, DeliveryState, Endpoint, EndpointChange, SigningSecret, StoredEvent, WebhookEvent,
};
use serde_json::{Map, Value};

use super::inconsistent;

pub(crate) const EVENTS: &str = "webhook_events";
const ENDPOINTS: &str = "webhook_endpoints";
const DELIVERIES: &str = "webhook_deliveries";
/// The member of a user's data that is the endpoint's address, as Vexa keeps it.
const URL_MEMBER: &str = "webhook_url";

/// A row of `webhook_endpoints`.
#[derive(Debug)]
pub(crate) struct EndpointColumns {
    pub(crate) secret: Option<Vec<u8>>,
    pub(crate) events: String,
    pub(crate) disabled_at: Option<Timestamp>,
}

/// A row of `webhook_events`.
#[derive(Debug)]
pub(crate) struct EventColumns {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    /// NULL in rows from before events had ids.
    pub(crate) event_id: Option<String>,
    pub(crate) event_type: String,
    pub(crate) body: String,
    pub(crate) created_at: Timestamp,
    pub(crate) state: String,
    pub(crate) attempts: i64,
    pub(crate) since: Option<Timestamp>,
}

/// A row of `webhook_deliveries`.
#[derive(Debug)]
pub(crate) struct DeliveryColumns {
    pub(crate) id: i64,
    pub(crate) at: Timestamp,
    pub(crate) url: String,
    pub(crate) status: Option<i32>,
    pub(crate) error: Option<String>,
    pub(crate) duration_us: i64,
}

impl EventColumns {
    pub(crate) fn into_event(self) -> Result<StoredEvent, StoreError> {
        let bad = |column, reason: String| inconsistent(EVENTS, column, self.id, reason);
        let state = DeliveryState::parse(&self.state)
            .ok_or_else(|| bad("state", format!("{:?} is no state", self.state)))?;
        let attempts = u32::try_from(self.attempts)
            .map_err(|_| bad("attempts", format!("{} is no count", self.attempts)))?;
        Ok(StoredEvent {
            id: self.id,
            event: WebhookEvent {
                user_id: UserId::new(self.user_id),
                event_id: self.event_id.unwrap_or_default(),
                event_type: self.event_type,
                body: Json::from_stored(self.body),
            },
            created_at: self.created_at,
            state,
            attempts,
            since: self.since.unwrap_or(self.created_at),
        })
    }
}

impl DeliveryColumns {
    pub(crate) fn into_delivery(self) -> Result<Delivery, StoreError> {
        let bad =
            |column, reason: &str| inconsistent(DELIVERIES, column, self.id, reason.to_owned());
        let status = self.status.map(u16::try_from).transpose();
        let duration_us =
            u64::try_from(self.duration_us).map_err(|_| bad("duration_us", "is negative"))?;
        Ok(Delivery {
            at: self.at,
            status: status.map_err(|_| bad("status", "is no status"))?,
            url: self.url,
            error: self.error,
            duration: Duration::from_micros(duration_us),
        })
    }
}

/// The endpoint's address in a user's data.
pub(crate) fn endpoint_url(data: &str) -> Option<String> {
    let url = members(data).remove(URL_MEMBER)?;
    url.as_str().filter(|url| !url.is_empty()).map(ToOwned::to_owned)
}

/// A user's data with this address, or without any. Its other members stay.
pub(crate) fn with_endpoint_url(data: &str, url: Option<&str>) -> String {
    let mut members = members(data);
    match url {
        Some(url) => members.insert(URL_MEMBER.to_owned(), Value::String(url.to_owned())),
        None => members.remove(URL_MEMBER),
    };
    Value::Object(members).to_string()
}

/// The endpoint of a user with this data and this row. The address alone is enough.
pub(crate) fn endpoint(
    user_id: UserId,
    data: &str,
    columns: Option<EndpointColumns>,
) -> Result<Option<Endpoint>, StoreError> {
    let Some(url) = endpoint_url(data) else { return Ok(None) };
    let Some(columns) = columns else {
        let events = BTreeMap::new();
        return Ok(Some(Endpoint { user_id, url, secret: None, events, disabled_at: None }));
    };
    Ok(Some(Endpoint {
        user_id,
        url,
        secret: columns.secret.map(SigningSecret::from_stored),
        events: events_from_text(&columns.events, user_id.get())?,
        disabled_at: columns.disabled_at,
    }))
}

/// What a change makes of an endpoint; `None` takes it away with its secret and its switches.
pub(crate) fn changed_endpoint(
    user_id: UserId,
    known: Option<Endpoint>,
    change: EndpointChange,
) -> Option<Endpoint> {
    let url = change.url?;
    let (secret, events) =
        known.map_or_else(|| (None, BTreeMap::new()), |known| (known.secret, known.events));
    Some(Endpoint {
        user_id,
        url,
        secret: change.secret.or(secret).or(Some(change.fresh_secret)),
        events: change.events.unwrap_or(events),
        disabled_at: None,
    })
}

/// Whether the endpoint of a user with this data is to be switched off. The word of an address that
/// the user has replaced meanwhile says nothing about the new one.
pub(crate) fn switches_off(entry: &DeliveryEntry, data: &str) -> bool {
    let Some(url) = endpoint_url(data) else { return false };
    entry.disable && entry.delivery.as_ref().is_none_or(|delivery| delivery.url == url)
}

pub(crate) fn events_to_text(events: &BTreeMap<String, bool>) -> String {
    serde_json::to_string(events).expect("names and flags always serialise")
}

fn events_from_text(text: &str, row: i64) -> Result<BTreeMap<String, bool>, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| inconsistent(ENDPOINTS, "events", row, error.to_string()))
}

fn members(data: &str) -> Map<String, Value> {
    match serde_json::from_str(data) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(letter: char) -> SigningSecret {
        SigningSecret::parse(&letter.to_string().repeat(24)).unwrap()
    }

    #[test]
    fn the_address_is_one_member_of_many() {
        let data = with_endpoint_url(r#"{"plan":"free"}"#, Some("https://a.example/x"));
        assert_eq!(endpoint_url(&data).as_deref(), Some("https://a.example/x"));
        let without = with_endpoint_url(&data, None);
        assert_eq!(without, r#"{"plan":"free"}"#);
        for none in [&without, "[]", "", r#"{"webhook_url":7}"#, r#"{"webhook_url":""}"#] {
            assert_eq!(endpoint_url(none), None, "{none}");
        }
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name_and_enables() {
        let user = UserId::new(1);
        let change = |url: Option<&str>| EndpointChange {
            url: url.map(ToOwned::to_owned),
            secret: None,
            fresh_secret: secret('f'),
            events: None,
        };
        let first = changed_endpoint(user, None, change(Some("https://a"))).unwrap();
        assert_eq!(first.secret, Some(secret('f')));
        let known = Endpoint {
            secret: Some(secret('k')),
            events: BTreeMap::from([("bot.failed".to_owned(), false)]),
            disabled_at: Some(Timestamp::EPOCH),
            ..first
        };
        let moved = changed_endpoint(user, Some(known.clone()), change(Some("https://b"))).unwrap();
        assert_eq!((&moved.secret, &moved.events), (&known.secret, &known.events));
        assert_eq!((moved.url.as_str(), moved.disabled_at), ("https://b", None));
        assert_eq!(changed_endpoint(user, Some(known), change(None)), None);
    }

    #[test]
    fn the_word_of_a_replaced_address_switches_nothing_off() {
        let delivery = |url: &str| Delivery {
            at: Timestamp::EPOCH,
            url: url.to_owned(),
            status: Some(410),
            error: None,
            duration: Duration::ZERO,
        };
        let entry =
            |delivery, disable| DeliveryEntry { delivery, state: DeliveryState::Failed, disable };
        let data = r#"{"webhook_url":"https://new"}"#;
        assert!(switches_off(&entry(Some(delivery("https://new")), true), data));
        assert!(switches_off(&entry(None, true), data));
        assert!(!switches_off(&entry(Some(delivery("https://old")), true), data));
        assert!(!switches_off(&entry(Some(delivery("https://new")), false), data));
        assert!(!switches_off(&entry(Some(delivery("https://new")), true), "{}"));
    }
}

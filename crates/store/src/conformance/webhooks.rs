//! Endpoints, the events for them, and the log of what was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::effects::Effects;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::DeliveryEntry;
use roundsman_core::users::{User, UserId};
use roundsman_core::webhooks::{
    DELIVER_KIND, Delivery, DeliveryState, Endpoint, EndpointChange, SigningSecret, StoredEvent,
    WebhookEvent,
};
use serde_json::{Value, json};

use super::attend::{lose_leases, user};
use super::fixture::{Fixture, at_once};
use super::wishes::{MINUTE, SECOND, done, key};

const URL: &str = "https://example.org/hook?x=1&y='2'";

pub async fn an_endpoint_is_set_changed_and_taken_away(fx: &Arc<Fixture>) {
    let ada = user_with_data(fx, "ada", json!({"theme": "dark 😀", "n": [1, 2.5, null]})).await;
    let bob = user(fx, "bob").await;
    assert_eq!(endpoint(fx, ada).await, None);

    let expected = Endpoint {
        user_id: ada,
        url: URL.to_owned(),
        secret: Some(secret(1)),
        events: BTreeMap::new(),
        disabled_at: None,
    };
    let (owner, set) = set_endpoint(fx, ada, change_to(URL, 1)).await;
    assert_eq!(set, Some(expected.clone()));
    assert_eq!(endpoint(fx, ada).await, Some(expected.clone()));
    let data = json!({"theme": "dark 😀", "n": [1, 2.5, null], "webhook_url": URL});
    assert_eq!(data_of(&owner), data, "the address is where Vexa keeps it");
    assert_eq!(endpoint(fx, bob).await, None);

    // Another address; secret and switches stay as they are unless they are given.
    let events = BTreeMap::from([("meeting.completed".to_owned(), false)]);
    let change = EndpointChange { events: Some(events.clone()), ..change_to("http://b.org", 2) };
    let (_, again) = set_endpoint(fx, ada, change).await;
    let expected = Endpoint { url: "http://b.org".to_owned(), events, ..expected };
    assert_eq!(again, Some(expected.clone()));
    let change = EndpointChange { secret: Some(secret(9)), ..change_to("http://b.org", 3) };
    set_endpoint(fx, ada, change).await;
    let expected = Endpoint { secret: Some(secret(9)), ..expected };
    assert_eq!(endpoint(fx, ada).await, Some(expected));

    let (owner, gone) =
        set_endpoint(fx, ada, EndpointChange { url: None, ..change_to("", 4) }).await;
    assert_eq!(gone, None);
    assert_eq!(endpoint(fx, ada).await, None);
    assert_eq!(data_of(&owner), json!({"theme": "dark 😀", "n": [1, 2.5, null]}));
    assert_eq!(fx.store.user(ada).await.expect("user"), Some(owner));
}

pub async fn nobody_has_no_endpoint(fx: &Arc<Fixture>) {
    for id in [UserId::SYSTEM, UserId::new(1_000_000), UserId::new(i64::MAX)] {
        let set = fx.store.set_endpoint(id, change_to(URL, 1), fx.now()).await;
        assert_eq!(set.expect("set_endpoint"), None);
        assert_eq!(endpoint(fx, id).await, None);
    }
}

/// An existing Vexa database knows the address alone; the first secret is made when it is set.
pub async fn an_address_that_was_there_before_is_an_endpoint(fx: &Arc<Fixture>) {
    let ada = user_with_data(fx, "ada", json!({"webhook_url": URL})).await;
    let expected = Endpoint {
        user_id: ada,
        url: URL.to_owned(),
        secret: None,
        events: BTreeMap::new(),
        disabled_at: None,
    };
    assert_eq!(endpoint(fx, ada).await, Some(expected.clone()));
    let (_, set) = set_endpoint(fx, ada, change_to(URL, 5)).await;
    assert_eq!(set, Some(Endpoint { secret: Some(secret(5)), ..expected }));
    for (name, data) in [
        ("none", json!({"webhook_url": null})),
        ("number", json!({"webhook_url": 7})),
        ("list", json!([])),
    ] {
        let id = user_with_data(fx, name, data).await;
        assert_eq!(endpoint(fx, id).await, None, "{name}");
    }
}

pub async fn changes_at_once_lose_no_member_of_the_data(fx: &Arc<Fixture>) {
    let ada = user_with_data(fx, "ada", json!({"theme": "dark"})).await;
    let callers = (0..10u8).map(|number| {
        let fx = Arc::clone(fx);
        async move {
            let url = format!("https://example.org/{number}");
            set_endpoint(&fx, ada, change_to(&url, number)).await.1.expect("an endpoint")
        }
    });
    let answers = at_once(callers).await;
    let secrets: BTreeSet<Vec<u8>> = answers
        .iter()
        .filter_map(|answer| answer.secret.as_ref())
        .map(|secret| secret.as_bytes().to_vec())
        .collect();
    assert_eq!(secrets.len(), 1, "the first one's stays");
    let owner = fx.store.user(ada).await.expect("user").expect("it is there");
    assert_eq!(data_of(&owner)["theme"], "dark");
    assert!(endpoint(fx, ada).await.is_some());
}

pub async fn an_event_is_found_by_its_id(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let event = event(ada, "one");
    write(fx, event.clone()).await;
    let stored = stored(fx, "one").await;
    let expected = StoredEvent {
        id: stored.id,
        event,
        created_at: fx.now(),
        state: DeliveryState::Pending,
        attempts: 0,
        since: fx.now(),
    };
    assert_eq!(stored, expected);
    let none = fx.store.webhook_event("two".to_owned()).await;
    assert_eq!(none.expect("webhook_event"), None);
}

/// The same event told twice is one event: its id says so.
pub async fn an_event_is_stored_once(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    write(fx, event(ada, "one")).await;
    let first = stored(fx, "one").await;
    fx.advance(SECOND);
    write(fx, event(ada, "one")).await;
    assert_eq!(stored(fx, "one").await, first);
    assert_eq!(deliveries(fx, ada, None, 10).await.len(), 1);
}

pub async fn every_try_is_logged(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    write(fx, event(ada, "one")).await;
    let mut expected = stored(fx, "one").await;
    let lease = claim(fx, "one").await;
    let tries = [
        (Some(delivery(fx, None, Some("timed out 'é' 😀"))), DeliveryState::Pending),
        (Some(delivery(fx, Some(503), None)), DeliveryState::Pending),
        (None, DeliveryState::Pending),
        (Some(delivery(fx, Some(204), None)), DeliveryState::Delivered),
    ];
    let mut sent = Vec::new();
    for (delivery, state) in tries {
        fx.advance(SECOND);
        let delivery = delivery.map(|delivery| Delivery { at: fx.now(), ..delivery });
        sent.extend(delivery.clone());
        expected.attempts += u32::from(delivery.is_some());
        expected.state = state;
        assert!(log(fx, "one", DeliveryEntry { delivery, state, disable: false }, lease).await);
        assert_eq!(stored(fx, "one").await, expected);
        assert_eq!(deliveries(fx, ada, None, 10).await, [(expected.clone(), sent.clone())]);
    }
}

pub async fn every_state_of_a_delivery_is_kept(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for state in DeliveryState::ALL {
        write(fx, event(ada, state.as_str())).await;
        let lease = claim(fx, state.as_str()).await;
        assert!(log(fx, state.as_str(), nothing_sent(state), lease).await);
        assert_eq!(stored(fx, state.as_str()).await.state, state);
    }
}

pub async fn logging_needs_the_lease(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    set_endpoint(fx, ada, change_to(URL, 1)).await;
    write(fx, event(ada, "one")).await;
    let lease = claim(fx, "one").await;
    lose_leases(fx).await;
    let before = (stored(fx, "one").await, endpoint(fx, ada).await);
    let entry = DeliveryEntry {
        delivery: Some(delivery(fx, Some(410), None)),
        state: DeliveryState::Failed,
        disable: true,
    };
    assert!(!log(fx, "one", entry, lease).await);
    assert_eq!((stored(fx, "one").await, endpoint(fx, ada).await), before);
    assert_eq!(deliveries(fx, ada, None, 10).await, [(before.0, vec![])]);
}

/// Whoever answers 410 hears nothing more, until it is set anew.
pub async fn an_endpoint_is_switched_off_and_set_anew(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    for owner in [ada, bob] {
        set_endpoint(fx, owner, change_to(URL, 1)).await;
    }
    write(fx, event(ada, "one")).await;
    let lease = claim(fx, "one").await;
    fx.advance(SECOND);
    let entry = DeliveryEntry {
        delivery: Some(delivery(fx, Some(410), None)),
        state: DeliveryState::Failed,
        disable: true,
    };
    assert!(log(fx, "one", entry, lease).await);
    let off = endpoint(fx, ada).await.expect("it is still there");
    assert_eq!(off.disabled_at, Some(fx.now()));
    assert_eq!((off.url.as_str(), off.secret.clone()), (URL, Some(secret(1))));
    assert!(!off.wants("meeting.completed"));
    assert_eq!(endpoint(fx, bob).await.expect("it is there").disabled_at, None);
    let (_, on) = set_endpoint(fx, ada, change_to(URL, 2)).await;
    assert_eq!(on, Some(Endpoint { disabled_at: None, ..off }));
}

/// An endpoint that only the user's data knows can be switched off too.
pub async fn an_address_that_was_there_before_is_switched_off(fx: &Arc<Fixture>) {
    let ada = user_with_data(fx, "ada", json!({"webhook_url": URL})).await;
    write(fx, event(ada, "one")).await;
    let lease = claim(fx, "one").await;
    let entry = DeliveryEntry { disable: true, ..nothing_sent(DeliveryState::Failed) };
    assert!(log(fx, "one", entry, lease).await);
    let off = endpoint(fx, ada).await.expect("it is still there");
    assert_eq!((off.disabled_at, off.secret), (Some(fx.now()), None));
}

/// What an address answered says nothing about the one that has taken its place.
pub async fn a_new_address_is_not_switched_off_by_the_old_one(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    write(fx, event(ada, "one")).await;
    let lease = claim(fx, "one").await;
    let sent = delivery(fx, Some(410), None);
    let entry = DeliveryEntry { delivery: Some(sent), state: DeliveryState::Failed, disable: true };
    assert!(log(fx, "one", entry.clone(), lease).await, "there is nothing to switch off");
    assert_eq!(endpoint(fx, ada).await, None);
    set_endpoint(fx, ada, change_to("https://new.example.org", 1)).await;
    assert!(log(fx, "one", entry, lease).await);
    let new = endpoint(fx, ada).await.expect("it is there");
    assert_eq!(new.disabled_at, None);
}

pub async fn deliveries_are_listed_for_whom_they_concern(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let mut mine = Vec::new();
    for number in 0..5 {
        let id = format!("ada {number}");
        write(fx, event(ada, &id)).await;
        write(fx, event(bob, &format!("bob {number}"))).await;
        mine.insert(0, stored(fx, &id).await);
        fx.advance(SECOND);
    }
    let page = async |before: Option<i64>, rows_max| {
        let found = deliveries(fx, ada, before, rows_max).await;
        found.into_iter().map(|(event, _)| event).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 100).await, mine);
    assert_eq!(page(None, 2).await, mine[..2]);
    assert_eq!(page(Some(mine[1].id), 2).await, mine[2..4]);
    assert_eq!(page(Some(mine[4].id), 2).await, vec![]);
    assert_eq!(deliveries(fx, bob, None, 100).await.len(), 5);
    let nobody = UserId::new(i64::MAX);
    assert_eq!(deliveries(fx, nobody, None, 100).await, vec![]);
}

pub async fn an_event_is_sent_again_with_its_own_id(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    for state in [DeliveryState::Delivered, DeliveryState::Failed, DeliveryState::Skipped] {
        let id = state.as_str();
        write(fx, event(ada, id)).await;
        let lease = claim(fx, id).await;
        let sent = delivery(fx, Some(500), None);
        let entry = DeliveryEntry { delivery: Some(sent), ..nothing_sent(state) };
        assert!(log(fx, id, entry, lease).await);
        fx.land(lease, done("1")).await;
        fx.assert_nothing_to_claim(DELIVER_KIND).await;
        let before = stored(fx, id).await;
        fx.advance(MINUTE);
        for (who, which) in [(bob, id), (ada, "nothing"), (UserId::SYSTEM, id)] {
            assert!(!replay(fx, who, which).await);
        }
        assert_eq!(stored(fx, id).await, before);
        fx.assert_nothing_to_claim(DELIVER_KIND).await;

        assert!(replay(fx, ada, id).await);
        let again = stored(fx, id).await;
        assert_eq!((again.state, again.since), (DeliveryState::Pending, fx.now()));
        assert_eq!((again.id, &again.event), (before.id, &before.event));
        assert_eq!(again.created_at, before.created_at);
        let logged = deliveries(fx, ada, None, 1).await;
        assert_eq!(logged[0].1.len(), 1, "what was sent before stays in the log");
        let lease = claim(fx, id).await;
        fx.land(lease, done("1")).await;
    }
}

pub async fn pruning_takes_what_is_old_and_never_what_is_pending(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for state in DeliveryState::ALL {
        for number in 0..3 {
            let id = format!("{} {number}", state.as_str());
            write(fx, event(ada, &id)).await;
            let lease = claim(fx, &id).await;
            let sent = delivery(fx, Some(200), None);
            let entry = DeliveryEntry { delivery: Some(sent), ..nothing_sent(state) };
            assert!(log(fx, &id, entry, lease).await);
        }
    }
    let written = fx.now();
    fx.advance(MINUTE);
    write(fx, event(ada, "young")).await;
    let lease = claim(fx, "young").await;
    assert!(log(fx, "young", nothing_sent(DeliveryState::Delivered), lease).await);
    let prune = async |before, rows_max| {
        let pruned = fx.store.prune_webhook_events(before, rows_max).await;
        pruned.expect("prune_webhook_events")
    };
    assert_eq!(prune(written, 100).await, 0, "created before, not at");
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(prune(fx.now(), 5).await);
    }
    assert_eq!(counts, [5, 4, 0]);
    let left = deliveries(fx, ada, None, 100).await;
    let ids: Vec<&str> = left.iter().map(|(stored, _)| stored.event.event_id.as_str()).collect();
    assert_eq!(ids, ["young", "pending 2", "pending 1", "pending 0"]);
    assert!(left[1..].iter().all(|(_, tries)| tries.len() == 1), "with their tries");
}

async fn set_endpoint(
    fx: &Fixture,
    user: UserId,
    change: EndpointChange,
) -> (User, Option<Endpoint>) {
    let set = fx.store.set_endpoint(user, change, fx.now()).await;
    set.expect("set_endpoint").expect("the user is there")
}

async fn endpoint(fx: &Fixture, user: UserId) -> Option<Endpoint> {
    fx.store.endpoint(user).await.expect("endpoint")
}

fn change_to(url: &str, fresh: u8) -> EndpointChange {
    EndpointChange {
        url: Some(url.to_owned()),
        secret: None,
        fresh_secret: secret(fresh),
        events: None,
    }
}

fn secret(byte: u8) -> SigningSecret {
    SigningSecret::from_stored(vec![byte; 32])
}

async fn user_with_data(fx: &Fixture, name: &str, data: Value) -> UserId {
    let id = user(fx, name).await;
    let known = fx.store.user(id).await.expect("user").expect("it is there");
    let changed = User { data: data.to_string(), ..known };
    fx.store.update_user(changed).await.expect("update").expect("it is there");
    id
}

fn data_of(user: &User) -> Value {
    serde_json::from_str(&user.data).expect("a user's data is JSON")
}

fn event(user_id: UserId, event_id: &str) -> WebhookEvent {
    let data = json!({"text": "it's é 😀"});
    let at = roundsman_core::Timestamp::EPOCH;
    WebhookEvent::new(user_id, event_id.to_owned(), "meeting.completed", data, at)
}

/// Writes an event with the wish to deliver it.
async fn write(fx: &Fixture, event: WebhookEvent) {
    let mut effects = Effects::default();
    event.add_to(&mut effects, fx.now());
    assert!(fx.store.commit(None, effects, fx.now()).await.expect("commit"));
}

async fn stored(fx: &Fixture, event_id: &str) -> StoredEvent {
    let event = fx.store.webhook_event(event_id.to_owned()).await.expect("webhook_event");
    event.unwrap_or_else(|| panic!("event {event_id} is gone"))
}

/// Claims the job that delivers this event.
async fn claim(fx: &Fixture, event_id: &str) -> LeaseRef {
    let jobs = fx.claim(DELIVER_KIND, 100).await;
    let job = jobs.iter().find(|job| job.facts.key.as_ref() == Some(&key(event_id)));
    job.unwrap_or_else(|| panic!("nobody is to deliver {event_id}")).lease_ref()
}

fn delivery(fx: &Fixture, status: Option<u16>, error: Option<&str>) -> Delivery {
    Delivery {
        at: fx.now(),
        url: URL.to_owned(),
        status,
        error: error.map(ToOwned::to_owned),
        duration: Duration::from_micros(1_234_567),
    }
}

fn nothing_sent(state: DeliveryState) -> DeliveryEntry {
    DeliveryEntry { delivery: None, state, disable: false }
}

async fn log(fx: &Fixture, event_id: &str, entry: DeliveryEntry, guard: LeaseRef) -> bool {
    let logged = fx.store.log_delivery(event_id.to_owned(), entry, guard, fx.now()).await;
    logged.expect("log_delivery")
}

/// A user's events with the tries of each, oldest try first.
async fn deliveries(
    fx: &Fixture,
    user: UserId,
    before: Option<i64>,
    rows_max: u32,
) -> Vec<(StoredEvent, Vec<Delivery>)> {
    let mut found = fx.store.deliveries(user, before, rows_max).await.expect("deliveries");
    for (_, tries) in &mut found {
        tries.sort_by_key(|delivery| delivery.at);
    }
    found
}

async fn replay(fx: &Fixture, user: UserId, event_id: &str) -> bool {
    let replayed = fx.store.replay_event(user, event_id.to_owned(), fx.now()).await;
    replayed.expect("replay_event")
}

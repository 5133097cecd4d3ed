//! The subscription to the provider's events.

use roundsman_core::ports::{NewSubscription, RoomsError};
use roundsman_core::presence::SUBSCRIPTION_KIND;
use roundsman_engine::jobs::periodic_wish;
use roundsman_engine::presence::{PresenceOptions, SubscriptionState};

use super::daily::{Mishap, subscription};
use super::{PresenceWorld, pass};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    r_15_a_subscription_that_was_switched_off_is_renewed_within_five_minutes
    r_15_a_node_that_starts_looks_at_once
    a_subscription_is_made_on_request_and_only_then
    one_that_lacks_events_is_renewed
    one_that_stays_off_is_not_taken_for_renewed
    without_an_address_nothing_is_asked
    a_provider_that_does_not_answer_is_asked_again
    one_node_asks
}

const URL: &str = "https://roundsman.example.org/webhooks/daily";

fn wish() -> NewSubscription {
    NewSubscription { url: URL.to_owned(), event_types: types(), secret: "c2VjcmV0".to_owned() }
}

fn types() -> Vec<String> {
    vec!["participant.joined".to_owned(), "participant.left".to_owned()]
}

/// A node that wants events, as it starts.
async fn wanting(backend: Backend) -> PresenceWorld {
    let mut world = PresenceWorld::new(backend).await;
    world.options = PresenceOptions { subscription: Some(wish()), ..PresenceOptions::default() };
    world.restart();
    world
}

async fn r_15_a_subscription_that_was_switched_off_is_renewed_within_five_minutes(
    backend: Backend,
) {
    let world = wanting(backend).await;
    let others = subscription("w1", "https://elsewhere.example.org", "FAILED", &types());
    let ours = subscription("w2", URL, "FAILED", &types());
    world.daily.set_subscriptions(vec![others.clone(), ours]);
    world.enqueue(vec![periodic_wish(SUBSCRIPTION_KIND, world.now())]).await;
    // At the start.
    world.run_due().await;
    assert_eq!(world.daily.count("renew_subscription"), 1);
    assert_eq!(world.metric("presence_subscription_renewals_total"), 1);
    // And later.
    world.daily.set_subscriptions(vec![others, subscription("w2", URL, "INACTIVE", &types())]);
    world.pass(secs(300)).await;
    assert_eq!(world.daily.count("renew_subscription"), 2);
    world.pass(secs(3600)).await;
    assert_eq!(world.daily.count("renew_subscription"), 2, "it is on");
    world.check().await;
}

async fn r_15_a_node_that_starts_looks_at_once(backend: Backend) {
    let mut world = wanting(backend).await;
    world.daily.set_subscriptions(vec![subscription("w", URL, "ACTIVE", &types())]);
    world.start_timers().await;
    world.pass(secs(60)).await;
    // We were away, and the provider has given up.
    world.daily.set_subscriptions(vec![subscription("w", URL, "FAILED", &types())]);
    world.restart();
    world.start_timers().await;
    world.run_due().await;
    assert_eq!(world.daily.count("renew_subscription"), 1, "long before five minutes are over");
    world.check().await;
}

async fn a_subscription_is_made_on_request_and_only_then(backend: Backend) {
    let world = wanting(backend).await;
    let subscriptions = world.work.subscriptions(&world.options);
    assert_eq!(subscriptions.tick().await, Ok(SubscriptionState::Missing));
    assert_eq!(world.daily.count("subscribe"), 0);
    let made = subscriptions.subscribe().await.unwrap().unwrap();
    assert!(made.is_active() && made.url == URL);
    assert_eq!(subscriptions.tick().await, Ok(SubscriptionState::Active));
    // Asking again renews it, for one is enough.
    subscriptions.subscribe().await.unwrap();
    assert_eq!((world.daily.count("subscribe"), world.daily.count("renew_subscription")), (1, 1));
}

async fn one_that_lacks_events_is_renewed(backend: Backend) {
    let world = wanting(backend).await;
    let subscriptions = world.work.subscriptions(&world.options);
    world.daily.set_subscriptions(vec![subscription("w", URL, "ACTIVE", &types()[..1])]);
    assert_eq!(subscriptions.tick().await, Ok(SubscriptionState::Renewed));
    assert_eq!(subscriptions.tick().await, Ok(SubscriptionState::Active));
}

async fn one_that_stays_off_is_not_taken_for_renewed(backend: Backend) {
    let world = wanting(backend).await;
    let subscriptions = world.work.subscriptions(&world.options);
    world.daily.set_subscriptions(vec![subscription("w", URL, "FAILED", &types())]);
    world.daily.stay_off(true);
    assert_eq!(subscriptions.tick().await, Ok(SubscriptionState::Off));
    assert_eq!(world.metric("presence_subscription_renewals_total"), 0);
    world.daily.stay_off(false);
    assert_eq!(subscriptions.tick().await, Ok(SubscriptionState::Renewed));
    assert_eq!(world.metric("presence_subscription_renewals_total"), 1);
}

async fn without_an_address_nothing_is_asked(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let subscriptions = world.work.subscriptions(&world.options);
    assert_eq!(subscriptions.tick().await, Ok(SubscriptionState::NotWanted));
    assert_eq!(subscriptions.subscribe().await, Ok(None));
    assert_eq!(world.daily.calls(), []);
}

async fn a_provider_that_does_not_answer_is_asked_again(backend: Backend) {
    let world = wanting(backend).await;
    world.daily.set_subscriptions(vec![subscription("w", URL, "FAILED", &types())]);
    world.daily.set("renew_subscription", Mishap::Unavailable);
    world.enqueue(vec![periodic_wish(SUBSCRIPTION_KIND, world.now())]).await;
    world.pass(secs(300)).await;
    assert!(world.daily.count("renew_subscription") > 3);
    let failed = world.work.subscriptions(&world.options).tick().await;
    assert!(matches!(failed, Err(RoomsError::Unavailable(_))), "{failed:?}");
    world.daily.mend();
    world.pass(secs(60)).await;
    assert_eq!(world.metric("presence_subscription_renewals_total"), 1);
    world.check().await;
}

async fn one_node_asks(backend: Backend) {
    let world = wanting(backend).await;
    world.daily.set_subscriptions(vec![subscription("w", URL, "ACTIVE", &types())]);
    let nodes = [&world.node, &world.another_node("w2"), &world.another_node("w3")];
    for _ in &nodes {
        // Every node asks for it when it starts.
        world.enqueue(vec![periodic_wish(SUBSCRIPTION_KIND, world.now())]).await;
    }
    let began_at = world.now();
    pass(&world.world, &nodes, secs(1500)).await;
    let times: Vec<_> = world.daily.calls().iter().map(|call| call.at).collect();
    let expected: Vec<_> = (0..=5).map(|round| began_at + secs(300 * round)).collect();
    assert_eq!(times, expected);
    world.check().await;
}

//! Where Daily's events go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use roundsman_core::daily::SUBSCRIBED_EVENTS;
use roundsman_core::ports::{NewSubscription, RoomsError, VideoRooms};

use super::{Pair, guest};
use crate::stand_in::{Play, StandIn};

const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn wish(url: &str) -> NewSubscription {
    NewSubscription {
        url: url.to_owned(),
        event_types: SUBSCRIBED_EVENTS.map(str::to_owned).to_vec(),
        secret: SECRET.to_owned(),
    }
}

/// Somebody who answers as told.
async fn receiver(status: u16) -> (StandIn, Arc<AtomicU16>) {
    let says = Arc::new(AtomicU16::new(status));
    let said = says.clone();
    let answer = move |_: &_| Play::Answer(said.load(Ordering::Relaxed), String::new());
    (StandIn::answering(answer).await, says)
}

#[tokio::test]
async fn a_subscription_is_made_renewed_and_ended() {
    let pair = Pair::new().await;
    let (receiver, says) = receiver(200).await;
    assert_eq!(pair.client.subscriptions().await, Ok(vec![]));
    let url = format!("{}/webhooks/daily", receiver.url());
    let made = pair.client.subscribe(wish(&url)).await.unwrap();
    assert!(made.is_active() && made.url == url);
    assert_eq!(made.event_types, SUBSCRIBED_EVENTS);
    assert_eq!(pair.client.subscriptions().await, Ok(vec![made.clone()]));
    let ping = &receiver.seen()[0];
    assert_eq!(ping.body, r#"{"test":"test"}"#);
    assert!(ping.header("x-webhook-signature").is_some());

    // Ours is of the sort that is tried again and never switched off.
    says.store(500, Ordering::Relaxed);
    for _ in 0..5 {
        pair.daily.join("room", guest("Ada"));
    }
    pair.daily.deliver().await;
    assert!(pair.client.subscriptions().await.unwrap()[0].is_active());
    assert_eq!(pair.daily.undelivered(), 5);

    let refused = pair.client.renew_subscription(&made.id, wish(&url)).await.unwrap_err();
    assert!(matches!(&refused, RoomsError::Refused(why) if why.contains("non-200")), "{refused}");
    says.store(200, Ordering::Relaxed);
    let renewed = pair.client.renew_subscription(&made.id, wish(&url)).await.unwrap();
    assert_eq!((renewed.id.as_str(), renewed.is_active()), (made.id.as_str(), true));
    assert_eq!(pair.client.unsubscribe(&made.id).await, Ok(true), "the answer is empty");
    assert_eq!(pair.client.unsubscribe(&made.id).await, Ok(false));
    let gone = pair.client.renew_subscription(&made.id, wish(&url)).await;
    assert_eq!(gone, Err(RoomsError::NotFound));
}

#[tokio::test]
async fn one_that_daily_switched_off_is_switched_on_again() {
    let pair = Pair::new().await;
    let (receiver, says) = receiver(200).await;
    let client = roundsman_testkit::JsonClient::new(pair.daily.api_url()).unwrap();
    let client = client.with_token(pair.daily.api_key()).unwrap();
    // Made by somebody else, of the sort that is switched off.
    let body = serde_json::json!({"url": receiver.url(), "hmac": SECRET,
        "eventTypes": ["participant.joined"]});
    client.post("/webhooks", &body).await.unwrap().expect_status(200).unwrap();
    says.store(503, Ordering::Relaxed);
    for _ in 0..3 {
        pair.daily.join("room", guest("Ada"));
    }
    pair.daily.deliver().await;
    let found = pair.client.subscriptions().await.unwrap().remove(0);
    assert_eq!((found.state.as_str(), found.is_active()), ("FAILED", false));
    says.store(200, Ordering::Relaxed);
    let renewed = pair.client.renew_subscription(&found.id, wish(&receiver.url())).await.unwrap();
    assert!(renewed.is_active() && renewed.id == found.id);
}

#[test]
fn a_wish_hides_its_secret() {
    assert!(!format!("{:?}", wish("https://example.com")).contains(SECRET));
}

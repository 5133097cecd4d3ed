//! No more is asked than is allowed, and patience is shown where it is asked for.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::{Clock, RoomsError, Urgency, VideoRecordings, VideoRooms};
use roundsman_testkit::daily::{Fault, FaultRule, Route};
use roundsman_testkit::eventually;
use tokio::task::JoinSet;

use super::{Pair, guest, room, secs, unlimited};

const SOON: Duration = Duration::from_secs(20);

impl Pair {
    /// Waits until as many requests have arrived as were let through.
    async fn settle(&self, sent: usize) {
        let settled = eventually(SOON, async || {
            let waiting = u64::try_from(self.client.waiting()).unwrap();
            (self.daily.requests_total() + waiting == u64::try_from(sent).unwrap()).then_some(())
        });
        settled.await.unwrap();
    }
}

#[tokio::test]
async fn a_crowd_never_asks_for_more_than_daily_allows() {
    const ROOMS: usize = 250;
    let pair = Pair::with(|options| options.limits.wait_max = secs(60)).await;
    let mut calls = JoinSet::new();
    for number in 0..ROOMS {
        pair.daily.join(&format!("room-{number}"), guest("Ada"));
        let client = pair.client.clone();
        calls.spawn(async move {
            let urgency = if number.is_multiple_of(3) { Urgency::Event } else { Urgency::Routine };
            client.room_presence(&room(&format!("room-{number}")), urgency).await
        });
    }
    let mut pages = JoinSet::new();
    for _ in 0..5 {
        let client = pair.client.clone();
        pages.spawn(async move { client.recordings_page(None).await });
    }
    for step in 0.. {
        assert!(step < 1000, "it takes too long");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        pair.settle(ROOMS + 5).await;
        if pair.client.waiting() == 0 {
            break;
        }
        pair.clock.advance(Duration::from_millis(50));
        pair.client.recheck();
    }
    while let Some(seen) = calls.join_next().await {
        assert_eq!(seen.unwrap().unwrap().len(), 1);
    }
    while let Some(page) = pages.join_next().await {
        page.unwrap().unwrap();
    }
    assert_eq!(pair.daily.requests_refused(), 0, "Daily never had to say so");
    assert!(pair.daily.requests_within(secs(5)) <= 100);
    assert!(pair.daily.requests_within(secs(1)) <= 20);
    assert!(pair.clock.monotonic() < secs(20), "and it was as fast as that allows");
}

#[tokio::test]
async fn after_a_refusal_nobody_asks_for_a_while() {
    let pair = Pair::with(|options| options.limits = unlimited()).await;
    pair.daily.join("room", guest("Ada"));
    let fault = Fault::TooManyRequests { retry_after_secs: Some(4) };
    pair.daily.add_fault(FaultRule::times(Route::RoomPresence, fault, 1));
    let after = Some(secs(4));
    assert_eq!(pair.look("room").await, Err(RoomsError::RateLimited { after }));
    let client = pair.client.clone();
    let mut later = JoinSet::new();
    later.spawn(async move { client.room_presence(&room("room"), Urgency::Event).await });
    eventually(SOON, async || (pair.client.waiting() == 1).then_some(())).await.unwrap();
    pair.clock.advance(secs(3));
    pair.client.recheck();
    tokio::task::yield_now().await;
    assert_eq!((pair.client.waiting(), pair.daily.requests(Route::RoomPresence)), (1, 1));
    pair.clock.advance(secs(1));
    pair.client.recheck();
    assert_eq!(later.join_next().await.unwrap().unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn silence_grows_and_who_would_wait_too_long_is_told() {
    let pair = Pair::with(|options| options.limits = unlimited()).await;
    pair.daily.join("room", guest("Ada"));
    let fault = Fault::TooManyRequests { retry_after_secs: None };
    pair.daily.add_fault(FaultRule::always(Route::RoomPresence, fault));
    for pause in [1, 2, 4, 8, 16, 32] {
        assert_eq!(pair.look("room").await, Err(RoomsError::RateLimited { after: None }));
        let asked = pair.daily.requests_total();
        if pause > 30 {
            let after = Some(secs(pause));
            assert_eq!(pair.look("room").await, Err(RoomsError::RateLimited { after }));
        }
        assert_eq!(pair.daily.requests_total(), asked, "nothing is sent meanwhile");
        pair.clock.advance(secs(pause));
    }
    pair.daily.clear_faults();
    assert_eq!(pair.ids("room").await.len(), 1);
}

/// A line that is full refuses instead of growing.
#[tokio::test]
async fn a_full_line_refuses() {
    let pair = Pair::with(|options| options.limits.queued_max = 5).await;
    pair.daily.add_room("room");
    let refused = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let (client, refused) = (pair.client.clone(), refused.clone());
        calls.spawn(async move {
            let answer = client.room_presence(&room("room"), Urgency::Routine).await;
            if matches!(answer, Err(RoomsError::RateLimited { after: Some(_) })) {
                refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
    }
    let count = || refused.load(std::sync::atomic::Ordering::Relaxed);
    let full =
        eventually(SOON, async || (count() == 15 && pair.client.waiting() == 5).then_some(()));
    full.await.unwrap();
    assert_eq!(pair.daily.requests_refused(), 0);
}

//! The client of Daily against a stand-in that answers like it, and in every way that it should not.

mod faults;
mod limits;
mod recordings;
mod rooms;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::{RoomsError, Urgency, VideoRooms};
use roundsman_core::presence::{Participant, RoomName};
use roundsman_providers::daily::{DailyClient, DailyLimits, DailyOptions, InvalidDailyOptions};
use roundsman_testkit::daily::{DailyStandIn, DailyStandInOptions};
use roundsman_testkit::{ManualClock, daily};

/// A client, whom it asks, and the clock of both.
struct Pair {
    clock: Arc<ManualClock>,
    daily: DailyStandIn,
    client: Arc<DailyClient>,
}

impl Pair {
    /// Without limits: the clock stands still.
    async fn new() -> Self {
        Pair::with(|options| options.limits = unlimited()).await
    }

    async fn with(choose: impl FnOnce(&mut DailyOptions)) -> Self {
        let clock = Arc::new(ManualClock::default());
        let options = DailyStandInOptions { delivers: false, ..DailyStandInOptions::default() };
        let daily = DailyStandIn::start_with(options, clock.clone()).await.unwrap();
        let mut options = options_of(&daily.api_url(), daily.api_key());
        choose(&mut options);
        daily.set_limited(options.limits != unlimited(), None);
        let client = Arc::new(DailyClient::new(&options, clock.clone()).unwrap());
        Pair { clock, daily, client }
    }

    async fn look(&self, name: &str) -> Result<Vec<Participant>, RoomsError> {
        self.client.room_presence(&room(name), Urgency::Event).await
    }

    async fn ids(&self, name: &str) -> Vec<String> {
        let people = self.look(name).await.unwrap();
        people.into_iter().map(|person| person.session_id).collect()
    }
}

fn options_of(url: &str, key: &str) -> DailyOptions {
    DailyOptions::new(url.to_owned(), key.to_owned().into())
}

fn unlimited() -> DailyLimits {
    DailyLimits { most: Vec::new(), scarce: Vec::new(), ..DailyLimits::default() }
}

fn room(name: &str) -> RoomName {
    RoomName::new(name).unwrap()
}

fn guest(name: &str) -> daily::Guest {
    daily::Guest::named(name)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn settings_are_checked() {
    let clock = Arc::new(ManualClock::default());
    let error = |url: &str, key: &str| DailyClient::new(&options_of(url, key), clock.clone()).err();
    for url in ["", "api.daily.co/v1", "ftp://a/v1", "http://user@a", "http://a/v1?b", "data:x"] {
        assert_eq!(error(url, "key"), Some(InvalidDailyOptions::BaseUrl), "{url}");
    }
    for key in ["", " ", "a\nb"] {
        assert_eq!(error("https://api.daily.co/v1", key), Some(InvalidDailyOptions::ApiKey));
    }
    assert_eq!(error("https://api.daily.co/v1/", "key"), None);
    assert_eq!(error("http://[::1]:8080", "key"), None);
}

//! A stand-in for Daily on loopback: its REST API and its webhooks in their published shapes, with
//! its lag, its pages, its limits and its ways to fail.
//!
//! People join and leave as the test says; the clock is the test's. Time that Daily lets pass is
//! that clock's, but for answers that are slow on purpose.

mod delivery;
mod events;
mod faults;
pub(crate) mod http;
mod meter;
mod recordings;
mod rooms;
mod routes;
mod webhooks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use roundsman_core::Timestamp;
use roundsman_core::ports::Clock;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::ports::loopback;
use crate::random::SeededRandom;
use events::Event;
pub use faults::{Fault, FaultRule};
pub use meter::Route;
pub use recordings::{NewRecording, NewTrack};
pub use rooms::{Guest, Visit};
use rooms::{Rooms, Stay};
pub use webhooks::{Delivered, WebhookFaults};

/// The domain whose rooms these are.
const DOMAIN: &str = "stand-in";

/// How a stand-in begins.
#[derive(Debug, Clone)]
pub struct DailyStandInOptions {
    /// What a client must say as its key.
    pub api_key: String,
    pub lags: Lags,
    /// Whether requests beyond the documented limits are refused.
    pub is_limited: bool,
    /// Whether events are sent as they happen; else when [`DailyStandIn::deliver`] is called.
    pub delivers: bool,
    /// Of ids, and of what goes wrong by chance.
    pub seed: u64,
    /// 0 for a port of its own.
    pub port: u16,
}

impl Default for DailyStandInOptions {
    fn default() -> Self {
        DailyStandInOptions {
            api_key: "stand-in-key".to_owned(),
            lags: Lags::default(),
            is_limited: true,
            delivers: true,
            seed: 0,
            port: 0,
        }
    }
}

/// How old answers are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lags {
    /// About one room.
    pub room: Duration,
    /// About all.
    pub domain: Duration,
}

/// Daily. It is gone when dropped.
pub struct DailyStandIn {
    shared: Arc<Shared>,
    _serving: DropGuard,
}

struct Shared {
    address: SocketAddr,
    api_key: String,
    clock: Arc<dyn Clock>,
    random: SeededRandom,
    client: reqwest::Client,
    state: Mutex<State>,
    /// There is an event to be sent.
    happened: Notify,
    delivering: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    rooms: Rooms,
    recordings: recordings::Recordings,
    webhooks: webhooks::Webhooks,
    tokens: BTreeMap<String, Value>,
    faults: faults::Faults,
    meter: meter::Meter,
    lags: Lags,
    is_limited: bool,
    retry_after_secs: Option<u64>,
}

impl DailyStandIn {
    /// Serves an empty domain, with Daily's limits and without its lag.
    pub async fn start(clock: Arc<dyn Clock>) -> Result<Self> {
        DailyStandIn::start_with(DailyStandInOptions::default(), clock).await
    }

    pub async fn start_with(options: DailyStandInOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let listener = TcpListener::bind(loopback(options.port)).await?;
        let client = reqwest::Client::builder().no_proxy().timeout(delivery::ANSWER_MAX).build()?;
        let state =
            State { lags: options.lags, is_limited: options.is_limited, ..State::default() };
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            api_key: options.api_key,
            clock,
            random: SeededRandom::new(options.seed),
            client,
            state: Mutex::new(state),
            happened: Notify::new(),
            delivering: tokio::sync::Mutex::new(()),
        });
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let served = shared.clone();
        let answer = move |request| routes::answer(served.clone(), request);
        tasks.spawn(http::serve(listener, stop.clone(), answer));
        if options.delivers {
            tasks.spawn(delivery::pump(shared.clone(), stop.clone()));
        }
        Ok(DailyStandIn { shared, _serving: stop.drop_guard() })
    }

    /// What a client is given in the place of `https://api.daily.co/v1`.
    pub fn api_url(&self) -> String {
        format!("{}/v1", self.shared.base_url())
    }

    pub fn api_key(&self) -> &str {
        &self.shared.api_key
    }

    /// A room is there, if it was not.
    pub fn add_room(&self, room: &str) {
        let (id, now) = (self.shared.draw_uuid(), self.shared.clock.now());
        self.shared.state().rooms.make(room, id, now);
    }

    /// A room is no more; nobody is told.
    pub fn remove_room(&self, room: &str) -> bool {
        self.shared.state().rooms.remove(room)
    }

    /// A room's time is over at `at`.
    pub fn expire_room(&self, room: &str, at: Timestamp) {
        if let Some(room) = self.shared.state().rooms.get_mut(room) {
            room.expires_at = Some(at);
        }
    }

    /// Somebody joins a room, which is made if it is not there. Returns their session's id.
    pub fn join(&self, room: &str, guest: Guest) -> String {
        let session = self.shared.draw_uuid();
        self.join_as(room, guest, &session);
        session
    }

    /// Somebody joins under an id of the test's.
    pub fn join_as(&self, room: &str, guest: Guest, session: &str) {
        let (id, meeting) = (self.shared.draw_uuid(), self.shared.draw_uuid());
        let now = self.shared.clock.now();
        let session = session.to_owned();
        let stay = Stay { session, guest, joined_at: now, left_at: None, meeting: meeting.clone() };
        let is_first = self.shared.state().rooms.make(room, id, now).join(stay.clone());
        if is_first {
            self.shared.tell(&events::meeting_started(room, &meeting, now));
        }
        self.shared.tell(&events::joined(room, &stay, now));
    }

    /// Somebody leaves; `false` if they were not there.
    pub fn leave(&self, room: &str, session: &str) -> bool {
        let now = self.shared.clock.now();
        let left =
            self.shared.state().rooms.get_mut(room).and_then(|room| room.leave(session, now));
        let Some((stay, is_last)) = left else { return false };
        self.shared.tell(&events::left(room, &stay, now));
        if is_last {
            self.shared.tell(&events::meeting_ended(room, &stay, now));
        }
        true
    }

    /// The ids of those who are in a room now, whatever the answers say.
    pub fn present(&self, room: &str) -> Vec<String> {
        let state = self.shared.state();
        let room = state.rooms.get(room, Timestamp::EPOCH);
        room.map_or_else(Vec::new, |room| room.present().map(|stay| stay.session.clone()).collect())
    }

    /// Everybody who is or was in a room, in the order in which they joined.
    pub fn visits(&self, room: &str) -> Vec<Visit> {
        let state = self.shared.state();
        let room = state.rooms.get(room, Timestamp::EPOCH);
        room.map_or_else(Vec::new, |room| room.visits().collect())
    }

    /// A finished recording, which is told of. Returns its id.
    pub fn record(&self, recording: NewRecording) -> String {
        let id = self.shared.draw_uuid();
        self.shared.state().recordings.add(id.clone(), recording, "finished");
        self.tell_recording(&id);
        id
    }

    /// A recording that goes on. Returns its id.
    pub fn begin_recording(&self, recording: NewRecording) -> String {
        let id = self.shared.draw_uuid();
        self.shared.state().recordings.add(id.clone(), recording, "in-progress");
        id
    }

    /// It is finished, and told of; `false` if there is none.
    pub fn finish_recording(&self, id: &str, duration: Duration) -> bool {
        self.shared.state().recordings.finish(id, duration) && self.tell_recording(id)
    }

    /// Its event is sent, again if it was sent before; `false` if there is none.
    pub fn tell_recording(&self, id: &str) -> bool {
        let payload = self.shared.state().recordings.ready_payload(id);
        let now = self.shared.clock.now();
        let event = payload.map(|payload| events::recording_ready(id, &payload, now));
        event.map(|event| self.shared.tell(&event)).is_some()
    }

    /// Any entry at all, as the newest of the list of recordings.
    pub fn add_recording_entry(&self, entry: Value) {
        self.shared.state().recordings.add_entry(entry);
    }

    /// An event of this type with any payload at all, if the webhook wants such.
    pub fn send_event(&self, id: &str, kind: &'static str, payload: &Value) {
        let now = self.shared.clock.now();
        self.shared.tell(&events::event(id.to_owned(), kind, payload, now));
    }

    /// Sends all events that are due; how many that were. For a stand-in that does not by itself.
    pub async fn deliver(&self) -> usize {
        self.shared.deliver().await
    }

    /// How many events wait to be sent.
    pub fn undelivered(&self) -> usize {
        self.shared.state().webhooks.waiting()
    }

    /// What was sent, and how it was answered.
    pub fn delivered(&self) -> Vec<Delivered> {
        self.shared.state().webhooks.delivered.clone()
    }

    /// How many events were lost on purpose.
    pub fn lost(&self) -> u64 {
        self.shared.state().webhooks.lost
    }

    pub fn set_webhook_faults(&self, faults: WebhookFaults) {
        self.shared.state().webhooks.faults = faults;
    }

    pub fn set_lags(&self, lags: Lags) {
        self.shared.state().lags = lags;
    }

    /// Whether requests beyond the documented limits are refused, and what they are told.
    pub fn set_limited(&self, is_limited: bool, retry_after_secs: Option<u64>) {
        let mut state = self.shared.state();
        (state.is_limited, state.retry_after_secs) = (is_limited, retry_after_secs);
    }

    /// From now on, something goes wrong; earlier rules come first.
    pub fn add_fault(&self, rule: FaultRule) {
        self.shared.state().faults.rules.push(rule);
    }

    pub fn clear_faults(&self) {
        self.shared.state().faults.rules.clear();
    }

    /// How often something is still to go wrong; rules without a number are not counted.
    pub fn faults_left(&self) -> u32 {
        self.shared.state().faults.rules.iter().filter_map(|rule| rule.times).sum()
    }

    /// How many requests there were, refused ones included.
    pub fn requests(&self, route: Route) -> u64 {
        self.shared.state().meter.of(route)
    }

    /// Of all that count against the limits.
    pub fn requests_total(&self) -> u64 {
        self.shared.state().meter.total()
    }

    /// How many requests were one too many.
    pub fn requests_refused(&self) -> u64 {
        self.shared.state().meter.refused()
    }

    /// The most requests that any stretch of this length had, by the clock.
    pub fn requests_within(&self, stretch: Duration) -> usize {
        self.shared.state().meter.busiest(stretch)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn draw_uuid(&self) -> String {
        draw_uuid(&self.random)
    }

    fn tell(&self, event: &Event) {
        let now = self.clock.now();
        self.state().webhooks.push(event, &self.random, now);
        self.happened.notify_one();
    }
}

/// In the form of Daily's ids.
fn draw_uuid(random: &SeededRandom) -> String {
    let (high, low) = (random.next_u64(), random.next_u64());
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests;

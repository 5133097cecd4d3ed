//! A provider that does what a test tells it: who is in its rooms is known to the microsecond, and
//! its answers lag, fail, repeat what was, or leave somebody out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{
    Clock, CreatedRoom, NewRoom, NewRoomToken, NewSubscription, RoomsError, Subscription, Urgency,
    VideoRooms,
};
use roundsman_core::presence::{DomainLook, Participant, RoomName};
use roundsman_testkit::ManualClock;
use tokio::sync::Semaphore;

/// What goes wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mishap {
    Unavailable,
    /// Half an answer, a page of HTML, wrong types.
    Odd,
    Refused,
    RateLimited(Option<Duration>),
    /// There is no such room.
    NotFound,
    NotConfigured,
    /// An answer without anybody in it, however many are there.
    Empty,
    /// How it was this long ago.
    Stale(Duration),
    /// Without this session.
    Without(String),
}

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) at: Timestamp,
    pub(super) name: &'static str,
    pub(super) room: Option<String>,
    pub(super) urgency: Option<Urgency>,
}

/// Somebody's stay in a room, as it really was.
#[derive(Debug, Clone)]
pub(super) struct Stay {
    pub(super) person: Participant,
    pub(super) until: Option<Timestamp>,
}

impl Stay {
    fn covers(&self, at: Timestamp) -> bool {
        self.person.joined_at <= at && self.until.is_none_or(|until| at < until)
    }
}

#[derive(Debug, Default)]
struct State {
    rooms: BTreeMap<String, BTreeMap<String, Stay>>,
    /// Rooms that were deleted.
    gone: BTreeSet<String>,
    /// How late answers about one room, and about all, are.
    lag: Duration,
    domain_lag: Duration,
    /// With every call, by its name.
    mishaps: BTreeMap<&'static str, Mishap>,
    /// With every look at one room.
    room_mishaps: BTreeMap<String, Mishap>,
    /// With the next looks at one room, one after the other.
    next: BTreeMap<String, VecDeque<Mishap>>,
    subscriptions: Vec<Subscription>,
    /// Subscriptions that are renewed stay as they are.
    stays_off: bool,
    calls: Vec<Call>,
}

/// The provider.
pub(super) struct FakeDaily {
    clock: Arc<ManualClock>,
    state: Mutex<State>,
    gates: Mutex<BTreeMap<String, Arc<Gate>>>,
}

/// Holds answers back that are on their way.
pub(super) struct Gate {
    reached: Semaphore,
    resume: Semaphore,
}

impl Gate {
    /// Waits until an answer hangs here.
    pub(super) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets one answer go on.
    pub(super) fn open(&self) {
        self.resume.add_permits(1);
    }
}

impl FakeDaily {
    pub(super) fn new(clock: Arc<ManualClock>) -> Self {
        FakeDaily { clock, state: Mutex::default(), gates: Mutex::default() }
    }

    /// Somebody comes, now.
    pub(super) fn joins(&self, room: &str, session: &str) {
        let person = person(session, self.clock.now());
        self.joins_as(room, person);
    }

    pub(super) fn joins_as(&self, room: &str, person: Participant) {
        let stay = Stay { person: person.clone(), until: None };
        self.state().rooms.entry(room.to_owned()).or_default().insert(person.session_id, stay);
    }

    /// Somebody goes, now.
    pub(super) fn leaves(&self, room: &str, session: &str) {
        let now = self.clock.now();
        let mut state = self.state();
        let stay = state.rooms.get_mut(room).and_then(|stays| stays.get_mut(session));
        stay.expect("they are there").until = Some(now);
    }

    pub(super) fn stay(&self, room: &str, session: &str) -> Stay {
        self.state().rooms[room][session].clone()
    }

    /// Who is in a room, now.
    pub(super) fn inside(&self, room: &str) -> Vec<String> {
        let people = self.state().people(room, self.clock.now());
        people.into_iter().map(|person| person.session_id).collect()
    }

    pub(super) fn delete(&self, room: &str) {
        self.state().gone.insert(room.to_owned());
    }

    pub(super) fn set_lag(&self, lag: Duration) {
        let mut state = self.state();
        (state.lag, state.domain_lag) = (lag, lag);
    }

    pub(super) fn set_domain_lag(&self, lag: Duration) {
        self.state().domain_lag = lag;
    }

    /// From now on, with every such call.
    pub(super) fn set(&self, call: &'static str, mishap: Mishap) {
        self.state().mishaps.insert(call, mishap);
    }

    /// From now on, with every look at this room.
    pub(super) fn set_room(&self, room: &str, mishap: Mishap) {
        self.state().room_mishaps.insert(room.to_owned(), mishap);
    }

    /// With the next look at this room that no earlier one is for.
    pub(super) fn next(&self, room: &str, mishap: Mishap) {
        self.state().next.entry(room.to_owned()).or_default().push_back(mishap);
    }

    pub(super) fn mend(&self) {
        let mut state = self.state();
        state.mishaps.clear();
        state.room_mishaps.clear();
        state.next.clear();
    }

    /// From now on answers about this room hang, as they were made, until they are let go.
    pub(super) fn hold(&self, room: &str) -> Arc<Gate> {
        let gate = Arc::new(Gate { reached: Semaphore::new(0), resume: Semaphore::new(0) });
        self.gates.lock().unwrap().insert(room.to_owned(), gate.clone());
        gate
    }

    pub(super) fn hold_no_more(&self) {
        self.gates.lock().unwrap().clear();
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.state().calls.iter().filter(|call| call.name == name).count()
    }

    /// How often somebody looked at a room.
    pub(super) fn looks(&self, room: &str) -> usize {
        self.look_times(room).len()
    }

    pub(super) fn look_times(&self, room: &str) -> Vec<Timestamp> {
        let state = self.state();
        let of_room = state.calls.iter().filter(|call| call.room.as_deref() == Some(room));
        of_room.filter(|call| call.name == "room_presence").map(|call| call.at).collect()
    }

    pub(super) fn forget_calls(&self) {
        self.state().calls.clear();
    }

    pub(super) fn set_subscriptions(&self, subscriptions: Vec<Subscription>) {
        self.state().subscriptions = subscriptions;
    }

    pub(super) fn stay_off(&self, stays_off: bool) {
        self.state().stays_off = stays_off;
    }

    fn call(&self, name: &'static str, room: Option<&RoomName>, urgency: Option<Urgency>) {
        let room = room.map(|room| room.as_str().to_owned());
        let call = Call { at: self.clock.now(), name, room, urgency };
        self.state().calls.push(call);
    }

    fn failing(&self, name: &'static str) -> Result<(), RoomsError> {
        let mishap = self.state().mishaps.get(name).cloned();
        mishap.and_then(|mishap| mishap.error()).map_or(Ok(()), Err)
    }

    fn look(&self, room: &str) -> Result<Vec<Participant>, RoomsError> {
        let now = self.clock.now();
        let mut state = self.state();
        let next = state.next.get_mut(room).and_then(VecDeque::pop_front);
        let always = || state.room_mishaps.get(room).or(state.mishaps.get("room_presence"));
        let mishap = next.or_else(|| always().cloned());
        if let Some(error) = mishap.as_ref().and_then(Mishap::error) {
            return Err(error);
        }
        if state.gone.contains(room) {
            return Err(RoomsError::NotFound);
        }
        Ok(match mishap {
            Some(Mishap::Empty) => Vec::new(),
            Some(Mishap::Stale(age)) => state.people(room, now - age),
            Some(Mishap::Without(session)) => {
                let mut people = state.people(room, now - state.lag);
                people.retain(|person| person.session_id != session);
                people
            }
            _ => state.people(room, now - state.lag),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn people(&self, room: &str, at: Timestamp) -> Vec<Participant> {
        let stays = self.rooms.get(room).into_iter().flat_map(BTreeMap::values);
        stays.filter(|stay| stay.covers(at)).map(|stay| stay.person.clone()).collect()
    }
}

impl Mishap {
    fn error(&self) -> Option<RoomsError> {
        Some(match self {
            Mishap::Unavailable => RoomsError::Unavailable("503".to_owned()),
            Mishap::Odd => RoomsError::Odd("it is not JSON".to_owned()),
            Mishap::Refused => RoomsError::Refused("authentication-error".to_owned()),
            Mishap::RateLimited(after) => RoomsError::RateLimited { after: *after },
            Mishap::NotFound => RoomsError::NotFound,
            Mishap::NotConfigured => RoomsError::NotConfigured,
            Mishap::Empty | Mishap::Stale(_) | Mishap::Without(_) => return None,
        })
    }
}

#[async_trait]
impl VideoRooms for FakeDaily {
    async fn room_presence(
        &self,
        room: &RoomName,
        urgency: Urgency,
    ) -> Result<Vec<Participant>, RoomsError> {
        self.call("room_presence", Some(room), Some(urgency));
        let answer = self.look(room.as_str());
        let gate = self.gates.lock().unwrap().get(room.as_str()).cloned();
        if let Some(gate) = gate {
            gate.reached.add_permits(1);
            gate.resume.acquire().await.unwrap().forget();
        }
        answer
    }

    async fn domain_presence(&self) -> Result<DomainLook, RoomsError> {
        self.call("domain_presence", None, None);
        self.failing("domain_presence")?;
        let state = self.state();
        if state.mishaps.get("domain_presence") == Some(&Mishap::Empty) {
            return Ok(DomainLook::default());
        }
        let at = self.clock.now() - state.domain_lag;
        let rooms = state.rooms.keys().filter(|room| !state.gone.contains(*room));
        let rooms = rooms.map(|room| (room.clone(), state.people(room, at)));
        Ok(DomainLook { rooms: rooms.filter(|(_, people)| !people.is_empty()).collect() })
    }

    async fn create_room(&self, room: NewRoom) -> Result<CreatedRoom, RoomsError> {
        self.call("create_room", room.name.as_ref(), None);
        self.failing("create_room")?;
        let name = room.name.unwrap_or_else(|| RoomName::new("chosen-by-daily").unwrap());
        let url = format!("https://rooms.daily.co/{}", name.as_str());
        self.state().rooms.entry(name.as_str().to_owned()).or_default();
        Ok(CreatedRoom { name, url })
    }

    async fn delete_room(&self, room: &RoomName) -> Result<bool, RoomsError> {
        self.call("delete_room", Some(room), None);
        Ok(self.state().gone.insert(room.as_str().to_owned()))
    }

    async fn meeting_token(&self, token: NewRoomToken) -> Result<String, RoomsError> {
        self.call("meeting_token", Some(&token.room), None);
        self.failing("meeting_token")?;
        Ok(format!("token for {}", token.user_name.unwrap_or_default()))
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, RoomsError> {
        self.call("subscriptions", None, None);
        self.failing("subscriptions")?;
        Ok(self.state().subscriptions.clone())
    }

    async fn subscribe(&self, wish: NewSubscription) -> Result<Subscription, RoomsError> {
        self.call("subscribe", None, None);
        self.failing("subscribe")?;
        let made = subscription("made", &wish.url, "ACTIVE", &wish.event_types);
        self.state().subscriptions.push(made.clone());
        Ok(made)
    }

    async fn renew_subscription(
        &self,
        id: &str,
        wish: NewSubscription,
    ) -> Result<Subscription, RoomsError> {
        self.call("renew_subscription", None, None);
        self.failing("renew_subscription")?;
        let mut state = self.state();
        let is = if state.stays_off { "FAILED" } else { "ACTIVE" };
        let renewed = subscription(id, &wish.url, is, &wish.event_types);
        let known = state.subscriptions.iter_mut().find(|known| known.id == id);
        *known.ok_or(RoomsError::NotFound)? = renewed.clone();
        Ok(renewed)
    }
}

pub(super) fn person(session: &str, joined_at: Timestamp) -> Participant {
    Participant {
        session_id: session.to_owned(),
        user_id: Some(format!("user-{session}")),
        user_name: Some(session.to_uppercase()),
        joined_at,
    }
}

pub(super) fn subscription(id: &str, url: &str, state: &str, types: &[String]) -> Subscription {
    Subscription {
        id: id.to_owned(),
        url: url.to_owned(),
        state: state.to_owned(),
        event_types: types.to_vec(),
    }
}

//! Video rooms in the hands of a test: a provider that says what it is told to, and Daily, which
//! signs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::Method;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use roundsman_core::bots::MeetingId;
use roundsman_core::daily::{REPLAY_WINDOW_DEFAULT, WebhookSecret};
use roundsman_core::jobs::{Role, WorkerName};
use roundsman_core::ports::{
    Clock, CreatedRoom, NewRoom, NewRoomToken, NewSubscription, RoomsError, Scope, Subscription,
    Urgency, VideoRooms,
};
use roundsman_core::presence::{DomainLook, Participant, RoomName};
use roundsman_engine::jobs::{HandlerRegistry, Worker, WorkerDeps, WorkerOptions};
use roundsman_engine::presence::{
    IntakeOptions, Presence, PresenceDeps, PresenceOptions, PresenceWork,
};
use roundsman_testkit::eventually;
use roundsman_web::DailyEvents;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio_util::task::TaskTracker;

use crate::app::{Answer, App, Client};

/// 32 bytes that are 0 to 31.
pub(crate) const DAILY_SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub(crate) const OTHER_SECRET: &str = "b3RoZXIgc2VjcmV0IG9mIHRoZXNlIHRlc3RzISEhISE=";
pub(crate) const WEBHOOK: &str = "/webhooks/daily";
pub(crate) const ROOM: &str = "weekly-sync";
const MEETINGS: &str = "/presence/meetings";
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// The provider: who is in its rooms, and whether it answers at all.
#[derive(Default)]
pub(crate) struct TestRooms(Mutex<RoomsState>);

#[derive(Default)]
struct RoomsState {
    people: BTreeMap<String, Vec<Participant>>,
    /// Every answer, if set.
    trouble: Option<RoomsError>,
    made: Vec<NewRoom>,
    tokens: Vec<NewRoomToken>,
    subscriptions: Vec<Subscription>,
}

impl TestRooms {
    /// These people are in a room, and nobody else.
    pub(crate) fn put(&self, room: &str, people: Vec<Participant>) {
        self.state().people.insert(room.to_owned(), people);
    }

    pub(crate) fn answer_with(&self, trouble: Option<RoomsError>) {
        self.state().trouble = trouble;
    }

    pub(crate) fn made(&self) -> Vec<NewRoom> {
        self.state().made.clone()
    }

    pub(crate) fn tokens(&self) -> Vec<NewRoomToken> {
        self.state().tokens.clone()
    }

    /// The provider switches subscriptions off, without telling anybody.
    pub(crate) fn give_up_subscriptions(&self) {
        for subscription in &mut self.state().subscriptions {
            "FAILED".clone_into(&mut subscription.state);
        }
    }

    fn asked(&self) -> Result<MutexGuard<'_, RoomsState>, RoomsError> {
        let state = self.state();
        state.trouble.clone().map_or(Ok(state), Err)
    }

    fn state(&self) -> MutexGuard<'_, RoomsState> {
        self.0.lock().unwrap()
    }
}

#[async_trait]
impl VideoRooms for TestRooms {
    async fn room_presence(
        &self,
        room: &RoomName,
        _urgency: Urgency,
    ) -> Result<Vec<Participant>, RoomsError> {
        Ok(self.asked()?.people.get(room.as_str()).cloned().unwrap_or_default())
    }

    async fn domain_presence(&self) -> Result<DomainLook, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn create_room(&self, room: NewRoom) -> Result<CreatedRoom, RoomsError> {
        let mut state = self.asked()?;
        state.made.push(room.clone());
        let name = room.name.unwrap_or_else(|| RoomName::new("chosen-by-daily").unwrap());
        let url = format!("https://example.daily.co/{}", name.as_str());
        Ok(CreatedRoom { name, url })
    }

    async fn delete_room(&self, _room: &RoomName) -> Result<bool, RoomsError> {
        Ok(false)
    }

    async fn meeting_token(&self, token: NewRoomToken) -> Result<String, RoomsError> {
        let mut state = self.asked()?;
        let text = format!("token-{}-for-{}", state.tokens.len(), token.room.as_str());
        state.tokens.push(token);
        Ok(text)
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, RoomsError> {
        Ok(self.asked()?.subscriptions.clone())
    }

    async fn subscribe(&self, wish: NewSubscription) -> Result<Subscription, RoomsError> {
        let NewSubscription { url, event_types, .. } = wish;
        let mut state = self.asked()?;
        let id = format!("subscription-{}", state.subscriptions.len());
        let made = Subscription { id, url, state: "ACTIVE".to_owned(), event_types };
        state.subscriptions.push(made.clone());
        Ok(made)
    }

    async fn renew_subscription(
        &self,
        id: &str,
        wish: NewSubscription,
    ) -> Result<Subscription, RoomsError> {
        let mut state = self.asked()?;
        let found = state.subscriptions.iter_mut().find(|known| known.id == id);
        let known = found.ok_or(RoomsError::NotFound)?;
        let NewSubscription { url, event_types, .. } = wish;
        *known = Subscription { url, event_types, state: "ACTIVE".to_owned(), ..known.clone() };
        Ok(known.clone())
    }
}

pub(crate) fn presence_of(work: &PresenceWork, subscription: Option<NewSubscription>) -> Presence {
    let options = PresenceOptions { subscription, ..PresenceOptions::default() };
    let subscriptions = work.subscriptions(&options);
    Presence::new(PresenceDeps { work: work.clone(), subscriptions })
}

pub(crate) fn daily_events(work: &PresenceWork, secrets: &[&str]) -> DailyEvents {
    DailyEvents {
        secrets: secrets.iter().map(|text| WebhookSecret::parse(text).unwrap()).collect(),
        replay_window: REPLAY_WINDOW_DEFAULT,
        intake: work.intake(IntakeOptions::default()),
    }
}

/// Daily's signature, made without any of our code.
pub(crate) fn sign(secret: &str, timestamp: &str, body: &[u8]) -> String {
    let key = BASE64_STANDARD.decode(secret).unwrap();
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(&key).unwrap();
    mac.update(format!("{timestamp}.").as_bytes());
    mac.update(body);
    BASE64_STANDARD.encode(mac.finalize().into_bytes())
}

/// An event as Daily sends it.
pub(crate) fn event(kind: &str, id: &str, payload: &Value) -> Value {
    json!({"version": "1.0.0", "type": kind, "id": id, "payload": payload, "event_ts": 1_767_225_660.5})
}

/// Somebody joined.
pub(crate) fn joined(room: &str, session: &str) -> Value {
    let payload = json!({"room": room, "user_id": session, "user_name": "Ada",
        "session_id": session, "joined_at": 1_767_225_600.25, "will_eject_at": null,
        "owner": false, "permissions": {"hasPresence": true, "canSend": true, "canAdmin": false}});
    event("participant.joined", &format!("ptcpt-join-{session}"), &payload)
}

impl App {
    /// The headers of a delivery that Daily signs now.
    pub(crate) fn signed(&self, secret: &str, body: &str) -> Client {
        let stamp = (self.clock.now().as_micros() / 1000).to_string();
        self.client()
            .header("x-webhook-timestamp", &stamp)
            .header("x-webhook-signature", &sign(secret, &stamp, body.as_bytes()))
    }

    /// Daily sends something.
    pub(crate) async fn daily_sends(&self, body: &str) -> Answer {
        self.signed(DAILY_SECRET, body).post_text(WEBHOOK, body.to_owned()).await
    }

    /// Daily sends an event, which must be taken.
    pub(crate) async fn daily_tells(&self, event: &Value) {
        let answer = self.daily_sends(&event.to_string()).await.expect(200);
        assert_eq!(answer.body, json!({"status": "ok"}));
    }

    /// A meeting in a room; its number.
    pub(crate) async fn open(&self, user: &Client, room: &str) -> i64 {
        let made = user.post(MEETINGS, json!({"room": room})).await.expect(201);
        made.body["id"].as_i64().unwrap()
    }

    /// Sends on what was heard, and makes every look that is due.
    pub(crate) async fn look(&self) {
        self.state.daily.intake.tick().await.unwrap();
        let worker = self.presence_worker().await;
        for _ in 0..100 {
            worker.claim_tick().await.unwrap();
            if worker.running_count() == 0 {
                return;
            }
            let idle = async || (worker.running_count() == 0).then_some(());
            eventually(Duration::from_secs(20), idle).await.unwrap();
            worker.settle_tick().await.unwrap();
        }
        panic!("there is always more to do");
    }

    async fn presence_worker(&self) -> Worker {
        let work = &self.presence_work;
        let handlers = work.handlers(&PresenceOptions::default());
        let deps = WorkerDeps {
            store: work.store.clone(),
            clock: work.clock.clone(),
            random: work.random.clone(),
            wakes: work.wakes.clone(),
            metrics: work.metrics.clone(),
            health: self.health.clone(),
            handlers: handlers.into_iter().fold(HandlerRegistry::default(), HandlerRegistry::with),
            tasks: TaskTracker::new(),
        };
        let options = WorkerOptions {
            name: WorkerName::new("w1"),
            owner: work.store.begin_process(0, self.clock.now()).await.unwrap().owner,
            roles: vec![Role::Worker, Role::Scheduler],
            slots: 100,
            claim_max: 100,
            poll_every: NEVER,
        };
        Worker::new(deps, options)
    }

    /// Somebody who came just now.
    pub(crate) fn person(&self, session: &str, name: &str) -> Participant {
        Participant {
            session_id: session.to_owned(),
            user_id: Some(format!("user-{session}")),
            user_name: Some(name.to_owned()),
            joined_at: self.clock.now(),
        }
    }

    /// A minute later these people are seen in a meeting's room.
    pub(crate) async fn see(&self, meeting: i64, people: Vec<Participant>) {
        self.rooms.put(ROOM, people);
        self.clock.advance(Duration::from_secs(60));
        let id = MeetingId::new(meeting);
        self.state.presence.joined(Scope::All, id, "somebody").await.unwrap();
        self.clock.advance(Duration::from_secs(5));
        self.look().await;
    }
}

impl Client {
    /// Without a body, as some clients do.
    pub(crate) async fn call(&self, method: Method, path: &str) -> Answer {
        self.send(method, path, Body::empty()).await
    }
}

//! Presence over a real database, with a clock that stands still and a provider that does what a
//! test tells it.

mod daily;
mod defects;
mod intake;
mod looks;
mod process;
mod reconcile;
mod reference;
mod seed_000;
mod service;
mod simulation;
mod subscription;
mod triggers;

use std::sync::Arc;
use std::time::Duration;

use roundsman_bus::{BusLimits, LocalBus};
use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, MeetingTokens};
use roundsman_core::daily::read_delivery;
use roundsman_core::jobs::{Job, JobState, NewJob, Role};
use roundsman_core::ports::{
    Bus, Clock, InboxEvent, InboxFilter, PresenceStore, Scope, SessionFilter, UserStore,
};
use roundsman_core::presence::{
    Closed, POLL_KIND, PresenceMeeting, PresenceRules, PresenceSession, RECONCILE_KIND,
};
use roundsman_core::transcripts::{FilterConfig, TranscriptionFilter};
use roundsman_core::users::{NewUser, UserId};
use roundsman_engine::jobs::{Worker, periodic_wish};
use roundsman_engine::presence::{
    HearAnswer, Heard, Intake, IntakeOptions, MeetingWish, Presence, PresenceDeps, PresenceLimits,
    PresenceOptions, PresenceWork, presence_specs, presence_wishes,
};
use roundsman_engine::transcripts::{TranscriptLimits, Transcripts, TranscriptsDeps};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::daily::FakeDaily;
use crate::backend::Backend;
use crate::support::{NEVER, World, secs, until_running};

/// How late the provider's answers may be.
const LAG: Duration = Duration::from_secs(15);
/// Events of a room wait for each other this long.
const QUIET: Duration = Duration::from_secs(1);
const RECONCILE_EVERY: Duration = Duration::from_secs(30);
const ROOM: &str = "daily-room";

/// Everything about presence over one fresh database, with one user.
struct PresenceWorld {
    world: World,
    daily: Arc<FakeDaily>,
    work: PresenceWork,
    options: PresenceOptions,
    node: Node,
    presence: Presence,
    user: UserId,
}

/// One process.
struct Node {
    intake: Arc<Intake>,
    worker: Arc<Worker>,
}

impl PresenceWorld {
    async fn new(backend: Backend) -> Self {
        Self::with(backend, PresenceLimits::default()).await
    }

    async fn with(backend: Backend, limits: PresenceLimits) -> Self {
        let world = World::on(backend, presence_specs(&limits)).await;
        let daily = Arc::new(FakeDaily::new(world.clock.clone()));
        let work = PresenceWork {
            store: world.store.clone(),
            clock: world.clock.clone(),
            random: world.random.clone(),
            wakes: world.wakes.clone(),
            metrics: world.metrics.clone(),
            rooms: daily.clone(),
            transcripts: transcripts(&world),
            rules: PresenceRules::default(),
            limits,
        };
        let options = PresenceOptions::default();
        let node = Node::start(&world, &work, &options, "w1");
        let subscriptions = work.subscriptions(&options);
        let presence = Presence::new(PresenceDeps { work: work.clone(), subscriptions });
        let user = new_user(&world, "ada@example.org").await;
        PresenceWorld { world, daily, work, options, node, presence, user }
    }

    /// A process that died and was started again: nothing but the database is left.
    fn restart(&mut self) {
        self.node = self.another_node("w1");
    }

    /// Another process on the same database.
    fn another_node(&self, name: &str) -> Node {
        Node::start(&self.world, &self.work, &self.options, name)
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// A meeting that nobody has planned, after its first look.
    async fn open(&self, room: &str) -> MeetingId {
        let id = self.open_unseen(room).await;
        self.run_due().await;
        self.daily.forget_calls();
        id
    }

    /// A meeting that nobody has looked at.
    async fn open_unseen(&self, room: &str) -> MeetingId {
        let wish = MeetingWish { room: Some(room.to_owned()), ..MeetingWish::default() };
        self.presence.create(self.user, wish).await.unwrap().meeting.id
    }

    /// A meeting with these people in it, who came long ago.
    async fn open_with(&self, room: &str, people: &[&str]) -> MeetingId {
        for session in people {
            self.daily.joins(room, session);
        }
        let id = self.open(room).await;
        self.world.clock.advance(secs(60));
        assert_eq!(self.inside(id).await, people);
        id
    }

    /// Somebody comes, and the provider says so.
    fn comes(&self, room: &str, session: &str) {
        self.daily.joins(room, session);
        assert_eq!(self.hears_joined(room, session), HearAnswer::Taken);
    }

    /// Somebody goes, and the provider says so.
    fn goes(&self, room: &str, session: &str) {
        self.daily.leaves(room, session);
        assert_eq!(self.hears_left(room, session), HearAnswer::Taken);
    }

    fn hears_joined(&self, room: &str, session: &str) -> HearAnswer {
        self.node.hears(&self.joined_event(room, session), self.now())
    }

    fn hears_left(&self, room: &str, session: &str) -> HearAnswer {
        self.node.hears(&self.left_event(room, session), self.now())
    }

    fn joined_event(&self, room: &str, session: &str) -> Value {
        let stay = self.daily.stay(room, session);
        let joined_at = stay.person.joined_at.as_secs_f64();
        let payload = json!({
            "room": room, "user_id": stay.person.user_id, "user_name": stay.person.user_name,
            "session_id": session, "joined_at": joined_at, "will_eject_at": null, "owner": false,
            "permissions": {"hasPresence": true, "canSend": true, "canAdmin": false},
        });
        event("participant.joined", &format!("ptcpt-join-{room}-{session}"), &payload, self.now())
    }

    fn left_event(&self, room: &str, session: &str) -> Value {
        let stay = self.daily.stay(room, session);
        let until = stay.until.unwrap_or(self.now());
        let duration = until.since(stay.person.joined_at).as_secs_f64();
        let payload = json!({
            "room": room, "user_id": stay.person.user_id, "user_name": stay.person.user_name,
            "session_id": session, "joined_at": stay.person.joined_at.as_secs_f64(),
            "duration": duration, "will_eject_at": null, "owner": false,
        });
        event("participant.left", &format!("ptcpt-left-{room}-{session}"), &payload, self.now())
    }

    fn ended_event(&self, room: &str) -> Value {
        let now = self.now().as_secs_f64();
        let payload = json!({
            "room": room, "meeting_id": "m1", "start_ts": now - 60.0, "end_ts": now,
        });
        event("meeting.ended", &format!("met-end-{room}-{now}"), &payload, self.now())
    }

    /// Runs every job that is due, and those that become due by it. Returns in how long the next is.
    async fn run_due(&self) -> Duration {
        self.node.run_due().await
    }

    /// Lets time pass, with everything done when it is due.
    async fn pass(&self, time: Duration) {
        pass(&self.world, &[&self.node], time).await;
    }

    /// Starts the jobs that come round.
    async fn start_timers(&self) {
        self.enqueue(presence_wishes(self.now())).await;
    }

    async fn start_reconciler(&self) {
        self.enqueue(vec![periodic_wish(RECONCILE_KIND, self.now())]).await;
    }

    async fn enqueue(&self, wishes: Vec<NewJob>) {
        for wish in wishes {
            self.world.enqueue(wish).await;
        }
    }

    async fn meeting(&self, id: MeetingId) -> PresenceMeeting {
        let found = self.world.store.presence_meeting(Scope::All, id).await.unwrap();
        found.expect("the meeting exists")
    }

    async fn sessions(&self, id: MeetingId) -> Vec<PresenceSession> {
        let filter = SessionFilter { open: None, after: None, rows_max: 10_000 };
        self.world.store.presence_sessions(id, filter).await.unwrap()
    }

    async fn session(&self, id: MeetingId, session: &str) -> PresenceSession {
        let mut all = self.sessions(id).await;
        all.retain(|known| known.session_id == session);
        all.pop().expect("the session exists")
    }

    async fn closed(&self, id: MeetingId, session: &str) -> Closed {
        self.session(id, session).await.closed.expect("the session is over")
    }

    /// Who is there, as the record says; the number of clients is looked at too.
    async fn inside(&self, id: MeetingId) -> Vec<String> {
        let mut open = self.sessions(id).await;
        open.retain(PresenceSession::is_open);
        assert_eq!(self.meeting(id).await.num_clients as usize, open.len());
        let mut inside: Vec<String> = open.into_iter().map(|session| session.session_id).collect();
        inside.sort();
        inside
    }

    /// The wishes for looks that wait.
    async fn waiting_polls(&self) -> Vec<Job> {
        let mut polls = self.world.all_jobs(Some(POLL_KIND)).await;
        let waits = |state| matches!(state, JobState::Pending | JobState::Scheduled);
        polls.retain(|job| waits(job.state(self.now())));
        polls
    }

    async fn inbox(&self) -> Vec<InboxEvent> {
        self.world.store.inbox(InboxFilter::default(), None, 1000).await.unwrap()
    }

    /// What a metric says, 0 if nothing was counted.
    fn metric(&self, name: &str) -> u64 {
        let text = self.world.metrics.encode();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("roundsman_{name} ")));
        line.map_or(0, |value| value.parse().unwrap())
    }

    async fn check(&self) {
        self.world.check().await;
    }
}

impl Node {
    fn start(world: &World, work: &PresenceWork, options: &PresenceOptions, name: &str) -> Self {
        let intake = work.intake(IntakeOptions::default());
        let name = name.to_owned();
        let worker = world.worker_with(work.handlers(options), |options| {
            options.name = roundsman_core::jobs::WorkerName::new(&name);
            options.roles = vec![Role::Worker, Role::Scheduler];
        });
        Node { intake, worker }
    }

    fn hears(&self, event: &Value, heard_at: Timestamp) -> HearAnswer {
        let body = event.to_string();
        let delivery = read_delivery(body.as_bytes(), heard_at);
        self.intake.hear(Heard::of(delivery, body.as_bytes()))
    }

    async fn run_due(&self) -> Duration {
        for _ in 0..10_000 {
            let wait = self.worker.claim_tick().await.unwrap();
            if self.worker.running_count() == 0 {
                return wait;
            }
            until_running(&self.worker, 0).await;
            self.worker.settle_tick().await.unwrap();
        }
        panic!("there is always more to do");
    }

    /// Sends on and does what is due. Returns in how long there is more.
    async fn tick(&self) -> Duration {
        self.intake.tick().await.unwrap();
        let wait = self.run_due().await;
        self.intake.due_in().map_or(wait, |due| due.min(wait))
    }
}

/// Lets time pass from one thing that is due to the next.
async fn pass(world: &World, nodes: &[&Node], time: Duration) {
    let until = world.clock.monotonic() + time;
    loop {
        let mut wait = NEVER;
        for node in nodes {
            wait = wait.min(node.tick().await);
        }
        let left = until.saturating_sub(world.clock.monotonic());
        if left.is_zero() {
            return;
        }
        world.clock.advance(wait.max(Duration::from_micros(1)).min(left));
    }
}

/// An event as Daily sends it.
fn event(kind: &str, id: &str, payload: &Value, sent_at: Timestamp) -> Value {
    let event_ts = sent_at.as_secs_f64();
    json!({ "version": "1.0.0", "type": kind, "id": id, "payload": payload, "event_ts": event_ts })
}

fn transcripts(world: &World) -> Transcripts {
    let bus: Arc<dyn Bus> =
        Arc::new(LocalBus::new(&BusLimits::default(), &CancellationToken::new()));
    Transcripts::new(TranscriptsDeps {
        store: world.store.clone(),
        clock: world.clock.clone(),
        random: world.random.clone(),
        bus,
        cache: None,
        metrics: world.metrics.clone(),
        tokens: MeetingTokens::new(b"a key for tests"),
        filter: Arc::new(TranscriptionFilter::new(FilterConfig::default()).unwrap()),
        limits: TranscriptLimits::default(),
        tasks: world.tasks.clone(),
    })
}

async fn new_user(world: &World, email: &str) -> UserId {
    let user =
        NewUser { email: email.to_owned(), name: None, image_url: None, max_concurrent_bots: 1 };
    world.store.find_or_create_user(user, world.clock.now()).await.unwrap().0.id
}

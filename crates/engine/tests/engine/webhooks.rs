//! Outgoing webhooks: signed, retried for a day, logged, repeated, and never to whom they must not
//! go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{Job, JobState, Role};
use roundsman_core::ports::{
    Clock, EffectStore, NotSent, UserStore, WebhookAnswer, WebhookRequest, WebhookSender,
    WebhookStore,
};
use roundsman_core::users::{NewUser, UserId};
use roundsman_core::webhooks::{
    DELIVER_KIND, DeliveryState, SigningSecret, WebhookEvent, event_id,
};
use roundsman_engine::Error;
use roundsman_engine::jobs::Worker;
use roundsman_engine::webhooks::{
    EndpointWish, PRUNE_EVENTS_KIND, WebhookRetention, WebhookWork, Webhooks, webhook_specs,
    webhook_wishes,
};
use serde_json::json;

use crate::flaky::Fault;
use crate::support::{World, lane, secs, until_running, woken};

const URL: &str = "https://example.org/hook";

/// An endpoint that answers as it is told and remembers what it got.
#[derive(Default)]
struct FakeSender {
    got: Mutex<Vec<WebhookRequest>>,
    answers: Mutex<Vec<Result<u16, NotSent>>>,
}

impl FakeSender {
    /// The next answers; afterwards everything is taken.
    fn answer(&self, answers: impl IntoIterator<Item = Result<u16, NotSent>>) {
        *self.answers.lock().unwrap() = answers.into_iter().collect();
    }

    fn got(&self) -> Vec<WebhookRequest> {
        self.got.lock().unwrap().clone()
    }
}

#[async_trait]
impl WebhookSender for FakeSender {
    async fn post(&self, request: WebhookRequest) -> Result<WebhookAnswer, NotSent> {
        self.got.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.is_empty() { Ok(204) } else { answers.remove(0) };
        answer.map(|status| WebhookAnswer { status })
    }

    fn check_url(&self, url: &str) -> Result<(), NotSent> {
        if url.contains("127.0.0.1") {
            return Err(NotSent::BlockedTarget("a private address".to_owned()));
        }
        Ok(())
    }
}

struct HookWorld {
    world: World,
    sender: Arc<FakeSender>,
    service: Webhooks,
    worker: Arc<Worker>,
    user: UserId,
}

impl HookWorld {
    async fn new() -> Self {
        let world = World::with(webhook_specs());
        let sender = Arc::new(FakeSender::default());
        let work = WebhookWork {
            store: world.store.clone(),
            clock: world.clock.clone(),
            random: world.random.clone(),
            metrics: world.metrics.clone(),
            sender: sender.clone(),
            request_max: secs(15),
            retention: WebhookRetention::default(),
        };
        let worker = world.worker_with(work.handlers(), |options| {
            options.roles = vec![Role::Worker, Role::Scheduler];
        });
        let service = Webhooks::new(
            world.store.clone(),
            world.clock.clone(),
            world.random.clone(),
            sender.clone(),
            world.wakes.clone(),
        );
        let user = NewUser {
            email: "ada@example.org".to_owned(),
            name: None,
            image_url: None,
            max_concurrent_bots: 1,
        };
        let user = world.store.find_or_create_user(user, world.clock.now()).await.unwrap().0.id;
        HookWorld { world, sender, service, worker, user }
    }

    async fn with_endpoint() -> Self {
        let hooks = HookWorld::new().await;
        hooks.set(Some(URL)).await;
        hooks
    }

    async fn set(&self, url: Option<&str>) {
        let wish = EndpointWish { url: url.map(ToOwned::to_owned), ..EndpointWish::default() };
        self.service.set_endpoint(self.user, wish).await.unwrap();
    }

    /// Something happens that the user's endpoint is to be told of.
    async fn happen(&self, event_type: &str, number: u64) -> String {
        let id = event_id(&[event_type, &number.to_string()]);
        let now = self.world.clock.now();
        let data = json!({ "meeting": { "id": number } });
        let mut effects = Effects::default();
        WebhookEvent::new(self.user, id.clone(), event_type, data, now).add_to(&mut effects, now);
        assert!(self.world.store.commit(None, effects, now).await.unwrap());
        id
    }

    async fn run_due(&self) {
        loop {
            self.worker.claim_tick().await.unwrap();
            if self.worker.running_count() == 0 {
                return;
            }
            until_running(&self.worker, 0).await;
            self.worker.settle_tick().await.unwrap();
        }
    }

    async fn state(&self, id: &str) -> (DeliveryState, u32) {
        let event = self.world.store.webhook_event(id.to_owned()).await.unwrap().unwrap();
        (event.state, event.attempts)
    }

    /// When the next delivery is due, if any waits.
    async fn next_due(&self) -> Option<Timestamp> {
        let jobs = self.world.all_jobs(Some(DELIVER_KIND)).await;
        let due = jobs.iter().filter_map(|job| match job {
            Job::Waiting(job) => Some(job.due_at()),
            _ => None,
        });
        due.min()
    }
}

fn header<'a>(request: &'a WebhookRequest, name: &str) -> &'a str {
    let found = request.headers.iter().find(|(given, _)| *given == name);
    &found.unwrap_or_else(|| panic!("no header {name}")).1
}

#[tokio::test]
async fn an_event_is_signed_and_sent_once() {
    let hooks = HookWorld::with_endpoint().await;
    let id = hooks.happen("meeting.completed", 7).await;
    hooks.run_due().await;
    let got = hooks.sender.got();
    assert_eq!(got.len(), 1);
    let request = &got[0];
    assert_eq!((request.url.as_str(), request.time_max), (URL, secs(15)));
    assert_eq!(header(request, "content-type"), "application/json");
    assert!(header(request, "user-agent").starts_with("roundsman/"));
    let secret = hooks.service.endpoint(hooks.user).await.unwrap().unwrap().secret.unwrap();
    for (name, value) in secret.headers(&id, &request.body, hooks.world.clock.now()) {
        assert_eq!(header(request, name), value);
    }
    let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!((&body["event_id"], &body["data"]["meeting"]["id"]), (&json!(id), &json!(7)));
    assert_eq!(hooks.state(&id).await, (DeliveryState::Delivered, 1));
    let log = hooks.service.deliveries(hooks.user, None, 10).await.unwrap();
    assert_eq!(log[0].1[0].status, Some(204));
    hooks.world.check().await;
}

#[tokio::test]
async fn a_failing_endpoint_is_tried_for_a_day_with_the_same_id() {
    let hooks = HookWorld::with_endpoint().await;
    let failures = [Ok(500), Ok(302), Ok(404), Err(NotSent::Failed("refused".to_owned()))];
    hooks.sender.answer(failures.into_iter().cycle().take(100));
    let id = hooks.happen("meeting.completed", 7).await;
    let began = hooks.world.clock.monotonic();
    let mut last_try = began;
    for _ in 0..100 {
        hooks.run_due().await;
        last_try = hooks.world.clock.monotonic();
        let Some(due_at) = hooks.next_due().await else { break };
        hooks.world.clock.advance(due_at.since(hooks.world.clock.now()));
    }
    let got = hooks.sender.got();
    assert!(got.len() >= 10, "{} tries", got.len());
    assert!(got.iter().all(|request| header(request, "webhook-id") == id));
    let tried_for = last_try.saturating_sub(began);
    let day = secs(24 * 3600);
    assert!(tried_for <= day && tried_for > day / 2, "{tried_for:?}");
    let tries = u32::try_from(got.len()).unwrap();
    assert_eq!(hooks.state(&id).await, (DeliveryState::Failed, tries));
    let log = hooks.service.deliveries(hooks.user, None, 10).await.unwrap();
    assert_eq!(log[0].1.len(), got.len());
    assert_eq!(log[0].1[3].error.as_deref(), Some("refused"));
    assert_eq!(hooks.next_due().await, None);

    // A replay begins anew, with the same id and a short wait.
    let listener = hooks.world.wakes.listen(&[lane(DELIVER_KIND)]);
    assert!(hooks.service.replay(hooks.user, &id).await.unwrap());
    assert!(woken(&listener));
    hooks.sender.answer([Ok(503)]);
    hooks.run_due().await;
    hooks.world.clock.advance(secs(5));
    hooks.run_due().await;
    assert_eq!(hooks.state(&id).await, (DeliveryState::Delivered, tries + 2));
    assert_eq!(header(hooks.sender.got().last().unwrap(), "webhook-id"), id);
    hooks.world.check().await;
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_told_nothing_until_it_is_set_anew() {
    let hooks = HookWorld::with_endpoint().await;
    hooks.sender.answer([Ok(410)]);
    let first = hooks.happen("meeting.completed", 1).await;
    hooks.run_due().await;
    assert_eq!(hooks.state(&first).await, (DeliveryState::Failed, 1));
    let second = hooks.happen("meeting.completed", 2).await;
    hooks.run_due().await;
    assert_eq!(hooks.state(&second).await, (DeliveryState::Skipped, 0));
    assert_eq!(hooks.sender.got().len(), 1);
    hooks.set(Some(URL)).await;
    let third = hooks.happen("meeting.completed", 3).await;
    hooks.run_due().await;
    assert_eq!(hooks.state(&third).await, (DeliveryState::Delivered, 1));
    hooks.world.check().await;
}

#[tokio::test]
async fn nobody_is_told_what_they_do_not_want() {
    let hooks = HookWorld::new().await;
    let nobody = hooks.happen("meeting.completed", 1).await;
    hooks.run_due().await;
    assert_eq!(hooks.state(&nobody).await, (DeliveryState::Skipped, 0));

    let events = BTreeMap::from([("meeting.status_change".to_owned(), false)]);
    let wish =
        EndpointWish { url: Some(URL.to_owned()), events: Some(events), ..EndpointWish::default() };
    hooks.service.set_endpoint(hooks.user, wish).await.unwrap();
    let unwanted = hooks.happen("meeting.status_change", 2).await;
    let wanted = hooks.happen("bot.failed", 2).await;
    hooks.run_due().await;
    assert_eq!(hooks.state(&unwanted).await.0, DeliveryState::Skipped);
    assert_eq!(hooks.state(&wanted).await.0, DeliveryState::Delivered);
    assert_eq!(hooks.sender.got().len(), 1);
    hooks.world.check().await;
}

#[tokio::test]
async fn an_address_that_must_not_be_sent_to_is_given_up_at_once() {
    let hooks = HookWorld::with_endpoint().await;
    hooks.sender.answer([Err(NotSent::BlockedTarget("it leads to a private address".to_owned()))]);
    let id = hooks.happen("meeting.completed", 1).await;
    hooks.run_due().await;
    assert_eq!(hooks.state(&id).await, (DeliveryState::Failed, 1));
    assert_eq!(hooks.next_due().await, None);
    let log = hooks.service.deliveries(hooks.user, None, 10).await.unwrap();
    assert!(log[0].1[0].error.as_deref().unwrap().contains("private address"));
    hooks.world.check().await;
}

/// An existing Vexa database keeps the address in the user's data and no secret at all.
#[tokio::test]
async fn an_endpoint_without_a_secret_gets_one() {
    let hooks = HookWorld::new().await;
    let mut user = hooks.world.store.user(hooks.user).await.unwrap().unwrap();
    user.data = json!({ "webhook_url": URL, "plan": "team" }).to_string();
    hooks.world.store.update_user(user).await.unwrap();
    for number in 0..2 {
        let id = hooks.happen("meeting.completed", number).await;
        hooks.run_due().await;
        assert_eq!(hooks.state(&id).await.0, DeliveryState::Delivered);
        let endpoint = hooks.service.endpoint(hooks.user).await.unwrap().unwrap();
        assert_eq!(endpoint.url, URL);
        let got = hooks.sender.got();
        let request = got.last().unwrap();
        let now = hooks.world.clock.now();
        let expected = endpoint.secret.unwrap().headers(&id, &request.body, now);
        assert_eq!(header(request, "webhook-signature"), expected[2].1, "one secret for all");
    }
    let user = hooks.world.store.user(hooks.user).await.unwrap().unwrap();
    assert!(user.data.contains("team"));
    hooks.world.check().await;
}

#[tokio::test]
async fn what_was_logged_is_not_sent_again_and_what_was_not_is() {
    let hooks = HookWorld::with_endpoint().await;
    let id = hooks.happen("meeting.completed", 1).await;
    hooks.world.store.set("log_delivery", Fault::AnswerLost);
    hooks.run_due().await;
    hooks.world.store.mend();
    hooks.world.clock.advance(secs(60));
    hooks.run_due().await;
    assert_eq!(hooks.sender.got().len(), 1, "it was logged");
    assert_eq!(hooks.state(&id).await, (DeliveryState::Delivered, 1));

    let id = hooks.happen("meeting.completed", 2).await;
    hooks.world.store.set("log_delivery", Fault::Down);
    hooks.run_due().await;
    hooks.world.store.mend();
    hooks.world.clock.advance(secs(60));
    hooks.run_due().await;
    let got = hooks.sender.got();
    assert_eq!(got.len(), 3, "it was not, and is sent again");
    assert!(got[1..].iter().all(|request| header(request, "webhook-id") == id));
    hooks.world.check().await;
}

#[tokio::test]
async fn an_endpoint_is_checked_before_it_is_kept() {
    let hooks = HookWorld::new().await;
    let wish = |url: &str| EndpointWish { url: Some(url.to_owned()), ..EndpointWish::default() };
    let unknown = BTreeMap::from([("meeting.exploded".to_owned(), true)]);
    let bad = [
        (wish("ftp://example.org"), "webhook_url"),
        (wish("https://a b"), "webhook_url"),
        (wish("http://127.0.0.1/hook"), "webhook_url"),
        (EndpointWish { secret: Some("short".to_owned()), ..wish(URL) }, "webhook_secret"),
        (EndpointWish { events: Some(unknown), ..wish(URL) }, "webhook_events"),
    ];
    for (wish, field) in bad {
        let refused = hooks.service.set_endpoint(hooks.user, wish).await;
        let Err(Error::Invalid(problems)) = refused else { panic!("{field}: {refused:?}") };
        assert_eq!(problems[0].field, field);
    }
    assert_eq!(hooks.service.endpoint(hooks.user).await.unwrap(), None);
    let secret = "a secret of the user's own choosing";
    let own = EndpointWish { secret: Some(secret.to_owned()), ..wish(URL) };
    assert!(!format!("{own:?}").contains(secret));
    let (_, endpoint) = hooks.service.set_endpoint(hooks.user, own).await.unwrap();
    assert_eq!(endpoint.unwrap().secret, Some(SigningSecret::parse(secret).unwrap()));
    hooks.set(None).await;
    assert_eq!(hooks.service.endpoint(hooks.user).await.unwrap(), None);
    let nobody = hooks.service.set_endpoint(UserId::new(999), wish(URL)).await;
    assert!(matches!(nobody, Err(Error::NotFound { what: "user" })));
    hooks.world.check().await;
}

#[tokio::test]
async fn only_ones_own_events_are_repeated() {
    let hooks = HookWorld::with_endpoint().await;
    let id = hooks.happen("meeting.completed", 1).await;
    hooks.run_due().await;
    let stranger = UserId::new(999);
    assert!(!hooks.service.replay(stranger, &id).await.unwrap());
    assert!(!hooks.service.replay(hooks.user, "evt_\0").await.unwrap());
    assert!(!hooks.service.replay(hooks.user, "evt_unknown").await.unwrap());
    assert!(hooks.service.replay(hooks.user, &id).await.unwrap());
    hooks.run_due().await;
    assert_eq!(hooks.sender.got().len(), 2);
    hooks.world.check().await;
}

#[tokio::test]
async fn old_events_are_deleted_and_those_that_wait_are_not() {
    let hooks = HookWorld::with_endpoint().await;
    for wish in webhook_wishes(hooks.world.clock.now()) {
        hooks.world.enqueue(wish).await;
    }
    let old = hooks.happen("meeting.completed", 1).await;
    hooks.run_due().await;
    let month = Duration::from_secs(30 * 24 * 3600);
    hooks.world.clock.advance(month);
    hooks.run_due().await;
    assert_eq!(hooks.state(&old).await.0, DeliveryState::Delivered, "it is kept for a month");
    hooks.world.clock.advance(secs(2 * 3600));
    hooks.run_due().await;
    assert_eq!(hooks.world.store.webhook_event(old).await.unwrap(), None);
    let pruning = hooks.world.all_jobs(Some(PRUNE_EVENTS_KIND)).await;
    assert_eq!(pruning.len(), 1);
    assert_eq!(pruning[0].state(hooks.world.clock.now()), JobState::Scheduled);
    hooks.world.check().await;
}

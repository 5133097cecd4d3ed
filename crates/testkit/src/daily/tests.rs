//! The stand-in does what Daily is documented to do: those who are tested against it rely on it.

use roundsman_core::daily::{Event, SignatureHeaders, WebhookSecret, read_delivery, verify};
use serde_json::json;

use super::http::{Reply, Request};
use super::*;
use crate::clock::ManualClock;
use crate::eventually::eventually;
use crate::http::JsonClient;

const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SOON: Duration = Duration::from_secs(10);

struct World {
    clock: Arc<ManualClock>,
    daily: DailyStandIn,
    client: JsonClient,
}

async fn world_with(options: DailyStandInOptions) -> World {
    let clock = Arc::new(ManualClock::default());
    let daily = DailyStandIn::start_with(options, clock.clone()).await.unwrap();
    let client = JsonClient::new(daily.api_url()).unwrap().with_token(daily.api_key()).unwrap();
    World { clock, daily, client }
}

async fn world() -> World {
    world_with(DailyStandInOptions { delivers: false, ..DailyStandInOptions::default() }).await
}

impl World {
    async fn get(&self, path: &str) -> Value {
        self.client.get(path).await.unwrap().expect_status(200).unwrap().body
    }

    /// The ids in an answer about a room.
    async fn ids(&self, room: &str) -> Vec<String> {
        let answer = self.get(&format!("/rooms/{room}/presence")).await;
        let data = answer["data"].as_array().unwrap();
        assert_eq!(answer["total_count"], data.len());
        data.iter().map(|person| person["id"].as_str().unwrap().to_owned()).collect()
    }

    async fn subscribe(&self, receiver: &Receiver, retry_type: &str) -> Value {
        let types = ["participant.joined", "participant.left", "meeting.ended"];
        let wish = json!({"url": receiver.url, "hmac": SECRET, "retryType": retry_type,
            "eventTypes": types});
        let made = self.client.post("/webhooks", &wish).await.unwrap();
        made.expect_status(200).unwrap().body
    }

    async fn state(&self) -> (String, u64) {
        let hooks = self.get("/webhooks").await;
        let state = hooks[0]["state"].as_str().unwrap().to_owned();
        (state, hooks[0]["failedCount"].as_u64().unwrap())
    }
}

/// Somebody who is told of events, and checks their signatures.
struct Receiver {
    url: String,
    status: Arc<Mutex<u16>>,
    heard: Arc<Mutex<Vec<String>>>,
    _serving: DropGuard,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind(loopback(0)).await.unwrap();
        let url = format!("http://{}/webhooks/daily", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let (status, heard) = (Arc::new(Mutex::new(200)), Arc::<Mutex<Vec<String>>>::default());
        let (say, hear) = (status.clone(), heard.clone());
        let answer = move |request: Request| {
            let headers = SignatureHeaders {
                timestamp: request.header("x-webhook-timestamp"),
                signature: request.header("x-webhook-signature"),
            };
            let secrets = [WebhookSecret::parse(SECRET).unwrap()];
            let now = ManualClock::default().now();
            assert_eq!(verify(&secrets, headers, &request.body, Duration::MAX, now), Ok(()));
            let delivery = read_delivery(&request.body, now);
            assert!(!matches!(delivery.event, Event::Odd { .. }), "{delivery:?}");
            hear.lock().unwrap().push(delivery.kind);
            std::future::ready(Reply::new(*say.lock().unwrap(), "{}"))
        };
        TaskTracker::new().spawn(http::serve(listener, stop.clone(), answer));
        Receiver { url, status, heard, _serving: stop.drop_guard() }
    }

    fn say(&self, status: u16) {
        *self.status.lock().unwrap() = status;
    }

    fn take_heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

#[tokio::test]
async fn people_are_shown_as_late_as_daily_shows_them() {
    let world = world().await;
    world.daily.set_lags(Lags { room: Duration::from_secs(2), domain: Duration::from_secs(15) });
    let ada = world.daily.join("room", Guest::named("Ada"));
    assert!(world.ids("room").await.is_empty());
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(world.ids("room").await, [ada.as_str()]);
    assert_eq!(world.get("/presence").await, json!({}));
    world.clock.advance(Duration::from_secs(13));
    let answer = world.get("/presence").await;
    let shown = &answer["room"][0];
    assert_eq!((&shown["userName"], &shown["duration"]), (&json!("Ada"), &json!(0)));
    assert_eq!(shown["joinTime"], "2026-01-01T00:00:00.000Z");
    assert!(world.daily.leave("room", &ada) && !world.daily.leave("room", &ada));
    assert_eq!((world.ids("room").await.len(), world.daily.present("room").len()), (1, 0));
    let left_at = Some(world.clock.now());
    let visit = &world.daily.visits("room")[0];
    assert_eq!((&visit.session, visit.left_at), (&ada, left_at));
    assert_eq!(visit.left_at.map(|at| at.since(visit.joined_at)), Some(Duration::from_secs(15)));
    world.clock.advance(Duration::from_secs(2));
    assert!(world.ids("room").await.is_empty());
}

#[tokio::test]
async fn rooms_end_and_requests_are_checked() {
    let world = world().await;
    let exp = world.clock.now().as_micros() / 1_000_000 + 60;
    let wish = json!({"name": "a", "privacy": "private", "properties": {"exp": exp}});
    let made = world.client.post("/rooms", &wish).await.unwrap().expect_status(200).unwrap();
    assert_eq!((&made.body["name"], &made.body["privacy"]), (&json!("a"), &json!("private")));
    world.client.post("/rooms", &wish).await.unwrap().expect_status(400).unwrap();
    world.daily.join("a", Guest::default());
    assert_eq!(world.ids("a").await.len(), 1);
    world.clock.advance(Duration::from_secs(60));
    let gone = world.client.get("/rooms/a/presence").await.unwrap().expect_status(404).unwrap();
    assert_eq!((&gone.body["error"], &gone.body["deleted"]), (&json!("not-found"), &json!(true)));
    world.client.delete("/rooms/a").await.unwrap().expect_status(404).unwrap();
    let anonymous = JsonClient::new(world.daily.api_url()).unwrap();
    anonymous.get("/presence").await.unwrap().expect_status(400).unwrap();
    let wrong = anonymous.with_token("wrong").unwrap();
    wrong.get("/presence").await.unwrap().expect_status(401).unwrap();
    assert_eq!(world.daily.requests(Route::DomainPresence), 2);
}

#[tokio::test]
async fn too_many_requests_are_refused() {
    let world = world().await;
    world.daily.set_limited(true, Some(3));
    for _ in 0..20 {
        world.get("/presence").await;
    }
    let refused = world.client.get("/presence").await.unwrap().expect_status(429).unwrap();
    assert_eq!(refused.header("retry-after"), Some("3"));
    world.clock.advance(Duration::from_secs(1));
    world.get("/presence").await;
    assert_eq!((world.daily.requests_refused(), world.daily.requests_total()), (1, 22));
    assert_eq!(world.daily.requests_within(Duration::from_secs(5)), 21);
}

#[tokio::test]
async fn events_are_signed_and_a_webhook_that_fails_is_switched_off() {
    let (world, receiver) = (world().await, Receiver::start().await);
    let hook = world.subscribe(&receiver, "circuit-breaker").await;
    assert_eq!(receiver.take_heard(), ["test"]);
    let ada = world.daily.join("room", Guest::named("Ada"));
    world.daily.leave("room", &ada);
    assert_eq!(world.daily.deliver().await, 3);
    let told = ["participant.joined", "participant.left", "meeting.ended"];
    assert_eq!(receiver.take_heard(), told, "what was not asked for is not sent");

    receiver.say(500);
    let join = |name: &str| world.daily.join("room", Guest::named(name));
    join("Bob");
    join("Cyd");
    world.daily.deliver().await;
    assert_eq!(world.state().await, ("ACTIVE".to_owned(), 2));
    join("Dan");
    join("Eve");
    world.daily.deliver().await;
    assert_eq!(world.state().await, ("FAILED".to_owned(), 3));
    join("Fay");
    assert_eq!((world.daily.deliver().await, world.daily.undelivered()), (0, 0));
    assert_eq!(receiver.take_heard().len(), 3);

    let path = format!("/webhooks/{}", hook["uuid"].as_str().unwrap());
    let again = json!({"url": receiver.url});
    world.client.patch(&path, &again).await.unwrap().expect_status(404).unwrap();
    world.client.post(&path, &again).await.unwrap().expect_status(400).unwrap();
    receiver.say(200);
    world.client.post(&path, &again).await.unwrap().expect_status(200).unwrap();
    assert_eq!(world.state().await, ("ACTIVE".to_owned(), 0));
    let deleted = world.client.delete(&path).await.unwrap().expect_status(200).unwrap();
    assert_eq!(deleted.text, "");
    assert_eq!(world.get("/webhooks").await, json!([]));
}

#[tokio::test]
async fn an_event_is_tried_again_as_often_as_was_asked_for() {
    let (world, receiver) = (world().await, Receiver::start().await);
    world.subscribe(&receiver, "exponential").await;
    receiver.say(503);
    world.daily.join("room", Guest::named("Ada"));
    let mut tries = 0;
    for _ in 0..400 {
        tries += world.daily.deliver().await;
        world.clock.advance(Duration::from_secs(15));
    }
    assert_eq!((tries, world.daily.undelivered()), (5, 0));
    assert_eq!(world.state().await, ("ACTIVE".to_owned(), 5));
    let ids: Vec<String> = world.daily.delivered().into_iter().map(|sent| sent.id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "it is the same event: {ids:?}");
}

#[tokio::test]
async fn events_are_lost_doubled_delayed_and_reordered() {
    let (world, receiver) = (world().await, Receiver::start().await);
    world.subscribe(&receiver, "exponential").await;
    let join_many = || {
        for number in 0..20 {
            world.daily.join("room", Guest::named(&number.to_string()));
        }
    };
    let ids = || world.daily.delivered().into_iter().map(|sent| sent.id).collect::<Vec<_>>();
    world.daily.set_webhook_faults(WebhookFaults { lose_percent: 100, ..WebhookFaults::default() });
    join_many();
    assert_eq!((world.daily.deliver().await, world.daily.lost()), (0, 20));
    let faults = WebhookFaults {
        double_percent: 100,
        delay_max: Duration::from_secs(60),
        is_reordered: true,
        lose_percent: 0,
    };
    world.daily.set_webhook_faults(faults);
    join_many();
    let early = world.daily.deliver().await;
    assert!(early < 40, "some come later");
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(early + world.daily.deliver().await, 40);
    let sent = ids();
    let unique: std::collections::BTreeSet<&String> = sent.iter().collect();
    assert_eq!((sent.len(), unique.len()), (40, 20));
    assert!(!sent.is_sorted());
}

#[tokio::test]
async fn events_are_sent_by_themselves_if_that_is_wished() {
    let world = world_with(DailyStandInOptions::default()).await;
    let receiver = Receiver::start().await;
    world.subscribe(&receiver, "circuit-breaker").await;
    world.daily.join("room", Guest::named("Ada"));
    let heard =
        eventually(SOON, async || (receiver.heard.lock().unwrap().len() == 2).then_some(()));
    heard.await.unwrap();
}

#[tokio::test]
async fn recordings_are_listed_in_pages_and_can_be_read_in_parts() {
    let world = world().await;
    let now = world.clock.now();
    let bytes: Vec<u8> = (0..=255).collect();
    let first = world.daily.record(NewRecording::cloud("room", now, bytes.clone()));
    for _ in 0..3 {
        world.daily.begin_recording(NewRecording::cloud("room", now, Vec::new()));
    }
    let page = world.get("/recordings?limit=2").await;
    assert_eq!((&page["total_count"], page["data"].as_array().unwrap().len()), (&json!(4), 2));
    assert_eq!(page["data"][0]["status"], "in-progress");
    assert_eq!(page["data"][0].get("duration"), None);
    let last = page["data"][1]["id"].as_str().unwrap();
    let page = world.get(&format!("/recordings?limit=2&starting_after={last}")).await;
    assert_eq!(page["data"][1]["id"], first.as_str());

    let path = format!("/recordings/{first}/access-link?valid_for_secs=900");
    let link = world.get(&path).await["download_link"].as_str().unwrap().to_owned();
    let files = JsonClient::new(&link).unwrap();
    let read = async |range: &str| {
        let request = files.with_header("range", range).unwrap().request(reqwest::Method::GET, "");
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
    };
    assert_eq!(read("bytes=250-").await, (206, bytes[250..].to_vec()));
    assert_eq!(read("bytes=0-9").await, (206, bytes[..10].to_vec()));
    assert_eq!(read("bytes=-6").await, (206, bytes[250..].to_vec()));
    assert_eq!(read("bytes=256-").await.0, 416);
    world.clock.advance(Duration::from_secs(900));
    assert_eq!(read("bytes=0-").await.0, 403, "the link is too old");
}

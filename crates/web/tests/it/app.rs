//! A whole server without its network: every test has its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use roundsman_core::bots::{CallbackKey, MeetingTokens};
use roundsman_core::ports::{Database, NewSubscription};
use roundsman_engine::audits::{AuditWork, Audits};
use roundsman_engine::health::Health;
use roundsman_engine::presence::PresenceWork;
use roundsman_engine::rooms::RoomLimits;
use roundsman_engine::tasks::{TaskWork, Tasks};
use roundsman_engine::users::{
    AdminToken, Authenticator, AuthenticatorOptions, TokenWish, UserWish, Users,
};
use roundsman_engine::wake::Wakes;
use roundsman_store::sqlite::SqliteStore;
use roundsman_testkit::ManualClock;
use roundsman_web::{AppState, Live, LiveLimits, Readiness, RoomSocketLimits, WebLimits, router};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::app_audits::audit_work;
use crate::app_parts::Parts;
use crate::app_presence::{DAILY_SECRET, TestRooms, daily_events, presence_of};
use crate::app_recordings::{KeptRecordings, recordings_of};
use crate::app_tasks::{alarms_of, rooms_of, task_work};

pub(crate) const ADMIN_TOKEN: &str = "operator-of-these-tests";
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// The server and the hands that a test needs on it.
pub(crate) struct App {
    pub(crate) router: Router,
    pub(crate) state: AppState,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) health: Health,
    pub(crate) wakes: Wakes,
    pub(crate) stopping: CancellationToken,
    /// What the tokens of bots are made with.
    pub(crate) callback_key: CallbackKey,
    /// What the tokens of meetings are made with.
    pub(crate) meeting_tokens: MeetingTokens,
    /// The provider of video rooms.
    pub(crate) rooms: Arc<TestRooms>,
    pub(crate) presence_work: PresenceWork,
    pub(crate) kept_recordings: Arc<KeptRecordings>,
    pub(crate) audit_work: AuditWork,
    pub(crate) task_work: TaskWork,
}

/// What may differ from test to test.
pub(crate) struct Setup {
    pub(crate) admin: Option<&'static str>,
    pub(crate) request_max: Duration,
    pub(crate) requests_at_once_max: usize,
    pub(crate) token_requests_per_sec_max: u32,
    pub(crate) cors_origins: Vec<String>,
    /// Stands in front of the database when it is asked whether it is there.
    pub(crate) ping: Option<Arc<dyn Database>>,
    pub(crate) live: LiveLimits,
    pub(crate) room_limits: RoomLimits,
    pub(crate) room_sockets: RoomSocketLimits,
    pub(crate) body_bytes_max: usize,
    /// The database in a file, where others can get at it.
    pub(crate) file: Option<PathBuf>,
    /// What Daily may sign with.
    pub(crate) daily_secrets: Vec<&'static str>,
    /// Where Daily is to send its events.
    pub(crate) subscription: Option<NewSubscription>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            admin: Some(ADMIN_TOKEN),
            request_max: Duration::from_secs(30),
            requests_at_once_max: 1000,
            token_requests_per_sec_max: 0,
            cors_origins: Vec::new(),
            ping: None,
            live: LiveLimits::default(),
            room_limits: RoomLimits::default(),
            room_sockets: RoomSocketLimits::default(),
            body_bytes_max: BODY_BYTES_MAX,
            file: None,
            daily_secrets: vec![DAILY_SECRET],
            subscription: None,
        }
    }
}

impl Setup {
    fn auth(&self) -> AuthenticatorOptions {
        AuthenticatorOptions {
            admin: self.admin.map(AdminToken::new),
            cache_for: Duration::from_secs(30),
        }
    }

    fn limits(&self) -> WebLimits {
        WebLimits {
            body_bytes_max: self.body_bytes_max,
            request_max: self.request_max,
            requests_at_once_max: self.requests_at_once_max,
            token_requests_per_sec_max: self.token_requests_per_sec_max,
            cors_origins: self.cors_origins.clone(),
            ..WebLimits::default()
        }
    }
}

impl App {
    pub(crate) fn new() -> Self {
        App::with(Setup::default())
    }

    pub(crate) fn with(mut setup: Setup) -> Self {
        let clock = Arc::new(ManualClock::default());
        let parts = Parts::new(clock.clone(), setup.file.as_deref());
        let callback_key = CallbackKey::new(b"a key for the tests of the edge!");
        let rooms = Arc::new(TestRooms::default());
        let presence_work = parts.presence_work(rooms.clone());
        let kept_recordings = Arc::new(KeptRecordings::new(parts.store.clone()));
        let audit_work = audit_work(&parts);
        let store = parts.store.clone();
        let authenticator = Authenticator::new(store.clone(), parts.clock.clone(), setup.auth());
        let users = Users::new(
            store.clone(),
            parts.clock.clone(),
            parts.random.clone(),
            authenticator.clone(),
        );
        let health = Health::new(parts.clock.clone());
        let (limits, live) = (setup.limits(), Live::new(setup.live));
        let database = setup.ping.unwrap_or_else(|| store.clone());
        let readiness =
            Readiness::new(database, parts.clock.clone(), health.clone(), parts.stopping.clone());
        let documents = rooms_of(&parts, &authenticator, setup.room_limits);
        let task_work = task_work(&parts, &documents);
        let state = AppState {
            rooms: documents,
            room_sockets: setup.room_sockets,
            tasks: Tasks::new(&task_work, store.clone()),
            alarms: alarms_of(&parts),
            jobs: parts.jobs(),
            bots: parts.bots(&callback_key),
            webhooks: parts.webhooks(),
            presence: presence_of(&presence_work, setup.subscription.take()),
            recordings: recordings_of(&presence_work, &kept_recordings),
            audits: Audits::new(&audit_work),
            daily: daily_events(&presence_work, &setup.daily_secrets),
            transcripts: parts.transcripts,
            live,
            users,
            authenticator,
            readiness,
            metrics: parts.metrics,
            clock: parts.clock,
            random: parts.random,
            limits,
            public_url: None,
        };
        App {
            router: router(state.clone()),
            state,
            clock,
            store,
            health,
            wakes: parts.wakes,
            stopping: parts.stopping,
            callback_key,
            meeting_tokens: parts.meeting_tokens,
            rooms,
            presence_work,
            kept_recordings,
            audit_work,
            task_work,
        }
    }

    /// A new user's token with these scopes.
    pub(crate) async fn token(&self, email: &str, scopes: &[&str]) -> String {
        let wish = UserWish { email: email.to_owned(), ..UserWish::default() };
        let (user, _) = self.state.users.find_or_create(wish).await.unwrap();
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        let wish = TokenWish { scopes, ..TokenWish::default() };
        self.state.users.issue_token(user.id, wish).await.unwrap().text
    }

    /// A client with a new user's unlimited token.
    pub(crate) async fn user(&self, email: &str) -> Client {
        self.client().header("x-api-key", &self.token(email, &[]).await)
    }

    pub(crate) fn admin(&self) -> Client {
        self.client().header("x-admin-api-key", ADMIN_TOKEN)
    }

    /// A client without a token.
    pub(crate) fn client(&self) -> Client {
        Client { router: self.router.clone(), headers: Vec::new() }
    }
}

/// Sends requests with the same headers.
#[derive(Clone)]
pub(crate) struct Client {
    router: Router,
    headers: Vec<(String, String)>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null if the text is no JSON.
    pub(crate) body: Value,
}

impl Client {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same client of another server.
    pub(crate) fn at(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_text(path, body.to_string()).await
    }

    /// A body that may be anything, declared to be JSON.
    pub(crate) async fn post_text(&self, path: &str, body: impl Into<Body>) -> Answer {
        let client = self.clone().header("content-type", "application/json");
        client.send(Method::POST, path, body.into()).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        let client = self.clone().header("content-type", "application/json");
        client.send(Method::PATCH, path, body.to_string().into()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        let client = self.clone().header("content-type", "application/json");
        client.send(Method::PUT, path, body.to_string().into()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, Body::empty()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Body) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(body).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        }
    }

    /// Enqueues one job and returns its number.
    pub(crate) async fn enqueue(&self, wish: Value) -> i64 {
        let answer = self.post("/jobs", wish).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
        answer.body["id"].as_i64().unwrap()
    }

    /// Claims one job of the kind `work` and returns its number and token.
    pub(crate) async fn claim(&self) -> (i64, i64) {
        let wish = json!({"worker": "tests", "kinds": ["work"]});
        let answer = self.post("/jobs/claim", wish).await;
        let job = &answer.body["jobs"][0];
        let pair = (job["id"].as_i64(), job["lease_no"].as_i64());
        let (Some(id), Some(lease_no)) = pair else { panic!("{}", answer.text) };
        (id, lease_no)
    }

    pub(crate) async fn state_of(&self, id: i64) -> String {
        let answer = self.get(&format!("/jobs/{id}")).await;
        answer.body["state"].as_str().unwrap_or(&answer.text).to_owned()
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The answer is a problem document of this sort, complete in itself.
    #[track_caller]
    pub(crate) fn expect_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("urn:roundsman:problem:{code}"));
        assert_eq!(self.body["request_id"], self.header("x-request-id"));
        for member in ["title", "detail", "instance", "request_id"] {
            assert!(self.body[member].as_str().is_some_and(|text| !text.is_empty()), "{member}");
        }
        assert!(self.body["errors"].is_array());
        self
    }

    /// The answer is a refusal whose `detail` is exactly this, as clients of the Vexa API show it.
    #[track_caller]
    pub(crate) fn expect_detail(&self, status: u16, code: &str, detail: &str) -> &Self {
        self.expect_problem(status, code);
        assert_eq!(self.body["detail"], detail);
        self
    }

    /// The answer lists one wrong field the way clients of the Vexa API expect it.
    #[track_caller]
    pub(crate) fn expect_invalid(&self, place: &Value, message: &str) -> &Self {
        assert_eq!((self.status, &self.body["code"]), (422, &json!("invalid_request")), "{self:?}");
        assert_eq!(self.header("content-type"), "application/json");
        let error = &self.body["detail"][0];
        assert_eq!(&error["loc"], place, "{}", self.text);
        assert!(error["msg"].as_str().unwrap().contains(message), "{}", self.text);
        assert!(error["type"].as_str().unwrap().starts_with("value_error"), "{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

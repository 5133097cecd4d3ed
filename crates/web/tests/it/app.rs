//! A whole server without its network: every test has its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use roundsman_bus::{BusLimits, LocalBus};
use roundsman_core::bots::{CallbackKey, MeetingTokens};
use roundsman_core::jobs::{KindCatalog, KindName, KindSpec, MergeRule, RetryPolicy, Role};
use roundsman_core::ports::{Clock, Database, Random, Store};
use roundsman_core::transcripts::{FilterConfig, TranscriptionFilter};
use roundsman_engine::bots::{Bots, BotsDeps};
use roundsman_engine::health::Health;
use roundsman_engine::jobs::{JobLimits, Jobs, JobsDeps};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::transcripts::{TranscriptLimits, Transcripts, TranscriptsDeps};
use roundsman_engine::users::{
    AdminToken, Authenticator, AuthenticatorOptions, TokenWish, UserWish, Users,
};
use roundsman_engine::wake::Wakes;
use roundsman_engine::webhooks::Webhooks;
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};
use roundsman_testkit::{ManualClock, SeededRandom};
use roundsman_web::{AppState, Live, LiveLimits, Readiness, WebLimits, router};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::webhooks::Mailbox;

pub(crate) const ADMIN_TOKEN: &str = "operator-of-these-tests";
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
pub(crate) const MEETING_KEY: &[u8] = b"a key for the tokens of meetings";

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
}

/// What may differ from test to test.
pub(crate) struct Setup {
    pub(crate) admin: Option<&'static str>,
    pub(crate) request_max: Duration,
    /// Stands in front of the database when it is asked whether it is there.
    pub(crate) ping: Option<Arc<dyn Database>>,
    pub(crate) live: LiveLimits,
    pub(crate) body_bytes_max: usize,
    /// The database in a file, where others can get at it.
    pub(crate) file: Option<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            admin: Some(ADMIN_TOKEN),
            request_max: Duration::from_secs(30),
            ping: None,
            live: LiveLimits::default(),
            body_bytes_max: BODY_BYTES_MAX,
            file: None,
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

    fn store(&self, catalog: &Arc<KindCatalog>) -> SqliteStore {
        let catalog = catalog.clone();
        match &self.file {
            Some(file) => SqliteStore::open(&SqliteOptions::new(file), catalog).unwrap(),
            None => SqliteStore::open_in_memory_inline(catalog).unwrap(),
        }
    }

    fn limits(&self) -> WebLimits {
        WebLimits {
            body_bytes_max: self.body_bytes_max,
            request_max: self.request_max,
            ..WebLimits::default()
        }
    }
}

impl App {
    pub(crate) fn new() -> Self {
        App::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let catalog = Arc::new(KindCatalog::new(kind_defaults()));
        let store = Arc::new(setup.store(&catalog));
        let dyn_store: Arc<dyn Store> = store.clone();
        let clock = Arc::new(ManualClock::default());
        let dyn_clock: Arc<dyn Clock> = clock.clone();
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(7));
        let (metrics, wakes) = (Metrics::default(), Wakes::local());
        let stopping = CancellationToken::new();
        let callback_key = CallbackKey::new(b"a key for the tests of the edge!");
        let bus = Arc::new(LocalBus::new(&BusLimits::default(), &stopping));
        let meeting_tokens = MeetingTokens::new(MEETING_KEY);
        let transcripts = Transcripts::new(TranscriptsDeps {
            bus: bus.clone(),
            metrics: metrics.clone(),
            tokens: meeting_tokens.clone(),
            ..transcript_deps(&dyn_store, &dyn_clock, &random)
        });
        let bots = Bots::new(BotsDeps {
            store: dyn_store.clone(),
            clock: dyn_clock.clone(),
            random: random.clone(),
            bus,
            wakes: wakes.clone(),
            metrics: metrics.clone(),
            callback_key: callback_key.clone(),
            transcripts: transcripts.clone(),
            tasks: TaskTracker::new(),
        });
        let webhooks = Webhooks::new(
            dyn_store.clone(),
            dyn_clock.clone(),
            random.clone(),
            Arc::new(Mailbox),
            wakes.clone(),
        );
        let jobs = Jobs::new(JobsDeps {
            store: dyn_store,
            clock: dyn_clock.clone(),
            random: random.clone(),
            catalog,
            wakes: wakes.clone(),
            metrics: metrics.clone(),
            tasks: TaskTracker::new(),
            limits: job_limits(),
        });
        let authenticator = Authenticator::new(store.clone(), dyn_clock.clone(), setup.auth());
        let users =
            Users::new(store.clone(), dyn_clock.clone(), random.clone(), authenticator.clone());
        let health = Health::new(dyn_clock.clone());
        let (limits, live) = (setup.limits(), Live::new(setup.live));
        let database = setup.ping.unwrap_or_else(|| store.clone());
        let readiness =
            Readiness::new(database, dyn_clock.clone(), health.clone(), stopping.clone());
        let state = AppState {
            jobs,
            bots,
            webhooks,
            transcripts,
            live,
            users,
            authenticator,
            readiness,
            metrics,
            clock: dyn_clock,
            random,
            limits,
            public_url: None,
        };
        let router = router(state.clone());
        App { router, state, clock, store, health, wakes, stopping, callback_key, meeting_tokens }
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

/// With a bus and metrics of its own.
fn transcript_deps(
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
) -> TranscriptsDeps {
    TranscriptsDeps {
        store: store.clone(),
        clock: clock.clone(),
        random: random.clone(),
        bus: Arc::new(LocalBus::new(&BusLimits::default(), &CancellationToken::new())),
        cache: None,
        metrics: Metrics::default(),
        tokens: MeetingTokens::new(MEETING_KEY),
        filter: Arc::new(TranscriptionFilter::new(FilterConfig::default()).unwrap()),
        limits: TranscriptLimits::default(),
        tasks: TaskTracker::new(),
    }
}

fn job_limits() -> JobLimits {
    JobLimits {
        payload_bytes_max: 1024,
        jobs_per_request_max: 100,
        // Far longer than a test is given: a claim that is not woken fails it.
        poll_every: Duration::from_mins(10),
        ..JobLimits::default()
    }
}

fn kind_defaults() -> KindSpec {
    KindSpec {
        kind: KindName::new("default").unwrap(),
        lease_ttl: Duration::from_mins(5),
        heartbeat_every: Duration::from_secs(30),
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_mins(5) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }
}

//! Every route of the API's description, tried by everybody who should not get in.

use axum::http::Method;
use serde_json::{Value, json};

use crate::app::{ADMIN_TOKEN, App, Client};

/// A route, as its description has it.
struct Route {
    method: Method,
    path: String,
    tag: String,
    /// The names of the security schemes; empty if it is open to all.
    schemes: Vec<String>,
    /// The scope a user's token needs; empty for the operator's routes.
    scope: String,
    takes_body: bool,
}

fn routes() -> Vec<Route> {
    let document: Value = serde_json::from_str(&roundsman_web::openapi_json()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needs = operation["security"].as_array().expect("every route says who may use it");
            let schemes: Vec<(&String, &Value)> =
                needs.iter().flat_map(|need| need.as_object().unwrap()).collect();
            routes.push(Route {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                tag: operation["tags"][0].as_str().unwrap().to_owned(),
                scope: schemes
                    .first()
                    .map_or("", |(_, scopes)| scopes[0].as_str().unwrap_or(""))
                    .to_owned(),
                schemes: schemes.into_iter().map(|(name, _)| name.clone()).collect(),
                takes_body: operation.get("requestBody").is_some(),
            });
        }
    }
    routes
}

impl Route {
    /// Whether the route takes this sort of token at all.
    fn takes(&self, scheme: &str) -> bool {
        self.schemes.iter().any(|name| name == scheme)
    }

    /// Whether it is for bots, producers and providers, and for nobody else.
    fn is_for_others(&self) -> bool {
        OTHERS_KEYS.iter().any(|scheme| self.takes(scheme))
    }

    /// What a stranger is told: the surfaces of the Vexa API have their own ideas.
    fn refusals(&self) -> &'static [u16] {
        match self.tag.as_str() {
            "admin" | "vexa" | "transcripts" => &[403],
            // A socket is accepted before anybody looks at a token: see the tests of sockets.
            "live" => &[426],
            // Without a token and with a wrong one.
            "webhooks" => &[401, 403],
            _ => &[401],
        }
    }
}

/// Those whose bodies are nothing like a worker's.
const HAS_OWN_BODIES: [&str; 11] = [
    "audits",
    "bots",
    "vexa",
    "webhooks",
    "transcripts",
    "presence",
    "recordings",
    "providers",
    "rooms",
    "tasks",
    "alarms",
];
/// Those for whoever has something else than a user's or the operator's token.
const OTHERS_KEYS: [&str; 3] = ["bot_key", "meeting_token", "daily_signature"];

/// A server with one job of somebody else's that is being worked on, a batch and a schedule.
struct Scene {
    app: App,
    job: i64,
    lease_no: i64,
    batch: i64,
    schedule: i64,
}

impl Scene {
    async fn new() -> Self {
        let app = App::new();
        let owner = app.user("owner@example.org").await;
        owner.enqueue(json!({"kind": "work", "key": "k"})).await;
        let (job, lease_no) = owner.claim().await;
        let wish = json!({"jobs": [{"kind": "theirs"}]});
        let batch = owner.post("/batches", wish).await.expect(201).body["id"].as_i64().unwrap();
        let wish = json!({"every_secs": 60, "job": {"kind": "theirs"}});
        let made = owner.post("/schedules", wish).await.expect(201);
        Scene { app, job, lease_no, batch, schedule: made.body["id"].as_i64().unwrap() }
    }

    /// The number of what a route is about.
    fn number(&self, path: &str) -> i64 {
        match path.split('/').nth(1) {
            Some("batches") => self.batch,
            Some("schedules") => self.schedule,
            _ => self.job,
        }
    }

    async fn call(&self, client: &Client, route: &Route) -> u16 {
        let path = filled(&route.path).replace("{id}", &self.number(&route.path).to_string());
        // Right for every route, as far as the route looks before it knows who is asking.
        let body = match path.rsplit('/').next().unwrap() {
            "jobs" | "import" => json!({"kind": "mine"}),
            "limits" => json!({}),
            "bulk" => json!({"action": "cancel", "filter": {"kind": "nothing"}}),
            "schedules" => json!({"every_secs": 60, "job": {"kind": "mine"}}),
            "batches" => json!({"jobs": [{"kind": "mine"}]}),
            "claim" => json!({"worker": "w", "kinds": ["work"]}),
            "users" => json!({"email": "new@example.org"}),
            "progress" => json!({"lease_no": self.lease_no, "progress": 1}),
            "fail" => json!({"lease_no": self.lease_no, "error": {"message": "x"}}),
            "joining" | "leave" => json!({"connection_id": "c"}),
            "joined" if route.tag == "presence" => json!({"connection_id": "c"}),
            "consent" => json!({"given": true}),
            "alarms" => json!({"name": "a", "after_secs": 60}),
            "tasks" => json!({"project_id": "p", "task_type": "none", "params": {}}),
            "broadcast-task" => json!({"task_id": "task_0"}),
            // Wrong, so that nothing is made of it; who may not ask does not learn even that.
            _ if HAS_OWN_BODIES.contains(&route.tag.as_str()) => json!({}),
            _ if route.tag == "callbacks" => json!({"connection_id": "c", "status": "joining"}),
            _ if route.method == Method::PATCH => json!({}),
            _ => json!({"lease_no": self.lease_no}),
        };
        let body = if route.takes_body { body.to_string() } else { String::new() };
        let client = client.clone().header("content-type", "application/json");
        client.send(route.method.clone(), &path, body.into()).await.status
    }
}

/// A path with something in it for everything but a number.
fn filled(path: &str) -> String {
    [
        ("{email}", "a@b.c"),
        ("{platform}", "google_meet"),
        ("{native_meeting_id}", "abc-defg-hij"),
        ("{event_id}", "evt_00"),
        ("{token}", "rmb_1_1_00"),
        ("{event}", "started"),
        ("{share_file}", "00.txt"),
        ("{recording_id}", "rec-1"),
        ("{kind}", "mine"),
        ("{seq}", "1"),
        ("{project}", "p"),
        ("{task_id}", "task_0"),
        ("{name}", "a"),
    ]
    .into_iter()
    .fold(path.to_owned(), |path, (name, value)| path.replace(name, value))
}

#[tokio::test]
async fn the_description_covers_the_api() {
    let routes = routes();
    assert!(routes.len() >= 90, "{}", routes.len());
    let open: Vec<&str> =
        routes.iter().filter(|route| route.schemes.is_empty()).map(|r| r.path.as_str()).collect();
    let expected = [
        "/healthz",
        "/openapi.json",
        "/public/transcripts/{share_file}",
        "/readyz",
        // The address is a secret of its own, and so is that of a share above.
        "/results/{key}/{number}",
        // Signed, each as its service signs: see the tests of executors.
        "/webhooks/{service}",
    ];
    assert_eq!(open, expected, "nothing else is open");
}

#[tokio::test]
async fn nobody_gets_in_without_a_valid_token() {
    let scene = Scene::new().await;
    let app = &scene.app;
    let forged = format!("rmt_1_{}", "0".repeat(64));
    let strangers = [
        app.client(),
        app.client().header("x-api-key", "wrong"),
        app.client().header("x-api-key", &forged),
        app.client().header("authorization", &format!("Bearer {forged}")),
        app.client().header("authorization", &format!("Basic {ADMIN_TOKEN}")),
        app.client().header("authorization", "Bearer "),
        app.client().header("x-admin-api-key", &forged),
        app.client().header("cookie", &format!("x-api-key={ADMIN_TOKEN}")),
    ];
    for route in routes().iter().filter(|route| !route.schemes.is_empty()) {
        for stranger in &strangers {
            let status = scene.call(stranger, route).await;
            let place = format!("{} {}: {status}", route.method, route.path);
            assert!(route.refusals().contains(&status), "{place}");
        }
        let query = format!("{}?api_key={ADMIN_TOKEN}", filled(&route.path).replace("{id}", "1"));
        let status = app.client().send(route.method.clone(), &query, "{}".into()).await.status;
        assert!(status >= 400, "a token in the address opens nothing: {}", route.path);
    }
}

#[tokio::test]
async fn a_token_does_what_its_scope_says_and_no_more() {
    let scene = Scene::new().await;
    for scope in ["read", "jobs", "work", "bot", "tx"] {
        let token = scene.app.token("other@example.org", &[scope]).await;
        let client = scene.app.client().header("x-api-key", &token);
        for route in routes().iter().filter(|route| !route.schemes.is_empty()) {
            let status = scene.call(&client, route).await;
            let place = format!("{scope}: {} {}", route.method, route.path);
            let allowed = route.scope == "read" || route.scope == scope;
            if route.tag == "live" {
                assert_eq!(status, 426, "{place}");
            } else if route.is_for_others() {
                assert_eq!(status, 401, "{place}: no user is a bot, a producer or a provider");
            } else if allowed && matches!(route.tag.as_str(), "jobs" | "worker") {
                // It is somebody else's job, so that "not found" is what letting in looks like.
                assert!(matches!(status, 200 | 201 | 404), "{place}: {status}");
                assert_eq!(status == 404, route.path.contains("{id}"), "{place}: {status}");
            } else if allowed {
                assert!(matches!(status, 200 | 201 | 204 | 400 | 404 | 422), "{place}: {status}");
            } else {
                assert_eq!(status, 403, "{place}");
            }
        }
    }
}

#[tokio::test]
async fn another_user_reaches_nothing_of_this_one() {
    let scene = Scene::new().await;
    let other = scene.app.user("other@example.org").await;
    let theirs = ["/jobs/{id}", "/batches/{id}", "/schedules/{id}"];
    let is_theirs = |route: &&Route| theirs.iter().any(|path| route.path.starts_with(path));
    for route in routes().iter().filter(is_theirs) {
        assert_eq!(scene.call(&other, route).await, 404, "{} {}", route.method, route.path);
    }
    let claimed = other.post("/jobs/claim", json!({"worker": "w", "kinds": ["work"]})).await;
    assert_eq!(claimed.expect(200).body["jobs"], json!([]));
    let job = scene.app.admin().get(&format!("/jobs/{}", scene.job)).await.expect(200);
    assert_eq!(
        (&job.body["state"], &job.body["cancel_requested"]),
        (&json!("processing"), &json!(false))
    );
}

#[tokio::test]
async fn the_operator_gets_in_everywhere_but_where_a_user_or_a_bot_is_needed() {
    for header in ["x-admin-api-key", "authorization"] {
        let scene = Scene::new().await;
        let value = if header == "authorization" {
            format!("Bearer {ADMIN_TOKEN}")
        } else {
            ADMIN_TOKEN.to_owned()
        };
        let client = scene.app.client().header(header, &value);
        for route in routes() {
            let status = scene.call(&client, &route).await;
            let place = format!("{} {}: {status}", route.method, route.path);
            // Bots and meetings are users', callbacks are bots', messages are producers', and events
            // are providers'.
            let others =
                route.is_for_others() || route.takes("api_key") && !route.takes("admin_key");
            let refused = matches!(status, 401 | 403);
            assert_eq!(refused, others && route.tag != "live", "{place}");
            // Nobody has said where the provider is to send its events.
            let is_closed = route.path == "/presence/subscription";
            assert_eq!(status >= 500, is_closed, "{place}");
        }
    }
}

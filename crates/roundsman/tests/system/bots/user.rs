//! A user's calls about bots, and waiting for what becomes of them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use roundsman_testkit::http::JsonResponse;
use roundsman_testkit::{JsonClient, eventually};
use serde_json::{Value, json};

/// Somebody with an API key.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) id: i64,
    pub(crate) key: String,
    pub(crate) client: JsonClient,
}

/// The words that end a meeting.
const OVER: [&str; 2] = ["completed", "failed"];

impl User {
    pub(crate) fn new(base_url: &str, id: i64, key: &str) -> Result<User> {
        let client = JsonClient::new(base_url)?.with_header("x-api-key", key)?;
        Ok(User { id, key: key.to_owned(), client })
    }

    /// The same user at another node.
    pub(crate) fn at(&self, base_url: &str) -> Result<User> {
        User::new(base_url, self.id, &self.key)
    }

    /// Starts a bot that plays a scenario in the meeting of this number; returns the meeting's id.
    pub(crate) async fn start(&self, scenario: &str, number: u32) -> Result<i64> {
        let answer = self.try_start(scenario, number).await?.expect_status(201)?;
        answer.body["id"].as_i64().context("a meeting without a number")
    }

    pub(crate) async fn try_start(&self, scenario: &str, number: u32) -> Result<JsonResponse> {
        self.client.post("/bots/start", &start_body(scenario, number)).await
    }

    pub(crate) async fn stop(&self, meeting: i64) -> Result<()> {
        self.client
            .post("/bots/stop", &json!({"meeting_id": meeting}))
            .await?
            .expect_status(202)?;
        Ok(())
    }

    /// The user's latest meetings, newest first.
    pub(crate) async fn meetings(&self) -> Result<Vec<Value>> {
        let page = self.client.get("/meetings").await?.expect_status(200)?;
        Ok(page.body["meetings"].as_array().context("no list of meetings")?.clone())
    }

    pub(crate) async fn meeting(&self, id: i64) -> Result<Value> {
        Ok(self.client.get(&format!("/meetings/{id}")).await?.expect_status(200)?.body)
    }

    /// Waits until the meeting is in this state, which must not be passed by one that ends it.
    /// Errors of the server are waited through: it may be down.
    pub(crate) async fn wait_for(&self, id: i64, state: &str, limit: Duration) -> Result<Value> {
        let mut seen = Value::Null;
        let reached = eventually(limit, async || {
            let meeting = self.meeting(id).await.ok()?;
            let now = meeting["state"].as_str().unwrap_or_default().to_owned();
            seen.clone_from(&meeting);
            (now == state || OVER.contains(&now.as_str())).then_some(meeting)
        });
        let reached = reached.await;
        let meeting = reached.with_context(|| format!("{id} is not {state} but {seen}"))?;
        if meeting["state"] != state {
            bail!("meeting {id} is not {state} but {meeting}");
        }
        Ok(meeting)
    }
}

/// The body of a request for a bot.
pub(crate) fn start_body(scenario: &str, number: u32) -> Value {
    json!({
        "platform": "google_meet",
        "native_meeting_id": native_id(number),
        "bot_name": format!("scenario:{scenario}"),
    })
}

/// The name of a meeting on Google Meet.
pub(crate) fn native_id(number: u32) -> String {
    let mut letters = String::new();
    let mut rest = number;
    for _ in 0..4 {
        letters.push(char::from(b'a' + u8::try_from(rest % 26).unwrap_or_default()));
        rest /= 26;
    }
    format!("abc-{letters}-xyz")
}

/// Why a meeting ended, as its last step says.
pub(crate) fn end_reason(meeting: &Value) -> &str {
    let steps = meeting["data"]["status_transition"].as_array();
    let last = steps.and_then(|steps| steps.last());
    last.and_then(|step| step["reason"].as_str()).unwrap_or_default()
}

//! Bots in the hands of a test: what a launcher would hand out, taken straight from the store.

use roundsman_core::bots::{ConnectionId, MeetingId, WorkloadId};
use roundsman_core::ports::BotStore;
use roundsman_engine::users::UserChange;
use serde_json::{Value, json};

use crate::app::{Answer, App, Client};

pub(crate) const MEET: &str = "abc-defg-hij";

/// A bot that was launched, as far as the server can tell.
pub(crate) struct TestBot {
    pub(crate) meeting_id: i64,
    pub(crate) connection_id: String,
    pub(crate) token: String,
    /// Sends the token in the header.
    client: Client,
    /// Sends none.
    bare: Client,
}

impl App {
    /// Lets a user have this many bots.
    pub(crate) async fn allow_bots(&self, email: &str, max: i32) {
        let user = self.state.users.user_by_email(email).await.unwrap();
        let change = UserChange { max_concurrent_bots: Some(max), ..UserChange::default() };
        self.state.users.update(user.id, change).await.unwrap();
    }

    /// Starts a bot in a Google Meet and takes its place.
    pub(crate) async fn start_bot(&self, user: &Client, native_id: &str) -> TestBot {
        let wish = json!({"platform": "google_meet", "native_meeting_id": native_id});
        let started = user.post("/bots/start", wish).await.expect(201);
        self.bot_in(started.body["id"].as_i64().unwrap()).await
    }

    /// The bot in a meeting.
    pub(crate) async fn bot_in(&self, meeting_id: i64) -> TestBot {
        let record = self.store.bot(MeetingId::new(meeting_id)).await.unwrap().unwrap();
        let connection_id = record.bot.connection_id.as_str().to_owned();
        let token = self.callback_key.token(record.workload(), &record.bot.connection_id);
        let client = self.client().header("authorization", &format!("Bearer {token}"));
        TestBot { meeting_id, connection_id, token, client, bare: self.client() }
    }

    /// Whether the bot is expected to send heartbeats.
    pub(crate) async fn beats(&self, meeting_id: i64) -> bool {
        self.store.bot(MeetingId::new(meeting_id)).await.unwrap().unwrap().bot.beats
    }

    /// A token that was really made by this server, for whatever one likes.
    pub(crate) fn bot_token(&self, meeting_id: i64, attempt: u32, connection: &str) -> String {
        let workload = WorkloadId { meeting_id: MeetingId::new(meeting_id), attempt };
        self.callback_key.token(workload, &ConnectionId::from_stored(connection.to_owned()))
    }

    /// How many meetings there are, of anybody.
    pub(crate) async fn meeting_ids(&self, user: &Client) -> Vec<i64> {
        let listed = user.get("/meetings").await.expect(200);
        let meetings = listed.body["meetings"].as_array().unwrap().clone();
        meetings.iter().map(|meeting| meeting["id"].as_i64().unwrap()).collect()
    }
}

impl TestBot {
    /// Reports in our own protocol; `body` is added to the connection's name.
    pub(crate) async fn report(&self, event: &str, body: Value) -> Answer {
        let body = self.body(body);
        let path = format!("/callback/{event}");
        if event == "status" {
            return self.client.patch(&path, body).await;
        }
        self.client.post(&path, body).await
    }

    /// Reports as a stock bot does, with the token in the address.
    pub(crate) async fn report_as_stock(&self, event: &str, body: Value) -> Answer {
        let path = format!("/bots/internal/callback/{}/{event}", self.token);
        self.bare.post(&path, self.body(body)).await
    }

    /// Brings the bot into its meeting.
    pub(crate) async fn join(&self) {
        self.report("started", json!({"meeting_id": self.meeting_id})).await.expect(200);
        self.report("joined", json!({})).await.expect(200);
    }

    /// Ends it well.
    pub(crate) async fn exit(&self) {
        self.report("exited", json!({"exit_code": 0})).await.expect(200);
    }

    pub(crate) fn body(&self, mut body: Value) -> Value {
        body["connection_id"] = json!(self.connection_id);
        body
    }
}

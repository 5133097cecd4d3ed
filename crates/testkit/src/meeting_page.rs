//! A meeting in the browser: one page with a lobby, a participant list and captions, served on
//! loopback, and the hand of its host.
//!
//! Whoever opens the page is a guest: asks to join, waits until the host decides, sees the others
//! and what they say. The host is the test. A guest whose page goes away has left.

mod http;
mod model;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::ports::loopback;
pub use model::{GuestState, Lobby};
use model::{Meeting, Person};

/// A served meeting. It is gone when dropped.
#[derive(Debug)]
pub struct MeetingPage {
    address: SocketAddr,
    meeting: watch::Sender<Meeting>,
    _serving: DropGuard,
}

impl MeetingPage {
    /// Serves an empty meeting on a free port.
    pub async fn start(lobby: Lobby) -> Result<Self> {
        let listener = TcpListener::bind(loopback(0)).await?;
        let address = listener.local_addr()?;
        let meeting = watch::Sender::new(Meeting::new(lobby));
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(http::serve(listener, meeting.clone(), stop.clone(), tasks.clone()));
        Ok(MeetingPage { address, meeting, _serving: stop.drop_guard() })
    }

    /// What a guest opens.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Lets the guest of this name in.
    pub fn admit(&self, name: &str) {
        self.decide(name, GuestState::Admitted);
    }

    /// Turns the guest of this name away.
    pub fn reject(&self, name: &str) {
        self.decide(name, GuestState::Rejected);
    }

    /// Throws the guest of this name out.
    pub fn remove(&self, name: &str) {
        self.decide(name, GuestState::Removed);
    }

    /// The meeting is over for everybody.
    pub fn end(&self) {
        self.meeting.send_modify(Meeting::end);
    }

    /// Who else is there: people who are no guests of the page. Nobody of them speaks.
    pub fn set_participants(&self, names: &[&str]) {
        let people = names.iter().map(|name| Person::new(name)).collect();
        self.meeting.send_modify(|meeting| meeting.others = people);
    }

    /// Somebody of those begins or ends to speak.
    pub fn set_speaking(&self, name: &str, is_speaking: bool) {
        self.meeting.send_modify(|meeting| meeting.set_speaking(name, is_speaking));
    }

    /// Shows a caption, or what it has become: those of one number are one caption.
    pub fn caption(&self, number: u32, speaker: &str, text: &str, is_final: bool) {
        self.meeting.send_modify(|meeting| meeting.caption(number, speaker, text, is_final));
    }

    /// What became of the guest of this name who asked last.
    pub fn guest(&self, name: &str) -> Option<GuestState> {
        self.meeting.borrow().guest(name)
    }

    /// Waits until the guest of this name is in this state.
    pub async fn wait_for_guest(
        &self,
        name: &str,
        state: GuestState,
        limit: Duration,
    ) -> Result<()> {
        let mut meeting = self.meeting.subscribe();
        let reached = meeting.wait_for(|meeting| meeting.guest(name) == Some(state));
        let reached = tokio::time::timeout(limit, reached).await.map(|reached| reached.map(drop));
        let found = self.guest(name);
        reached.with_context(|| format!("{name} is {found:?} and not {state:?}"))??;
        Ok(())
    }

    fn decide(&self, name: &str, state: GuestState) {
        self.meeting.send_modify(|meeting| meeting.decide(name, state));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::http::JsonClient;

    const LIMIT: Duration = Duration::from_secs(10);

    /// What the page is told next.
    async fn next(events: &mut reqwest::Response) -> Value {
        let chunk = events.chunk().await.unwrap().unwrap();
        let text = std::str::from_utf8(&chunk).unwrap();
        serde_json::from_str(text.trim().strip_prefix("data: ").unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_guest_sees_the_meeting_once_admitted_and_vanishes_with_the_page() -> Result<()> {
        let page = MeetingPage::start(Lobby::Guarded).await?;
        page.set_participants(&["Ben"]);
        let client = JsonClient::new(page.url())?;
        assert!(client.get("/").await?.expect_status(200)?.text.contains("Ask to join"));
        let joined = client.post("/join", &json!({"name": "Ann"})).await?.expect_status(200)?;
        let path = format!("/events/{}", joined.body["number"]);
        let mut events = client.request(reqwest::Method::GET, &path).send().await?;
        assert_eq!(next(&mut events).await["state"], "lobby");
        assert_eq!(page.guest("Ann"), Some(GuestState::Waiting));

        page.admit("Ann");
        let seen = next(&mut events).await;
        assert_eq!(seen["state"], "meeting");
        assert_eq!(seen["participants"][1]["name"], "Ben");
        page.caption(1, "Ben", "Hello", true);
        assert_eq!(next(&mut events).await["captions"][0]["text"], "Hello");

        drop((events, client));
        page.wait_for_guest("Ann", GuestState::Vanished, LIMIT).await?;
        page.remove("Ann");
        assert_eq!(page.guest("Ann"), Some(GuestState::Vanished), "who is gone stays gone");
        Ok(())
    }
}

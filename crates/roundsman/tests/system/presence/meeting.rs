//! A meeting as its owner sees it over HTTP.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use roundsman_testkit::eventually;
use serde_json::{Value, json};

use super::record::{Record, Session};
use crate::bots::user::User;
use crate::site::SOON;

/// A meeting, and its owner.
#[derive(Debug, Clone)]
pub(super) struct Meeting {
    pub(super) id: i64,
    pub(super) room: String,
    pub(super) user: User,
}

impl Meeting {
    /// Makes a meeting in a room that Daily has.
    pub(super) async fn open(user: User, room: &str) -> Result<Meeting> {
        let made = user.client.post("/presence/meetings", &json!({"room": room})).await?;
        let made = made.expect_status(201)?.body;
        let id = made["id"].as_i64().context("a meeting without a number")?;
        Ok(Meeting { id, room: room.to_owned(), user })
    }

    pub(super) fn path(&self) -> String {
        format!("/presence/meetings/{}", self.id)
    }

    pub(super) async fn shown(&self) -> Result<Value> {
        Ok(self.user.client.get(&self.path()).await?.expect_status(200)?.body)
    }

    /// Everything that is recorded.
    pub(super) async fn record(&self) -> Result<Record> {
        let path = format!("{}/export.json", self.path());
        Record::read(&self.user.client.get(&path).await?.expect_status(200)?.body)
    }

    pub(super) async fn session(&self, id: &str) -> Result<Session> {
        let record = self.record().await?;
        record.sessions.get(id).cloned().with_context(|| format!("{id} is not recorded"))
    }

    /// Waits until exactly these sessions are open. Errors of the server are waited through: it may
    /// be down.
    pub(super) async fn wait_inside(&self, sessions: &[String]) -> Result<()> {
        let expected: BTreeSet<&str> = sessions.iter().map(String::as_str).collect();
        let mut seen = None;
        let inside = eventually(SOON, async || {
            let record = self.record().await.ok()?;
            let is_so = record.inside() == expected && record.num_clients == expected.len();
            seen = Some(record);
            is_so.then_some(())
        });
        let inside = inside.await;
        inside.with_context(|| format!("{expected:?} should be in {}: {seen:?}", self.room))
    }

    /// Waits until the meeting is over or goes on, and returns it as it is shown then.
    pub(super) async fn wait_active(&self, is_active: bool) -> Result<Value> {
        let mut seen = Value::Null;
        let reached = eventually(SOON, async || {
            seen = self.shown().await.ok()?;
            (seen["is_active"] == is_active).then(|| seen.clone())
        });
        let reached = reached.await;
        reached.with_context(|| format!("active should be {is_active}: {seen}"))
    }
}

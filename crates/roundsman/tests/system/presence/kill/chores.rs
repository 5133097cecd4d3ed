//! A user who makes and ends meetings all the time, and repeats what was not answered.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bots::user::User;
use crate::presence::place::{PresenceSite, breathe};

const PAUSE: Duration = Duration::from_millis(200);
const PAGE: &str = "/presence/meetings?limit=200";

pub(super) struct Chores {
    user: User,
    /// Meetings whose end was acknowledged.
    ended: Mutex<BTreeSet<i64>>,
}

impl Chores {
    pub(super) fn new(user: User) -> Chores {
        Chores { user, ended: Mutex::default() }
    }

    /// One meeting after the other, each in a room of its own, until it is over.
    pub(super) async fn run(&self, site: &PresenceSite, stop: &CancellationToken) {
        for number in 0.. {
            let room = format!("chore-{number}");
            site.daily.add_room(&room);
            // A step that fails is one at which the server died: the whole is told again.
            while self.one(&room).await.is_err() {
                if stop.is_cancelled() {
                    return;
                }
                breathe(PAUSE).await;
            }
            if stop.is_cancelled() {
                return;
            }
            breathe(PAUSE).await;
        }
    }

    async fn one(&self, room: &str) -> Result<()> {
        let made = self.user.client.post("/presence/meetings", &json!({"room": room})).await?;
        let id = match made.status {
            201 => made.body["id"].as_i64(),
            // It was made, and nobody said so.
            409 => made.body["meeting_id"].as_i64(),
            _ => None,
        };
        let id = id.with_context(|| made.text.clone())?;
        let path = |what: &str| format!("/presence/meetings/{id}/{what}");
        let connection = json!({"connection_id": "tab-1"});
        self.user.client.post(&path("joining"), &connection).await?.expect_status(200)?;
        self.user.client.post(&path("joined"), &connection).await?.expect_status(202)?;
        let ended =
            self.user.client.post(&path("deactivate"), &json!({})).await?.expect_status(200)?;
        ensure!(ended.body["is_active"] == false, "{}", ended.text);
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Ok(())
    }

    /// What was acknowledged to be over is over, and empty.
    pub(super) async fn expect_over(&self) -> Result<()> {
        let page = self.user.client.get(PAGE).await?.expect_status(200)?;
        let meetings = page.body["meetings"].as_array().context("no list of meetings")?;
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ensure!(!ended.is_empty(), "no meeting was made and ended");
        for id in ended {
            let shown = meetings.iter().find(|shown| shown["id"] == id);
            let shown = shown.with_context(|| format!("{id} is lost"))?;
            let is_over = shown["end_reason"] == "deactivated" && shown["num_clients"] == 0;
            ensure!(is_over, "{shown}");
        }
        Ok(())
    }
}

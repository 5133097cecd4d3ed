//! Which meetings a client listens to.

use roundsman_core::ports::{BotTarget, MeetingRow};
use serde_json::Value;

use super::authorise::{Named, find};
use super::commands::{Items, Wanted};
use super::frames::{self, Heard};
use super::session::Session;

/// What is told of a database that cannot be asked.
const AWAY: &str = "the database is unavailable";

impl Session {
    /// Listens to those of the meetings that are the user's. Returns what to tell the client.
    pub(super) async fn subscribe(&mut self, items: Items) -> Vec<String> {
        let Items { named, mut problems } = items;
        let mut found = Vec::new();
        for (index, Wanted { named, since }) in named {
            match find(&self.state, self.user, &named).await {
                Ok(Ok(row)) => found.push((index, row, since)),
                Ok(Err(missing)) => problems.push(format!("meetings[{index}] {missing}")),
                Err(error) => {
                    tracing::debug!(%error, "whose meeting it is cannot be told");
                    return vec![frames::error_details("authorization_call_failed", AWAY)];
                }
            }
        }
        let mut subscribed = Vec::new();
        let mut failed = false;
        for (index, row, since) in found {
            match self.add(&row, since).await {
                Ok(heard) => subscribed.push(heard),
                Err(NotAdded::Full) => {
                    let max = self.state.live.limits.subscriptions_max;
                    problems.push(format!("meetings[{index}] is one too many: the limit is {max}"));
                }
                Err(NotAdded::Away) => failed = true,
            }
        }
        let mut answers = Vec::new();
        if failed {
            answers.push(frames::error_details("authorization_call_failed", AWAY));
        }
        if !problems.is_empty() {
            answers.push(frames::error_details("invalid_subscribe_payload", problems));
        }
        answers.push(frames::subscribed(&subscribed));
        answers
    }

    /// A meeting that is listened to already goes on where it is, or begins again at `since`.
    async fn add(&mut self, row: &MeetingRow, since: Option<i64>) -> Result<Heard, NotAdded> {
        let id = row.meeting.id;
        if let Some(heard) = self.meetings.get(&id) {
            if since.is_none() {
                return Ok(heard.clone());
            }
            self.meetings.remove(&id);
            self.listener.remove(id);
        }
        if self.meetings.len() >= self.state.live.limits.subscriptions_max {
            self.state.metrics.limit_hit("live_subscriptions");
            return Err(NotAdded::Full);
        }
        let seq = self.listener.add(id, since).await.map_err(|error| {
            tracing::debug!(%error, "where a meeting's frames begin cannot be told");
            NotAdded::Away
        })?;
        let heard = Heard::new(row, seq);
        self.meetings.insert(id, heard.clone());
        Ok(heard)
    }

    /// Listens no longer to these meetings. Returns what to tell the client.
    pub(super) fn unsubscribe(&mut self, items: Items) -> String {
        let Items { named, mut problems } = items;
        let mut left = Vec::new();
        for (index, Wanted { named, .. }) in named {
            let heard = self.meetings.values().find(|heard| names(&named, heard)).cloned();
            match heard {
                Some(heard) => {
                    self.listener.remove(heard.meeting_id);
                    self.meetings.remove(&heard.meeting_id);
                    left.push(heard);
                }
                None => problems.push(format!("meetings[{index}] not currently subscribed")),
            }
        }
        if left.is_empty() && !problems.is_empty() {
            let details = Value::from(problems);
            return frames::error_details("invalid_unsubscribe_payload", details);
        }
        frames::unsubscribed(&left)
    }

    /// Listens no longer to meetings that are not the user's any more, and returns them.
    pub(super) async fn lose_meetings(&mut self) -> Vec<Heard> {
        let mut lost = Vec::new();
        for heard in self.meetings.values() {
            let target = BotTarget::Meeting(heard.meeting_id);
            if let Ok(None) = self.state.bots.meeting(self.user, target).await {
                lost.push(heard.clone());
            }
        }
        for heard in &lost {
            self.listener.remove(heard.meeting_id);
            self.meetings.remove(&heard.meeting_id);
        }
        lost
    }
}

/// Why a meeting was not added.
enum NotAdded {
    Full,
    Away,
}

fn names(named: &Named, heard: &Heard) -> bool {
    match named {
        Named::Meeting(id) => *id == heard.meeting_id,
        Named::Address { platform, native_id } => {
            *platform == heard.platform && Some(native_id) == heard.native_id.as_ref()
        }
    }
}

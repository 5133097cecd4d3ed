//! Reads what a listener has missed and the ring no longer has.

use std::borrow::Cow;
use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, StoreError};
use roundsman_core::transcripts::{in_order, reset_frame};
use roundsman_core::users::UserId;
use tokio::task::{JoinError, JoinHandle};

use super::channel::{Channel, History};
use super::hub::Hub;
use super::listener::Place;
use super::ring::RingFrame;

/// A look at the database that is under way.
pub(super) struct Recovery {
    pub(super) meeting: MeetingId,
    task: JoinHandle<Result<Recovered, StoreError>>,
    outcome: Option<Result<Recovered, StoreError>>,
}

/// What was read, and how far it goes.
pub(super) struct Recovered {
    pub(super) frames: Vec<RingFrame>,
    pub(super) place: i64,
}

impl Recovery {
    pub(super) fn begin(
        hub: &Hub,
        channel: Arc<Channel>,
        place: Place,
        user: Option<UserId>,
        frames_max: usize,
    ) -> Self {
        let meeting = channel.meeting;
        let work = recover(hub.clone(), channel, place, user, frames_max);
        Recovery { meeting, task: hub.spawn(work), outcome: None }
    }

    pub(super) fn is_done(&self) -> bool {
        self.outcome.is_some() || self.task.is_finished()
    }

    /// Waits until it is done. Cancel-safe.
    pub(super) async fn done(&mut self) {
        if self.outcome.is_none() {
            let ended = (&mut self.task).await;
            self.outcome = Some(ended.unwrap_or_else(|error| Err(broken(&error))));
        }
    }

    /// What it came to, once somebody has waited for it.
    pub(super) fn take(&mut self) -> Option<Result<Recovered, StoreError>> {
        self.outcome.take()
    }
}

fn broken(error: &JoinError) -> StoreError {
    StoreError::Unavailable(error.to_string().into())
}

async fn recover(
    hub: Hub,
    channel: Arc<Channel>,
    place: Place,
    user: Option<UserId>,
    frames_max: usize,
) -> Result<Recovered, StoreError> {
    let meeting = channel.meeting;
    let mut frames = Vec::new();
    if let Place::After(place) = place {
        match channel.recover(hub.store(), place).await? {
            History::Frames(found) => {
                let place = found.last().map_or(place, |frame| frame.seq);
                return Ok(Recovered { frames: hub.few(&channel, found, frames_max), place });
            }
            // A reset says nothing about the meeting itself.
            History::Gone(left) => frames.extend(left.into_iter().filter(is_status)),
        }
    }
    let reset = channel.reset(snapshot(&hub, meeting, user)).await?;
    hub.metrics().listener_reset();
    let place = reset.seq;
    frames.retain(|frame| frame.seq < place);
    frames.push(reset);
    Ok(Recovered { frames, place })
}

/// The whole of a transcript as a frame, with its place.
async fn snapshot(
    hub: &Hub,
    meeting: MeetingId,
    user: Option<UserId>,
) -> Result<(i64, String), StoreError> {
    let store = hub.store();
    let user = match user {
        Some(user) => Some(user),
        None => store.bot(meeting).await?.map(|record| record.meeting.user_id),
    };
    let Some(user) = user else {
        return Err(StoreError::Failed("nobody knows whose meeting this is".into()));
    };
    let transcript = store.transcript(user, BotTarget::Meeting(meeting), None).await?;
    let (seq, lines) = match transcript {
        Some(found) => (found.seq, found.lines),
        // A meeting that cannot be read any more has nothing to show.
        None => (stream_end(hub, meeting).await?, Vec::new()),
    };
    Ok((seq, reset_frame(meeting, &in_order(lines), seq, hub.clock().now())))
}

async fn stream_end(hub: &Hub, meeting: MeetingId) -> Result<i64, StoreError> {
    let ends = hub.store().stream_ends(vec![meeting]).await?;
    Ok(ends.first().copied().unwrap_or(0))
}

fn is_status(frame: &RingFrame) -> bool {
    #[derive(serde::Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow, default)]
        name: Cow<'a, str>,
    }
    serde_json::from_slice::<Typed<'_>>(&frame.text)
        .is_ok_and(|typed| !typed.name.starts_with("transcript."))
}

//! One who listens to meetings: a connection of a client.
//!
//! Invariants: a listener keeps a place per meeting and nothing else, so that one that reads slowly
//! costs as little as one that reads fast; places it is given grow, and nothing between two of them
//! is missing; it gets what it has missed, exactly, or is told to start over with the whole.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::StoreError;
use roundsman_core::users::UserId;
use tokio::sync::Notify;

use super::channel::Channel;
use super::hub::Hub;
use super::recovery::{Recovered, Recovery};
use super::ring::{Pull, RingFrame};

/// What one call of [`Listener::next`] returns is at most this and one meeting's frames.
const DELIVERED_BYTES_MAX: usize = 256 * 1024;

/// A frame for a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub meeting: MeetingId,
    /// Its place: whoever resumes after it misses nothing.
    pub seq: i64,
    /// JSON, with its place in it.
    pub text: Bytes,
}

/// Listens until it is dropped.
pub struct Listener {
    hub: Hub,
    id: u64,
    user: Option<UserId>,
    woken: Arc<Notify>,
    followed: BTreeMap<MeetingId, Followed>,
    /// What is being read from the database. It goes on when nobody waits for it, so that whoever
    /// waits in short turns gets there too.
    recovery: Option<Recovery>,
    /// Whose frames were read last: the next one's turn is next.
    turn: Option<MeetingId>,
}

struct Followed {
    channel: Arc<Channel>,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Everything up to here was read.
    After(i64),
    /// It must start over.
    Nowhere,
}

impl Listener {
    pub(super) fn new(hub: Hub) -> Self {
        let id = hub.enter();
        Listener {
            hub,
            id,
            user: None,
            woken: Arc::default(),
            followed: BTreeMap::new(),
            recovery: None,
            turn: None,
        }
    }

    /// Whose meetings these are. Without it, a meeting that never had a bot cannot be started over.
    #[must_use]
    pub fn of(mut self, user: UserId) -> Self {
        self.user = Some(user);
        self
    }

    /// Listens to a meeting: to what comes from now on, or to everything after a place. Returns the
    /// place it starts from. One that is listened to already goes on from there.
    pub async fn add(&mut self, meeting: MeetingId, after: Option<i64>) -> Result<i64, StoreError> {
        self.stop_recovery(meeting);
        // Before the look at the database, so that nothing falls between.
        let channel = self.hub.join(meeting, self.id, &self.woken);
        // Nothing is read until the place is known; whoever drops this call has added nothing.
        let place = Place::After(i64::MAX);
        self.followed.insert(meeting, Followed { channel: channel.clone(), place });
        let start = self.start(&channel, after).await;
        match start {
            Ok((place, from)) => {
                self.followed.insert(meeting, Followed { channel, place });
                self.woken.notify_one();
                Ok(from)
            }
            Err(error) => {
                self.remove(meeting);
                Err(error)
            }
        }
    }

    pub fn remove(&mut self, meeting: MeetingId) {
        self.stop_recovery(meeting);
        if self.followed.remove(&meeting).is_some() {
            self.hub.leave(meeting, self.id);
        }
    }

    /// What is listened to, by ascending number.
    pub fn meetings(&self) -> impl Iterator<Item = MeetingId> {
        self.followed.keys().copied()
    }

    /// Waits for the next frames; never returns none. Cancel-safe: dropping the future loses
    /// nothing. After an error it may be called again, but should not at once.
    pub async fn next(&mut self) -> Result<Vec<Delivery>, StoreError> {
        loop {
            if self.recovery.is_none() {
                self.recovery = self.first_behind().map(|meeting| self.recover(meeting));
            }
            // Meetings that are read from memory do not wait for one that is not.
            if let Some(recovery) = &mut self.recovery
                && recovery.is_done()
            {
                recovery.done().await;
            }
            // From here on nobody waits: what is read is returned.
            let mut deliveries = Vec::new();
            self.take_recovered(&mut deliveries)?;
            self.read_rings(&mut deliveries);
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
            match &mut self.recovery {
                Some(recovery) => tokio::select! {
                    () = recovery.done() => {}
                    () = self.woken.notified() => {}
                },
                None => self.woken.notified().await,
            }
        }
    }

    async fn start(
        &self,
        channel: &Channel,
        after: Option<i64>,
    ) -> Result<(Place, i64), StoreError> {
        let store = self.hub.store();
        let mut end = channel.open(store, after).await?;
        let Some(after) = after else { return Ok((Place::After(end), end)) };
        if after > end {
            // Another node has told it, and this one has not heard of it yet.
            channel.catch_up(store, None).await?;
            end = channel.end().unwrap_or(end);
        }
        if after > end {
            return Ok((Place::Nowhere, end));
        }
        Ok((Place::After(after.max(0)), after.max(0)))
    }

    /// A meeting whose next frames are not in the ring.
    fn first_behind(&self) -> Option<MeetingId> {
        let is_behind = |followed: &Followed| match followed.place {
            Place::Nowhere => true,
            Place::After(place) => followed.channel.is_behind(place),
        };
        self.followed.iter().find(|(_, followed)| is_behind(followed)).map(|(id, _)| *id)
    }

    /// Begins to read what a meeting has missed.
    fn recover(&self, meeting: MeetingId) -> Recovery {
        let Followed { channel, place } = &self.followed[&meeting];
        Recovery::begin(&self.hub, channel.clone(), *place, self.user)
    }

    /// Takes what was read, if it is there.
    fn take_recovered(&mut self, deliveries: &mut Vec<Delivery>) -> Result<(), StoreError> {
        let Some(recovery) = &mut self.recovery else { return Ok(()) };
        let (meeting, Some(recovered)) = (recovery.meeting, recovery.take()) else {
            return Ok(());
        };
        self.recovery = None;
        let Recovered { frames, place } = recovered?;
        self.read(meeting, place);
        deliver(meeting, frames, deliveries);
        Ok(())
    }

    fn stop_recovery(&mut self, meeting: MeetingId) {
        self.recovery.take_if(|recovery| recovery.meeting == meeting);
    }

    /// Reads what the rings have, one meeting after the other, each in its turn.
    fn read_rings(&mut self, deliveries: &mut Vec<Delivery>) {
        let from = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.followed.range((from, Bound::Unbounded));
        let earlier = self.turn.map(|turn| self.followed.range(..=turn));
        let mut read = Vec::new();
        let mut bytes: usize = deliveries.iter().map(|delivery| delivery.text.len()).sum();
        for (meeting, followed) in later.chain(earlier.into_iter().flatten()) {
            if bytes >= DELIVERED_BYTES_MAX {
                // Whoever is left is read with the next call.
                self.woken.notify_one();
                break;
            }
            let Place::After(place) = followed.place else { continue };
            if let Pull::Frames(frames) = followed.channel.after(place) {
                read.push((*meeting, frames.last().map_or(place, |frame| frame.seq)));
                let frames = self.hub.few(*meeting, frames);
                bytes += frames.iter().map(|frame| frame.text.len()).sum::<usize>();
                deliver(*meeting, frames, deliveries);
            }
        }
        for (meeting, place) in read {
            self.read(meeting, place);
        }
    }

    fn read(&mut self, meeting: MeetingId, place: i64) {
        self.turn = Some(meeting);
        if let Some(followed) = self.followed.get_mut(&meeting) {
            followed.place = Place::After(place);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for meeting in self.followed.keys() {
            self.hub.leave(*meeting, self.id);
        }
        self.hub.exit();
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("meetings", &self.followed.len()).finish_non_exhaustive()
    }
}

fn deliver(meeting: MeetingId, frames: Vec<RingFrame>, deliveries: &mut Vec<Delivery>) {
    let delivery = |RingFrame { seq, text }| Delivery { meeting, seq, text };
    deliveries.extend(frames.into_iter().map(delivery));
}

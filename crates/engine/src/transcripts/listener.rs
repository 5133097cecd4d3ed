//! One who listens to meetings: a connection of a client.
//!
//! Invariants: a listener keeps a place per meeting and nothing else, so that one that reads slowly
//! costs as little as one that reads fast; places it is given grow, and nothing between two of them
//! is missing; it gets what it has missed, exactly, or is told to start over with the whole; one that
//! keeps up waits for nothing, and one that does not gets few frames, each with the latest.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::StoreError;
use roundsman_core::users::UserId;
use tokio::sync::Notify;

use super::channel::Channel;
use super::hub::Hub;
use super::pace::Pace;
use super::recovery::{Recovered, Recovery};
use super::ring::{Pull, RingFrame};
use crate::wake::pause;

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
    /// The time for which a meeting was held back has passed.
    held_enough: bool,
}

struct Followed {
    channel: Arc<Channel>,
    place: Place,
    /// It had read everything when it last looked, or has taken at once what it was given. If not, it
    /// is behind when more than one waits.
    caught_up: bool,
    pace: Pace,
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
            held_enough: false,
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
        self.followed.insert(meeting, Followed::new(channel.clone(), place));
        let start = self.start(&channel, after).await;
        match start {
            Ok((place, from)) => {
                self.followed.insert(meeting, Followed::new(channel, place));
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

    /// Whoever it is for has taken all that [`Listener::next`] returned without making anybody wait,
    /// and is not behind, however much has come meanwhile. Without this it is, if that is more than
    /// one frame of a meeting.
    pub fn kept_up(&mut self) {
        self.followed.values_mut().for_each(|followed| followed.caught_up = true);
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
            let held = self.read_rings(&mut deliveries);
            self.held_enough = false;
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
            match (&mut self.recovery, held) {
                (None, None) => self.woken.notified().await,
                (Some(recovery), None) => tokio::select! {
                    () = recovery.done() => {}
                    () = self.woken.notified() => {}
                },
                (None, Some(held)) => tokio::select! {
                    () = Box::pin(pause(held)) => self.held_enough = true,
                    () = self.woken.notified() => {}
                },
                (Some(recovery), Some(held)) => tokio::select! {
                    () = recovery.done() => {}
                    () = Box::pin(pause(held)) => self.held_enough = true,
                    () = self.woken.notified() => {}
                },
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
            Place::After(place) => {
                followed.channel.is_behind(place) && self.allowance(followed).is_ok()
            }
        };
        self.followed.iter().find(|(_, followed)| is_behind(followed)).map(|(id, _)| *id)
    }

    /// Begins to read what a meeting has missed.
    fn recover(&self, meeting: MeetingId) -> Recovery {
        let followed = &self.followed[&meeting];
        let frames_max = self.allowance(followed).unwrap_or(1);
        let channel = followed.channel.clone();
        Recovery::begin(&self.hub, channel, followed.place, self.user, frames_max)
    }

    /// Takes what was read, if it is there.
    fn take_recovered(&mut self, deliveries: &mut Vec<Delivery>) -> Result<(), StoreError> {
        let Some(recovery) = &mut self.recovery else { return Ok(()) };
        let (meeting, Some(recovered)) = (recovery.meeting, recovery.take()) else {
            return Ok(());
        };
        self.recovery = None;
        let Recovered { frames, place } = recovered?;
        self.turn = Some(meeting);
        if let Some(followed) = self.followed.get_mut(&meeting) {
            followed.spend(&self.hub, frames.len());
            followed.read(place);
        }
        deliver(meeting, frames, deliveries);
        Ok(())
    }

    /// See [`Followed::allowance`].
    fn allowance(&self, followed: &Followed) -> Result<usize, Duration> {
        followed.allowance(&self.hub, self.held_enough)
    }

    fn stop_recovery(&mut self, meeting: MeetingId) {
        self.recovery.take_if(|recovery| recovery.meeting == meeting);
    }

    /// Reads what the rings have, one meeting after the other, each in its turn. Returns the time
    /// after which there is something of a meeting that is held back.
    fn read_rings(&mut self, deliveries: &mut Vec<Delivery>) -> Option<Duration> {
        let Listener { hub, followed, turn, woken, held_enough, .. } = self;
        let later = (turn.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let earlier = turn.map(|turn| (Bound::Unbounded, Bound::Included(turn)));
        let mut held: Option<Duration> = None;
        let mut bytes: usize = deliveries.iter().map(|delivery| delivery.text.len()).sum();
        for part in [Some(later), earlier].into_iter().flatten() {
            for (meeting, followed) in followed.range_mut(part) {
                if bytes >= DELIVERED_BYTES_MAX {
                    // Whoever is left is read with the next call.
                    woken.notify_one();
                    return held;
                }
                match followed.pull(hub, *held_enough) {
                    Ok(frames) if frames.is_empty() => {}
                    Ok(frames) => {
                        *turn = Some(*meeting);
                        bytes += frames.iter().map(|frame| frame.text.len()).sum::<usize>();
                        deliver(*meeting, frames, deliveries);
                    }
                    Err(wait) => held = Some(held.map_or(wait, |held| held.min(wait))),
                }
            }
        }
        held
    }
}

impl Followed {
    fn new(channel: Arc<Channel>, place: Place) -> Self {
        // Whoever comes back is not behind by what was told while it was away.
        Followed { channel, place, caught_up: true, pace: Pace::default() }
    }

    /// How many frames it may get at once, or for how long it gets none.
    fn allowance(&self, hub: &Hub, held_enough: bool) -> Result<usize, Duration> {
        if self.caught_up {
            return Ok(usize::MAX);
        }
        let (pace, now) = (hub.pace(), hub.clock().monotonic());
        match self.pace.left(pace, now) {
            0 if held_enough => Ok(1),
            0 => Err(self.pace.wait(pace, now)),
            left => Ok(left),
        }
    }

    /// What the ring has, or for how long that is held back.
    fn pull(&mut self, hub: &Hub, held_enough: bool) -> Result<Vec<RingFrame>, Duration> {
        let Place::After(place) = self.place else { return Ok(Vec::new()) };
        let frames = match self.channel.after(place) {
            Pull::Frames(frames) => frames,
            Pull::Nothing => {
                self.caught_up = true;
                return Ok(Vec::new());
            }
            // It waits until it may have more, or is read from the database by now.
            Pull::Behind => return self.allowance(hub, held_enough).map(|_| Vec::new()),
        };
        let last = frames.last().map_or(place, |frame| frame.seq);
        // Most listeners have one to read, and need nothing else.
        let frames = if frames.len() > 1 {
            let frames = hub.few(&self.channel, frames, self.allowance(hub, held_enough)?);
            self.spend(hub, frames.len());
            frames
        } else {
            frames
        };
        self.read(last);
        Ok(frames)
    }

    /// It gets so many frames; that counts while it is behind.
    fn spend(&mut self, hub: &Hub, frames: usize) {
        if !self.caught_up {
            self.pace.spend(hub.pace(), frames, hub.clock().monotonic());
        }
    }

    fn read(&mut self, place: i64) {
        self.place = Place::After(place);
        self.caught_up = false;
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

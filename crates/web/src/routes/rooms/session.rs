//! One client on `/ws/rooms`, with all the rooms it is in.
//!
//! Invariants: updates of a connection are taken in the order they came, and while too many wait to be
//! stored no more are read; every batch is acknowledged, after its commit; what waits for the client is
//! bounded by its mailboxes. Clients do not send again what was refused for now: they are told to join
//! again, and bring it then.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use roundsman_core::failpoint;
use roundsman_core::rooms::Permission;
use roundsman_documents::protocol::{
    AckStatus, Assemblies, AssemblyLimits, BatchId, BatchKey, Crdt, Frame, Message, Piece,
    RoomErrorCode, update_frames,
};
use roundsman_engine::rooms::{Mail, Standing, WriteError};
use roundsman_engine::wake;
use tokio::sync::Notify;

use super::member::{Entry, Member, NotIn, RoomKey, enter};
use super::{RoomSocketLimits, frames};
use crate::extract::LiveKey;
use crate::live::{Pace, Place};
use crate::socket::{Broken, Goodbye, Received, Socket};
use crate::state::Shared;

/// Batches of one connection that are being stored.
const IN_FLIGHT_MAX: usize = 64;
/// So much mail of one room is sent before whatever else there is.
const MAIL_IN_A_ROW_MAX: usize = 64;
/// How often it is looked whether something has ended: a right, or the patience for a batch.
const TICK: Duration = Duration::from_secs(1);

pub(super) async fn run(state: Shared, socket: Socket, key: LiveKey, _place: Place) {
    let mut session = Session::new(state, socket, key.into_text().map(Arc::from));
    let ending = session.listen().await;
    if matches!(ending, Ending::Silent | Ending::Client(Broken::TooSlow)) {
        session.state.metrics.limit_hit("live_too_slow");
    }
    let Session { socket, .. } = session;
    if let Some(goodbye) = ending.goodbye() {
        socket.close(goodbye).await;
    }
}

struct Session {
    state: Shared,
    socket: Socket,
    /// What was sent with the handshake, for joins that bring nothing.
    key: Option<Arc<str>>,
    rooms: BTreeMap<RoomKey, Member>,
    assemblies: Assemblies,
    bell: Arc<Notify>,
    storing: FuturesUnordered<BoxFuture<'static, Stored>>,
    pace: Pace,
    batch_last: u64,
    /// Rooms in which something was refused that is welcome a moment later.
    owed: BTreeSet<RoomKey>,
    /// Rooms that the client was told to join again, and has not yet.
    rejoining: BTreeSet<RoomKey>,
    /// A ping was sent and nothing came since.
    asked: bool,
}

/// A batch that was stored, or not.
struct Stored {
    key: RoomKey,
    batch: BatchId,
    result: Result<(), WriteError>,
}

enum Step {
    Stop,
    Ask,
    Recheck,
    Tick,
    Mail,
    Stored(Stored),
    Hear(Received),
    Leave(Broken),
}

enum Ending {
    Silent,
    Stopping,
    /// The database does not answer.
    Later,
    BadFrame(String),
    Client(Broken),
}

impl From<Broken> for Ending {
    fn from(broken: Broken) -> Self {
        Ending::Client(broken)
    }
}

impl Ending {
    /// Clients of the protocol come back after 1001 to 1013, except 1008 and 1011, and stay away after
    /// 4400 to 4499.
    fn goodbye(self) -> Option<Goodbye> {
        match self {
            Ending::Silent => Some(Goodbye::new(1013, "no answer to a ping")),
            Ending::Stopping => Some(Goodbye::new(1012, "the server is stopping")),
            Ending::Later => Some(Goodbye::new(1013, "come back later")),
            Ending::BadFrame(reason) => Some(Goodbye::new(4400, reason)),
            Ending::Client(Broken::TooSlow) => Some(Goodbye::new(1013, "too slow")),
            Ending::Client(Broken::TooLarge) => Some(Goodbye::new(1009, "the frame is too large")),
            Ending::Client(Broken::NoProtocol) => Some(Goodbye::new(1002, "")),
            Ending::Client(Broken::Gone) => None,
        }
    }
}

impl Session {
    fn new(state: Shared, socket: Socket, key: Option<Arc<str>>) -> Self {
        let limits = state.room_sockets;
        let assemblies = Assemblies::new(AssemblyLimits {
            batch_bytes_max: limits.batch_bytes_max as u64,
            fragments_max: limits.fragments_max,
            batches_max: limits.batches_max,
            timeout: limits.batch_max,
        });
        Session {
            state,
            socket,
            key,
            rooms: BTreeMap::new(),
            assemblies,
            bell: Arc::default(),
            storing: FuturesUnordered::new(),
            pace: Pace::default(),
            batch_last: 0,
            owed: BTreeSet::new(),
            rejoining: BTreeSet::new(),
            asked: false,
        }
    }

    async fn listen(&mut self) -> Ending {
        let limits = self.state.live.limits;
        let stopping = self.state.readiness.stopping().clone();
        let bell = self.bell.clone();
        let mut ask = pin!(wake::rest(limits.ping_every, &stopping));
        let mut recheck = pin!(wake::rest(limits.recheck_every, &stopping));
        let mut tick = pin!(wake::rest(TICK, &stopping));
        // Mail and what the client sends take turns, so that neither keeps the other waiting.
        let mut mail_first = true;
        loop {
            let listens = self.storing.len() < IN_FLIGHT_MAX;
            let is_storing = !self.storing.is_empty();
            let step = tokio::select! {
                biased;
                passed = &mut ask => if passed { Step::Ask } else { Step::Stop },
                passed = &mut recheck => if passed { Step::Recheck } else { Step::Stop },
                passed = &mut tick => if passed { Step::Tick } else { Step::Stop },
                Some(stored) = self.storing.next(), if is_storing => Step::Stored(stored),
                () = bell.notified(), if mail_first => Step::Mail,
                received = self.socket.receive(), if listens => {
                    received.map_or_else(Step::Leave, Step::Hear)
                }
                () = bell.notified(), if !mail_first => Step::Mail,
            };
            mail_first = !matches!(step, Step::Mail);
            match &step {
                Step::Ask => ask.set(wake::rest(limits.ping_every, &stopping)),
                Step::Recheck => recheck.set(wake::rest(limits.recheck_every, &stopping)),
                Step::Tick => tick.set(wake::rest(TICK, &stopping)),
                _ => {}
            }
            if let Err(ending) = self.step(step).await {
                return ending;
            }
        }
    }

    async fn step(&mut self, step: Step) -> Result<(), Ending> {
        match step {
            Step::Stop => {
                // What was begun is stored and acknowledged.
                while let Some(stored) = self.storing.next().await {
                    self.acknowledge(stored).await?;
                }
                Err(Ending::Stopping)
            }
            Step::Leave(broken) => Err(broken.into()),
            Step::Ask if self.asked => Err(Ending::Silent),
            Step::Ask => {
                self.asked = true;
                Ok(self.socket.ping().await?)
            }
            Step::Recheck => self.recheck(|_| true).boxed().await,
            Step::Tick => self.tick().boxed().await,
            Step::Mail => self.deliver().await,
            Step::Stored(stored) => self.acknowledge(stored).await,
            Step::Hear(received) => {
                self.asked = false;
                match received {
                    Received::Text(text) if text.as_str() == "ping" => {
                        self.socket.send(vec![Bytes::from_static(b"pong")]).await?;
                        Ok(())
                    }
                    Received::Text(_) | Received::Alive => Ok(()),
                    Received::Binary(bytes) => self.hear(bytes).boxed().await,
                }
            }
        }
    }

    async fn hear(&mut self, bytes: Bytes) -> Result<(), Ending> {
        let frame = Frame::decode(bytes).map_err(|error| Ending::BadFrame(error.to_string()))?;
        let key = (frame.crdt, frame.room);
        match frame.message {
            Message::JoinRequest { auth, version } => self.join(key, &auth, version).await,
            Message::Update { updates, batch } => self.update(key, updates, batch).await,
            Message::FragmentHeader { batch, fragments, bytes } => {
                self.begin_batch(key, batch, fragments, bytes).await
            }
            Message::Fragment { batch, index, bytes } => {
                self.add_piece(key, batch, index, bytes).await
            }
            Message::Leave => {
                self.leave(&key);
                self.rejoining.remove(&key);
                Ok(())
            }
            // The client could not use what it got: it gets the rest of it anew.
            Message::Ack { status, .. } if status != AckStatus::Ok => {
                self.put_out(&key, RoomErrorCode::RejoinSuggested, "join again").await
            }
            Message::Ack { .. }
            | Message::JoinOk { .. }
            | Message::JoinError(_)
            | Message::RoomError { .. } => Ok(()),
        }
    }

    async fn join(&mut self, key: RoomKey, auth: &[u8], version: Bytes) -> Result<(), Ending> {
        // Whoever joins again begins anew.
        self.leave(&key);
        self.rejoining.remove(&key);
        if self.rooms.len() >= self.limits().rooms_max {
            self.state.metrics.limit_hit("rooms_per_connection");
            let refusal = frames::own_refusal("too_many_rooms", "leave a room first");
            return self.send(vec![frames::not_joined(&key, refusal)]).await;
        }
        let sent = std::str::from_utf8(auth).ok().filter(|auth| !auth.is_empty()).map(Arc::from);
        let credential = sent.or_else(|| self.key.clone());
        match enter(&self.state.rooms, &key, credential, version, &self.bell).await {
            Ok(Entry { member, permission, version, missing }) => {
                let mut messages = vec![frames::joined(&key, permission, version)];
                if let Some(missing) = missing {
                    messages.extend(update_frames(key.0, &key.1, &missing, self.next_batch()));
                }
                self.rooms.insert(key, member);
                self.send(messages).await
            }
            Err(NotIn::Refused(refusal)) => {
                self.send(vec![frames::not_joined(&key, refusal)]).await
            }
            Err(NotIn::Later) => Err(Ending::Later),
        }
    }

    async fn update(
        &mut self,
        key: RoomKey,
        updates: Vec<Bytes>,
        batch: BatchId,
    ) -> Result<(), Ending> {
        match self.take(&key, updates, batch).await {
            None => Ok(()),
            Some(status) => self.answer(&key, batch, status).await,
        }
    }

    /// Takes a batch in. `None`: it is being stored, and acknowledged when that is done.
    async fn take(
        &mut self,
        key: &RoomKey,
        updates: Vec<Bytes>,
        batch: BatchId,
    ) -> Option<AckStatus> {
        let limits = *self.limits();
        let now = self.state.clock.monotonic();
        if let Some(refusal) = self.refusal(key) {
            return Some(refusal);
        }
        if !self.pace.count(now, limits.updates_per_sec_max) {
            self.state.metrics.limit_hit("room_updates_per_sec");
            return Some(AckStatus::RateLimited);
        }
        if updates.iter().map(Bytes::len).sum::<usize>() > limits.batch_bytes_max {
            return Some(AckStatus::PayloadTooLarge);
        }
        let rooms = self.state.rooms.clone();
        let member = self.rooms.get(key)?;
        if key.0 == Crdt::Ephemeral {
            for update in updates {
                if !rooms.tell_presence(&member.membership, update).await {
                    return Some(AckStatus::InvalidUpdate);
                }
            }
            return Some(AckStatus::Ok);
        }
        let pending = match key.0 {
            Crdt::PersistedEphemeral => Ok(rooms.keep_presence(&member.membership, updates)),
            _ => rooms.take(&member.membership, updates).await,
        };
        match pending {
            Ok(pending) => {
                let key = key.clone();
                let store = async move {
                    Stored { key, batch, result: rooms.store_pending(pending).await }
                };
                self.storing.push(store.boxed());
                None
            }
            Err(error) => Some(status_of(&error)),
        }
    }

    /// Why the client may not write to a room; `None` if it may.
    fn refusal(&self, key: &RoomKey) -> Option<AckStatus> {
        let may_write = |member: &Member| {
            key.0 == Crdt::Ephemeral || member.access.permission == Permission::Write
        };
        match self.rooms.get(key) {
            Some(member) if may_write(member) => None,
            // What it writes between two joins comes with the second.
            None if self.rejoining.contains(key) => Some(AckStatus::App),
            _ => Some(AckStatus::PermissionDenied),
        }
    }

    async fn acknowledge(&mut self, stored: Stored) -> Result<(), Ending> {
        let Stored { key, batch, result } = stored;
        let status = result.as_ref().map_or_else(status_of, |()| AckStatus::Ok);
        self.answer(&key, batch, status).await?;
        failpoint::hit("rooms.acked");
        Ok(())
    }

    async fn answer(
        &mut self,
        key: &RoomKey,
        batch: BatchId,
        status: AckStatus,
    ) -> Result<(), Ending> {
        if let Some(reason) = word_of(status) {
            self.state.metrics.room_update_refused(reason);
        }
        let is_for_now = matches!(status, AckStatus::RateLimited | AckStatus::FragmentTimeout);
        if is_for_now && key.0 != Crdt::Ephemeral && self.rooms.contains_key(key) {
            self.owed.insert(key.clone());
        }
        self.send(vec![frames::ack(key, batch, status)]).await
    }

    async fn begin_batch(
        &mut self,
        key: RoomKey,
        batch: BatchId,
        fragments: u64,
        bytes: u64,
    ) -> Result<(), Ending> {
        if let Some(refusal) = self.refusal(&key) {
            return self.answer(&key, batch, refusal).await;
        }
        let now = self.state.clock.monotonic();
        let batch_key = BatchKey { crdt: key.0, room: key.1.clone(), batch };
        match self.assemblies.begin(batch_key, fragments, bytes, now) {
            Ok(()) => Ok(()),
            Err(status) => self.answer(&key, batch, status).await,
        }
    }

    async fn add_piece(
        &mut self,
        key: RoomKey,
        batch: BatchId,
        index: u64,
        bytes: Bytes,
    ) -> Result<(), Ending> {
        let batch_key = BatchKey { crdt: key.0, room: key.1.clone(), batch };
        match self.assemblies.add(&batch_key, index, bytes) {
            Piece::Kept | Piece::Ignored => Ok(()),
            Piece::Whole(update) => self.update(key, vec![update], batch).await,
            Piece::Refused(status) => self.answer(&key, batch, status).await,
        }
    }

    /// Sends what has come for the rooms of this connection.
    async fn deliver(&mut self) -> Result<(), Ending> {
        let (mut messages, mut out, mut rechecks) = (Vec::new(), Vec::new(), Vec::new());
        let mut more = false;
        for (key, member) in &self.rooms {
            for count in 0.. {
                if count == MAIL_IN_A_ROW_MAX {
                    more = true;
                    break;
                }
                match member.membership.mailbox().take() {
                    None => break,
                    Some(Mail::Update(update) | Mail::Presence(update)) => {
                        self.batch_last += 1;
                        let batch = BatchId(self.batch_last.to_be_bytes());
                        messages.extend(update_frames(key.0, &key.1, &update, batch));
                    }
                    Some(Mail::Recheck) => rechecks.push(key.clone()),
                    Some(Mail::Rejoin(why)) => {
                        out.push((key.clone(), why));
                        break;
                    }
                }
            }
        }
        self.send(messages).await?;
        for (key, why) in out {
            self.put_out(&key, RoomErrorCode::RejoinSuggested, why).await?;
        }
        if !rechecks.is_empty() {
            self.recheck(|key| rechecks.contains(key)).boxed().await?;
        }
        if more {
            self.bell.notify_one();
        }
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), Ending> {
        let now = self.state.clock.monotonic();
        for BatchKey { crdt, room, batch } in self.assemblies.give_up(now) {
            self.answer(&(crdt, room), batch, AckStatus::FragmentTimeout).await?;
        }
        for key in std::mem::take(&mut self.owed) {
            let why = "send what was refused";
            self.put_out(&key, RoomErrorCode::RejoinSuggested, why).await?;
        }
        let wall = self.state.clock.now();
        let ended = |member: &Member| member.access.until.is_some_and(|until| until <= wall);
        let ended: Vec<RoomKey> = self
            .rooms
            .iter()
            .filter(|(_, member)| ended(member))
            .map(|(key, _)| key.clone())
            .collect();
        if ended.is_empty() {
            return Ok(());
        }
        self.recheck(|key| ended.contains(key)).await
    }

    /// Whether the client may stay where it is. A database that cannot be asked is an outage and takes
    /// nothing away from anybody.
    async fn recheck(&mut self, which: impl Fn(&RoomKey) -> bool) -> Result<(), Ending> {
        let keys: Vec<RoomKey> = self.rooms.keys().filter(|key| which(key)).cloned().collect();
        for key in keys {
            let Some(member) = self.rooms.get(&key) else { continue };
            let (project, access) = (member.membership.project().clone(), member.access);
            let credential = member.credential.clone();
            match self.state.rooms.standing(&project, access, &credential).await {
                Ok(Standing::Holds(access)) => {
                    if let Some(member) = self.rooms.get_mut(&key) {
                        member.access = access;
                    }
                }
                Ok(Standing::Expired) => {
                    let why = "the token has expired";
                    self.put_out(&key, RoomErrorCode::RejoinSuggested, why).await?;
                }
                Ok(Standing::Revoked) => {
                    let why = "the token was revoked";
                    self.put_out(&key, RoomErrorCode::Evicted, why).await?;
                }
                Err(error) => tracing::debug!(%error, "rights cannot be looked at now"),
            }
        }
        Ok(())
    }

    async fn put_out(
        &mut self,
        key: &RoomKey,
        code: RoomErrorCode,
        why: &str,
    ) -> Result<(), Ending> {
        if self.rooms.contains_key(key) {
            self.leave(key);
            if code == RoomErrorCode::RejoinSuggested {
                self.await_rejoin(key);
            }
            self.send(vec![frames::out(key, code, why)]).await?;
        }
        Ok(())
    }

    fn leave(&mut self, key: &RoomKey) {
        self.assemblies.forget(key.0, &key.1);
        self.owed.remove(key);
        self.rooms.remove(key);
    }

    fn await_rejoin(&mut self, key: &RoomKey) {
        // Whoever is told so often and never comes back is told the plain truth.
        if self.rejoining.len() >= self.limits().rooms_max {
            self.rejoining.clear();
        }
        self.rejoining.insert(key.clone());
    }

    async fn send(&mut self, messages: Vec<Bytes>) -> Result<(), Ending> {
        if messages.is_empty() {
            return Ok(());
        }
        self.socket.send_binary(messages).await?;
        Ok(())
    }

    fn next_batch(&mut self) -> BatchId {
        self.batch_last += 1;
        BatchId(self.batch_last.to_be_bytes())
    }

    fn limits(&self) -> &RoomSocketLimits {
        &self.state.room_sockets
    }
}

fn status_of(error: &WriteError) -> AckStatus {
    match error {
        WriteError::Invalid(_) => AckStatus::InvalidUpdate,
        WriteError::TooLarge => AckStatus::PayloadTooLarge,
        // The client is told to join again, and then sends what is missing.
        WriteError::Rejoin | WriteError::Store(_) => AckStatus::App,
    }
}

fn word_of(status: AckStatus) -> Option<&'static str> {
    match status {
        AckStatus::Ok => None,
        AckStatus::Unknown => Some("unknown"),
        AckStatus::PermissionDenied => Some("permission_denied"),
        AckStatus::InvalidUpdate => Some("invalid_update"),
        AckStatus::PayloadTooLarge => Some("payload_too_large"),
        AckStatus::RateLimited => Some("rate_limited"),
        AckStatus::FragmentTimeout => Some("fragment_timeout"),
        AckStatus::App => Some("not_stored"),
    }
}

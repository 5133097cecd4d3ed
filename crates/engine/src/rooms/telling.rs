//! What other nodes tell of a room, and finding what they could not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::ports::{BusError, BusMessage, BusSubscription, DocumentError, StoreError};

use super::message::{Message, News, topic};
use super::replica::{Refused, Replica};
use super::service::Rooms;
use crate::wake::rest;

/// How long to wait after the bus refused to listen.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Updates that are read at once.
const UPDATES_PER_READ_MAX: u32 = 500;
/// Rooms asked for with one statement.
const ROOMS_PER_LOOK_MAX: usize = 1000;

impl Rooms {
    /// Hears what is told of a room, for as long as its document is in memory.
    pub(super) async fn listen(
        &self,
        replica: &Arc<Replica>,
        mut subscription: Option<Box<dyn BusSubscription>>,
    ) {
        self.publish(replica, News::WhoIsHere).await;
        loop {
            let Some(listening) = &mut subscription else {
                if !rest(RETRY_AFTER, &replica.over).await {
                    return;
                }
                subscription = self.bus().subscribe(&topic(&replica.project)).await.ok();
                if subscription.is_some() {
                    self.catch_up_or_log(replica).await;
                }
                continue;
            };
            let heard = tokio::select! {
                biased;
                () = replica.over.cancelled() => return,
                heard = listening.next() => heard,
            };
            match heard {
                BusMessage::Body(body) => self.hear(replica, Message::decode(body)).await,
                BusMessage::Gap => {
                    replica.recheck();
                    self.catch_up_or_log(replica).await;
                }
                BusMessage::Closed => return,
            }
        }
    }

    async fn hear(&self, replica: &Arc<Replica>, message: Message) {
        if message.node == self.node() {
            return;
        }
        match message.news {
            News::Update { seq, payload } => {
                let is_next = seq == replica.applied().known() + 1;
                match payload {
                    _ if replica.applied().has(seq) => {}
                    Some(payload) if is_next => self.take_in(replica, seq, payload).await,
                    _ => self.catch_up_or_log(replica).await,
                }
            }
            News::Presence(update) => {
                replica.tell_presence(&update, None);
            }
            News::Kept { version, said } => {
                if let Err(error) = self.hear_kept(replica, version, said).await {
                    let project = &replica.project;
                    tracing::warn!(%project, %error, "presence that others have kept is not known yet");
                }
            }
            News::WhoIsHere => {
                if let Some(all) = replica.all_presence() {
                    self.publish(replica, News::Presence(all)).await;
                }
            }
            News::Tokens => replica.recheck(),
            News::Look => self.catch_up_or_log(replica).await,
        }
    }

    /// Takes in an update that is in the log, and tells the members.
    pub(super) async fn take_in(&self, replica: &Arc<Replica>, seq: i64, update: Bytes) {
        match replica.take_in(self.workshop(), seq, update).await {
            Ok(()) => {}
            // It was taken in when it was stored.
            Err(Refused::Invalid(_) | Refused::Lost) => {
                self.lose(replica, "the document is loaded again");
            }
        }
    }

    async fn catch_up_or_log(&self, replica: &Arc<Replica>) {
        if let Err(error) = self.catch_up(replica).await {
            let project = &replica.project;
            tracing::warn!(%project, %error, "updates of other nodes are not known yet");
        }
    }

    /// Reads what the log has and the document has not.
    pub(super) async fn catch_up(&self, replica: &Arc<Replica>) -> Result<(), DocumentError> {
        let _alone = replica.catching_up.lock().await;
        loop {
            let after = replica.applied().known();
            let project = replica.project.clone();
            let tail = self.store().room_updates(project, after, UPDATES_PER_READ_MAX).await?;
            let Some(tail) = tail else {
                self.lose(replica, "the room is gone");
                return Ok(());
            };
            if tail.snapshot_seq > after {
                return self.catch_up_by_snapshot(replica).await;
            }
            let is_last = (tail.updates.len() as u64) < u64::from(UPDATES_PER_READ_MAX);
            for update in tail.updates {
                if !replica.applied().has(update.seq) {
                    self.metrics().room_update_healed();
                    self.take_in(replica, update.seq, update.payload).await;
                }
            }
            if is_last || replica.over.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// What is missing was merged meanwhile: it is taken from the whole.
    async fn catch_up_by_snapshot(&self, replica: &Arc<Replica>) -> Result<(), DocumentError> {
        let (stored_document, stored) = self.load(&replica.project).await?;
        let version = replica.version().await;
        let work = self.workshop().run(move || stored_document.updates_since(&version));
        let Some(Ok(missing)) = work.await else {
            self.lose(replica, "the document is loaded again");
            return Ok(());
        };
        let head = stored.room.head_seq;
        if let Some(missing) = missing {
            self.metrics().room_update_healed();
            self.take_in(replica, 0, missing).await;
        }
        replica.applied().note_through(head);
        Ok(())
    }

    /// Compares what is in memory with the log, and lets go of what nobody uses. For whoever runs a
    /// node, now and then.
    pub async fn look(&self) -> Result<(), StoreError> {
        let now = self.clock().monotonic();
        let mut used = Vec::new();
        for replica in self.all_loaded() {
            if replica.end_if_idle(self.limits().unload_after, now) {
                self.forget(&replica);
            } else {
                used.push(replica);
            }
        }
        for part in used.chunks(ROOMS_PER_LOOK_MAX) {
            self.look_at_presence(part).await?;
            let projects = part.iter().map(|replica| replica.project.clone()).collect();
            let heads = self.store().room_heads(projects).await?;
            for (replica, head) in part.iter().zip(heads) {
                let (known, has_gap) = {
                    let applied = replica.applied();
                    (applied.known(), applied.has_gap())
                };
                if has_gap || head.is_none_or(|head| head > known) {
                    self.catch_up_or_log(replica).await;
                }
            }
        }
        Ok(())
    }

    /// Tells other nodes. What is lost is found by a look.
    pub(super) async fn publish(&self, replica: &Replica, news: News) {
        self.publish_to(&replica.project, news).await;
    }

    pub(super) async fn publish_to(&self, project: &roundsman_core::rooms::ProjectId, news: News) {
        let (node, topic) = (self.node(), topic(project));
        let body = Message { node, news: news.clone() }.encode();
        let sent = match (self.bus().publish(&topic, body).await, news) {
            (Err(BusError::TooLarge { .. }), News::Update { seq, .. }) => {
                let news = News::Update { seq, payload: None };
                self.bus().publish(&topic, Message { node, news }.encode()).await
            }
            (Err(BusError::TooLarge { .. }), News::Kept { version, .. }) => {
                let news = News::Kept { version, said: None };
                self.bus().publish(&topic, Message { node, news }.encode()).await
            }
            (sent, _) => sent,
        };
        if let Err(error) = sent {
            self.metrics().bus_failed();
            tracing::debug!(%project, %error, "news of a room were not told to other nodes");
        }
    }
}

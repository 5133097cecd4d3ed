//! Rooms over a real database, with a clock that stands still and clients that are documents.

mod alarm;
mod bugs;
mod kept;
mod nodes;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use roundsman_bus::{BusLimits, LocalBus};
use roundsman_core::jobs::{Job, Role};
use roundsman_core::ports::{Bus, BusError, BusSubscription, Clock, RoomStore, UserStore};
use roundsman_core::rooms::{ProjectId, Room, SNAPSHOT_KIND};
use roundsman_core::users::{NewUser, UserId};
use roundsman_documents::Document;
use roundsman_engine::jobs::Worker;
use roundsman_engine::rooms::{
    Joined, Mail, Membership, RoomLimits, Rooms, RoomsDeps, WriteError, room_specs,
};
use roundsman_engine::users::{Authenticator, AuthenticatorOptions};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::support::{World, until, until_running};

/// Everything about rooms over one fresh database, with one user who owns one room.
struct RoomWorld {
    world: World,
    rooms: Rooms,
    worker: Arc<Worker>,
    user: UserId,
}

/// A bus on which everything is lost.
struct SilentBus(LocalBus);

#[async_trait]
impl Bus for SilentBus {
    async fn publish(&self, _topic: &str, _body: Bytes) -> Result<(), BusError> {
        Ok(())
    }

    async fn subscribe(&self, topic: &str) -> Result<Box<dyn BusSubscription>, BusError> {
        self.0.subscribe(topic).await
    }

    fn connected(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "silent"
    }
}

pub(crate) fn local_bus() -> LocalBus {
    LocalBus::new(&BusLimits::default(), &CancellationToken::new())
}

impl RoomWorld {
    async fn new(backend: Backend) -> Self {
        RoomWorld::with(backend, RoomLimits::default()).await
    }

    async fn with(backend: Backend, limits: RoomLimits) -> Self {
        let world = World::on(backend, room_specs()).await;
        let rooms = rooms_of(&world, Arc::new(local_bus()), limits);
        let worker = world.worker_with(rooms.handlers(), |options| {
            options.roles = vec![Role::Worker, Role::Scheduler];
        });
        let person = NewUser {
            email: "ada@example.org".to_owned(),
            name: None,
            image_url: None,
            max_concurrent_bots: 1,
        };
        let user = world.store.find_or_create_user(person, world.clock.now()).await.unwrap().0.id;
        rooms.open(user, &project()).await.unwrap().expect("it is theirs");
        RoomWorld { world, rooms, worker, user }
    }

    /// Runs every job that is due.
    async fn run_due(&self) {
        for _ in 0..100 {
            self.worker.claim_tick().await.unwrap();
            if self.worker.running_count() == 0 {
                return;
            }
            until_running(&self.worker, 0).await;
            self.worker.settle_tick().await.unwrap();
        }
        panic!("there is always more to do");
    }

    async fn pass(&self, time: Duration) {
        self.world.clock.advance(time);
        self.run_due().await;
    }

    async fn room(&self) -> Room {
        self.world.store.room(project()).await.unwrap().expect("the room is there")
    }

    async fn said(&self) -> Value {
        self.rooms.read(&project()).await.unwrap().1
    }

    /// The alarms that are set.
    async fn alarms(&self) -> usize {
        let jobs = self.world.all_jobs(Some(SNAPSHOT_KIND)).await;
        jobs.iter().filter(|job| matches!(job, Job::Waiting(_))).count()
    }
}

pub(crate) fn rooms_of(world: &World, bus: Arc<dyn Bus>, limits: RoomLimits) -> Rooms {
    let options = AuthenticatorOptions { admin: None, cache_for: Duration::ZERO };
    Rooms::new(RoomsDeps {
        store: world.store.clone(),
        jobs: world.store.clone(),
        clock: world.clock.clone(),
        random: world.random.clone(),
        bus,
        metrics: world.metrics.clone(),
        authenticator: Authenticator::new(world.store.clone(), world.clock.clone(), options),
        limits,
    })
}

fn project() -> ProjectId {
    ProjectId::new("storyboard").unwrap()
}

/// A client: a document of its own, and its place in the room.
pub(crate) struct Client {
    rooms: Rooms,
    pub(crate) document: Document,
    pub(crate) membership: Membership,
}

impl Client {
    pub(crate) async fn join(rooms: &Rooms, peer: u64) -> Client {
        Client::rejoin(rooms, Document::new(peer)).await
    }

    /// Joins with what the client has, and takes what it lacks.
    pub(crate) async fn rejoin(rooms: &Rooms, mut document: Document) -> Client {
        let bell = Arc::new(Notify::new());
        let joined = rooms.join(&project(), document.version().into(), &bell).await.unwrap();
        let Joined { membership, version, missing } = joined;
        if let Some(missing) = missing {
            document.import(&missing).unwrap();
        }
        let mut client = Client { rooms: rooms.clone(), document, membership };
        // As the published client does: what the server has not is sent.
        if let Some(news) = client.document.updates_since(&version).unwrap() {
            client.send(news).await.unwrap();
        }
        client
    }

    async fn write(&mut self, key: &str, value: Value) -> Result<(), WriteError> {
        let update = self.document.patch(&json!({"nodes": {key: value}})).unwrap().unwrap();
        self.send(update).await
    }

    async fn send(&mut self, update: Bytes) -> Result<(), WriteError> {
        let pending = self.rooms.take(&self.membership, vec![update]).await?;
        self.rooms.store_pending(pending).await
    }

    /// Takes what has come, up to what is no update.
    fn hear(&mut self) -> Option<Mail> {
        while let Some(mail) = self.membership.mailbox().take() {
            match mail {
                Mail::Update(update) => {
                    self.document.import(&update).unwrap();
                }
                other => return Some(other),
            }
        }
        None
    }

    fn nodes(&self) -> Value {
        self.document.to_json()["nodes"].clone()
    }

    /// Waits until the document says this.
    async fn sees(&mut self, nodes: &Value) {
        until(&format!("{nodes}"), || {
            self.hear();
            self.nodes() == *nodes
        })
        .await;
    }
}

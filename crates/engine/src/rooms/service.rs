//! The service: what the edge, the jobs and other systems call.

use std::sync::Arc;

use roundsman_core::ports::{
    AppendAnswer, Bus, Clock, JobStore, OpenRoomAnswer, Random, RoomStore, Scope, StoreError,
};
use roundsman_core::rooms::{NewUpdate, ProjectId, Room};
use roundsman_core::users::UserId;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use super::limits::RoomLimits;
use super::names::Names;
use super::registry::Registry;
use super::workshop::Workshop;
use super::write::document_error;
use super::writers::Writers;
use crate::Error;
use crate::jobs::Batcher;
use crate::metrics::Metrics;
use crate::users::Authenticator;

/// Updates in one transaction.
const BATCH_UPDATES_MAX: usize = 500;

/// What rooms are made of.
#[derive(Clone)]
pub struct RoomsDeps {
    pub store: Arc<dyn RoomStore>,
    pub jobs: Arc<dyn JobStore>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub bus: Arc<dyn Bus>,
    pub metrics: Metrics,
    pub authenticator: Authenticator,
    pub limits: RoomLimits,
}

/// All rooms of a node. Cheap to clone.
#[derive(Clone)]
pub struct Rooms {
    inner: Arc<Inner>,
}

struct Inner {
    deps: RoomsDeps,
    /// Tells our own messages from those of others.
    node: u64,
    workshop: Workshop,
    registry: Registry,
    appends: Batcher<NewUpdate, AppendAnswer>,
    writers: Writers,
    names: Names,
    /// Not the process's tracker: these tasks live as long as a document is in memory.
    attendants: TaskTracker,
}

impl Rooms {
    pub fn new(deps: RoomsDeps) -> Self {
        let (store, clock) = (deps.store.clone(), deps.clock.clone());
        // Not the process's tracker: it lives as long as somebody can still call.
        let appends =
            Batcher::start_up_to(BATCH_UPDATES_MAX, &TaskTracker::new(), move |updates| {
                let (store, clock) = (store.clone(), clock.clone());
                async move { store.append_updates(updates, clock.now()).await }
            });
        let mut node = [0u8; 8];
        deps.random.fill(&mut node);
        Rooms {
            inner: Arc::new(Inner {
                node: u64::from_be_bytes(node),
                workshop: Workshop::new(deps.limits.workers_max),
                registry: Registry::default(),
                writers: Writers::default(),
                names: Names::default(),
                appends,
                attendants: TaskTracker::new(),
                deps,
            }),
        }
    }

    /// The room of a project, made if nobody has named the project before. `None` if it is somebody
    /// else's.
    pub async fn open(&self, user: UserId, project: &ProjectId) -> Result<Option<Room>, Error> {
        let now = self.clock().now();
        match self.store().open_room(user, project.clone(), now).await? {
            OpenRoomAnswer::Open { room, .. } => Ok(Some(room)),
            OpenRoomAnswer::Foreign => Ok(None),
            OpenRoomAnswer::NoSuchUser => Err(Error::NotFound { what: "user" }),
        }
    }

    pub async fn room(&self, project: &ProjectId) -> Result<Option<Room>, StoreError> {
        self.store().room(project.clone()).await
    }

    pub async fn rooms(
        &self,
        scope: Scope,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<Room>, StoreError> {
        self.store().rooms(scope, after, rows_max).await
    }

    /// What the document of a room says, and how far its log is.
    pub async fn read(&self, project: &ProjectId) -> Result<(Room, Value), Error> {
        let (document, stored) = self.load(project).await.map_err(document_error)?;
        let said = self.workshop().run(move || document.to_json()).await;
        let said =
            said.ok_or_else(|| StoreError::Failed("reading the document panicked".into()))?;
        Ok((stored.room, said))
    }

    /// The whole document with its history.
    pub async fn export(&self, project: &ProjectId) -> Result<bytes::Bytes, Error> {
        let (document, _) = self.load(project).await.map_err(document_error)?;
        let bytes = self.workshop().run(move || document.snapshot()).await;
        bytes.ok_or_else(|| StoreError::Failed("writing the document out panicked".into()).into())
    }

    /// Deletes what is no longer needed; for whoever tidies.
    pub async fn prune(&self, rows_max: u32) -> Result<u64, StoreError> {
        let versions_max = self.limits().versions_per_room_max;
        self.store().prune_rooms(self.clock().now(), versions_max, rows_max).await
    }

    pub(super) async fn append(
        &self,
        updates: Vec<NewUpdate>,
    ) -> Result<Vec<AppendAnswer>, StoreError> {
        if updates.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.appends.submit(updates).await
    }

    /// A name that nobody else writes under.
    pub(super) fn draw_peer(&self) -> u64 {
        let mut peer = [0u8; 8];
        self.inner.deps.random.fill(&mut peer);
        u64::from_be_bytes(peer)
    }

    pub(super) fn store(&self) -> &dyn RoomStore {
        self.inner.deps.store.as_ref()
    }

    pub(super) fn jobs(&self) -> &dyn JobStore {
        self.inner.deps.jobs.as_ref()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.inner.deps.clock.as_ref()
    }

    pub(super) fn random(&self) -> &dyn Random {
        self.inner.deps.random.as_ref()
    }

    pub(super) fn bus(&self) -> &dyn Bus {
        self.inner.deps.bus.as_ref()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.inner.deps.metrics
    }

    pub(super) fn authenticator(&self) -> &Authenticator {
        &self.inner.deps.authenticator
    }

    pub fn limits(&self) -> &RoomLimits {
        &self.inner.deps.limits
    }

    pub(super) fn node(&self) -> u64 {
        self.inner.node
    }

    pub(super) fn workshop(&self) -> &Workshop {
        &self.inner.workshop
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    pub(super) fn writers(&self) -> &Writers {
        &self.inner.writers
    }

    pub(super) fn names(&self) -> &Names {
        &self.inner.names
    }

    pub(super) fn attendants(&self) -> &TaskTracker {
        &self.inner.attendants
    }
}

impl std::fmt::Debug for Rooms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rooms").field("loaded", &self.all_loaded().len()).finish_non_exhaustive()
    }
}

//! Rooms of this node: their documents, and the jobs that merge their logs.

use std::sync::Arc;

use roundsman_engine::jobs::Handler;
use roundsman_engine::rooms::{Rooms, RoomsDeps};
use roundsman_engine::users::Authenticator;

use super::bots::Parts;

/// The service for the edge, and the handlers for the worker.
pub(super) struct NodeRooms {
    pub(super) rooms: Rooms,
    pub(super) handlers: Vec<Arc<dyn Handler>>,
}

impl NodeRooms {
    pub(super) fn build(parts: &Parts<'_>, authenticator: &Authenticator) -> NodeRooms {
        let rooms = Rooms::new(RoomsDeps {
            store: parts.store.clone(),
            jobs: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            bus: parts.bus.clone(),
            metrics: parts.metrics.clone(),
            authenticator: authenticator.clone(),
            limits: parts.config.rooms.limits,
        });
        let handlers = rooms.handlers();
        NodeRooms { rooms, handlers }
    }
}

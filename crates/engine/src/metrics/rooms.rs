//! What is counted about rooms.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use roundsman_core::rooms::UpdateOrigin;

use super::Metrics;

#[derive(Default)]
pub(super) struct RoomMetrics {
    loaded: Gauge,
    members: Gauge,
    loads: Counter,
    updates: Family<OriginLabel, Counter>,
    refused: Family<ReasonLabel, Counter>,
    snapshots: Counter,
    healed: Counter,
    lost: Counter,
    unreadable: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabel {
    origin: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

impl RoomMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("rooms_loaded", "Documents in memory", self.loaded.clone());
        r.register("rooms_members", "Connections that follow a room", self.members.clone());
        r.register("rooms_loads", "Documents read into memory", self.loads.clone());
        r.register("rooms_updates", "Updates stored, by origin", self.updates.clone());
        r.register("rooms_updates_refused", "Updates refused, by reason", self.refused.clone());
        r.register("rooms_snapshots", "Logs merged into snapshots", self.snapshots.clone());
        let healed = self.healed.clone();
        r.register("rooms_updates_healed", "Updates found in the log and not on the bus", healed);
        let lost = self.lost.clone();
        r.register("rooms_replicas_dropped", "Documents dropped for they may differ", lost);
        let unreadable = self.unreadable.clone();
        r.register("rooms_unreadable", "Documents that could not be read", unreadable);
    }
}

impl Metrics {
    pub fn room_loaded(&self) {
        self.inner.rooms.loads.inc();
        self.inner.rooms.loaded.inc();
    }

    pub fn room_unloaded(&self) {
        self.inner.rooms.loaded.dec();
    }

    pub fn room_member_added(&self) {
        self.inner.rooms.members.inc();
    }

    pub fn room_member_removed(&self) {
        self.inner.rooms.members.dec();
    }

    pub fn room_update_stored(&self, origin: UpdateOrigin) {
        self.inner.rooms.updates.get_or_create(&OriginLabel { origin: origin.as_str() }).inc();
    }

    /// An update was refused: the reason is a word of the protocol.
    pub fn room_update_refused(&self, reason: &'static str) {
        self.inner.rooms.refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub fn room_compacted(&self) {
        self.inner.rooms.snapshots.inc();
    }

    pub fn room_update_healed(&self) {
        self.inner.rooms.healed.inc();
    }

    pub fn room_lost(&self) {
        self.inner.rooms.lost.inc();
    }

    pub fn room_unreadable(&self) {
        self.inner.rooms.unreadable.inc();
    }
}

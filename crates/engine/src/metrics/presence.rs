//! What is counted about presence.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use roundsman_core::ports::PresenceCounts;
use roundsman_core::presence::LookTally;

use super::Metrics;

#[derive(Default)]
pub(super) struct PresenceMetrics {
    events: Family<OutcomeLabel, Counter>,
    unknown_rooms: Counter,
    rooms_buffered: Gauge,
    looks: Family<OutcomeLabel, Counter>,
    stale_looks: Counter,
    changes: Family<ChangeLabel, Counter>,
    flagged: Counter,
    alerts: Counter,
    domain_looks: Family<OutcomeLabel, Counter>,
    differing: Counter,
    ended: Family<ReasonLabel, Counter>,
    subscription: Family<StateLabel, Counter>,
    renewals: Counter,
    open: Gauge,
    clients: Gauge,
    failing: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeLabel {
    change: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

impl PresenceMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("presence_events", "Events of the provider", self.events.clone());
        let unknown = self.unknown_rooms.clone();
        r.register("presence_unknown_room_events", "Events of rooms of others", unknown);
        let buffered = self.rooms_buffered.clone();
        r.register("presence_rooms_buffered", "Rooms whose events wait", buffered);
        r.register("presence_looks", "Looks at rooms, by outcome", self.looks.clone());
        r.register("presence_stale_looks", "Looks that came too late", self.stale_looks.clone());
        r.register("presence_changes", "What looks have changed", self.changes.clone());
        r.register("presence_flagged", "Looks in which many vanished", self.flagged.clone());
        r.register("presence_alerts", "Rooms that failed repeatedly", self.alerts.clone());
        r.register("presence_domain_looks", "Looks at all rooms", self.domain_looks.clone());
        r.register("presence_differing", "Meetings that differed", self.differing.clone());
        r.register("presence_ended", "Meetings that ended, by reason", self.ended.clone());
        let subscription = self.subscription.clone();
        r.register("presence_subscription", "How the subscription was found", subscription);
        let renewals = self.renewals.clone();
        r.register("presence_subscription_renewals", "Subscriptions renewed", renewals);
        r.register("presence_open_meetings", "Meetings that are open", self.open.clone());
        r.register("presence_clients", "People in meetings", self.clients.clone());
        let failing = self.failing.clone();
        r.register("presence_failing_meetings", "Meetings whose last look failed", failing);
    }
}

impl Metrics {
    /// The provider sent an event, and what became of it.
    pub fn presence_event(&self, outcome: &'static str) {
        self.inner.presence.events.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// So many events were about a room in which there is no meeting of ours.
    pub fn presence_unknown_room(&self, events: usize) {
        self.inner.presence.unknown_rooms.inc_by(events as u64);
    }

    pub fn presence_rooms_buffered(&self, rooms: usize) {
        self.inner.presence.rooms_buffered.set(gauge_value(rooms as u64));
    }

    /// A room was looked at, and what came of it.
    pub fn presence_looked(&self, outcome: &'static str) {
        self.inner.presence.looks.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// A look came after another was written, or after its lease was lost.
    pub fn presence_stale_look(&self) {
        self.inner.presence.stale_looks.inc();
    }

    /// What a look, or the end of a meeting, has changed.
    pub fn presence_changed(&self, tally: &LookTally) {
        let presence = &self.inner.presence;
        let LookTally { joined, left, reopened, visits, vanished, healed, ended } = *tally;
        let changes = [
            ("joined", joined),
            ("left", left),
            ("reopened", reopened),
            ("visit", visits),
            ("vanished", vanished),
            ("healed", u32::from(healed)),
        ];
        for (change, count) in changes.into_iter().filter(|(_, count)| *count > 0) {
            let label = ChangeLabel { change };
            presence.changes.get_or_create(&label).inc_by(u64::from(count));
        }
        if let Some(reason) = ended {
            presence.ended.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc();
        }
    }

    /// Many vanished in one look.
    pub fn presence_flagged(&self) {
        self.inner.presence.flagged.inc();
    }

    /// A room could not be looked at several times in a row.
    pub fn presence_alert(&self) {
        self.inner.presence.alerts.inc();
    }

    /// All rooms were looked at at once, or could not be.
    pub fn presence_domain_look(&self, outcome: &'static str) {
        self.inner.presence.domain_looks.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// So many meetings were not as the provider says.
    pub fn presence_differing(&self, meetings: usize) {
        self.inner.presence.differing.inc_by(meetings as u64);
    }

    /// The subscription to the provider's events was looked at.
    pub fn presence_subscription(&self, state: &'static str) {
        self.inner.presence.subscription.get_or_create(&StateLabel { state }).inc();
    }

    pub fn presence_subscription_renewed(&self) {
        self.inner.presence.renewals.inc();
    }

    /// Replaces the gauges by what the database says now.
    pub fn presence_counts(&self, counts: &PresenceCounts) {
        let presence = &self.inner.presence;
        presence.open.set(gauge_value(counts.open));
        presence.clients.set(gauge_value(counts.clients));
        presence.failing.set(gauge_value(counts.failing));
    }
}

fn gauge_value(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

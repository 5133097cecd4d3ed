//! Gates: what a kind asks for beyond being run. A kind without a gate is claimed without a look at any of this.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bucket::Rate;
use super::share::share_names;
use super::{KindName, Lane};
use crate::Timestamp;
use crate::limits::{TENANT_WEIGHTS_MAX, WEIGHT_MAX};
use crate::users::UserId;

/// What a gate is for: a kind, whoever's jobs they are, or one user's jobs of a kind. It is spelled like
/// the lane or the kind it is for; for a built-in kind the two are one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateName(String);

impl GateName {
    /// All jobs of a kind.
    pub fn of_kind(kind: &KindName) -> Self {
        GateName(kind.as_str().to_owned())
    }

    /// The jobs that wait in a lane and in those of its tenants.
    pub fn of_lane(lane: &Lane) -> Self {
        GateName(lane.base().as_str().to_owned())
    }

    pub fn from_stored(text: String) -> Self {
        GateName(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn kind(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, kind)| kind)
    }

    /// The user for whose jobs alone it is.
    pub fn user(&self) -> Option<UserId> {
        let (user, _) = self.0.split_once('/')?;
        user.parse().ok().map(UserId::new)
    }

    /// Whether it is for one of Roundsman's own kinds, whose jobs share a lane whoever's they are.
    pub fn is_of_built_in_kind(&self) -> bool {
        KindName::new(self.kind()).is_ok_and(|kind| kind.is_reserved())
    }

    /// Whether the jobs of a lane pass through it.
    pub fn covers(&self, lane: &Lane) -> bool {
        self.0 == lane.base().as_str() || self.0 == lane.kind()
    }

    /// Who counts as one tenant here: a user, where the gate is for the jobs of all; otherwise whom the
    /// job names. Jobs that name nobody are one tenant together.
    pub fn tenant_of(&self, lane: &Lane) -> String {
        match (self.user(), lane.user()) {
            (None, Some(user)) => user.get().to_string(),
            _ => lane.tenant().map(|tenant| tenant.as_str().to_owned()).unwrap_or_default(),
        }
    }
}

/// How much passes through a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateLimits {
    /// Jobs running at once, on all nodes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Jobs of one tenant running at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// For each tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_rate: Option<Rate>,
    /// How many jobs a tenant gets for one of others; one, if it is not listed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

/// Why limits cannot be set: the field and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidLimits {
    pub field: &'static str,
    pub reason: String,
}

impl GateLimits {
    /// Everything that is wrong with them.
    pub fn check(&self) -> Vec<InvalidLimits> {
        let mut problems = Vec::new();
        let mut problem = |field, reason: String| problems.push(InvalidLimits { field, reason });
        for (field, limit) in
            [("concurrency", self.concurrency), ("tenant_concurrency", self.tenant_concurrency)]
        {
            if limit == Some(0) {
                problem(field, "must be at least 1; to let nothing run, pause the kind".to_owned());
            }
        }
        for (field, rate) in [("rate", self.rate), ("tenant_rate", self.tenant_rate)] {
            let Some(rate) = rate else { continue };
            if !(1..=Rate::COUNT_MAX).contains(&rate.count) {
                problem(field, format!("count must be from 1 to {}", Rate::COUNT_MAX));
            }
            if !(1..=Rate::PER_SECS_MAX).contains(&rate.per_secs) {
                problem(field, format!("per_secs must be from 1 to {}", Rate::PER_SECS_MAX));
            }
            if rate.burst == 0 || rate.burst > rate.count {
                problem(field, "burst must be from 1 to count".to_owned());
            }
        }
        if self.weights.len() > TENANT_WEIGHTS_MAX {
            problem("weights", format!("must be at most {TENANT_WEIGHTS_MAX}"));
        }
        if self.weights.values().any(|weight| !(1..=WEIGHT_MAX).contains(weight)) {
            problem("weights", format!("must be from 1 to {WEIGHT_MAX} each"));
        }
        problems
    }

    pub fn is_empty(&self) -> bool {
        *self == GateLimits::default()
    }

    /// Whether it matters to them what runs already.
    pub fn concern_running(&self) -> bool {
        self.concurrency.is_some() || self.tenant_concurrency.is_some()
    }
}

/// A gate as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub name: GateName,
    /// Nothing passes since then.
    pub paused_at: Option<Timestamp>,
    pub limits: GateLimits,
    /// Jobs of named tenants have been enqueued: it cannot be taken away while they may exist.
    pub has_tenants: bool,
    /// The lane where the next claim begins to look.
    pub turn: Option<Lane>,
}

impl Gate {
    pub fn new(name: GateName) -> Self {
        Gate {
            name,
            paused_at: None,
            limits: GateLimits::default(),
            has_tenants: false,
            turn: None,
        }
    }

    /// The gate after a change. Pausing what is paused keeps the time at which it began.
    #[must_use]
    pub fn changed(mut self, change: GateChange, now: Timestamp) -> Self {
        if let Some(limits) = change.limits {
            self.limits = limits;
        }
        match change.paused {
            Some(true) => self.paused_at = self.paused_at.or(Some(now)),
            Some(false) => self.paused_at = None,
            None => {}
        }
        self
    }

    /// Whether the kind asks for nothing any more, and can be claimed without a gate again.
    pub fn is_needless(&self) -> bool {
        self.paused_at.is_none() && self.limits.is_empty() && !self.has_tenants
    }
}

/// What to change of a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateChange {
    pub paused: Option<bool>,
    pub limits: Option<GateLimits>,
}

/// Names a bucket: of a gate as a whole (an empty tenant, which no tenant is called, would be that
/// of jobs without one, so the second part says which), or of a tenant at it. What tenants were given
/// is kept beside them.
pub type BucketName = (GateName, String);

/// Begins the second part of the name of a tenant's bucket.
const TENANT_MARK: char = '=';

/// The gates that the jobs of a lane pass through, by name: that of the kind, that of the lane.
pub fn gates_of(lane: &Lane) -> Vec<GateName> {
    let mut names = vec![GateName(lane.kind().to_owned()), GateName::of_lane(lane)];
    names.dedup();
    names
}

/// The buckets from which a job in this lane takes a token at a gate, with their rates.
pub(super) fn buckets_of(gate: &Gate, lane: &Lane) -> Vec<(BucketName, Rate)> {
    let whole = gate.limits.rate.map(|rate| ((gate.name.clone(), String::new()), rate));
    let tenant = gate.limits.tenant_rate.map(|rate| {
        let tenant = format!("{TENANT_MARK}{}", gate.name.tenant_of(lane));
        ((gate.name.clone(), tenant), rate)
    });
    whole.into_iter().chain(tenant).collect()
}

/// Everything that a claim has to know before it lets jobs of this lane through.
pub fn bucket_names(gates: &[Gate], lane: &Lane) -> Vec<BucketName> {
    let of_gate = |gate: &Gate| {
        let rates = buckets_of(gate, lane).into_iter().map(|(name, _)| name);
        rates.chain(share_names(gate, lane)).collect::<Vec<_>>()
    };
    gates.iter().flat_map(of_gate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_limits_are_named() {
        let rate = Rate { count: 0, per_secs: 0, burst: 9 };
        let limits = GateLimits {
            concurrency: Some(0),
            tenant_concurrency: Some(0),
            rate: Some(rate),
            tenant_rate: None,
            weights: BTreeMap::from([("a".to_owned(), 0)]),
        };
        let fields: Vec<_> = limits.check().into_iter().map(|problem| problem.field).collect();
        assert_eq!(
            fields,
            ["concurrency", "tenant_concurrency", "rate", "rate", "rate", "weights"]
        );
        assert!(GateLimits::default().check().is_empty());
    }

    #[test]
    fn a_gate_knows_whose_jobs_pass_through_it() {
        let own = KindName::new("render").unwrap();
        let of_ada = Lane::of(UserId::new(1), &own);
        let of_customer = of_ada.clone().of_tenant(super::super::Tenant::new("c/7").ok().as_ref());
        let (all, adas) = (GateName::of_kind(&own), GateName::of_lane(&of_customer));
        assert_eq!(gates_of(&of_customer), [all.clone(), adas.clone()]);
        assert_eq!(
            (all.tenant_of(&of_customer), adas.tenant_of(&of_customer)),
            ("1".into(), "c/7".into())
        );
        assert_eq!((adas.user(), adas.kind(), all.user()), (Some(UserId::new(1)), "render", None));
        assert!(all.covers(&of_ada) && adas.covers(&of_customer));
        assert!(!adas.covers(&Lane::of(UserId::new(2), &own)));
        let shared = Lane::of(UserId::new(1), &KindName::new("presence.poll").unwrap());
        assert_eq!(gates_of(&shared).len(), 1);
    }
}

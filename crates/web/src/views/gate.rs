//! Limits and pauses of kinds.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Gate, GateLimits, Rate};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::page_rows;
use crate::problem::Problem;

/// How much of a kind may run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = KindLimits)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsBody {
    /// Jobs running at once, on all nodes together.
    #[schema(minimum = 1, example = 20)]
    concurrency: Option<u32>,
    /// Jobs of one tenant running at once.
    #[schema(minimum = 1, example = 2)]
    tenant_concurrency: Option<u32>,
    /// Jobs started in a time.
    rate: Option<RateBody>,
    /// Jobs of one tenant started in a time.
    tenant_rate: Option<RateBody>,
    /// How many jobs a tenant gets for one of the others; 1 if it is not listed.
    #[schema(example = json!({"acme": 3}))]
    weights: BTreeMap<String, u32>,
}

/// So many jobs in so much time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = Rate)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateBody {
    #[schema(minimum = 1, maximum = 1_000_000, example = 100)]
    count: u32,
    #[schema(minimum = 1, maximum = 86_400, example = 60)]
    per_secs: u32,
    /// How many of them may start at once; without it, all.
    #[schema(minimum = 1, example = 10)]
    burst: Option<u32>,
}

/// What a kind asks for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KindGate)]
pub(crate) struct GateView {
    #[schema(example = "reports.render")]
    kind: String,
    /// Whose jobs it is about; `null`: everybody's together.
    user_id: Option<i64>,
    paused: bool,
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_at: Option<Timestamp>,
    limits: LimitsBody,
}

/// A page of kinds that ask for something.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KindGateList)]
pub(crate) struct GateListView {
    kinds: Vec<GateView>,
    /// Send this as `after` for the next page; `null` after the last one.
    next_after: Option<String>,
}

/// Whose jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateQuery {
    /// For the operator: the jobs of this user alone.
    pub(crate) user_id: Option<i64>,
    /// In lists: after this name.
    pub(crate) after: Option<String>,
    /// In lists: rows in the page, 50 unless said otherwise.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

impl GateQuery {
    pub(crate) fn rows_max(&self) -> Result<u32, Problem> {
        page_rows(self.limit)
    }
}

impl From<LimitsBody> for GateLimits {
    fn from(body: LimitsBody) -> Self {
        let rate = |rate: RateBody| Rate {
            count: rate.count,
            per_secs: rate.per_secs,
            burst: rate.burst.unwrap_or(rate.count),
        };
        GateLimits {
            concurrency: body.concurrency,
            tenant_concurrency: body.tenant_concurrency,
            rate: body.rate.map(rate),
            tenant_rate: body.tenant_rate.map(rate),
            weights: body.weights,
        }
    }
}

impl From<&Gate> for GateView {
    fn from(gate: &Gate) -> Self {
        let rate = |rate: Rate| RateBody {
            count: rate.count,
            per_secs: rate.per_secs,
            burst: Some(rate.burst),
        };
        GateView {
            kind: gate.name.kind().to_owned(),
            user_id: gate.name.user().map(roundsman_core::users::UserId::get),
            paused: gate.paused_at.is_some(),
            paused_at: gate.paused_at,
            limits: LimitsBody {
                concurrency: gate.limits.concurrency,
                tenant_concurrency: gate.limits.tenant_concurrency,
                rate: gate.limits.rate.map(rate),
                tenant_rate: gate.limits.tenant_rate.map(rate),
                weights: gate.limits.weights.clone(),
            },
        }
    }
}

impl GateListView {
    pub(crate) fn new(gates: &[Gate], rows_max: u32) -> Self {
        let full = gates.len() >= rows_max as usize;
        let last = gates.last().filter(|_| full).map(|gate| gate.name.as_str().to_owned());
        GateListView { kinds: gates.iter().map(Into::into).collect(), next_after: last }
    }
}

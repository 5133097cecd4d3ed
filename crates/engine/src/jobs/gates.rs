//! Limits and pauses of kinds, as callers set and see them.

use std::time::Duration;

use roundsman_core::jobs::{Gate, GateChange, GateName, KindName, Lane};
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::users::{Authenticated, UserId};

use super::service::Jobs;
use crate::{Error, FieldError};

/// How often a worker looks at what a gate kept back: a place that becomes free on another node is
/// announced by nobody.
pub(super) const GATED_POLL_EVERY: Duration = Duration::from_secs(1);

/// Which gate a caller means.
#[derive(Debug, Clone, Default)]
pub struct GateTarget {
    pub kind: String,
    /// For the operator: of one user's jobs alone.
    pub user_id: Option<i64>,
}

impl Jobs {
    /// A kind's gate; one that asks for nothing, if there is none.
    pub async fn gate(&self, caller: &Authenticated, target: GateTarget) -> Result<Gate, Error> {
        let name = gate_name(caller, &target)?;
        let mut found = self.deps.store.gates(vec![name.clone()]).await?;
        Ok(found.pop().unwrap_or_else(|| Gate::new(name)))
    }

    /// Sets limits, or pauses and resumes.
    pub async fn change_gate(
        &self,
        caller: &Authenticated,
        target: GateTarget,
        change: GateChange,
    ) -> Result<Gate, Error> {
        let name = gate_name(caller, &target)?;
        if let Some(limits) = &change.limits {
            let problems = limits.check().into_iter();
            let problems: Vec<FieldError> =
                problems.map(|problem| FieldError::new(problem.field, problem.reason)).collect();
            if !problems.is_empty() {
                return Err(Error::Invalid(problems));
            }
        }
        let gate = self.deps.store.change_gate(name, change, self.now()).await?;
        // More may pass now than a moment ago.
        if gate.name.user().is_some() {
            let lane = Lane::from_stored(gate.name.as_str().to_owned());
            self.deps.wakes.signal([(lane, 1)]);
        } else {
            self.deps.wakes.signal_all();
        }
        Ok(gate)
    }

    /// A page of gates, by name: the operator's view of all, a user's of their own.
    pub async fn gates(
        &self,
        caller: &Authenticated,
        after: Option<String>,
        rows_max: u32,
    ) -> Result<Vec<Gate>, Error> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let mut after = after.map(GateName::from_stored);
        let Authenticated::User { user_id, .. } = caller else {
            return Ok(self.deps.store.all_gates(after, rows_max).await?);
        };
        // A user's names are together: they begin with the user's number and a slash.
        let first = format!("{}/", user_id.get());
        if after.as_ref().is_none_or(|after| after.as_str() < first.as_str()) {
            after = Some(GateName::from_stored(first));
        }
        let gates = self.deps.store.all_gates(after, rows_max).await?;
        Ok(gates.into_iter().filter(|gate| gate.name.user() == Some(*user_id)).collect())
    }
}

/// A user's word is about their own jobs; the operator's about everybody's, or one user's.
fn gate_name(caller: &Authenticated, target: &GateTarget) -> Result<GateName, Error> {
    let invalid =
        |field: &str, reason: String| Error::Invalid(vec![FieldError::new(field, reason)]);
    let kind = KindName::new(&target.kind).map_err(|e| invalid("kind", e.to_string()))?;
    let user = match caller {
        Authenticated::Admin => target.user_id.map(UserId::new),
        Authenticated::User { user_id, .. } => {
            if target.user_id.is_some_and(|wanted| wanted != user_id.get()) {
                return Err(Error::NotFound { what: "user" });
            }
            if kind.is_reserved() {
                let reason = "this kind belongs to Roundsman itself".to_owned();
                return Err(Error::Forbidden { reason });
            }
            Some(*user_id)
        }
    };
    Ok(match user {
        Some(user) => GateName::of_lane(&Lane::of(user, &kind)),
        None => GateName::of_kind(&kind),
    })
}

//! Outside generators of this node, as they are configured.

use std::sync::Arc;

use anyhow::Context;
use roundsman_core::ports::{Executor, Executors};
use roundsman_providers::egress::{EgressGuard, EgressOptions};
use roundsman_providers::executors::{ExecutorParts, HttpExecutor};

use super::bots::Parts;

/// All of them, by the types of tasks they take.
pub(super) fn build(parts: &Parts<'_>) -> anyhow::Result<Executors> {
    let options =
        EgressOptions { allow: parts.config.egress.allow.clone(), ports_denied: Vec::new() };
    let guard = EgressGuard::new(options);
    let shared = ExecutorParts { guard, clock: parts.clock.clone() };
    let mut all: Vec<Arc<dyn Executor>> = Vec::new();
    for options in parts.config.executors.options() {
        all.push(Arc::new(HttpExecutor::new(options, &shared).context("[executors]")?));
    }
    Executors::new(all).context("[executors]")
}

//! Steps of bulk operations, and failed jobs.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{FinishedState, Job, JobId, KindName};
use roundsman_core::ports::{
    BulkStore, DeleteAnswer, ListFilter, ReprioritiseAnswer, Scope, StoreError,
};

use super::Reference;

/// The conditions of a filter that are not about kind, key and state.
pub(super) fn fits(filter: &ListFilter, job: &Job) -> bool {
    let facts = job.facts();
    let key = facts.key.as_ref().map_or("", |key| key.as_str());
    let prefixed = filter.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix));
    let error = match job {
        Job::Finished(job) => match &job.state {
            FinishedState::Failed { error } => Some(error),
            _ => None,
        },
        _ => None,
    };
    let says = |text: &String| {
        error
            .is_some_and(|error| error.message.contains(text) || error.code.as_str().contains(text))
    };
    prefixed
        && filter.created_from.is_none_or(|from| facts.created_at >= from)
        && filter.created_before.is_none_or(|before| facts.created_at < before)
        && filter.error.as_ref().is_none_or(says)
}

#[async_trait]
impl BulkStore for Reference {
    async fn reprioritise(
        &self,
        scope: Scope,
        id: JobId,
        priority: i16,
        now: Timestamp,
    ) -> Result<ReprioritiseAnswer, StoreError> {
        let mut state = self.lock();
        Ok(match state.job(scope, id) {
            None => ReprioritiseAnswer::NotFound,
            Some(Job::Waiting(mut job)) => {
                job.facts.priority = priority;
                state.waiting.insert(id, job);
                ReprioritiseAnswer::Moved
            }
            Some(job) => ReprioritiseAnswer::NotWaiting(job.state(now)),
        })
    }

    async fn delete_job(&self, scope: Scope, id: JobId) -> Result<DeleteAnswer, StoreError> {
        let mut state = self.lock();
        Ok(match state.job(scope, id) {
            None => DeleteAnswer::NotFound,
            Some(Job::Finished(_)) => {
                state.finished.remove(&id);
                DeleteAnswer::Deleted
            }
            Some(job) => DeleteAnswer::NotFinished(job.state(Timestamp::MAX)),
        })
    }

    async fn dead_counts(&self) -> Result<Vec<(KindName, u64)>, StoreError> {
        let mut counts: BTreeMap<KindName, u64> = BTreeMap::new();
        for job in self.lock().finished.values() {
            if matches!(job.state, FinishedState::Failed { .. }) {
                *counts.entry(job.facts.kind.clone()).or_default() += 1;
            }
        }
        Ok(counts.into_iter().collect())
    }

    async fn prune_dead(
        &self,
        horizons: Vec<(KindName, Timestamp)>,
        others_before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        let horizons: BTreeMap<_, _> = horizons.into_iter().collect();
        let mut state = self.lock();
        let old = state.finished.values().filter(|job| {
            let before = horizons.get(&job.facts.kind).copied().unwrap_or(others_before);
            matches!(job.state, FinishedState::Failed { .. }) && job.finished_at < before
        });
        let old: Vec<JobId> = old.map(|job| job.facts.id).take(rows_max as usize).collect();
        for id in &old {
            state.finished.remove(id);
        }
        Ok(old.len() as u64)
    }
}

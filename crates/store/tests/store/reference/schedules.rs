//! Schedules.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{LeaseRef, Schedule, ScheduleChange, ScheduleId, ScheduleSpec};
use roundsman_core::limits::SCHEDULES_PER_USER_MAX;
use roundsman_core::ports::{Fired, ScheduleStore, Scope, StoreError};
use roundsman_core::users::UserId;

use super::{Reference, sees};

#[async_trait]
impl ScheduleStore for Reference {
    async fn create_schedule(
        &self,
        user: UserId,
        spec: ScheduleSpec,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError> {
        let mut state = self.lock();
        let had = state.schedules.values().filter(|one| one.user_id == user).count();
        if had >= SCHEDULES_PER_USER_MAX as usize {
            return Ok(None);
        }
        state.last_schedule += 1;
        let schedule = Schedule::new(ScheduleId::new(state.last_schedule), user, spec, now);
        state.schedules.insert(schedule.id, schedule.clone());
        state.enqueue(&self.rules, schedule.keeper(now).expect("it has a keeper"), now);
        Ok(Some(schedule))
    }

    async fn schedule(&self, scope: Scope, id: ScheduleId) -> Result<Option<Schedule>, StoreError> {
        let found = self.lock().schedules.get(&id).cloned();
        Ok(found.filter(|schedule| sees(scope, schedule.user_id)))
    }

    async fn schedules(
        &self,
        scope: Scope,
        before: Option<ScheduleId>,
        rows_max: u32,
    ) -> Result<Vec<Schedule>, StoreError> {
        let state = self.lock();
        let wanted = |one: &&Schedule| {
            sees(scope, one.user_id) && before.is_none_or(|before| one.id < before)
        };
        let found = state.schedules.values().rev().filter(wanted);
        Ok(found.take(rows_max as usize).cloned().collect())
    }

    async fn change_schedule(
        &self,
        scope: Scope,
        id: ScheduleId,
        change: ScheduleChange,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError> {
        let mut state = self.lock();
        let found = state.schedules.get(&id).filter(|one| sees(scope, one.user_id)).cloned();
        let Some(found) = found else { return Ok(None) };
        let schedule = found.changed(change, now);
        state.schedules.insert(id, schedule.clone());
        state.enqueue(&self.rules, schedule.keeper(now).expect("it has a keeper"), now);
        Ok(Some(schedule))
    }

    async fn delete_schedule(&self, scope: Scope, id: ScheduleId) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let ours = state.schedules.get(&id).is_some_and(|one| sees(scope, one.user_id));
        Ok(ours && state.schedules.remove(&id).is_some())
    }

    async fn fire_schedule(
        &self,
        id: ScheduleId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<Fired, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(Fired::LeaseLost);
        }
        let Some(schedule) = state.schedules.get(&id).cloned() else { return Ok(Fired::Gone) };
        let firing = schedule.due(now);
        let jobs: Vec<_> = firing.moments.iter().map(|at| schedule.job_at(*at)).collect();
        for job in &jobs {
            state.enqueue(&self.rules, job.clone(), now);
        }
        state.schedules.insert(id, schedule.fired(&firing));
        Ok(Fired::Done { jobs, missed: firing.missed, next_at: firing.next_at })
    }
}

//! Audits: rows whose state is looked up at their jobs.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::audits::{
    Audit, AuditId, AuditReport, AuditResult, AuditState, AuditStatus, Due, LastRun, NewAudit,
    NewRecurring, Recurring, RecurringChange, RecurringId, RequestKey, change, due, failed_event,
    first, recur_wish, run_wish,
};
use roundsman_core::jobs::{FinishedJob, Job, JobId, KindCatalog, LeaseRef, RunningJob};
use roundsman_core::ports::{
    AuditFilter, AuditStore, ChangeRecurringAnswer, CreateAuditAnswer, CreateRecurringAnswer,
    DueAnswer, Scope, StoreError,
};
use roundsman_core::users::UserId;

use super::{Reference, State, sees};

#[derive(Default)]
pub(super) struct Audited {
    last_audit: i64,
    last_recurring: i64,
    rows: BTreeMap<AuditId, Row>,
    recurring: BTreeMap<RecurringId, Recurring>,
}

struct Row {
    new: NewAudit,
    recurring_id: Option<RecurringId>,
    job_id: JobId,
    created_at: Timestamp,
    last: LastRun,
    ended: Option<FinishedJob>,
    result: Option<AuditResult>,
}

impl Audited {
    pub(super) fn found(&mut self, result: AuditResult) {
        if let Some(row) = self.rows.get_mut(&result.audit_id) {
            row.result = Some(result);
        }
    }

    fn of_job(&mut self, job: JobId) -> Option<&mut Row> {
        self.rows.values_mut().find(|row| row.job_id == job)
    }
}

impl State {
    /// A run is over.
    pub(super) fn take_running(&mut self, id: JobId) -> RunningJob {
        let job = self.running.remove(&id).expect("it is held");
        if let Some(row) = self.audited.of_job(id) {
            row.last = LastRun {
                started_at: Some(job.lease.claimed_at),
                worker: Some(job.lease.worker.as_str().to_owned()),
                heartbeat_at: Some(job.lease.heartbeat_at),
            };
        }
        job
    }

    /// A job is over.
    pub(super) fn finish_job(&mut self, rules: &KindCatalog, job: &FinishedJob) {
        if let Some(row) = self.audited.of_job(job.facts.id) {
            row.ended = Some(job.clone());
        }
        self.finished.insert(job.facts.id, job.clone());
        let row = self.audited.rows.iter().find(|(_, row)| row.job_id == job.facts.id);
        let event =
            row.and_then(|(id, row)| failed_event(*id, row.new.user_id, &row.new.website_url, job));
        if let Some(event) = event {
            self.apply(rules, event, job.finished_at);
        }
    }

    fn audit(&self, scope: Scope, id: AuditId) -> Option<Audit> {
        let row = self.audited.rows.get(&id)?;
        if !sees(scope, row.new.user_id) {
            return None;
        }
        let ended = || row.ended.clone().map(|job| Job::Finished(Box::new(job)));
        let alive = self.job(Scope::All, row.job_id).filter(|job| !matches!(job, Job::Finished(_)));
        let state = AuditState::of(&alive.or_else(ended).expect("a job or an end"), &row.last);
        let found = row.result.as_ref().map(|result| result.summary.clone());
        let summary = found.filter(|_| state.status == AuditStatus::Completed);
        Some(Audit {
            id,
            user_id: row.new.user_id,
            job_id: row.job_id,
            recurring_id: row.recurring_id,
            website_url: row.new.website_url.clone(),
            options: row.new.options,
            priority: row.new.priority,
            created_at: row.created_at,
            state,
            summary,
        })
    }

    /// Newest first.
    fn audits(&self, scope: Scope) -> impl Iterator<Item = Audit> {
        self.audited.rows.keys().rev().filter_map(move |id| self.audit(scope, *id))
    }

    fn report(&self, scope: Scope, id: AuditId) -> Option<(AuditReport, Option<Vec<u8>>)> {
        let audit = self.audit(scope, id).filter(|audit| audit.summary.is_some())?;
        let found = self.audited.rows.get(&id)?.result.clone()?;
        let report = AuditReport {
            audit,
            redirects: found.redirects,
            headers: found.headers,
            raw_data: found.raw_data,
            report: found.report,
        };
        Some((report, found.screenshot_png))
    }

    fn make(
        &mut self,
        rules: &KindCatalog,
        new: NewAudit,
        recurring_id: Option<RecurringId>,
        now: Timestamp,
    ) -> Audit {
        self.audited.last_audit += 1;
        let id = AuditId::new(self.audited.last_audit);
        let wish = run_wish(id, new.user_id, new.priority, new.attempts_max, now);
        let job_id = self.enqueue(rules, wish, now).id;
        let row = Row {
            new,
            recurring_id,
            job_id,
            created_at: now,
            last: LastRun::default(),
            ended: None,
            result: None,
        };
        self.audited.rows.insert(id, row);
        self.audit(Scope::All, id).expect("it was just made")
    }

    fn repeated(&self, user: UserId, request: &RequestKey) -> Option<CreateAuditAnswer> {
        let is_same = |row: &Row| {
            let key = row.new.request.as_ref().map(|known| &known.key);
            row.new.user_id == user && key == Some(&request.key)
        };
        let (id, row) = self.audited.rows.iter().find(|(_, row)| is_same(row))?;
        if row.new.request.as_ref() != Some(request) {
            return Some(CreateAuditAnswer::KeyReused);
        }
        self.audit(Scope::All, *id).map(|audit| CreateAuditAnswer::Replayed(Box::new(audit)))
    }

    fn set_alarm(&mut self, rules: &KindCatalog, recurring: &Recurring, now: Timestamp) {
        if let Some(next_at) = recurring.next_at {
            self.enqueue(rules, recur_wish(recurring.id, next_at), now);
        }
    }
}

#[async_trait]
impl AuditStore for Reference {
    async fn create_audit(
        &self,
        new: NewAudit,
        unfinished_max: u32,
        now: Timestamp,
    ) -> Result<CreateAuditAnswer, StoreError> {
        let mut state = self.lock();
        let request = new.request.as_ref();
        if let Some(answer) = request.and_then(|request| state.repeated(new.user_id, request)) {
            return Ok(answer);
        }
        let waits = |row: &&Row| row.new.user_id == new.user_id && row.ended.is_none();
        let unfinished = state.audited.rows.values().filter(waits).count();
        let unfinished = u32::try_from(unfinished).unwrap_or(u32::MAX);
        if unfinished >= unfinished_max {
            return Ok(CreateAuditAnswer::TooMany { unfinished });
        }
        Ok(CreateAuditAnswer::Created(Box::new(state.make(&self.rules, new, None, now))))
    }

    async fn audit(&self, scope: Scope, id: AuditId) -> Result<Option<Audit>, StoreError> {
        Ok(self.lock().audit(scope, id))
    }

    async fn audits(
        &self,
        scope: Scope,
        filter: AuditFilter,
        before: Option<AuditId>,
        rows_max: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        let is_wanted = |audit: &Audit| {
            before.is_none_or(|before| audit.id < before)
                && filter.status.is_none_or(|status| audit.state.status == status)
                && filter.website_url.as_ref().is_none_or(|url| audit.website_url == *url)
                && filter.recurring.is_none_or(|id| audit.recurring_id == Some(id))
        };
        let state = self.lock();
        Ok(state.audits(scope).filter(is_wanted).take(rows_max as usize).collect())
    }

    async fn audit_report(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<AuditReport>, StoreError> {
        Ok(self.lock().report(scope, id).map(|(report, _)| report))
    }

    async fn audit_screenshot(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().report(scope, id).and_then(|(_, png)| png))
    }

    async fn previous_audit(
        &self,
        user: UserId,
        website_url: String,
        before: AuditId,
    ) -> Result<Option<AuditReport>, StoreError> {
        let state = self.lock();
        let is_meant = |audit: &Audit| {
            audit.id < before && audit.website_url == website_url && audit.summary.is_some()
        };
        let found = state.audits(Scope::User(user)).find(is_meant);
        Ok(found.and_then(|audit| state.report(Scope::All, audit.id)).map(|(report, _)| report))
    }

    async fn prune_audits(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let mut old: Vec<(Timestamp, AuditId)> = state
            .audits(Scope::All)
            .filter_map(|audit| Some((audit.state.finished_at?, audit.id)))
            .filter(|(finished_at, _)| *finished_at < before)
            .collect();
        old.sort();
        old.truncate(rows_max as usize);
        for (_, id) in &old {
            state.audited.rows.remove(id);
        }
        Ok(old.len() as u64)
    }

    async fn create_recurring(
        &self,
        new: NewRecurring,
        recurring_max: u32,
        now: Timestamp,
    ) -> Result<CreateRecurringAnswer, StoreError> {
        let mut state = self.lock();
        let theirs = state.audited.recurring.values().filter(|known| known.user_id == new.user_id);
        let recurring = u32::try_from(theirs.count()).unwrap_or(u32::MAX);
        if recurring >= recurring_max {
            return Ok(CreateRecurringAnswer::TooMany { recurring });
        }
        state.audited.last_recurring += 1;
        let made = first(RecurringId::new(state.audited.last_recurring), new, now);
        state.audited.recurring.insert(made.id, made.clone());
        state.set_alarm(&self.rules, &made, now);
        Ok(CreateRecurringAnswer::Created(Box::new(made)))
    }

    async fn recurring(
        &self,
        scope: Scope,
        id: RecurringId,
    ) -> Result<Option<Recurring>, StoreError> {
        let state = self.lock();
        Ok(state.audited.recurring.get(&id).filter(|known| sees(scope, known.user_id)).cloned())
    }

    async fn recurrings(
        &self,
        scope: Scope,
        before: Option<RecurringId>,
        rows_max: u32,
    ) -> Result<Vec<Recurring>, StoreError> {
        let state = self.lock();
        let known = state.audited.recurring.values().rev();
        let known = known.filter(|known| before.is_none_or(|before| known.id < before));
        let known = known.filter(|known| sees(scope, known.user_id));
        Ok(known.take(rows_max as usize).cloned().collect())
    }

    async fn change_recurring(
        &self,
        scope: Scope,
        id: RecurringId,
        wanted: RecurringChange,
        now: Timestamp,
    ) -> Result<ChangeRecurringAnswer, StoreError> {
        let mut state = self.lock();
        let known = state.audited.recurring.get(&id).filter(|known| sees(scope, known.user_id));
        let Some(known) = known.cloned() else { return Ok(ChangeRecurringAnswer::NotFound) };
        let changed = change(known, &wanted, now);
        state.audited.recurring.insert(id, changed.clone());
        state.set_alarm(&self.rules, &changed, now);
        Ok(ChangeRecurringAnswer::Changed(Box::new(changed)))
    }

    async fn delete_recurring(&self, scope: Scope, id: RecurringId) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let known = state.audited.recurring.get(&id);
        let is_theirs = known.is_some_and(|known| sees(scope, known.user_id));
        Ok(is_theirs && state.audited.recurring.remove(&id).is_some())
    }

    async fn start_due_audit(
        &self,
        id: RecurringId,
        priority: i16,
        attempts_max: u32,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<DueAnswer, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(DueAnswer::LeaseLost);
        }
        let Some(known) = state.audited.recurring.get(&id).cloned() else {
            return Ok(DueAnswer::Over);
        };
        let last = known.last_audit_id.and_then(|last| state.audit(Scope::All, last));
        let is_last_unfinished = last.is_some_and(|audit| !audit.state.status.is_final());
        match due(known, is_last_unfinished, now) {
            Due::Paused => Ok(DueAnswer::Over),
            Due::NotBefore(at) => Ok(DueAnswer::NotBefore(at)),
            Due::Skip(changed) => {
                let next_at = changed.next_at.expect("it goes on");
                state.audited.recurring.insert(id, changed);
                Ok(DueAnswer::Skipped { next_at })
            }
            Due::Start(changed) => {
                let new = NewAudit {
                    user_id: changed.user_id,
                    website_url: changed.website_url.clone(),
                    options: changed.options,
                    priority,
                    attempts_max,
                    request: None,
                };
                let audit = state.make(&self.rules, new, Some(id), now);
                let next_at = changed.next_at.expect("it goes on");
                let changed = Recurring { last_audit_id: Some(audit.id), ..changed };
                state.audited.recurring.insert(id, changed);
                Ok(DueAnswer::Started { audit: Box::new(audit), next_at })
            }
        }
    }
}

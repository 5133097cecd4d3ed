//! The audit service: what users ask for.
//!
//! Invariant: every method takes whose audits may be seen, and touches only those.

use std::sync::Arc;

use roundsman_audit::{
    Category, HistoryPoint, ReportContext, history_svg, report_html, report_pdf,
};
use roundsman_core::audits::{
    Audit, AuditId, AuditOptions, AuditReport, AuditStatus, InvalidSchedule, NewAudit,
    NewRecurring, RECUR_KIND, RUN_KIND, Recurring, RecurringChange, RecurringId, RequestKey,
    Schedule, normal_url,
};
use roundsman_core::jobs::JobState;
use roundsman_core::limits::{PAGE_ROWS_MAX, PRIORITY_MAX};
use roundsman_core::ports::{
    AuditFilter, CancelAnswer, ChangeRecurringAnswer, CreateAuditAnswer, CreateRecurringAnswer,
    Scope, Store,
};
use roundsman_core::users::UserId;
use roundsman_core::webhooks::DELIVER_KIND;
use sha2::{Digest, Sha256};

use super::found::StoredReport;
use super::work::AuditWork;
use crate::{Error, FieldError};

/// A plot shows at most so many audits.
const HISTORY_ROWS_MAX: u32 = 100;
const REQUEST_KEY_CHARS_MAX: usize = 255;

/// Takes wishes for audits, shows and stops them. Cheap to clone.
#[derive(Clone)]
pub struct Audits {
    work: AuditWork,
}

/// A wish for an audit.
#[derive(Debug, Clone)]
pub struct AuditRequest {
    pub url: String,
    pub priority: i16,
    pub options: WantedOptions,
    /// A client's promise that repeating a request means the same request, and the request's body.
    pub idempotency: Option<(String, bytes::Bytes)>,
}

/// What is asked for; the operator's settings say the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WantedOptions {
    pub browser: Option<bool>,
    pub obey_robots: Option<bool>,
}

/// What asking came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateReply {
    pub audit: Audit,
    /// The same request was carried out before.
    pub replayed: bool,
}

/// A wish for an audit that recurs.
#[derive(Debug, Clone)]
pub struct RecurringRequest {
    pub url: String,
    pub schedule: String,
    /// By whose clock, if it goes by the calendar: a name such as `Europe/Berlin`.
    pub time_zone: Option<String>,
    pub priority: i16,
    pub options: WantedOptions,
}

/// What is to change of an audit that recurs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecurringWish {
    pub is_paused: Option<bool>,
    pub schedule: Option<String>,
    pub time_zone: Option<String>,
}

/// As what a report is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    Html,
    Pdf,
}

impl Audits {
    pub fn new(work: &AuditWork) -> Self {
        Audits { work: work.clone() }
    }

    /// Stores an audit with its job, and wakes whoever can make it.
    pub async fn create(&self, user: UserId, wish: AuditRequest) -> Result<CreateReply, Error> {
        let settings = &self.work.settings;
        let website_url = self.check(&wish.url, wish.priority)?;
        let request = wish.idempotency.map(request_key).transpose()?;
        let priority = self.work.priority(user, &website_url, wish.priority, false).await?;
        let new = NewAudit {
            user_id: user,
            website_url,
            options: self.options(wish.options),
            priority,
            attempts_max: settings.attempts_max,
            request,
        };
        let unfinished_max = settings.unfinished_per_user_max;
        let now = self.work.clock.now();
        match self.store().create_audit(new, unfinished_max, now).await? {
            CreateAuditAnswer::Created(audit) => {
                self.work.metrics.audit_created();
                self.work.wake(user, RUN_KIND);
                Ok(CreateReply { audit: *audit, replayed: false })
            }
            CreateAuditAnswer::Replayed(audit) => Ok(CreateReply { audit: *audit, replayed: true }),
            CreateAuditAnswer::KeyReused => Err(Error::IdempotencyKeyReused),
            CreateAuditAnswer::TooMany { unfinished } => {
                self.work.metrics.limit_hit("audits_unfinished");
                Err(Error::TooMany { what: "audits that are not finished", count: unfinished })
            }
        }
    }

    pub async fn get(&self, scope: Scope, id: AuditId) -> Result<Audit, Error> {
        let found = self.store().audit(scope, id).await?;
        found.ok_or(Error::NotFound { what: "audit" })
    }

    /// Audits, newest first, those with a lower number than `before`.
    pub async fn list(
        &self,
        scope: Scope,
        mut filter: AuditFilter,
        before: Option<AuditId>,
        rows_max: u32,
    ) -> Result<Vec<Audit>, Error> {
        if let Some(url) = &filter.website_url {
            filter.website_url = Some(normal_url(url).map_err(|error| field("url", &error))?);
        }
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        Ok(self.store().audits(scope, filter, before, rows_max).await?)
    }

    /// Stops an audit, at once if it waits, and shows it as it is afterwards.
    pub async fn cancel(&self, scope: Scope, id: AuditId) -> Result<Audit, Error> {
        let audit = self.get(scope, id).await?;
        let now = self.work.clock.now();
        match self.store().cancel(scope, audit.job_id, now).await? {
            // Its job was pruned.
            CancelAnswer::NotFound => {
                let is_done = audit.state.status == AuditStatus::Completed;
                let state = if is_done { JobState::Completed } else { JobState::Failed };
                return Err(Error::WrongState { state });
            }
            CancelAnswer::Finished(state) => return Err(Error::WrongState { state }),
            CancelAnswer::Requested => self.work.wakes.signal_cancel(audit.job_id),
            // The store has told it in the transaction that ended it.
            CancelAnswer::Cancelled => self.work.wake(UserId::SYSTEM, DELIVER_KIND),
        }
        self.get(scope, id).await
    }

    /// All that a completed audit found.
    pub async fn report(&self, scope: Scope, id: AuditId) -> Result<AuditReport, Error> {
        match self.store().audit_report(scope, id).await? {
            Some(report) => Ok(report),
            None => Err(unfinished(&self.get(scope, id).await?)),
        }
    }

    /// The report as people read it.
    pub async fn rendered(
        &self,
        scope: Scope,
        id: AuditId,
        format: ReportFormat,
    ) -> Result<Vec<u8>, Error> {
        let report = self.report(scope, id).await?;
        let Some(stored) = StoredReport::read(&report) else {
            return Err(Error::NotFound { what: "readable report" });
        };
        let screenshot = self.store().audit_screenshot(scope, id).await?;
        let audit = &report.audit;
        let history = self
            .points(
                Scope::User(audit.user_id),
                AuditFilter {
                    website_url: Some(audit.website_url.clone()),
                    ..AuditFilter::default()
                },
                Some(AuditId::new(audit.id.get().saturating_add(1))),
            )
            .await?;
        let render = move || {
            let context = ReportContext {
                comparison: stored.comparison.as_ref(),
                screenshot_png: screenshot.as_deref(),
                history: &history,
            };
            match format {
                ReportFormat::Html => report_html(&stored.verdict, &context).into_bytes(),
                ReportFormat::Pdf => report_pdf(&stored.verdict, &context),
            }
        };
        // A report of many findings is work for a while.
        tokio::task::spawn_blocking(render)
            .await
            .map_err(|error| Error::Internal(error.to_string()))
    }

    pub async fn screenshot(&self, scope: Scope, id: AuditId) -> Result<Vec<u8>, Error> {
        let found = self.store().audit_screenshot(scope, id).await?;
        found.ok_or(Error::NotFound { what: "screenshot" })
    }

    /// Makes an audit that recurs. The first is started at once.
    pub async fn create_recurring(
        &self,
        user: UserId,
        wish: RecurringRequest,
    ) -> Result<Recurring, Error> {
        let website_url = self.check(&wish.url, wish.priority)?;
        let schedule = self.allowed(Schedule::parse(&wish.schedule, wish.time_zone.as_deref()))?;
        let new = NewRecurring {
            user_id: user,
            website_url,
            schedule,
            options: self.options(wish.options),
            priority: wish.priority,
        };
        let max = self.work.settings.recurring_per_user_max;
        let now = self.work.clock.now();
        match self.store().create_recurring(new, max, now).await? {
            CreateRecurringAnswer::Created(made) => {
                self.work.wake(UserId::SYSTEM, RECUR_KIND);
                Ok(*made)
            }
            CreateRecurringAnswer::TooMany { recurring } => {
                self.work.metrics.limit_hit("audits_recurring");
                Err(Error::TooMany { what: "recurring audits", count: recurring })
            }
        }
    }

    pub async fn recurring(&self, scope: Scope, id: RecurringId) -> Result<Recurring, Error> {
        let found = self.store().recurring(scope, id).await?;
        found.ok_or(Error::NotFound { what: "recurring audit" })
    }

    /// Recurring audits, newest first, those with a lower number than `before`.
    pub async fn recurrings(
        &self,
        scope: Scope,
        before: Option<RecurringId>,
        rows_max: u32,
    ) -> Result<Vec<Recurring>, Error> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        Ok(self.store().recurrings(scope, before, rows_max).await?)
    }

    /// Pauses one, lets it go on, or gives it another schedule.
    pub async fn change_recurring(
        &self,
        scope: Scope,
        id: RecurringId,
        wish: RecurringWish,
    ) -> Result<Recurring, Error> {
        let RecurringWish { is_paused, schedule, time_zone } = wish;
        let schedule = if schedule.is_some() || time_zone.is_some() {
            let known = self.recurring(scope, id).await?.schedule;
            Some(self.allowed(known.changed(schedule.as_deref(), time_zone.as_deref()))?)
        } else {
            None
        };
        let change = RecurringChange { is_paused, schedule };
        match self.store().change_recurring(scope, id, change, self.work.clock.now()).await? {
            ChangeRecurringAnswer::Changed(recurring) => {
                self.work.wake(UserId::SYSTEM, RECUR_KIND);
                Ok(*recurring)
            }
            ChangeRecurringAnswer::NotFound => Err(Error::NotFound { what: "recurring audit" }),
        }
    }

    /// Its audits stay.
    pub async fn delete_recurring(&self, scope: Scope, id: RecurringId) -> Result<(), Error> {
        if self.store().delete_recurring(scope, id).await? {
            return Ok(());
        }
        Err(Error::NotFound { what: "recurring audit" })
    }

    /// The completed audits of a recurring one, oldest first.
    pub async fn history(&self, scope: Scope, id: RecurringId) -> Result<Vec<Audit>, Error> {
        let known = self.recurring(scope, id).await?;
        let filter = AuditFilter { recurring: Some(known.id), ..AuditFilter::default() };
        self.completed(scope, filter, None).await
    }

    /// The same as a picture.
    pub async fn history_svg(&self, scope: Scope, id: RecurringId) -> Result<String, Error> {
        let points: Vec<HistoryPoint> =
            self.history(scope, id).await?.iter().filter_map(point).collect();
        Ok(history_svg(&points))
    }

    async fn points(
        &self,
        scope: Scope,
        filter: AuditFilter,
        before: Option<AuditId>,
    ) -> Result<Vec<HistoryPoint>, Error> {
        let audits = self.completed(scope, filter, before).await?;
        Ok(audits.iter().filter_map(point).collect())
    }

    async fn completed(
        &self,
        scope: Scope,
        filter: AuditFilter,
        before: Option<AuditId>,
    ) -> Result<Vec<Audit>, Error> {
        let filter = AuditFilter { status: Some(AuditStatus::Completed), ..filter };
        let mut found = self.store().audits(scope, filter, before, HISTORY_ROWS_MAX).await?;
        found.reverse();
        Ok(found)
    }

    fn check(&self, url: &str, priority: i16) -> Result<String, Error> {
        let max = self.work.settings.priority_asked_max.min(PRIORITY_MAX);
        if !(-max..=max).contains(&priority) {
            return Err(field("priority", &format!("must be within -{max} to {max}")));
        }
        normal_url(url).map_err(|error| field("url", &error))
    }

    /// A schedule that leaves time enough between two audits.
    fn allowed(&self, parsed: Result<Schedule, InvalidSchedule>) -> Result<Schedule, Error> {
        let schedule = parsed.map_err(|error| match error {
            InvalidSchedule::Text(_) => field("schedule", &error),
            InvalidSchedule::TimeZone(_) => field("time_zone", &error),
        })?;
        let least = self.work.settings.recurring_interval_min;
        if schedule.shortest_gap(self.work.clock.now()) < least {
            let problem = format!("must leave at least {} seconds between two", least.as_secs());
            return Err(field("schedule", &problem));
        }
        Ok(schedule)
    }

    fn options(&self, wanted: WantedOptions) -> AuditOptions {
        AuditOptions {
            browser: wanted.browser.unwrap_or(false),
            obey_robots: wanted.obey_robots.unwrap_or(self.work.settings.obey_robots),
        }
    }

    fn store(&self) -> &Arc<dyn Store> {
        &self.work.store
    }
}

impl std::fmt::Debug for Audits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audits").finish_non_exhaustive()
    }
}

fn field(name: &str, problem: &impl ToString) -> Error {
    Error::Invalid(vec![FieldError::new(name, problem.to_string())])
}

fn unfinished(audit: &Audit) -> Error {
    let state = match audit.state.status {
        AuditStatus::Pending => JobState::Pending,
        AuditStatus::Processing => JobState::Processing,
        AuditStatus::Completed => JobState::Completed,
        AuditStatus::Failed => JobState::Failed,
    };
    Error::WrongState { state }
}

fn request_key((key, body): (String, bytes::Bytes)) -> Result<RequestKey, Error> {
    let plain = key.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    if key.is_empty() || key.len() > REQUEST_KEY_CHARS_MAX || !plain {
        let problem = format!("must be 1 to {REQUEST_KEY_CHARS_MAX} visible ASCII characters");
        return Err(field("Idempotency-Key", &problem));
    }
    Ok(RequestKey { key, body_hash: Sha256::digest(&body).into() })
}

fn point(audit: &Audit) -> Option<HistoryPoint> {
    let summary = audit.summary.as_ref()?;
    let byte = |score: i16| u8::try_from(score.clamp(0, 100)).unwrap_or(0);
    let scores = &summary.scores;
    let scored = [
        (Category::Performance, Some(scores.performance)),
        (Category::Seo, Some(scores.seo)),
        (Category::Search, scores.search),
        (Category::Security, scores.security),
        (Category::Accessibility, scores.accessibility),
        (Category::BestPractices, scores.best_practices),
        (Category::Mobile, scores.mobile),
        (Category::Conversion, Some(scores.conversion)),
        (Category::Branding, Some(scores.branding)),
        (Category::Presence, Some(scores.presence)),
    ];
    let known = scored.into_iter().filter_map(|(category, score)| Some((category, byte(score?))));
    Some(HistoryPoint {
        at: audit.state.finished_at?,
        overall: byte(scores.overall),
        scores: known.collect(),
    })
}

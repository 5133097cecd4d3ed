//! The same random histories of audits on every adapter and on the reference: every answer and
//! everything that is read afterwards must be the same. What an audit is follows from its job, so most
//! of what is done here is done to jobs.

use std::any::Any;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roundsman_core::Timestamp;
use roundsman_core::audits::{
    Audit, AuditId, AuditOptions, AuditResult, AuditSummary, Measured, NewAudit, NewRecurring,
    RECUR_KIND, RUN_KIND, RecurringChange, RecurringId, RequestKey, Schedule, Scores,
};
use roundsman_core::effects::{Effects, WebhookEvent};
use roundsman_core::jobs::{
    JobError, JobId, Json, Lane, LeaseNo, LeaseOwner, LeaseRef, Outcome, RunningJob, Settle,
    WorkerName,
};
use roundsman_core::ports::{
    AuditFilter, ClaimRequest, CreateAuditAnswer, DueAnswer, Heartbeat, LaneDemand, PruneRequest,
    Scope, Store, StoreError, SweepRequest,
};
use roundsman_store::conformance::{ADA, BOB, catalog, kind};
use roundsman_testkit::env;
use tokio::runtime::Runtime;

use super::{START, SharedPostgres};
use crate::open;
use crate::reference::Reference;

/// Histories on every change, and in a run of everything.
const CASES: (u32, u32) = (32, 1000);
const STEPS_MAX: usize = 60;
const TTL: Duration = Duration::from_secs(300);

type Pick = u8;

#[derive(Debug, Clone)]
enum Op {
    Advance { secs: u64 },
    Create { by: Pick, page: Pick, request: Option<(Pick, u8)>, unfinished_max: u32 },
    Claim { recurring: bool, count: u32 },
    Beat { lease: Pick },
    Complete { lease: Pick },
    Settle { lease: Pick, how: Pick },
    Sweep,
    Cancel { audit: Pick },
    Retry { audit: Pick },
    PruneJobs,
    PruneAudits { ago_secs: u64, rows_max: u32 },
    Recur { by: Pick, schedule: Pick },
    Change { recurring: Pick, paused: Option<bool>, schedule: Option<Pick> },
    Delete { recurring: Pick },
    Ring { recurring: Pick, lease: Pick },
}

fn op() -> impl Strategy<Value = Op> {
    let secs = prop_oneof![Just(1u64), Just(60), Just(301), Just(4000)];
    prop_oneof![
        4 => secs.prop_map(|secs| Op::Advance { secs }),
        5 => (any::<Pick>(), any::<Pick>(), proptest::option::weighted(0.3, (0..3u8, 0..2u8)), 2..6u32)
            .prop_map(|(by, page, request, unfinished_max)| Op::Create { by, page, request, unfinished_max }),
        6 => (proptest::bool::weighted(0.3), 1..3u32)
            .prop_map(|(recurring, count)| Op::Claim { recurring, count }),
        2 => any::<Pick>().prop_map(|lease| Op::Beat { lease }),
        5 => any::<Pick>().prop_map(|lease| Op::Complete { lease }),
        5 => (any::<Pick>(), any::<Pick>()).prop_map(|(lease, how)| Op::Settle { lease, how }),
        2 => Just(Op::Sweep),
        2 => any::<Pick>().prop_map(|audit| Op::Cancel { audit }),
        2 => any::<Pick>().prop_map(|audit| Op::Retry { audit }),
        2 => Just(Op::PruneJobs),
        1 => (0..500u64, 1..3u32).prop_map(|(ago_secs, rows_max)| Op::PruneAudits { ago_secs, rows_max }),
        2 => (any::<Pick>(), any::<Pick>()).prop_map(|(by, schedule)| Op::Recur { by, schedule }),
        2 => (any::<Pick>(), proptest::option::of(any::<bool>()), proptest::option::of(any::<Pick>()))
            .prop_map(|(recurring, paused, schedule)| Op::Change { recurring, paused, schedule }),
        1 => any::<Pick>().prop_map(|recurring| Op::Delete { recurring }),
        3 => (any::<Pick>(), any::<Pick>()).prop_map(|(recurring, lease)| Op::Ring { recurring, lease }),
    ]
}

struct Subject {
    name: &'static str,
    store: Arc<dyn Store>,
    audits: Vec<(AuditId, JobId)>,
    recurring: Vec<RecurringId>,
    leases: Vec<LeaseRef>,
    _keep: Box<dyn Any>,
}

impl Subject {
    fn new(name: &'static str, store: Arc<dyn Store>, keep: impl Any) -> Self {
        Subject {
            name,
            store,
            audits: Vec::new(),
            recurring: Vec::new(),
            leases: Vec::new(),
            _keep: Box::new(keep),
        }
    }

    async fn perform(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        Ok(match op {
            Op::Advance { .. } => String::new(),
            Op::Create { by, page, request, unfinished_max } => {
                let new = new_audit(*by, *page, *request);
                match store.create_audit(new, *unfinished_max, now).await? {
                    CreateAuditAnswer::Created(audit) => format!("created {:?}", shown(*audit)),
                    CreateAuditAnswer::Replayed(audit) => format!("replayed {:?}", shown(*audit)),
                    other => format!("{other:?}"),
                }
            }
            Op::Claim { recurring, count } => {
                let kind = kind(if *recurring { RECUR_KIND } else { RUN_KIND });
                let request = ClaimRequest {
                    worker: WorkerName::new("w"),
                    owner: LeaseOwner::Outside,
                    demands: vec![LaneDemand {
                        lane: Lane::of(ADA, &kind),
                        max: *count,
                        lease_ttl: TTL,
                        deadline: None,
                    }],
                    total_max: *count,
                };
                let claimed = store.claim(request, now).await?.jobs;
                self.leases.extend(claimed.iter().map(RunningJob::lease_ref));
                format!("claimed {}", claimed.len())
            }
            Op::Beat { lease } => {
                let Some(lease) = pick(&self.leases, *lease) else { return Ok(String::new()) };
                let progress = Json::parse("{\"step\":\"page\"}").ok();
                let beat = Heartbeat { lease, ttl: None, progress };
                format!("{:?}", store.heartbeat(vec![beat], now).await?)
            }
            Op::Complete { .. } | Op::Settle { .. } => self.settle(op, now).await?,
            Op::Sweep => {
                let request =
                    SweepRequest { rows_max: 100, serving_since: Timestamp::EPOCH, jitter: 0 };
                format!("{:?}", store.sweep(request, now).await?)
            }
            Op::Cancel { audit } => match pick(&self.audits, *audit) {
                Some((_, job)) => format!("{:?}", store.cancel(Scope::All, job, now).await?),
                None => String::new(),
            },
            Op::Retry { audit } => match pick(&self.audits, *audit) {
                Some((_, job)) => format!("{:?}", store.retry(Scope::All, job, now).await?),
                None => String::new(),
            },
            Op::PruneJobs => format!("{:?}", store.prune(everything(now)).await?),
            Op::PruneAudits { ago_secs, rows_max } => {
                let before = now - Duration::from_secs(*ago_secs);
                format!("pruned {}", store.prune_audits(before, *rows_max).await?)
            }
            _ => self.recur(op, now).await?,
        })
    }

    async fn settle(&self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let (lease, how) = match op {
            Op::Complete { lease } => (lease, None),
            Op::Settle { lease, how } => (lease, Some(how)),
            _ => return Ok(String::new()),
        };
        let Some(lease) = pick(&self.leases, *lease) else { return Ok(String::new()) };
        let error = || JobError::new("timeout", "slow");
        let run = self.audits.iter().find(|(_, job)| *job == lease.id);
        let (outcome, effects) = match (how.map(|how| how % 4), run) {
            (None, Some((audit, _))) => {
                let effects = Effects { audits: vec![result(*audit)], ..Effects::default() };
                (Outcome::Done { result: Json::null() }, effects)
            }
            (Some(0), _) => (Outcome::Fail { error: error() }, Effects::default()),
            (Some(1), _) => (Outcome::Release, Effects::default()),
            (Some(2), _) => (Outcome::Cancelled, Effects::default()),
            _ => {
                let retry = Outcome::Retry { error: error(), after: Some(Duration::from_secs(30)) };
                (retry, Effects::default())
            }
        };
        let settle = Settle { lease, outcome, effects };
        Ok(format!("{:?}", self.store.settle(vec![settle], 0, now).await?))
    }

    async fn recur(&self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        let schedule = |pick: Pick| {
            let (text, zone) = [
                ("every 1h", None),
                ("@daily", None),
                ("*/30 * * * *", Some("Asia/Kathmandu")),
                ("@daily", Some("America/New_York")),
            ][usize::from(pick % 4)];
            Schedule::parse(text, zone).expect("a schedule")
        };
        Ok(match op {
            Op::Recur { by, schedule: wanted } => {
                let new = NewRecurring {
                    user_id: [ADA, BOB][usize::from(by % 2)],
                    website_url: page_of(*by),
                    schedule: schedule(*wanted),
                    options: AuditOptions::default(),
                    priority: 1,
                };
                format!("{:?}", store.create_recurring(new, 2, now).await?)
            }
            Op::Change { recurring, paused, schedule: wanted } => {
                let Some(id) = pick(&self.recurring, *recurring) else { return Ok(String::new()) };
                let change = RecurringChange { is_paused: *paused, schedule: wanted.map(schedule) };
                format!("{:?}", store.change_recurring(Scope::All, id, change, now).await?)
            }
            Op::Delete { recurring } => {
                let Some(id) = pick(&self.recurring, *recurring) else { return Ok(String::new()) };
                format!("{:?}", store.delete_recurring(Scope::User(ADA), id).await?)
            }
            Op::Ring { recurring, lease } => {
                let Some(id) = pick(&self.recurring, *recurring) else { return Ok(String::new()) };
                let Some(lease) = pick(&self.leases, *lease) else { return Ok(String::new()) };
                match store.start_due_audit(id, 4, 3, lease, now).await? {
                    DueAnswer::Started { audit, next_at } => {
                        format!("started {:?} {next_at}", shown(*audit))
                    }
                    other => format!("{other:?}"),
                }
            }
            _ => String::new(),
        })
    }

    /// Everything that can be read.
    async fn look(&mut self) -> Result<String, StoreError> {
        let store = &self.store;
        let audits = store.audits(Scope::All, AuditFilter::default(), None, 200).await?;
        let recurring = store.recurrings(Scope::All, None, 200).await?;
        let all: Vec<Audit> = audits.iter().cloned().map(shown).collect();
        let mut seen = format!("{all:#?} {recurring:#?}");
        // Whoever failed was told of; those that ended in one step in any order.
        let told = store.webhook_events(0, 1000).await?;
        let mut told: Vec<WebhookEvent> = told.into_iter().map(|(_, event)| event).collect();
        told.sort_by(|one, other| one.event_id.cmp(&other.event_id));
        let _ = write!(seen, "{told:#?}");
        for Audit { id, job_id, user_id, website_url, .. } in &audits {
            let report = store.audit_report(Scope::All, *id).await?;
            let report = report.map(|report| (report.report, report.raw_data, report.headers));
            let picture = store.audit_screenshot(Scope::All, *id).await?;
            let before = store.previous_audit(*user_id, website_url.clone(), *id).await?;
            let before = before.map(|report| report.audit.id);
            let _ = write!(seen, "{report:?} {picture:?} {before:?}");
            if !self.audits.contains(&(*id, *job_id)) {
                self.audits.push((*id, *job_id));
            }
        }
        self.audits.sort();
        for known in &recurring {
            if !self.recurring.contains(&known.id) {
                self.recurring.push(known.id);
            }
        }
        self.recurring.sort();
        Ok(seen)
    }
}

#[test]
fn all_adapters_audit_the_same() {
    let runtime = Runtime::new().expect("a runtime");
    let shared = runtime.block_on(SharedPostgres::new());
    let cases = if env::full() { CASES.1 } else { CASES.0 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let histories = vec(op(), 1..=STEPS_MAX);
    let ran = TestRunner::new_with_rng(config, random).run(&histories, |ops| {
        runtime.block_on(async {
            shared.empty().await;
            let (file, folder) = open::sqlite(catalog());
            let subjects = vec![
                Subject::new("reference", Arc::new(Reference::new(catalog())), ()),
                Subject::new("sqlite inline", Arc::new(open::sqlite_inline(catalog())), ()),
                Subject::new("sqlite", Arc::new(file), folder),
                Subject::new("postgres", Arc::clone(&shared.store) as Arc<dyn Store>, ()),
            ];
            compare(subjects, &ops).await
        })
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
}

async fn compare(mut subjects: Vec<Subject>, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut now = START;
    for (step, op) in ops.iter().enumerate() {
        if let Op::Advance { secs } = op {
            now = now + Duration::from_secs(*secs);
        }
        let mut expected: Option<(String, String)> = None;
        for subject in &mut subjects {
            let place = format!("{}, step {step} {op:?}", subject.name);
            let fail = |error| TestCaseError::fail(format!("{place}: {error}"));
            let answer = subject.perform(op, now).await.map_err(fail)?;
            let visible = subject.look().await.map_err(fail)?;
            match &expected {
                None => expected = Some((answer, visible)),
                Some((expected_answer, expected_visible)) => {
                    prop_assert_eq!(&answer, expected_answer, "{}", place);
                    prop_assert_eq!(&visible, expected_visible, "after {}", place);
                }
            }
        }
    }
    for subject in &subjects {
        let violations = subject.store.check().await;
        let violations = violations.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(violations.is_empty(), "{}: {:?}", subject.name, violations);
    }
    Ok(())
}

fn pick<T: Copy>(from: &[T], place: Pick) -> Option<T> {
    from.get(usize::from(place) % from.len().max(1)).copied()
}

/// Numbers of jobs and leases are drawn from sequences that go on from history to history.
fn shown(mut audit: Audit) -> Audit {
    audit.job_id = JobId::new(0);
    for run in &mut audit.state.troubles {
        run.lease_no = LeaseNo::new(0);
    }
    audit
}

fn page_of(pick: Pick) -> String {
    format!("https://example.org/{}", pick % 2)
}

fn result(audit_id: AuditId) -> AuditResult {
    AuditResult {
        audit_id,
        summary: AuditSummary {
            final_url: "https://example.org/".to_owned(),
            scores: Scores { overall: 90, ..Scores::default() },
            measured: Measured { ttfb_ms: Some(12), ..Measured::default() },
            engine_version: "1".to_owned(),
            attempt: 1,
            duration_ms: 5,
            previous_id: None,
            has_screenshot: audit_id.get() % 2 == 0,
        },
        redirects: Json::null(),
        headers: Json::null(),
        raw_data: Json::null(),
        report: Json::null(),
        screenshot_png: (audit_id.get() % 2 == 0).then(|| vec![1]),
    }
}

fn new_audit(by: u8, page: u8, request: Option<(u8, u8)>) -> NewAudit {
    let request =
        request.map(|(key, hash)| RequestKey { key: format!("key {key}"), body_hash: [hash; 32] });
    NewAudit {
        user_id: [ADA, BOB][usize::from(by % 2)],
        website_url: page_of(page),
        options: AuditOptions { browser: by.is_multiple_of(3), obey_robots: by.is_multiple_of(5) },
        priority: i16::from(page % 3),
        attempts_max: 3,
        request,
    }
}

/// Whatever is over.
fn everything(now: Timestamp) -> PruneRequest {
    PruneRequest {
        completed_before: now,
        failed_before: now,
        cancelled_before: now,
        idempotency_before: now,
        buckets_before: now,
        frames_before: now,
        rows_max: 100,
    }
}

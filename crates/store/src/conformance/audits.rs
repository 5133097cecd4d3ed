//! An audit is what its job says, keeps what was found, and outlives the job.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::audits::{
    Audit, AuditId, AuditOptions, AuditResult, AuditState, AuditStatus, AuditSummary, LastRun,
    Measured, NewAudit, NewRecurring, RECUR_KIND, RUN_KIND, Recurring, RecurringChange,
    RecurringId, RequestKey, Schedule, Scores, first,
};
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{JobError, Json, Outcome, RunOutcome, RunningJob, Settled};
use roundsman_core::ports::{
    AuditFilter, CancelAnswer, ChangeRecurringAnswer, CreateAuditAnswer, CreateRecurringAnswer,
    DueAnswer, PruneRequest, RetryAnswer, Scope,
};
use roundsman_core::users::UserId;

use super::fixture::{Fixture, at_once};
use super::wishes::{ADA, BOB, MINUTE, SECOND, TTL, done, json};

const PAGE: &str = "https://example.org/";
const UNFINISHED_MAX: u32 = 20;

pub async fn an_audit_follows_its_job(fx: &Arc<Fixture>) {
    let audit = create(fx, ADA, PAGE).await;
    assert_eq!(
        (audit.user_id, audit.website_url.as_str(), audit.created_at),
        (ADA, PAGE, fx.now())
    );
    let mut last = LastRun::default();
    assert_follows(fx, &audit, &last, (AuditStatus::Pending, 0)).await;
    let run = claim(fx, &mut last).await;
    assert_eq!(run.facts.id, audit.job_id);
    fx.advance(SECOND);
    fx.heartbeat_with(run.lease_ref(), None, Some(json(r#"{"step":"page"}"#))).await;
    let seen = assert_follows(fx, &audit, &last, (AuditStatus::Processing, 0)).await;
    assert_eq!(seen.state.last_heartbeat, Some(fx.now()));
    assert_eq!(seen.state.progress, Some(json(r#"{"step":"page"}"#)));
    let slow = JobError::new("timeout", "it took too long");
    let retry = Outcome::Retry { error: slow.clone(), after: Some(MINUTE) };
    fx.land(run.lease_ref(), retry).await;
    let seen = assert_follows(fx, &audit, &last, (AuditStatus::Pending, 1)).await;
    assert_eq!(seen.state.next_attempt_at, Some(fx.now() + MINUTE), "it backs off");
    assert_eq!((seen.state.processing_worker_id, seen.state.error), (None, None));
    fx.advance(MINUTE);
    let run = claim(fx, &mut last).await;
    assert_follows(fx, &audit, &last, (AuditStatus::Processing, 1)).await;
    fx.land(run.lease_ref(), Outcome::Release).await;
    assert_follows(fx, &audit, &last, (AuditStatus::Pending, 1)).await;
    claim(fx, &mut last).await;
    fx.advance(TTL + SECOND);
    fx.sweep().await;
    assert_follows(fx, &audit, &last, (AuditStatus::Pending, 2)).await;
    let run = claim(fx, &mut last).await;
    fx.advance(SECOND);
    let found = result(audit.id, 3);
    assert_eq!(
        complete(fx, &run, &found).await,
        Settled::Landed { state: roundsman_core::jobs::JobState::Completed }
    );
    let seen = assert_follows(fx, &audit, &last, (AuditStatus::Completed, 2)).await;
    assert_eq!(seen.summary, Some(found.summary));
    let outcomes: Vec<RunOutcome> = seen.state.troubles.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Retry, RunOutcome::Released, RunOutcome::LeaseExpired]);
    assert_eq!(seen.state.troubles[0].error, Some(slow));
}

pub async fn what_was_found_comes_back_as_it_was_given(fx: &Arc<Fixture>) {
    let (plain, odd) = (create(fx, ADA, PAGE).await, create(fx, BOB, PAGE).await);
    let bare = AuditResult {
        summary: AuditSummary {
            final_url: String::new(),
            scores: Scores::default(),
            measured: Measured::default(),
            engine_version: String::new(),
            previous_id: None,
            has_screenshot: false,
            ..result(plain.id, 1).summary
        },
        screenshot_png: None,
        ..result(plain.id, 1)
    };
    let full = result(odd.id, 1);
    for found in [&bare, &full] {
        let run = fx.claim_one(RUN_KIND).await;
        assert!(report(fx, Scope::All, found.audit_id).await.is_none(), "not yet");
        complete(fx, &run, found).await;
    }
    for (found, owner, other) in [(&bare, ADA, BOB), (&full, BOB, ADA)] {
        for scope in [Scope::All, Scope::User(owner)] {
            let kept = report(fx, scope, found.audit_id).await.expect("a report");
            assert_eq!(kept.audit.summary.as_ref(), Some(&found.summary));
            assert_eq!(kept.audit, seen(fx, found.audit_id).await);
            let texts = (&kept.redirects, &kept.headers, &kept.raw_data, &kept.report);
            assert_eq!(texts, (&found.redirects, &found.headers, &found.raw_data, &found.report));
            assert_eq!(screenshot(fx, scope, found.audit_id).await, found.screenshot_png);
        }
        let scope = Scope::User(other);
        assert_eq!(fx.store.audit(scope, found.audit_id).await.expect("audit"), None);
        assert_eq!(report(fx, scope, found.audit_id).await, None);
        assert_eq!(screenshot(fx, scope, found.audit_id).await, None);
    }
}

pub async fn whoever_lost_the_lease_writes_no_result(fx: &Arc<Fixture>) {
    let audit = create(fx, ADA, PAGE).await;
    let zombie = fx.claim_one(RUN_KIND).await;
    fx.advance(TTL + SECOND);
    fx.sweep().await;
    let late = AuditResult { report: json("\"late\""), ..result(audit.id, 1) };
    assert_eq!(complete(fx, &zombie, &late).await, Settled::LeaseLost);
    assert_eq!(seen(fx, audit.id).await.state.status, AuditStatus::Pending);
    let run = fx.claim_one(RUN_KIND).await;
    assert_eq!(complete(fx, &zombie, &late).await, Settled::LeaseLost);
    let found = result(audit.id, 2);
    complete(fx, &run, &found).await;
    assert_eq!(complete(fx, &zombie, &late).await, Settled::LeaseLost);
    let kept = report(fx, Scope::All, audit.id).await.expect("a report");
    assert_eq!((kept.report, kept.audit.state.retry_count), (found.report, 1));
}

pub async fn what_it_ended_as_survives_the_job(fx: &Arc<Fixture>) {
    let mut before = Vec::new();
    for (number, ends) in
        ["done", "late", "failed", "crashed", "waiting", "running"].iter().enumerate()
    {
        let audit = create(fx, ADA, &format!("{PAGE}{number}")).await;
        if *ends == "waiting" {
            cancel(fx, &audit, CancelAnswer::Cancelled).await;
        } else {
            let run = fx.claim_one(RUN_KIND).await;
            end(fx, &audit, &run, ends).await;
        }
        before.push(seen(fx, audit.id).await);
    }
    let shown: Vec<_> = before
        .iter()
        .map(|audit| {
            let error = audit.state.error.as_ref().map(|error| error.code.as_str());
            (audit.state.status.as_str(), audit.state.retry_count, error)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("completed", 0, None),
            ("completed", 1, None),
            ("failed", 0, Some("blocked_target")),
            ("failed", 2, Some("crashed")),
            ("failed", 0, Some("cancelled")),
            ("failed", 0, Some("cancelled")),
        ]
    );
    fx.advance(MINUTE);
    let all = PruneRequest {
        completed_before: fx.now(),
        failed_before: fx.now(),
        cancelled_before: fx.now(),
        idempotency_before: fx.now(),
        buckets_before: fx.now(),
        frames_before: fx.now(),
        rows_max: 100,
    };
    assert_eq!(fx.store.prune(all).await.expect("prune").jobs, 6);
    for audit in before {
        assert_eq!(seen(fx, audit.id).await, audit);
    }
}

pub async fn a_job_that_is_tried_again_makes_it_pending(fx: &Arc<Fixture>) {
    let audit = create(fx, ADA, PAGE).await;
    let run = fx.claim_one(RUN_KIND).await;
    end(fx, &audit, &run, "failed").await;
    let again = fx.store.retry(Scope::User(ADA), audit.job_id, fx.now()).await.expect("retry");
    assert_eq!(again, RetryAnswer::Requeued);
    let waits = seen(fx, audit.id).await.state;
    assert_eq!((waits.status, waits.retry_count, waits.error), (AuditStatus::Pending, 0, None));
    assert_eq!(waits.finished_at, None);
    fx.advance(MINUTE * 100_000);
    assert_eq!(
        fx.store.prune_audits(fx.now(), 10).await.expect("prune_audits"),
        0,
        "it is not over"
    );
    let run = fx.claim_one(RUN_KIND).await;
    complete(fx, &run, &result(audit.id, 1)).await;
    assert_eq!(seen(fx, audit.id).await.state.status, AuditStatus::Completed);
}

pub async fn audits_are_listed_in_pages(fx: &Arc<Fixture>) {
    let mut all = Vec::new();
    for number in 0..12 {
        let (user, page) = ([ADA, BOB][number % 2], format!("{PAGE}{}", number % 3));
        let audit = create(fx, user, &page).await;
        if number % 4 == 3 {
            // Nobody claims it before those that come later.
            cancel(fx, &audit, CancelAnswer::Cancelled).await;
            fx.store.retry(Scope::All, audit.job_id, fx.now() + MINUTE).await.expect("retry");
        } else {
            let run = fx.claim_one(RUN_KIND).await;
            match number % 4 {
                0 => drop(complete(fx, &run, &result(audit.id, 1)).await),
                1 => end(fx, &audit, &run, "failed").await,
                _ => {}
            }
        }
        all.insert(0, audit.id);
    }
    let mut rows = Vec::new();
    for id in all {
        rows.push(seen(fx, id).await);
    }
    let statuses = AuditStatus::ALL.into_iter().map(Some).chain([None]);
    let pages = [None, Some(format!("{PAGE}0")), Some("https://nowhere/".to_owned())];
    let filters: Vec<AuditFilter> = statuses
        .flat_map(|status| {
            pages.clone().map(|website_url| AuditFilter { status, website_url, recurring: None })
        })
        .collect();
    for scope in [Scope::All, Scope::User(ADA), Scope::User(BOB), Scope::User(UserId::new(99))] {
        for filter in &filters {
            let expected: Vec<&Audit> =
                rows.iter().filter(|row| is_wanted(row, scope, filter)).collect();
            let mut found: Vec<Audit> = Vec::new();
            loop {
                let before = found.last().map(|audit| audit.id);
                let page = fx.store.audits(scope, filter.clone(), before, 2).await.expect("audits");
                assert!(page.len() <= 2);
                if page.is_empty() {
                    break;
                }
                found.extend(page);
            }
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{scope:?} {filter:?}");
        }
    }
}

pub async fn a_request_is_carried_out_once_and_within_its_limit(fx: &Arc<Fixture>) {
    let wish = |key: &str, hash: u8| NewAudit {
        request: Some(RequestKey { key: key.to_owned(), body_hash: [hash; 32] }),
        ..new(ADA, PAGE)
    };
    let tries = (0..8).map(|_| {
        let (fx, wish) = (Arc::clone(fx), wish("k", 1));
        async move { fx.store.create_audit(wish, UNFINISHED_MAX, fx.now()).await.expect("create") }
    });
    let answers = at_once(tries).await;
    let made = |answer: &CreateAuditAnswer| matches!(answer, CreateAuditAnswer::Created(_));
    assert_eq!(answers.iter().filter(|answer| made(answer)).count(), 1, "{answers:?}");
    let replayed = |answer: &&CreateAuditAnswer| matches!(answer, CreateAuditAnswer::Replayed(_));
    assert_eq!(answers.iter().filter(replayed).count(), 7);
    let again = fx.store.create_audit(wish("k", 2), UNFINISHED_MAX, fx.now()).await;
    assert_eq!(again.expect("create"), CreateAuditAnswer::KeyReused);
    let others = NewAudit { user_id: BOB, ..wish("k", 2) };
    let others = fx.store.create_audit(others, UNFINISHED_MAX, fx.now()).await.expect("create");
    assert!(made(&others), "a key is a user's own");
    let tries = (0..8).map(|_| {
        let fx = Arc::clone(fx);
        async move { fx.store.create_audit(new(ADA, PAGE), 4, fx.now()).await.expect("create") }
    });
    let answers = at_once(tries).await;
    assert_eq!(answers.iter().filter(|answer| made(answer)).count(), 3);
    let full = CreateAuditAnswer::TooMany { unfinished: 4 };
    assert_eq!(answers.iter().filter(|answer| **answer == full).count(), 5);
    let run = fx.claim_one(RUN_KIND).await;
    fx.land(run.lease_ref(), Outcome::Fail { error: JobError::new("x", "y") }).await;
    let next = fx.store.create_audit(new(ADA, PAGE), 4, fx.now()).await.expect("create");
    assert!(made(&next), "one is over: {next:?}");
}

pub async fn the_previous_audit_of_a_page_is_found(fx: &Arc<Fixture>) {
    let previous = async |user: UserId, before: AuditId| {
        let found = fx.store.previous_audit(user, PAGE.to_owned(), before).await;
        found.expect("previous_audit").map(|report| report.audit.id)
    };
    let mut made = Vec::new();
    for (user, page, ends) in [
        (ADA, PAGE, "done"),
        (ADA, PAGE, "done"),
        (ADA, PAGE, "failed"),
        (BOB, PAGE, "done"),
        (ADA, "https://example.org/other", "done"),
    ] {
        let audit = create(fx, user, page).await;
        let run = fx.claim_one(RUN_KIND).await;
        end(fx, &audit, &run, ends).await;
        made.push(audit.id);
    }
    let waits = create(fx, ADA, PAGE).await.id;
    assert_eq!(previous(ADA, waits).await, Some(made[1]));
    assert_eq!(previous(ADA, made[1]).await, Some(made[0]));
    assert_eq!(previous(ADA, made[0]).await, None);
    assert_eq!(previous(BOB, waits).await, Some(made[3]));
}

pub async fn old_audits_are_forgotten(fx: &Arc<Fixture>) {
    let mut made = Vec::new();
    for ends in ["done", "failed", "done", "waits"] {
        let audit = create(fx, ADA, PAGE).await;
        if ends != "waits" {
            let run = fx.claim_one(RUN_KIND).await;
            end(fx, &audit, &run, ends).await;
        }
        made.push(audit.id);
        fx.advance(MINUTE);
    }
    let limit = fx.now() - MINUTE * 2 - SECOND;
    let mut pruned = Vec::new();
    for _ in 0..3 {
        pruned.push(fx.store.prune_audits(limit, 1).await.expect("prune_audits"));
    }
    assert_eq!(pruned, [1, 1, 0]);
    let left = fx.store.audits(Scope::All, AuditFilter::default(), None, 10).await.expect("audits");
    let left: Vec<AuditId> = left.iter().map(|audit| audit.id).collect();
    assert_eq!(left, [made[3], made[2]]);
    assert_eq!(screenshot(fx, Scope::All, made[0]).await, None);
    assert!(screenshot(fx, Scope::All, made[2]).await.is_some());
}

pub async fn each_time_of_a_recurring_audit_starts_one(fx: &Arc<Fixture>) {
    let made = create_recurring(fx, ADA, 2).await.expect("there is room");
    assert_eq!(made, first(made.id, recurring_wish(ADA), fx.now()));
    let alarm = fx.claim_one(RECUR_KIND).await;
    let ring = async || {
        let answer = fx.store.start_due_audit(made.id, -3, 5, alarm.lease_ref(), fx.now()).await;
        answer.expect("start_due_audit")
    };
    let hour = Duration::from_secs(3600);
    let next_at = fx.now() + hour;
    let DueAnswer::Started { audit, next_at: told } = ring().await else { panic!("it is due") };
    assert_eq!((audit.recurring_id, audit.priority, told), (Some(made.id), -3, next_at));
    assert_eq!(fx.waiting(audit.job_id).await.facts.max_attempts, Some(5));
    assert_eq!(ring().await, DueAnswer::NotBefore(next_at), "once for each time");
    fx.advance(hour);
    assert_eq!(
        ring().await,
        DueAnswer::Skipped { next_at: next_at + hour },
        "the first still waits"
    );
    let run = fx.claim_one(RUN_KIND).await;
    end(fx, &audit, &run, "done").await;
    fx.advance(hour * 5);
    let DueAnswer::Started { audit: second, .. } = ring().await else { panic!("it is due") };
    let known =
        fx.store.recurring(Scope::User(ADA), made.id).await.expect("recurring").expect("one");
    assert_eq!((known.started, known.skipped, known.last_audit_id), (2, 1, Some(second.id)));
    let filter = AuditFilter { recurring: Some(made.id), ..AuditFilter::default() };
    let listed = fx.store.audits(Scope::User(ADA), filter.clone(), None, 10).await.expect("audits");
    assert_eq!(listed.iter().map(|one| one.id).collect::<Vec<_>>(), [second.id, audit.id]);
    let theirs = fx.store.audits(Scope::User(BOB), filter, None, 10).await.expect("audits");
    assert_eq!(theirs, vec![]);
    let paused = RecurringChange { is_paused: Some(true), schedule: None };
    let denied =
        fx.store.change_recurring(Scope::User(BOB), made.id, paused.clone(), fx.now()).await;
    assert_eq!(denied.expect("change"), ChangeRecurringAnswer::NotFound);
    let quiet = fx.store.change_recurring(Scope::User(ADA), made.id, paused, fx.now()).await;
    let quiet = quiet.expect("change");
    assert!(matches!(&quiet, ChangeRecurringAnswer::Changed(one) if one.next_at.is_none()));
    assert_eq!(ring().await, DueAnswer::Over);
    fx.land(alarm.lease_ref(), done("null")).await;
    assert_eq!(ring().await, DueAnswer::LeaseLost);
    let daily = Schedule::parse("@daily", None).ok();
    let on = RecurringChange { is_paused: Some(false), schedule: daily };
    fx.store.change_recurring(Scope::All, made.id, on, fx.now()).await.expect("change");
    fx.advance(hour * 24);
    let alarm = fx.claim_one(RECUR_KIND).await;
    assert_eq!(
        alarm.facts.run_at,
        Timestamp::parse_rfc3339("2026-01-02T00:00:00Z").expect("a time")
    );
    assert!(create_recurring(fx, ADA, 1).await.is_none(), "there is a limit");
    let other = create_recurring(fx, BOB, 1).await.expect("the limit is each user's own");
    for (scope, ids) in [
        (Scope::All, vec![other.id, made.id]),
        (Scope::User(ADA), vec![made.id]),
        (Scope::User(BOB), vec![other.id]),
    ] {
        let listed = fx.store.recurrings(scope, None, 10).await.expect("recurrings");
        assert_eq!(listed.iter().map(|one| one.id).collect::<Vec<RecurringId>>(), ids);
    }
    for (scope, gone) in [(Scope::User(BOB), false), (Scope::User(ADA), true), (Scope::All, false)]
    {
        assert_eq!(fx.store.delete_recurring(scope, made.id).await.expect("delete"), gone);
    }
    let over = fx.store.start_due_audit(made.id, 0, 3, alarm.lease_ref(), fx.now()).await;
    assert_eq!(over.expect("start_due_audit"), DueAnswer::Over);
}

fn new(user_id: UserId, page: &str) -> NewAudit {
    NewAudit {
        user_id,
        website_url: page.to_owned(),
        options: AuditOptions { browser: true, obey_robots: false },
        priority: 7,
        attempts_max: 3,
        request: None,
    }
}

pub(super) async fn create(fx: &Fixture, user: UserId, page: &str) -> Audit {
    let answer = fx.store.create_audit(new(user, page), UNFINISHED_MAX, fx.now()).await;
    match answer.expect("create_audit") {
        CreateAuditAnswer::Created(audit) => *audit,
        other => panic!("expected an audit, got {other:?}"),
    }
}

fn recurring_wish(user_id: UserId) -> NewRecurring {
    NewRecurring {
        user_id,
        website_url: PAGE.to_owned(),
        schedule: Schedule::parse("every 1h", None).expect("a schedule"),
        options: AuditOptions::default(),
        priority: 2,
    }
}

async fn create_recurring(fx: &Fixture, user: UserId, max: u32) -> Option<Recurring> {
    let answer = fx.store.create_recurring(recurring_wish(user), max, fx.now()).await;
    match answer.expect("create_recurring") {
        CreateRecurringAnswer::Created(made) => Some(*made),
        CreateRecurringAnswer::TooMany { .. } => None,
    }
}

async fn claim(fx: &Fixture, last: &mut LastRun) -> RunningJob {
    let run = fx.claim_one(RUN_KIND).await;
    last.started_at = Some(run.lease.claimed_at);
    last.worker = Some(run.lease.worker.as_str().to_owned());
    last.heartbeat_at = Some(run.lease.heartbeat_at);
    run
}

/// The audit is what the rule makes of its job, and that is this.
async fn assert_follows(
    fx: &Fixture,
    audit: &Audit,
    last: &LastRun,
    expected: (AuditStatus, u32),
) -> Audit {
    let seen = seen(fx, audit.id).await;
    assert_eq!(seen.state, AuditState::of(&fx.job(audit.job_id).await, last));
    assert_eq!((seen.state.status, seen.state.retry_count), expected);
    let same = (&seen.website_url, seen.options, seen.priority, seen.created_at, seen.job_id);
    let made = (&audit.website_url, audit.options, audit.priority, audit.created_at, audit.job_id);
    assert_eq!(same, made);
    seen
}

async fn seen(fx: &Fixture, id: AuditId) -> Audit {
    fx.store.audit(Scope::All, id).await.expect("audit").expect("it is there")
}

async fn report(
    fx: &Fixture,
    scope: Scope,
    id: AuditId,
) -> Option<roundsman_core::audits::AuditReport> {
    fx.store.audit_report(scope, id).await.expect("audit_report")
}

async fn screenshot(fx: &Fixture, scope: Scope, id: AuditId) -> Option<Vec<u8>> {
    fx.store.audit_screenshot(scope, id).await.expect("audit_screenshot")
}

async fn complete(fx: &Fixture, run: &RunningJob, found: &AuditResult) -> Settled {
    let effects = Effects { audits: vec![found.clone()], ..Effects::default() };
    fx.settle_with(run.lease_ref(), done("null"), effects).await
}

pub(super) async fn cancel(fx: &Fixture, audit: &Audit, expected: CancelAnswer) {
    let answer = fx.store.cancel(Scope::User(audit.user_id), audit.job_id, fx.now()).await;
    assert_eq!(answer.expect("cancel"), expected);
}

/// Brings a run to its end.
pub(super) async fn end(fx: &Fixture, audit: &Audit, run: &RunningJob, how: &str) {
    let lease = run.lease_ref();
    match how {
        "done" => drop(complete(fx, run, &result(audit.id, 1)).await),
        "failed" => {
            let error = JobError::new("blocked_target", "not there");
            fx.land(lease, Outcome::Fail { error }).await;
        }
        "late" => {
            let error = JobError::new("timeout", "slow");
            fx.land(lease, Outcome::Retry { error, after: Some(Duration::ZERO) }).await;
            let run = fx.claim_one(RUN_KIND).await;
            complete(fx, &run, &result(audit.id, 2)).await;
        }
        "crashed" => {
            for again in [true, true, false] {
                fx.advance(TTL + SECOND);
                fx.sweep().await;
                if again {
                    fx.claim_one(RUN_KIND).await;
                }
            }
        }
        "running" => {
            cancel(fx, audit, CancelAnswer::Requested).await;
            fx.land(lease, Outcome::Cancelled).await;
        }
        other => panic!("{other}?"),
    }
}

/// A result in which no two columns of a sort are alike.
fn result(audit_id: AuditId, attempt: u32) -> AuditResult {
    let odd = "\"Ada's\" 😀 ü; -- $1 ?1";
    AuditResult {
        audit_id,
        summary: AuditSummary {
            final_url: format!("https://example.org/{odd}"),
            scores: Scores {
                overall: 1,
                performance: 2,
                seo: 3,
                search: Some(4),
                conversion: 5,
                branding: 6,
                presence: 7,
                security: Some(8),
                security_grade: Some("B+".to_owned()),
                accessibility: Some(9),
                best_practices: Some(10),
                mobile: Some(100),
            },
            measured: Measured {
                ttfb_ms: Some(11),
                fcp_est_ms: Some(12),
                lcp_est_ms: Some(13),
                total_bytes: Some(i64::from(i32::MAX) + 14),
                request_count: Some(15),
                http_version: Some("2".to_owned()),
                tls_version: Some("1.3".to_owned()),
                cert_expires_at: Some(Timestamp::from_micros(1_800_000_000_000_001)),
            },
            engine_version: odd.to_owned(),
            attempt,
            duration_ms: 16,
            previous_id: Some(AuditId::new(17)),
            has_screenshot: true,
        },
        redirects: json("[18]"),
        headers: json(r#"[["x-odd","😀"]]"#),
        raw_data: json(r#"{"checks":{}}"#),
        report: Json::from_value(&serde_json::json!({ "verdict": odd })).expect("valid"),
        screenshot_png: Some(vec![0, 1, 2, 255]),
    }
}

fn is_wanted(audit: &Audit, scope: Scope, filter: &AuditFilter) -> bool {
    let sees = match scope {
        Scope::All => true,
        Scope::User(user) => audit.user_id == user,
    };
    sees && filter.status.is_none_or(|status| audit.state.status == status)
        && filter.website_url.as_ref().is_none_or(|page| audit.website_url == *page)
}

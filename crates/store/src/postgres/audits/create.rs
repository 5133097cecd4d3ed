//! New audits, each with the job that runs it.

use roundsman_core::Timestamp;
use roundsman_core::audits::{Audit, AuditId, NewAudit, RecurringId, RequestKey, run_wish};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::CreateAuditAnswer;

use super::columns::read_audit;
use super::read::ONE;
use crate::postgres::error::Failure;
use crate::postgres::jobs::write_wishes;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::audits::options_to_text;

/// One request of a user at a time: the next one waits here, and then counts this one too.
pub(super) const LOCK_USER: &str = "-- lock_audits_of_user
SELECT pg_advisory_xact_lock(hashtextextended('roundsman.audits', $1::bigint))";

pub(super) const EARLIER_REQUEST: &str = "-- earlier_request
SELECT id, request_hash FROM roundsman.audit_records WHERE user_id = $1 AND request_key = $2";

pub(super) const UNFINISHED: &str = "-- audits_unfinished
SELECT count(*) FROM roundsman.audit_records WHERE user_id = $1 AND ended_as IS NULL";

const INSERT: &str = "-- insert_audit
INSERT INTO roundsman.audit_records
    (user_id, recurring_id, website_url, options, priority, created_at, request_key, request_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING id";

pub(super) const SET_JOB: &str = "-- set_audit_job
UPDATE roundsman.audit_records SET job_id = $2 WHERE id = $1";

pub(super) struct Create<'a> {
    pub(super) new: NewAudit,
    pub(super) unfinished_max: u32,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Create<'_> {
    type Answer = CreateAuditAnswer;

    async fn run(&self, session: &mut Session) -> Result<CreateAuditAnswer, Failure> {
        session.begin();
        let answer = self.create(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Create<'_> {
    async fn create(&self, session: &mut Session) -> Result<CreateAuditAnswer, Failure> {
        let user = self.new.user_id.get();
        session.query(LOCK_USER, &[&user]).await?;
        if let Some(request) = &self.new.request
            && let Some(earlier) = earlier(session, user, request).await?
        {
            return Ok(earlier);
        }
        let row = session.query_opt(UNFINISHED, &[&user]).await?.ok_or(Failure::Raced)?;
        let unfinished = u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX);
        if unfinished >= self.unfinished_max {
            return Ok(CreateAuditAnswer::TooMany { unfinished });
        }
        let audit = insert(session, &self.new, None, self.catalog, self.now).await?;
        Ok(CreateAuditAnswer::Created(Box::new(audit)))
    }
}

/// Writes an audit and its job in the caller's transaction.
pub(super) async fn insert(
    session: &mut Session,
    new: &NewAudit,
    recurring: Option<RecurringId>,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Audit, Failure> {
    let request = new.request.as_ref();
    let row = session
        .query_opt(
            INSERT,
            &[
                &new.user_id.get(),
                &recurring.map(RecurringId::get),
                &new.website_url,
                &options_to_text(new.options),
                &new.priority,
                &Time(now),
                &request.map(|request| request.key.as_str()),
                &request.map(|request| request.body_hash.as_slice()),
            ],
        )
        .await?
        .ok_or(Failure::Raced)?;
    let id = AuditId::new(row.try_get(0)?);
    let wish = run_wish(id, new.user_id, new.priority, new.attempts_max, now);
    let job = write_wishes(session, &[wish], catalog, now).await?;
    let job = job.first().ok_or(Failure::Raced)?.id.get();
    session.execute(SET_JOB, &[&id.get(), &job]).await?;
    found(session, id).await
}

async fn earlier(
    session: &mut Session,
    user: i64,
    request: &RequestKey,
) -> Result<Option<CreateAuditAnswer>, Failure> {
    let Some(row) = session.query_opt(EARLIER_REQUEST, &[&user, &request.key]).await? else {
        return Ok(None);
    };
    if row.try_get::<_, &[u8]>(1)? != request.body_hash {
        return Ok(Some(CreateAuditAnswer::KeyReused));
    }
    let audit = found(session, AuditId::new(row.try_get(0)?)).await?;
    Ok(Some(CreateAuditAnswer::Replayed(Box::new(audit))))
}

async fn found(session: &mut Session, id: AuditId) -> Result<Audit, Failure> {
    let row = session.query_opt(ONE, &[&id.get(), &None::<i64>]).await?;
    read_audit(&row.ok_or(Failure::Raced)?)
}

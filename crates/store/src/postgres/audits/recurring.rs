//! Audits that recur, and their alarms.

use roundsman_core::Timestamp;
use roundsman_core::audits::{
    AuditId, Due, NewAudit, NewRecurring, Recurring, RecurringChange, RecurringId, change, due,
    first, recur_wish,
};
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{ChangeRecurringAnswer, CreateRecurringAnswer, DueAnswer, Scope};

use super::columns::{read_audit, read_recurring};
use super::create::{LOCK_USER, insert};
use super::read::ONE as AUDIT;
use crate::postgres::effects::holds_lease;
use crate::postgres::error::Failure;
use crate::postgres::jobs::{user_of, write_wishes};
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::audits::{options_to_text, recurring_columns};

pub(super) const COUNT: &str = "-- recurring_count
SELECT count(*) FROM roundsman.recurring_audits WHERE user_id = $1";

const INSERT: &str = "-- insert_recurring
INSERT INTO roundsman.recurring_audits
    (user_id, website_url, schedule, time_zone, options, priority, created_at, next_at,
     last_audit_id, started, skipped)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, 0, 0)
RETURNING id";

pub(super) struct Create<'a> {
    pub(super) new: NewRecurring,
    pub(super) recurring_max: u32,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Create<'_> {
    type Answer = CreateRecurringAnswer;

    async fn run(&self, session: &mut Session) -> Result<CreateRecurringAnswer, Failure> {
        session.begin();
        let answer = self.create(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Create<'_> {
    async fn create(&self, session: &mut Session) -> Result<CreateRecurringAnswer, Failure> {
        let user = self.new.user_id.get();
        session.query(LOCK_USER, &[&user]).await?;
        let row = session.query_opt(COUNT, &[&user]).await?.ok_or(Failure::Raced)?;
        let recurring = u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX);
        if recurring >= self.recurring_max {
            return Ok(CreateRecurringAnswer::TooMany { recurring });
        }
        let made = first(RecurringId::new(0), self.new.clone(), self.now);
        let row = session
            .query_opt(
                INSERT,
                &[
                    &user,
                    &made.website_url,
                    &made.schedule.as_str(),
                    &made.schedule.time_zone(),
                    &options_to_text(made.options),
                    &made.priority,
                    &Time(made.created_at),
                    &made.next_at.map(Time),
                ],
            )
            .await?
            .ok_or(Failure::Raced)?;
        let made = Recurring { id: RecurringId::new(row.try_get(0)?), ..made };
        set_alarm(session, &made, self.catalog, self.now).await?;
        Ok(CreateRecurringAnswer::Created(Box::new(made)))
    }
}

macro_rules! one {
    ($name:literal, $lock:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            recurring_columns!(),
            "
  FROM roundsman.recurring_audits c
 WHERE c.id = $1 AND ($2::bigint IS NULL OR c.user_id = $2)",
            $lock
        )
    };
}

pub(super) const ONE: &str = one!("recurring", "");
pub(super) const LOCK: &str = one!("lock_recurring", " FOR NO KEY UPDATE");

pub(super) struct One {
    pub(super) scope: Scope,
    pub(super) id: RecurringId,
}

impl Operation for One {
    type Answer = Option<Recurring>;

    async fn run(&self, session: &mut Session) -> Result<Option<Recurring>, Failure> {
        let row = session.query_opt(ONE, &[&self.id.get(), &user_of(self.scope)]).await?;
        row.as_ref().map(read_recurring).transpose()
    }
}

macro_rules! list {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            recurring_columns!(),
            "
  FROM roundsman.recurring_audits c
 WHERE ",
            $which,
            " AND ($1::bigint IS NULL OR c.user_id = $1)
 ORDER BY ",
            $order,
            "
 LIMIT $3"
        )
    };
}

pub(super) const LIST_ALL: &str = list!("recurring_of_all", "c.id < $2", "c.id DESC");
/// As a range, like the lists of audits.
pub(super) const LIST_OF_USER: &str = list!(
    "recurring_of_user",
    "(c.user_id, c.id) < ($1, $2) AND c.user_id >= $1",
    "c.user_id DESC, c.id DESC"
);

pub(super) struct List {
    pub(super) scope: Scope,
    pub(super) before: Option<RecurringId>,
    pub(super) rows_max: u32,
}

impl Operation for List {
    type Answer = Vec<Recurring>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Recurring>, Failure> {
        let sql = match self.scope {
            Scope::All => LIST_ALL,
            Scope::User(_) => LIST_OF_USER,
        };
        let before = self.before.map_or(i64::MAX, RecurringId::get);
        let rows_max = i64::from(self.rows_max);
        let rows = session.query(sql, &[&user_of(self.scope), &before, &rows_max]).await?;
        rows.iter().map(read_recurring).collect()
    }
}

pub(super) struct Change<'a> {
    pub(super) scope: Scope,
    pub(super) id: RecurringId,
    pub(super) wanted: RecurringChange,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Change<'_> {
    type Answer = ChangeRecurringAnswer;

    async fn run(&self, session: &mut Session) -> Result<ChangeRecurringAnswer, Failure> {
        session.begin();
        let row = session.query_opt(LOCK, &[&self.id.get(), &user_of(self.scope)]).await?;
        let answer = match row {
            None => ChangeRecurringAnswer::NotFound,
            Some(row) => {
                let changed = change(read_recurring(&row)?, &self.wanted, self.now);
                update(session, &changed).await?;
                set_alarm(session, &changed, self.catalog, self.now).await?;
                ChangeRecurringAnswer::Changed(Box::new(changed))
            }
        };
        session.commit().await?;
        Ok(answer)
    }
}

const DELETE: &str = "-- delete_recurring
DELETE FROM roundsman.recurring_audits WHERE id = $1 AND ($2::bigint IS NULL OR user_id = $2)";

pub(super) struct Delete {
    pub(super) scope: Scope,
    pub(super) id: RecurringId,
}

impl Operation for Delete {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let gone = session.execute(DELETE, &[&self.id.get(), &user_of(self.scope)]).await?;
        session.commit().await?;
        Ok(gone > 0)
    }
}

pub(super) struct StartDue<'a> {
    pub(super) id: RecurringId,
    pub(super) priority: i16,
    pub(super) attempts_max: u32,
    pub(super) guard: LeaseRef,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for StartDue<'_> {
    type Answer = DueAnswer;

    async fn run(&self, session: &mut Session) -> Result<DueAnswer, Failure> {
        session.begin();
        let answer = self.start(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl StartDue<'_> {
    async fn start(&self, session: &mut Session) -> Result<DueAnswer, Failure> {
        if !holds_lease(session, Some(self.guard)).await? {
            return Ok(DueAnswer::LeaseLost);
        }
        let Some(row) = session.query_opt(LOCK, &[&self.id.get(), &None::<i64>]).await? else {
            return Ok(DueAnswer::Over);
        };
        let known = read_recurring(&row)?;
        let is_last_unfinished = is_unfinished(session, known.last_audit_id).await?;
        match due(known, is_last_unfinished, self.now) {
            Due::Paused => Ok(DueAnswer::Over),
            Due::NotBefore(at) => Ok(DueAnswer::NotBefore(at)),
            Due::Skip(changed) => {
                update(session, &changed).await?;
                Ok(DueAnswer::Skipped { next_at: changed.next_at.unwrap_or(Timestamp::MAX) })
            }
            Due::Start(changed) => {
                let new = NewAudit {
                    user_id: changed.user_id,
                    website_url: changed.website_url.clone(),
                    options: changed.options,
                    priority: self.priority,
                    attempts_max: self.attempts_max,
                    request: None,
                };
                let audit = insert(session, &new, Some(self.id), self.catalog, self.now).await?;
                let next_at = changed.next_at.unwrap_or(Timestamp::MAX);
                update(session, &Recurring { last_audit_id: Some(audit.id), ..changed }).await?;
                Ok(DueAnswer::Started { audit: Box::new(audit), next_at })
            }
        }
    }
}

async fn is_unfinished(session: &mut Session, audit: Option<AuditId>) -> Result<bool, Failure> {
    let Some(id) = audit else { return Ok(false) };
    let row = session.query_opt(AUDIT, &[&id.get(), &None::<i64>]).await?;
    let audit = row.as_ref().map(read_audit).transpose()?;
    Ok(audit.is_some_and(|audit| !audit.state.status.is_final()))
}

pub(super) const UPDATE: &str = "-- update_recurring
UPDATE roundsman.recurring_audits
   SET schedule = $2, time_zone = $3, next_at = $4, last_audit_id = $5, started = $6,
       skipped = $7
 WHERE id = $1";

async fn update(session: &mut Session, changed: &Recurring) -> Result<(), Failure> {
    let count = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    session
        .execute(
            UPDATE,
            &[
                &changed.id.get(),
                &changed.schedule.as_str(),
                &changed.schedule.time_zone(),
                &changed.next_at.map(Time),
                &changed.last_audit_id.map(AuditId::get),
                &count(changed.started),
                &count(changed.skipped),
            ],
        )
        .await?;
    Ok(())
}

async fn set_alarm(
    session: &mut Session,
    recurring: &Recurring,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    if let Some(next_at) = recurring.next_at {
        write_wishes(session, &[recur_wish(recurring.id, next_at)], catalog, now).await?;
    }
    Ok(())
}

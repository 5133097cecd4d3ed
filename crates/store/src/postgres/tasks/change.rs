//! What becomes of a task.

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{ChangeAnswer, TaskChange};
use roundsman_core::tasks::{Stepped, Task, TaskEvent};

use super::columns::{lock_task, update_task};
use crate::postgres::effects::{holds_lease, write_effects};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::rooms::append_one;
use crate::postgres::session::Session;
use crate::rows::tasks::{Decided, decide};

/// The row of a service is the lock of its slots: whoever wants one waits for whoever takes one.
const HOLD_SLOTS: &str = "-- hold_slots
INSERT INTO roundsman.task_slots AS known (service) VALUES ($1)
ON CONFLICT (service) DO UPDATE SET service = known.service";

pub(super) const SLOTS_TAKEN: &str = "-- slots_taken
SELECT count(*) FROM roundsman.tasks
 WHERE external_service = $1 AND stage IN ('sending', 'polling') AND no <> $2";

const SERVICE_OF: &str = "-- service_of
SELECT external_service FROM roundsman.tasks WHERE no = $1";

pub(super) struct Change<'a> {
    pub(super) asked: TaskChange,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Change<'_> {
    type Answer = ChangeAnswer;

    async fn run(&self, session: &mut Session) -> Result<ChangeAnswer, Failure> {
        session.begin();
        let answer = self.change(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Change<'_> {
    async fn change(&self, session: &mut Session) -> Result<ChangeAnswer, Failure> {
        if !holds_lease(session, self.asked.guard).await? {
            return Ok(ChangeAnswer::LeaseLost);
        }
        if !self.has_slot(session).await? {
            return Ok(ChangeAnswer::NoSlot);
        }
        let Some(known) = lock_task(session, self.asked.id).await? else {
            return Ok(ChangeAnswer::NotFound);
        };
        match decide(known, &self.asked, self.now) {
            Decided::Answered(answer) => Ok(answer),
            Decided::Write(stepped) => self.write(session, *stepped).await,
        }
    }

    async fn write(
        &self,
        session: &mut Session,
        Stepped { mut task, effects }: Stepped,
    ) -> Result<ChangeAnswer, Failure> {
        let mut appended = None;
        if task.status.is_over() {
            if let Some(update) = &self.asked.update {
                appended = append_one(session, update, self.catalog, self.now).await?;
            }
            let is_told = appended.is_some() || self.asked.is_told;
            task.applied_at = is_told.then_some(self.now);
        }
        update_task(session, &task).await?;
        let frames = write_effects(session, &[&effects], self.catalog, self.now).await?;
        Ok(ChangeAnswer::Changed { task: Box::<Task>::new(task), frames, appended })
    }

    /// Whether its service has a slot for it; one that has its slot keeps it.
    async fn has_slot(&self, session: &mut Session) -> Result<bool, Failure> {
        let Some(slots_max) = self.asked.slots_max else { return Ok(true) };
        if self.asked.event != TaskEvent::Sending {
            return Ok(true);
        }
        let id = self.asked.id.get();
        let Some(row) = session.query_opt(SERVICE_OF, &[&id]).await? else { return Ok(true) };
        let service: String = row.try_get(0)?;
        session.execute(HOLD_SLOTS, &[&service]).await?;
        let row = session.query_opt(SLOTS_TAKEN, &[&service, &id]).await?.ok_or(Failure::Raced)?;
        Ok(row.try_get::<_, i64>(0)? < i64::from(slots_max))
    }
}

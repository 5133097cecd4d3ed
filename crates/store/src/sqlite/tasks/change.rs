//! How tasks are made, and what becomes of them.

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{ChangeAnswer, TaskChange};
use roundsman_core::rooms::{AppendedUpdate, NewUpdate, ProjectId};
use roundsman_core::tasks::{NewTask, Stepped, Task, TaskEvent, TaskId, new_task, polling_wish};
use rusqlite::{Connection, params};

use super::columns::{insert_task, task, update_task};
use crate::rows::tasks::{Decided, decide};
use crate::sqlite::effects::{self, is_held};
use crate::sqlite::error::Result;
use crate::sqlite::jobs::enqueue::insert_jobs;
use crate::sqlite::rooms::append_one;
use crate::sqlite::time::At;

const NEXT_TASK: &str = "-- next_task
    SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tasks'), 0) + 1";

pub(super) fn create_all(
    conn: &Connection,
    catalog: &KindCatalog,
    wishes: Vec<NewTask>,
    now: Timestamp,
) -> Result<Vec<Task>> {
    let mut made = Vec::with_capacity(wishes.len());
    for wish in wishes {
        let no = conn.prepare_cached(NEXT_TASK)?.query_row([], |row| row.get(0))?;
        let Stepped { task, effects } = new_task(TaskId::new(no), wish, now);
        insert_task(conn, &task)?;
        effects::apply(conn, catalog, effects, now)?;
        made.push(task);
    }
    Ok(made)
}

pub(super) fn change_one(
    conn: &Connection,
    catalog: &KindCatalog,
    change: &TaskChange,
    now: Timestamp,
) -> Result<ChangeAnswer> {
    if let Some(guard) = change.guard
        && !is_held(conn, guard)?
    {
        return Ok(ChangeAnswer::LeaseLost);
    }
    let Some(known) = task(conn, change.id)? else { return Ok(ChangeAnswer::NotFound) };
    if change.event == TaskEvent::Sending && !has_slot(conn, &known, change.slots_max)? {
        return Ok(ChangeAnswer::NoSlot);
    }
    match decide(known, change, now) {
        Decided::Answered(answer) => Ok(answer),
        Decided::Write(stepped) => write(conn, catalog, *stepped, change, now),
    }
}

fn write(
    conn: &Connection,
    catalog: &KindCatalog,
    Stepped { mut task, effects }: Stepped,
    change: &TaskChange,
    now: Timestamp,
) -> Result<ChangeAnswer> {
    let mut appended = None;
    if task.status.is_over() {
        if let Some(update) = &change.update {
            appended = append_one(conn, catalog, update.clone(), now)?;
        }
        task.applied_at = (appended.is_some() || change.is_told).then_some(now);
    }
    update_task(conn, &task)?;
    let frames = effects::apply(conn, catalog, effects, now)?;
    Ok(ChangeAnswer::Changed { task: task.into(), frames, appended })
}

pub(super) const SLOTS_TAKEN: &str = "-- slots_taken
    SELECT count(*) FROM tasks INDEXED BY tasks_slots
     WHERE external_service = ?1 AND stage IN ('sending', 'polling') AND no <> ?2";

/// Whether its service has a slot for it; one that has its slot keeps it.
fn has_slot(conn: &Connection, task: &Task, slots_max: Option<u32>) -> Result<bool> {
    let Some(slots_max) = slots_max else { return Ok(true) };
    let taken: i64 = conn
        .prepare_cached(SLOTS_TAKEN)?
        .query_row(params![task.external_service, task.id.get()], |row| row.get(0))?;
    Ok(taken < i64::from(slots_max))
}

pub(super) const HINT: &str = "-- hint_task
    UPDATE tasks
       SET hinted_at = max(?3, coalesce(hinted_at, ?3)), next_poll_at = min(next_poll_at, ?3)
     WHERE external_service = ?1 AND external_task_id = ?2 AND stage = 'polling'
    RETURNING project_id";

pub(super) fn hint(
    conn: &Connection,
    catalog: &KindCatalog,
    service: &str,
    external_task_id: &str,
    now: Timestamp,
) -> Result<Option<ProjectId>> {
    let mut statement = conn.prepare_cached(HINT)?;
    let rows = statement
        .query_map(params![service, external_task_id, At(now)], |row| row.get::<_, String>(0))?;
    let projects = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let projects: Vec<ProjectId> = projects.into_iter().map(ProjectId::from_stored).collect();
    let wishes = projects.iter().map(|project| polling_wish(project, now)).collect();
    insert_jobs(conn, catalog, wishes, now)?;
    Ok(projects.into_iter().next())
}

pub(super) fn tell(
    conn: &Connection,
    catalog: &KindCatalog,
    id: TaskId,
    update: Option<NewUpdate>,
    now: Timestamp,
) -> Result<Option<AppendedUpdate>> {
    let known = task(conn, id)?;
    let is_untold = |task: &Task| task.status.is_over() && task.applied_at.is_none();
    let Some(known) = known.filter(is_untold) else { return Ok(None) };
    let has_update = update.is_some();
    let appended = match update {
        Some(update) => append_one(conn, catalog, update, now)?,
        None => None,
    };
    if appended.is_some() || !has_update {
        update_task(conn, &Task { applied_at: Some(now), ..known })?;
    }
    Ok(appended)
}

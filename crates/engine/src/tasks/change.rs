//! How a task takes a step: with the document, and with everybody told.

use roundsman_core::failpoint;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{ChangeAnswer, DocumentError, StoreError, TaskChange};
use roundsman_core::tasks::{COLLECT_KIND, Task, TaskEvent, TaskStage, completion, step};
use roundsman_core::webhooks::DELIVER_KIND;

use super::work::TaskWork;

impl TaskWork {
    /// Takes a step, if the task is still as it was seen and the lease, if one is needed, is held. If
    /// the step is its end, the document is told in the same transaction; if the document cannot be
    /// written now, the task ends all the same and the sweep tells it later.
    pub(super) async fn change(
        &self,
        seen: &Task,
        event: TaskEvent,
        guard: Option<LeaseRef>,
    ) -> Result<ChangeAnswer, StoreError> {
        let rules = self.options.rules;
        let now = self.clock.now();
        let mut change = TaskChange::new(seen.id, event.clone(), rules);
        (change.version, change.guard) = (Some(seen.version), guard);
        let end = step(seen.clone(), event, rules, now).ok().flatten();
        if let Some(completion) = end.and_then(|stepped| completion(&stepped.task)) {
            failpoint::hit("tasks.ending");
            match self.documents.completion_update(&completion).await {
                Ok(Some(update)) => change.update = Some(update),
                Ok(None) | Err(DocumentError::NoSuchRoom(_)) => change.is_told = true,
                Err(error) => self.not_told(seen, &error),
            }
        }
        let answer = self.tasks.change_task(change, now).await?;
        if let ChangeAnswer::Changed { task, appended, .. } = &answer {
            failpoint::hit("tasks.changed");
            if let Some(appended) = appended {
                self.documents.appended(appended.clone()).await;
                failpoint::hit("tasks.told");
            }
            self.follow_up(task);
        }
        Ok(answer)
    }

    /// What is worth doing at once after a step; if it is not done, somebody comes by later.
    fn follow_up(&self, task: &Task) {
        self.news.tell(task.id);
        match task.stage {
            TaskStage::Collecting => self.wake(COLLECT_KIND),
            TaskStage::Over => {
                let (id, status) = (task.id.to_string(), task.status.as_str());
                let (service, code) = (&task.external_service, task.error_code());
                self.metrics.task_ended(service, task.status, code);
                tracing::info!(task = id, service, status, code, "a task is over");
                self.wake(DELIVER_KIND);
            }
            TaskStage::Waiting | TaskStage::Sending | TaskStage::Polling => {}
        }
    }

    pub(super) fn not_told(&self, task: &Task, error: &DocumentError) {
        self.metrics.task_document_failed();
        let (id, project) = (task.id.to_string(), task.project_id.as_str());
        tracing::error!(task = id, project, "a document cannot be told of a task: {error}");
    }
}

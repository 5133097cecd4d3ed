//! Submitting tasks, and finding those whose answer was lost.
//!
//! Invariant: [`Submitted::Refused`] only where the service itself said so, or nothing was sent.

use std::time::Duration;

use roundsman_core::ports::{
    Cancelled, ExternalTask, FailureCode, LookedUp, Refusal, Submission, Submitted, TaskRequest,
    Unclear,
};
use serde_json::Value;
use tokio::time::timeout;

use super::HttpExecutor;
use super::call::Answered;
use super::errors::Told;
use super::pictures::NoPicture;
use super::pointer::first_text;
use super::template::{Pictures, Scope};

impl HttpExecutor {
    pub(super) async fn submit_one(&self, submission: &Submission) -> Submitted {
        let began = self.clock.monotonic();
        let time_max = submission.time_max.min(self.plan.capabilities.submit_time_max);
        let request = &submission.request;
        let params = match self.plan.params.settle(&request.task_type, &request.params) {
            Ok(params) => params,
            Err(reason) => return refused(FailureCode::InvalidParams, reason),
        };
        let pictures = self.pictures.fetch_all(&self.submit_places, &params);
        let pictures = match timeout(time_max, pictures).await {
            Ok(Ok(pictures)) => pictures,
            Ok(Err(NoPicture { code, message })) => return refused(code, message),
            Err(_) => return refused(FailureCode::Unavailable, "no pictures in time".to_owned()),
        };
        let callback_url = self.callback(submission.callback_url.as_deref());
        let scope = self.scope(&params, &request.key, &[], &pictures);
        let scope = Scope { callback_url: callback_url.as_deref(), ..scope };
        let ready = match self.ready(&self.plan.submit, &scope) {
            Ok(ready) => ready,
            Err(reason) => return refused(FailureCode::InvalidParams, reason),
        };
        let left = time_max.saturating_sub(self.clock.monotonic().saturating_sub(began));
        match self.ask(ready, left).await {
            Answered::Good(answer) => self.taken(&answer, &scope),
            Answered::Odd(reason) | Answered::Silent { was_sent: true, reason } => {
                Submitted::Unknown { reason }
            }
            Answered::Silent { was_sent: false, reason } => {
                refused(FailureCode::Unavailable, reason)
            }
            Answered::Wrong { status, told, .. } => self.not_taken(status, told, request).await,
        }
    }

    fn taken(&self, answer: &Value, scope: &Scope<'_>) -> Submitted {
        if self.plan.capabilities.is_synchronous {
            return match self.plan.result(answer, scope) {
                Ok(result) => Submitted::Completed(result),
                Err(failure) => Submitted::Failed(failure),
            };
        }
        match first_text(&self.plan.submit_id, answer) {
            Some(external_task_id) => Submitted::Accepted { external_task_id },
            None => Submitted::Unknown { reason: "an answer without an id".to_owned() },
        }
    }

    async fn not_taken(&self, status: u16, told: Told, request: &TaskRequest) -> Submitted {
        if told.code == FailureCode::Duplicate && self.plan.look_up.is_some() {
            return match self.look_up_one(request).await {
                LookedUp::Found { external_task_id } => Submitted::Accepted { external_task_id },
                _ => Submitted::Unknown { reason: told.message },
            };
        }
        // A gateway that lost its service answers in the service's place, and does not know.
        let is_the_service = (400..500).contains(&status) || told.is_own;
        if !is_the_service && !(300..400).contains(&status) {
            return Submitted::Unknown { reason: told.message };
        }
        Submitted::Refused(Refusal {
            code: told.code,
            message: told.message,
            is_retryable: told.is_retryable && status >= 200 && !(300..400).contains(&status),
            retry_after: told.after,
        })
    }

    pub(super) async fn look_up_one(&self, request: &TaskRequest) -> LookedUp {
        let Some(look_up) = &self.plan.look_up else { return LookedUp::Unsupported };
        let params = self.plan.params.settle(&request.task_type, &request.params);
        let pictures = Pictures::new();
        let ready = params.and_then(|params| {
            self.ready(&look_up.request, &self.scope(&params, &request.key, &[], &pictures))
        });
        let ready = match ready {
            Ok(ready) => ready,
            Err(message) => {
                let code = FailureCode::InvalidParams;
                return LookedUp::Unclear(Unclear { code, message, retry_after: None });
            }
        };
        match self.ask(ready, self.plan.capabilities.poll_time_max).await {
            Answered::Good(answer) if answer.is_object() => {
                match first_text(&look_up.id, &answer) {
                    Some(external_task_id) => LookedUp::Found { external_task_id },
                    None => LookedUp::Absent,
                }
            }
            Answered::Wrong { body, told, .. }
                if told.code == FailureCode::NotFound && body.is_object() =>
            {
                LookedUp::Absent
            }
            answered => LookedUp::Unclear(answered.unclear()),
        }
    }

    pub(super) async fn cancel_one(&self, task: &ExternalTask) -> Cancelled {
        let Some(cancel) = &self.plan.cancel else { return Cancelled::Unsupported };
        let params = self.plan.params.settle(&task.request.task_type, &task.request.params);
        let (ids, pictures) = ([task.external_task_id.as_str()], Pictures::new());
        let ready = params.and_then(|params| {
            self.ready(&cancel.request, &self.scope(&params, &task.request.key, &ids, &pictures))
        });
        let ready = match ready {
            Ok(ready) => ready,
            Err(message) => {
                let code = FailureCode::InvalidParams;
                return Cancelled::Unclear(Unclear { code, message, retry_after: None });
            }
        };
        match self.ask(ready, self.plan.capabilities.poll_time_max).await {
            Answered::Good(_) => Cancelled::Accepted,
            Answered::Wrong { status, .. }
                if status == 404 || cancel.too_late_http.contains(&status) =>
            {
                Cancelled::TooLate
            }
            answered => Cancelled::Unclear(answered.unclear()),
        }
    }
}

/// Nothing was sent.
fn refused(code: FailureCode, message: String) -> Submitted {
    let is_retryable = code.is_passing();
    Submitted::Refused(Refusal { code, message, is_retryable, retry_after: None::<Duration> })
}

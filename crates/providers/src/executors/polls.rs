//! Asking after tasks, and reading what is answered.

use roundsman_core::ports::{ExternalTask, FailureCode, Polled, TaskFailure, Unclear};
use serde_json::{Map, Value};
use url::Url;

use super::HttpExecutor;
use super::call::{Answered, odd};
use super::description::StatusWord;
use super::errors::shortened;
use super::plan::{EndsPlan, PollPlan};
use super::pointer::first_text;
use super::template::{Pictures, Scope};

/// How a task says that it is.
enum Says {
    Pending,
    Succeeded,
    Failed(Option<FailureCode>),
    Odd(String),
}

impl HttpExecutor {
    pub(super) async fn poll_one(&self, task: &ExternalTask) -> Polled {
        let Some(poll) = &self.plan.poll else { return Polled::NotFound };
        let params = match self.plan.params.settle(&task.request.task_type, &task.request.params) {
            Ok(params) => params,
            Err(reason) => return unclear(FailureCode::InvalidParams, reason),
        };
        let ids = [task.external_task_id.as_str()];
        let pictures = Pictures::new();
        let scope = self.scope(&params, &task.request.key, &ids, &pictures);
        let answer = match self.ask_after(poll, &scope).await {
            Ok(answer) => answer,
            Err(polled) => return polled,
        };
        self.read_task(poll, &answer, &scope).await
    }

    /// One request for all of them.
    pub(super) async fn poll_batch(&self, tasks: &[ExternalTask]) -> Vec<Polled> {
        let Some(poll) = &self.plan.poll else { return vec![Polled::NotFound; tasks.len()] };
        let ids: Vec<&str> = tasks.iter().map(|task| task.external_task_id.as_str()).collect();
        let (params, pictures) = (Map::new(), Pictures::new());
        let answer = match self.ask_after(poll, &self.scope(&params, "", &ids, &pictures)).await {
            Ok(answer) => answer,
            // What was said of all of them is evidence of none.
            Err(Polled::NotFound) => {
                let said = unclear(FailureCode::Odd, "none of a batch is known".to_owned());
                return vec![said; tasks.len()];
            }
            Err(polled) => return vec![polled; tasks.len()],
        };
        let mut all = Vec::new();
        for task in tasks {
            let (id, request) = ([task.external_task_id.as_str()], &task.request);
            let polled = match self.plan.params.settle(&request.task_type, &request.params) {
                Ok(params) => {
                    let scope = self.scope(&params, &request.key, &id, &pictures);
                    self.read_task(poll, &answer, &scope).await
                }
                Err(reason) => unclear(FailureCode::InvalidParams, reason),
            };
            all.push(polled);
        }
        all
    }

    async fn ask_after(&self, poll: &PollPlan, scope: &Scope<'_>) -> Result<Value, Polled> {
        let ready = self.ready(&poll.request, scope);
        let ready = ready.map_err(|reason| unclear(FailureCode::InvalidParams, reason))?;
        match self.ask(ready, self.plan.capabilities.poll_time_max).await {
            Answered::Good(answer) => Ok(answer),
            // Something else may answer under the service's name, and knows no task at all.
            Answered::Wrong { body, told, .. }
                if told.code == FailureCode::NotFound && body.is_object() =>
            {
                Err(Polled::NotFound)
            }
            answered => Err(Polled::Unclear(answered.unclear())),
        }
    }

    async fn read_task(&self, poll: &PollPlan, answer: &Value, scope: &Scope<'_>) -> Polled {
        let task = match &poll.items {
            None => answer,
            Some(items) => {
                // A list without the task says that there is none; no list says nothing.
                if items.at.first(answer).is_none_or(|list| !list.is_array()) {
                    return Polled::Unclear(odd("an answer without its list"));
                }
                match items.find(answer, scope.ids[0]) {
                    Some(task) => task,
                    None => return Polled::NotFound,
                }
            }
        };
        match poll.ends.says(task) {
            Says::Odd(message) => Polled::Unclear(odd(&message)),
            Says::Pending => Polled::Pending { progress_percent: poll.progress(task) },
            Says::Failed(code) => Polled::Failed(self.failure(poll, task, code)),
            Says::Succeeded => self.succeeded(task, scope).await,
        }
    }

    fn failure(&self, poll: &PollPlan, task: &Value, code: Option<FailureCode>) -> TaskFailure {
        let said = first_text(&poll.code, task);
        let words = first_text(&poll.message, task).map(|text| shortened(&text));
        let words = words.unwrap_or_default();
        let code = code.unwrap_or_else(|| self.plan.errors.of_task(said.as_deref(), &words));
        let message = match (said, words.as_str()) {
            (Some(said), "") => said,
            (None, "") => format!("the task ended as {code}"),
            (Some(said), words) => format!("{said}: {words}"),
            (None, words) => words.to_owned(),
        };
        TaskFailure { code, message }
    }

    async fn succeeded(&self, task: &Value, scope: &Scope<'_>) -> Polled {
        let Some(second) = &self.plan.result.second else {
            return polled(self.plan.result(task, scope));
        };
        let named = second.url.as_ref().and_then(|pointer| pointer.first(task)?.as_str());
        let named = named.and_then(|text| self.ready_at(Url::parse(text).ok()?));
        let ready = match named.map_or_else(|| self.ready(&second.request, scope), Ok) {
            Ok(ready) => ready,
            Err(reason) => return unclear(FailureCode::InvalidParams, reason),
        };
        match self.ask(ready, self.plan.capabilities.poll_time_max).await {
            Answered::Good(answer) => polled(self.plan.result(&answer, scope)),
            Answered::Wrong { status, body, told }
                if second.failed_http.contains(&status) && body.is_object() =>
            {
                Polled::Failed(TaskFailure { code: told.code, message: told.message })
            }
            answered => Polled::Unclear(answered.unclear()),
        }
    }
}

impl EndsPlan {
    fn says(&self, task: &Value) -> Says {
        match self {
            EndsPlan::Done { at, failed } => match at.first(task) {
                Some(Value::Bool(true)) => {
                    let has_failed = failed.as_ref().is_some_and(|at| at.first(task).is_some());
                    if has_failed { Says::Failed(None) } else { Says::Succeeded }
                }
                None | Some(Value::Bool(false)) if task.is_object() => Says::Pending,
                _ => Says::Odd("an answer that does not say whether it is done".to_owned()),
            },
            EndsPlan::Status { at, words } => {
                let Some(word) = at.first(task).and_then(Value::as_str) else {
                    return Says::Odd("an answer without a status".to_owned());
                };
                match words.get(&word.to_lowercase()) {
                    Some(StatusWord::Pending) => Says::Pending,
                    Some(StatusWord::Succeeded) => Says::Succeeded,
                    Some(StatusWord::Failed) => Says::Failed(None),
                    Some(StatusWord::Cancelled) => Says::Failed(Some(FailureCode::Cancelled)),
                    Some(StatusWord::Expired) => Says::Failed(Some(FailureCode::Expired)),
                    None => Says::Odd(format!("the status `{}` means nothing", shortened(word))),
                }
            }
        }
    }
}

impl PollPlan {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 100"
    )]
    fn progress(&self, task: &Value) -> Option<u8> {
        let (at, max) = self.progress.as_ref()?;
        let progress = at.first(task)?.as_f64()? / max * 100.0;
        progress.is_finite().then(|| progress.clamp(0.0, 100.0).round() as u8)
    }
}

fn polled(result: Result<roundsman_core::ports::TaskResult, TaskFailure>) -> Polled {
    match result {
        Ok(result) => Polled::Succeeded(result),
        Err(failure) => Polled::Failed(failure),
    }
}

fn unclear(code: FailureCode, message: String) -> Polled {
    Polled::Unclear(Unclear { code, message, retry_after: None })
}

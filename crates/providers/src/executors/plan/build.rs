//! From the words of a description to a plan, with everything that is wrong on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use roundsman_core::ports::{ExecutorCapabilities, FailureCode, Idempotency, PollSchedule};
use serde_json::Map;
use url::Url;

use super::{
    CancelPlan, EndsPlan, InlinePlan, ItemsPlan, LookUpPlan, NonePlan, Plan, PollPlan, RequestPlan,
    ResultPlan, SecondPlan, WebhookPlan,
};
use crate::executors::description::{
    Description, IdempotencyWord, Limits, PollShape, ResultShape, Schedule, VerifyWord,
    WebhookShape,
};
use crate::executors::errors::Errors;
use crate::executors::params::Params;
use crate::executors::pointer::Pointer;
use crate::executors::template::{Place, Scope, Source, TextTemplate};

/// A day: nothing that is waited for longer is waited for in one request.
const SECS_MAX: u64 = 86_400;
const BATCH_MAX: usize = 100;

/// Collects what is wrong.
struct Builder {
    problems: Vec<String>,
}

impl Plan {
    /// Checks a description. The error holds every problem, not only the first.
    pub(in crate::executors) fn new(description: &Description) -> Result<Self, Vec<String>> {
        let mut builder = Builder { problems: Vec::new() };
        let plan = builder.plan(description);
        match plan {
            Some(plan) if builder.problems.is_empty() => {
                builder.check_places(&plan);
                if builder.problems.is_empty() { Ok(plan) } else { Err(builder.problems) }
            }
            _ => Err(builder.problems),
        }
    }
}

impl Builder {
    fn plan(&mut self, description: &Description) -> Option<Plan> {
        let settings = description.settings.clone();
        let base = self.base("base_url", &description.base_url, &settings);
        let params = Params::new(description, &mut self.problems);
        let submit_id = self.pointers("submit.id", &description.submit.id);
        let submit = self.request("submit.request", &description.submit.request);
        let poll = description.poll.as_ref().and_then(|shape| self.poll(shape));
        if !description.submit.id.is_empty() && description.poll.is_none() {
            self.problems.push("poll: who gets an id asks after it".to_owned());
        }
        let look_up = description.look_up.as_ref().map(|shape| LookUpPlan {
            request: self.request("look_up.request", &shape.request),
            id: self.pointers("look_up.id", &shape.id),
        });
        let cancel = description.cancel.as_ref().map(|shape| CancelPlan {
            request: self.request("cancel.request", &shape.request),
            too_late_http: shape.too_late_http.clone(),
        });
        if description.idempotency == IdempotencyWord::LookUp && look_up.is_none() {
            self.problems.push("look_up: `idempotency = \"look_up\"` needs it".to_owned());
        }
        self.limits(&description.limits);
        let webhook = description.webhook.as_ref().map(|shape| self.webhook(shape));
        let capabilities = self.capabilities(description);
        Some(Plan {
            base: base?,
            headers: self.headers(&description.headers),
            result: self.result(&description.result, &settings),
            errors: Errors::new(&description.errors, &mut self.problems),
            limits: description.limits,
            settings,
            params,
            submit,
            submit_id,
            poll,
            look_up,
            cancel,
            webhook,
            capabilities,
        })
    }

    /// An address that an operator trusts; settings may be part of it.
    fn base(
        &mut self,
        place: &str,
        text: &str,
        settings: &BTreeMap<String, String>,
    ) -> Option<Url> {
        let scope = Scope {
            params: &Map::new(),
            settings,
            key: "",
            ids: &[],
            callback_url: None,
            pictures: &BTreeMap::new(),
            item: None,
        };
        let filled = TextTemplate::parse(text).and_then(|template| {
            template.text(&scope)?.ok_or_else(|| "it names a setting that is not set".to_owned())
        });
        let url = filled.and_then(|text| {
            let url = Url::parse(&text).ok().filter(is_plain);
            url.ok_or_else(|| format!("`{text}` is no http://host or https://host/path"))
        });
        url.map_err(|reason| self.problems.push(format!("{place}: {reason}"))).ok()
    }

    fn poll(&mut self, shape: &PollShape) -> Option<PollPlan> {
        let items = match (&shape.items, &shape.item_id) {
            (None, None) => None,
            (Some(at), Some(id)) => Some(ItemsPlan {
                at: self.pointer("poll.items", at),
                id: self.pointer("poll.item_id", id),
            }),
            _ => {
                self.problems.push("poll: `items` and `item_id` belong together".to_owned());
                None
            }
        };
        if !(1..=BATCH_MAX).contains(&shape.batch_max) || (shape.batch_max > 1 && items.is_none()) {
            self.problems.push(format!("poll.batch_max: 1 to {BATCH_MAX}, and with `items`"));
        }
        let ends = match (&shape.status, &shape.done) {
            (Some(at), None) => {
                if shape.statuses.is_empty() {
                    self.problems.push("poll.statuses: say what the words mean".to_owned());
                }
                let words = shape.statuses.iter();
                let words = words.map(|(word, means)| (word.to_lowercase(), *means)).collect();
                EndsPlan::Status { at: self.pointer("poll.status", at), words }
            }
            (None, Some(at)) => EndsPlan::Done {
                at: self.pointer("poll.done", at),
                failed: shape.failed.as_ref().map(|at| self.pointer("poll.failed", at)),
            },
            _ => {
                self.problems.push("poll: either `status` or `done`".to_owned());
                return None;
            }
        };
        let progress = shape.progress.as_ref();
        Some(PollPlan {
            request: self.request("poll.request", &shape.request),
            items,
            ends,
            progress: progress.map(|at| (self.pointer("poll.progress", at), shape.progress_max)),
            message: self.pointers("poll.message", &shape.message),
            code: self.pointers("poll.code", &shape.code),
        })
    }

    fn result(&mut self, shape: &ResultShape, settings: &BTreeMap<String, String>) -> ResultPlan {
        let inline = shape.inline.iter().map(|inline| InlinePlan {
            at: self.pointer("result.inline", &inline.at),
            data: self.pointer("result.inline", &inline.data),
            media_type: inline.media_type.as_ref().map(|at| self.pointer("result.inline", at)),
        });
        let inline = inline.collect();
        let none = shape.none.iter().map(|none| NonePlan {
            at: self.pointer("result.none", &none.at),
            values: none.values.clone(),
            code: self.code("result.none", &none.code),
        });
        let none = none.collect();
        let data = shape.data.iter();
        let data = data.map(|(name, at)| (name.clone(), self.pointer("result.data", at))).collect();
        let second = shape.request.as_ref().map(|second| SecondPlan {
            request: self.request("result.request.request", &second.request),
            url: second.url.as_ref().map(|at| self.pointer("result.request.url", at)),
            failed_http: second.failed_http.clone(),
        });
        let path = shape.path.as_ref().map(|path| {
            TextTemplate::parse(path).unwrap_or_else(|reason| {
                self.problems.push(format!("result.path: {reason}"));
                TextTemplate::EMPTY
            })
        });
        let storage = shape.storage_url.as_ref();
        ResultPlan {
            files: self.pointers("result.files", &shape.files),
            inline,
            path,
            data,
            needs: shape.needs,
            none,
            second,
            download_with_key: shape.download_with_key,
            storage: storage.and_then(|url| self.base("result.storage_url", url, settings)),
        }
    }

    fn webhook(&mut self, shape: &WebhookShape) -> WebhookPlan {
        let keys_url = shape.keys_url.as_ref();
        let keys_url =
            keys_url.and_then(|url| self.base("webhook.keys_url", url, &BTreeMap::new()));
        if shape.verify == VerifyWord::Fal && keys_url.is_none() {
            self.problems.push("webhook.keys_url: `verify = \"fal\"` needs it".to_owned());
        }
        if shape.id.is_empty() {
            self.problems.push("webhook.id: say where the task's id is".to_owned());
        }
        WebhookPlan {
            verify: shape.verify,
            id: self.pointers("webhook.id", &shape.id),
            tolerance: Duration::from_secs(shape.tolerance_secs),
            keys_url,
        }
    }

    fn capabilities(&mut self, description: &Description) -> ExecutorCapabilities {
        let limits = &description.limits;
        let is_synchronous = description.submit.id.is_empty();
        ExecutorCapabilities {
            is_synchronous,
            idempotency: match description.idempotency {
                IdempotencyWord::None => Idempotency::None,
                IdempotencyWord::LookUp => Idempotency::LookUp,
                IdempotencyWord::Repeat => Idempotency::Repeat,
            },
            batch_max: description.poll.as_ref().map_or(1, |poll| poll.batch_max),
            slots_max: (limits.slots_max > 0).then_some(limits.slots_max),
            schedule: self.schedule(&description.schedule),
            result_lifetime: description.result.lifetime_secs.map(Duration::from_secs),
            can_cancel: description.cancel.is_some(),
            // Until the secret that it needs is there.
            has_webhooks: false,
            submit_time_max: Duration::from_secs(limits.submit_secs_max),
            poll_time_max: Duration::from_secs(limits.poll_secs_max),
        }
    }

    fn schedule(&mut self, schedule: &Schedule) -> PollSchedule {
        let is_good = schedule.first_secs >= 0.5
            && schedule.max_secs >= schedule.first_secs
            && schedule.max_secs <= 3600.0
            && (1.0..=10.0).contains(&schedule.factor)
            && schedule.jitter_percent <= 100;
        if !is_good {
            let wish = "first_secs from 0.5 to max_secs, max_secs to 3600, factor 1 to 10, \
                        jitter_percent to 100";
            self.problems.push(format!("schedule: {wish}"));
            return PollSchedule::EVERY_TEN_SECS;
        }
        PollSchedule {
            first: Duration::from_secs_f64(schedule.first_secs),
            factor: schedule.factor,
            max: Duration::from_secs_f64(schedule.max_secs),
            jitter_percent: schedule.jitter_percent,
        }
    }

    fn limits(&mut self, limits: &Limits) {
        let times = [
            ("submit_secs_max", limits.submit_secs_max),
            ("poll_secs_max", limits.poll_secs_max),
            ("download_secs_max", limits.download_secs_max),
        ];
        for (name, secs) in times {
            if !(1..=SECS_MAX).contains(&secs) {
                self.problems.push(format!("limits.{name}: 1 to {SECS_MAX}"));
            }
        }
        let is_empty = limits.answer_bytes_max == 0
            || limits.picture_bytes_max == 0
            || limits.file_bytes_max == 0
            || limits.calls_max == 0;
        if is_empty {
            self.problems.push("limits: nothing can be done with a limit of 0".to_owned());
        }
    }

    fn headers(&mut self, shape: &BTreeMap<String, String>) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::new();
        for (name, value) in shape {
            match (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value)) {
                (Ok(name), Ok(value)) => headers.push((name, value)),
                _ => self.problems.push(format!("headers.{name}: no header can be this")),
            }
        }
        headers
    }

    fn request(
        &mut self,
        place: &str,
        shape: &crate::executors::description::RequestShape,
    ) -> RequestPlan {
        RequestPlan::build(place, shape, &mut self.problems)
    }

    fn pointers(&mut self, place: &str, texts: &[String]) -> Vec<Pointer> {
        texts.iter().map(|text| self.pointer(place, text)).collect()
    }

    fn pointer(&mut self, place: &str, text: &str) -> Pointer {
        Pointer::parse(text).unwrap_or_else(|reason| {
            self.problems.push(format!("{place}: {reason}"));
            Pointer::WHOLE
        })
    }

    fn code(&mut self, place: &str, text: &str) -> FailureCode {
        FailureCode::parse(text).unwrap_or_else(|| {
            self.problems.push(unknown_code(place, text));
            FailureCode::Provider
        })
    }

    /// Templates name only what there is.
    fn check_places(&mut self, plan: &Plan) {
        let mut requests = vec![("submit.request", &plan.submit)];
        requests.extend(plan.poll.as_ref().map(|poll| ("poll.request", &poll.request)));
        requests.extend(plan.look_up.as_ref().map(|look_up| ("look_up.request", &look_up.request)));
        requests.extend(plan.cancel.as_ref().map(|cancel| ("cancel.request", &cancel.request)));
        let second = plan.result.second.as_ref();
        requests.extend(second.map(|second| ("result.request.request", &second.request)));
        for (name, request) in requests {
            for place in request.places() {
                self.check_place(name, &place, plan);
            }
        }
        let names_params = |request: &RequestPlan| {
            request.places().iter().any(|place| matches!(place.source, Source::Param(_)))
        };
        let batched = plan.poll.as_ref().filter(|_| plan.capabilities.batch_max > 1);
        if batched.is_some_and(|poll| names_params(&poll.request)) {
            let reason = "a request for many tasks has the parameters of none";
            self.problems.push(format!("poll.request: {reason}"));
        }
        for place in plan.result.path.iter().flat_map(TextTemplate::places) {
            self.check_place("result.path", place, plan);
        }
    }

    fn check_place(&mut self, name: &str, place: &Place, plan: &Plan) {
        let has_id = !matches!(name, "submit.request" | "look_up.request");
        let reason = match &place.source {
            Source::Param(param) if !plan.params.has(param) => {
                format!("there is no parameter `{param}`; add it to [params]")
            }
            Source::Setting(setting) if !plan.settings.contains_key(setting) => {
                format!("there is no setting `{setting}`; add it to [settings]")
            }
            Source::Id | Source::Ids if !has_id => "the task has no id yet".to_owned(),
            Source::Item => "`{$item}` stands only below `$each`".to_owned(),
            _ => return,
        };
        self.problems.push(format!("{name}: {reason}"));
    }
}

/// With all that there are.
pub(in crate::executors) fn unknown_code(place: &str, text: &str) -> String {
    let known = FailureCode::ALL.map(FailureCode::as_str).join(", ");
    format!("{place}: there is no code `{text}`; there are {known}")
}

fn is_plain(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

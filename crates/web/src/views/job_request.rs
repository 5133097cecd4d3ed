//! How jobs are asked for, and what asking came to.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobId, JobKey, JobState, KindName};
use roundsman_core::ports::{Enqueued, ListFilter};
use roundsman_engine::FieldError;
use roundsman_engine::jobs::{AfterWish, EnqueueReport, JobWish};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{JobView, page_rows};
use crate::problem::Problem;

/// A wish for one job, or for several.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EnqueueRequest)]
#[serde(untagged, try_from = "EitherBody")]
pub(crate) enum EnqueueBody {
    One(WishBody),
    Many(WishesBody),
}

/// A wish for a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct WishBody {
    /// Words of a-z, 0-9, _ and -, joined by dots.
    #[schema(max_length = 64, example = "reports.render")]
    kind: String,
    /// What the job is about: of one kind and key at most one job waits and one runs.
    #[schema(max_length = 200, example = "customer-7")]
    key: Option<String>,
    /// What the worker needs to know: any JSON.
    #[schema(value_type = Option<serde_json::Value>, example = json!({"page": 4}))]
    payload: Option<Box<RawValue>>,
    /// One step is worth a minute of waiting.
    #[schema(minimum = -100, maximum = 100, default = 0)]
    priority: Option<i64>,
    /// Not before this time; without it, now.
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T12:00:00Z")]
    run_at: Option<Timestamp>,
    /// Without it, what the server's configuration says.
    #[schema(minimum = 1, example = 3)]
    max_attempts: Option<i64>,
    /// Whom it is for. Tenants of one kind are served in turn, and can have limits of their own.
    #[schema(max_length = 100, example = "acme")]
    tenant: Option<String>,
    /// Waits until the jobs with these numbers have ended. Only for a single job.
    #[schema(max_items = 1000, example = json!([17, 18]))]
    after: Option<Vec<i64>>,
    /// With `after`: what becomes of it when one of them fails or is cancelled: `cancel` (the default), `run` or `hold`.
    #[schema(example = "cancel")]
    on_failure: Option<String>,
}

/// Wishes for several jobs; all are written, or none.
#[derive(Debug, ToSchema)]
#[schema(as = JobsRequest)]
pub(crate) struct WishesBody {
    #[schema(min_items = 1)]
    jobs: Vec<WishBody>,
}

/// Both forms at once. Reading it directly, and not one form after the other, keeps the place of a
/// mistake and lets the payload through untouched.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EitherBody {
    jobs: Option<Vec<WishBody>>,
    kind: Option<String>,
    key: Option<String>,
    payload: Option<Box<RawValue>>,
    priority: Option<i64>,
    run_at: Option<Timestamp>,
    max_attempts: Option<i64>,
    tenant: Option<String>,
    after: Option<Vec<i64>>,
    on_failure: Option<String>,
}

impl TryFrom<EitherBody> for EnqueueBody {
    type Error = &'static str;

    fn try_from(body: EitherBody) -> Result<Self, Self::Error> {
        let EitherBody {
            jobs,
            kind,
            key,
            payload,
            priority,
            run_at,
            max_attempts,
            tenant,
            after,
            on_failure,
        } = body;
        let rest = key.is_some()
            || payload.is_some()
            || priority.is_some()
            || run_at.is_some()
            || max_attempts.is_some()
            || tenant.is_some()
            || after.is_some()
            || on_failure.is_some();
        match (jobs, kind) {
            (Some(jobs), None) if !rest => Ok(EnqueueBody::Many(WishesBody { jobs })),
            (Some(_), _) => Err("with `jobs` no other field is allowed"),
            (None, None) => Err("missing field `kind` (or `jobs`, for several)"),
            (None, Some(kind)) => {
                let wish = WishBody {
                    kind,
                    key,
                    payload,
                    priority,
                    run_at,
                    max_attempts,
                    tenant,
                    after,
                    on_failure,
                };
                Ok(EnqueueBody::One(wish))
            }
        }
    }
}

impl From<WishBody> for JobWish {
    fn from(body: WishBody) -> Self {
        JobWish {
            kind: body.kind,
            key: body.key,
            payload: body.payload.map(|raw| Box::<str>::from(raw).into_string()),
            priority: body.priority,
            run_at: body.run_at,
            max_attempts: body.max_attempts,
            tenant: body.tenant,
        }
    }
}

impl WishBody {
    /// What it waits for, if it does.
    pub(crate) fn take_after(&mut self) -> Option<AfterWish> {
        let (after, on_failure) = (self.after.take(), self.on_failure.take());
        (after.is_some() || on_failure.is_some())
            .then(|| AfterWish { after: after.unwrap_or_default(), on_failure })
    }
}

impl EnqueueBody {
    /// What a single wish waits for. Among several none may wait: their numbers are not known yet.
    pub(crate) fn take_after(&mut self) -> Result<Option<AfterWish>, Problem> {
        match self {
            EnqueueBody::One(wish) => Ok(wish.take_after()),
            EnqueueBody::Many(body) => {
                let waiting = body.jobs.iter_mut().position(|wish| wish.take_after().is_some());
                let refuse = |index| {
                    let reason = "only a job that is sent alone can wait for others";
                    Err(Problem::field(format!("jobs[{index}].after"), reason))
                };
                waiting.map_or(Ok(None), refuse)
            }
        }
    }

    /// The wishes, and whether it was a single one.
    pub(crate) fn into_wishes(self) -> (Vec<JobWish>, bool) {
        match self {
            EnqueueBody::One(wish) => (vec![wish.into()], true),
            EnqueueBody::Many(body) => (body.jobs.into_iter().map(Into::into).collect(), false),
        }
    }
}

/// What became of a wish, or of several.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnqueueAnswer)]
#[serde(untagged)]
pub(crate) enum EnqueueView {
    One(Box<EnqueuedView>),
    Many(EnqueuedBatchView),
}

/// What became of one wish.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnqueuedJob)]
pub(crate) struct EnqueuedView {
    #[schema(example = 17)]
    pub(crate) id: i64,
    /// It joined a job with its key that was waiting already.
    pub(crate) coalesced: bool,
    /// The same request was carried out before; this is its answer.
    pub(crate) replayed: bool,
    /// The job as it is now; `null` if it is past its retention by now.
    pub(crate) job: Option<JobView>,
}

/// What became of several wishes, in their order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnqueuedJobs)]
pub(crate) struct EnqueuedBatchView {
    jobs: Vec<EnqueuedItemView>,
    /// The same request was carried out before; this is its answer.
    replayed: bool,
}

/// What became of one of several wishes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnqueuedItem)]
pub(crate) struct EnqueuedItemView {
    #[schema(example = 17)]
    id: i64,
    /// It joined a job with its key that was waiting already.
    coalesced: bool,
}

impl From<&EnqueueReport> for EnqueuedBatchView {
    fn from(report: &EnqueueReport) -> Self {
        let one = |job: &Enqueued| EnqueuedItemView { id: job.id.get(), coalesced: job.coalesced };
        EnqueuedBatchView { jobs: report.jobs.iter().map(one).collect(), replayed: report.replayed }
    }
}

/// Which jobs to list. All conditions must hold.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobListQuery {
    /// Only this kind.
    #[param(example = "reports.render")]
    kind: Option<String>,
    /// Only this key.
    key: Option<String>,
    /// Only this state.
    #[param(value_type = Option<super::job::JobStateView>)]
    state: Option<String>,
    /// Only keys that begin with this.
    key_prefix: Option<String>,
    /// Only failed jobs with this text in the code or message of their error, to the letter.
    #[param(example = "timeout")]
    error: Option<String>,
    /// Only jobs with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Jobs on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A checked query: the condition, where the page starts, how large it is.
pub(crate) type JobPage = (ListFilter, Option<JobId>, u32);

impl JobListQuery {
    pub(crate) fn check(self) -> Result<JobPage, Problem> {
        let mut problems = Vec::new();
        let mut refuse = |field: &str, error: &dyn std::fmt::Display| {
            problems.push(FieldError::new(field, error.to_string()));
        };
        let kind = self.kind.map(|text| KindName::new(&text).map_err(|e| refuse("kind", &e)));
        let key = self.key.map(|text| JobKey::new(&text).map_err(|e| refuse("key", &e)));
        let state = self.state.map(|text| JobState::parse(&text).map_err(|e| refuse("state", &e)));
        if !problems.is_empty() {
            return Err(Problem::invalid(problems));
        }
        let filter = ListFilter {
            kind: kind.and_then(Result::ok),
            key: key.and_then(Result::ok),
            state: state.and_then(Result::ok),
            error: self.error,
            key_prefix: self.key_prefix,
            ..ListFilter::default()
        };
        Ok((filter, self.before.map(JobId::new), page_rows(self.limit)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<EnqueueBody, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn one_wish_or_several_but_not_both() {
        assert!(matches!(parse(r#"{"kind":"a","payload":{"x":[1]}}"#), Ok(EnqueueBody::One(_))));
        assert!(matches!(
            parse(r#"{"jobs":[{"kind":"a"},{"kind":"b"}]}"#),
            Ok(EnqueueBody::Many(_))
        ));
        for (text, reason) in [
            (r#"{"jobs":[],"kind":"a"}"#, "no other field"),
            (r#"{"jobs":[],"priority":1}"#, "no other field"),
            ("{}", "missing field `kind`"),
            (r#"{"jobs":[{}]}"#, "missing field `kind`"),
            (r#"{"kind":"a","payloads":1}"#, "unknown field `payloads`"),
            (r#"{"jobs":[{"kind":"a","jobs":[]}]}"#, "unknown field `jobs`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_payload_keeps_its_letters() {
        let (wishes, single) =
            parse(r#"{"kind":"a","payload": {"b" :1.10, "a":9e99}}"#).unwrap().into_wishes();
        assert!(single);
        assert_eq!(wishes[0].payload.as_deref(), Some(r#"{"b" :1.10, "a":9e99}"#));
    }
}

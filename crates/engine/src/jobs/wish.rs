//! A wish for a job as it comes from outside, and how it is checked.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobKey, Json, KindCatalog, KindName, NewJob, Tenant};
use roundsman_core::limits::PRIORITY_MAX;
use roundsman_core::users::UserId;

use super::JobLimits;
use crate::{Error, FieldError};

/// What a caller asks for. Nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct JobWish {
    pub kind: String,
    pub key: Option<String>,
    /// JSON text; absent means `null`.
    pub payload: Option<String>,
    pub priority: Option<i64>,
    pub run_at: Option<Timestamp>,
    pub max_attempts: Option<i64>,
    pub tenant: Option<String>,
}

/// Who asks, as far as checking is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) user_id: UserId,
    /// Whether they may ask for built-in kinds.
    pub(super) operator: bool,
}

/// Checks all wishes and reports every problem at once.
pub(super) fn check_wishes(
    wishes: Vec<JobWish>,
    asker: Asker,
    catalog: &KindCatalog,
    limits: &JobLimits,
    now: Timestamp,
) -> Result<Vec<NewJob>, Error> {
    let several = wishes.len() > 1;
    let mut jobs = Vec::with_capacity(wishes.len());
    let mut problems = Vec::new();
    for (index, wish) in wishes.into_iter().enumerate() {
        let prefix = if several { format!("jobs[{index}].") } else { String::new() };
        let mut check = WishCheck { prefix, problems: &mut problems, limits };
        if let Some(bytes) = wish.payload.as_ref().map(String::len)
            && bytes > limits.payload_bytes_max
        {
            let bytes_max = limits.payload_bytes_max;
            return Err(Error::TooLarge { field: "payload", bytes, bytes_max });
        }
        jobs.extend(check.run(wish, asker, catalog, now));
    }
    if problems.is_empty() { Ok(jobs) } else { Err(Error::Invalid(problems)) }
}

struct WishCheck<'a> {
    prefix: String,
    problems: &'a mut Vec<FieldError>,
    limits: &'a JobLimits,
}

impl WishCheck<'_> {
    /// Past this many problems the list helps nobody.
    const PROBLEMS_MAX: usize = 50;

    fn run(
        &mut self,
        wish: JobWish,
        asker: Asker,
        catalog: &KindCatalog,
        now: Timestamp,
    ) -> Option<NewJob> {
        let before = self.problems.len();
        let kind = KindName::new(&wish.kind).map_err(|e| self.problem("kind", &e)).ok();
        if kind.as_ref().is_some_and(|kind| kind.is_reserved() && !asker.operator) {
            let reason = "this kind belongs to Roundsman itself; choose a name of your own";
            self.problem("kind", &reason);
        }
        let key =
            wish.key.and_then(|key| JobKey::new(&key).map_err(|e| self.problem("key", &e)).ok());
        let payload = match wish.payload {
            None => Json::null(),
            Some(text) => Json::parse(&text)
                .map_err(|e| self.problem("payload", &e))
                .unwrap_or_else(|()| Json::null()),
        };
        let tenant = wish
            .tenant
            .and_then(|tenant| Tenant::new(&tenant).map_err(|e| self.problem("tenant", &e)).ok());
        let priority = self.priority(wish.priority);
        let asked = self.max_attempts(wish.max_attempts);
        if self.problems.len() > before {
            return None;
        }
        let kind = kind?;
        let max_attempts = asked.or(catalog.spec(&kind).max_attempts);
        let run_at = wish.run_at.unwrap_or(now);
        let user_id = asker.user_id;
        Some(NewJob { user_id, kind, key, payload, priority, run_at, max_attempts, tenant })
    }

    fn priority(&mut self, given: Option<i64>) -> i16 {
        let given = given.unwrap_or(0);
        match i16::try_from(given) {
            Ok(priority) if (-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority) => priority,
            _ => {
                let reason = format!("must be from {} to {PRIORITY_MAX}", -PRIORITY_MAX);
                self.problem("priority", &reason);
                0
            }
        }
    }

    fn max_attempts(&mut self, given: Option<i64>) -> Option<u32> {
        let given = given?;
        let max = self.limits.attempts_max;
        match u32::try_from(given) {
            Ok(attempts) if (1..=max).contains(&attempts) => Some(attempts),
            _ => {
                self.problem("max_attempts", &format!("must be from 1 to {max}"));
                None
            }
        }
    }

    fn problem(&mut self, field: &str, message: &dyn std::fmt::Display) {
        if self.problems.len() < Self::PROBLEMS_MAX {
            let field = format!("{}{field}", self.prefix);
            self.problems.push(FieldError::new(field, message.to_string()));
        }
    }
}

//! An alarm and the job that it is.

use serde_json::{Value, json};

use crate::Timestamp;
use crate::jobs::{Job, JobError, JobFacts, JobKey, Json, KindName, NewJob, WaitingJob};
use crate::rooms::{AlarmType, ProjectId, SNAPSHOT_KIND};
use crate::tasks::POLLING_KIND;
use crate::users::UserId;

/// Alarms that users name; the key is the project and the name.
pub const USER_ALARM_KIND: &str = "rooms.alarm";
/// An alarm that came to nothing this often in a row is said to be failing.
pub const FAILING_ATTEMPTS_MIN: u32 = 6;
/// A name is at most this long; with the project it is a key.
const NAME_BYTES_MAX: usize = 64;

/// What a user calls an alarm.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlarmName(String);

/// The text names no alarm of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an alarm's name is 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, _, -, . and :, and not one of the \
     room's own: task_polling, snapshot, idle"
)]
pub struct InvalidAlarmName;

impl AlarmName {
    pub fn new(text: &str) -> Result<Self, InvalidAlarmName> {
        let fits = !text.is_empty()
            && text.len() <= NAME_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b));
        let is_own = AlarmType::ALL.iter().any(|own| own.as_str() == text);
        if fits && !is_own { Ok(AlarmName(text.to_owned())) } else { Err(InvalidAlarmName) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What setting does to an alarm that is set already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetMode {
    /// The earlier time holds.
    #[default]
    Earliest,
    /// The new time holds.
    Replace,
}

/// An alarm to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmWish {
    pub project: ProjectId,
    /// Whose project it is: they are told.
    pub owner: UserId,
    pub name: AlarmName,
    pub at: Timestamp,
    /// Told when it fires.
    pub payload: Json,
    pub mode: SetMode,
}

/// An alarm that is set, or firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// As users know it.
    pub name: String,
    pub at: Timestamp,
    /// What it tells, of those that users have set.
    pub payload: Option<Json>,
    pub is_firing: bool,
    /// How often in a row it came to nothing.
    pub attempts_failed: u32,
    pub last_error: Option<JobError>,
}

impl Alarm {
    pub fn is_failing(&self) -> bool {
        self.attempts_failed >= FAILING_ATTEMPTS_MIN
    }
}

/// The key of a user's alarm. Names have no slash, so the last one parts them.
pub fn alarm_key(project: &ProjectId, name: &AlarmName) -> String {
    format!("{project}/{}", name.as_str())
}

/// The project and the name that a key was made of.
pub fn alarm_of_key(key: &JobKey) -> Option<(ProjectId, AlarmName)> {
    let (project, name) = key.as_str().rsplit_once('/')?;
    Some((ProjectId::new(project).ok()?, AlarmName::new(name).ok()?))
}

/// The job that an alarm is. Owned by the system: whose it is stands in its payload.
pub fn alarm_wish(wish: &AlarmWish) -> NewJob {
    let payload = json!({ "owner": wish.owner.get(), "payload": wish.payload.to_value() });
    NewJob {
        user_id: UserId::SYSTEM,
        kind: KindName::new(USER_ALARM_KIND).expect("a built-in kind has a valid name"),
        key: JobKey::new(&alarm_key(&wish.project, &wish.name)).ok(),
        payload: Json::from_stored(payload.to_string()),
        priority: 0,
        run_at: wish.at,
        max_attempts: None,
        tenant: None,
    }
}

/// Puts a wish in the place of the job that waits: as if it had never been set before.
pub fn replace(waiting: &mut WaitingJob, wish: NewJob, now: Timestamp) {
    waiting.not_before = None;
    let facts = &mut waiting.facts;
    facts.run_at = wish.run_at;
    facts.triggered_at = now;
    facts.payload = wish.payload;
    facts.attempt = 0;
}

/// Whether a job is an alarm of a room.
pub fn is_alarm_of(facts: &JobFacts, project: &ProjectId) -> bool {
    let Some(key) = &facts.key else { return false };
    match facts.kind.as_str() {
        POLLING_KIND | SNAPSHOT_KIND => key.as_str() == project.as_str(),
        USER_ALARM_KIND => alarm_of_key(key).is_some_and(|(of, _)| of == *project),
        _ => false,
    }
}

/// The alarm that a job is; `None` of one that is over, or is none.
pub fn alarm_of_job(job: &Job) -> Option<Alarm> {
    let facts = job.facts();
    let name = match facts.kind.as_str() {
        POLLING_KIND => AlarmType::TaskPolling.as_str().to_owned(),
        SNAPSHOT_KIND => AlarmType::Snapshot.as_str().to_owned(),
        USER_ALARM_KIND => alarm_of_key(facts.key.as_ref()?)?.1.0,
        _ => return None,
    };
    let payload = (facts.kind.as_str() == USER_ALARM_KIND).then(|| {
        let told = facts.payload.to_value().get("payload").cloned().unwrap_or(Value::Null);
        Json::from_stored(told.to_string())
    });
    let (at, is_firing, attempts_failed) = match job {
        Job::Waiting(waiting) => (waiting.due_at(), false, facts.attempt),
        // The attempt that is under way has not come to nothing yet.
        Job::Running(_) => (facts.run_at, true, facts.attempt.saturating_sub(1)),
        Job::Finished(_) => return None,
    };
    let last_error = facts.runs.runs.last().and_then(|run| run.error.clone());
    Some(Alarm { name, at, payload, is_firing, attempts_failed, last_error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{JobId, first_wait};

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn wish(project: &str, name: &str) -> AlarmWish {
        AlarmWish {
            project: ProjectId::new(project).unwrap(),
            owner: UserId::new(3),
            name: AlarmName::new(name).unwrap(),
            at: at(60),
            payload: Json::parse(r#"{"a":1}"#).unwrap(),
            mode: SetMode::Earliest,
        }
    }

    #[test]
    fn a_room_s_own_alarms_cannot_be_named() {
        for good in ["wake", "Reminder-2", "a.b:c_d"] {
            assert!(AlarmName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "task_polling", "snapshot", "idle", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(AlarmName::new(bad), Err(InvalidAlarmName), "{bad:?}");
        }
    }

    #[test]
    fn a_job_shows_the_alarm_it_is() {
        for project in ["p", "p/q", "p/"] {
            let wish = wish(project, "wake");
            let waiting = first_wait(JobId::new(1), alarm_wish(&wish), at(0));
            assert!(is_alarm_of(&waiting.facts, &wish.project), "{project}");
            let other = ProjectId::new("p/q/wake").unwrap();
            assert!(!is_alarm_of(&waiting.facts, &other), "{project}");
            let alarm = alarm_of_job(&Job::Waiting(waiting)).unwrap();
            assert_eq!((alarm.name.as_str(), alarm.at), ("wake", at(60)));
            assert_eq!(alarm.payload, Some(wish.payload));
            assert!(!alarm.is_firing && !alarm.is_failing());
        }
    }

    #[test]
    fn an_alarm_that_keeps_failing_says_so() {
        let mut waiting = first_wait(JobId::new(1), alarm_wish(&wish("p", "wake")), at(0));
        waiting.facts.attempt = FAILING_ATTEMPTS_MIN;
        waiting.not_before = Some(at(90));
        let alarm = alarm_of_job(&Job::Waiting(waiting.clone())).unwrap();
        assert!(alarm.is_failing());
        assert_eq!(alarm.at, at(90), "it comes when its pause is over");
        replace(&mut waiting, alarm_wish(&wish("p", "wake")), at(80));
        assert_eq!((waiting.due_at(), waiting.facts.attempt), (at(60), 0));
    }
}

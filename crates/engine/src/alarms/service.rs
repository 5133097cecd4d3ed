//! The alarm service: what users ask for.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::alarms::{Alarm, AlarmName, AlarmWish, SetMode, USER_ALARM_KIND};
use roundsman_core::jobs::{Json, KindName, Lane};
use roundsman_core::ports::{AlarmStore, Clock, OpenRoomAnswer, RoomStore, Scope, TaskStore};
use roundsman_core::rooms::{AlarmType, ProjectId, Room, alarm_type};
use roundsman_core::users::UserId;
use serde_json::Value;

use crate::wake::Wakes;
use crate::{Error, FieldError};

/// What an alarm tells is at most this long.
pub const ALARM_PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// The farthest time that an alarm can be set to.
const AHEAD_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Alarms that are shown of one room: its own, and all that its users can set.
const SHOWN_MAX: u32 = 1000;

/// Sets, takes back and shows alarms. Cheap to clone.
#[derive(Clone)]
pub struct Alarms {
    pub alarms: Arc<dyn AlarmStore>,
    pub rooms: Arc<dyn RoomStore>,
    pub tasks: Arc<dyn TaskStore>,
    pub clock: Arc<dyn Clock>,
    pub wakes: Wakes,
    /// Alarms that the users of one room may have set.
    pub alarms_per_room_max: u32,
}

/// An alarm to be set, as it came.
#[derive(Debug, Clone, Default)]
pub struct AlarmRequest {
    pub name: String,
    pub at: Option<Timestamp>,
    pub after: Option<Duration>,
    pub payload: Value,
    pub mode: SetMode,
}

/// The alarms of a room, and what it is waiting for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownAlarms {
    pub alarm_type: AlarmType,
    pub alarms: Vec<Alarm>,
}

impl Alarms {
    /// Sets an alarm of a room, which is made if nobody has named it before. Durable when this returns.
    pub async fn set(
        &self,
        scope: Scope,
        project: &ProjectId,
        request: AlarmRequest,
    ) -> Result<ShownAlarms, Error> {
        let now = self.clock.now();
        let owner = self.owner(scope, project, now).await?;
        let wish = checked(project, owner, &request, now)?;
        let alarms_max = self.alarms_per_room_max;
        if !self.alarms.set_alarm(wish, alarms_max, now).await? {
            let said = format!("the room has {alarms_max} alarms already");
            return Err(Error::Invalid(vec![FieldError::new("name", said)]));
        }
        let kind = KindName::new(USER_ALARM_KIND).expect("a built-in kind has a valid name");
        // Whoever waits for the next alarm may have to wait shorter.
        self.wakes.signal([(Lane::of(UserId::SYSTEM, &kind), 1)]);
        self.list(scope, project).await
    }

    /// Takes an alarm back that a user has set.
    pub async fn cancel(&self, scope: Scope, project: &ProjectId, name: &str) -> Result<(), Error> {
        self.room(scope, project).await?;
        let missing = || Error::NotFound { what: "alarm" };
        let name = AlarmName::new(name).map_err(|_| missing())?;
        let now = self.clock.now();
        let is_cancelled = self.alarms.cancel_alarm(project.clone(), name, now).await?;
        if is_cancelled { Ok(()) } else { Err(missing()) }
    }

    /// The alarms of a room, its own and its users', by their times.
    pub async fn list(&self, scope: Scope, project: &ProjectId) -> Result<ShownAlarms, Error> {
        let room = self.room(scope, project).await?;
        let pending = self.tasks.tasks_pending(vec![project.clone()], 1).await?;
        let pending = pending.first().copied().unwrap_or_default();
        Ok(ShownAlarms {
            alarm_type: alarm_type(pending, room.is_dirty()),
            alarms: self.alarms.alarms(project.clone(), SHOWN_MAX).await?,
        })
    }

    async fn room(&self, scope: Scope, project: &ProjectId) -> Result<Room, Error> {
        let room = self.rooms.room(project.clone()).await?;
        let is_theirs = |room: &Room| match scope {
            Scope::All => true,
            Scope::User(user) => room.owner == user,
        };
        room.filter(is_theirs).ok_or(Error::NotFound { what: "room" })
    }

    /// Whose room it is: whoever asks, or for the operator whoever has named it.
    async fn owner(
        &self,
        scope: Scope,
        project: &ProjectId,
        now: Timestamp,
    ) -> Result<UserId, Error> {
        let Scope::User(user) = scope else { return Ok(self.room(scope, project).await?.owner) };
        match self.rooms.open_room(user, project.clone(), now).await? {
            OpenRoomAnswer::Open { room, .. } => Ok(room.owner),
            OpenRoomAnswer::Foreign | OpenRoomAnswer::NoSuchUser => {
                Err(Error::NotFound { what: "room" })
            }
        }
    }
}

impl std::fmt::Debug for Alarms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alarms").finish_non_exhaustive()
    }
}

fn checked(
    project: &ProjectId,
    owner: UserId,
    request: &AlarmRequest,
    now: Timestamp,
) -> Result<AlarmWish, Error> {
    let mut wrong = Vec::new();
    let mut note = |field: &str, message: String| wrong.push(FieldError::new(field, message));
    let name = AlarmName::new(&request.name).map_err(|error| note("name", error.to_string()));
    let at = match (request.at, request.after) {
        (Some(at), None) => at,
        (None, Some(after)) => now + after,
        _ => {
            note("at", "write either `at` or `after_secs`".to_owned());
            now
        }
    };
    if at > now + AHEAD_MAX {
        note("at", "is more than ten years ahead".to_owned());
    }
    let payload = Json::from_value(&request.payload);
    let payload = payload.map_err(|error| note("payload", error.to_string()));
    match (name, payload) {
        (Ok(name), Ok(payload)) if wrong.is_empty() => {
            let bytes = payload.as_str().len();
            if bytes > ALARM_PAYLOAD_BYTES_MAX {
                let bytes_max = ALARM_PAYLOAD_BYTES_MAX;
                return Err(Error::TooLarge { field: "payload", bytes, bytes_max });
            }
            let (project, mode) = (project.clone(), request.mode);
            Ok(AlarmWish { project, owner, name, at, payload, mode })
        }
        _ => Err(Error::Invalid(wrong)),
    }
}

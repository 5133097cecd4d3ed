//! Meetings in rooms between rows and the types of `roundsman_core`, and the small decisions about
//! them that both adapters must make alike.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::{Meeting, MeetingId};
use roundsman_core::effects::{Effects, Frame, Transition, Violation};
use roundsman_core::jobs::Json;
use roundsman_core::ports::{
    INBOX_PAYLOAD_BYTES_MAX, InboxEvent, InboxOutcome, LookWritten, NewInboxEvent, StoreError,
};
use roundsman_core::presence::{
    Closed, ClosedBy, DAILY, EndReason, Look, LookPlan, LookReport, Looks, PresenceMeeting,
    PresenceSession, PresenceStatus, RoomName, Schedule,
};
use roundsman_core::users::UserId;

use super::bots::{MEETING_ENTITY, MEETINGS};
use super::check::{LOG_MATCHES_STATE, ROW_CONSISTENT, violation};
use super::inconsistent;

pub(crate) const PRESENCE: &str = "presence";
pub(crate) const SESSIONS: &str = "presence_sessions";
pub(crate) const INBOX: &str = "inbox";

/// A meeting whose number of clients is not the number of its open sessions.
pub(crate) const CLIENTS_COUNTED: &str = "clients_counted";
/// A room in which two meetings are open.
pub(crate) const ROOM_ONCE: &str = "room_once";

/// What a meeting's number is until the database gives one.
pub(crate) const UNNUMBERED: MeetingId = MeetingId::new(0);

/// A row of `presence` with what the row of `meetings` has of it. Whether it is open follows from
/// the status and is not read back.
#[derive(Debug)]
pub(crate) struct PresenceColumns {
    pub(crate) meeting_id: i64,
    pub(crate) user_id: i64,
    pub(crate) room: String,
    pub(crate) room_url: Option<String>,
    /// `meetings.status`.
    pub(crate) status: String,
    pub(crate) starts_at: Option<Timestamp>,
    pub(crate) ends_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    /// `meetings.start_time`.
    pub(crate) started_at: Option<Timestamp>,
    /// `meetings.end_time`.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) end_reason: Option<String>,
    pub(crate) num_clients: i64,
    pub(crate) last_left_at: Option<Timestamp>,
    pub(crate) look_no: i64,
    pub(crate) looked_at: Option<Timestamp>,
    pub(crate) failures: i64,
    pub(crate) failing_since: Option<Timestamp>,
    pub(crate) failure: Option<String>,
    pub(crate) empty_since: Option<Timestamp>,
    pub(crate) gone_since: Option<Timestamp>,
}

impl PresenceColumns {
    pub(crate) fn into_meeting(self) -> Result<PresenceMeeting, StoreError> {
        let row = self.meeting_id;
        let status = PresenceStatus::parse(&self.status)
            .ok_or_else(|| inconsistent(MEETINGS, "status", row, format!("{:?}", self.status)))?;
        let schedule = match (self.starts_at, self.ends_at) {
            (Some(starts_at), Some(ends_at)) => Some(Schedule { starts_at, ends_at }),
            (None, None) => None,
            _ => {
                let reason = "only one end of a schedule is there".to_owned();
                return Err(inconsistent(PRESENCE, "ends_at", row, reason));
            }
        };
        Ok(PresenceMeeting {
            id: MeetingId::new(row),
            user_id: UserId::new(self.user_id),
            room: RoomName::from_stored(self.room),
            room_url: self.room_url,
            schedule,
            status,
            created_at: self.created_at,
            started_at: self.started_at,
            ended_at: self.ended_at,
            end_reason: end_reason_from_text(self.end_reason.as_deref(), row)?,
            num_clients: count("num_clients", row, self.num_clients)?,
            last_left_at: self.last_left_at,
            looks: Looks {
                last_no: self.look_no,
                looked_at: self.looked_at,
                failures: count("failures", row, self.failures)?,
                failing_since: self.failing_since,
                failure: self.failure,
                empty_since: self.empty_since,
                gone_since: self.gone_since,
            },
        })
    }
}

/// A word of `presence.end_reason`, if there is one.
pub(crate) fn end_reason_from_text(
    text: Option<&str>,
    row: i64,
) -> Result<Option<EndReason>, StoreError> {
    let Some(text) = text else { return Ok(None) };
    let reason = EndReason::parse(text);
    let unknown = || inconsistent(PRESENCE, "end_reason", row, format!("{text:?}"));
    reason.ok_or_else(unknown).map(Some)
}

/// A row of `presence_sessions`.
#[derive(Debug)]
pub(crate) struct SessionColumns {
    pub(crate) meeting_id: i64,
    pub(crate) session_id: String,
    pub(crate) user_id: Option<String>,
    pub(crate) user_name: Option<String>,
    pub(crate) joined_at: Timestamp,
    pub(crate) left_at: Option<Timestamp>,
    pub(crate) closed_by: Option<String>,
}

impl SessionColumns {
    pub(crate) fn into_session(self) -> Result<PresenceSession, StoreError> {
        let by = self.closed_by.as_deref();
        let closed = match (self.left_at, by.map(ClosedBy::parse)) {
            (None, None) => None,
            (Some(at), Some(Some(by))) => Some(Closed { at, by }),
            _ => {
                let reason = format!("{by:?} closed {:?}", self.session_id);
                return Err(inconsistent(SESSIONS, "closed_by", self.meeting_id, reason));
            }
        };
        Ok(PresenceSession {
            session_id: self.session_id,
            user_id: self.user_id,
            user_name: self.user_name,
            joined_at: self.joined_at,
            closed,
        })
    }
}

/// A row of `inbox`.
#[derive(Debug)]
pub(crate) struct InboxColumns {
    pub(crate) id: i64,
    pub(crate) service: String,
    pub(crate) event: String,
    pub(crate) kind: String,
    pub(crate) room: Option<String>,
    pub(crate) outcome: String,
    pub(crate) reason: Option<String>,
    pub(crate) payload: String,
    pub(crate) at: Timestamp,
}

impl InboxColumns {
    pub(crate) fn into_event(self) -> Result<InboxEvent, StoreError> {
        let wrong = |column, text: &str| inconsistent(INBOX, column, self.id, format!("{text:?}"));
        if self.service != DAILY {
            return Err(wrong("service", &self.service));
        }
        let outcome = InboxOutcome::parse(&self.outcome);
        let outcome = outcome.ok_or_else(|| wrong("outcome", &self.outcome))?;
        let event = NewInboxEvent {
            service: DAILY,
            event: self.event,
            kind: self.kind,
            room: self.room,
            outcome,
            reason: self.reason,
            payload: self.payload,
        };
        Ok(InboxEvent { id: self.id, event, at: self.at })
    }
}

/// The row of `meetings` of a new meeting in a room.
pub(crate) fn meeting_row(meeting: &PresenceMeeting) -> Meeting {
    Meeting {
        id: meeting.id,
        user_id: meeting.user_id,
        platform: DAILY.to_owned(),
        native_id: Some(meeting.room.as_str().to_owned()),
        status: meeting.status.as_str().to_owned(),
        container_id: None,
        start_time: meeting.started_at,
        end_time: meeting.ended_at,
        data: Json::from_stored("{}".to_owned()),
        created_at: meeting.created_at,
        updated_at: meeting.created_at,
    }
}

/// Whether the row of `meetings` has to be written. Most looks change nothing of it, and then it is
/// not touched, nor is its `updated_at`.
pub(crate) fn meeting_row_differs(before: &PresenceMeeting, after: &PresenceMeeting) -> bool {
    let shown = |meeting: &PresenceMeeting| (meeting.status, meeting.started_at, meeting.ended_at);
    shown(before) != shown(after)
}

/// The sessions that a look or a hint names: whoever asks the rules must know of them.
pub(crate) fn named_sessions(report: &LookReport) -> BTreeSet<String> {
    let hinted = report.hints.iter().filter_map(|hint| hint.session.clone());
    let seen = match &report.look {
        Look::Seen(participants) => participants.as_slice(),
        Look::Gone | Look::Failed { .. } => &[],
    };
    seen.iter().map(|participant| participant.session_id.clone()).chain(hinted).collect()
}

/// Its owner ends a meeting that is over for another reason: from now on it is theirs that it is
/// over, so that nobody who is seen opens it again. `None` if that is known.
pub(crate) fn ended_by_owner_too(meeting: &PresenceMeeting) -> Option<(PresenceMeeting, Effects)> {
    if meeting.end_reason == Some(EndReason::Deactivated) {
        return None;
    }
    let status = meeting.status.as_str();
    let step = Transition {
        entity: MEETING_ENTITY,
        entity_id: meeting.id.get(),
        from_state: Some(status.to_owned()),
        to_state: status.to_owned(),
        cause: EndReason::Deactivated.as_str().to_owned(),
        detail: None,
    };
    let ended = PresenceMeeting { end_reason: Some(EndReason::Deactivated), ..meeting.clone() };
    Some((ended, Effects { transitions: vec![step], ..Effects::default() }))
}

/// What is answered when a plan was written and its frames have their places.
pub(crate) fn written(plan: LookPlan, frames: Vec<Frame>) -> Box<LookWritten> {
    let LookPlan { meeting, hints, again_at, tally, .. } = plan;
    Box::new(LookWritten { meeting, tally, hints, again_at, frames })
}

/// Refuses to commit a number of clients that is not the number of open sessions.
pub(crate) fn assert_counted(meeting: &PresenceMeeting, counted: i64) -> Result<(), StoreError> {
    if i64::from(meeting.num_clients) == counted {
        return Ok(());
    }
    let reason = format!("{} were about to be written, {counted} are open", meeting.num_clients);
    Err(inconsistent(PRESENCE, "num_clients", meeting.id.get(), reason))
}

/// An event as it can be kept: cut, and without NUL, for which not every database has a place.
pub(crate) fn kept_event(event: NewInboxEvent) -> NewInboxEvent {
    let kept = |mut text: String| {
        text.retain(|c| c != '\0');
        text
    };
    let mut payload = kept(event.payload);
    payload.truncate(payload.floor_char_boundary(INBOX_PAYLOAD_BYTES_MAX));
    NewInboxEvent {
        service: event.service,
        event: kept(event.event),
        kind: kept(event.kind),
        room: event.room.map(kept),
        outcome: event.outcome,
        reason: event.reason.map(kept),
        payload,
    }
}

/// What `check` looks at of a meeting in a room.
#[derive(Debug)]
pub(crate) struct PresenceFacts {
    pub(crate) meeting_id: i64,
    /// The row's of `meetings`; `None` if there is none.
    pub(crate) status: Option<String>,
    pub(crate) open: bool,
    /// The row of `meetings` has an end.
    pub(crate) ended: bool,
    pub(crate) end_reason: Option<String>,
    pub(crate) num_clients: i64,
    /// How many of its sessions are open.
    pub(crate) counted: i64,
}

/// Compares meetings in rooms with the states that their logs lead to, and the columns that follow
/// from others with them.
pub(crate) fn check_presence(
    meetings: &[PresenceFacts],
    logged: &BTreeMap<(String, i64), String>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for facts in meetings {
        let subject = format!("{MEETING_ENTITY} {}", facts.meeting_id);
        if facts.num_clients != facts.counted {
            let explanation =
                format!("{} clients, {} open sessions", facts.num_clients, facts.counted);
            violations.push(violation(CLIENTS_COUNTED, subject.clone(), explanation));
        }
        let Some(status) = facts.status.as_deref().and_then(PresenceStatus::parse) else {
            let explanation = format!("its status is {:?}", facts.status);
            violations.push(violation(ROW_CONSISTENT, subject, explanation));
            continue;
        };
        if let Some(explanation) = contradiction(facts, status == PresenceStatus::Open) {
            violations.push(violation(ROW_CONSISTENT, subject.clone(), explanation));
        }
        let from_log = logged.get(&(MEETING_ENTITY.to_owned(), facts.meeting_id));
        if from_log.map(String::as_str) != Some(status.as_str()) {
            let from_log = from_log.map_or("nothing", String::as_str);
            let explanation = format!("the row says {}, the log {from_log}", status.as_str());
            violations.push(violation(LOG_MATCHES_STATE, subject, explanation));
        }
    }
    violations
}

/// What does not fit the status, if anything.
fn contradiction(facts: &PresenceFacts, open: bool) -> Option<String> {
    let ending = facts.end_reason.as_deref();
    let fits = facts.open == open
        && facts.ended != open
        && ending.is_some() != open
        && ending.is_none_or(|reason| EndReason::parse(reason).is_some())
        && (open || facts.counted == 0);
    let PresenceFacts { status, ended, counted, .. } = facts;
    (!fits).then(|| {
        format!(
            "is {status:?}, open: {}, has an end: {ended}, ended by {ending:?}, {counted} inside",
            facts.open
        )
    })
}

fn count(column: &'static str, row: i64, value: i64) -> Result<u32, StoreError> {
    u32::try_from(value)
        .map_err(|_| inconsistent(PRESENCE, column, row, format!("{value} is no count")))
}

#[cfg(test)]
mod tests;

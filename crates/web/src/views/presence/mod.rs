//! Meetings in video rooms: how they are asked for and shown.

mod attendance;
mod operator;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{PresenceFilter, PresencePage};
use roundsman_core::presence::{DAILY, EndReason, PresenceMeeting, RoomName};
use roundsman_engine::presence::{MeetingView, MeetingWish, RoomWish, TokenWish};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{next_before, page_rows};
use crate::problem::{Place, Problem};

pub(crate) use attendance::{
    PresenceExportView, PresenceTimelineView, SessionListQuery, SessionListView,
};
pub(crate) use operator::{
    DailyEventShape, InboxEventView, InboxListView, InboxQuery, SubscriptionView,
};

/// A meeting to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PresenceMeetingRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct PresenceMeetingBody {
    /// The name of the room; it may be left out if the provider is to make the room and to name it.
    #[schema(max_length = 128, example = "weekly-sync")]
    room: Option<String>,
    /// Where people find it. Of a room that the provider makes, this is what the provider says.
    #[schema(example = "https://example.daily.co/weekly-sync")]
    room_url: Option<String>,
    /// For a meeting that is planned: it ends at the earliest after `ends_at` if nobody comes.
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T12:00:00Z")]
    starts_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T13:00:00Z")]
    ends_at: Option<Timestamp>,
    /// Have the provider make the room first.
    create_room: Option<RoomBody>,
}

/// A room that the provider is to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RoomRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoomBody {
    /// Only who has a token may join.
    #[serde(default)]
    is_private: bool,
    /// Nobody joins after this.
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T14:00:00Z")]
    expires_at: Option<Timestamp>,
    /// How it may be recorded, as the provider calls it.
    #[schema(example = "raw-tracks")]
    recording: Option<String>,
}

/// Who is on their way, there or gone.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ConnectionRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectionBody {
    /// What the client calls this attempt to join: the same until it has left.
    #[schema(max_length = 128, example = "tab-7f3a")]
    pub(crate) connection_id: String,
}

/// A token to be made for one person.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RoomTokenRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoomTokenBody {
    /// Sessions of whoever joins with the token have this as their `user_id`.
    #[schema(example = "ada")]
    user_id: Option<String>,
    #[schema(example = "Ada")]
    user_name: Option<String>,
    /// May record, admit and send away others.
    #[serde(default)]
    is_owner: bool,
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T14:00:00Z")]
    expires_at: Option<Timestamp>,
}

/// Which meetings, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PresenceListQuery {
    /// Only those that go on, or only those that do not.
    active: Option<bool>,
    /// Only those in this room.
    #[param(example = "weekly-sync")]
    room: Option<String>,
    /// Only meetings with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Meetings on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A meeting in a video room.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PresenceMeeting)]
pub(crate) struct PresenceMeetingView {
    #[schema(example = 7)]
    id: i64,
    #[schema(example = 3)]
    user_id: i64,
    #[schema(example = "daily")]
    platform: &'static str,
    #[schema(example = "weekly-sync")]
    room: String,
    #[schema(example = "https://example.daily.co/weekly-sync")]
    room_url: Option<String>,
    /// `open` or `completed`.
    #[schema(example = "open")]
    status: &'static str,
    is_active: bool,
    /// How many sessions are open.
    #[schema(example = 2)]
    num_clients: u32,
    /// When a planned meeting is to take place.
    #[schema(value_type = Option<String>, format = DateTime)]
    starts_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    ends_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the first one came.
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// `everyone_left`, `never_used`, `schedule_over`, `room_gone` or `deactivated`.
    #[schema(example = "everyone_left")]
    end_reason: Option<&'static str>,
    /// When the last of those who left did.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_left_at: Option<Timestamp>,
    /// As of when this is known from the provider; `null` if it has not been asked yet.
    #[schema(value_type = Option<String>, format = DateTime)]
    fresh_at: Option<Timestamp>,
    /// Since when the provider has not answered about this room; nothing is changed meanwhile.
    #[schema(value_type = Option<String>, format = DateTime)]
    stale_since: Option<Timestamp>,
    /// Why it has not.
    stale_reason: Option<String>,
}

/// A page of meetings, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PresenceMeetingList)]
pub(crate) struct PresenceListView {
    meetings: Vec<PresenceMeetingView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// Somebody is expected.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Joining)]
pub(crate) struct JoiningView {
    #[schema(example = 7)]
    pub(crate) meeting_id: i64,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) joining_until: Timestamp,
}

/// A token for one person. It is here and nowhere else.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomToken)]
pub(crate) struct RoomTokenView {
    #[schema(example = 7)]
    pub(crate) meeting_id: i64,
    pub(crate) token: String,
}

/// It was done.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Done)]
pub(crate) struct DoneView {
    #[schema(example = "ok")]
    status: &'static str,
}

impl DoneView {
    pub(crate) const OK: DoneView = DoneView { status: "ok" };
}

impl From<PresenceMeetingBody> for MeetingWish {
    fn from(body: PresenceMeetingBody) -> Self {
        let PresenceMeetingBody { room, room_url, starts_at, ends_at, create_room } = body;
        let create_room = create_room.map(|RoomBody { is_private, expires_at, recording }| {
            RoomWish { is_private, expires_at, recording }
        });
        MeetingWish { room, room_url, starts_at, ends_at, create_room }
    }
}

impl From<RoomTokenBody> for TokenWish {
    fn from(body: RoomTokenBody) -> Self {
        let RoomTokenBody { user_id, user_name, is_owner, expires_at } = body;
        TokenWish { user_id, user_name, is_owner, expires_at }
    }
}

impl PresenceListQuery {
    pub(crate) fn check(self) -> Result<(PresenceFilter, PresencePage), Problem> {
        let PresenceListQuery { active, room, before, limit } = self;
        let room = room
            .map(|room| RoomName::new(&room))
            .transpose()
            .map_err(|error| Problem::field("room", error.to_string()).at(Place::Query))?;
        let rows_max = page_rows(limit).map_err(|problem| problem.at(Place::Query))?;
        let before = before.map(MeetingId::new);
        Ok((PresenceFilter { active, room }, PresencePage { before, rows_max }))
    }
}

impl From<&MeetingView> for PresenceMeetingView {
    fn from(view: &MeetingView) -> Self {
        let MeetingView { meeting, fresh_at } = view;
        PresenceMeetingView { fresh_at: *fresh_at, ..PresenceMeetingView::new(meeting) }
    }
}

impl PresenceMeetingView {
    fn new(meeting: &PresenceMeeting) -> Self {
        PresenceMeetingView {
            id: meeting.id.get(),
            user_id: meeting.user_id.get(),
            platform: DAILY,
            room: meeting.room.as_str().to_owned(),
            room_url: meeting.room_url.clone(),
            status: meeting.status.as_str(),
            is_active: meeting.is_active(),
            num_clients: meeting.num_clients,
            starts_at: meeting.schedule.map(|schedule| schedule.starts_at),
            ends_at: meeting.schedule.map(|schedule| schedule.ends_at),
            created_at: meeting.created_at,
            started_at: meeting.started_at,
            ended_at: meeting.ended_at,
            end_reason: meeting.end_reason.map(EndReason::as_str),
            last_left_at: meeting.last_left_at,
            fresh_at: meeting.looks.looked_at,
            stale_since: meeting.looks.failing_since,
            stale_reason: meeting.looks.failure.clone(),
        }
    }
}

impl PresenceListView {
    pub(crate) fn new(meetings: &[MeetingView], rows_max: u32) -> Self {
        let ids = meetings.iter().map(|view| view.meeting.id.get());
        PresenceListView {
            next_before: next_before(ids, rows_max),
            meetings: meetings.iter().map(Into::into).collect(),
        }
    }
}

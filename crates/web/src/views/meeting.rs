//! Meetings, in the shapes that clients of the Vexa API know, plus our own members.

use roundsman_core::bots::{BotStatus, MeetingId, Platform, check_language, meeting_body};
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::ports::{MeetingFilter, MeetingPage, MeetingRow};
use roundsman_engine::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::next_before;
use crate::extract::NO_PLATFORM;
use crate::problem::{Code, Place, Problem};

/// Pages of meetings are large unless asked otherwise: clients of older Vexa releases know no pages.
const MEETINGS_DEFAULT: u32 = PAGE_ROWS_MAX;

/// A meeting and what its bot is doing there.
#[derive(ToSchema)]
#[schema(as = Meeting)]
#[expect(dead_code, reason = "describes what meeting_body makes, for the OpenAPI document")]
pub(crate) struct MeetingShape {
    #[schema(example = 7)]
    id: i64,
    #[schema(example = 3)]
    user_id: i64,
    #[schema(example = "google_meet")]
    platform: String,
    /// `null` once the meeting was anonymised.
    #[schema(example = "abc-defg-hij")]
    native_meeting_id: Option<String>,
    #[schema(example = "https://meet.google.com/abc-defg-hij")]
    constructed_meeting_url: Option<String>,
    /// In Vexa's words: `requested`, `joining`, `awaiting_admission`, `active`, `stopping`,
    /// `completed` or `failed`.
    #[schema(example = "requested")]
    status: String,
    /// In ours: `reserved`, `starting`, `active`, `stopping`, `completed` or `failed`; `open` for a
    /// video room that nobody's bot attends.
    #[schema(example = "reserved")]
    state: String,
    bot_container_id: Option<String>,
    /// UTC, without a zone.
    #[schema(example = "2026-01-31T12:00:00.000000")]
    start_time: Option<String>,
    end_time: Option<String>,
    #[schema(value_type = Object)]
    data: Map<String, Value>,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    created_at: String,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    updated_at: String,
    /// Why it completed.
    #[schema(example = "stopped")]
    completion_reason: Option<String>,
    /// Where it was when it failed.
    #[schema(example = "joining")]
    failure_stage: Option<String>,
}

/// A page of meetings, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeetingList)]
pub(crate) struct MeetingListView {
    #[schema(value_type = Vec<MeetingShape>)]
    meetings: Vec<Value>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// What was done, in words.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageView {
    pub(crate) message: String,
}

/// Which meetings, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MeetingListQuery {
    /// Only this status, in Vexa's words or in ours.
    #[param(example = "active")]
    status: Option<String>,
    /// Only this platform.
    #[param(example = "google_meet")]
    platform: Option<String>,
    /// Only meetings with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Leave out this many; `before` is better, because pages do not shift.
    #[serde(default)]
    #[param(default = 0)]
    offset: u32,
    /// Meetings on a page.
    #[param(minimum = 1, maximum = 200, default = 200)]
    limit: Option<u32>,
}

/// Which part of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Only what has a smaller number: `next_before` of the page before.
    before: Option<i64>,
    /// Rows on a page.
    #[param(minimum = 1, maximum = 200, default = 200)]
    limit: Option<u32>,
}

/// What to change of a meeting.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MeetingChangeRequest)]
pub(crate) struct MeetingChangeBody {
    data: Option<MeetingDataBody>,
}

/// What people keep with a meeting; what is absent or `null` stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MeetingData)]
pub(crate) struct MeetingDataBody {
    #[schema(example = "Weekly sync")]
    name: Option<String>,
    #[schema(example = json!(["Ada", "Grace"]))]
    participants: Option<Vec<String>>,
    #[schema(example = json!(["en"]))]
    languages: Option<Vec<String>>,
    notes: Option<String>,
}

/// A meeting as answers show it.
pub(crate) fn meeting_view(row: &MeetingRow) -> Value {
    meeting_body(&row.meeting, row.bot.as_ref())
}

/// The status of a meeting in Vexa's words.
pub(crate) fn vexa_status(row: &MeetingRow) -> &'static str {
    roundsman_core::bots::vexa_status(&row.meeting, row.bot.as_ref())
}

/// The status of a meeting in ours.
pub(crate) fn state_word(row: &MeetingRow) -> String {
    let known = row.meeting.bot_status().map(BotStatus::as_str);
    known.unwrap_or(&row.meeting.status).to_owned()
}

impl MeetingListView {
    /// `rows` is a full page as it was read; what `wanted` leaves out of it is not shown.
    pub(crate) fn new(rows: &[MeetingRow], rows_max: u32, wanted: &StatusWanted) -> Self {
        let ids = rows.iter().map(|row| row.meeting.id.get());
        MeetingListView {
            next_before: next_before(ids, rows_max),
            meetings: rows.iter().filter(|row| wanted.takes(row)).map(meeting_view).collect(),
        }
    }
}

/// The tables know one word for what Vexa's clients know two for.
#[derive(Debug)]
pub(crate) struct StatusWanted(Option<&'static str>);

impl StatusWanted {
    fn new(text: Option<&str>) -> Self {
        let finer = ["joining", "awaiting_admission"];
        StatusWanted(finer.into_iter().find(|word| Some(*word) == text))
    }

    fn takes(&self, row: &MeetingRow) -> bool {
        self.0.is_none_or(|word| vexa_status(row) == word)
    }
}

impl MeetingListQuery {
    pub(crate) fn check(self) -> Result<(MeetingFilter, MeetingPage, StatusWanted), Problem> {
        let mut problems = Vec::new();
        let status = self.status.as_deref().and_then(|text| {
            let status = BotStatus::parse(text);
            let unknown = |_| problems.push(FieldError::new("status", "is no status"));
            status.map_err(unknown).ok()
        });
        let platform = self.platform.as_deref().and_then(|text| {
            let platform = Platform::parse(text);
            let unknown = |_| problems.push(FieldError::new("platform", NO_PLATFORM));
            platform.map_err(unknown).ok()
        });
        if !problems.is_empty() {
            return Err(Problem::invalid(problems).at(Place::Query));
        }
        let wanted = StatusWanted::new(self.status.as_deref());
        let page = PageQuery { before: self.before, limit: self.limit }.check()?;
        let filter = MeetingFilter { live: false, status, platform };
        Ok((filter, MeetingPage { skip: self.offset, ..page }, wanted))
    }
}

impl PageQuery {
    pub(crate) fn check(self) -> Result<MeetingPage, Problem> {
        let rows_max = page_rows(self.limit)?;
        Ok(MeetingPage { before: self.before.map(MeetingId::new), skip: 0, rows_max })
    }

    /// For lists of something else than meetings.
    pub(crate) fn check_plain(self) -> Result<(Option<i64>, u32), Problem> {
        Ok((self.before, page_rows(self.limit)?))
    }
}

fn page_rows(limit: Option<u32>) -> Result<u32, Problem> {
    let limit = limit.or(Some(MEETINGS_DEFAULT));
    super::page_rows(limit).map_err(|problem| problem.at(Place::Query))
}

impl MeetingChangeBody {
    /// The members to merge into the meeting's data.
    pub(crate) fn check(self) -> Result<Map<String, Value>, Problem> {
        let mut members = Map::new();
        let Some(data) = self.data else { return Err(nothing()) };
        let mut add = |name: &str, value: Option<Value>| {
            value.and_then(|value| members.insert(name.to_owned(), value));
        };
        for (index, code) in data.languages.iter().flatten().enumerate() {
            let field = format!("data.languages[{index}]");
            check_language(code).map_err(|error| Problem::field(field, error.to_string()))?;
        }
        add("name", data.name.map(Value::from));
        add("participants", data.participants.map(Value::from));
        add("languages", data.languages.map(Value::from));
        add("notes", data.notes.map(Value::from));
        if members.is_empty() { Err(nothing()) } else { Ok(members) }
    }
}

fn nothing() -> Problem {
    Problem::new(Code::NoData, "No data provided for update.")
}

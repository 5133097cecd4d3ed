//! What goes over the wire: the shapes of requests and answers, and how domain types become them.
//!
//! Invariant: a domain type is never serialised as it is. Changing a rule must not change the API
//! by accident, and every shape here is in the OpenAPI document.

mod alarms;
mod audits;
mod authorize;
mod batch;
mod bot;
mod bulk;
mod callback;
mod gate;
mod health;
mod ingest;
mod job;
mod job_request;
mod lease;
mod meeting;
mod presence;
mod problem;
mod recordings;
mod rooms;
mod schedule;
mod share;
mod status;
mod tasks;
mod transcript;
mod user;
mod webhook;
mod worker;

use roundsman_core::jobs::Json;
use roundsman_core::limits::PAGE_ROWS_MAX;
use serde_json::value::RawValue;

use crate::problem::Problem;

pub(crate) use alarms::{AlarmBody, AlarmListView};
pub(crate) use audits::{
    AuditBody, AuditHistoryView, AuditListQuery, AuditListView, AuditReportView, AuditView,
    RecurringAuditBody, RecurringAuditChangeBody, RecurringAuditListView, RecurringAuditQuery,
    RecurringAuditView,
};
pub(crate) use authorize::{AuthorizeBody, AuthorizeView};
pub(crate) use batch::{BatchBody, BatchMadeView, BatchView};
pub(crate) use bot::{
    ActiveBotsView, BotStatusesView, ConfigBody, ConfigView, StartBody, StopBody, StopView,
    TargetConfigBody,
};
pub(crate) use bulk::{BulkBody, BulkView, FilterBody, ImportView, line_of, read_line};
pub(crate) use callback::{
    BeatBody, CallbackView, ExitedBody, JoinedBody, StageBody, StartedBody, VexaCallbackBody,
};
pub(crate) use gate::{GateListView, GateQuery, GateView, LimitsBody};
pub(crate) use health::{CheckView, HealthView, ReadyView};
pub(crate) use ingest::{
    AckView, DeadLetterListView, IngestResultView, IngestedListView, IngestedView, MessageShape,
};
pub(crate) use job::{JobListView, JobSummaryView, JobView};
pub(crate) use job_request::{EnqueueBody, EnqueueView, EnqueuedView, JobListQuery};
pub(crate) use lease::{LeaseListView, LeasesQuery};
pub(crate) use meeting::{
    MeetingChangeBody, MeetingListQuery, MeetingListView, MeetingShape, MessageView, PageQuery,
    meeting_view, state_word, vexa_status,
};
pub(crate) use presence::{
    ConnectionBody, DailyEventShape, DoneView, InboxEventView, InboxListView, InboxQuery,
    JoiningView, PresenceExportView, PresenceListQuery, PresenceListView, PresenceMeetingBody,
    PresenceMeetingView, PresenceTimelineView, RoomTokenBody, RoomTokenView, SessionListQuery,
    SessionListView, SubscriptionView,
};
pub(crate) use problem::{ProblemView, ValidationProblemShape};
pub(crate) use recordings::{
    ConsentBody, ConsentListView, ConsentView, RecordingListQuery, RecordingListView, RecordingView,
};
pub(crate) use rooms::{
    DocumentTokenBody, DocumentTokenListView, DocumentTokenView, NewDocumentTokenView, PatchedView,
    RoomDocumentView, RoomListQuery, RoomListView, RoomView, TokenTimeBody, VersionBody,
    VersionDiffQuery, VersionDiffView, VersionListQuery, VersionListView, VersionView,
};
pub(crate) use schedule::{ScheduleBody, ScheduleListQuery, ScheduleListView, ScheduleView};
pub(crate) use share::{
    NewShareView, RenameBody, RewrittenView, SearchTermsQuery, SearchView, ShareListView,
    ShareQuery,
};
pub(crate) use status::StatusView;
pub(crate) use tasks::{
    BroadcastBody, BroadcastView, HintView, TaskBody, TaskListQuery, TaskListView, TaskView,
    TriggeredView,
};
pub(crate) use transcript::{
    EventsQuery, ExportQuery, ExportView, SegmentShape, TranscriptQuery, TranscriptShape,
    TranscriptView, segment_list,
};
pub(crate) use user::{
    IssuedTokenView, TokenQuery, TokenView, UserBody, UserChangeBody, UserDetailView, UserView,
    UsersQuery,
};
pub(crate) use webhook::{DeliveriesView, ReplayView, WebhookBody, WebhookUserView, WebhookView};
pub(crate) use worker::{
    ClaimBody, ClaimedView, CompleteBody, FailBody, HeartbeatBody, HeartbeatView, LeaseBody,
    ProgressBody, lease_ref,
};

/// A page of a list unless another size is asked for.
const PAGE_ROWS_DEFAULT: u32 = 50;
/// A file's name is at most this long, without its extension.
const FILE_NAME_CHARS_MAX: usize = 100;

/// Stored JSON as it is. What the database holds was checked when it came in; if a row was edited
/// into something else, `null` is shown rather than a broken answer.
fn raw(json: &Json) -> Box<RawValue> {
    RawValue::from_string(json.as_str().to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The size of a page that was asked for.
fn page_rows(limit: Option<u32>) -> Result<u32, Problem> {
    match limit {
        None => Ok(PAGE_ROWS_DEFAULT),
        Some(rows @ 1..=PAGE_ROWS_MAX) => Ok(rows),
        Some(_) => Err(Problem::field("limit", format!("must be from 1 to {PAGE_ROWS_MAX}"))),
    }
}

/// Where the next page starts: after a full page there may be more.
fn next_before(ids: impl ExactSizeIterator<Item = i64>, rows_max: u32) -> Option<i64> {
    let full = ids.len() >= rows_max as usize;
    ids.last().filter(|_| full)
}

/// A name that no file system and no header takes for anything else.
fn safe_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    text.chars().take(FILE_NAME_CHARS_MAX).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_harmless() {
        assert_eq!(safe_name("transcript-zoom-1234"), "transcript-zoom-1234");
        assert_eq!(safe_name("a/../b\"\r\n\u{202e}.exe"), "a----b-----exe");
        assert_eq!(safe_name(&"x".repeat(500)).len(), FILE_NAME_CHARS_MAX);
    }
}

//! Who is and was in a meeting: sessions, the timeline they make, and files of them.

use roundsman_core::Timestamp;
use roundsman_core::ports::SessionFilter;
use roundsman_core::presence::PresenceSession;
use roundsman_core::transcripts::csv_cell;
use roundsman_engine::presence::{MeetingExport, Timeline, TimelineEntry, TimelineWhat};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::PresenceMeetingView;
use crate::problem::{Place, Problem};
use crate::views::{page_rows, safe_name};

const CSV_HEADER: &str = "session_id,user_id,user_name,joined_at,left_at,left_by,duration_secs\r\n";
/// No cursor of ours is longer; a longer text is not worth looking at.
const CURSOR_BYTES_MAX: usize = 1024;

/// Which sessions, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionListQuery {
    /// Only of those who are there, or only of those who are not.
    open: Option<bool>,
    /// Only what comes after: `next_after` of the page before.
    after: Option<String>,
    /// Sessions on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A page of sessions, in the order in which they began.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PresenceSessionList)]
pub(crate) struct SessionListView {
    sessions: Vec<SessionView>,
    /// Send this as `after` for the next page; `null` after the last one.
    next_after: Option<String>,
}

/// A stay in a room.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PresenceSession)]
pub(crate) struct SessionView {
    /// The provider's: a new one whenever somebody joins.
    #[schema(example = "0c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f10")]
    session_id: String,
    /// What the token said with which they joined; `null` without one.
    #[schema(example = "ada")]
    user_id: Option<String>,
    #[schema(example = "Ada")]
    user_name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    joined_at: Timestamp,
    /// `null` while they are there.
    #[schema(value_type = Option<String>, format = DateTime)]
    left_at: Option<Timestamp>,
    /// What showed it: `event` (the provider said so), `poll` (they were not seen any more),
    /// `room_gone` or `deactivated`.
    #[schema(example = "event")]
    left_by: Option<&'static str>,
    /// Until now, while they are there.
    #[schema(example = 61.5)]
    duration_secs: f64,
}

/// Who came and went.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PresenceTimeline)]
pub(crate) struct PresenceTimelineView {
    meeting: PresenceMeetingView,
    /// In the order in which it happened.
    entries: Vec<TimelineEntryView>,
    /// There is nothing beyond the limit.
    is_whole: bool,
}

/// Somebody came or went.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PresenceTimelineEntry)]
struct TimelineEntryView {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `joined` or `left`.
    #[schema(example = "joined")]
    what: &'static str,
    /// What showed that they left.
    #[schema(example = "event")]
    left_by: Option<&'static str>,
    session_id: String,
    user_id: Option<String>,
    user_name: Option<String>,
    /// How many are there then.
    #[schema(example = 2)]
    num_clients: usize,
}

/// Everybody who was in a meeting.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PresenceExport)]
pub(crate) struct PresenceExportView {
    meeting: PresenceMeetingView,
    /// In the order in which they began.
    sessions: Vec<SessionView>,
    /// There is nothing beyond the limit.
    is_whole: bool,
    /// Until when sessions that are open are counted.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl SessionListQuery {
    pub(crate) fn check(self) -> Result<SessionFilter, Problem> {
        let SessionListQuery { open, after, limit } = self;
        let unknown =
            || Problem::field("after", "must be next_after of a page before").at(Place::Query);
        let after = after.map(|text| read_cursor(&text).ok_or_else(unknown)).transpose()?;
        let rows_max = page_rows(limit).map_err(|problem| problem.at(Place::Query))?;
        Ok(SessionFilter { open, after, rows_max })
    }
}

impl SessionListView {
    pub(crate) fn new(sessions: &[PresenceSession], rows_max: u32, now: Timestamp) -> Self {
        let is_full = sessions.len() >= rows_max as usize;
        SessionListView {
            next_after: sessions.last().filter(|_| is_full).map(cursor),
            sessions: sessions.iter().map(|session| SessionView::new(session, now)).collect(),
        }
    }
}

impl SessionView {
    /// Those that are open are counted until `now`.
    fn new(session: &PresenceSession, now: Timestamp) -> Self {
        let left_at = session.closed.map(|closed| closed.at);
        SessionView {
            session_id: session.session_id.clone(),
            user_id: session.user_id.clone(),
            user_name: session.user_name.clone(),
            joined_at: session.joined_at,
            left_at,
            left_by: session.closed.map(|closed| closed.by.as_str()),
            duration_secs: left_at.unwrap_or(now).since(session.joined_at).as_secs_f64(),
        }
    }

    /// What people call themselves can neither end a cell nor become a formula.
    fn row(&self) -> String {
        let text = |text: Option<&str>| text.map(csv_cell).unwrap_or_default();
        let cells = [
            text(Some(&self.session_id)),
            text(self.user_id.as_deref()),
            text(self.user_name.as_deref()),
            self.joined_at.to_string(),
            self.left_at.map(|at| at.to_string()).unwrap_or_default(),
            self.left_by.unwrap_or_default().to_owned(),
            format!("{:.3}", self.duration_secs),
        ];
        cells.join(",") + "\r\n"
    }
}

impl From<Timeline> for PresenceTimelineView {
    fn from(timeline: Timeline) -> Self {
        let Timeline { meeting, entries, is_whole } = timeline;
        let mut num_clients = 0usize;
        let view = |entry: TimelineEntry| {
            let TimelineEntry { at, what, session_id, user_id, user_name } = entry;
            let left_by = match what {
                TimelineWhat::Joined => {
                    num_clients += 1;
                    None
                }
                TimelineWhat::Left(by) => {
                    num_clients = num_clients.saturating_sub(1);
                    Some(by.as_str())
                }
            };
            let what = what.as_str();
            TimelineEntryView { at, what, left_by, session_id, user_id, user_name, num_clients }
        };
        let entries = entries.into_iter().map(view).collect();
        PresenceTimelineView { meeting: (&meeting).into(), entries, is_whole }
    }
}

impl From<&MeetingExport> for PresenceExportView {
    fn from(export: &MeetingExport) -> Self {
        let MeetingExport { meeting, sessions, is_whole, at } = export;
        PresenceExportView {
            meeting: meeting.into(),
            sessions: sessions.iter().map(|session| SessionView::new(session, *at)).collect(),
            is_whole: *is_whole,
            at: *at,
        }
    }
}

impl PresenceExportView {
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Without an ending.
    pub(crate) fn file_name(&self) -> String {
        safe_name(&format!("presence-{}-{}", self.meeting.id, self.meeting.room))
    }

    pub(crate) fn csv(&self) -> String {
        let rows = self.sessions.iter().map(SessionView::row);
        std::iter::once(CSV_HEADER.to_owned()).chain(rows).collect()
    }
}

/// The place of a session in the list, in letters that go through any address.
fn cursor(session: &PresenceSession) -> String {
    hex::encode(format!("{} {}", session.joined_at.as_micros(), session.session_id))
}

fn read_cursor(text: &str) -> Option<(Timestamp, String)> {
    let bytes = hex::decode(text).ok().filter(|_| text.len() <= CURSOR_BYTES_MAX)?;
    let plain = String::from_utf8(bytes).ok()?;
    let (micros, session_id) = plain.split_once(' ')?;
    let at = Timestamp::from_micros(micros.parse().ok()?);
    let is_ours = roundsman_core::presence::is_session_id(session_id);
    (is_ours && at <= Timestamp::MAX).then(|| (at, session_id.to_owned()))
}

#[cfg(test)]
mod tests {
    use roundsman_core::presence::{Closed, ClosedBy};

    use super::*;

    fn session(id: &str, name: &str) -> PresenceSession {
        PresenceSession {
            session_id: id.to_owned(),
            user_id: None,
            user_name: Some(name.to_owned()),
            joined_at: Timestamp::from_micros(1_769_860_800_000_000),
            closed: None,
        }
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let written = session("a b/ü😀", "x");
        let read = read_cursor(&cursor(&written)).unwrap();
        assert_eq!(read, (written.joined_at, written.session_id));
        let hex = |text: &str| hex::encode(text);
        for bad in [
            String::new(),
            "zz".to_owned(),
            "abc".to_owned(),
            hex("1"),
            hex("x a"),
            hex("1 "),
            hex("1 a\0"),
            hex(&format!("{} a", i64::MAX)),
            hex(&format!("1 {}", "a".repeat(2000))),
            "ff20".to_owned(),
        ] {
            assert_eq!(read_cursor(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_stays_in_its_cell_and_is_not_calculated() {
        let now = Timestamp::from_micros(1_769_860_861_500_000);
        let mut odd = session("=1+1", "=HYPERLINK(\"http://x\"),\r\n\"b\"");
        odd.user_id = Some("\t@SUM(A1)".to_owned());
        let row = SessionView::new(&odd, now).row();
        assert_eq!(
            row,
            "'=1+1,'\t@SUM(A1),\"'=HYPERLINK(\"\"http://x\"\"),\r\n\"\"b\"\"\",\
             2026-01-31T12:00:00.000000Z,,,61.500\r\n"
        );
    }

    #[test]
    fn who_has_left_is_counted_until_then() {
        let mut left = session("s", "Ada");
        let at = Timestamp::from_micros(1_769_860_802_000_000);
        left.closed = Some(Closed { at, by: ClosedBy::Poll });
        let view = SessionView::new(&left, Timestamp::MAX);
        assert_eq!(view.left_by, Some("poll"));
        assert!(view.row().ends_with(",2026-01-31T12:00:02.000000Z,poll,2.000\r\n"));
    }
}

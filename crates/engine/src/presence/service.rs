//! The service: what users and operators ask of presence.
//!
//! Invariant: it writes who is where in no case but one, when a meeting's owner ends it; whatever
//! else it is told is a reason to look.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{KindName, Lane};
use roundsman_core::ports::{
    EndAnswer, InboxEvent, InboxFilter, NewRoom, OpenAnswer, PresenceFilter, PresencePage, Scope,
    SessionFilter, StoreError, Subscription,
};
use roundsman_core::presence::{
    ClosedBy, EndReason, Hint, POLL_KIND, PresenceMeeting, PresenceSession, RoomName, poll_wish,
};
use roundsman_core::users::UserId;

use super::subscription::Subscriptions;
use super::wish::{MeetingWish, PresenceError, TokenWish, check_connection};
use super::work::{PresenceWork, enqueue};

/// Who says to be on their way is waited for this long.
pub const JOINING_FOR: Duration = Duration::from_secs(30);
/// Who says to be there is looked for after this.
pub const JOINED_LOOK_AFTER: Duration = Duration::from_secs(3);
/// Who says to have left is looked for after this: the provider still shows them for a moment.
pub const LEFT_LOOK_AFTER: Duration = Duration::from_secs(5);

/// Sessions read with one statement.
const SESSIONS_PER_STEP_MAX: u32 = 1000;

/// What the service is made of.
#[derive(Debug, Clone)]
pub struct PresenceDeps {
    pub work: PresenceWork,
    pub subscriptions: Subscriptions,
}

/// Makes, shows and ends meetings in video rooms. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Presence {
    deps: Arc<PresenceDeps>,
}

/// A meeting as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeetingView {
    pub meeting: PresenceMeeting,
    /// When the provider last said who is there, about this room or about all.
    pub fresh_at: Option<Timestamp>,
}

/// Who came and went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    pub meeting: MeetingView,
    /// In the order in which it happened.
    pub entries: Vec<TimelineEntry>,
    /// There is nothing beyond the limit.
    pub is_whole: bool,
}

/// Somebody came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    pub at: Timestamp,
    pub what: TimelineWhat,
    pub session_id: String,
    pub user_id: Option<String>,
    pub user_name: Option<String>,
}

/// What somebody did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimelineWhat {
    Joined,
    Left(ClosedBy),
}

impl TimelineWhat {
    pub fn as_str(self) -> &'static str {
        match self {
            TimelineWhat::Joined => "joined",
            TimelineWhat::Left(_) => "left",
        }
    }
}

/// A meeting with all its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeetingExport {
    pub meeting: MeetingView,
    /// In the order in which they began.
    pub sessions: Vec<PresenceSession>,
    /// There is nothing beyond the limit.
    pub is_whole: bool,
    /// Until when sessions that are open are counted.
    pub at: Timestamp,
}

impl MeetingExport {
    /// How long somebody stayed, until now if they are still there.
    pub fn duration(&self, session: &PresenceSession) -> Duration {
        let until = session.closed.map_or(self.at, |closed| closed.at);
        until.since(session.joined_at)
    }
}

impl Presence {
    pub fn new(deps: PresenceDeps) -> Self {
        Presence { deps: Arc::new(deps) }
    }

    /// Makes a meeting, in a room that the provider makes first if that is wished.
    pub async fn create(
        &self,
        user: UserId,
        wish: MeetingWish,
    ) -> Result<MeetingView, PresenceError> {
        let mut checked = wish.check(self.now()).map_err(PresenceError::Invalid)?;
        let room = match checked.create_room.take() {
            Some(new) => {
                let created = self.create_room(new).await?;
                checked.room_url = Some(created.1);
                created.0
            }
            None => checked.room.clone().ok_or(PresenceError::NotFound)?,
        };
        let work = self.work();
        match work.store.open_presence(checked.meeting(user, room), self.now()).await? {
            OpenAnswer::Opened(meeting) => {
                let poll = KindName::new(POLL_KIND).expect("a built-in kind has a valid name");
                work.wakes.signal([(Lane::of(UserId::SYSTEM, &poll), 1)]);
                Ok(MeetingView { meeting: *meeting, fresh_at: None })
            }
            OpenAnswer::RoomTaken { meeting } => Err(PresenceError::RoomTaken { meeting }),
            OpenAnswer::NoSuchUser => Err(PresenceError::NoSuchUser),
        }
    }

    pub async fn meeting(&self, scope: Scope, id: MeetingId) -> Result<MeetingView, PresenceError> {
        let meeting = self.work().store.presence_meeting(scope, id).await?;
        let meeting = meeting.ok_or(PresenceError::NotFound)?;
        let domain_look = self.work().store.last_domain_look().await?;
        Ok(view(meeting, domain_look))
    }

    /// Meetings, newest first.
    pub async fn meetings(
        &self,
        scope: Scope,
        filter: PresenceFilter,
        page: PresencePage,
    ) -> Result<Vec<MeetingView>, StoreError> {
        let rows_max = page.rows_max.clamp(1, self.work().limits.page_rows_max);
        let page = PresencePage { rows_max, ..page };
        let meetings = self.work().store.presence_meetings(scope, filter, page).await?;
        let domain_look = self.work().store.last_domain_look().await?;
        Ok(meetings.into_iter().map(|meeting| view(meeting, domain_look)).collect())
    }

    /// A page of a meeting's sessions, in the order in which they began.
    pub async fn sessions(
        &self,
        scope: Scope,
        id: MeetingId,
        filter: SessionFilter,
    ) -> Result<Vec<PresenceSession>, PresenceError> {
        self.meeting(scope, id).await?;
        let rows_max = filter.rows_max.clamp(1, self.work().limits.page_rows_max);
        let filter = SessionFilter { rows_max, ..filter };
        Ok(self.work().store.presence_sessions(id, filter).await?)
    }

    /// Everybody who was in a meeting.
    pub async fn export(
        &self,
        scope: Scope,
        id: MeetingId,
    ) -> Result<MeetingExport, PresenceError> {
        let meeting = self.meeting(scope, id).await?;
        let sessions_max = self.work().limits.export_sessions_max;
        let mut sessions: Vec<PresenceSession> = Vec::new();
        let is_whole = loop {
            let after = sessions.last().map(|last| (last.joined_at, last.session_id.clone()));
            let filter = SessionFilter { open: None, after, rows_max: SESSIONS_PER_STEP_MAX };
            let page = self.work().store.presence_sessions(id, filter).await?;
            let is_last = page.len() < SESSIONS_PER_STEP_MAX as usize;
            sessions.extend(page);
            if is_last || sessions.len() > sessions_max {
                break sessions.len() <= sessions_max;
            }
        };
        sessions.truncate(sessions_max);
        Ok(MeetingExport { meeting, sessions, is_whole, at: self.now() })
    }

    /// Who came and went, in the order in which it happened.
    pub async fn timeline(&self, scope: Scope, id: MeetingId) -> Result<Timeline, PresenceError> {
        let MeetingExport { meeting, sessions, is_whole, .. } = self.export(scope, id).await?;
        let mut entries: Vec<TimelineEntry> = sessions.into_iter().flat_map(entries_of).collect();
        entries.sort_by(|a, b| (a.at, a.what, &a.session_id).cmp(&(b.at, b.what, &b.session_id)));
        Ok(Timeline { meeting, entries, is_whole })
    }

    /// Ends a meeting for good. Ending one that is over changes nothing, except that nobody opens it
    /// again.
    pub async fn deactivate(
        &self,
        scope: Scope,
        id: MeetingId,
    ) -> Result<MeetingView, PresenceError> {
        match self.work().store.end_presence(scope, id, self.now()).await? {
            EndAnswer::Ended(written) => {
                self.work().announce(&written);
                Ok(view(written.meeting, None))
            }
            EndAnswer::WasOver(meeting) => Ok(view(*meeting, None)),
            EndAnswer::NotFound => Err(PresenceError::NotFound),
        }
    }

    /// Somebody is on their way: the meeting does not end for want of people meanwhile. Returns
    /// until when.
    pub async fn joining(
        &self,
        scope: Scope,
        id: MeetingId,
        connection: &str,
    ) -> Result<Timestamp, PresenceError> {
        let connection = check_connection(connection)?;
        let MeetingView { meeting, .. } = self.meeting(scope, id).await?;
        let until = self.now() + JOINING_FOR;
        if meeting.is_active() && self.work().store.note_joining(id, connection, until).await? {
            return Ok(until);
        }
        Err(PresenceError::Over)
    }

    /// They say to be there: somebody looks.
    pub async fn joined(
        &self,
        scope: Scope,
        id: MeetingId,
        connection: &str,
    ) -> Result<(), PresenceError> {
        self.arrived_or_gone(scope, id, connection, "joined", JOINED_LOOK_AFTER).await
    }

    /// They say to have left: somebody looks.
    pub async fn left(
        &self,
        scope: Scope,
        id: MeetingId,
        connection: &str,
    ) -> Result<(), PresenceError> {
        self.arrived_or_gone(scope, id, connection, "leave", LEFT_LOOK_AFTER).await
    }

    /// A token with which one person may join a meeting.
    pub async fn token(
        &self,
        scope: Scope,
        id: MeetingId,
        wish: TokenWish,
    ) -> Result<String, PresenceError> {
        let MeetingView { meeting, .. } = self.meeting(scope, id).await?;
        if !meeting.is_active() {
            return Err(PresenceError::Over);
        }
        let token = wish.check(meeting.room, self.now()).map_err(PresenceError::Invalid)?;
        Ok(self.work().rooms.meeting_token(token).await?)
    }

    /// Events of the provider, newest first, those with a lower number than `before`.
    pub async fn inbox(
        &self,
        filter: InboxFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        let rows_max = rows_max.clamp(1, self.work().limits.page_rows_max);
        self.work().store.inbox(filter, before, rows_max).await
    }

    pub async fn inbox_event(&self, id: i64) -> Result<Option<InboxEvent>, StoreError> {
        self.work().store.inbox_event(id).await
    }

    /// Makes the subscription to the provider's events, or renews it. `None` if nobody has said where
    /// they are to be sent.
    pub async fn subscribe(&self) -> Result<Option<Subscription>, PresenceError> {
        Ok(self.deps.subscriptions.subscribe().await?)
    }

    /// Has the provider make a room, unless a meeting is open in one of that name.
    async fn create_room(&self, new: NewRoom) -> Result<(RoomName, String), PresenceError> {
        if let Some(room) = &new.name {
            let filter = PresenceFilter { active: Some(true), room: Some(room.clone()) };
            let page = PresencePage { before: None, rows_max: 1 };
            let open = self.work().store.presence_meetings(Scope::All, filter, page).await?;
            if let Some(meeting) = open.first() {
                return Err(PresenceError::RoomTaken { meeting: meeting.id });
            }
        }
        let created = self.work().rooms.create_room(new).await?;
        Ok((created.name, created.url))
    }

    async fn arrived_or_gone(
        &self,
        scope: Scope,
        id: MeetingId,
        connection: &str,
        event: &str,
        look_after: Duration,
    ) -> Result<(), PresenceError> {
        let connection = check_connection(connection)?;
        let MeetingView { meeting, .. } = self.meeting(scope, id).await?;
        // One that was ended by mistake may be opened by the look.
        if !meeting.end_reason.is_none_or(EndReason::may_be_undone) {
            return Err(PresenceError::Over);
        }
        let work = self.work();
        let now = self.now();
        let hint = Hint::look(&format!("{event}-{connection}"), now);
        // The look first: without it, nobody would know of them when they are no longer expected.
        enqueue(work, vec![poll_wish(id, &[hint], now + look_after)]).await?;
        work.store.end_joining(id, connection).await?;
        Ok(())
    }

    fn work(&self) -> &PresenceWork {
        &self.deps.work
    }

    fn now(&self) -> Timestamp {
        self.work().clock.now()
    }
}

/// How fresh a meeting is. A comparison of all rooms counts for those that were open then.
fn view(meeting: PresenceMeeting, domain_look: Option<Timestamp>) -> MeetingView {
    let compared = domain_look.filter(|at| meeting.is_active() && *at >= meeting.created_at);
    let fresh_at = meeting.looks.looked_at.max(compared);
    MeetingView { meeting, fresh_at }
}

fn entries_of(session: PresenceSession) -> impl Iterator<Item = TimelineEntry> {
    let closed = session.closed.map(|closed| (closed.at, TimelineWhat::Left(closed.by)));
    let steps = [Some((session.joined_at, TimelineWhat::Joined)), closed];
    steps.into_iter().flatten().map(move |(at, what)| TimelineEntry {
        at,
        what,
        session_id: session.session_id.clone(),
        user_id: session.user_id.clone(),
        user_name: session.user_name.clone(),
    })
}

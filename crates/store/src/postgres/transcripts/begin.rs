//! Sessions that begin with their bots, whose start is a guess until their producer says when it was.
//!
//! Invariant: what was said in them before has absolute times from then on, and frames tell of it.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, MeetingId};
use roundsman_core::effects::{Frame, NewFrame};
use roundsman_core::transcripts::{Line, Place, mutable_frames};
use roundsman_core::users::UserId;

use super::known::{KnownRow, SessionPlace};
use super::sessions::{STARTS, starts, whole_sessions};
use super::write::{Revised, put_live, revise};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::transcripts::SessionStarts;

/// A repeated start finds the session that the first one began.
const BEGIN_SESSIONS: &str = "-- begin_sessions
INSERT INTO public.meeting_sessions (meeting_id, session_uid, session_start_time)
SELECT x.meeting_id, x.session_uid, $3::timestamptz
  FROM unnest($1::bigint[], $2::text[]) AS x(meeting_id, session_uid)
 WHERE NOT EXISTS (SELECT FROM public.meeting_sessions known
                    WHERE known.meeting_id = x.meeting_id AND known.session_uid = x.session_uid)
ON CONFLICT DO NOTHING
RETURNING meeting_id::bigint";

/// What was said in sessions before it was known when they began.
#[derive(Default)]
pub(in crate::postgres) struct MovedLines {
    by_meeting: BTreeMap<MeetingId, MovedIn>,
}

struct MovedIn {
    user: UserId,
    starts: SessionStarts,
    rows: Vec<KnownRow>,
}

/// Begins the sessions of these bots now, unless their starts are known. The caller holds the locks
/// of their meetings.
pub(in crate::postgres) async fn begin_sessions(
    session: &mut Session,
    bots: &[&BotRecord],
    now: Timestamp,
) -> Result<MovedLines, Failure> {
    let mut moved = MovedLines::default();
    if bots.is_empty() {
        return Ok(moved);
    }
    let places = bots.iter().map(|bot| (bot.meeting.id.get(), bot.bot.connection_id.as_str()));
    let (ids, uids): (Vec<i64>, Vec<&str>) = places.unzip();
    let [known, begun] = session
        .query_all([(STARTS, &[&ids]), (BEGIN_SESSIONS, &[&ids, &uids, &Time(now)])])
        .await?;
    let mut begun_in = BTreeSet::new();
    for row in &begun {
        begun_in.insert(MeetingId::new(row.try_get(0)?));
    }
    let mut before = starts(&known)?;
    let mut begun: BTreeSet<SessionPlace<'_>> = BTreeSet::new();
    for bot in bots.iter().filter(|bot| begun_in.contains(&bot.meeting.id)) {
        let (id, uid) = (bot.meeting.id, bot.bot.connection_id.as_str());
        let starts = before.entry(id).or_default().with(uid, now);
        let user = bot.meeting.user_id;
        moved.by_meeting.insert(id, MovedIn { user, starts, rows: Vec::new() });
        begun.insert((id, uid));
    }
    if begun.is_empty() {
        return Ok(moved);
    }
    for row in whole_sessions(session, &begun).await? {
        let (Some(known), Some(of)) =
            (before.get(&row.meeting), moved.by_meeting.get_mut(&row.meeting))
        else {
            continue;
        };
        let uid = row.known.segment.key.session_uid.as_deref();
        if row.known.place != Place::Dropped && known.of(uid) != of.starts.of(uid) {
            of.rows.push(row);
        }
    }
    for of in moved.by_meeting.values_mut() {
        of.rows.sort_by(|a, b| {
            let (a, b) = (&a.known.segment, &b.known.segment);
            a.start_ms.cmp(&b.start_ms).then_with(|| a.key.field.cmp(&b.key.field))
        });
    }
    Ok(moved)
}

impl MovedLines {
    /// The frames that tell of what was said in a meeting.
    pub(in crate::postgres) fn frames(&self, meeting: MeetingId, now: Timestamp) -> Vec<NewFrame> {
        let Some(of) = self.by_meeting.get(&meeting) else { return Vec::new() };
        let line = |row: &KnownRow| -> Line {
            let segment = row.known.segment.clone();
            match row.known.place {
                Place::Kept => of.starts.kept_line(segment),
                Place::Live | Place::Dropped => of.starts.live_line(segment),
            }
        };
        mutable_frames(meeting, &of.rows.iter().map(line).collect::<Vec<_>>(), now)
    }

    /// Gives what was said in a meeting the place of the last of these frames, which tells of it.
    pub(in crate::postgres) fn told_by(&mut self, meeting: MeetingId, frames: &[Frame]) {
        if let (Some(of), Some(last)) = (self.by_meeting.get_mut(&meeting), frames.last()) {
            for row in &mut of.rows {
                row.known.segment.seq = last.seq;
            }
        }
    }

    /// Writes the places.
    pub(in crate::postgres) async fn write(&self, session: &mut Session) -> Result<(), Failure> {
        let (mut live, mut kept) = (Vec::new(), Vec::new());
        for (meeting, of) in &self.by_meeting {
            for row in &of.rows {
                let segment = &row.known.segment;
                match row.id {
                    Some(id) => {
                        kept.push(Revised { id, user: of.user, segment, content: false });
                    }
                    None => live.push((*meeting, segment)),
                }
            }
        }
        put_live(session, &live).await?;
        revise(session, &kept).await
    }
}

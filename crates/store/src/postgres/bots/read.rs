//! Looking at meetings and bots.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::bots::{BotRecord, BotStatus, ConnectionId, MeetingId, Platform, WorkloadId};
use roundsman_core::ports::{BotTarget, MeetingFilter, MeetingPage, MeetingRow};
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::columns::{bot_columns, meeting_columns, meeting_row, record, record_columns};
use crate::postgres::columns::count;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::bots::{live_statuses, status_from_text, status_words};

const BOT_OF_MEETING: &str = concat!(
    "-- bot_of_meeting\nSELECT ",
    record_columns!(),
    "
  FROM roundsman.bots b JOIN public.meetings m ON m.id = b.meeting_id
 WHERE b.meeting_id = $1"
);

pub(super) async fn bot_of(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<Option<BotRecord>, Failure> {
    let row = session.query_opt(BOT_OF_MEETING, &[&meeting.get()]).await?;
    row.as_ref().map(record).transpose()
}

pub(super) struct BotOfMeeting {
    pub(super) meeting: MeetingId,
}

impl Operation for BotOfMeeting {
    type Answer = Option<BotRecord>;

    async fn run(&self, session: &mut Session) -> Result<Option<BotRecord>, Failure> {
        bot_of(session, self.meeting).await
    }
}

const BOT_BY_CONNECTION: &str = concat!(
    "-- bot_by_connection\nSELECT ",
    record_columns!(),
    "
  FROM roundsman.bots b JOIN public.meetings m ON m.id = b.meeting_id
 WHERE b.connection_id = $1"
);

pub(super) struct BotByConnection {
    pub(super) connection: ConnectionId,
}

impl Operation for BotByConnection {
    type Answer = Option<BotRecord>;

    async fn run(&self, session: &mut Session) -> Result<Option<BotRecord>, Failure> {
        let row = session.query_opt(BOT_BY_CONNECTION, &[&self.connection.as_str()]).await?;
        row.as_ref().map(record).transpose()
    }
}

pub(super) const LIVE_BOTS: &str = concat!(
    "-- live_bots\nSELECT ",
    record_columns!(),
    "
  FROM roundsman.bots b JOIN public.meetings m ON m.id = b.meeting_id
 WHERE b.live AND b.meeting_id > $1
 ORDER BY b.meeting_id
 LIMIT $2"
);

pub(super) struct LiveBots {
    pub(super) after: Option<MeetingId>,
    pub(super) rows_max: u32,
}

impl Operation for LiveBots {
    type Answer = Vec<BotRecord>;

    async fn run(&self, session: &mut Session) -> Result<Vec<BotRecord>, Failure> {
        let after = self.after.map_or(i64::MIN, MeetingId::get);
        let rows = session.query(LIVE_BOTS, &[&after, &i64::from(self.rows_max)]).await?;
        rows.iter().map(record).collect()
    }
}

pub(super) const LIVE_WORKLOADS: &str = "-- live_workloads
SELECT b.meeting_id, b.attempt
  FROM unnest($1::bigint[], $2::integer[]) AS given(id, attempt)
 CROSS JOIN LATERAL (
    SELECT meeting_id, attempt FROM roundsman.bots
     WHERE meeting_id = given.id AND attempt = given.attempt AND live
    OFFSET 0) b";

pub(super) struct LiveWorkloads<'a> {
    pub(super) workloads: &'a [WorkloadId],
}

impl Operation for LiveWorkloads<'_> {
    type Answer = Vec<WorkloadId>;

    async fn run(&self, session: &mut Session) -> Result<Vec<WorkloadId>, Failure> {
        let (ids, attempts): (Vec<i64>, Vec<i32>) =
            self.workloads.iter().copied().map(place).unzip();
        let mut live: BTreeSet<(i64, i32)> = BTreeSet::new();
        for row in session.query(LIVE_WORKLOADS, &[&ids, &attempts]).await? {
            live.insert((row.try_get(0)?, row.try_get(1)?));
        }
        let is_live = |workload: &WorkloadId| live.contains(&place(*workload));
        Ok(self.workloads.iter().copied().filter(is_live).collect())
    }
}

/// The columns that name a workload.
pub(super) fn place(workload: WorkloadId) -> (i64, i32) {
    (workload.meeting_id.get(), count(workload.attempt))
}

/// The page is cut before the bots are looked up. `id + 0` keeps the planner from reading
/// everybody's meetings by their numbers until enough of this user's are found: no index of an
/// existing table has both.
macro_rules! list {
    ($name:literal, $which:expr) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            meeting_columns!(),
            ", ",
            bot_columns!(),
            "
  FROM (SELECT * FROM public.meetings
         WHERE user_id = $1::bigint AND id + 0 < $2::bigint
           AND ($3::text[] IS NULL OR status = ANY ($3))
           AND ($4::text IS NULL OR platform = $4)",
            $which,
            "
         ORDER BY id + 0 DESC
         LIMIT $5 OFFSET $6) m
  LEFT JOIN roundsman.bots b ON b.meeting_id = m.id
 ORDER BY m.id DESC"
        )
    };
}

pub(super) const MEETINGS: &str = list!("meetings", "");

/// The words are spelt out so that the index by status may serve.
const LIVE_MEETINGS: &str =
    list!("live_meetings", concat!("\n           AND status IN ", live_statuses!()));

pub(super) struct Meetings {
    pub(super) user: UserId,
    pub(super) filter: MeetingFilter,
    pub(super) page: MeetingPage,
}

impl Operation for Meetings {
    type Answer = Vec<MeetingRow>;

    async fn run(&self, session: &mut Session) -> Result<Vec<MeetingRow>, Failure> {
        let MeetingFilter { live, status, platform } = self.filter;
        let MeetingPage { before, skip, rows_max } = self.page;
        let sql = if live { LIVE_MEETINGS } else { MEETINGS };
        let rows = session
            .query(
                sql,
                &[
                    &self.user.get(),
                    &before.map_or(i64::MAX, MeetingId::get),
                    &status.map(status_words),
                    &platform.map(Platform::as_str),
                    &i64::from(rows_max),
                    &i64::from(skip),
                ],
            )
            .await?;
        rows.iter().map(meeting_row).collect()
    }
}

const MEETING_BY_ID: &str = concat!(
    "-- meeting_by_id\nSELECT ",
    record_columns!(),
    "
  FROM public.meetings m LEFT JOIN roundsman.bots b ON b.meeting_id = m.id
 WHERE m.id = $2::bigint AND m.user_id = $1::bigint"
);

/// `id + 0` as above: the meetings at one address are few.
pub(super) const LATEST: &str = concat!(
    "-- latest\nSELECT ",
    record_columns!(),
    "
  FROM (SELECT * FROM public.meetings
         WHERE user_id = $1::bigint AND platform = $2 AND platform_specific_id = $3
         ORDER BY id + 0 DESC
         LIMIT 1) m
  LEFT JOIN roundsman.bots b ON b.meeting_id = m.id"
);

/// The meeting that a user means.
pub(in crate::postgres) async fn find_target(
    session: &mut Session,
    user: UserId,
    target: &BotTarget,
) -> Result<Option<MeetingRow>, Failure> {
    let user = user.get();
    let row: Option<Row> = match target {
        BotTarget::Meeting(id) => session.query_opt(MEETING_BY_ID, &[&user, &id.get()]).await?,
        BotTarget::Address { platform, native_id } => {
            session.query_opt(LATEST, &[&user, &platform.as_str(), native_id]).await?
        }
    };
    row.as_ref().map(meeting_row).transpose()
}

pub(super) struct OneMeeting {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
}

impl Operation for OneMeeting {
    type Answer = Option<MeetingRow>;

    async fn run(&self, session: &mut Session) -> Result<Option<MeetingRow>, Failure> {
        find_target(session, self.user, &self.target).await
    }
}

const BOT_COUNTS: &str = concat!(
    "-- bot_counts
SELECT status::text, count(*), min(id::bigint) FROM public.meetings
 WHERE status IN ",
    live_statuses!(),
    "\n GROUP BY status"
);

pub(super) struct BotCounts;

impl Operation for BotCounts {
    type Answer = Vec<(BotStatus, u64)>;

    async fn run(&self, session: &mut Session) -> Result<Vec<(BotStatus, u64)>, Failure> {
        let mut counts: BTreeMap<BotStatus, u64> = BTreeMap::new();
        // A state without bots is shown as such.
        for status in BotStatus::ALL {
            if !status.is_over() {
                counts.insert(status, 0);
            }
        }
        for row in session.query(BOT_COUNTS, &[]).await? {
            let status = status_from_text(row.try_get(0)?, row.try_get(2)?)?;
            let bots = u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0);
            *counts.entry(status).or_default() += bots;
        }
        Ok(counts.into_iter().collect())
    }
}

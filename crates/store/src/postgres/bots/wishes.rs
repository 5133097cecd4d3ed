//! What users want of their bots. Nothing here touches `public.meetings`.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, BotStatus, supervise_wish};
use roundsman_core::effects::Effects;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{BotTarget, ConfigAnswer, ConfigChange, MeetingRow, StopAnswer};
use roundsman_core::users::UserId;

use super::adopt::adopt_among;
use super::columns::{record, record_columns};
use super::launch::hold_bot;
use super::read::find_target;
use crate::postgres::columns::count;
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::bots::live_statuses;

/// The meetings of a user at an address that take a slot.
const LIVE_AT: &str = concat!(
    "-- live_at
SELECT id::bigint FROM public.meetings
 WHERE user_id = $1::bigint AND platform = $2 AND platform_specific_id = $3 AND status IN ",
    live_statuses!()
);

/// Of the bots that were found a moment ago those that are live still, and now stay so.
const LOCK_LIVE: &str = "-- lock_live
SELECT meeting_id FROM roundsman.bots
 WHERE meeting_id = ANY ($1::bigint[]) AND user_id = $2 AND live
 ORDER BY meeting_id
   FOR NO KEY UPDATE";

/// The first wish is the one that counts: the time until force is used runs from it.
const WANT_STOP: &str = "-- want_stop
UPDATE roundsman.bots SET stop_wanted_at = $2, stop_wanted_by = $3
 WHERE meeting_id = ANY ($1::bigint[]) AND stop_wanted_at IS NULL";

const RECORDS: &str = concat!(
    "-- records\nSELECT ",
    record_columns!(),
    "
  FROM roundsman.bots b JOIN public.meetings m ON m.id = b.meeting_id
 WHERE b.meeting_id = ANY ($1::bigint[])
 ORDER BY b.meeting_id"
);

pub(super) struct WishStop<'a> {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) by: &'static str,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for WishStop<'_> {
    type Answer = StopAnswer;

    async fn run(&self, session: &mut Session) -> Result<StopAnswer, Failure> {
        session.begin();
        let wished = self.wish(session).await?;
        let answer = if wished.is_empty() {
            let latest = find_target(session, self.user, &self.target).await?;
            latest.map_or(StopAnswer::NotFound, |row| StopAnswer::Over(Box::new(row)))
        } else {
            StopAnswer::Wished(wished)
        };
        session.commit().await?;
        Ok(answer)
    }
}

impl WishStop<'_> {
    async fn wish(&self, session: &mut Session) -> Result<Vec<BotRecord>, Failure> {
        let found = self.find(session).await?;
        adopt_among(session, self.user, &found, self.catalog, self.now).await?;
        let mut live: Vec<i64> = Vec::new();
        for row in session.query(LOCK_LIVE, &[&found, &self.user.get()]).await? {
            live.push(row.try_get(0)?);
        }
        if live.is_empty() {
            return Ok(Vec::new());
        }
        session.execute(WANT_STOP, &[&live, &Time(self.now), &self.by]).await?;
        let rows = session.query(RECORDS, &[&live]).await?;
        let records = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
        let jobs = records.iter().map(|record| supervise_wish(record, self.now)).collect();
        let effects = Effects { jobs, ..Effects::default() };
        write_effects(session, &[&effects], self.catalog, self.now).await?;
        Ok(records)
    }

    async fn find(&self, session: &mut Session) -> Result<Vec<i64>, Failure> {
        match &self.target {
            BotTarget::Meeting(id) => Ok(vec![id.get()]),
            BotTarget::Address { platform, native_id } => {
                let rows = session
                    .query(LIVE_AT, &[&self.user.get(), &platform.as_str(), native_id])
                    .await?;
                rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
            }
        }
    }
}

const WANT_CONFIG: &str = "-- want_config
UPDATE roundsman.bots SET config_version = $2, language = $3, task = $4 WHERE meeting_id = $1";

pub(super) struct WishConfig<'a> {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) change: ConfigChange,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for WishConfig<'_> {
    type Answer = ConfigAnswer;

    async fn run(&self, session: &mut Session) -> Result<ConfigAnswer, Failure> {
        session.begin();
        let answer = match find_target(session, self.user, &self.target).await? {
            None => ConfigAnswer::NotFound,
            Some(row) => self.wish(session, row).await?,
        };
        session.commit().await?;
        Ok(answer)
    }
}

impl WishConfig<'_> {
    async fn wish(&self, session: &mut Session, row: MeetingRow) -> Result<ConfigAnswer, Failure> {
        let meeting = row.meeting.id;
        if row.bot.is_none() && row.meeting.bot_status().is_ok_and(|status| self.takes(status)) {
            adopt_among(session, self.user, &[meeting.get()], self.catalog, self.now).await?;
        }
        let Some(mut record) = hold_bot(session, meeting).await? else {
            return Ok(ConfigAnswer::WrongState(Box::new(row)));
        };
        if !self.takes(record.status) {
            let BotRecord { meeting, bot, .. } = record;
            return Ok(ConfigAnswer::WrongState(Box::new(MeetingRow { meeting, bot: Some(bot) })));
        }
        let config = &mut record.bot.config;
        config.version = config.version.saturating_add(1);
        let ConfigChange { language, task, .. } = self.change.clone();
        config.language = language.or(config.language.take());
        config.task = task.or(config.task.take());
        session
            .execute(
                WANT_CONFIG,
                &[&meeting.get(), &count(config.version), &config.language, &config.task],
            )
            .await?;
        Ok(ConfigAnswer::Wished(Box::new(record)))
    }

    /// Whether a bot in this state is to be told of a new configuration.
    fn takes(&self, status: BotStatus) -> bool {
        !status.is_over() && (status == BotStatus::Active || !self.change.only_active)
    }
}

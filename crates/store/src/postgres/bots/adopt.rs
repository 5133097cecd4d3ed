//! Live meetings of an existing Vexa database that have no bot of ours yet.

use roundsman_core::Timestamp;
use roundsman_core::bots::ConnectionId;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::columns::{insert_bot, meeting, meeting_columns};
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::bots::{adopt, adopted_connection, live_statuses};

/// The meeting is locked before there is a bot that could be. `id + 0` leads the planner to the
/// few live meetings rather than past all that are over.
macro_rules! orphans {
    ($name:literal, $which:literal, $end:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            meeting_columns!(),
            ",
       (SELECT s.session_uid::text FROM public.meeting_sessions s WHERE s.meeting_id = m.id
         ORDER BY s.session_start_time DESC, s.id DESC LIMIT 1)
  FROM public.meetings m
 WHERE m.status IN ",
            live_statuses!(),
            "
   AND NOT EXISTS (SELECT FROM roundsman.bots b WHERE b.meeting_id = m.id)",
            $which,
            "\n ORDER BY m.id + 0\n",
            $end
        )
    };
}

const ORPHANS: &str = orphans!("orphans", "", " LIMIT $1\n   FOR NO KEY UPDATE OF m SKIP LOCKED");

const ORPHANS_AMONG: &str = orphans!(
    "orphans_among",
    "\n   AND m.id = ANY ($1::bigint[]) AND m.user_id = $2::bigint",
    "   FOR NO KEY UPDATE OF m"
);

pub(super) struct Adopt<'a> {
    pub(super) rows_max: u32,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Adopt<'_> {
    type Answer = u32;

    async fn run(&self, session: &mut Session) -> Result<u32, Failure> {
        session.begin();
        let rows = session.query(ORPHANS, &[&i64::from(self.rows_max)]).await?;
        let adopted = adopt_rows(session, &rows, self.catalog, self.now).await?;
        session.commit().await?;
        Ok(adopted)
    }
}

/// Gives those of a user's live meetings that have none a bot, in the caller's transaction: a wish
/// must not get lost only because nobody has looked after its meeting yet.
pub(super) async fn adopt_among(
    session: &mut Session,
    user: UserId,
    meetings: &[i64],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    let rows = session.query(ORPHANS_AMONG, &[&meetings, &user.get()]).await?;
    adopt_rows(session, &rows, catalog, now).await?;
    Ok(())
}

async fn adopt_rows(
    session: &mut Session,
    rows: &[Row],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<u32, Failure> {
    let mut adopted: Vec<Effects> = Vec::with_capacity(rows.len());
    for row in rows {
        let session_uid: Option<String> = row.try_get(row.len() - 1)?;
        let (mut record, effects) = adopt(meeting(row)?, session_uid, now)?;
        let mut inserted = insert_bot(session, &record).await?;
        if !inserted {
            // Its session has the name of another one's, or another node was faster.
            let name = adopted_connection(record.meeting.id);
            record.bot.connection_id = ConnectionId::from_stored(name);
            inserted = insert_bot(session, &record).await?;
        }
        if inserted {
            adopted.push(effects);
        }
    }
    let effects: Vec<&Effects> = adopted.iter().collect();
    write_effects(session, &effects, catalog, now).await?;
    Ok(u32::try_from(adopted.len()).unwrap_or(u32::MAX))
}

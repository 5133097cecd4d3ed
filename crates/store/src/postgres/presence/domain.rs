//! When all rooms were last compared with the record.

use roundsman_core::Timestamp;

use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

const NOTE_DOMAIN_LOOK: &str = "-- note_domain_look
INSERT INTO roundsman.presence_domain AS known (looked_at) VALUES ($1)
ON CONFLICT (one) DO UPDATE SET looked_at = excluded.looked_at
 WHERE known.looked_at < excluded.looked_at";

pub(super) struct NoteDomainLook {
    pub(super) began_at: Timestamp,
}

impl Operation for NoteDomainLook {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        // Noting the same twice is noting it, so a broken connection may be repeated.
        session.execute(NOTE_DOMAIN_LOOK, &[&Time(self.began_at)]).await?;
        Ok(())
    }
}

const LAST_DOMAIN_LOOK: &str = "-- last_domain_look
SELECT looked_at FROM roundsman.presence_domain WHERE one";

pub(super) struct LastDomainLook;

impl Operation for LastDomainLook {
    type Answer = Option<Timestamp>;

    async fn run(&self, session: &mut Session) -> Result<Option<Timestamp>, Failure> {
        let Some(row) = session.query_opt(LAST_DOMAIN_LOOK, &[]).await? else {
            return Ok(None);
        };
        let Time(looked_at) = row.try_get(0)?;
        Ok(Some(looked_at))
    }
}

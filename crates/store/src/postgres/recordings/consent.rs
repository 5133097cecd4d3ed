//! What people say about being recorded, and what follows.

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::Scope;
use roundsman_core::recordings::{Consent, Recording, erase_wish};
use tokio_postgres::Row;

use super::HOLD_ROOM;
use super::columns::{recording_columns, recordings};
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::jobs::{user_of, write_wishes};
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::recordings::storable;

/// Of words that were said in another order than they come in, the last that was said counts.
const PUT_CONSENT: &str = "-- put_consent
INSERT INTO roundsman.consents AS known (meeting_id, person, given, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (meeting_id, person) DO UPDATE SET given = excluded.given, at = excluded.at
 WHERE excluded.at >= known.at";

pub(super) struct SetConsent<'a> {
    scope: Scope,
    meeting: MeetingId,
    consent: Consent,
    catalog: &'a KindCatalog,
}

impl<'a> SetConsent<'a> {
    pub(super) fn new(
        scope: Scope,
        meeting: MeetingId,
        consent: Consent,
        catalog: &'a KindCatalog,
    ) -> Self {
        let consent = Consent { person: storable(consent.person), ..consent };
        SetConsent { scope, meeting, consent, catalog }
    }
}

impl Operation for SetConsent<'_> {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let is_set = self.set(session).await?;
        session.commit().await?;
        Ok(is_set)
    }
}

impl SetConsent<'_> {
    async fn set(&self, session: &mut Session) -> Result<bool, Failure> {
        let id = self.meeting.get();
        let Some(row) = session.query_opt(HOLD_ROOM, &[&id]).await? else {
            return Ok(false);
        };
        let (room, owner): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
        // One that was anonymised has no room any more, and nobody says anything about it.
        if room.is_empty() || user_of(self.scope).is_some_and(|user| user != owner) {
            return Ok(false);
        }
        let Consent { person, given, at } = &self.consent;
        session.execute(PUT_CONSENT, &[&id, person, given, &Time(*at)]).await?;
        if !given {
            write_wishes(session, &[erase_wish(self.meeting, *at)], self.catalog, *at).await?;
        }
        Ok(true)
    }
}

pub(super) const CONSENTS: &str = "-- consents
SELECT person, given, at FROM roundsman.consents WHERE meeting_id = $1 ORDER BY person";

pub(super) struct Consents {
    pub(super) meeting: MeetingId,
}

impl Operation for Consents {
    type Answer = Vec<Consent>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Consent>, Failure> {
        let rows = session.query(CONSENTS, &[&self.meeting.get()]).await?;
        let consent = |row: &Row| {
            let mut reader = Reader::new(row);
            Ok(Consent { person: reader.value()?, given: reader.value()?, at: reader.time()? })
        };
        rows.iter().map(consent).collect()
    }
}

/// A row if somebody does not agree.
pub(super) const IS_DENIED: &str = "-- is_denied
SELECT FROM roundsman.consents WHERE meeting_id = $1 AND NOT given LIMIT 1";

pub(super) const TO_ERASE: &str = concat!(
    "-- to_erase\nSELECT ",
    recording_columns!(),
    "
  FROM roundsman.recordings r
 WHERE r.meeting_id >= $1 AND r.meeting_id <= $1 AND r.erased_at IS NULL
   AND (r.room = ''
        OR EXISTS (SELECT FROM roundsman.consents c WHERE c.meeting_id = $1 AND NOT c.given))
 ORDER BY r.meeting_id, r.no"
);

pub(super) struct ToErase {
    pub(super) meeting: MeetingId,
}

impl Operation for ToErase {
    type Answer = Vec<Recording>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Recording>, Failure> {
        recordings(&session.query(TO_ERASE, &[&self.meeting.get()]).await?)
    }
}

//! Events of the provider, as they came.

use std::collections::BTreeSet;

use roundsman_core::Timestamp;
use roundsman_core::ports::{InboxEvent, InboxFilter, InboxOutcome, NewInboxEvent};
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::presence::{InboxColumns, kept_event};

/// An event that is there already stays as it is. Numbers follow the order in which the events came;
/// rows are made in the order of their names, so that batches that meet wait and never deadlock.
pub(super) const KEEP_EVENTS: &str = "-- keep_inbox
WITH given AS MATERIALIZED (
    SELECT nextval('roundsman.inbox_id_seq') AS id, e.*
      FROM (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
                                 $6::text[], $7::text[]) WITH ORDINALITY
                   AS given(service, event, kind, room, outcome, reason, payload, place)
             ORDER BY place OFFSET 0) e
)
INSERT INTO roundsman.inbox (id, service, event, kind, room, outcome, reason, payload, at)
       OVERRIDING SYSTEM VALUE
SELECT id, service, event, kind, room, outcome, reason, payload, $8
  FROM given
 ORDER BY service, event, place
ON CONFLICT (service, event) DO NOTHING
RETURNING service, event";

pub(super) struct KeepInbox {
    events: Vec<NewInboxEvent>,
    now: Timestamp,
}

impl KeepInbox {
    pub(super) fn new(events: Vec<NewInboxEvent>, now: Timestamp) -> Self {
        KeepInbox { events: events.into_iter().map(kept_event).collect(), now }
    }
}

impl Operation for KeepInbox {
    type Answer = Vec<bool>;

    async fn run(&self, session: &mut Session) -> Result<Vec<bool>, Failure> {
        let events = &self.events;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let services: Vec<&str> = events.iter().map(|event| event.service).collect();
        let texts =
            |text: fn(&NewInboxEvent) -> &str| -> Vec<&str> { events.iter().map(text).collect() };
        let rooms: Vec<Option<&str>> = events.iter().map(|event| event.room.as_deref()).collect();
        let reasons: Vec<Option<&str>> =
            events.iter().map(|event| event.reason.as_deref()).collect();
        // In a transaction, so that what was written before the connection broke is not taken for a
        // repetition.
        session.begin();
        let rows = session
            .query(
                KEEP_EVENTS,
                &[
                    &services,
                    &texts(|event| &event.event),
                    &texts(|event| &event.kind),
                    &rooms,
                    &texts(|event| event.outcome.as_str()),
                    &reasons,
                    &texts(|event| &event.payload),
                    &Time(self.now),
                ],
            )
            .await?;
        session.commit().await?;
        let mut new: BTreeSet<(&str, &str)> = BTreeSet::new();
        for row in &rows {
            new.insert((row.try_get(0)?, row.try_get(1)?));
        }
        // Of several with one name the first is new.
        let places = events.iter().map(|event| (event.service, event.event.as_str()));
        Ok(places.map(|place| new.remove(&place)).collect())
    }
}

macro_rules! inbox_columns {
    () => {
        "id, service, event, kind, room, outcome, reason, payload, at"
    };
}

fn event(row: &Row) -> Result<InboxEvent, Failure> {
    let mut reader = Reader::new(row);
    let columns = InboxColumns {
        id: reader.value()?,
        service: reader.value()?,
        event: reader.value()?,
        kind: reader.value()?,
        room: reader.value()?,
        outcome: reader.value()?,
        reason: reader.value()?,
        payload: reader.value()?,
        at: reader.time()?,
    };
    Ok(columns.into_event()?)
}

/// As in the list of meetings: the first column of the index is named as a range.
macro_rules! list {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            inbox_columns!(),
            "\n  FROM roundsman.inbox\n WHERE ",
            $which,
            "
   AND ($3::text IS NULL OR outcome = $3) AND ($4::text IS NULL OR room = $4)
 ORDER BY ",
            $order,
            "\n LIMIT $2"
        )
    };
}

pub(super) const INBOX: &str = list!("inbox", "id < $1", "id DESC");

pub(super) const INBOX_OF_ROOM: &str =
    list!("inbox_of_room", "(room, id) < ($4, $1) AND room >= $4", "room DESC, id DESC");

pub(super) const INBOX_OF_OUTCOME: &str = list!(
    "inbox_of_outcome",
    "(outcome, id) < ($3, $1) AND outcome >= $3",
    "outcome DESC, id DESC"
);

pub(super) struct Inbox {
    pub(super) filter: InboxFilter,
    pub(super) before: Option<i64>,
    pub(super) rows_max: u32,
}

impl Operation for Inbox {
    type Answer = Vec<InboxEvent>;

    async fn run(&self, session: &mut Session) -> Result<Vec<InboxEvent>, Failure> {
        let InboxFilter { outcome, room } = &self.filter;
        let sql = match (room, outcome) {
            (Some(_), _) => INBOX_OF_ROOM,
            (None, Some(_)) => INBOX_OF_OUTCOME,
            (None, None) => INBOX,
        };
        let (before, rows_max) = (self.before.unwrap_or(i64::MAX), i64::from(self.rows_max));
        let outcome = outcome.map(InboxOutcome::as_str);
        let rows = session.query(sql, &[&before, &rows_max, &outcome, room]).await?;
        rows.iter().map(event).collect()
    }
}

const ONE_EVENT: &str =
    concat!("-- inbox_event\nSELECT ", inbox_columns!(), " FROM roundsman.inbox WHERE id = $1");

pub(super) struct OneEvent {
    pub(super) id: i64,
}

impl Operation for OneEvent {
    type Answer = Option<InboxEvent>;

    async fn run(&self, session: &mut Session) -> Result<Option<InboxEvent>, Failure> {
        let row = session.query_opt(ONE_EVENT, &[&self.id]).await?;
        row.as_ref().map(event).transpose()
    }
}

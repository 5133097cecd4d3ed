//! Messages that could not be taken.

use std::borrow::Cow;

use roundsman_core::Timestamp;
use roundsman_core::ports::{DeadLetter, NewDeadLetter};
use tokio_postgres::Row;

use crate::postgres::bots::columns::storable_text;
use crate::postgres::columns::{Reader, count};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

macro_rules! letter_columns {
    () => {
        "id, source, entry, reason, deliveries, payload, at"
    };
}

fn letter(row: &Row) -> Result<DeadLetter, Failure> {
    let mut reader = Reader::new(row);
    Ok(DeadLetter {
        id: reader.value()?,
        letter: NewDeadLetter {
            source: reader.value()?,
            entry: reader.value()?,
            reason: reader.value()?,
            deliveries: u32::try_from(reader.value::<i32>()?).unwrap_or(0),
            payload: reader.value()?,
        },
        at: reader.time()?,
    })
}

/// A letter that is there already stays as it is.
const PUT_LETTERS: &str = "-- put_letters
INSERT INTO roundsman.dead_letters (source, entry, reason, deliveries, payload, at)
SELECT source, entry, reason, deliveries, payload, $6
  FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::text[]) WITH ORDINALITY
       AS letter(source, entry, reason, deliveries, payload, place)
 ORDER BY place
ON CONFLICT (source, entry) DO NOTHING";

pub(super) struct PutLetters<'a> {
    pub(super) letters: &'a [NewDeadLetter],
    pub(super) now: Timestamp,
}

impl Operation for PutLetters<'_> {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        if self.letters.is_empty() {
            return Ok(());
        }
        // It came from outside as it is: what the server cannot store must not keep the rest out.
        let texts = |text: fn(&NewDeadLetter) -> &str| -> Vec<Cow<'_, str>> {
            self.letters.iter().map(|letter| storable_text(text(letter))).collect()
        };
        let deliveries: Vec<i32> =
            self.letters.iter().map(|letter| count(letter.deliveries)).collect();
        session
            .execute(
                PUT_LETTERS,
                &[
                    &texts(|letter| &letter.source),
                    &texts(|letter| &letter.entry),
                    &texts(|letter| &letter.reason),
                    &deliveries,
                    &texts(|letter| &letter.payload),
                    &Time(self.now),
                ],
            )
            .await?;
        Ok(())
    }
}

pub(super) const LETTERS: &str = concat!(
    "-- letters\nSELECT ",
    letter_columns!(),
    " FROM roundsman.dead_letters WHERE id < $1 ORDER BY id DESC LIMIT $2"
);

pub(super) struct Letters {
    pub(super) before: Option<i64>,
    pub(super) rows_max: u32,
}

impl Operation for Letters {
    type Answer = Vec<DeadLetter>;

    async fn run(&self, session: &mut Session) -> Result<Vec<DeadLetter>, Failure> {
        let before = self.before.unwrap_or(i64::MAX);
        let rows = session.query(LETTERS, &[&before, &i64::from(self.rows_max)]).await?;
        rows.iter().map(letter).collect()
    }
}

const ONE_LETTER: &str = concat!(
    "-- one_letter\nSELECT ",
    letter_columns!(),
    " FROM roundsman.dead_letters WHERE id = $1"
);

pub(super) struct OneLetter {
    pub(super) id: i64,
}

impl Operation for OneLetter {
    type Answer = Option<DeadLetter>;

    async fn run(&self, session: &mut Session) -> Result<Option<DeadLetter>, Failure> {
        let row = session.query_opt(ONE_LETTER, &[&self.id]).await?;
        row.as_ref().map(letter).transpose()
    }
}

const DELETE_LETTER: &str = "-- delete_letter
DELETE FROM roundsman.dead_letters WHERE id = $1";

pub(super) struct DeleteLetter {
    pub(super) id: i64,
}

impl Operation for DeleteLetter {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        // In a transaction, so that a broken connection is not taken for a letter that is not there.
        session.begin();
        let deleted = session.execute(DELETE_LETTER, &[&self.id]).await? > 0;
        session.commit().await?;
        Ok(deleted)
    }
}

//! Room tokens.

use roundsman_core::Timestamp;
use roundsman_core::rooms::{ProjectId, RoomToken, RoomTokenId, RoomTokenWish};
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::rooms::RoomTokenColumns;

macro_rules! token_columns {
    () => {
        "id, project_id, permission, name, secret_hash, created_at, expires_at, revoked_at"
    };
}

fn token(row: &Row) -> Result<RoomToken, Failure> {
    let mut reader = Reader::new(row);
    let columns = RoomTokenColumns {
        id: reader.value()?,
        project: reader.value()?,
        permission: reader.value()?,
        name: reader.value()?,
        secret_hash: reader.value()?,
        created_at: reader.time()?,
        expires_at: reader.time()?,
        revoked_at: reader.time_opt()?,
    };
    Ok(columns.into_token()?)
}

const INSERT_TOKEN: &str = concat!(
    "-- insert_room_token
INSERT INTO roundsman.room_tokens (project_id, permission, name, secret_hash, created_at, expires_at)
SELECT project_id, $2, $3, $4, $5, $6 FROM roundsman.rooms WHERE project_id = $1
RETURNING ",
    token_columns!()
);

pub(super) struct Create {
    pub(super) wish: RoomTokenWish,
    pub(super) now: Timestamp,
}

impl Operation for Create {
    type Answer = Option<RoomToken>;

    async fn run(&self, session: &mut Session) -> Result<Option<RoomToken>, Failure> {
        let wish = &self.wish;
        session.begin();
        let row = session
            .query_opt(
                INSERT_TOKEN,
                &[
                    &wish.project.as_str(),
                    &wish.permission.as_str(),
                    &wish.name,
                    &wish.hash.as_bytes().as_slice(),
                    &Time(self.now),
                    &Time(wish.expires_at),
                ],
            )
            .await?;
        session.commit().await?;
        row.as_ref().map(token).transpose()
    }
}

const ONE_TOKEN: &str = concat!(
    "-- one_room_token\nSELECT ",
    token_columns!(),
    " FROM roundsman.room_tokens WHERE id = $1"
);

pub(super) struct OneToken {
    pub(super) id: RoomTokenId,
}

impl Operation for OneToken {
    type Answer = Option<RoomToken>;

    async fn run(&self, session: &mut Session) -> Result<Option<RoomToken>, Failure> {
        let row = session.query_opt(ONE_TOKEN, &[&self.id.get()]).await?;
        row.as_ref().map(token).transpose()
    }
}

/// `OFFSET 0` keeps the planner from walking through all tokens that hold, and the range, which is one
/// project, from walking through those of all projects in the order of their numbers.
pub(super) const ROOM_TOKENS: &str = concat!(
    "-- room_tokens\nSELECT ",
    token_columns!(),
    "
  FROM (SELECT * FROM roundsman.room_tokens WHERE project_id BETWEEN $1 AND $1
         ORDER BY project_id DESC, id DESC OFFSET 0) token
 WHERE expires_at > $2 AND revoked_at IS NULL LIMIT $3"
);

pub(super) struct Tokens {
    pub(super) project: ProjectId,
    pub(super) now: Timestamp,
    pub(super) rows_max: u32,
}

impl Operation for Tokens {
    type Answer = Vec<RoomToken>;

    async fn run(&self, session: &mut Session) -> Result<Vec<RoomToken>, Failure> {
        let rows_max = i64::from(self.rows_max);
        let rows = session
            .query(ROOM_TOKENS, &[&self.project.as_str(), &Time(self.now), &rows_max])
            .await?;
        rows.iter().map(token).collect()
    }
}

const EXTEND_TOKEN: &str = concat!(
    "-- extend_room_token
UPDATE roundsman.room_tokens SET expires_at = $3
 WHERE id = $1 AND project_id = $2 AND revoked_at IS NULL
RETURNING ",
    token_columns!()
);

pub(super) struct Extend {
    pub(super) project: ProjectId,
    pub(super) id: RoomTokenId,
    pub(super) expires_at: Timestamp,
}

impl Operation for Extend {
    type Answer = Option<RoomToken>;

    async fn run(&self, session: &mut Session) -> Result<Option<RoomToken>, Failure> {
        let values = (self.id.get(), self.project.as_str(), Time(self.expires_at));
        // Saying it twice is saying it, so a broken connection may be repeated.
        let row = session.query_opt(EXTEND_TOKEN, &[&values.0, &values.1, &values.2]).await?;
        row.as_ref().map(token).transpose()
    }
}

const REVOKE_TOKEN: &str = "-- revoke_room_token
UPDATE roundsman.room_tokens SET revoked_at = $3
 WHERE id = $1 AND project_id = $2 AND revoked_at IS NULL";

pub(super) struct Revoke {
    pub(super) project: ProjectId,
    pub(super) id: RoomTokenId,
    pub(super) now: Timestamp,
}

impl Operation for Revoke {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let values = (self.id.get(), self.project.as_str(), Time(self.now));
        let ended = session.execute(REVOKE_TOKEN, &[&values.0, &values.1, &values.2]).await? > 0;
        session.commit().await?;
        Ok(ended)
    }
}

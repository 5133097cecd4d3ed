//! Links to transcripts.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, NewShare, Share, StoreError};
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::lock_target;
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

macro_rules! share_columns {
    () => {
        "id, user_id, meeting_id, created_at, expires_at"
    };
}

fn share(row: &Row) -> Result<Share, Failure> {
    let mut reader = Reader::new(row);
    Ok(Share {
        id: reader.value()?,
        user_id: UserId::new(reader.value()?),
        meeting_id: MeetingId::new(reader.value()?),
        created_at: reader.time()?,
        expires_at: reader.time()?,
    })
}

const INSERT_SHARE: &str = concat!(
    "-- insert_share
INSERT INTO roundsman.transcript_shares (user_id, meeting_id, secret_hash, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (secret_hash) DO NOTHING
RETURNING ",
    share_columns!()
);

pub(super) struct ShareTranscript {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) share: NewShare,
    pub(super) now: Timestamp,
}

impl Operation for ShareTranscript {
    type Answer = Option<Share>;

    async fn run(&self, session: &mut Session) -> Result<Option<Share>, Failure> {
        session.begin();
        // Whoever deletes the transcript deletes its links: no new one comes in between.
        let found = lock_target(session, self.user, &self.target).await?;
        let made = match found {
            Some(row) => Some(self.insert(session, row.meeting.id).await?),
            None => None,
        };
        session.commit().await?;
        Ok(made)
    }
}

impl ShareTranscript {
    async fn insert(&self, session: &mut Session, meeting: MeetingId) -> Result<Share, Failure> {
        let secret_hash = self.share.secret_hash.as_slice();
        let row = session
            .query_opt(
                INSERT_SHARE,
                &[
                    &self.user.get(),
                    &meeting.get(),
                    &secret_hash,
                    &Time(self.now),
                    &Time(self.share.expires_at),
                ],
            )
            .await?;
        match row {
            Some(row) => share(&row),
            None => Err(StoreError::Conflict { what: "a link with this secret" }.into()),
        }
    }
}

/// `OFFSET 0` keeps the planner from walking through all links that hold.
pub(super) const SHARE_BY_SECRET: &str = concat!(
    "-- share_by_secret\nSELECT ",
    share_columns!(),
    "
  FROM (SELECT * FROM roundsman.transcript_shares WHERE secret_hash = $1 OFFSET 0) share
 WHERE expires_at > $2"
);

pub(super) struct ShareBySecret {
    pub(super) secret_hash: [u8; 32],
    pub(super) now: Timestamp,
}

impl Operation for ShareBySecret {
    type Answer = Option<Share>;

    async fn run(&self, session: &mut Session) -> Result<Option<Share>, Failure> {
        let secret_hash = self.secret_hash.as_slice();
        let row = session.query_opt(SHARE_BY_SECRET, &[&secret_hash, &Time(self.now)]).await?;
        row.as_ref().map(share).transpose()
    }
}

pub(super) const SHARES_OF: &str = concat!(
    "-- shares_of\nSELECT ",
    share_columns!(),
    " FROM roundsman.transcript_shares
 WHERE user_id = $1 AND meeting_id = $2 AND expires_at > $3
 ORDER BY id DESC"
);

pub(super) struct SharesOf {
    pub(super) user: UserId,
    pub(super) meeting: MeetingId,
    pub(super) now: Timestamp,
}

impl Operation for SharesOf {
    type Answer = Vec<Share>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Share>, Failure> {
        let (user, meeting) = (self.user.get(), self.meeting.get());
        let rows = session.query(SHARES_OF, &[&user, &meeting, &Time(self.now)]).await?;
        rows.iter().map(share).collect()
    }
}

const DELETE_SHARE: &str = "-- delete_share
DELETE FROM roundsman.transcript_shares WHERE id = $1 AND user_id = $2";

pub(super) struct EndShare {
    pub(super) user: UserId,
    pub(super) share: i64,
}

impl Operation for EndShare {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let ended = session.execute(DELETE_SHARE, &[&self.share, &self.user.get()]).await? > 0;
        session.commit().await?;
        Ok(ended)
    }
}

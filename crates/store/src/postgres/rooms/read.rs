//! Reading rooms and their documents.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::ports::{RoomCounts, RoomTail, Scope, StoredRoom};
use roundsman_core::rooms::{ProjectId, Room, StoredUpdate};
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::rooms::{RoomColumns, update_of};

/// A row of `rooms`, in the order of [`room`].
macro_rules! room_columns {
    () => {
        "project_id, user_id, head_seq, snapshot_seq, snapshot_bytes, log_bytes, dirty_since, \
         created_at, updated_at"
    };
}
pub(super) use room_columns;

pub(super) fn room(row: &Row) -> Result<Room, Failure> {
    let mut reader = Reader::new(row);
    let columns = RoomColumns {
        project: reader.value()?,
        user_id: reader.value()?,
        head_seq: reader.value()?,
        snapshot_seq: reader.value()?,
        snapshot_bytes: reader.value()?,
        log_bytes: reader.value()?,
        dirty_since: reader.time_opt()?,
        created_at: reader.time()?,
        updated_at: reader.time()?,
    };
    Ok(columns.into_room()?)
}

pub(super) const ROOM: &str =
    concat!("-- room\nSELECT ", room_columns!(), " FROM roundsman.rooms WHERE project_id = $1");

pub(super) struct OneRoom {
    pub(super) project: ProjectId,
}

impl Operation for OneRoom {
    type Answer = Option<Room>;

    async fn run(&self, session: &mut Session) -> Result<Option<Room>, Failure> {
        let row = session.query_opt(ROOM, &[&self.project.as_str()]).await?;
        row.as_ref().map(room).transpose()
    }
}

const ROOMS: &str = concat!(
    "-- rooms\nSELECT ",
    room_columns!(),
    " FROM roundsman.rooms WHERE project_id > $1 ORDER BY project_id LIMIT $2"
);

pub(super) const ROOMS_OF_USER: &str = concat!(
    "-- rooms_of_user\nSELECT ",
    room_columns!(),
    " FROM roundsman.rooms WHERE user_id = $3 AND project_id > $1
 ORDER BY user_id, project_id LIMIT $2"
);

pub(super) struct Rooms {
    pub(super) scope: Scope,
    pub(super) after: Option<ProjectId>,
    pub(super) rows_max: u32,
}

impl Operation for Rooms {
    type Answer = Vec<Room>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Room>, Failure> {
        let after = self.after.as_ref().map_or("", ProjectId::as_str);
        let rows_max = i64::from(self.rows_max);
        let rows = match self.scope {
            Scope::All => session.query(ROOMS, &[&after, &rows_max]).await?,
            Scope::User(user) => {
                session.query(ROOMS_OF_USER, &[&after, &rows_max, &user.get()]).await?
            }
        };
        rows.iter().map(room).collect()
    }
}

pub(super) const ROOM_SNAPSHOT: &str = "-- room_snapshot
SELECT bytes FROM roundsman.room_snapshots WHERE project_id = $1";

pub(super) const ROOM_UPDATES: &str = "-- room_updates
SELECT seq, payload, origin FROM roundsman.room_updates
 WHERE project_id = $1 AND seq > $2 ORDER BY project_id, seq LIMIT $3";

fn updates(rows: &[Row]) -> Result<Vec<StoredUpdate>, Failure> {
    let read = |row: &Row| -> Result<StoredUpdate, Failure> {
        Ok(update_of(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)?)
    };
    rows.iter().map(read).collect()
}

pub(super) struct Load {
    pub(super) project: ProjectId,
}

impl Operation for Load {
    type Answer = Option<StoredRoom>;

    async fn run(&self, session: &mut Session) -> Result<Option<StoredRoom>, Failure> {
        session.begin_snapshot();
        let (project, start, all) = (self.project.as_str(), 0i64, i64::MAX);
        // What is in the log is after the snapshot.
        let [rooms, snapshots, rows] = session
            .query_all([
                (ROOM, &[&project]),
                (ROOM_SNAPSHOT, &[&project]),
                (ROOM_UPDATES, &[&project, &start, &all]),
            ])
            .await?;
        session.commit().await?;
        let Some(row) = rooms.first() else { return Ok(None) };
        let snapshot: Option<Vec<u8>> = snapshots.first().map(|row| row.try_get(0)).transpose()?;
        let snapshot = snapshot.map(Into::into);
        Ok(Some(StoredRoom { room: room(row)?, snapshot, updates: updates(&rows)? }))
    }
}

pub(super) struct Tail {
    pub(super) project: ProjectId,
    pub(super) after_seq: i64,
    pub(super) rows_max: u32,
}

impl Operation for Tail {
    type Answer = Option<RoomTail>;

    async fn run(&self, session: &mut Session) -> Result<Option<RoomTail>, Failure> {
        session.begin_snapshot();
        let (project, rows_max) = (self.project.as_str(), i64::from(self.rows_max));
        let [rooms, rows] = session
            .query_all([
                (ROOM, &[&project]),
                (ROOM_UPDATES, &[&project, &self.after_seq, &rows_max]),
            ])
            .await?;
        session.commit().await?;
        let Some(row) = rooms.first() else { return Ok(None) };
        let Room { head_seq, snapshot_seq, .. } = room(row)?;
        Ok(Some(RoomTail { head_seq, snapshot_seq, updates: updates(&rows)? }))
    }
}

pub(super) const ROOM_HEADS: &str = "-- room_heads
SELECT r.project_id, r.head_seq
  FROM unnest($1::text[]) AS given(id)
  JOIN roundsman.rooms r ON r.project_id = given.id";

pub(super) struct Heads {
    pub(super) projects: Vec<ProjectId>,
}

impl Operation for Heads {
    type Answer = Vec<Option<i64>>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Option<i64>>, Failure> {
        let names: Vec<&str> = self.projects.iter().map(ProjectId::as_str).collect();
        let rows = session.query(ROOM_HEADS, &[&names]).await?;
        let mut heads: BTreeMap<&str, i64> = BTreeMap::new();
        for row in &rows {
            heads.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(names.iter().map(|name| heads.get(name).copied()).collect())
    }
}

/// Few are dirty at any time, and fewer for long: they are sorted by name afterwards.
const STALE_ROOMS: &str = "-- stale_rooms
SELECT project_id FROM roundsman.rooms
 WHERE dirty_since < $1 AND project_id > $2 ORDER BY project_id LIMIT $3";

pub(super) struct Stale {
    pub(super) before: Timestamp,
    pub(super) after: Option<ProjectId>,
    pub(super) rows_max: u32,
}

impl Operation for Stale {
    type Answer = Vec<ProjectId>;

    async fn run(&self, session: &mut Session) -> Result<Vec<ProjectId>, Failure> {
        let after = self.after.as_ref().map_or("", ProjectId::as_str);
        let rows_max = i64::from(self.rows_max);
        let rows = session.query(STALE_ROOMS, &[&Time(self.before), &after, &rows_max]).await?;
        rows.iter().map(|row| Ok(ProjectId::from_stored(row.try_get(0)?))).collect()
    }
}

const ROOM_COUNTS: &str = "-- room_counts
SELECT (SELECT count(*) FROM roundsman.rooms),
       (SELECT count(*) FROM roundsman.rooms WHERE dirty_since IS NOT NULL)";

pub(super) struct Counts;

impl Operation for Counts {
    type Answer = RoomCounts;

    async fn run(&self, session: &mut Session) -> Result<RoomCounts, Failure> {
        let Some(row) = session.query_opt(ROOM_COUNTS, &[]).await? else {
            return Ok(RoomCounts::default());
        };
        let (rooms, dirty): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok(RoomCounts { rooms: rooms.unsigned_abs(), dirty: dirty.unsigned_abs() })
    }
}

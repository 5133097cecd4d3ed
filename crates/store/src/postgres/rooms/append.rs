//! More updates.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::AppendAnswer;
use roundsman_core::rooms::{self, AppendedUpdate, NewUpdate, Room};

use super::read::{room, room_columns};
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::rooms::{size_of, stored_size};

/// From here on nobody else gives numbers in these rooms, until the transaction ends.
pub(super) const LOCK_ROOMS: &str = concat!(
    "-- lock_rooms\nSELECT ",
    room_columns!(),
    " FROM roundsman.rooms WHERE project_id = ANY ($1::text[])
 ORDER BY project_id FOR NO KEY UPDATE"
);

const INSERT_UPDATES: &str = "-- insert_updates
INSERT INTO roundsman.room_updates (project_id, seq, payload, origin, created_at)
SELECT project_id, seq, payload, origin, $5
  FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[])
       AS new(project_id, seq, payload, origin)";

pub(super) const UPDATE_ROOMS: &str = "-- update_rooms
UPDATE roundsman.rooms r
   SET head_seq = new.head_seq, snapshot_seq = new.snapshot_seq,
       snapshot_bytes = new.snapshot_bytes, log_bytes = new.log_bytes,
       dirty_since = new.dirty_since, updated_at = new.updated_at
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
              $6::timestamptz[], $7::timestamptz[])
       AS new(project_id, head_seq, snapshot_seq, snapshot_bytes, log_bytes, dirty_since,
              updated_at)
 WHERE r.project_id = new.project_id";

pub(super) struct Append<'a> {
    pub(super) updates: Vec<NewUpdate>,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Append<'_> {
    type Answer = Vec<AppendAnswer>;

    async fn run(&self, session: &mut Session) -> Result<Vec<AppendAnswer>, Failure> {
        if self.updates.is_empty() {
            return Ok(Vec::new());
        }
        session.begin();
        let answers = append(session, &self.updates, self.catalog, self.now).await?;
        session.commit().await?;
        Ok(answers)
    }
}

/// Stores an update with something else that happens, in the caller's transaction. `None` if there is
/// no such room, or the document may not grow.
pub(in crate::postgres) async fn append_one(
    session: &mut Session,
    update: &NewUpdate,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Option<AppendedUpdate>, Failure> {
    let answers = append(session, std::slice::from_ref(update), catalog, now).await?;
    let [AppendAnswer::Appended { seq }] = answers[..] else { return Ok(None) };
    let NewUpdate { project, payload, .. } = update.clone();
    Ok(Some(AppendedUpdate { project, seq, payload }))
}

async fn append(
    session: &mut Session,
    updates: &[NewUpdate],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Vec<AppendAnswer>, Failure> {
    let names: BTreeSet<&str> = updates.iter().map(|update| update.project.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let mut rooms: BTreeMap<String, Room> = BTreeMap::new();
    for row in session.query(LOCK_ROOMS, &[&names]).await? {
        let room = room(&row)?;
        rooms.insert(room.project.as_str().to_owned(), room);
    }
    let (mut answers, mut effects) = (Vec::with_capacity(updates.len()), Vec::new());
    let mut stored: Vec<(&NewUpdate, i64)> = Vec::with_capacity(updates.len());
    let mut changed: BTreeSet<&str> = BTreeSet::new();
    for update in updates {
        let name = update.project.as_str();
        let Some(room) = rooms.get_mut(name) else {
            answers.push(AppendAnswer::NoSuchRoom);
            continue;
        };
        match rooms::append(room, size_of(&update.payload), &update.rules, now) {
            Ok((after, brings)) => {
                *room = after;
                effects.push(brings);
                stored.push((update, room.head_seq));
                changed.insert(name);
                answers.push(AppendAnswer::Appended { seq: room.head_seq });
            }
            Err(full) => answers.push(AppendAnswer::Full(full)),
        }
    }
    if !stored.is_empty() {
        insert(session, &stored, now).await?;
        let changed: Vec<&Room> = changed.iter().filter_map(|name| rooms.get(*name)).collect();
        update_rooms(session, &changed).await?;
        let effects: Vec<&Effects> = effects.iter().filter(|each| !each.is_empty()).collect();
        write_effects(session, &effects, catalog, now).await?;
    }
    Ok(answers)
}

async fn insert(
    session: &mut Session,
    stored: &[(&NewUpdate, i64)],
    now: Timestamp,
) -> Result<(), Failure> {
    let names: Vec<&str> = stored.iter().map(|(update, _)| update.project.as_str()).collect();
    let seqs: Vec<i64> = stored.iter().map(|(_, seq)| *seq).collect();
    let payloads: Vec<&[u8]> = stored.iter().map(|(update, _)| update.payload.as_ref()).collect();
    let origins: Vec<&str> = stored.iter().map(|(update, _)| update.origin.as_str()).collect();
    session.execute(INSERT_UPDATES, &[&names, &seqs, &payloads, &origins, &Time(now)]).await?;
    Ok(())
}

pub(super) async fn update_rooms(session: &mut Session, rooms: &[&Room]) -> Result<(), Failure> {
    let names: Vec<&str> = rooms.iter().map(|room| room.project.as_str()).collect();
    let numbers =
        |number: fn(&Room) -> i64| -> Vec<i64> { rooms.iter().map(|room| number(room)).collect() };
    let dirty: Vec<Option<Time>> = rooms.iter().map(|room| room.dirty_since.map(Time)).collect();
    let updated: Vec<Time> = rooms.iter().map(|room| Time(room.updated_at)).collect();
    session
        .execute(
            UPDATE_ROOMS,
            &[
                &names,
                &numbers(|room| room.head_seq),
                &numbers(|room| room.snapshot_seq),
                &numbers(|room| stored_size(room.snapshot_bytes)),
                &numbers(|room| stored_size(room.log_bytes)),
                &dirty,
                &updated,
            ],
        )
        .await?;
    Ok(())
}

//! Tasks with the documents of rooms themselves: what ends reaches whoever is there and whoever comes
//! (L-9), and rounds and snapshots leave each other alone (L-13).

use std::sync::Arc;

use roundsman_core::jobs::Role;
use roundsman_core::ports::RoomStore;
use roundsman_core::tasks::TaskStatus;
use roundsman_documents::Document;
use roundsman_engine::rooms::{Mail, RoomLimits, Rooms};
use roundsman_engine::tasks::{BroadcastWish, Tasks};
use roundsman_testkit::env;

use super::{TaskWorld, project};
use crate::backend::{Backend, on_every_database};
use crate::rooms::{Client, local_bus, rooms_of};
use crate::support::secs;

/// Races on every change, and in a run of everything.
const RACES: (u64, u64) = (200, 10_000);

on_every_database! {
    l_9_whoever_joins_while_a_task_ends_sees_it_once
    l_13_snapshots_are_made_while_tasks_are_polled_for_an_hour
}

/// A world whose tasks end in documents of Loro.
async fn world_of(backend: Backend) -> (TaskWorld, Rooms) {
    let mut world = TaskWorld::new(backend).await;
    let rooms = rooms_of(&world.world, Arc::new(local_bus()), RoomLimits::default());
    world.work.documents = Arc::new(rooms.clone());
    world.tasks = Tasks::new(&world.work, world.world.store.clone());
    let mut handlers = world.work.handlers();
    handlers.extend(rooms.handlers());
    world.worker = world.world.worker_with(handlers, |options| {
        options.roles = vec![Role::Worker, Role::Scheduler];
    });
    (world, rooms)
}

async fn l_9_whoever_joins_while_a_task_ends_sees_it_once(backend: Backend) {
    let (world, rooms) = world_of(backend).await;
    let races = if env::full() { RACES.1 } else { RACES.0 };
    let (mut late, mut told, mut found) = (Document::new(1), 0, 0);
    for race in 0..races {
        let task = world.make().await;
        let id = task.id.to_string();
        let wish = BroadcastWish { task_id: id.clone(), ..BroadcastWish::default() };
        if race % 200 == 199 {
            // Its log is merged, so that it is read as fast as before.
            world.run_due().await;
        }
        if race % 4 == 3 {
            // Nobody was there: whoever comes finds the document out of memory.
            world.world.clock.advance(secs(31));
            rooms.look().await.unwrap();
        }
        // Which of them is how far when the other begins is different each time.
        let ends = async {
            linger(&world, race % 3).await;
            world.tasks.broadcast(&project(), wish).await.unwrap()
        };
        let joins = async {
            linger(&world, race % 13).await;
            Client::rejoin(&rooms, late).await
        };
        let ((over, is_applied), mut client) = match race % 10 {
            0 => (ends.await, joins.await),
            1 => {
                let client = joins.await;
                (ends.await, client)
            }
            _ => tokio::join!(ends, joins),
        };
        assert_eq!((over.status, is_applied), (TaskStatus::Completed, true));
        let was_there = is_told(&client.document, &id);
        while let Some(mail) = client.membership.mailbox().take() {
            let Mail::Update(update) = mail else { panic!("{mail:?}") };
            let before = client.document.version();
            client.document.import(&update).unwrap();
            assert_ne!(client.document.version(), before, "race {race}: it is told twice");
            told += 1;
        }
        assert!(is_told(&client.document, &id), "race {race}: it is lost");
        found += u64::from(was_there);
        late = client.document;
    }
    assert_eq!(told + found, races, "each of them once");
    assert!(told > 0 && found > 0, "{told} were told and {found} were there: no races");
    // Every name under which something was written is part of every version for ever.
    assert!(
        late.version().len() < 50,
        "one name for all of them, and none for those who only look"
    );
    world.world.check().await;
}

/// So many looks at the database long.
async fn linger(world: &TaskWorld, looks: u64) {
    for _ in 0..looks {
        world.world.store.room(project()).await.unwrap();
    }
}

fn is_told(document: &Document, task: &str) -> bool {
    document.to_json()["tasks"][task]["status"] == "completed"
}

async fn l_13_snapshots_are_made_while_tasks_are_polled_for_an_hour(backend: Backend) {
    let (world, _rooms) = world_of(backend).await;
    world.accepted().await;
    for step in 0..360 {
        // One is pending all the time; another ends every minute, and changes the document.
        if step % 6 == 0 {
            let short = world.accepted().await;
            world.generator.succeeds(&short.external_task_id.unwrap());
        }
        world.jump(secs(10)).await;
    }
    let asked = world.generator.asked();
    let rounds = asked.iter().filter(|external| *external == "ext-1").count();
    assert_eq!(rounds, 360, "every ten seconds");
    let versions = world.world.store.room_versions(project(), None, 100).await.unwrap();
    assert!(versions.len() >= 11, "{} snapshots in an hour", versions.len());
    let times: Vec<_> = versions.iter().rev().map(|version| version.at).collect();
    for pair in times.windows(2) {
        assert!(pair[1] <= pair[0] + secs(360), "{pair:?}");
    }
    world.world.check().await;
}

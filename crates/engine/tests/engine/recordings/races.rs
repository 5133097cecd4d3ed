//! Announcements that race each other, over and over.

use roundsman_core::presence::RoomName;
use roundsman_core::recordings::Announcement;
use roundsman_engine::recordings::AnnounceReply;
use roundsman_testkit::env;

use super::{ROOM, RecordingWorld};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    however_they_race_each_is_processed_once
    a_burst_of_events_is_stored_before_any_is_answered
}

/// R-16 and R8: the event, its duplicate and the poll at once, in whatever order they come.
async fn however_they_race_each_is_processed_once(backend: Backend) {
    let rounds = match backend {
        Backend::Sqlite if env::full() => 10_000,
        Backend::Sqlite => 300,
        Backend::Postgres => 60,
    };
    let world = RecordingWorld::new(backend).await;
    let mut room = String::new();
    for round in 0..rounds {
        // No transcript becomes so long that reading it takes long.
        if round % 50 == 0 {
            room = format!("room-{round}");
            world.meeting(&room).await;
        }
        let id = format!("rec-{round}");
        let room = RoomName::new(&room).unwrap();
        let announcement = Announcement { room, ..world.recorded(&id) };
        world.outside.list(&announcement);
        let event = async || {
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            world.announce(&announcement).await
        };
        let poll = async {
            world.poll().await;
        };
        let (first, second, ()) = tokio::join!(event(), event(), poll);
        world.run_due().await;
        let new = [&first, &second].iter().filter(|r| matches!(r, AnnounceReply::New(_))).count();
        assert!(new <= 1, "{first:?} {second:?}");
        world.assert_done(&id).await;
        world.world.clock.advance(secs(200));
    }
    assert_eq!(world.outside.heard().len(), rounds);
    world.check().await;
}

async fn a_burst_of_events_is_stored_before_any_is_answered(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    let all: Vec<_> = (0..100).map(|n| world.recorded(&format!("rec-{n}"))).collect();
    let announced = futures_util::future::join_all(all.iter().map(|a| async {
        let reply = world.announce(a).await;
        // What is answered is there, with its job.
        world.recording(a.id.as_str()).await;
        reply
    }));
    let announced = announced.await;
    assert!(announced.iter().all(|reply| matches!(reply, AnnounceReply::New(_))));
    assert_eq!(world.jobs().await.len(), 100);
    assert!(world.steps.count("announce_recordings") < 20, "they are written together");
    world.run_due().await;
    for announcement in &all {
        world.assert_done(announcement.id.as_str()).await;
    }
    world.check().await;
}

//! What is particular to this adapter: rows that somebody else has changed.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{
    KindCatalog, KindName, KindSpec, Lane, LeaseOwner, MergeRule, RetryPolicy, Role, WorkerName,
};
use roundsman_core::ports::{ClaimRequest, EffectStore, JobStore, LaneDemand};
use roundsman_core::presence::RoomName;
use roundsman_core::recordings::{PROCESS_KIND, RecordingKind, Via};
use roundsman_core::users::UserId;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: KindName::new("render").unwrap(),
        lease_ttl: Duration::from_mins(1),
        heartbeat_every: Duration::from_secs(15),
        deadline: None,
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_mins(1) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }))
}

/// A store with a recording, and the lease of its job.
async fn store() -> (SqliteStore, RecordingId, LeaseRef) {
    let store = SqliteStore::open_in_memory_inline(catalog()).unwrap();
    let id = RecordingId::new("rec").unwrap();
    let announcement = Announcement {
        id: id.clone(),
        room: RoomName::new("room").unwrap(),
        kind: RecordingKind::Cloud,
        started_at: NOW,
        duration_ms: 5000,
        tracks: vec![],
        via: Via::Event,
    };
    store.announce_recordings(vec![announcement], NOW).await.unwrap();
    let lane = Lane::of(UserId::SYSTEM, &KindName::new(PROCESS_KIND).unwrap());
    let lease_ttl = Duration::from_mins(10);
    let request = ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![LaneDemand { lane, max: 1, lease_ttl, deadline: None }],
        total_max: 1,
    };
    let guard = store.claim(request, NOW).await.unwrap().jobs.remove(0).lease_ref();
    (store, id, guard)
}

async fn write(store: &SqliteStore, statements: &'static str) {
    store.write("store.ping", move |conn, _| Ok(conn.execute_batch(statements)?)).await.unwrap();
}

#[tokio::test]
async fn a_row_that_makes_no_sense_is_named() {
    for (damage, expected) in [
        ("UPDATE recordings SET status = 'tired'", "status"),
        ("UPDATE recordings SET kind = 'film'", "kind"),
        ("UPDATE recordings SET tracks = '{'", "tracks"),
        ("UPDATE recordings SET media = '[1]'", "media"),
        ("UPDATE recordings SET repeats = -1", "repeats"),
    ] {
        let (store, id, guard) = store().await;
        write(&store, damage).await;
        let answers = [
            store.recording(Scope::All, id.clone()).await.map(drop),
            store.recordings(Scope::All, RecordingFilter::default(), None, 9).await.map(drop),
            store.begin_recording(id.clone(), guard, NOW).await.map(drop),
            store.keep_media(id.clone(), vec![], guard, NOW).await.map(drop),
            store.fail_recording(id, "x".to_owned(), guard, NOW).await.map(drop),
        ];
        for answer in answers {
            match answer {
                Err(StoreError::Inconsistent { table: "recordings", column, row: 1, .. }) => {
                    assert_eq!(column, expected);
                }
                other => panic!("{damage}: {other:?}"),
            }
        }
        assert!(!store.check().await.unwrap().is_empty(), "{damage}");
    }
}

#[tokio::test]
async fn a_cursor_that_makes_no_sense_is_named() {
    let (store, id, _) = store().await;
    store.set_recording_cursor(id, NOW).await.unwrap();
    write(&store, "UPDATE recording_cursor SET recording_id = ''").await;
    assert!(matches!(store.recording_cursor().await, Err(StoreError::Inconsistent { .. })));
}

//! What is particular to this adapter: rows that somebody else has changed.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{
    JobId, KindCatalog, KindName, KindSpec, LeaseNo, LeaseOwner, MergeRule, NewJob, RetryPolicy,
    Role, WorkerName,
};
use roundsman_core::ports::{
    ClaimRequest, EffectStore, EnqueueRequest, JobStore, LaneDemand, UserStore,
};
use roundsman_core::presence::{Look, Participant, poll_wish};
use roundsman_core::users::{NewUser, UserId};

use super::*;

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

fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

/// A store with an open meeting.
async fn store() -> (SqliteStore, MeetingId) {
    let store = SqliteStore::open_in_memory_inline(catalog()).unwrap();
    let ada = NewUser {
        email: "ada@example.org".to_owned(),
        name: None,
        image_url: None,
        max_concurrent_bots: 10,
    };
    let (ada, _) = store.find_or_create_user(ada, at(1)).await.unwrap();
    let wish = NewPresenceMeeting {
        user_id: ada.id,
        room: RoomName::new("room").unwrap(),
        room_url: None,
        schedule: None,
    };
    match store.open_presence(wish, at(1)).await.unwrap() {
        OpenAnswer::Opened(meeting) => (store, meeting.id),
        other => panic!("{other:?}"),
    }
}

/// Looks under the lease of the meeting's job.
async fn sees(
    store: &SqliteStore,
    id: MeetingId,
    person: &str,
) -> Result<CommitAnswer, StoreError> {
    let wish: NewJob = poll_wish(id, &[], at(2));
    let lane = roundsman_core::jobs::Lane::of(UserId::SYSTEM, &wish.kind);
    let request = EnqueueRequest { jobs: vec![wish], idempotency: None };
    store.enqueue(request, at(2)).await.unwrap();
    let demand = LaneDemand { lane, max: 1, lease_ttl: Duration::from_mins(2), deadline: None };
    let request = ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![demand],
        total_max: 1,
    };
    let job = store.claim(request, at(2)).await.unwrap().jobs.remove(0);
    let participant = Participant {
        session_id: person.to_owned(),
        user_id: None,
        user_name: None,
        joined_at: at(2),
    };
    let report = LookReport {
        no: job.lease.lease_no.get(),
        began_at: at(3),
        look: Look::Seen(vec![participant]),
        hints: vec![],
    };
    store.commit_look(id, report, PresenceRules::default(), job.lease_ref(), at(3)).await
}

async fn write(store: &SqliteStore, statements: &'static str) {
    store.write("store.ping", move |conn, _| Ok(conn.execute_batch(statements)?)).await.unwrap();
}

#[tokio::test]
async fn a_session_that_somebody_wrote_by_hand_is_counted() {
    let (store, id) = store().await;
    let rogue =
        "INSERT INTO presence_sessions (meeting_id, session_id, joined_at) VALUES (1, 'x', 1)";
    write(&store, rogue).await;
    assert!(!store.check().await.unwrap().is_empty(), "one is there that was not counted");
    let CommitAnswer::Written(written) = sees(&store, id, "a").await.unwrap() else {
        panic!("it is newer than none");
    };
    assert_eq!((written.meeting.num_clients, written.tally.left), (2, 0), "it may be late");
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test]
async fn a_row_that_makes_no_sense_is_named() {
    for (damage, place) in [
        ("UPDATE meetings SET status = 'active'", ("meetings", "status")),
        ("UPDATE presence SET end_reason = 'tired'", ("presence", "end_reason")),
        ("UPDATE presence SET num_clients = -1", ("presence", "num_clients")),
    ] {
        let (store, id) = store().await;
        write(&store, damage).await;
        let answers = [
            sees(&store, id, "a").await.map(drop),
            store.presence_meeting(Scope::All, id).await.map(drop),
            store.end_presence(Scope::All, id, at(3)).await.map(drop),
        ];
        for answer in answers {
            match answer {
                Err(StoreError::Inconsistent { table, column, .. }) => {
                    assert_eq!((table, column), place);
                }
                other => panic!("{damage}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_meeting_without_its_other_half_is_none() {
    let (store, id) = store().await;
    write(&store, "DELETE FROM presence").await;
    assert_eq!(sees(&store, id, "a").await.unwrap(), CommitAnswer::NoSuchMeeting);
    assert_eq!(store.presence_meeting(Scope::All, id).await.unwrap(), None);
    let nobody = LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(i64::MAX) };
    let judged = store.judge_presence(id, PresenceRules::default(), nobody, at(9)).await;
    assert_eq!(judged.unwrap(), CommitAnswer::LeaseLost);
}

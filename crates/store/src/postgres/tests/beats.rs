//! Heartbeats of bots in numbers: what they write, and who waits for whom.

use roundsman_core::bots::{BotTimeouts, ConnectionId, MeetingId, WorkloadId};
use roundsman_core::ports::{BotBeat, BotStore, BotSweep, EffectStore};
use tokio::task::JoinSet;

use super::*;

const BOTS: i64 = 1_000;

/// Bots in their meetings, heard of at [`NOW`].
const FILL: &str = "
INSERT INTO public.users (email, max_concurrent_bots) VALUES ('ada@example.org', 1000000);
INSERT INTO public.meetings (user_id, platform, platform_specific_id, status, created_at)
SELECT 1, 'google_meet', 'm-' || n, 'active', timestamp '2026-01-01'
  FROM generate_series(1, 1000) n;
INSERT INTO roundsman.bots
    (meeting_id, user_id, connection_id, attempt, live, was_active, beats, reserved_at, entered_at,
     heartbeat_at, missed, config_version, config_applied, wish)
SELECT id, 1, 'c-' || id, 1, true, true, true, t, t, t, 0, 0, 0, '{}'
  FROM public.meetings, (SELECT timestamptz '2026-01-01 00:00:00+00' AS t) x;
INSERT INTO roundsman.transitions (entity, entity_id, from_state, to_state, cause, at)
SELECT 'meeting', meeting_id, NULL, 'active', 'adopted', entered_at FROM roundsman.bots";

fn beat(id: i64, progress: i64) -> BotBeat {
    BotBeat {
        workload: WorkloadId { meeting_id: MeetingId::new(id), attempt: 1 },
        connection: ConnectionId::from_stored(format!("c-{id}")),
        media_progress: Some(progress),
        config_applied: Some(0),
    }
}

/// Only then does one rewrite a row in its page and nothing else. (How many really do depends on
/// whatever else the server is busy with, so that is measured and not tested.)
#[tokio::test]
async fn what_a_heartbeat_changes_is_in_no_index() {
    let (_store, database) = store().await;
    let operator = database.connect().await.unwrap();
    let count = async |table: &str, columns: &[&str]| -> i64 {
        operator.query_one(INDEXED, &[&table, &columns]).await.unwrap().get(0)
    };
    let of_bots = [
        "heartbeat_at",
        "beats",
        "seen_at",
        "missed",
        "media_progress",
        "media_at",
        "config_applied",
    ];
    assert_eq!(count("roundsman.bots", &of_bots).await, 0);
    assert_eq!(count("public.meetings", &["updated_at"]).await, 0);
    assert!(count("roundsman.bots", &["live", "meeting_id"]).await >= 2, "the question is wrong");
}

/// Batches in whatever order, a sweep, and looks of the runtime, all at the same rows at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_meet_wait_and_never_deadlock() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    operator.batch_execute(FILL).await.unwrap();
    let store = Arc::new(store);
    let mut callers = JoinSet::new();
    for caller in 0..6_i64 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            for round in 0..20 {
                let mut ids: Vec<i64> = (1..=BOTS).filter(|id| (id + round) % 3 != 0).collect();
                if caller % 2 == 0 {
                    ids.reverse();
                }
                let beats = ids.into_iter().map(|id| beat(id, round)).collect();
                store.bot_heartbeats(beats, NOW).await.unwrap();
            }
        });
    }
    let sweeping = Arc::clone(&store);
    callers.spawn(async move {
        let request = BotSweep {
            timeouts: BotTimeouts::default(),
            serving_since: Timestamp::EPOCH,
            runtime_answered: true,
            rows_max: 50,
        };
        let late = NOW + Duration::from_secs(121);
        let mut given_up = 0;
        for _ in 0..20 {
            given_up += sweeping.sweep_bots(request, late).await.unwrap().len();
        }
        assert!(given_up > 0, "the sweep got no turn at all");
    });
    callers.join_all().await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(operator.query_one(deadlocks, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(store.check().await.unwrap(), []);
}

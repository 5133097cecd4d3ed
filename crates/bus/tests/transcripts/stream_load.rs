//! Many entries, several consumers and groups, and a server that keeps failing.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use roundsman_core::ports::{IngestStream, StreamEntry};
use roundsman_testkit::redis::Persistence;

use super::lab::Lab;
use crate::support::bounded;

const ENTRIES: usize = 1_000;

/// What a group has taken, by whichever consumer.
#[derive(Default)]
struct Taken {
    payloads: Mutex<BTreeSet<String>>,
    done: AtomicBool,
}

impl Taken {
    fn take(&self, entries: &[StreamEntry]) {
        let mut payloads = self.payloads.lock().unwrap();
        let found = entries.iter().filter_map(|entry| entry.field("payload"));
        payloads.extend(found.map(str::to_owned));
        if payloads.len() == ENTRIES {
            self.done.store(true, Ordering::Relaxed);
        }
    }

    /// Reads, claims, acknowledges and trims like a collector, until the group has taken all.
    async fn consume(&self, stream: impl IngestStream, dies_at: Option<usize>) {
        let mut taken = 0;
        while !self.done.load(Ordering::Relaxed) {
            let mut entries = stream.read(17).await.unwrap_or_default();
            entries.extend(stream.claim(500, 17).await.unwrap_or_default());
            taken += entries.len();
            if dies_at.is_some_and(|limit| taken >= limit) {
                return;
            }
            self.take(&entries);
            let ids: Vec<String> = entries.into_iter().map(|entry| entry.id).collect();
            let _ = stream.acknowledge(&ids).await;
            let _ = stream.trim(0, 60_000).await;
        }
    }
}

async fn add_all(lab: &Lab) {
    let mut operator = lab.operator().await;
    for number in 0..ENTRIES {
        let mut add = redis::cmd("XADD");
        add.arg(super::lab::STREAM).arg("*").arg("payload").arg(number);
        let _: String = bounded(add.query_async(&mut operator)).await.expect("added");
    }
}

/// Claims and acknowledges what is left, and trims; then nothing of the stream is left.
async fn expect_nothing_left(lab: &Lab, groups: &[&str]) {
    for group in groups {
        let stream = lab.consumer(group, "last");
        let left = async {
            loop {
                let mut entries = stream.read(100).await.unwrap();
                entries.extend(stream.claim(0, 100).await.unwrap());
                if entries.is_empty() {
                    return;
                }
                let ids: Vec<String> = entries.into_iter().map(|entry| entry.id).collect();
                stream.acknowledge(&ids).await.unwrap();
            }
        };
        bounded(left).await;
    }
    let stream = lab.consumer(groups[0], "last");
    let state = bounded(stream.trim(0, 0)).await.unwrap();
    assert_eq!((state.entries, state.pending, state.lag), (0, 0, 0), "{state:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_consumer_costs_nothing_and_trimming_waits_for_the_slower_group() {
    let lab = Lab::start().await;
    let (fast, slow) = (Taken::default(), Taken::default());
    bounded(async { lab.consumer("slow", "first").read(1).await }).await.unwrap();
    let work = async {
        tokio::join!(
            add_all(&lab),
            fast.consume(lab.consumer("fast", "a"), None),
            fast.consume(lab.consumer("fast", "b"), None),
            fast.consume(lab.consumer("fast", "dies"), Some(100)),
            async {
                slow.consume(lab.consumer("slow", "dies"), Some(100)).await;
                slow.consume(lab.consumer("slow", "a"), None).await;
            },
        )
    };
    bounded(Box::pin(work)).await;
    expect_nothing_left(&lab, &["fast", "slow"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_connections_are_killed() {
    let lab = Lab::start_with(Persistence::EveryWrite).await;
    let taken = Taken::default();
    let killing = async {
        add_all(&lab).await;
        while !taken.done.load(Ordering::Relaxed) {
            lab.redis.drop_clients().await.unwrap();
            // Some reading happens between two kills.
            let _ = lab.consumer("other", "paces").read(1).await;
        }
    };
    let work = async {
        tokio::join!(
            killing,
            taken.consume(lab.consumer("g", "a"), None),
            taken.consume(lab.consumer("g", "b"), None),
        )
    };
    bounded(Box::pin(work)).await;
    lab.until_connected(true).await;
    expect_nothing_left(&lab, &["g", "other"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_the_server_restarts() {
    let mut lab = Lab::start_with(Persistence::EveryWrite).await;
    let taken = Taken::default();
    let (one, two) = (lab.consumer("g", "a"), lab.consumer("g", "b"));
    add_all(&lab).await;
    let restarting = async {
        for _ in 0..3 {
            lab.redis.kill_9().await.unwrap();
            lab.redis.restart().await.unwrap();
        }
    };
    let work =
        async { tokio::join!(restarting, taken.consume(one, None), taken.consume(two, None)) };
    bounded(Box::pin(work)).await;
    lab.until_connected(true).await;
    expect_nothing_left(&lab, &["g"]).await;
}

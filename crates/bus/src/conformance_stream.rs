//! What every stream must do, as one suite.
//!
//! An adapter provides a [`StreamBench`] and calls
//! [`stream_conformance_suite!`](crate::stream_conformance_suite), which makes one test per case.
//! Ids like `5-0` are those of entries written long ago: they are older than any age.

#![expect(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::ports::{IngestStream, StreamEntry, StreamState};

const HOUR_MS: u64 = 3_600_000;

/// A stream that does not exist yet, and what a test must be able to see and do behind its back.
#[async_trait]
pub trait StreamBench: Send + Sync {
    /// Waits only briefly for a first entry.
    fn consumer(&self, group: &str, name: &str) -> Arc<dyn IngestStream>;

    /// Appends an entry with this id, or with the time's own for `*`; returns it.
    async fn add(&self, id: &str, fields: &[(&str, &str)]) -> String;

    async fn delete(&self, id: &str);

    async fn wipe(&self);

    async fn ids(&self) -> Vec<String>;

    async fn consumers(&self, group: &str) -> Vec<String>;
}

/// Makes one test of every case. `$bench` is an expression that is awaited in each.
#[macro_export]
macro_rules! stream_conformance_suite {
    ($bench:expr) => {
        $crate::stream_conformance_suite!($bench;
            gives_every_entry_once_and_in_order
            keeps_fields_as_they_were_written
            makes_the_stream_and_its_group
            consumers_share_the_work
            groups_are_given_everything_each
            claims_what_was_left_and_counts
            claims_go_round
            acknowledged_is_done
            deleted_entries_are_nobodys
            a_wiped_stream_is_made_again
            trims_what_is_old_and_acknowledged
            trims_nothing_that_is_young
            never_trims_past_any_group
            a_group_that_has_read_nothing_holds_everything
            removes_consumers_that_are_gone
            says_how_it_stands
            asks_for_nothing_get_nothing
        );
    };
    ($bench:expr; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance_stream::$case($bench.await).await;
            }
        )*
    };
}

pub async fn gives_every_entry_once_and_in_order(bench: impl StreamBench) {
    let added = add_some(&bench, 5).await;
    let stream = bench.consumer("g", "a");
    assert_eq!(ids(&stream.read(2).await.unwrap()), added[..2]);
    assert_eq!(ids(&stream.read(100).await.unwrap()), added[2..]);
    assert_eq!(stream.read(100).await.unwrap(), []);
    let later = bench.add("*", &[("payload", "later")]).await;
    let entries = stream.read(100).await.unwrap();
    assert_eq!(ids(&entries), [later]);
    assert_eq!(entries[0].deliveries, 1);
    assert_eq!(entries[0].field("payload"), Some("later"));
}

pub async fn keeps_fields_as_they_were_written(bench: impl StreamBench) {
    let fields = [("z", "1"), ("a", ""), ("z", "2"), ("", "grüße\n\0"), ("payload", "{}")];
    bench.add("*", &fields).await;
    let entries = bench.consumer("g", "a").read(1).await.unwrap();
    let found: Vec<(&str, &str)> =
        entries[0].fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(found, fields);
}

pub async fn makes_the_stream_and_its_group(bench: impl StreamBench) {
    let stream = bench.consumer("g", "a");
    assert_eq!(stream.read(10).await.unwrap(), []);
    let added = add_some(&bench, 1).await;
    assert_eq!(ids(&stream.read(10).await.unwrap()), added);
    // Two that make it at once do not disturb each other, and what was there before is read.
    let (one, two) = (bench.consumer("h", "a"), bench.consumer("h", "b"));
    let (one, two) = tokio::join!(one.read(10), two.read(10));
    assert_eq!(one.unwrap().len() + two.unwrap().len(), 1);
}

pub async fn consumers_share_the_work(bench: impl StreamBench) {
    let (one, two) = (bench.consumer("g", "a"), bench.consumer("g", "b"));
    let added: BTreeSet<String> = add_some(&bench, 100).await.into_iter().collect();
    let read_all = async |stream: Arc<dyn IngestStream>| {
        let mut read = Vec::new();
        loop {
            let entries = stream.read(7).await.unwrap();
            if entries.is_empty() {
                return read;
            }
            stream.acknowledge(&ids(&entries)).await.unwrap();
            read.extend(ids(&entries));
        }
    };
    let (first, second) = tokio::join!(read_all(one), read_all(two));
    assert_eq!(first.len() + second.len(), 100, "an entry was given twice");
    assert_eq!(first.into_iter().chain(second).collect::<BTreeSet<_>>(), added);
}

pub async fn groups_are_given_everything_each(bench: impl StreamBench) {
    let added = add_some(&bench, 3).await;
    let (one, two) = (bench.consumer("g", "a"), bench.consumer("h", "a"));
    assert_eq!(ids(&one.read(10).await.unwrap()), added);
    one.acknowledge(&added).await.unwrap();
    assert_eq!(ids(&two.read(10).await.unwrap()), added);
    assert_eq!(ids(&two.claim(0, 10).await.unwrap()), added, "another group's is not done");
    assert_eq!(one.claim(0, 10).await.unwrap(), []);
}

pub async fn claims_what_was_left_and_counts(bench: impl StreamBench) {
    let added = add_some(&bench, 2).await;
    let (dead, alive) = (bench.consumer("g", "dead"), bench.consumer("g", "alive"));
    dead.read(10).await.unwrap();
    assert_eq!(alive.read(10).await.unwrap(), [], "it is the other's");
    assert_eq!(alive.claim(HOUR_MS, 10).await.unwrap(), [], "the other may be at it");
    for deliveries in 2..=6 {
        let claimed = alive.claim(0, 10).await.unwrap();
        assert_eq!(ids(&claimed), added);
        assert!(claimed.iter().all(|entry| entry.deliveries == deliveries), "{claimed:?}");
        assert!(claimed.iter().all(|entry| entry.field("payload").is_some()));
    }
    alive.acknowledge(&added[..1]).await.unwrap();
    assert_eq!(ids(&dead.claim(0, 10).await.unwrap()), added[1..]);
}

pub async fn claims_go_round(bench: impl StreamBench) {
    let added = add_some(&bench, 10).await;
    let (dead, alive) = (bench.consumer("g", "dead"), bench.consumer("g", "alive"));
    dead.read(100).await.unwrap();
    let mut claimed = Vec::new();
    for _ in 0..4 {
        claimed.extend(ids(&alive.claim(0, 3).await.unwrap()));
    }
    assert_eq!(claimed, added, "each once before the first again");
    assert_eq!(ids(&alive.claim(0, 3).await.unwrap()), added[..3]);
}

pub async fn acknowledged_is_done(bench: impl StreamBench) {
    let added = add_some(&bench, 3).await;
    let stream = bench.consumer("g", "a");
    stream.read(10).await.unwrap();
    stream.acknowledge(&[]).await.unwrap();
    stream.acknowledge(&["1-1".to_owned()]).await.unwrap();
    for _ in 0..2 {
        stream.acknowledge(&added).await.unwrap();
    }
    assert_eq!(stream.claim(0, 10).await.unwrap(), []);
    assert_eq!(stream.read(10).await.unwrap(), []);
    assert_eq!(stream.trim(HOUR_MS, HOUR_MS).await.unwrap().pending, 0);
}

pub async fn deleted_entries_are_nobodys(bench: impl StreamBench) {
    let added = add_some(&bench, 3).await;
    let (dead, alive) = (bench.consumer("g", "dead"), bench.consumer("g", "alive"));
    dead.read(10).await.unwrap();
    bench.delete(&added[0]).await;
    bench.delete(&added[2]).await;
    assert_eq!(ids(&alive.claim(0, 10).await.unwrap()), [added[1].clone()]);
    assert_eq!(alive.trim(HOUR_MS, HOUR_MS).await.unwrap().pending, 1);
}

pub async fn a_wiped_stream_is_made_again(bench: impl StreamBench) {
    let stream = bench.consumer("g", "a");
    let added = add_some(&bench, 2).await;
    stream.read(1).await.unwrap();
    bench.wipe().await;
    assert_eq!(stream.trim(0, 0).await.unwrap(), StreamState::default());
    stream.acknowledge(&added).await.unwrap();
    assert_eq!(stream.claim(0, 10).await.unwrap(), []);
    bench.wipe().await;
    assert_eq!(stream.read(10).await.unwrap(), []);
    let again = add_some(&bench, 1).await;
    assert_eq!(ids(&stream.read(10).await.unwrap()), again);
    // Entries that came before anybody looked are read as well.
    bench.wipe().await;
    let again = add_some(&bench, 2).await;
    assert_eq!(ids(&stream.read(10).await.unwrap()), again);
}

pub async fn trims_what_is_old_and_acknowledged(bench: impl StreamBench) {
    let added = add_old(&bench, 6).await;
    let stream = bench.consumer("g", "a");
    stream.read(4).await.unwrap();
    assert_eq!(stream.trim(HOUR_MS, HOUR_MS).await.unwrap().trimmed, 0, "nothing is done");
    stream.acknowledge(&added[1..3]).await.unwrap();
    assert_eq!(stream.trim(HOUR_MS, HOUR_MS).await.unwrap().trimmed, 0, "the first is not done");
    stream.acknowledge(&added[..1]).await.unwrap();
    assert_eq!(stream.trim(HOUR_MS, HOUR_MS).await.unwrap().trimmed, 3);
    assert_eq!(bench.ids().await, added[3..]);
    stream.acknowledge(&added[3..4]).await.unwrap();
    assert_eq!(stream.trim(HOUR_MS, HOUR_MS).await.unwrap().trimmed, 1);
    assert_eq!(bench.ids().await, added[4..], "what nobody was given stays");
    assert_eq!(ids(&stream.read(10).await.unwrap()), added[4..]);
}

pub async fn trims_nothing_that_is_young(bench: impl StreamBench) {
    let old = add_old(&bench, 2).await;
    let young = add_some(&bench, 2).await;
    let stream = bench.consumer("g", "a");
    let all = ids(&stream.read(10).await.unwrap());
    stream.acknowledge(&all).await.unwrap();
    assert_eq!(stream.trim(HOUR_MS, HOUR_MS).await.unwrap().trimmed, old.len() as u64);
    assert_eq!(bench.ids().await, young);
}

pub async fn never_trims_past_any_group(bench: impl StreamBench) {
    let added = add_old(&bench, 6).await;
    let (one, two) = (bench.consumer("g", "a"), bench.consumer("h", "a"));
    one.read(10).await.unwrap();
    one.acknowledge(&added).await.unwrap();
    two.read(4).await.unwrap();
    two.acknowledge(&[&added[..2], &added[3..4]].concat()).await.unwrap();
    // The other group has not acknowledged the third entry and not read the fifth.
    for _ in 0..2 {
        one.trim(0, 0).await.unwrap();
        assert_eq!(bench.ids().await, added[2..]);
    }
    two.acknowledge(&added[2..3]).await.unwrap();
    one.trim(0, 0).await.unwrap();
    assert_eq!(bench.ids().await, added[4..]);
    assert_eq!(ids(&two.read(10).await.unwrap()), added[4..]);
    two.acknowledge(&added[4..]).await.unwrap();
    assert_eq!(two.trim(0, 0).await.unwrap().trimmed, 2);
    assert_eq!(bench.ids().await, [""; 0]);
}

pub async fn a_group_that_has_read_nothing_holds_everything(bench: impl StreamBench) {
    let (one, two) = (bench.consumer("g", "a"), bench.consumer("h", "a"));
    assert_eq!(two.read(10).await.unwrap(), []);
    let added = add_old(&bench, 3).await;
    one.read(10).await.unwrap();
    one.acknowledge(&added).await.unwrap();
    assert_eq!(one.trim(0, 0).await.unwrap().trimmed, 0);
    assert_eq!(ids(&two.read(10).await.unwrap()), added);
    // Nor does a consumer trim whose own group has never looked.
    let never = bench.consumer("i", "a").trim(0, 0).await.unwrap();
    assert_eq!(never, StreamState { entries: 3, pending: 0, lag: 3, trimmed: 0 });
}

pub async fn removes_consumers_that_are_gone(bench: impl StreamBench) {
    let (me, busy, idle) =
        (bench.consumer("g", "me"), bench.consumer("g", "busy"), bench.consumer("g", "idle"));
    add_some(&bench, 3).await;
    busy.read(1).await.unwrap();
    for stream in [&me, &idle] {
        let entries = stream.read(1).await.unwrap();
        stream.acknowledge(&ids(&entries)).await.unwrap();
    }
    me.trim(HOUR_MS, HOUR_MS).await.unwrap();
    assert_eq!(bench.consumers("g").await, ["busy", "idle", "me"]);
    me.trim(HOUR_MS, 0).await.unwrap();
    assert_eq!(bench.consumers("g").await, ["busy", "me"]);
    assert_eq!(me.claim(0, 10).await.unwrap().len(), 1, "what the busy one had is still there");
    // One that was only slow goes on.
    let added = add_some(&bench, 1).await;
    assert_eq!(ids(&idle.read(10).await.unwrap()), added);
}

pub async fn says_how_it_stands(bench: impl StreamBench) {
    let stream = bench.consumer("g", "a");
    let added = add_old(&bench, 10).await;
    stream.read(6).await.unwrap();
    stream.acknowledge(&added[..2]).await.unwrap();
    let state = stream.trim(HOUR_MS, HOUR_MS).await.unwrap();
    assert_eq!(state, StreamState { entries: 8, pending: 4, lag: 4, trimmed: 2 });
    bench.delete(&added[8]).await;
    let state = stream.trim(HOUR_MS, HOUR_MS).await.unwrap();
    assert_eq!(state, StreamState { entries: 7, pending: 4, lag: 3, trimmed: 0 });
}

pub async fn asks_for_nothing_get_nothing(bench: impl StreamBench) {
    let added = add_some(&bench, 1).await;
    let stream = bench.consumer("g", "a");
    assert_eq!(stream.read(0).await.unwrap(), []);
    assert_eq!(stream.claim(0, 0).await.unwrap(), []);
    assert_eq!(ids(&stream.read(usize::MAX).await.unwrap()), added);
    assert_eq!(ids(&stream.claim(0, usize::MAX).await.unwrap()), added);
    assert_eq!(stream.claim(u64::MAX, 1).await.unwrap(), []);
}

/// Entries as producers write them now.
async fn add_some(bench: &impl StreamBench, count: usize) -> Vec<String> {
    let mut added = Vec::new();
    for number in 0..count {
        added.push(bench.add("*", &[("payload", &number.to_string())]).await);
    }
    added
}

/// Entries of long ago.
async fn add_old(bench: &impl StreamBench, count: usize) -> Vec<String> {
    let mut added = Vec::new();
    for number in 1..=count {
        added.push(bench.add(&format!("{}-{number}", 1000 * number), &[("n", "old")]).await);
    }
    added
}

fn ids(entries: &[StreamEntry]) -> Vec<String> {
    entries.iter().map(|entry| entry.id.clone()).collect()
}

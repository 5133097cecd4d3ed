//! The stream: the suite, and what is particular to Redis.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_bus::conformance_cache::line;
use roundsman_bus::conformance_stream::StreamBench;
use roundsman_bus::memory::MemoryStream;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{IngestStream, TranscriptCache};
use roundsman_testkit::ManualClock;

use super::lab::{Lab, STREAM, until_a_read_waits};
use crate::support::{bounded, promptly};

struct Real(Lab);

#[async_trait]
impl StreamBench for Real {
    fn consumer(&self, group: &str, name: &str) -> Arc<dyn IngestStream> {
        Arc::new(self.0.consumer(group, name))
    }

    async fn add(&self, id: &str, fields: &[(&str, &str)]) -> String {
        let mut words: Vec<&[u8]> = vec![b"XADD", STREAM.as_bytes(), id.as_bytes()];
        for (name, value) in fields {
            words.extend([name.as_bytes(), value.as_bytes()]);
        }
        self.0.run_words(&words).await
    }

    async fn delete(&self, id: &str) {
        let _: () = self.0.run(&format!("XDEL {STREAM} {id}")).await;
    }

    async fn wipe(&self) {
        self.0.redis.wipe().await.unwrap();
    }

    async fn ids(&self) -> Vec<String> {
        let entries: Vec<(String, redis::Value)> =
            self.0.run(&format!("XRANGE {STREAM} - +")).await;
        entries.into_iter().map(|(id, _)| id).collect()
    }

    async fn consumers(&self, group: &str) -> Vec<String> {
        self.0.consumers(group).await
    }
}

struct Memory(Arc<MemoryStream>);

impl Memory {
    fn new() -> Self {
        Memory(MemoryStream::new(STREAM, Arc::new(ManualClock::default())))
    }
}

#[async_trait]
impl StreamBench for Memory {
    fn consumer(&self, group: &str, name: &str) -> Arc<dyn IngestStream> {
        Arc::new(self.0.consumer(group, name))
    }

    async fn add(&self, id: &str, fields: &[(&str, &str)]) -> String {
        if id == "*" { self.0.add(fields) } else { self.0.add_as(id, fields) }
    }

    async fn delete(&self, id: &str) {
        self.0.delete(id);
    }

    async fn wipe(&self) {
        self.0.wipe();
    }

    async fn ids(&self) -> Vec<String> {
        self.0.ids()
    }

    async fn consumers(&self, group: &str) -> Vec<String> {
        self.0.consumers(group)
    }
}

mod redis_server {
    roundsman_bus::stream_conformance_suite!(async { super::Real(super::Lab::start().await) });
}

mod memory {
    roundsman_bus::stream_conformance_suite!(std::future::ready(super::Memory::new()));
}

#[tokio::test]
async fn in_memory_time_is_the_clocks() {
    let clock = Arc::new(ManualClock::default());
    let stream = MemoryStream::new(STREAM, clock.clone());
    let (dead, alive) = (stream.consumer("g", "dead"), stream.consumer("g", "alive"));
    let id = stream.add(&[("payload", "{}")]);
    dead.read(1).await.unwrap();
    clock.advance(Duration::from_secs(59));
    assert_eq!(alive.claim(60_000, 1).await.unwrap(), []);
    clock.advance(Duration::from_secs(1));
    assert_eq!(alive.claim(60_000, 1).await.unwrap()[0].id, id);
    assert_eq!(stream.pending("g"), [&*id]);
    alive.acknowledge(&[id]).await.unwrap();
    assert_eq!(alive.trim(61_000, 60_000).await.unwrap().trimmed, 0);
    clock.advance(Duration::from_secs(2));
    assert_eq!(alive.trim(61_000, 60_000).await.unwrap().trimmed, 1);
    assert_eq!(stream.consumers("g"), ["alive"]);

    let mut waiting = stream.consumer("g", "waiting");
    waiting.block_ms = 20_000;
    let (entries, _) = tokio::join!(waiting.read(1), async { stream.add(&[("payload", "{}")]) });
    assert_eq!(entries.unwrap().len(), 1);
    stream.set_available(false);
    assert!(waiting.read(1).await.is_err());
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    let lab = Lab::start().await;
    let stream = lab.consumer("g", "a");
    let fields: [&[u8]; 5] = [b"XADD", STREAM.as_bytes(), b"*", b"pay\xffload", b"\xfe{}"];
    let _: String = lab.run_words(&fields).await;
    let entries = stream.read(1).await.unwrap();
    assert_eq!(entries[0].fields, [("pay\u{fffd}load".to_owned(), "\u{fffd}{}".to_owned())]);
    assert_eq!(stream.claim(0, 1).await.unwrap()[0].fields, entries[0].fields);
}

#[tokio::test]
async fn a_waiting_read_holds_up_nothing_else() {
    let lab = Lab::start().await;
    let stream = lab.consumer_waiting("g", "a", 20_000);
    let first = lab.add("1").await;
    stream.read(1).await.unwrap();
    let rest = async {
        until_a_read_waits(&lab).await;
        promptly(stream.acknowledge(&[first])).await.unwrap();
        promptly(stream.claim(0, 10)).await.unwrap();
        assert_eq!(promptly(stream.trim(0, 0)).await.unwrap().pending, 0);
        lab.add("2").await
    };
    let (read, second) = tokio::join!(bounded(stream.read(10)), rest);
    assert_eq!(read.unwrap()[0].id, second, "it is given out at once");
}

#[tokio::test]
async fn a_read_that_nobody_waits_for_loses_nothing() {
    let lab = Lab::start().await;
    let stream = lab.consumer_waiting("g", "a", 1500);
    assert_eq!(stream.read(1).await.unwrap(), []);
    let given_up = tokio::time::timeout(Duration::from_millis(300), stream.read(10)).await;
    assert!(given_up.is_err(), "nothing was there");
    // The server gives these to a read whose answer nobody sees.
    let added = [lab.add("1").await, lab.add("2").await];
    let mut read = Vec::new();
    let reading = async {
        while read.len() < 2 {
            let entries = stream.read(10).await.unwrap();
            assert!(entries.iter().all(|entry| entry.field("payload").is_some()));
            read.extend(entries.into_iter().map(|entry| entry.id));
        }
    };
    bounded(reading).await;
    assert_eq!(read, added);
    assert_eq!(stream.read(10).await.unwrap(), []);
}

/// Some servers take a consumer that waits for one that is gone.
#[tokio::test]
async fn a_consumer_that_is_removed_while_it_waits_goes_on() {
    let lab = Lab::start().await;
    let waiting = lab.consumer_waiting("g", "waiting", 20_000);
    let id = lab.add("1").await;
    waiting.read(1).await.unwrap();
    waiting.acknowledge(&[id]).await.unwrap();
    let rest = async {
        until_a_read_waits(&lab).await;
        lab.consumer("g", "other").trim(0, 0).await.unwrap();
        assert_eq!(lab.consumers("g").await, [""; 0]);
        lab.add("2").await
    };
    let (read, id) = tokio::join!(bounded(waiting.read(10)), rest);
    assert_eq!(read.unwrap()[0].id, id);
    assert_eq!(waiting.claim(0, 10).await.unwrap()[0].id, id, "it is the consumer's");
}

#[tokio::test]
async fn the_newer_protocol_is_spoken_too() {
    let lab = Lab::start_with_query("?protocol=resp3").await;
    let (stream, cache) = (lab.consumer("g", "a"), lab.cache());
    let id = lab.add("1").await;
    assert_eq!(stream.read(10).await.unwrap()[0].id, id);
    assert_eq!(stream.claim(0, 10).await.unwrap()[0].deliveries, 2);
    stream.acknowledge(&[id]).await.unwrap();
    assert_eq!(stream.trim(3_600_000, 0).await.unwrap().entries, 1);
    assert_eq!(stream.read(10).await.unwrap(), []);

    let (meeting, lines) = (MeetingId::new(7), [line("s", 0, "a")]);
    assert_eq!(cache.repair(meeting, &lines).await.unwrap(), 1);
    assert_eq!(cache.repair(meeting, &lines).await.unwrap(), 0);
    assert_eq!(cache.active(10).await.unwrap(), [meeting]);
    cache.put_start("s", Timestamp::EPOCH).await.unwrap();
    assert_eq!(cache.starts(&["s".to_owned()]).await.unwrap(), [Some(Timestamp::EPOCH)]);
}

#[tokio::test]
async fn a_stream_of_another_type_is_an_error_that_passes() {
    let lab = Lab::start().await;
    let stream = lab.consumer("g", "a");
    let _: () = lab.run(&format!("SET {STREAM} nonsense")).await;
    for _ in 0..2 {
        assert!(promptly(stream.read(1)).await.is_err());
        assert!(promptly(stream.claim(0, 1)).await.is_err());
        assert!(promptly(stream.trim(0, 0)).await.is_err());
    }
    let _: () = lab.run(&format!("DEL {STREAM}")).await;
    let id = lab.add("1").await;
    assert_eq!(bounded(stream.read(1)).await.unwrap()[0].id, id);
}

#[tokio::test]
async fn ids_beyond_what_a_float_counts_are_trimmed_exactly() {
    let lab = Lab::start().await;
    let stream = lab.consumer("g", "a");
    let ids = ["1-9007199254740992", "1-9007199254740993", "1-18446744073709551614", "2-0", "10-1"];
    for id in ids {
        let _: () = lab.run(&format!("XADD {STREAM} {id} n 1")).await;
    }
    let all = ids.map(String::from);
    stream.read(10).await.unwrap();
    stream.acknowledge(&all[..1]).await.unwrap();
    assert_eq!(stream.trim(0, 0).await.unwrap().trimmed, 1);
    stream.acknowledge(&[all[1].clone(), all[3].clone()]).await.unwrap();
    assert_eq!(stream.trim(0, 0).await.unwrap().trimmed, 1);
    stream.acknowledge(&all).await.unwrap();
    assert_eq!(stream.trim(0, 0).await.unwrap().trimmed, 3);
}

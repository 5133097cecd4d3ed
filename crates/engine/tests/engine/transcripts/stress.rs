//! Everything at once, on several threads: producers, two nodes, listeners that come and go, the job
//! that makes segments final.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use roundsman_core::ports::Random;
use roundsman_engine::transcripts::{Persister, TranscriptLimits, Transcripts};
use roundsman_testkit::SeededRandom;

use super::reader::Reader;
use super::{Talk, persist_options};
use crate::backend::Backend;
use crate::support::{World, secs, soon};

const PRODUCERS: usize = 4;
const READERS: usize = 8;
const MESSAGES: i64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn all_at_once_on_sqlite() {
    all_at_once(Talk::over(World::on_disk().await, limits(), false).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn all_at_once_on_postgres() {
    all_at_once(Talk::with(Backend::Postgres, limits(), false).await).await;
}

/// Small, so that all ways to get a frame are taken.
fn limits() -> TranscriptLimits {
    TranscriptLimits {
        ring_frames_max: 12,
        coalesce_frames_min: 6,
        batch_messages_max: 5,
        settled_rows_max: 4,
        ..TranscriptLimits::default()
    }
}

async fn all_at_once(talk: Talk) {
    let talk = Arc::new(talk);
    talk.start_session(talk.now()).await;
    let nodes = [talk.transcripts.clone(), talk.another_node()];
    let working = Arc::new(AtomicUsize::new(PRODUCERS));
    let tasks = &talk.world.tasks;
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|number| {
            let node = nodes[number % 2].clone();
            tasks.spawn(produce(talk.clone(), node, working.clone(), number))
        })
        .collect();
    let readers: Vec<_> = (0..READERS)
        .map(|number| {
            let nodes = nodes.clone();
            tasks.spawn(read(talk.clone(), nodes, working.clone(), number as u64))
        })
        .collect();
    let persister = Persister::new(&nodes[1], persist_options());
    while working.load(Ordering::SeqCst) > 0 {
        talk.world.clock.advance(secs(7));
        persister.tick(None).await.unwrap();
        for node in &nodes {
            node.look().await.unwrap();
            node.tick().await.unwrap();
        }
        tokio::task::yield_now().await;
    }
    for producer in producers {
        producer.await.unwrap();
    }
    let end = talk.transcript().await.seq;
    for reader in readers {
        let mut reader = soon(reader).await.unwrap();
        nodes[0].look().await.unwrap();
        nodes[1].look().await.unwrap();
        reader.hear_until(end).await;
        reader.agrees(&talk).await;
    }
    talk.check().await;
}

async fn produce(talk: Arc<Talk>, node: Transcripts, working: Arc<AtomicUsize>, number: usize) {
    let session = format!("session-{}", number % 2);
    for message in 0..MESSAGES {
        let start = message / 3 * 1000;
        let text = format!("message {message} of producer {number}");
        let told = talk.said(&session, &[(start, start + 900, &text)]).to_string();
        node.ingest(&told).await.unwrap();
        tokio::task::yield_now().await;
    }
    working.fetch_sub(1, Ordering::SeqCst);
}

async fn read(
    talk: Arc<Talk>,
    nodes: [Transcripts; 2],
    working: Arc<AtomicUsize>,
    number: u64,
) -> Reader {
    let random = SeededRandom::new(number);
    let mut reader = talk.reader().await;
    while working.load(Ordering::SeqCst) > 0 {
        if random.below(10) == 0 {
            let node = &nodes[usize::try_from(random.below(2)).unwrap()];
            reader.listener = node.listen();
            reader.listener.add(talk.id(), Some(reader.seq)).await.unwrap();
        }
        if let Some(deliveries) = reader.listener.next().now_or_never() {
            reader.apply(&deliveries.unwrap());
        }
        tokio::task::yield_now().await;
    }
    reader
}

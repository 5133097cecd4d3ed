//! T-17: everybody comes back at once, or comes and goes all the time. Nobody misses a frame, and
//! nobody hears one twice.

use std::cell::Cell;

use futures_util::future::join_all;
use roundsman_core::ports::Random;
use roundsman_testkit::SeededRandom;
use serde_json::json;

use crate::app::App;
use crate::app_live::{Known, Running, Socket, lines, since};
use crate::app_transcripts::{AT_MEET, Producer, said};

const AT_ONCE: u32 = 500;
const FRAMES: u32 = 20;
const CLIENTS: u64 = 20;
/// Each client is disconnected once a round: a thousand times in all.
const ROUNDS: usize = 50;
const MESSAGES_PER_ROUND: usize = 3;
/// A client that is further behind would get frames joined, which is another promise.
const BEHIND_MAX: i64 = 40;

/// A revision of one of ten segments; returns the place of its frame.
async fn revise(producer: &Producer, number: usize) -> i64 {
    let start = f64::from(u32::try_from(number % 10).unwrap()) * 2.0;
    let told = producer.say(&[said(start, "Ada", &format!("revision {number}"))]).await;
    told["seq"].as_i64().unwrap()
}

#[tokio::test]
async fn all_who_come_back_at_once_miss_nothing() {
    let app = App::new();
    let running = app.serve();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut end = 0;
    for number in 0..FRAMES {
        end = revise(&producer, number as usize).await;
    }
    let come = |number: u32| {
        let (running, key) = (&running, &key);
        async move {
            let from = end - i64::from(number % FRAMES);
            let mut socket = running.listen(key).await;
            assert_eq!(socket.ask(since(from)).await["type"], "subscribed");
            for seq in from + 1..=end {
                assert_eq!(socket.next().await["seq"], seq);
            }
            socket
        }
    };
    let mut all = join_all((0..AT_ONCE).map(come)).await;
    // They hear what follows, too, and only that.
    let told = revise(&producer, 7).await;
    for socket in &mut all {
        let frame = socket.next().await;
        assert_eq!((&frame["seq"], &frame["type"]), (&json!(told), &json!("transcript.mutable")));
    }
}

/// One who is disconnected again and again.
struct Restless<'a> {
    running: &'a Running,
    key: &'a str,
    random: SeededRandom,
    known: Known,
}

impl Restless<'_> {
    async fn come(&self) -> Socket {
        let mut socket = self.running.listen(self.key).await;
        socket.send(since(self.known.seq)).await;
        socket
    }

    /// Comes, hears some of what is there, and is gone: at times before it was answered, in the
    /// middle, or with a word.
    async fn come_and_go(&mut self, end: &Cell<i64>) {
        let mut socket = self.come().await;
        if self.random.below(8) == 0 {
            return;
        }
        assert_eq!(socket.next().await["type"], "subscribed");
        let behind = end.get() - self.known.seq;
        let wanted = i64::try_from(self.random.below(8)).unwrap();
        let wanted = if behind > BEHIND_MAX { behind } else { wanted.min(behind) };
        for _ in 0..wanted {
            self.known.apply(&socket.next().await);
        }
        if self.random.below(2) == 0 {
            socket.stream.close(None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_thousand_disconnects_leave_no_gap_and_no_repeat() {
    let app = App::new();
    let running = app.serve();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let end = Cell::new(revise(&producer, 0).await);
    let mut clients: Vec<Restless<'_>> = (0..CLIENTS)
        .map(|number| Restless {
            running: &running,
            key: &key,
            random: SeededRandom::new(number),
            known: Known::at(end.get() - 1),
        })
        .collect();
    for round in 0..ROUNDS {
        let speak = async {
            for message in 1..=MESSAGES_PER_ROUND {
                end.set(revise(&producer, round * MESSAGES_PER_ROUND + message).await);
            }
        };
        let come_and_go = clients.iter_mut().map(|client| client.come_and_go(&end));
        tokio::join!(speak, join_all(come_and_go));
    }
    let shown = ada.get(&format!("{AT_MEET}?dedupe=false")).await.expect(200).body;
    assert_eq!(shown["seq"], end.get());
    for client in &mut clients {
        let mut socket = client.come().await;
        client.known.hear_until(&mut socket, end.get()).await;
        let Known { leaps, resets, lines: known, .. } = &client.known;
        assert_eq!((*leaps, *resets), (0, 0), "no gap");
        assert_eq!(*known, lines(&shown["segments"]));
        drop(socket);
    }
}

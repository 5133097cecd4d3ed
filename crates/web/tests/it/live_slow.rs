//! T-16: listeners that take nothing, or take it slowly. They are told to come back, miss nothing when
//! they do, and nobody else notices them.

use std::cell::Cell;
use std::num::NonZeroU32;

use roundsman_testkit::proxy::Direction;
use roundsman_testkit::{FaultProxy, eventually};
use roundsman_web::{LiveLimits, ServeOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::{App, Client};
use crate::app_bots::TestBot;
use crate::app_live::{Known, Running, SOON, lines, since};
use crate::app_transcripts::{AT_MEET, Producer, said};
use crate::by_hand::{events, heard, masked, open_events, open_socket, rest_of};
use crate::live_limits::{PATIENCE, app_with, hits};

/// More than all the buffers between a server and a client can hold, in messages of
/// [`SEGMENTS`] long segments.
const MESSAGES_MAX: u32 = 300;
const SEGMENTS: u32 = 4;
const TEXT_BYTES: usize = 15_000;
const SLOW_BYTES_PER_SEC: NonZeroU32 = NonZeroU32::new(1024).unwrap();

/// A meeting with much to say, one who listens well, and one who does not.
struct Meeting {
    app: App,
    running: Running,
    ada: Client,
    bot: TestBot,
    producer: Producer,
    /// Of the one who listens well.
    key: String,
    /// Of the other.
    slow_key: String,
}

impl Meeting {
    /// Where a WebSocket that takes nothing is soon closed.
    async fn impatient() -> Self {
        let live = LiveLimits { send_max: PATIENCE, ..LiveLimits::default() };
        Meeting::with(live, ServeOptions::default()).await
    }

    async fn with(live: LiveLimits, options: ServeOptions) -> Self {
        let app = app_with(live);
        let running = app.serve_with(options);
        let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
        let key = app.token("ada@example.org", &[]).await;
        let slow_key = app.token("ada@example.org", &[]).await;
        Meeting { app, running, ada, bot, producer, key, slow_key }
    }

    /// Says much until `slow` has come to its end, and hears every frame of it meanwhile.
    async fn speak_until<T>(&self, slow: impl Future<Output = T>) -> T {
        let over = Cell::new(false);
        let slow = async {
            let result = slow.await;
            over.set(true);
            result
        };
        let speak = async {
            let mut reader = self.running.listen(&self.key).await;
            let mut known = Known::at(reader.subscribe().await);
            for round in 0..MESSAGES_MAX {
                if over.get() {
                    break;
                }
                let text = format!("{round} {}", "x".repeat(TEXT_BYTES));
                let segment = |n: u32| said(f64::from(n) * 2.0, "Ada", &text);
                let segments: Vec<Value> = (0..SEGMENTS).map(segment).collect();
                let told = self.producer.say(&segments).await["seq"].as_i64().unwrap();
                known.hear_until(&mut reader, told).await;
            }
            assert_eq!((known.leaps, known.resets), (0, 0), "others hear everything");
        };
        let (result, ()) = tokio::join!(slow, speak);
        result
    }

    async fn until_too_slow(&self) {
        let closed =
            eventually(SOON, async || hits(&self.app, "live_too_slow").await.then_some(()));
        closed.await.expect("it is closed");
    }

    async fn shown(&self) -> Value {
        self.ada.get(&format!("{AT_MEET}?dedupe=false")).await.expect(200).body
    }

    /// Subscribes on a socket that was made by hand.
    async fn subscribe(&self, stream: &mut TcpStream) {
        let meeting = json!({"meeting_id": self.bot.meeting_id});
        let wish = json!({"action": "subscribe", "meetings": [meeting]});
        stream.write_all(&masked(&wish.to_string())).await.unwrap();
    }

    /// It was told why it was closed and how far it came, and misses nothing when it comes back.
    async fn comes_back(&self, bytes: &[u8]) {
        let (texts, end) = heard(bytes);
        let (code, reason) = end.expect("it hears why it ends");
        assert_eq!(code, 1013, "{reason}");
        let place = reason.strip_prefix(&format!("too slow; last seq {}@", self.bot.meeting_id));
        let place: i64 = place.unwrap_or_else(|| panic!("{reason}")).parse().unwrap();
        let (subscribed, frames) = texts.split_first().unwrap();
        let mut known = Known::at(subscribed["meetings"][0]["seq"].as_i64().unwrap());
        known.apply_all(frames);
        assert!(place <= known.seq, "told {place}, has {}", known.seq);

        let shown = self.shown().await;
        let mut again = self.running.listen(&self.slow_key).await;
        assert_eq!(again.ask(since(known.seq)).await["type"], "subscribed");
        known.hear_until(&mut again, shown["seq"].as_i64().unwrap()).await;
        assert_eq!(known.lines, lines(&shown["segments"]));
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_is_told_to_come_back_and_others_hear_everything() {
    let meeting = Meeting::impatient().await;
    let mut stuck = open_socket(meeting.running.address, &meeting.slow_key).await;
    meeting.subscribe(&mut stuck).await;
    let end = async {
        meeting.until_too_slow().await;
        // It wakes up, and finds all that it was sent, to the end.
        rest_of(&mut stuck).await
    };
    let end = meeting.speak_until(end).await;
    meeting.comes_back(&end).await;
}

#[tokio::test]
async fn a_client_that_reads_a_kilobyte_a_second_is_told_to_come_back() {
    let meeting = Meeting::impatient().await;
    let proxy = FaultProxy::start(meeting.running.address).await.unwrap();
    let mut slow = open_socket(proxy.addr(), &meeting.slow_key).await;
    meeting.subscribe(&mut slow).await;
    proxy.bandwidth(Direction::ToClient, SLOW_BYTES_PER_SEC);
    let end = async {
        meeting.until_too_slow().await;
        // What is on its way need not take hours.
        proxy.heal().await.unwrap();
        rest_of(&mut slow).await
    };
    let end = meeting.speak_until(end).await;
    meeting.comes_back(&end).await;
}

/// T-20: its connection has no room for what is told, and then has again, before anybody loses patience.
#[tokio::test]
async fn a_client_that_falls_behind_gets_few_frames_and_misses_nothing() {
    const UPDATES: u32 = 200;
    let meeting = Meeting::with(LiveLimits::default(), ServeOptions::default()).await;
    let mut slow = open_socket(meeting.running.address, &meeting.slow_key).await;
    meeting.subscribe(&mut slow).await;
    let mut reader = meeting.running.listen(&meeting.key).await;
    let mut known = Known::at(reader.subscribe().await);
    for update in 0..UPDATES {
        let text = format!("{update} {}", "x".repeat(4000));
        let told = meeting.producer.say(&[said(f64::from(update % 5), "Ada", &text)]).await;
        known.hear_until(&mut reader, told["seq"].as_i64().unwrap()).await;
    }
    assert_eq!(known.leaps, 0, "whoever keeps up hears each");

    let (mut bytes, mut frames) = (Vec::new(), Vec::new());
    while frames.last().is_none_or(|frame: &Value| frame["seq"] != known.seq) {
        tokio::time::timeout(SOON, slow.read_buf(&mut bytes)).await.expect("more comes").unwrap();
        frames = heard(&bytes).0;
    }
    let (subscribed, frames) = frames.split_first().unwrap();
    let mut late = Known::at(subscribed["meetings"][0]["seq"].as_i64().unwrap());
    late.apply_all(frames);
    assert_eq!((late.seq, late.lines), (known.seq, known.lines), "it knows the same");
    assert!(frames.len() < 120, "{} frames of {UPDATES}", frames.len());
}

/// The same for server-sent events, which have no code: the stream breaks, and the client that opens
/// it again with the last event it has gets the rest.
#[tokio::test]
async fn events_that_nobody_reads_end_and_are_resumed() {
    let live = LiveLimits { connections_per_key_max: 1, ..LiveLimits::default() };
    let options = ServeOptions { write_stalled_max: PATIENCE, ..ServeOptions::default() };
    let meeting = Meeting::with(live, options).await;
    let mut stuck = open_events(meeting.running.address, &meeting.slow_key).await;
    let path = format!("{AT_MEET}/events");
    let headers = [("x-api-key", meeting.slow_key.as_str())];
    let end = async {
        // Its key has one place, which is free when the server has given it up.
        let is_free = async || (meeting.app.opens(&path, &headers).await == 200).then_some(());
        eventually(SOON, is_free).await.expect("it is given up");
        rest_of(&mut stuck).await
    };
    let end = meeting.speak_until(end).await;
    let told = events(&end);
    let (subscribed, frames) = told.split_first().unwrap();
    let mut known = Known::at(subscribed["meetings"][0]["seq"].as_i64().unwrap());
    known.apply_all(frames);

    let shown = meeting.shown().await;
    let last = known.seq.to_string();
    let headers = [("x-api-key", meeting.slow_key.as_str()), ("last-event-id", last.as_str())];
    let mut again = meeting.app.events(&path, &headers).await;
    assert_eq!(again.data().await.0["id"], last, "it goes on from there");
    while known.seq < shown["seq"].as_i64().unwrap() {
        known.apply(&again.data().await.1);
    }
    assert_eq!(known.lines, lines(&shown["segments"]));
}

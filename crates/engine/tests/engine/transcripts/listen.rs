//! What listeners hear: everything, once, in order, and nothing of others.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use roundsman_core::ports::Bus;
use roundsman_engine::transcripts::{Delivery, TranscriptLimits};
use serde_json::Value;

use super::{SESSION, Talk, new_user, reserve, said};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{let_others_run, soon};

on_every_database! {
    listeners_hear_what_comes_from_now_on
    no_frame_crosses_meetings
    status_and_speech_share_one_order
    a_listener_that_left_hears_nothing_and_costs_nothing
    what_the_bus_loses_is_found_in_the_database
    nodes_hear_each_other
    strange_messages_on_the_bus_are_no_frames
    a_frame_too_large_for_the_bus_is_read_from_the_database
    a_listener_far_behind_gets_the_latest_of_each_segment
    a_slow_listener_costs_nobody_anything
    one_frame_reaches_a_thousand_listeners_without_a_copy
    waiting_may_be_given_up_at_any_time
    a_database_that_is_away_fails_a_listener_that_needs_it_and_no_other
    a_look_at_the_database_goes_on_when_nobody_waits_and_holds_up_no_other
}

fn frame(delivery: &Delivery) -> Value {
    serde_json::from_slice(&delivery.text).unwrap()
}

fn texts(deliveries: &[Delivery]) -> Vec<String> {
    let segments = deliveries.iter().map(frame).flat_map(|frame| {
        let segments = frame["payload"]["segments"].as_array().cloned();
        segments.unwrap_or_default()
    });
    segments.map(|segment| segment["text"].as_str().unwrap().to_owned()).collect()
}

async fn listeners_hear_what_comes_from_now_on(backend: Backend) {
    let talk = Talk::new(backend).await;
    let before = talk.say(&[(0, 1000, "before anybody listened")]).await;
    let mut listener = talk.transcripts.listen();
    let place = listener.add(talk.id(), None).await.unwrap();
    assert_eq!(Some(place), before.seq);
    let told = talk.say(&[(2000, 3000, "now somebody does"), (0, 1000, "and again")]).await;
    let deliveries = soon(listener.next()).await.unwrap();
    assert_eq!(deliveries.len(), 1, "one frame for a message");
    assert_eq!((deliveries[0].meeting, Some(deliveries[0].seq)), (talk.id(), told.seq));
    assert_eq!(texts(&deliveries), ["now somebody does", "and again"], "only what has changed");
    let stored = &talk.frames().await[1].1;
    let mut expected = stored.clone();
    expected["seq"] = deliveries[0].seq.into();
    assert_eq!(frame(&deliveries[0]), expected, "the same as everywhere");
    assert_eq!(listener.meetings().collect::<Vec<_>>(), [talk.id()]);
    talk.check().await;
}

/// T7.
async fn no_frame_crosses_meetings(backend: Backend) {
    let talk = Talk::new(backend).await;
    let eve = new_user(&talk.world, "eve@example.org").await;
    let hers = reserve(&talk.world, eve, "eve-evee-eve").await;
    let mine = reserve(&talk.world, talk.user, "xyz-abcd-efg").await;
    let mut one = talk.listen(None).await;
    let mut both = talk.transcripts.listen();
    both.add(talk.id(), None).await.unwrap();
    both.add(mine.meeting.id, None).await.unwrap();
    for record in [&hers, &talk.record, &mine, &hers] {
        let text = record.meeting.native_id.clone().unwrap();
        let message = said(&talk.token_of(record), Some(SESSION), &[(0, 1000, &text)]);
        talk.ingest(&message).await;
    }
    let_others_run().await;
    let deliveries = soon(one.next()).await.unwrap();
    assert_eq!(texts(&deliveries), ["abc-defg-hij"]);
    let deliveries = soon(both.next()).await.unwrap();
    let heard: Vec<_> = deliveries.iter().map(|delivery| delivery.meeting).collect();
    assert_eq!(heard, [talk.id(), mine.meeting.id]);
    assert!(one.next().now_or_never().is_none() && both.next().now_or_never().is_none());
    talk.check().await;
}

async fn status_and_speech_share_one_order(backend: Backend) {
    use roundsman_core::bots::{BotEvent, Source};
    use roundsman_core::ports::{BotHappened, BotStore, EventAnswer};

    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    let mut happens = Vec::new();
    for event in [BotEvent::Started, BotEvent::Joined, BotEvent::Leaving] {
        let start = i64::try_from(happens.len()).unwrap() * 1000;
        talk.say(&[(start, 90_000, "between two states")]).await;
        let happened = BotHappened {
            workload: talk.record.workload(),
            connection: None,
            event,
            source: Source::Supervisor,
            beats: false,
        };
        match talk.world.store.bot_event(happened, None, talk.now()).await.unwrap() {
            EventAnswer::Changed(announced) => happens.extend(announced.frames),
            other => panic!("{other:?}"),
        }
    }
    // Nobody here has published them: they are found in the database, in their places.
    talk.say(&[(9000, 90_000, "at the end of it")]).await;
    let end = talk.transcript().await.seq;
    reader.hear_until(end).await;
    reader.agrees(&talk).await;
    let seqs: Vec<i64> = reader.heard.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (end - 6..=end).collect::<Vec<_>>());
    let kinds: Vec<&str> = reader.heard.iter().map(|(_, kind)| kind.as_str()).collect();
    let both = ["transcript.mutable", "meeting.status"];
    assert_eq!(kinds[..6], [both, both, both].concat());
}

async fn a_listener_that_left_hears_nothing_and_costs_nothing(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut listener = talk.listen(None).await;
    let other = talk.listen(None).await;
    assert_eq!(talk.transcripts.meetings_listened_to(), 1);
    listener.remove(talk.id());
    talk.say(&[(0, 1000, "who hears this")]).await;
    let_others_run().await;
    assert!(listener.next().now_or_never().is_none());
    assert_eq!(talk.transcripts.meetings_listened_to(), 1);
    drop(other);
    assert_eq!(talk.transcripts.meetings_listened_to(), 0);
    assert!(talk.world.metrics.encode().contains("roundsman_listeners 1\n"));
    drop(listener);
    assert!(talk.world.metrics.encode().contains("roundsman_listeners 0\n"));
    // Whoever comes later starts from what is there.
    let mut again = talk.listen(Some(0)).await;
    assert!(!soon(again.next()).await.unwrap().is_empty());
}

/// Nothing is told here: another node has stored it, and its messages are lost.
async fn what_the_bus_loses_is_found_in_the_database(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    let here = talk.transcripts.clone();
    talk.use_bus(Arc::new(roundsman_bus::LocalBus::new(
        &roundsman_bus::BusLimits::default(),
        &tokio_util::sync::CancellationToken::new(),
    )));
    for start in 0..5 {
        talk.say(&[(start * 1000, start * 1000 + 900, "said elsewhere")]).await;
    }
    let_others_run().await;
    assert!(reader.listener.next().now_or_never().is_none());
    let reads = talk.world.store.calls("frames");
    here.look().await.unwrap();
    reader.hear().await;
    reader.agrees(&talk).await;
    assert_eq!(talk.world.store.calls("frames"), reads + 1, "one look for all of it");
    here.look().await.unwrap();
    assert_eq!(talk.world.store.calls("frames"), reads + 1, "and none when nothing is missing");
    talk.check().await;
}

async fn nodes_hear_each_other(backend: Backend) {
    let talk = Talk::new(backend).await;
    let other = talk.another_node();
    let mut listener = other.listen();
    listener.add(talk.id(), None).await.unwrap();
    let reads = talk.world.store.calls("frames");
    // Its node listens on the bus, soon.
    let_others_run().await;
    for start in 0..10 {
        let told = talk.say(&[(start * 1000, start * 1000 + 900, "said elsewhere")]).await;
        let deliveries = soon(listener.next()).await.unwrap();
        assert_eq!(deliveries.last().map(|delivery| delivery.seq), told.seq);
    }
    let looked = talk.world.store.calls("frames") - reads;
    assert!(looked <= 1, "{looked} looks at the database");
    talk.check().await;
}

async fn strange_messages_on_the_bus_are_no_frames(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    let_others_run().await;
    let topic = format!("tc:meeting:{}:mutable", talk.id());
    let seq = reader.seq + 2;
    let ahead = format!("{{\"seq\":{seq},\"type\":\"transcript.mutable\"}}");
    for body in ["", "nonsense", "{}", r#"{"type":"transcript.mutable"}"#, ahead.as_str()] {
        let body = Bytes::copy_from_slice(body.as_bytes());
        talk.bus.publish(&topic, body).await.unwrap();
    }
    talk.bus.publish(&topic, Bytes::from_static(b"\xff\xfe")).await.unwrap();
    let_others_run().await;
    assert!(reader.listener.next().now_or_never().is_none());
    talk.say(&[(0, 1000, "a frame of ours")]).await;
    talk.say(&[(2000, 3000, "and another one")]).await;
    reader.hear_until(talk.transcript().await.seq).await;
    reader.agrees(&talk).await;
    talk.check().await;
}

/// PostgreSQL's notifications carry eight thousand bytes.
async fn a_frame_too_large_for_the_bus_is_read_from_the_database(backend: Backend) {
    struct Small(Arc<dyn Bus>);

    #[async_trait::async_trait]
    impl Bus for Small {
        async fn publish(
            &self,
            topic: &str,
            body: Bytes,
        ) -> Result<(), roundsman_core::ports::BusError> {
            if body.len() > 1000 {
                let (bytes, bytes_max) = (body.len(), 1000);
                return Err(roundsman_core::ports::BusError::TooLarge { bytes, bytes_max });
            }
            self.0.publish(topic, body).await
        }

        async fn subscribe(
            &self,
            topic: &str,
        ) -> Result<Box<dyn roundsman_core::ports::BusSubscription>, roundsman_core::ports::BusError>
        {
            self.0.subscribe(topic).await
        }

        fn connected(&self) -> bool {
            true
        }

        fn name(&self) -> &'static str {
            "small"
        }
    }

    let mut talk = Talk::new(backend).await;
    talk.use_bus(Arc::new(Small(talk.bus.clone())));
    let other = talk.another_node();
    let mut listener = other.listen();
    listener.add(talk.id(), None).await.unwrap();
    let_others_run().await;
    let long = "a long story ".repeat(500);
    let told = talk.say(&[(0, 1000, &long)]).await;
    let deliveries = soon(listener.next()).await.unwrap();
    assert_eq!(deliveries[0].seq, told.seq.unwrap());
    assert_eq!(texts(&deliveries), [long]);
    talk.check().await;
}

/// T-20: fifty updates a second, and a client that looks once in ten.
async fn a_listener_far_behind_gets_the_latest_of_each_segment(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    let mut reader = talk.reader().await;
    let mut quick = talk.reader().await;
    for update in 0..500 {
        let text = format!("update number {update}");
        talk.say(&[(update % 20 * 1000, update % 20 * 1000 + 900, &text)]).await;
        if update < 60 {
            quick.hear().await;
        }
        talk.world.clock.advance(std::time::Duration::from_millis(20));
    }
    let mut frames = 0;
    let end = talk.transcript().await.seq;
    while reader.seq < end {
        frames += reader.hear().await;
    }
    assert!(frames <= 10, "{frames} frames for 500 updates");
    reader.agrees(&talk).await;
    assert_eq!(quick.heard.len(), 60, "whoever keeps up hears each");
    quick.hear_until(end).await;
    quick.agrees(&talk).await;
    let text = talk.world.metrics.encode();
    assert!(!text.contains("roundsman_listener_coalesced_total 0\n"), "{text}");
    assert!(text.contains("roundsman_listener_resets_total 0\n"));
    talk.check().await;
}

/// T8.
async fn a_slow_listener_costs_nobody_anything(backend: Backend) {
    let limits = TranscriptLimits {
        ring_bytes_max: 64 * 1024,
        ring_frames_max: 32,
        ..TranscriptLimits::default()
    };
    let talk = Talk::with(backend, limits, false).await;
    let mut stalled = talk.reader().await;
    let mut quick = talk.reader().await;
    let long = "words and words ".repeat(300);
    for update in 0..200 {
        let text = format!("{update} {long}");
        let told = talk.say(&[(update % 5 * 1000, update % 5 * 1000 + 900, &text)]).await;
        quick.hear_until(told.seq.unwrap()).await;
    }
    let reads = talk.world.store.calls("frames");
    assert_eq!(quick.heard.len(), 200, "it never noticed");
    // It comes back to life: what is no longer in memory is read, a piece at a time.
    stalled.hear_until(talk.transcript().await.seq).await;
    stalled.agrees(&talk).await;
    assert!(talk.world.store.calls("frames") > reads);
    talk.check().await;
}

async fn one_frame_reaches_a_thousand_listeners_without_a_copy(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut listeners = Vec::new();
    for _ in 0..1000 {
        listeners.push(talk.listen(None).await);
    }
    let reads = talk.world.store.calls("frames");
    talk.say(&[(0, 1000, "to everybody here")]).await;
    let mut first: Option<Bytes> = None;
    for listener in &mut listeners {
        let deliveries = soon(listener.next()).await.unwrap();
        assert_eq!(deliveries.len(), 1);
        let text = deliveries[0].text.clone();
        let first = first.get_or_insert(text.clone());
        assert_eq!(first.as_ptr(), text.as_ptr(), "all have the same bytes");
    }
    assert!(talk.world.store.calls("frames") <= reads + 1);
    talk.check().await;
}

async fn waiting_may_be_given_up_at_any_time(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    for start in 0..50 {
        let told = talk.say(&[(start * 1000, start * 1000 + 900, "never lost")]).await;
        // Polled a little, and dropped.
        for _ in 0..start % 3 {
            if let Some(deliveries) = reader.listener.next().now_or_never() {
                reader.apply(&deliveries.unwrap());
            }
        }
        reader.hear_until(told.seq.unwrap()).await;
    }
    assert_eq!(reader.heard.len(), 50);
    reader.agrees(&talk).await;
}

async fn a_database_that_is_away_fails_a_listener_that_needs_it_and_no_other(backend: Backend) {
    let limits = TranscriptLimits { ring_frames_max: 4, ..TranscriptLimits::default() };
    let talk = Talk::with(backend, limits, false).await;
    let mut quick = talk.reader().await;
    let mut behind = talk.reader().await;
    for start in 0..20 {
        let told = talk.say(&[(start * 1000, start * 1000 + 900, "and so on")]).await;
        quick.hear_until(told.seq.unwrap()).await;
    }
    talk.world.store.set("frames", Fault::Down);
    assert!(soon(behind.listener.next()).await.is_err());
    let told = talk.say(&[(50_000, 51_000, "one more")]).await;
    quick.hear_until(told.seq.unwrap()).await;
    let mut newcomer = talk.transcripts.listen();
    assert!(newcomer.add(talk.id(), Some(told.seq.unwrap())).await.is_ok(), "all is in memory");
    talk.world.store.mend();
    behind.hear_until(told.seq.unwrap()).await;
    behind.agrees(&talk).await;
    talk.check().await;
}

async fn a_look_at_the_database_goes_on_when_nobody_waits_and_holds_up_no_other(backend: Backend) {
    let limits = TranscriptLimits { ring_frames_max: 4, ..TranscriptLimits::default() };
    let talk = Talk::with(backend, limits, false).await;
    let other = reserve(&talk.world, talk.user, "xyz-abcd-efg").await;
    let mut listener = talk.listen(None).await;
    listener.add(other.meeting.id, None).await.unwrap();
    // Its node has seen what there is to see.
    let_others_run().await;
    talk.transcripts.look().await.unwrap();
    for start in 0..10 {
        talk.say(&[(start * 1000, start * 1000 + 900, "too much for the memory")]).await;
    }
    let reads = talk.world.store.calls("frames");
    let gate = talk.world.store.hold("frames");
    for _ in 0..10 {
        assert!(listener.next().now_or_never().is_none(), "it is being read");
        let_others_run().await;
    }
    soon(gate.reached()).await;
    assert_eq!(talk.world.store.calls("frames"), reads + 1, "once, however often it is waited for");
    let message = said(&talk.token_of(&other), Some(SESSION), &[(0, 1000, "of the other one")]);
    talk.ingest(&message).await;
    let deliveries = soon(listener.next()).await.unwrap();
    assert_eq!(texts(&deliveries), ["of the other one"]);
    talk.world.store.hold_no_more();
    gate.open();
    let mut heard = 0;
    while heard < 10 {
        heard += texts(&soon(listener.next()).await.unwrap()).len();
    }
    assert_eq!(heard, 10, "and nothing is lost");
    talk.check().await;
}

//! What a process that dies has stored is told by the next one: T-2, T-3.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use roundsman_core::ports::{Bus, BusError, BusMessage, BusSubscription, Random};
use roundsman_testkit::SeededRandom;
use serde_json::Value;

use super::reader::{Rendered, apply, render};
use super::{SESSION, Talk};
use crate::backend::{Backend, on_every_database};
use crate::support::{let_others_run, secs, soon, until};

on_every_database! {
    what_was_stored_and_not_told_is_told_by_the_next_process
    a_thousand_crashes_between_storing_and_telling_lose_nothing
    what_was_told_and_not_acknowledged_is_not_told_again
    another_node_tells_what_this_one_could_not
    a_later_frame_of_another_node_hides_nothing
    what_one_node_notes_late_is_not_published_again
    what_the_bus_refused_is_published_when_it_is_back
    nothing_is_published_twice_while_nobody_dies
}

/// What whoever listens outside hears of a meeting, who takes frames as they come.
pub(super) struct Outside {
    said: Box<dyn BusSubscription>,
    pub(super) rendered: Rendered,
    pub(super) seqs: Vec<i64>,
}

impl Outside {
    pub(super) async fn of(talk: &Talk) -> Self {
        let topic = format!("tc:meeting:{}:mutable", talk.id());
        let said = talk.bus.subscribe(&topic).await.unwrap();
        let rendered = render(&talk.transcript().await);
        Outside { said, rendered, seqs: Vec::new() }
    }

    /// Hears what was published until now.
    pub(super) async fn hear(&mut self) {
        let_others_run().await;
        while let Some(message) = self.said.next().now_or_never() {
            let BusMessage::Body(text) = message else { panic!("{message:?}") };
            let frame: Value = serde_json::from_slice(&text).unwrap();
            let seq = frame["seq"].as_i64().unwrap();
            self.seqs.push(seq);
            apply(&mut self.rendered, &frame);
        }
    }
}

/// Stores a message and dies before anybody is told.
async fn die_after_storing(talk: &mut Talk, message: &Value) {
    let gate = talk.world.store.hold("take_messages");
    let (transcripts, text) = (talk.transcripts.clone(), message.to_string());
    let dying = talk.world.tasks.spawn(async move { transcripts.ingest(&text).await });
    soon(gate.reached()).await;
    dying.abort();
    talk.world.store.hold_no_more();
    talk.restart();
}

/// T-2.
async fn what_was_stored_and_not_told_is_told_by_the_next_process(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    let mut outside = Outside::of(&talk).await;
    let mut reader = talk.reader().await;
    let message = talk.said(SESSION, &[(0, 1000, "was this told")]);
    die_after_storing(&mut talk, &message).await;
    reader.reconnect(&talk).await;
    // The producer sends it again, because nobody has answered.
    assert_eq!(talk.ingest(&message).await.changed, 0);
    reader.hear().await;
    reader.agrees(&talk).await;
    // What is told next must not hide it from whoever listens outside.
    talk.say(&[(2000, 3000, "this one is")]).await;
    talk.transcripts.tick().await.unwrap();
    outside.hear().await;
    assert_eq!(outside.rendered, render(&talk.transcript().await));
    talk.transcripts.tick().await.unwrap();
    talk.world.clock.advance(secs(10));
    talk.persist().await;
    let heard = outside.seqs.len();
    outside.hear().await;
    assert_eq!(outside.seqs.len(), heard, "and then no more");
    talk.check().await;
}

async fn a_thousand_crashes_between_storing_and_telling_lose_nothing(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    let random = SeededRandom::new(11);
    let mut outside = Outside::of(&talk).await;
    let mut reader = talk.reader().await;
    let crashes_max = 1000;
    let (mut crashes, mut round) = (0, 0);
    while crashes < crashes_max {
        round += 1;
        let start = i64::try_from(random.below(20)).unwrap() * 1000;
        let text = format!("round {round} of many");
        let message = talk.said(SESSION, &[(start, start + 800, &text)]);
        talk.world.clock.advance(secs(random.below(4)));
        if random.below(3) > 0 {
            crashes += 1;
            die_after_storing(&mut talk, &message).await;
            reader.reconnect(&talk).await;
        } else {
            talk.ingest(&message).await;
        }
        if random.below(2) > 0 {
            talk.transcripts.tick().await.unwrap();
        }
        outside.hear().await;
    }
    talk.transcripts.tick().await.unwrap();
    outside.hear().await;
    let now = talk.transcript().await;
    assert_eq!(outside.rendered, render(&now), "the last content was published");
    reader.hear_until(now.seq).await;
    reader.agrees(&talk).await;
    talk.check().await;
}

/// T-3.
async fn what_was_told_and_not_acknowledged_is_not_told_again(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    let mut outside = Outside::of(&talk).await;
    let (stream, mut consumer) = super::streams::segments(&talk, "one");
    let message = talk.said(SESSION, &[(0, 1000, "told but not acknowledged")]).to_string();
    stream.add(&[("payload", &message)]);
    let gate = talk.world.store.hold("take_messages");
    let tick = talk.world.tasks.spawn(async move { consumer.tick().await });
    soon(gate.reached()).await;
    stream.set_available(false);
    gate.open();
    assert!(soon(tick).await.unwrap().is_err(), "it cannot acknowledge");
    talk.world.store.hold_no_more();
    stream.set_available(true);
    outside.hear().await;
    assert_eq!(outside.seqs.len(), 1);
    // It dies here; another one takes over what it had.
    talk.restart();
    let (_, mut other) = super::streams::segments_of(&talk, &stream, "two");
    talk.world.clock.advance(secs(61));
    assert_eq!(other.tick().await.unwrap().taken, 1);
    assert_eq!(stream.pending("collector_group"), Vec::<String>::new());
    talk.transcripts.tick().await.unwrap();
    talk.persist().await;
    outside.hear().await;
    assert_eq!(talk.frames().await.len(), 1);
    assert!(outside.seqs.windows(2).all(|pair| pair[0] == pair[1]), "the same, if at all");
    talk.check().await;
}

/// Two nodes, one of which dies; the other one's round finds what it has left.
async fn another_node_tells_what_this_one_could_not(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    let survivor = talk.another_node();
    survivor.tick().await.unwrap();
    let mut outside = Outside::of(&talk).await;
    let mut listener = survivor.listen();
    listener.add(talk.id(), None).await.unwrap();
    let message = talk.said(SESSION, &[(0, 1000, "who tells this")]);
    die_after_storing(&mut talk, &message).await;
    let persister =
        roundsman_engine::transcripts::Persister::new(&survivor, super::persist_options());
    persister.tick(None).await.unwrap();
    outside.hear().await;
    assert_eq!(outside.seqs.len(), 0, "it may still be on its way");
    talk.world.clock.advance(secs(6));
    persister.tick(None).await.unwrap();
    outside.hear().await;
    assert_eq!(outside.rendered, render(&talk.transcript().await));
    let deliveries = soon(listener.next()).await.unwrap();
    assert_eq!(deliveries.len(), 1);
    persister.tick(None).await.unwrap();
    outside.hear().await;
    assert_eq!(outside.seqs.len(), 1, "once is enough");
    talk.check().await;
}

/// T3: a node dies with a frame, and another one publishes and notes what came after it.
async fn a_later_frame_of_another_node_hides_nothing(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    let survivor = talk.another_node();
    survivor.tick().await.unwrap();
    let mut outside = Outside::of(&talk).await;
    let message = talk.said(SESSION, &[(0, 1000, "who tells this")]);
    die_after_storing(&mut talk, &message).await;
    let lost = talk.transcript().await.seq;
    for second in 1..4 {
        let later = talk.said(SESSION, &[(second * 2000, second * 2000 + 900, "told at once")]);
        assert_eq!(survivor.ingest(&later.to_string()).await.unwrap().seq, Some(lost + second));
        outside.hear().await;
        survivor.tick().await.unwrap();
    }
    assert_eq!(outside.seqs, [lost + 1, lost + 2, lost + 3]);
    talk.world.clock.advance(secs(6));
    let persister =
        roundsman_engine::transcripts::Persister::new(&survivor, super::persist_options());
    for _ in 0..2 {
        persister.tick(None).await.unwrap();
        survivor.tick().await.unwrap();
        // Nor does a process that starts find anything else.
        talk.restart();
        talk.transcripts.tick().await.unwrap();
        outside.hear().await;
        // All from there on, and once: an old frame must not be the last that is heard.
        assert_eq!(outside.seqs[3..], [lost, lost + 1, lost + 2, lost + 3]);
    }
    assert_eq!(outside.rendered, render(&talk.transcript().await));
    talk.check().await;
}

/// Two nodes tell of one meeting in turns, and one of them is always later to write it down.
async fn what_one_node_notes_late_is_not_published_again(backend: Backend) {
    let talk = Talk::new(backend).await;
    let other = talk.another_node();
    other.tick().await.unwrap();
    let mut outside = Outside::of(&talk).await;
    let mut told = Vec::new();
    for second in 0..40 {
        let message = talk.said(SESSION, &[(second * 1000, second * 1000 + 900, "turn by turn")]);
        let node = if second % 2 == 0 { &talk.transcripts } else { &other };
        told.push(node.ingest(&message.to_string()).await.unwrap().seq.unwrap());
        let_others_run().await;
        if second % 4 == 3 {
            other.tick().await.unwrap();
        }
    }
    talk.transcripts.tick().await.unwrap();
    talk.world.clock.advance(secs(6));
    talk.persist().await;
    outside.hear().await;
    assert_eq!(outside.seqs, told);
    talk.check().await;
}

/// A bus that can be taken away.
struct Switched {
    inner: Arc<dyn Bus>,
    away: AtomicBool,
}

#[async_trait]
impl Bus for Switched {
    async fn publish(&self, topic: &str, body: Bytes) -> Result<(), BusError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(BusError::Unavailable("a test took it away".to_owned()));
        }
        self.inner.publish(topic, body).await
    }

    async fn subscribe(&self, topic: &str) -> Result<Box<dyn BusSubscription>, BusError> {
        self.inner.subscribe(topic).await
    }

    fn connected(&self) -> bool {
        !self.away.load(Ordering::SeqCst)
    }

    fn name(&self) -> &'static str {
        "switched"
    }
}

async fn what_the_bus_refused_is_published_when_it_is_back(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    let bus = Arc::new(Switched { inner: talk.bus.clone(), away: AtomicBool::new(false) });
    talk.use_bus(bus.clone());
    talk.transcripts.tick().await.unwrap();
    let mut outside = Outside::of(&talk).await;
    let mut reader = talk.reader().await;
    bus.away.store(true, Ordering::SeqCst);
    let away = talk.say(&[(0, 1000, "while it is away")]).await;
    reader.hear_until(away.seq.unwrap()).await;
    reader.agrees(&talk).await;
    let metrics = talk.world.metrics.clone();
    until("the bus has refused it", || metrics.encode().contains("roundsman_bus_failures_total 1"))
        .await;
    bus.away.store(false, Ordering::SeqCst);
    talk.say(&[(2000, 3000, "when it is back")]).await;
    outside.hear().await;
    assert_eq!(outside.seqs, [away.seq.unwrap() + 1]);
    talk.transcripts.tick().await.unwrap();
    talk.world.clock.advance(secs(6));
    talk.persist().await;
    outside.hear().await;
    assert_eq!(outside.rendered, render(&talk.transcript().await));
    talk.check().await;
}

async fn nothing_is_published_twice_while_nobody_dies(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut outside = Outside::of(&talk).await;
    for second in 0..60 {
        talk.say(&[(second * 1000, second * 1000 + 900, "all is well here")]).await;
        let_others_run().await;
        talk.world.clock.advance(secs(1));
        talk.transcripts.tick().await.unwrap();
        if second % 10 == 0 {
            talk.persist().await;
        }
    }
    outside.hear().await;
    let mut once = outside.seqs.clone();
    once.dedup();
    assert_eq!(outside.seqs, once);
    assert_eq!(outside.rendered, render(&talk.transcript().await));
    assert!(talk.world.metrics.encode().contains("roundsman_frames_republished_total 1\n"));
    talk.check().await;
}

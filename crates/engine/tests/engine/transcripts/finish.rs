//! When a meeting ends, all of its transcript is final at once, and nothing of it is left in the
//! cache.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use roundsman_core::bots::{BotEvent, CallbackKey, ExitReport, Source, WorkloadId};
use roundsman_core::ports::{
    AnonymiseAnswer, BotHappened, BotStore, BusMessage, EventAnswer, LaunchSpec, Launched,
    Launcher, Removed, SeenWorkload, Sighting, Unanswered,
};
use roundsman_core::transcripts::instant;
use roundsman_engine::bots::{BotWork, Bots, BotsDeps};
use roundsman_engine::jobs::Worker;
use serde_json::Value;

use super::{SESSION, Talk};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{let_others_run, secs, soon, until_running};

on_every_database! {
    the_end_of_a_meeting_makes_everything_final_and_then_gathers_it
    a_crash_in_the_middle_is_mended_by_the_next_run
    what_comes_after_the_end_is_cleared_away_too
    forgetting_a_meeting_forgets_its_cache_and_its_frames
    how_a_bot_is_is_heard_at_once_and_published_once
    what_was_said_before_a_bot_began_is_told_with_its_times
}

/// Nobody asks it for anything here.
struct NoRuntime;

#[async_trait]
impl Launcher for NoRuntime {
    fn name(&self) -> &'static str {
        "none"
    }

    async fn ensure(&self, _: &LaunchSpec) -> Result<Launched, Unanswered> {
        panic!("nothing is launched")
    }

    async fn look(&self, _: WorkloadId) -> Result<Sighting, Unanswered> {
        panic!("nothing is looked at")
    }

    async fn terminate(&self, _: WorkloadId) -> Result<(), Unanswered> {
        panic!("nothing is told to stop")
    }

    async fn remove(&self, _: WorkloadId) -> Result<Removed, Unanswered> {
        panic!("nothing is removed")
    }

    async fn list(&self) -> Result<Vec<SeenWorkload>, Unanswered> {
        panic!("nothing is listed")
    }
}

/// Bots of the same process, without a runtime.
fn bot_work(talk: &Talk) -> BotWork {
    BotWork {
        store: talk.world.store.clone(),
        clock: talk.world.clock.clone(),
        random: talk.world.random.clone(),
        bus: talk.bus.clone(),
        wakes: talk.world.wakes.clone(),
        metrics: talk.world.metrics.clone(),
        launcher: Arc::new(NoRuntime),
        transcripts: talk.transcripts.clone(),
        tasks: talk.world.tasks.clone(),
    }
}

fn bots(talk: &Talk) -> Bots {
    Bots::new(BotsDeps {
        store: talk.world.store.clone(),
        clock: talk.world.clock.clone(),
        random: talk.world.random.clone(),
        bus: talk.bus.clone(),
        wakes: talk.world.wakes.clone(),
        metrics: talk.world.metrics.clone(),
        callback_key: CallbackKey::new(super::KEY),
        transcripts: talk.transcripts.clone(),
        tasks: talk.world.tasks.clone(),
    })
}

async fn end(talk: &Talk) {
    for event in [
        BotEvent::Joined,
        BotEvent::Exited(ExitReport { exit_code: Some(0), ..ExitReport::default() }),
    ] {
        let happened = BotHappened {
            workload: talk.record.workload(),
            connection: None,
            event,
            source: Source::Supervisor,
            beats: false,
        };
        let answer = talk.world.store.bot_event(happened, None, talk.now()).await.unwrap();
        assert!(matches!(answer, EventAnswer::Changed(_)), "{answer:?}");
    }
}

async fn run_due(worker: &Arc<Worker>) {
    worker.claim_tick().await.unwrap();
    until_running(worker, 0).await;
    worker.settle_tick().await.unwrap();
}

async fn the_end_of_a_meeting_makes_everything_final_and_then_gathers_it(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let worker = talk.world.worker(vec![bot_work(&talk).finisher()]);
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "said long ago"), (2000, 3000, "hm")]).await;
    talk.say(&[(4000, 5500, "said a moment ago")]).await;
    let mut reader = talk.reader().await;
    end(&talk).await;
    run_due(&worker).await;
    let lines = talk.transcript().await.lines;
    assert_eq!(lines.len(), 2, "noise is dropped");
    assert!(lines.iter().all(|line| line.kept), "nothing waits to be stable");
    let record = talk.world.store.bot(talk.id()).await.unwrap().unwrap();
    assert!(record.bot.finished_at.is_some());
    assert_eq!(record.meeting.data.to_value()["languages"], serde_json::json!(["en"]));
    assert_eq!(talk.cache().keys().keys().collect::<Vec<_>>(), Vec::<&String>::new(), "T6");
    reader.hear_until(talk.transcript().await.seq).await;
    reader.agrees(&talk).await;
    talk.check().await;
}

async fn a_crash_in_the_middle_is_mended_by_the_next_run(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let worker = talk.world.worker(vec![bot_work(&talk).finisher()]);
    talk.say(&[(0, 1000, "said before the end")]).await;
    end(&talk).await;
    for call in ["settle_segments", "finish_meeting"] {
        talk.world.store.set(call, Fault::AnswerLost);
        run_due(&worker).await;
        talk.world.store.mend();
        talk.world.clock.advance(secs(120));
    }
    run_due(&worker).await;
    let record = talk.world.store.bot(talk.id()).await.unwrap().unwrap();
    assert!(record.bot.finished_at.is_some());
    assert_eq!(talk.texts().await, ["said before the end"]);
    talk.persist().await;
    assert!(talk.cache().keys().is_empty(), "{:?}", talk.cache().keys());
    talk.check().await;
}

async fn what_comes_after_the_end_is_cleared_away_too(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let worker = talk.world.worker(vec![bot_work(&talk).finisher()]);
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "said before the end")]).await;
    end(&talk).await;
    run_due(&worker).await;
    assert!(talk.cache().keys().is_empty());
    talk.say(&[(2000, 3000, "said after the end")]).await;
    assert!(!talk.cache().keys().is_empty());
    assert_eq!(talk.settle().await.kept, 1);
    assert!(talk.cache().keys().is_empty(), "{:?}", talk.cache().keys());
    assert_eq!(talk.texts().await, ["said before the end", "said after the end"]);
    talk.check().await;
}

async fn forgetting_a_meeting_forgets_its_cache_and_its_frames(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let bots = bots(&talk);
    talk.start_session(talk.now()).await;
    let mut reader = talk.reader().await;
    talk.say(&[(0, 1000, "a secret of somebody")]).await;
    end(&talk).await;
    let mut late = talk.listen(None).await;
    let answer = bots.anonymise(talk.user, talk.target()).await.unwrap();
    assert_eq!(answer, AnonymiseAnswer::Done);
    assert!(talk.cache().keys().is_empty(), "{:?}", talk.cache().keys());
    assert_eq!(talk.frames().await, []);
    // Nobody who comes back is told.
    reader.listener = talk.transcripts.listen();
    reader.listener.add(talk.id(), Some(reader.seq)).await.unwrap();
    reader.hear().await;
    assert!(reader.rendered.is_empty());
    late.remove(talk.id());
    let refused = talk.try_ingest(&talk.said(SESSION, &[(0, 1000, "once more")])).await;
    assert!(refused.is_err());
    talk.check().await;
}

async fn how_a_bot_is_is_heard_at_once_and_published_once(backend: Backend) {
    let talk = Talk::new(backend).await;
    let bots = bots(&talk);
    let mut listener = talk.listen(None).await;
    let_others_run().await;
    let topic = format!("bm:meeting:{}:status", talk.id());
    let mut outside = talk.bus.subscribe(&topic).await.unwrap();
    let reads = talk.world.store.calls("frames");
    let connection = &talk.record.bot.connection_id;
    let token = CallbackKey::new(super::KEY).token(talk.record.workload(), connection);
    for event in [BotEvent::Started, BotEvent::Joined] {
        bots.callback(&token, connection.as_str(), event, true).await.unwrap();
        let deliveries = soon(listener.next()).await.unwrap();
        assert_eq!(deliveries.len(), 1);
        let BusMessage::Body(published) = soon(outside.next()).await else { panic!() };
        assert_eq!(published, deliveries[0].text, "the same to everybody");
    }
    assert_eq!(talk.world.store.calls("frames"), reads, "nobody had to look");
    talk.transcripts.tick().await.unwrap();
    talk.world.clock.advance(secs(60));
    talk.persist().await;
    let_others_run().await;
    assert!(outside.next().now_or_never().is_none(), "and no second time");
    talk.check().await;
}

/// The session of a bot begins with it: what was told of the session before has times then.
async fn what_was_said_before_a_bot_began_is_told_with_its_times(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let bots = bots(&talk);
    let connection = &talk.record.bot.connection_id;
    let mut outside = super::crash::Outside::of(&talk).await;
    let mut reader = talk.reader().await;
    let early = talk.said(connection.as_str(), &[(0, 1000, "said before anybody began")]);
    let early = talk.ingest(&early).await;
    let times = || -> Vec<Value> {
        let values = super::mirror::cached(&talk);
        values.iter().map(|value| value["absolute_start_time"].clone()).collect()
    };
    assert_eq!(times(), [Value::Null]);
    talk.world.clock.advance(secs(5));
    let token = CallbackKey::new(super::KEY).token(talk.record.workload(), connection);
    bots.callback(&token, connection.as_str(), BotEvent::Started, true).await.unwrap();
    let read = talk.transcript().await;
    assert_eq!(read.seq, early.seq.unwrap() + 2, "how the bot is, and what was said");
    assert_eq!(read.lines[0].session_start, Some(talk.now()));
    reader.hear_until(read.seq).await;
    reader.agrees(&talk).await;
    outside.hear().await;
    assert_eq!(outside.rendered, super::reader::render(&read));
    assert_eq!(outside.seqs, [early.seq.unwrap(), read.seq]);
    talk.transcripts.tick().await.unwrap();
    assert_eq!(times(), [Value::from(instant(talk.now()))], "the cache is repaired at once");
    talk.check().await;
}

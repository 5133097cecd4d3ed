//! Waking: at once when a wake-up arrives, soon when it does not, and between nodes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roundsman_bus::{BusLimits, LocalBus};
use roundsman_core::jobs::{JobId, Lane};
use roundsman_core::ports::{Bus, BusMessage, BusSubscription, Clock};
use roundsman_core::users::Authenticated;
use roundsman_engine::jobs::JobWish;
use roundsman_engine::metrics::Metrics;
use roundsman_engine::wake::{RemoteWakes, WAKE_TOPIC, Wakes};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{
    RENDER, SOON, World, done, lane, let_others_run, scripted, soon, spec, until, woken,
};

fn wish() -> JobWish {
    JobWish { kind: RENDER.to_owned(), ..JobWish::default() }
}

/// The worker of this test polls once an hour, so only the wake-up explains that it starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_wakes_a_running_worker() {
    let world = World::on_disk().await;
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.run(stop.clone(), SOON));
    let jobs = world.jobs();
    for _ in 0..20 {
        jobs.enqueue(&Authenticated::Admin, vec![wish()], None).await.unwrap();
        starts.next().await.reply(done("1"));
    }
    stop.cancel();
    soon(run).await.unwrap();
    assert_eq!(world.all_jobs(Some(RENDER)).await.len(), 20);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_slot_wakes_a_worker_that_was_full() {
    let world = World::on_disk().await;
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker_with(vec![handler], |options| options.slots = 1);
    world.enqueue_many(RENDER, 10).await;
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.run(stop.clone(), SOON));
    for _ in 0..10 {
        starts.next().await.reply(done("1"));
    }
    stop.cancel();
    soon(run).await.unwrap();
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_found_though_every_wake_up_is_lost() {
    let world = World::on_disk().await;
    let (handler, mut starts) = scripted(spec(RENDER));
    let poll_every = Duration::from_millis(20);
    let worker = world.worker_with(vec![handler], |options| options.poll_every = poll_every);
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.run(stop.clone(), SOON));
    for _ in 0..5 {
        world.enqueue(world.wish(RENDER)).await;
        starts.next().await.reply(done("1"));
    }
    stop.cancel();
    soon(run).await.unwrap();
    world.check().await;
}

#[tokio::test]
async fn a_scheduled_job_runs_at_its_time() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.run(stop.clone(), SOON));
    let moment = Duration::from_millis(30);
    let run_at = Some(world.clock.now() + moment);
    let later = JobWish { run_at, ..wish() };
    world.jobs().enqueue(&Authenticated::Admin, vec![later], None).await.unwrap();
    // The enqueue has woken it; from here on only the time at which the job is due does.
    assert!(starts.is_empty().await);
    world.clock.advance(moment);
    starts.next().await.reply(done("1"));
    stop.cancel();
    soon(run).await.unwrap();
    world.check().await;
}

/// Nodes on one bus, each with its loops running.
struct Nodes {
    bus: Arc<LocalBus>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Nodes {
    fn new(limits: &BusLimits) -> Self {
        let stop = CancellationToken::new();
        Nodes { bus: Arc::new(LocalBus::new(limits, &stop)), tasks: TaskTracker::new(), stop }
    }

    /// Starts a node; it listens when this returns.
    async fn start(&self, name: &str) -> Wakes {
        let remote = RemoteWakes::new(name);
        let wakes = Wakes::with_remote(remote.clone());
        let (bus, stop) = (self.bus.clone(), self.stop.clone());
        self.tasks.spawn(remote.clone().send_loop(bus.clone(), Metrics::default(), stop.clone()));
        self.tasks.spawn(remote.receive_loop(bus, wakes.clone(), stop));
        let_others_run().await;
        wakes
    }

    async fn observe(&self) -> Box<dyn BusSubscription> {
        self.bus.subscribe(WAKE_TOPIC).await.unwrap()
    }

    async fn publish(&self, body: &'static str) {
        self.bus.publish(WAKE_TOPIC, Bytes::from(body)).await.unwrap();
    }

    /// The loops end when they are told to.
    async fn finish(self) {
        self.stop.cancel();
        self.tasks.close();
        soon(self.tasks.wait()).await;
    }
}

async fn next_message(observer: &mut Box<dyn BusSubscription>) -> Value {
    match soon(observer.next()).await {
        BusMessage::Body(body) => serde_json::from_slice(&body).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nodes_wake_each_other() {
    let nodes = Nodes::new(&BusLimits::default());
    let (one, two) = (nodes.start("one").await, nodes.start("two").await);
    for (here, there) in [(&one, &two), (&two, &one)] {
        let mut listener = there.listen(&[lane(RENDER)]);
        let bystander = there.listen(&[lane("tasks.other")]);
        here.signal([(lane(RENDER), 1)]);
        soon(listener.wait(Duration::MAX)).await;
        assert!(!woken(&bystander));
        let mut cancels = there.cancels();
        here.signal_cancel(JobId::new(7));
        assert_eq!(soon(cancels.recv()).await.unwrap(), JobId::new(7));
    }
    nodes.finish().await;
}

#[tokio::test]
async fn nodes_wake_as_many_as_there_are_jobs() {
    let nodes = Nodes::new(&BusLimits::default());
    let (one, two) = (nodes.start("one").await, nodes.start("two").await);
    let listeners: Vec<_> = (0..5).map(|_| two.listen(&[lane(RENDER)])).collect();
    one.signal([(lane(RENDER), 3)]);
    let mut count = 0;
    until("three are woken", || {
        count += listeners.iter().filter(|listener| woken(listener)).count();
        count == 3
    })
    .await;
    let_others_run().await;
    assert!(!listeners.iter().any(woken));
    nodes.finish().await;
}

#[tokio::test]
async fn a_node_does_not_hear_itself() {
    let nodes = Nodes::new(&BusLimits::default());
    let (one, two) = (nodes.start("one").await, nodes.start("two").await);
    let own = one.listen(&[lane(RENDER)]);
    let mut other = two.listen(&[lane(RENDER)]);
    let mut cancels = one.cancels();
    one.signal([(lane(RENDER), 1)]);
    one.signal_cancel(JobId::new(7));
    assert!(woken(&own), "directly, before any message");
    assert_eq!(cancels.try_recv().unwrap(), JobId::new(7));
    soon(other.wait(Duration::MAX)).await;
    let_others_run().await;
    assert!(!woken(&own), "its own message came round and was ignored");
    assert!(cancels.is_empty());
    nodes.finish().await;
}

#[tokio::test]
async fn what_was_missed_or_cannot_be_read_wakes_everybody() {
    let nodes = Nodes::new(&BusLimits { listener_messages_max: 2, ..BusLimits::default() });
    let wakes = nodes.start("one").await;
    let mut listeners = [wakes.listen(&[lane(RENDER)]), wakes.listen(&[lane("tasks.other")])];
    for garbage in ["", "{", "\0", "[]", "{\"node\":1}", "{\"node\":\"x\",\"lanes\":{}}"] {
        nodes.publish(garbage).await;
        for listener in &mut listeners {
            soon(listener.wait(Duration::MAX)).await;
        }
    }
    // Messages for nobody here; with the third the queue overflows and becomes a gap.
    for _ in 0..3 {
        nodes.publish("{\"node\":\"x\",\"lanes\":[[\"elsewhere\",1]]}").await;
    }
    for listener in &mut listeners {
        soon(listener.wait(Duration::MAX)).await;
    }
    nodes.publish("{\"node\":\"x\",\"lanes\":[[\"elsewhere\",1]]}").await;
    let_others_run().await;
    assert!(!listeners.iter().any(woken), "one that can be read wakes only whom it names");
    nodes.publish("{\"node\":\"x\",\"lanes\":null,\"of a later release\":1}").await;
    for listener in &mut listeners {
        soon(listener.wait(Duration::MAX)).await;
    }
    nodes.finish().await;
}

#[tokio::test]
async fn many_signals_become_few_messages() {
    let nodes = Nodes::new(&BusLimits::default());
    let wakes = nodes.start("one").await;
    let mut observer = nodes.observe().await;
    wakes.signal([(lane(RENDER), 1)]);
    let first = next_message(&mut observer).await;
    assert_eq!(first["lanes"][0][1], 1, "the first goes out at once");
    for number in 0..1000 {
        wakes.signal([(lane(RENDER), 1)]);
        wakes.signal_cancel(JobId::new(number));
    }
    let second = next_message(&mut observer).await;
    assert_eq!(second["lanes"], serde_json::json!([[RENDER, 1000]]));
    assert_eq!(second["cancels"].as_array().unwrap().len(), 200, "the others learn by heartbeat");

    // A steady stream: the sender could send each by itself, and must not.
    for _ in 0..500 {
        wakes.signal([(lane(RENDER), 1)]);
        tokio::task::yield_now().await;
    }
    let (mut jobs, mut messages) = (0, 0);
    while jobs < 500 {
        jobs += next_message(&mut observer).await["lanes"][0][1].as_u64().unwrap();
        messages += 1;
    }
    assert!(messages <= 50, "{messages} messages for 500 signals");
    wakes.signal([(lane("tasks.other"), 1)]);
    let last = next_message(&mut observer).await;
    assert_eq!(last["lanes"], serde_json::json!([["tasks.other", 1]]), "nothing between the two");
    nodes.finish().await;
}

#[tokio::test]
async fn too_many_lanes_become_everybody() {
    let nodes = Nodes::new(&BusLimits::default());
    let mut observer = nodes.observe().await;
    let remote = RemoteWakes::new("one");
    let wakes = Wakes::with_remote(remote.clone());
    let lanes = |count: usize| (0..count).map(|n| (Lane::from_stored(format!("1/k{n}")), 1));
    wakes.signal(lanes(50));
    remote.send_tick(nodes.bus.as_ref()).await.unwrap();
    assert_eq!(next_message(&mut observer).await["lanes"].as_array().unwrap().len(), 50);

    let other = nodes.start("two").await;
    let mut listener = other.listen(&[lane(RENDER)]);
    wakes.signal(lanes(51));
    remote.send_tick(nodes.bus.as_ref()).await.unwrap();
    assert_eq!(next_message(&mut observer).await["lanes"], Value::Null);
    soon(listener.wait(Duration::MAX)).await;

    remote.send_tick(nodes.bus.as_ref()).await.unwrap();
    wakes.signal(lanes(1));
    remote.send_tick(nodes.bus.as_ref()).await.unwrap();
    let next = next_message(&mut observer).await;
    assert_eq!(next["lanes"].as_array().unwrap().len(), 1, "without news nothing was sent");
    nodes.finish().await;
}

#[tokio::test]
async fn a_bus_that_refuses_is_counted_and_costs_nothing_else() {
    let world = World::new();
    let stop = CancellationToken::new();
    let bus = Arc::new(LocalBus::new(&BusLimits::default(), &stop));
    // The bus is shut down: it takes no message any more.
    stop.cancel();
    let remote = RemoteWakes::new("one");
    let wakes = Wakes::with_remote(remote.clone());
    let listener = wakes.listen(&[lane(RENDER)]);
    let going_on = CancellationToken::new();
    let send = world.tasks.spawn(remote.send_loop(bus, world.metrics.clone(), going_on.clone()));
    wakes.signal([(lane(RENDER), 1)]);
    assert!(woken(&listener));
    let counted = || world.metrics.encode().contains("roundsman_bus_failures_total 1");
    until("the failure is counted", counted).await;
    going_on.cancel();
    soon(send).await.unwrap();
}

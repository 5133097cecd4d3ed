//! The suite of the port, once per adapter.

use std::sync::Arc;

use async_trait::async_trait;
use roundsman_bus::conformance::BusCluster;
use roundsman_bus::{BusLimits, BusStatus, LocalBus, PostgresBus, RedisBus};
use roundsman_core::ports::Bus;
use roundsman_testkit::env;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{test_random, unique_name};

struct Local {
    bus: Arc<LocalBus>,
    shutdown: CancellationToken,
}

impl Local {
    fn new() -> Self {
        let shutdown = CancellationToken::new();
        Self { bus: Arc::new(LocalBus::new(&BusLimits::default(), &shutdown)), shutdown }
    }
}

#[async_trait]
impl BusCluster for Local {
    fn node(&self, _index: usize) -> Arc<dyn Bus> {
        Arc::clone(&self.bus) as Arc<dyn Bus>
    }

    fn topic(&self, name: &str) -> String {
        name.to_owned()
    }

    fn listener_limits(&self) -> (usize, usize) {
        listener_limits()
    }

    async fn shut_down(&self) {
        self.shutdown.cancel();
    }

    async fn until_topics(&self, _index: usize, topics: usize) {
        assert_eq!(self.bus.topic_count(), topics);
    }
}

/// Two nodes of a networked bus, on the shared test server.
struct Remote {
    nodes: [(Arc<dyn Bus>, watch::Receiver<BusStatus>); 2],
    name: String,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Remote {
    async fn redis() -> Self {
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let url = env::redis_url().expect("a shared Redis");
        let node = async || {
            let limits = BusLimits::default();
            let bus = RedisBus::start(&url, limits, &test_random(), &tasks, &shutdown)
                .await
                .expect("the URL of the test server is valid");
            let status = bus.status();
            (Arc::new(bus) as Arc<dyn Bus>, status)
        };
        let nodes = [node().await, node().await];
        Self { nodes, name: unique_name(), tasks, shutdown }
    }

    async fn postgres() -> Self {
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let url = env::postgres_url().expect("a shared PostgreSQL");
        let node = async || {
            let limits = BusLimits::default();
            let config = url.parse().expect("the URL of the test server is valid");
            let bus = PostgresBus::start(config, limits, &test_random(), &tasks, &shutdown).await;
            let status = bus.status();
            (Arc::new(bus) as Arc<dyn Bus>, status)
        };
        let nodes = [node().await, node().await];
        Self { nodes, name: unique_name(), tasks, shutdown }
    }
}

#[async_trait]
impl BusCluster for Remote {
    fn node(&self, index: usize) -> Arc<dyn Bus> {
        Arc::clone(&self.nodes[index].0)
    }

    fn topic(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    fn listener_limits(&self) -> (usize, usize) {
        listener_limits()
    }

    async fn shut_down(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn until_topics(&self, index: usize, topics: usize) {
        let mut status = self.nodes[index].1.clone();
        status.wait_for(|status| status.topics == topics).await.expect("the bus lives");
    }
}

fn listener_limits() -> (usize, usize) {
    let limits = BusLimits::default();
    (limits.listener_messages_max, limits.listener_bytes_max)
}

mod local {
    roundsman_bus::bus_conformance_suite!(std::future::ready(super::Local::new()));
}

mod redis {
    roundsman_bus::bus_conformance_suite!(super::Remote::redis());
}

mod postgres {
    roundsman_bus::bus_conformance_suite!(super::Remote::postgres());
}

//! The bus that fits the configuration: Redis if there is one, else PostgreSQL's own, else none.

use std::sync::Arc;

use roundsman_bus::{BusLimits, LocalBus, PostgresBus, RedisBus};
use roundsman_core::ports::{Bus, Random};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::wake::{RemoteWakes, Wakes};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::store::postgres_config;
use crate::config::{Config, DatabaseTarget};

/// The bus of this node and the wake-ups that travel on it.
pub(crate) struct NodeBus {
    pub(crate) bus: Arc<dyn Bus>,
    /// `None` when no other node can exist.
    remote: Option<RemoteWakes>,
    wakes: Wakes,
}

impl NodeBus {
    pub(crate) async fn start(
        config: &Config,
        node: &str,
        random: &Arc<dyn Random>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> anyhow::Result<NodeBus> {
        let limits = BusLimits::default();
        let bus: Arc<dyn Bus> = match (&config.redis.url, &config.database.target) {
            (Some(url), _) => {
                let url = url.expose_secret();
                Arc::new(RedisBus::start(url, limits, random, tasks, stop).await?)
            }
            (None, DatabaseTarget::Postgres(url)) => {
                let config = postgres_config(url.expose_secret())?;
                Arc::new(PostgresBus::start(config, limits, random, tasks, stop).await)
            }
            (None, DatabaseTarget::Sqlite(_)) => Arc::new(LocalBus::new(&limits, stop)),
        };
        // An embedded database has one process: waking it needs no bus.
        let alone = matches!(config.database.target, DatabaseTarget::Sqlite(_));
        let remote = (!alone).then(|| RemoteWakes::new(node));
        let wakes = remote.clone().map_or_else(Wakes::local, Wakes::with_remote);
        Ok(NodeBus { bus, remote, wakes })
    }

    pub(crate) fn wakes(&self) -> Wakes {
        self.wakes.clone()
    }

    /// Starts sending and receiving wake-ups.
    pub(crate) fn spawn_loops(
        &self,
        tasks: &TaskTracker,
        metrics: &Metrics,
        stop: &CancellationToken,
    ) {
        let Some(remote) = &self.remote else { return };
        let bus = self.bus.clone();
        tasks.spawn(remote.clone().send_loop(bus, metrics.clone(), stop.clone()));
        let bus = self.bus.clone();
        tasks.spawn(remote.clone().receive_loop(bus, self.wakes(), stop.clone()));
    }
}

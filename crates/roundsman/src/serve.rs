//! `roundsman serve`: starts a node, and ends it in order.

mod live_threads;
mod signals;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use roundsman_core::failpoint;
use roundsman_core::ports::Database;
use roundsman_web::{AppState, DailyEvents, Live, LiveLimits, Readiness, ServeOptions, WebLimits};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::config::{Config, Role};
use crate::node::Node;
use crate::output;
use live_threads::LiveThreads;

/// What the loops get to end after the last request and job have ended.
const LOOPS_END_WITHIN: Duration = Duration::from_secs(2);

pub(crate) async fn run(mut config: Config) -> anyhow::Result<()> {
    // Taken before anything is opened, so that a signal during the start ends it in order too.
    let signals = signals::Signals::listen()?;
    // `stopping` ends taking new work, `stopped` ends the loops that keep running work alive.
    let stopping = CancellationToken::new();
    let stopped = CancellationToken::new();
    // A port of the system's choosing must be known before bots are told where to call.
    let early = if config.server.listen.port() == 0 { listen(&config)? } else { None };
    if let Some(listener) = &early {
        config.server.listen = listener.local_addr()?;
    }
    let node = Node::build(&config, &stopped).await?;
    let listener = if early.is_some() { early } else { listen(&config)? };
    failpoint::hit("serve.starting");
    node.seed_periodic_jobs(&config).await?;
    node.spawn_loops(&config, &stopped);
    let consuming = node.spawn_consumers(&config, &stopping);
    let working =
        node.tasks.spawn(node.worker.clone().run(stopping.clone(), config.server.shutdown_grace));
    greet(&config, &node, listener.as_ref())?;
    let live_threads = LiveThreads::start()?;
    let state = app_state(&config, &node, &live_threads, &stopping);
    let serving = async {
        match listener {
            Some(listener) => {
                let router = roundsman_web::router(state);
                roundsman_web::serve(listener, router, stopping.clone(), serve_options(&config))
                    .await;
            }
            None => stopping.cancelled().await,
        }
    };
    let reading = read_to_the_end(consuming, &stopping, config.server.shutdown_grace);
    let ending = end_in_order(&node, &stopping, working, reading, serving);
    tokio::pin!(ending);
    tokio::select! {
        result = &mut ending => return finish(&node, &stopped, result).await,
        () = signals.first() => tracing::info!("shutting down; a second signal ends at once"),
    }
    stopping.cancel();
    failpoint::hit("serve.stopping");
    tokio::select! {
        result = &mut ending => finish(&node, &stopped, result).await,
        () = signals.second() => {
            tracing::warn!("ended by a second signal; unfinished jobs are taken over after their lease");
            Ok(())
        }
    }
}

/// Serves and works until told to stop; then lets requests, jobs and what is being read finish.
async fn end_in_order(
    node: &Node,
    stopping: &CancellationToken,
    working: JoinHandle<()>,
    reading: impl Future<Output = anyhow::Result<()>>,
    serving: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let close = async {
        stopping.cancelled().await;
        // Workers that wait for work are answered at once instead of holding up the end.
        node.wakes.close();
    };
    let ((), worked, read, ()) = tokio::join!(serving, working, reading, close);
    read?;
    worked.context("the worker died")
}

/// Readers of streams store and acknowledge what they have read. Those that do not get there within
/// the grace, because what they need does not answer, are dropped: nothing of theirs was
/// acknowledged, so others are given it later.
async fn read_to_the_end(
    readers: Vec<JoinHandle<()>>,
    stopping: &CancellationToken,
    grace: Duration,
) -> anyhow::Result<()> {
    let readers = try_join_all(readers.into_iter().map(AbortOnDropHandle::new));
    tokio::pin!(readers);
    let ended = tokio::select! {
        ended = &mut readers => Ok(ended),
        () = stopping.cancelled() => tokio::time::timeout(grace, readers).await,
    };
    let Ok(ended) = ended else {
        tracing::warn!("readers of streams were dropped; others take over what they had");
        return Ok(());
    };
    ended.context("a reader of a stream died")?;
    Ok(())
}

async fn finish(
    node: &Node,
    stopped: &CancellationToken,
    result: anyhow::Result<()>,
) -> anyhow::Result<()> {
    stopped.cancel();
    if let Err(error) = node.authenticator.flush_usage().await {
        tracing::debug!(%error, "could not note when tokens were last used");
    }
    node.tasks.close();
    let _ = tokio::time::timeout(LOOPS_END_WITHIN, node.tasks.wait()).await;
    // Without this note the next start would publish the last frames once more.
    if let Err(error) = node.transcripts.tick().await {
        tracing::debug!(%error, "could not note which frames were published");
    }
    failpoint::hit("serve.closing");
    node.store.close().await;
    tracing::info!("ended in order");
    result
}

/// `None` for a node that answers no requests.
fn listen(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    if !config.server.roles.has(Role::Api) {
        return Ok(None);
    }
    let address = config.server.listen;
    let listener = roundsman_web::listen(address).with_context(|| {
        format!("cannot listen on {address}; choose another address with --listen ADDR:PORT")
    })?;
    Ok(Some(listener))
}

fn app_state(
    config: &Config,
    node: &Node,
    live_threads: &LiveThreads,
    stopping: &CancellationToken,
) -> AppState {
    let database: Arc<dyn Database> = node.store.clone();
    AppState {
        jobs: node.jobs.clone(),
        users: node.users.clone(),
        bots: node.bots.clone(),
        webhooks: node.webhooks.clone(),
        transcripts: node.transcripts.clone(),
        presence: node.presence.clone(),
        recordings: node.recordings.clone(),
        audits: node.audits.clone(),
        rooms: node.rooms.clone(),
        room_sockets: config.rooms.sockets,
        tasks: node.task_service.clone(),
        alarms: node.alarms.clone(),
        daily: DailyEvents {
            secrets: node.daily_secrets.clone(),
            replay_window: config.daily.webhook_window,
            intake: node.intake.clone(),
        },
        live: Live::on(live_threads.handle(), live_limits(config)),
        public_url: config.server.public_url.clone(),
        authenticator: node.authenticator.clone(),
        readiness: Readiness::new(
            database,
            node.clock.clone(),
            node.health.clone(),
            stopping.clone(),
        ),
        metrics: node.metrics.clone(),
        clock: node.clock.clone(),
        random: node.random.clone(),
        limits: WebLimits {
            body_bytes_max: config.server.body_bytes_max,
            request_max: config.server.request_max,
            claim_wait_max: config.jobs.wait_max,
            requests_at_once_max: config.server.requests_at_once_max,
            token_requests_per_sec_max: config.auth.requests_per_sec_max,
            cors_origins: config.server.cors_origins.clone(),
        },
    }
}

fn live_limits(config: &Config) -> LiveLimits {
    let live = &config.live;
    LiveLimits {
        connections_per_key_max: live.connections_per_key_max,
        connections_max: live.connections_max,
        subscriptions_max: live.subscriptions_max,
        message_bytes_max: live.message_bytes_max,
        commands_per_sec_max: live.commands_per_sec_max,
        ping_every: live.ping,
        send_max: live.send_max,
        recheck_every: live.recheck,
    }
}

fn serve_options(config: &Config) -> ServeOptions {
    let defaults = ServeOptions::default();
    ServeOptions {
        // A live connection that takes nothing is closed by its own limit, which says why.
        write_stalled_max: defaults.write_stalled_max.max(config.live.send_max * 2),
        grace: config.server.shutdown_grace,
        connections_max: config.server.connections_max,
        header_bytes_max: config.server.header_bytes_max,
        ..defaults
    }
}

/// Says where to look. Standard output carries nothing else, so scripts can wait for it.
fn greet(config: &Config, node: &Node, listener: Option<&TcpListener>) -> anyhow::Result<()> {
    let mut lines = vec![format!("Roundsman {} is running", env!("CARGO_PKG_VERSION"))];
    if let Some(listener) = listener {
        let url = format!("http://{}", listener.local_addr()?);
        lines.push(format!("  address      {url}"));
        lines.push(format!("  API, to try  {url}/docs"));
        lines.push(format!("  ready?       {url}/readyz"));
    }
    lines.push(format!("  database     {}", node.store.describe()));
    lines.push(format!("  messages     {}", node.bus.bus.name()));
    if let Some(token) = &node.new_admin_token {
        lines.push(format!("  admin token  {token}"));
        lines.push("               (made at this first start and shown only now)".to_owned());
    } else if config.admin.token.is_none() {
        lines.push("  admin token  the one shown at the first start".to_owned());
    }
    output::print(&lines.join("\n"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tokio_util::task::TaskTracker;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_mins(5);

    #[tokio::test]
    async fn readers_are_waited_for_within_the_grace() {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let stop = stopping.clone();
        let (done, was_done) = oneshot::channel();
        let reader = tasks.spawn(async move {
            stop.cancelled().await;
            // What it has read is being stored.
            tokio::task::yield_now().await;
            let _ = done.send(());
        });
        stopping.cancel();
        read_to_the_end(vec![reader], &stopping, LONG).await.unwrap();
        was_done.await.expect("it was let finish");
        read_to_the_end(Vec::new(), &CancellationToken::new(), LONG).await.unwrap();
    }

    #[tokio::test]
    async fn readers_that_do_not_end_are_dropped_and_those_that_die_are_told() {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let (held, released) = oneshot::channel::<()>();
        let stuck = tasks.spawn(async move {
            let _held = held;
            pending::<()>().await;
        });
        stopping.cancel();
        read_to_the_end(vec![stuck], &stopping, SHORT).await.unwrap();
        assert!(released.await.is_err(), "it does not go on in the background");
        let dead = tasks.spawn(async {});
        let dead_too = tasks.spawn(pending());
        dead_too.abort();
        let told = read_to_the_end(vec![dead, dead_too], &CancellationToken::new(), LONG).await;
        assert!(told.is_err());
    }
}

//! Bots and webhooks of this node: their keys, services and jobs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use roundsman_core::Timestamp;
use roundsman_core::bots::{BotTimeouts, CallbackKey, MeetingTokens};
use roundsman_core::jobs::NewJob;
use roundsman_core::ports::{Bus, Clock, KeyStore, Random, Store, WebhookSender};
use roundsman_engine::bots::{
    BotSweepOptions, BotWork, Bots, BotsDeps, LaunchOptions, SuperviseOptions, bot_wishes,
};
use roundsman_engine::jobs::Handler;
use roundsman_engine::metrics::Metrics;
use roundsman_engine::transcripts::Transcripts;
use roundsman_engine::wake::Wakes;
use roundsman_engine::webhooks::{WebhookRetention, WebhookWork, Webhooks, webhook_wishes};
use roundsman_providers::egress::{EgressGuard, EgressOptions};
use roundsman_providers::launchers::Installation;
use roundsman_providers::webhooks::HttpWebhookSender;
use secrecy::ExposeSecret;
use tokio_util::task::TaskTracker;

use super::launcher::launcher;
use crate::config::Config;

/// Launches of one bot before it is given up.
const LAUNCH_ATTEMPTS_MAX: u32 = 2;
/// How often in a row a runtime must say that a bot is gone.
const MISSES_MAX: u32 = 2;
/// How often old webhook events are deleted, and how many at once.
const PRUNE_EVENTS_EVERY: Duration = Duration::from_secs(3600);
const PRUNE_EVENTS_ROWS_MAX: u32 = 5000;

/// What the node lends to its bots.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: &'a Arc<dyn Random>,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) wakes: &'a Wakes,
    pub(super) metrics: &'a Metrics,
    pub(super) tasks: &'a TaskTracker,
}

/// The services for the edge, and the handlers for the worker.
pub(super) struct NodeBots {
    pub(super) bots: Bots,
    pub(super) webhooks: Webhooks,
    pub(super) handlers: Vec<Arc<dyn Handler>>,
}

impl NodeBots {
    pub(super) fn build(
        parts: &Parts<'_>,
        keys: &Keys,
        transcripts: &Transcripts,
    ) -> anyhow::Result<NodeBots> {
        let sender = sender(parts.config)?;
        let bots = Bots::new(BotsDeps {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            bus: parts.bus.clone(),
            wakes: parts.wakes.clone(),
            metrics: parts.metrics.clone(),
            callback_key: keys.callback.clone(),
            transcripts: transcripts.clone(),
            tasks: parts.tasks.clone(),
        });
        let webhooks = Webhooks::new(
            parts.store.clone(),
            parts.clock.clone(),
            parts.random.clone(),
            sender.clone(),
            parts.wakes.clone(),
        );
        let mut handlers = bot_work(parts, keys, transcripts)?
            .handlers(supervise_options(parts.config, keys), sweep_options(parts.config));
        handlers.extend(webhook_work(parts, sender).handlers());
        Ok(NodeBots { bots, webhooks, handlers })
    }

    /// The wishes that keep the periodic jobs alive.
    pub(super) fn wishes(now: Timestamp) -> Vec<NewJob> {
        let mut wishes = bot_wishes(now);
        wishes.extend(webhook_wishes(now));
        wishes
    }
}

/// Secrets and names that all nodes share.
pub(super) struct Keys {
    installation: Installation,
    callback: CallbackKey,
    pub(super) meeting: MeetingTokens,
}

impl Keys {
    pub(super) async fn load(parts: &Parts<'_>) -> anyhow::Result<Keys> {
        let installation = hex::encode(key(parts, "installation", 4).await?);
        let installation = Installation::new(&installation).context("the installation's name")?;
        let secret = match &parts.config.meeting_token.secret {
            Some(secret) => secret.expose_secret().as_bytes().to_vec(),
            None => key(parts, "meeting_token", 32).await?,
        };
        let older = &parts.config.meeting_token.secrets_accepted;
        let accepted = older.iter().map(|secret| secret.expose_secret().as_bytes().to_vec());
        Ok(Keys {
            installation,
            callback: CallbackKey::new(&secret).accepting(accepted.clone()),
            meeting: MeetingTokens::new(&secret).accepting(accepted),
        })
    }
}

/// A key that was made at the first start, by this node or another.
async fn key(parts: &Parts<'_>, name: &'static str, bytes: usize) -> anyhow::Result<Vec<u8>> {
    let mut candidate = vec![0u8; bytes];
    parts.random.fill(&mut candidate);
    let store: &dyn KeyStore = parts.store.as_ref();
    Ok(store.find_or_create_key(name, candidate, parts.clock.now()).await?)
}

fn bot_work(parts: &Parts<'_>, keys: &Keys, transcripts: &Transcripts) -> anyhow::Result<BotWork> {
    Ok(BotWork {
        store: parts.store.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        bus: parts.bus.clone(),
        wakes: parts.wakes.clone(),
        metrics: parts.metrics.clone(),
        launcher: launcher(parts.config, keys.installation.clone())?,
        transcripts: transcripts.clone(),
        tasks: parts.tasks.clone(),
    })
}

fn supervise_options(config: &Config, keys: &Keys) -> SuperviseOptions {
    let bots = &config.bots;
    let redis_url = bots.redis_url.as_ref().or(config.redis.url.as_ref());
    let launch = LaunchOptions {
        installation: keys.installation.as_str().to_owned(),
        callback_url: callback_url(config),
        redis_url: redis_url.map(|url| url.expose_secret().to_owned()),
        whisper_live_url: bots.whisper_live_url.clone(),
        log_level: bots.log_level.clone(),
        heartbeat: bots.heartbeat,
        leave: bots.leave_grace,
        lifetime: bots.lifetime_max,
        waiting_room_timeout_ms: millis(bots.waiting_room_max),
        no_one_joined_timeout_ms: millis(bots.no_one_joined_max),
        everyone_left_timeout_ms: millis(bots.everyone_left_max),
        meeting_tokens: keys.meeting.clone(),
        callback_key: keys.callback.clone(),
        // The launcher adds the configured ones itself.
        extra_env: Vec::new(),
    };
    SuperviseOptions {
        leave_grace: bots.leave_grace,
        kill_grace: bots.kill_grace,
        attempts_max: LAUNCH_ATTEMPTS_MAX,
        at_once_max: bots.launches_at_once_max,
        launch,
    }
}

fn sweep_options(config: &Config) -> BotSweepOptions {
    let bots = &config.bots;
    BotSweepOptions {
        every: bots.sweep,
        timeouts: BotTimeouts {
            reserved: bots.reserved_max,
            starting: bots.starting_max,
            active: bots.active_silence_max,
            stopping: bots.stopping_max,
            media: (!bots.media_silence_max.is_zero()).then_some(bots.media_silence_max),
            lifetime: bots.lifetime_max,
        },
        rows_max: u32::try_from(bots.sweep_rows_max).unwrap_or(u32::MAX),
        misses_max: MISSES_MAX,
    }
}

fn webhook_work(parts: &Parts<'_>, sender: Arc<dyn WebhookSender>) -> WebhookWork {
    let settings = &parts.config.webhooks;
    WebhookWork {
        store: parts.store.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        metrics: parts.metrics.clone(),
        sender,
        request_max: settings.request_max,
        retention: WebhookRetention {
            every: PRUNE_EVENTS_EVERY,
            events_for: settings.retention,
            rows_max: PRUNE_EVENTS_ROWS_MAX,
        },
    }
}

fn sender(config: &Config) -> anyhow::Result<Arc<dyn WebhookSender>> {
    let options = EgressOptions { allow: config.egress.allow.clone(), ports_denied: Vec::new() };
    Ok(Arc::new(HttpWebhookSender::new(EgressGuard::new(options), None)?))
}

/// Where bots reach this server: what is configured, or the address it listens on. A wildcard is
/// no address to call; bots on this machine reach it by loopback.
fn callback_url(config: &Config) -> String {
    if let Some(url) = &config.bots.callback_url {
        return url.clone();
    }
    let listen = config.server.listen;
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

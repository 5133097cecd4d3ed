//! Video rooms of this node: the provider, what hears its events, and the jobs that look.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use roundsman_core::Timestamp;
use roundsman_core::daily::{SUBSCRIBED_EVENTS, WebhookSecret};
use roundsman_core::jobs::NewJob;
use roundsman_core::ports::{NewSubscription, VideoRecordings, VideoRooms};
use roundsman_engine::jobs::Handler;
use roundsman_engine::presence::{
    Intake, IntakeOptions, Presence, PresenceDeps, PresenceLimits, PresenceOptions, PresenceWork,
    presence_wishes,
};
use roundsman_engine::transcripts::Transcripts;
use roundsman_providers::daily::{DailyClient, DailyLimits, DailyOptions, Rate};
use roundsman_providers::unconfigured::NoRooms;
use secrecy::{ExposeSecret, SecretString};

use super::bots::Parts;
use crate::config::Config;

/// The path at which Daily's events arrive.
const DAILY_EVENTS: &str = "/webhooks/daily";

/// The services for the edge, and the handlers for the worker.
pub(super) struct NodePresence {
    pub(super) presence: Presence,
    pub(super) intake: Arc<Intake>,
    /// What Daily signs with, newest first; none closes the route.
    pub(super) secrets: Arc<[WebhookSecret]>,
    /// The provider's recordings; `None` if nobody is configured.
    pub(super) recordings: Option<Arc<dyn VideoRecordings>>,
    pub(super) handlers: Vec<Arc<dyn Handler>>,
}

impl NodePresence {
    pub(super) fn build(
        parts: &Parts<'_>,
        transcripts: &Transcripts,
    ) -> anyhow::Result<NodePresence> {
        let config = parts.config;
        let (rooms, recordings) = provider(parts)?;
        let work = PresenceWork {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            wakes: parts.wakes.clone(),
            metrics: parts.metrics.clone(),
            rooms,
            transcripts: transcripts.clone(),
            rules: config.presence.rules,
            limits: limits(config),
        };
        let options = options(config);
        let subscriptions = work.subscriptions(&options);
        let handlers = work.handlers(&options);
        let intake = work.intake(IntakeOptions {
            quiet: config.presence.debounce,
            wait_max: config.presence.debounce_max,
            ..IntakeOptions::default()
        });
        let presence = Presence::new(PresenceDeps { work, subscriptions });
        Ok(NodePresence {
            presence,
            intake,
            secrets: secrets(config)?.into(),
            recordings,
            handlers,
        })
    }

    /// The wishes that keep the periodic jobs alive. Nobody is asked without a key.
    pub(super) fn wishes(config: &Config, now: Timestamp) -> Vec<NewJob> {
        if config.daily.api_key.is_some() { presence_wishes(now) } else { Vec::new() }
    }
}

pub(super) fn limits(config: &Config) -> PresenceLimits {
    let looks_at_once_max = config.presence.looks_at_once_max;
    let defaults = PresenceLimits::default();
    // Where nodes share a domain, one may hear what the others look at: never less than the default.
    let twice = config.daily.requests_per_sec_max.saturating_mul(2);
    let asked = u32::try_from(twice).unwrap_or(u32::MAX).max(defaults.looks_asked_per_sec_max);
    PresenceLimits { looks_at_once_max, looks_asked_per_sec_max: asked, ..defaults }
}

type Provider = (Arc<dyn VideoRooms>, Option<Arc<dyn VideoRecordings>>);

fn provider(parts: &Parts<'_>) -> anyhow::Result<Provider> {
    let daily = &parts.config.daily;
    let Some(key) = &daily.api_key else { return Ok((Arc::new(NoRooms), None)) };
    let mut options = DailyOptions::new(daily.api_url.clone(), key.clone());
    options.request_max = daily.request_max;
    options.limits = DailyLimits {
        most: rates(daily.requests_per_sec_max, 5),
        scarce: rates(daily.recording_requests_per_sec_max, 25),
        ..DailyLimits::default()
    };
    options.tracks = super::recordings::tracks(parts.config)?;
    let client = DailyClient::new(&options, parts.clock.clone()).context("[daily]")?;
    let client = Arc::new(client);
    Ok((client.clone(), Some(client)))
}

/// So many in a second, and as many in a longer stretch as in all its seconds.
fn rates(per_sec: usize, stretch_secs: u64) -> Vec<Rate> {
    let rate = |requests, secs| Rate { requests, within: Duration::from_secs(secs) };
    let in_stretch = per_sec.saturating_mul(usize::try_from(stretch_secs).unwrap_or(usize::MAX));
    // A little slower than allowed: their clock is not ours.
    vec![rate(per_sec, 1), rate(in_stretch, stretch_secs + stretch_secs / 5)]
}

fn options(config: &Config) -> PresenceOptions {
    let presence = &config.presence;
    PresenceOptions {
        reconcile_every: presence.reconcile,
        process_every: presence.process,
        subscription_every: presence.subscription,
        inbox_for: presence.inbox,
        subscription: subscription(config),
    }
}

/// Where Daily is to send its events, if that is known and they can be verified.
fn subscription(config: &Config) -> Option<NewSubscription> {
    let daily = &config.daily;
    let from_public = || {
        config
            .server
            .public_url
            .as_ref()
            .map(|url| url.trim_end_matches('/').to_owned() + DAILY_EVENTS)
    };
    Some(NewSubscription {
        url: daily.webhook_url.clone().or_else(from_public)?,
        event_types: SUBSCRIBED_EVENTS.map(ToOwned::to_owned).to_vec(),
        secret: daily.webhook_secret.as_ref()?.expose_secret().to_owned(),
    })
}

fn secrets(config: &Config) -> anyhow::Result<Vec<WebhookSecret>> {
    let daily = &config.daily;
    let parse = |secret: &SecretString| {
        WebhookSecret::parse(secret.expose_secret()).context("[daily] webhook_secret")
    };
    // Without the present one, older ones open nothing.
    let Some(present) = &daily.webhook_secret else { return Ok(Vec::new()) };
    std::iter::once(present).chain(&daily.webhook_secrets_accepted).map(parse).collect()
}

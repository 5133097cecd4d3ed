//! Transcripts of this node: the service, the job that makes them final, and what is read from and
//! written to Redis.

use std::sync::Arc;
use std::time::Duration;

use roundsman_bus::{
    BusLimits, IngestStreamOptions, RedisIngestStream, RedisLink, RedisTranscriptCache,
    TranscriptCacheOptions,
};
use roundsman_core::bots::MeetingTokens;
use roundsman_core::ports::{IngestStream, TranscriptCache};
use roundsman_engine::jobs::Handler;
use roundsman_engine::transcripts::{
    ConsumeOptions, PersistOptions, Persister, StreamConsumer, TranscriptLimits, Transcripts,
    TranscriptsDeps,
};
use secrecy::ExposeSecret;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Node;
use super::bots::Parts;
use crate::config::{Config, Role};

/// The consumers read in rounds of this length at least, when there is nothing to read. Without
/// Redis they try this often, and the node is as ready as ever: everything but the streams works.
const CONSUMERS_BEAT_EVERY: Duration = Duration::from_secs(15);

/// The service for the edge, the handler for the worker, and the streams that this node reads.
pub(super) struct NodeTranscripts {
    pub(super) service: Transcripts,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) streams: Option<Streams>,
}

/// What producers write to Redis.
pub(crate) struct Streams {
    segments: Arc<dyn IngestStream>,
    speakers: Arc<dyn IngestStream>,
}

impl NodeTranscripts {
    pub(super) async fn build(
        parts: &Parts<'_>,
        node: &str,
        tokens: MeetingTokens,
        stop: &CancellationToken,
    ) -> anyhow::Result<NodeTranscripts> {
        let config = parts.config;
        let link = match &config.redis.url {
            Some(url) => {
                let (url, limits) = (url.expose_secret(), BusLimits::default());
                Some(RedisLink::start(url, limits, parts.random, parts.tasks, stop).await?)
            }
            None => None,
        };
        let cache = link.clone().map(|link| {
            let cache = RedisTranscriptCache::new(link, cache_options(config));
            Arc::new(cache) as Arc<dyn TranscriptCache>
        });
        let service = Transcripts::new(TranscriptsDeps {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            bus: parts.bus.clone(),
            cache,
            metrics: parts.metrics.clone(),
            tokens,
            filter: config.transcripts.filter.clone(),
            limits: TranscriptLimits::default(),
            tasks: parts.tasks.clone(),
        });
        let handler = Persister::new(&service, persist_options(config)).handler();
        let streams = link.map(|link| streams(config, node, &link));
        Ok(NodeTranscripts { service, handler, streams })
    }
}

impl Node {
    /// Reads the streams of Redis, if there are any and this node works. What has been read when it
    /// is told to stop is still stored and acknowledged, so the connection must outlive these.
    pub(crate) fn spawn_consumers(
        &self,
        config: &Config,
        stop: &CancellationToken,
    ) -> Vec<JoinHandle<()>> {
        let Some(streams) = &self.streams else { return Vec::new() };
        if !config.server.roles.has(Role::Worker) {
            return Vec::new();
        }
        let options = consume_options(config);
        let segments =
            StreamConsumer::segments(streams.segments.clone(), &self.transcripts, options);
        let pulse = self.health.register_trying("transcripts.segments", CONSUMERS_BEAT_EVERY);
        let segments = self.tasks.spawn(segments.run(pulse, stop.clone()));
        let speakers =
            StreamConsumer::speakers(streams.speakers.clone(), &self.transcripts, options);
        let pulse = self.health.register_trying("transcripts.speakers", CONSUMERS_BEAT_EVERY);
        let speakers = self.tasks.spawn(speakers.run(pulse, stop.clone()));
        vec![segments, speakers]
    }
}

fn streams(config: &Config, node: &str, link: &RedisLink) -> Streams {
    let settings = &config.transcripts;
    let block_ms = u64::try_from(settings.stream_block.as_millis()).unwrap_or(u64::MAX);
    let open = |stream: &str, group: &str, consumer: String| -> Arc<dyn IngestStream> {
        let (stream, group) = (stream.to_owned(), group.to_owned());
        let options = IngestStreamOptions { stream, group, consumer, block_ms };
        Arc::new(RedisIngestStream::new(link.clone(), options))
    };
    Streams {
        segments: open(&settings.stream, &settings.stream_group, node.to_owned()),
        speakers: open(
            &settings.speaker_stream,
            &settings.speaker_stream_group,
            format!("{node}-speaker"),
        ),
    }
}

fn cache_options(config: &Config) -> TranscriptCacheOptions {
    let settings = &config.transcripts;
    TranscriptCacheOptions {
        segment_ttl_secs: settings.cache_ttl.as_secs(),
        session_start_ttl_secs: settings.session_start_ttl.as_secs(),
        speaker_event_ttl_secs: settings.speaker_event_ttl.as_secs(),
        speaker_event_prefix: settings.speaker_event_prefix.clone(),
        field_style: settings.cache_fields,
    }
}

fn persist_options(config: &Config) -> PersistOptions {
    let settings = &config.transcripts;
    PersistOptions {
        every: settings.persist,
        stable_after: settings.stable_after,
        speaker_events_for: settings.speaker_event_ttl,
        dead_letters_for: settings.dead_letters,
        ..PersistOptions::default()
    }
}

fn consume_options(config: &Config) -> ConsumeOptions {
    let settings = &config.transcripts;
    ConsumeOptions {
        entries_max: settings.stream_read_max,
        claim_idle: settings.stream_claim,
        // Looking is cheap; what a node that died has left must not wait twice as long as it should.
        claim_every: ConsumeOptions::default().claim_every.min(settings.stream_claim),
        deliveries_max: settings.stream_deliveries_max,
        retention: settings.stream_retention,
        ..ConsumeOptions::default()
    }
}

//! A private Redis, a link to it, and an operator beside it.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};
use roundsman_bus::conformance_cache::{Stored, StoredKey};
use roundsman_bus::{
    IngestStreamOptions, RedisIngestStream, RedisLink, RedisTranscriptCache, TranscriptCacheOptions,
};
use roundsman_testkit::redis::Persistence;
use roundsman_testkit::{FaultProxy, RedisServer, eventually};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{bounded, quick_limits, test_random};

/// The stream of these tests.
pub(super) const STREAM: &str = "transcription_segments";

pub(super) struct Lab {
    pub(super) redis: RedisServer,
    pub(super) link: RedisLink,
}

impl Lab {
    pub(super) async fn start() -> Self {
        Self::start_with(Persistence::None).await
    }

    pub(super) async fn start_with(persistence: Persistence) -> Self {
        let redis = RedisServer::start_with(persistence).await.expect("a private Redis server");
        let link = link(&redis.url()).await;
        Self { redis, link }
    }

    /// One whose link is made with something more in its URL.
    pub(super) async fn start_with_query(query: &str) -> Self {
        let redis = RedisServer::start().await.expect("a private Redis server");
        let link = link(&format!("{}{query}", redis.url())).await;
        Self { redis, link }
    }

    /// One whose link goes through a network that can be broken.
    pub(super) async fn behind_a_proxy() -> (Self, FaultProxy) {
        let redis = RedisServer::start().await.expect("a private Redis server");
        let address = SocketAddr::from(([127, 0, 0, 1], redis.port()));
        let proxy = FaultProxy::start(address).await.expect("a proxy");
        let link = link(&proxy.url(&redis.url())).await;
        (Self { redis, link }, proxy)
    }

    /// A cache whose link goes straight to the server.
    pub(super) async fn direct_cache(&self) -> RedisTranscriptCache {
        let link = link(&self.redis.url()).await;
        RedisTranscriptCache::new(link, TranscriptCacheOptions::default())
    }

    pub(super) fn cache(&self) -> RedisTranscriptCache {
        self.cache_with(TranscriptCacheOptions::default())
    }

    pub(super) fn cache_with(&self, options: TranscriptCacheOptions) -> RedisTranscriptCache {
        RedisTranscriptCache::new(self.link.clone(), options)
    }

    pub(super) fn consumer(&self, group: &str, name: &str) -> RedisIngestStream {
        self.consumer_waiting(group, name, 50)
    }

    pub(super) fn consumer_waiting(
        &self,
        group: &str,
        consumer: &str,
        block_ms: u64,
    ) -> RedisIngestStream {
        let options = IngestStreamOptions {
            stream: STREAM.to_owned(),
            group: group.to_owned(),
            consumer: consumer.to_owned(),
            block_ms,
        };
        RedisIngestStream::new(self.link.clone(), options)
    }

    pub(super) async fn until_connected(&self, connected: bool) {
        let mut status = self.link.connected();
        bounded(status.wait_for(|is| *is == connected)).await.expect("the link lives");
    }

    /// Runs a command on a connection of its own. Words are separated by single spaces.
    pub(super) async fn run<T: FromRedisValue>(&self, command: &str) -> T {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.run_words(&words).await
    }

    pub(super) async fn run_words<T: FromRedisValue>(&self, words: &[&[u8]]) -> T {
        run_on(&mut self.operator().await, words).await
    }

    pub(super) async fn operator(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.redis.url()).expect("a valid URL");
        bounded(client.get_multiplexed_async_connection()).await.expect("the server accepts")
    }

    /// Appends an entry of one field with the time's own id.
    pub(super) async fn add(&self, payload: &str) -> String {
        self.run_words(&[b"XADD", STREAM.as_bytes(), b"*", b"payload", payload.as_bytes()]).await
    }

    /// Everything but streams.
    pub(super) async fn keys(&self) -> BTreeMap<String, StoredKey> {
        let operator = &mut self.operator().await;
        let names: Vec<String> = run_on(operator, &[b"KEYS", b"*"]).await;
        let mut keys = BTreeMap::new();
        for name in names {
            let bytes = name.as_bytes();
            let kind: String = run_on(operator, &[b"TYPE", bytes]).await;
            let value = match &*kind {
                "hash" => Stored::Hash(run_on(operator, &[b"HGETALL", bytes]).await),
                "set" => Stored::Set(run_on(operator, &[b"SMEMBERS", bytes]).await),
                "string" => Stored::Text(run_on(operator, &[b"GET", bytes]).await),
                "zset" => {
                    let all: [&[u8]; 5] = [b"ZRANGE", bytes, b"0", b"-1", b"WITHSCORES"];
                    let scores: HashMap<String, i64> = run_on(operator, &all).await;
                    Stored::Sorted(scores.into_iter().collect())
                }
                other => panic!("{name} is a {other}"),
            };
            let ttl_secs: i64 = run_on(operator, &[b"TTL", bytes]).await;
            keys.insert(name, StoredKey { value, ttl_secs: u64::try_from(ttl_secs).ok() });
        }
        keys
    }

    pub(super) async fn consumers(&self, group: &str) -> Vec<String> {
        let found: Vec<HashMap<String, Value>> =
            self.run(&format!("XINFO CONSUMERS {STREAM} {group}")).await;
        let names = found.into_iter().map(|mut consumer| consumer.remove("name"));
        let mut names: Vec<String> = names
            .map(|name| redis::from_redis_value(name.expect("a name")).expect("text"))
            .collect();
        names.sort();
        names
    }
}

async fn run_on<T: FromRedisValue>(operator: &mut MultiplexedConnection, words: &[&[u8]]) -> T {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    bounded(command.query_async(operator)).await.expect("the command works")
}

/// Returns once the server holds back the answer of a read.
pub(super) async fn until_a_read_waits(lab: &Lab) {
    let waits = async || {
        let clients: String = lab.run("CLIENT LIST").await;
        let reads = |client: &str| client.contains(" flags=b ") && client.contains("=xreadgroup ");
        clients.lines().any(reads).then_some(())
    };
    eventually(Duration::from_secs(20), waits).await.expect("a read waits");
}

async fn link(url: &str) -> RedisLink {
    let (random, tasks) = (test_random(), TaskTracker::new());
    let shutdown = CancellationToken::new();
    let started = RedisLink::start(url, quick_limits(), &random, &tasks, &shutdown);
    bounded(started).await.expect("the URL is valid")
}

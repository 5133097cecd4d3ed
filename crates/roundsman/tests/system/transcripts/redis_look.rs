//! The tests' own look at Redis, as producers and consumers of others have it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, cmd};
use roundsman_testkit::eventually;
use tokio::sync::Mutex;

use super::room::OVER_WITHIN;

/// The stream of messages, and the group that reads it.
pub(super) const STREAM: &str = "transcription_segments";
const GROUP: &str = "collector_group";
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A connection that is made again when it is lost.
pub(super) struct RedisLook {
    url: String,
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// A group of a stream: what it has not acknowledged, and what it has not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupState {
    pub(super) pending: u64,
    pub(super) lag: u64,
    pub(super) consumers: u64,
}

impl RedisLook {
    pub(super) fn new(url: &str) -> RedisLook {
        RedisLook { url: url.to_owned(), connection: Mutex::new(None) }
    }

    /// One command. A connection that fails, or a server that does not answer, is forgotten.
    pub(super) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        let mut connection = self.connection.lock().await;
        let asked = async {
            let mut live = match connection.take() {
                Some(live) => live,
                None => redis::Client::open(&*self.url)?.get_multiplexed_async_connection().await?,
            };
            let answer = command.query_async(&mut live).await?;
            anyhow::Ok((answer, live))
        };
        let (answer, live) =
            tokio::time::timeout(ANSWER_MAX, asked).await.context("no answer")??;
        *connection = Some(live);
        Ok(answer)
    }

    /// Returns the entry's name.
    pub(super) async fn add_message(&self, payload: &str) -> Result<String> {
        self.query(cmd("XADD").arg(STREAM).arg("*").arg("payload").arg(payload)).await
    }

    pub(super) async fn entries(&self) -> Result<u64> {
        self.query(cmd("XLEN").arg(STREAM)).await
    }

    /// The name of the oldest entry that is still there.
    pub(super) async fn first_entry(&self) -> Result<Option<String>> {
        let mut range = cmd("XRANGE");
        range.arg(STREAM).arg("-").arg("+").arg("COUNT").arg(1);
        let entries: Vec<(String, Vec<String>)> = self.query(&range).await?;
        Ok(entries.into_iter().next().map(|(name, _)| name))
    }

    /// How far the group of the servers is.
    pub(super) async fn group(&self) -> Result<GroupState> {
        let groups: Vec<BTreeMap<String, redis::Value>> =
            self.query(cmd("XINFO").arg("GROUPS").arg(STREAM)).await?;
        let number = |group: &BTreeMap<String, redis::Value>, name: &str| match group.get(name) {
            Some(redis::Value::Int(number)) => u64::try_from(*number).unwrap_or(u64::MAX),
            // Nobody knows.
            _ => u64::MAX,
        };
        let is_ours = |group: &&BTreeMap<String, redis::Value>| match group.get("name") {
            Some(redis::Value::BulkString(name)) => name == GROUP.as_bytes(),
            _ => false,
        };
        let ours = groups.iter().find(is_ours).context("the servers have no group")?;
        Ok(GroupState {
            pending: number(ours, "pending"),
            lag: number(ours, "lag"),
            consumers: number(ours, "consumers"),
        })
    }

    /// Waits until the servers have read and acknowledged everything.
    pub(super) async fn wait_quiet(&self) -> Result<()> {
        let quiet = eventually(OVER_WITHIN, async || {
            let group = self.group().await.ok()?;
            ((group.pending, group.lag) == (0, 0)).then_some(())
        });
        let quiet = quiet.await;
        quiet.with_context(|| format!("the stream is not read to its end: {:?}", self.url))
    }

    /// Redis runs out of memory and throws away whatever it has, streams included.
    pub(super) async fn evict_everything(&self) -> Result<()> {
        let set = async |name: &str, value: &str| -> Result<()> {
            self.query(cmd("CONFIG").arg("SET").arg(name).arg(value)).await
        };
        set("maxmemory-policy", "allkeys-random").await?;
        set("maxmemory", "1").await?;
        // Every command makes room first; writes are refused meanwhile.
        let empty = eventually(OVER_WITHIN, async || {
            let keys: u64 = self.query(&cmd("DBSIZE")).await.ok()?;
            (keys == 0).then_some(())
        });
        empty.await.context("not everything was evicted")?;
        set("maxmemory", "0").await?;
        set("maxmemory-policy", "noeviction").await?;
        let stats: String = self.query(cmd("INFO").arg("stats")).await?;
        let evicted = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        let evicted: u64 = evicted.context("no count")?.trim().parse()?;
        ensure!(evicted > 0, "nothing was evicted");
        Ok(())
    }

    /// Keys that match end now, as if their time were over.
    pub(super) async fn expire(&self, pattern: &str) -> Result<usize> {
        let keys: Vec<String> = self.query(cmd("KEYS").arg(pattern)).await?;
        for key in &keys {
            let _: u64 = self.query(cmd("PEXPIRE").arg(key).arg(1)).await?;
        }
        let gone = eventually(OVER_WITHIN, async || {
            let left: Vec<String> = self.query(cmd("KEYS").arg(pattern)).await.ok()?;
            left.is_empty().then_some(())
        });
        gone.await.context("keys do not expire")?;
        Ok(keys.len())
    }

    /// The live segments of a meeting, as others read them.
    pub(super) async fn live_segments(&self, meeting: i64) -> Result<BTreeMap<String, String>> {
        self.query(cmd("HGETALL").arg(format!("meeting:{meeting}:segments"))).await
    }

    pub(super) async fn active_meetings(&self) -> Result<Vec<i64>> {
        self.query(cmd("SMEMBERS").arg("active_meetings")).await
    }

    /// The keys of meetings that are left.
    pub(super) async fn keys_of_meetings(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for pattern in ["meeting:*", "meeting_session:*", "speaker_events:*", "active_meetings"] {
            let keys: Vec<String> = self.query(cmd("KEYS").arg(pattern)).await?;
            found.extend(keys);
        }
        Ok(found)
    }
}

//! A stream of Redis, read as one consumer of a group.
//!
//! Two connections: a read makes the server hold back its answer, and everything sent behind it on
//! the same connection would wait as well. Needs Redis 7.

use std::sync::{Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use redis::Value;
use redis::aio::MultiplexedConnection;
use roundsman_core::ports::{IngestStream, StreamEntry, StreamError, StreamState};
use tokio::sync::Mutex;

use super::options::IngestStreamOptions;
use super::reply::{self, Given};
use crate::backoff::Backoff;
use crate::link::{LinkError, RedisLink};

const TRIM: &str = include_str!("trim.lua");

/// Before every entry, and where a claim is through.
const FIRST_ID: &str = "0-0";
/// Entries that are read, claimed or acknowledged at once.
const ENTRIES_PER_COMMAND_MAX: usize = 1000;
/// A claim looks at some entries, which may all be in good hands, and at more of them this often.
const CLAIM_ROUNDS_MAX: u32 = 16;
/// The lag is counted this far if the server does not know it.
const LAG_COUNT_MAX: u32 = 10_000;

/// One consumer of a stream. One read at a time; further ones wait for their turn.
pub struct RedisIngestStream {
    link: RedisLink,
    options: IngestStreamOptions,
    reader: Mutex<Reader>,
    /// Where the next claim begins.
    cursor: StdMutex<String>,
}

/// What only reading needs.
struct Reader {
    connection: Option<MultiplexedConnection>,
    backoff: Backoff,
    /// The last read failed: the next one waits before it tries.
    failing: bool,
    /// The last entry that was handed out.
    last_id: String,
    /// A read was sent and its answer never seen. What was in it is this consumer's by now and
    /// nobody else's for a long time, so it is asked for before anything new.
    answer_lost: bool,
}

impl RedisIngestStream {
    /// Connects when it is first read.
    pub fn new(link: RedisLink, options: IngestStreamOptions) -> Self {
        let reader = Reader {
            connection: None,
            backoff: link.backoff(),
            failing: false,
            last_id: FIRST_ID.to_owned(),
            answer_lost: false,
        };
        let cursor = StdMutex::new(FIRST_ID.to_owned());
        Self { link, options, reader: Mutex::new(reader), cursor }
    }

    /// Connects if need be and reads; makes the group if it is not there.
    async fn read_with(
        &self,
        reader: &mut Reader,
        entries_max: usize,
    ) -> Result<Vec<StreamEntry>, LinkError> {
        if reader.connection.is_none() {
            reader.connection = Some(self.link.connect().await?);
        }
        match self.read_once(reader, entries_max).await {
            Err(error) if is_group_gone(&error) => {
                self.create_group().await?;
                // Whatever was given out before went with the group.
                reader.answer_lost = false;
                FIRST_ID.clone_into(&mut reader.last_id);
                self.read_once(reader, entries_max).await
            }
            other => other,
        }
    }

    async fn read_once(
        &self,
        reader: &mut Reader,
        entries_max: usize,
    ) -> Result<Vec<StreamEntry>, LinkError> {
        while reader.answer_lost {
            let given = self.read_from(reader, entries_max, None).await?;
            let Some(last) = given.last() else {
                reader.answer_lost = false;
                break;
            };
            last.id.clone_into(&mut reader.last_id);
            let entries = self.count_deliveries(given).await?;
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        // Stays so if the answer does not come, or if nobody waits for it any longer.
        reader.answer_lost = true;
        let given = match self.read_from(reader, entries_max, Some(self.options.block_ms)).await {
            // An error gives nothing out.
            Err(error) if error.is_answer() => {
                reader.answer_lost = false;
                return Err(error);
            }
            other => other?,
        };
        reader.answer_lost = false;
        if let Some(last) = given.last() {
            last.id.clone_into(&mut reader.last_id);
        }
        Ok(given.into_iter().filter_map(|given| given.into_entry(1)).collect())
    }

    /// Waits for new entries, or asks for this consumer's own after the last one it handed out.
    async fn read_from(
        &self,
        reader: &mut Reader,
        entries_max: usize,
        block_ms: Option<u64>,
    ) -> Result<Vec<Given>, LinkError> {
        let IngestStreamOptions { stream, group, consumer, .. } = &self.options;
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(group).arg(consumer).arg("COUNT").arg(entries_max);
        let from = match block_ms {
            // Zero would mean for ever.
            Some(ms) => {
                read.arg("BLOCK").arg(ms.max(1));
                ">"
            }
            None => &reader.last_id,
        };
        read.arg("STREAMS").arg(stream).arg(from);
        let connection = reader.connection.as_mut().ok_or(LinkError::NotConnected)?;
        // Even what need not wait may stand behind a read that somebody gave up on.
        let answer = read.query_async(connection);
        let reply = self.link.bounded(self.options.block_ms, answer).await?;
        reply::read(reply).ok_or(LinkError::Unreadable("XREADGROUP"))
    }

    async fn create_group(&self) -> Result<(), LinkError> {
        let IngestStreamOptions { stream, group, .. } = &self.options;
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(stream).arg(group).arg(0).arg("MKSTREAM");
        match self.link.query::<()>(&create).await {
            Err(error) if error.has_code("BUSYGROUP") => Ok(()),
            Ok(()) => {
                tracing::info!(stream, group, "consumer group created");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// One look for entries that are in nobody's good hands.
    async fn claim_once(
        &self,
        idle_ms_min: u64,
        entries_max: usize,
    ) -> Result<(String, Vec<Given>), LinkError> {
        let IngestStreamOptions { stream, group, consumer, .. } = &self.options;
        let cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The server counts in signed numbers.
        let idle_ms_min = i64::try_from(idle_ms_min).unwrap_or(i64::MAX);
        let mut claim = redis::cmd("XAUTOCLAIM");
        claim.arg(stream).arg(group).arg(consumer).arg(idle_ms_min).arg(cursor);
        claim.arg("COUNT").arg(entries_max.min(ENTRIES_PER_COMMAND_MAX));
        let (next, given) = match self.link.query::<Value>(&claim).await {
            Ok(reply) => reply::claim(reply).ok_or(LinkError::Unreadable("XAUTOCLAIM"))?,
            Err(error) if is_group_gone(&error) => {
                self.create_group().await?;
                (FIRST_ID.to_owned(), Vec::new())
            }
            Err(error) => return Err(error),
        };
        next.clone_into(&mut self.cursor.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((next, given))
    }

    /// Asks how often each entry was given out. Those that were deleted are acknowledged: there is
    /// nothing left to do for them, and they would hold back trimming for ever.
    async fn count_deliveries(&self, given: Vec<Given>) -> Result<Vec<StreamEntry>, LinkError> {
        let IngestStreamOptions { stream, group, .. } = &self.options;
        let (given, deleted): (Vec<_>, Vec<_>) =
            given.into_iter().partition(|entry| entry.fields.is_some());
        self.acknowledge_all(deleted.iter().map(|entry| &*entry.id).collect()).await?;
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let mut pending = redis::pipe();
        for entry in &given {
            let one = pending.cmd("XPENDING").arg(stream).arg(group);
            one.arg(&entry.id).arg(&entry.id).arg(1);
        }
        let counts: Vec<Value> = self.link.query_all(&pending).await?;
        let counts = counts.into_iter().map(|reply| reply::deliveries(reply).unwrap_or(1));
        let entries = given.into_iter().zip(counts);
        Ok(entries.filter_map(|(entry, count)| entry.into_entry(count)).collect())
    }

    async fn acknowledge_all(&self, ids: Vec<&str>) -> Result<(), LinkError> {
        for ids in ids.chunks(ENTRIES_PER_COMMAND_MAX) {
            let mut acknowledge = redis::cmd("XACK");
            acknowledge.arg(&self.options.stream).arg(&self.options.group).arg(ids);
            // The answer leaves out what was acknowledged before.
            let _acknowledged: u64 = self.link.query(&acknowledge).await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for RedisIngestStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisIngestStream").field("options", &self.options).finish_non_exhaustive()
    }
}

#[async_trait]
impl IngestStream for RedisIngestStream {
    fn name(&self) -> &str {
        &self.options.stream
    }

    async fn read(&self, entries_max: usize) -> Result<Vec<StreamEntry>, StreamError> {
        if entries_max == 0 {
            return Ok(Vec::new());
        }
        let mut reader = self.reader.lock().await;
        // Whoever reads in a loop must not besiege a server that is away or refuses.
        if reader.failing && reader.backoff.pause(self.link.shutdown()).await.is_break() {
            return Err(StreamError("shut down".to_owned()));
        }
        match self.read_with(&mut reader, entries_max.min(ENTRIES_PER_COMMAND_MAX)).await {
            Ok(entries) => {
                reader.failing = false;
                reader.backoff.reset();
                Ok(entries)
            }
            Err(error) => {
                reader.failing = true;
                if !error.is_answer() || error.has_code("READONLY") {
                    reader.connection = None;
                }
                Err(error.into())
            }
        }
    }

    async fn claim(
        &self,
        idle_ms_min: u64,
        entries_max: usize,
    ) -> Result<Vec<StreamEntry>, StreamError> {
        if entries_max == 0 {
            return Ok(Vec::new());
        }
        for _ in 0..CLAIM_ROUNDS_MAX {
            let (next, given) = self.claim_once(idle_ms_min, entries_max).await?;
            let entries = self.count_deliveries(given).await?;
            if !entries.is_empty() || next == FIRST_ID {
                return Ok(entries);
            }
        }
        Ok(Vec::new())
    }

    async fn acknowledge(&self, ids: &[String]) -> Result<(), StreamError> {
        Ok(self.acknowledge_all(ids.iter().map(String::as_str).collect()).await?)
    }

    async fn trim(
        &self,
        older_than_ms: u64,
        consumers_idle_ms: u64,
    ) -> Result<StreamState, StreamError> {
        let IngestStreamOptions { stream, group, consumer, .. } = &self.options;
        let mut trim = redis::cmd("EVAL");
        trim.arg(TRIM).arg(1).arg(stream).arg(group).arg(consumer);
        trim.arg(older_than_ms).arg(consumers_idle_ms).arg(LAG_COUNT_MAX);
        let (entries, pending, lag, trimmed, removed): (u64, u64, u64, u64, u64) =
            self.link.query(&trim).await?;
        if trimmed > 0 || removed > 0 {
            tracing::debug!(stream, trimmed, consumers_removed = removed, "stream trimmed");
        }
        Ok(StreamState { entries, pending, lag, trimmed })
    }
}

impl From<LinkError> for StreamError {
    fn from(error: LinkError) -> Self {
        StreamError(error.to_string())
    }
}

/// The stream or its group was removed, before the command or while it waited.
fn is_group_gone(error: &LinkError) -> bool {
    error.has_code("NOGROUP") || error.has_code("UNBLOCKED")
}

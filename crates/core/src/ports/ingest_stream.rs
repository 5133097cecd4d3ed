//! Streams of messages that producers write and that are read by one of several consumers each.

use async_trait::async_trait;

/// One stream, read as one consumer of a group.
///
/// Invariants: an entry stays with the group until it is acknowledged, whoever dies; nothing is
/// trimmed that some group has not acknowledged.
#[async_trait]
pub trait IngestStream: Send + Sync {
    /// The stream's name.
    fn name(&self) -> &str;

    /// Entries nobody has been given yet; waits a bounded time for the first. Makes the stream and
    /// its group if they are not there.
    async fn read(&self, entries_max: usize) -> Result<Vec<StreamEntry>, StreamError>;

    /// Entries that were given to this consumer or another and not acknowledged for
    /// `idle_ms_min`. From now on they are this consumer's.
    async fn claim(
        &self,
        idle_ms_min: u64,
        entries_max: usize,
    ) -> Result<Vec<StreamEntry>, StreamError>;

    async fn acknowledge(&self, ids: &[String]) -> Result<(), StreamError>;

    /// Removes entries older than `older_than_ms` that every group has acknowledged, and consumers
    /// of this group that have been idle for `consumers_idle_ms` with nothing left to acknowledge.
    async fn trim(
        &self,
        older_than_ms: u64,
        consumers_idle_ms: u64,
    ) -> Result<StreamState, StreamError>;
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEntry {
    /// `{milliseconds}-{number}`.
    pub id: String,
    /// Pairs as they were written; bytes that are no text are replaced.
    pub fields: Vec<(String, String)>,
    /// How often it was given out, this time included.
    pub deliveries: u32,
}

impl StreamEntry {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Orders entries like the clock orders what is told in other ways: microseconds.
    pub fn version(&self) -> i64 {
        let (ms, number) = self.id.split_once('-').unwrap_or((&self.id, "0"));
        let ms: i64 = ms.parse().unwrap_or(0);
        let number: i64 = number.parse().unwrap_or(0);
        ms.saturating_mul(1000).saturating_add(number.min(999))
    }
}

/// How a stream stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamState {
    pub entries: u64,
    /// Given out and not acknowledged.
    pub pending: u64,
    /// Not yet given out.
    pub lag: u64,
    pub trimmed: u64,
}

/// The stream cannot be reached; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("the stream is unavailable: {0}")]
pub struct StreamError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_ordered_in_time() {
        let entry = |id: &str| {
            StreamEntry { id: id.to_owned(), fields: Vec::new(), deliveries: 1 }.version()
        };
        assert_eq!(entry("1700000000000-5"), 1_700_000_000_000_005);
        assert!(entry("1700000000000-12345") < entry("1700000000001-0"));
    }
}

//! The cache of live segments in Redis: exactly the keys that consumers of the protocol know.
//!
//! | key | what | lives |
//! |---|---|---|
//! | `meeting:{id}:segments` | hash: field of a segment to its value | since it was last written |
//! | `active_meetings` | set of the meetings that have such a hash | as long as it has members |
//! | `meeting_session:{uid}:start` | an instant | since it was written |
//! | `speaker_events:{uid}` | sorted set of events by their time | since it was last written |
//!
//! Invariants: a hash never outlives its time, since it gets one in the transaction that writes it;
//! a meeting is in the index while it has a hash (one that expired is found by a repair). A key that
//! somebody made into something else is deleted and written anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use redis::{FromRedisValue, Pipeline};
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{CacheError, TranscriptCache};
use roundsman_core::transcripts::{
    Line, SPEAKER_EVENTS_PER_SESSION_MAX, SegmentKey, SpeakerEvent, cache_value, instant,
};

use super::options::TranscriptCacheOptions;
use crate::link::{LinkError, RedisLink};

const MEND: &str = include_str!("mend.lua");
const REMOVE: &str = include_str!("remove.lua");
const REPAIR: &str = include_str!("repair.lua");

const ACTIVE: &str = "active_meetings";
/// Segments, sessions or events per request: keeps each well within the time limit, and the server
/// free for others in between.
const ITEMS_PER_REQUEST_MAX: usize = 500;

/// The cache in one Redis server.
#[derive(Debug)]
pub struct RedisTranscriptCache {
    link: RedisLink,
    options: TranscriptCacheOptions,
    foreign_keys: AtomicU64,
}

/// A key and the type that it should have.
type TypedKey<'a> = (&'a str, &'static str);

/// The bytes of a hash.
type Fields = HashMap<Vec<u8>, Vec<u8>>;

/// A value that is not what it should be.
struct Correction {
    field: Vec<u8>,
    seen: Option<Vec<u8>>,
    wanted: Option<String>,
}

impl RedisTranscriptCache {
    pub fn new(link: RedisLink, options: TranscriptCacheOptions) -> Self {
        Self { link, options, foreign_keys: AtomicU64::new(0) }
    }

    /// How many keys were deleted because they were something else than they should be.
    pub fn foreign_keys(&self) -> u64 {
        self.foreign_keys.load(Ordering::Relaxed)
    }

    /// Sends what may be sent twice. If a key turns out to be of another type, it is deleted first:
    /// it is nothing that anybody could read as what it is named.
    async fn send<T: FromRedisValue>(
        &self,
        request: &Pipeline,
        keys: &[TypedKey<'_>],
    ) -> Result<T, LinkError> {
        match self.link.query_all(request).await {
            Err(error) if error.has_code("WRONGTYPE") => {
                self.mend(keys).await?;
                self.link.query_all(request).await
            }
            other => other,
        }
    }

    async fn mend(&self, keys: &[TypedKey<'_>]) -> Result<(), LinkError> {
        let mut mend = redis::cmd("EVAL");
        mend.arg(MEND).arg(keys.len());
        for (key, _) in keys {
            mend.arg(key);
        }
        for (_, kind) in keys {
            mend.arg(kind);
        }
        let deleted: u64 = self.link.query(&mend).await?;
        self.foreign_keys.fetch_add(deleted, Ordering::Relaxed);
        let names: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
        tracing::warn!(deleted, among = ?names, "keys of the wrong type were deleted");
        Ok(())
    }

    /// What is in the cache and differs from `lines`, and the other way round.
    async fn corrections(
        &self,
        segments: &str,
        lines: &[Line],
    ) -> Result<Vec<Correction>, LinkError> {
        let mut read = redis::pipe();
        read.cmd("HGETALL").arg(segments);
        let (mut seen,): (Fields,) = self.send(&read, &[(segments, "hash")]).await?;
        let mut corrections = Vec::new();
        for (field, line) in self.by_field(lines) {
            let (field, wanted) = (field.into_bytes(), cache_value(line));
            let seen = seen.remove(&field);
            if seen.as_deref() != Some(wanted.as_bytes()) {
                corrections.push(Correction { field, seen, wanted: Some(wanted) });
            }
        }
        let foreign = seen.into_iter();
        corrections.extend(foreign.map(|(field, value)| Correction {
            field,
            seen: Some(value),
            wanted: None,
        }));
        Ok(corrections)
    }

    /// Where sessions share fields, the segment that changed last has it, as if each had been
    /// written when it changed.
    fn by_field<'a>(&self, lines: &'a [Line]) -> BTreeMap<String, &'a Line> {
        let mut by_field: BTreeMap<String, &Line> = BTreeMap::new();
        for line in lines {
            let field = line.segment.key.cache_field(self.options.field_style);
            let last = by_field.entry(field).or_insert(line);
            if line.segment.updated_at > last.segment.updated_at {
                *last = line;
            }
        }
        by_field
    }

    fn speaker_events(&self, session: &str) -> String {
        format!("{}:{session}", self.options.speaker_event_prefix)
    }
}

#[async_trait]
impl TranscriptCache for RedisTranscriptCache {
    async fn put_lines(&self, meeting: MeetingId, lines: &[Line]) -> Result<(), CacheError> {
        let segments = segments(meeting);
        for lines in lines.chunks(ITEMS_PER_REQUEST_MAX) {
            let mut put = redis::pipe();
            put.atomic().cmd("HSET").arg(&segments);
            for line in lines {
                let field = line.segment.key.cache_field(self.options.field_style);
                put.arg(field).arg(cache_value(line));
            }
            put.cmd("EXPIRE").arg(&segments).arg(lifetime(self.options.segment_ttl_secs));
            put.cmd("SADD").arg(ACTIVE).arg(meeting.get());
            self.send::<()>(&put, &[(&segments, "hash"), (ACTIVE, "set")]).await?;
        }
        Ok(())
    }

    async fn remove(&self, meeting: MeetingId, gone: &[SegmentKey]) -> Result<(), CacheError> {
        let segments = segments(meeting);
        for gone in gone.chunks(ITEMS_PER_REQUEST_MAX) {
            let mut remove = redis::pipe();
            remove.cmd("EVAL").arg(REMOVE).arg(2).arg(&segments).arg(ACTIVE).arg(meeting.get());
            for key in gone {
                remove.arg(key.cache_field(self.options.field_style));
            }
            self.send::<()>(&remove, &[(&segments, "hash"), (ACTIVE, "set")]).await?;
        }
        Ok(())
    }

    /// Corrects what differs from `lines` when it is looked at; what is written to the cache
    /// after that look stays.
    async fn repair(&self, meeting: MeetingId, lines: &[Line]) -> Result<u64, CacheError> {
        let segments = segments(meeting);
        let corrections = self.corrections(&segments, lines).await?;
        let mut requests: Vec<&[Correction]> = corrections.chunks(ITEMS_PER_REQUEST_MAX).collect();
        if requests.is_empty() {
            // The index and the lifetime may still be wrong.
            requests.push(&[]);
        }
        let mut corrected = 0;
        for corrections in requests {
            let mut repair = redis::pipe();
            repair.cmd("EVAL").arg(REPAIR).arg(2).arg(&segments).arg(ACTIVE).arg(meeting.get());
            repair.arg(lifetime(self.options.segment_ttl_secs));
            for Correction { field, seen, wanted } in corrections {
                let wanted = wanted.as_ref().map(String::as_bytes);
                repair.arg(&**field).arg(marked(seen.as_deref())).arg(marked(wanted));
            }
            let keys = [(&*segments, "hash"), (ACTIVE, "set")];
            let (count,): (u64,) = self.send(&repair, &keys).await?;
            corrected += count;
        }
        Ok(corrected)
    }

    async fn forget(&self, meeting: MeetingId, sessions: &[String]) -> Result<(), CacheError> {
        let mut forget = redis::pipe();
        forget.atomic().cmd("DEL").arg(segments(meeting));
        forget.cmd("SREM").arg(ACTIVE).arg(meeting.get());
        self.send::<()>(&forget, &[(ACTIVE, "set")]).await?;
        for sessions in sessions.chunks(ITEMS_PER_REQUEST_MAX) {
            let mut forget = redis::pipe();
            forget.cmd("DEL");
            for session in sessions {
                forget.arg(session_start(session)).arg(self.speaker_events(session));
            }
            self.send::<()>(&forget, &[]).await?;
        }
        Ok(())
    }

    /// Any of them if there are more, so that every one has its turn.
    async fn active(&self, rows_max: u32) -> Result<Vec<MeetingId>, CacheError> {
        let mut read = redis::pipe();
        read.cmd("SRANDMEMBER").arg(ACTIVE).arg(rows_max);
        let (members,): (Vec<Vec<u8>>,) = self.send(&read, &[(ACTIVE, "set")]).await?;
        let mut remove = redis::pipe();
        remove.cmd("SREM").arg(ACTIVE);
        let (mut meetings, mut foreign) = (Vec::new(), false);
        for member in members {
            if let Some(meeting) = meeting_of(&member) {
                meetings.push(meeting);
            } else {
                foreign = true;
                remove.arg(member);
            }
        }
        if foreign {
            // Nobody would ever remove what is no meeting.
            self.send::<()>(&remove, &[(ACTIVE, "set")]).await?;
        }
        Ok(meetings)
    }

    async fn starts(&self, sessions: &[String]) -> Result<Vec<Option<Timestamp>>, CacheError> {
        let mut starts = Vec::with_capacity(sessions.len());
        for sessions in sessions.chunks(ITEMS_PER_REQUEST_MAX) {
            let mut read = redis::pipe();
            read.cmd("MGET");
            for session in sessions {
                read.arg(session_start(session));
            }
            // A key of another type is nothing to this command.
            let (values,): (Vec<Option<Vec<u8>>>,) = self.send(&read, &[]).await?;
            starts.extend(values.into_iter().map(|value| value.and_then(|text| instant_of(&text))));
        }
        Ok(starts)
    }

    async fn put_start(&self, session: &str, start: Timestamp) -> Result<(), CacheError> {
        let mut put = redis::pipe();
        put.cmd("SET").arg(session_start(session)).arg(instant(start));
        put.arg("EX").arg(lifetime(self.options.session_start_ttl_secs));
        Ok(self.send(&put, &[]).await?)
    }

    async fn end_session(&self, session: &str) -> Result<(), CacheError> {
        let mut end = redis::pipe();
        end.cmd("DEL").arg(session_start(session)).arg(self.speaker_events(session));
        Ok(self.send(&end, &[]).await?)
    }

    async fn put_speaker_events(&self, events: &[SpeakerEvent]) -> Result<(), CacheError> {
        let ttl_secs = lifetime(self.options.speaker_event_ttl_secs);
        for events in events.chunks(ITEMS_PER_REQUEST_MAX) {
            let mut by_key: BTreeMap<String, Vec<&SpeakerEvent>> = BTreeMap::new();
            for event in events {
                by_key.entry(self.speaker_events(&event.session_uid)).or_default().push(event);
            }
            let mut put = redis::pipe();
            put.atomic();
            for (key, events) in &by_key {
                put.cmd("ZADD").arg(key);
                for event in events {
                    put.arg(event.at_ms).arg(event.to_json());
                }
                // The latest stay, as many as are kept elsewhere.
                let last = -i64::from(SPEAKER_EVENTS_PER_SESSION_MAX) - 1;
                put.cmd("ZREMRANGEBYRANK").arg(key).arg(0).arg(last);
                put.cmd("EXPIRE").arg(key).arg(ttl_secs);
            }
            let keys: Vec<TypedKey<'_>> = by_key.keys().map(|key| (&**key, "zset")).collect();
            self.send::<()>(&put, &keys).await?;
        }
        Ok(())
    }
}

impl From<LinkError> for CacheError {
    fn from(error: LinkError) -> Self {
        CacheError(error.to_string())
    }
}

fn segments(meeting: MeetingId) -> String {
    format!("meeting:{meeting}:segments")
}

fn session_start(session: &str) -> String {
    format!("meeting_session:{session}:start")
}

/// A lifetime of nothing would delete what is written.
fn lifetime(ttl_secs: u64) -> u64 {
    ttl_secs.max(1)
}

fn meeting_of(member: &[u8]) -> Option<MeetingId> {
    let text = std::str::from_utf8(member).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then(|| MeetingId::new(number))
}

/// Others write it without an offset too, and mean UTC.
fn instant_of(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let read = |text: &str| Timestamp::parse_rfc3339(text).ok();
    read(text).or_else(|| read(&format!("{text}Z")))
}

/// Tells an empty value from none.
fn marked(value: Option<&[u8]>) -> Vec<u8> {
    value.map_or_else(Vec::new, |value| [b"+", value].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_others_write_them() {
        let expected = Timestamp::parse_rfc3339("2026-01-02T03:04:05.5Z").ok();
        let texts = [
            "2026-01-02T03:04:05.5Z",
            "2026-01-02T03:04:05.500000+00:00",
            "2026-01-02T03:04:05.500000",
            "2026-01-02T04:04:05.500+01:00",
            "2026-01-02 03:04:05.5",
            " 2026-01-02T03:04:05.5Z\n",
        ];
        for text in texts {
            assert_eq!(instant_of(text.as_bytes()), expected, "{text}");
        }
        for text in [&b"soon"[..], b"", b"\xff", b"1767322800"] {
            assert_eq!(instant_of(text), None);
        }
    }

    #[test]
    fn only_numbers_are_meetings() {
        assert_eq!(meeting_of(b"42"), Some(MeetingId::new(42)));
        for member in [&b"042"[..], b"+42", b"", b"x", b"\xff", b"99999999999999999999"] {
            assert_eq!(meeting_of(member), None);
        }
    }
}

//! The sections about transcripts: when they are final, what is shared through Redis, who listens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::transcripts::{FieldStyle, FilterConfig, TranscriptionFilter};

use super::reader::Reader;
use super::sections::{hours, ms, secs};

#[derive(Debug, Clone)]
pub(crate) struct Transcripts {
    pub(crate) persist: Duration,
    pub(crate) stable_after: Duration,
    pub(crate) cache_ttl: Duration,
    pub(crate) cache_fields: FieldStyle,
    pub(crate) session_start_ttl: Duration,
    pub(crate) speaker_event_ttl: Duration,
    pub(crate) speaker_event_prefix: String,
    pub(crate) stream: String,
    pub(crate) stream_group: String,
    pub(crate) speaker_stream: String,
    pub(crate) speaker_stream_group: String,
    pub(crate) stream_read_max: usize,
    pub(crate) stream_block: Duration,
    pub(crate) stream_claim: Duration,
    pub(crate) stream_deliveries_max: u32,
    pub(crate) stream_retention: Duration,
    pub(crate) dead_letters: Duration,
    pub(crate) filter: Arc<TranscriptionFilter>,
}

#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) connections_per_key_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) subscriptions_max: usize,
    pub(crate) message_bytes_max: usize,
    pub(crate) commands_per_sec_max: u32,
    pub(crate) ping: Duration,
    pub(crate) send_max: Duration,
    pub(crate) recheck: Duration,
}

impl Transcripts {
    pub(super) fn read(reader: &mut Reader<'_>) -> Transcripts {
        let day = hours(24);
        let styles =
            [("session_and_start", FieldStyle::SessionAndStart), ("start", FieldStyle::Start)];
        Transcripts {
            persist: reader.duration("transcripts.persist_secs", ms(100)..=hours(1)),
            stable_after: reader.duration("transcripts.stable_after_secs", ms(0)..=day),
            cache_ttl: reader.duration("transcripts.cache_ttl_secs", secs(1)..=day * 30),
            cache_fields: reader.choice("transcripts.cache_fields", &styles),
            session_start_ttl: reader
                .duration("transcripts.session_start_ttl_secs", secs(1)..=day * 30),
            speaker_event_ttl: reader
                .duration("transcripts.speaker_event_ttl_secs", secs(1)..=day * 30),
            speaker_event_prefix: reader.text(
                "transcripts.speaker_event_prefix",
                String::new(),
                redis_name,
            ),
            stream: reader.text("transcripts.stream", String::new(), redis_name),
            stream_group: reader.text("transcripts.stream_group", String::new(), redis_name),
            speaker_stream: reader.text("transcripts.speaker_stream", String::new(), redis_name),
            speaker_stream_group: reader.text(
                "transcripts.speaker_stream_group",
                String::new(),
                redis_name,
            ),
            stream_read_max: reader.number("transcripts.stream_read_max", 1..=10_000),
            stream_block: reader.duration("transcripts.stream_block_ms", ms(10)..=secs(60)),
            stream_claim: reader.duration("transcripts.stream_claim_ms", ms(100)..=hours(1)),
            stream_deliveries_max: reader.number("transcripts.stream_deliveries_max", 1..=1000),
            stream_retention: reader
                .duration("transcripts.stream_retention_secs", secs(0)..=day * 30),
            dead_letters: reader
                .duration("transcripts.dead_letter_hours", hours(1)..=hours(87_600)),
            filter: filter(reader),
        }
    }
}

impl Live {
    pub(super) fn read(reader: &mut Reader<'_>) -> Live {
        Live {
            connections_per_key_max: reader.number("live.connections_per_key_max", 1..=1_000_000),
            connections_max: reader.number("live.connections_max", 1..=1_000_000),
            subscriptions_max: reader.number("live.subscriptions_max", 1..=10_000),
            message_bytes_max: reader.number("live.message_bytes_max", 1024..=1 << 20),
            commands_per_sec_max: reader.number("live.commands_per_sec_max", 1..=10_000),
            ping: reader.duration("live.ping_secs", ms(100)..=hours(1)),
            send_max: reader.duration("live.send_secs_max", ms(100)..=hours(1)),
            recheck: reader.duration("live.recheck_secs", ms(100)..=hours(1)),
        }
    }
}

fn filter(reader: &mut Reader<'_>) -> Arc<TranscriptionFilter> {
    let patterns = reader.texts("transcript_filter.noise_patterns", |pattern| {
        let only =
            FilterConfig { noise_patterns: vec![pattern.to_owned()], ..FilterConfig::default() };
        match TranscriptionFilter::new(only) {
            Ok(_) => Ok(pattern.to_owned()),
            Err(error) => Err(format!("{error}; write a regular expression")),
        }
    });
    let stop_words = reader.texts("transcript_filter.stop_words", stop_words);
    let config = FilterConfig {
        min_chars: reader.number("transcript_filter.chars_min", 0..=1000),
        noise_patterns: patterns,
        min_real_words: reader.number("transcript_filter.real_words_min", 0..=100),
        stop_words: stop_words.into_iter().collect::<BTreeMap<_, _>>(),
        drop_contained: reader.flag("transcript_filter.drop_contained"),
        repeated_chars_max: reader.number("transcript_filter.repeated_chars_max", 0..=10_000),
    };
    let filter = TranscriptionFilter::new(config).expect("every pattern was tried by itself");
    Arc::new(filter)
}

/// `en: the and for`.
fn stop_words(line: &str) -> Result<(String, BTreeSet<String>), String> {
    let parts = line.split_once(':').map(|(language, words)| (language.trim(), words));
    match parts {
        Some((language, words)) if !language.is_empty() => {
            let words = words.split_whitespace().map(ToOwned::to_owned).collect();
            Ok((language.to_owned(), words))
        }
        _ => Err("write a language, a colon and words, such as `en: the and for`".to_owned()),
    }
}

fn redis_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 200 || text.chars().any(char::is_whitespace) {
        return Err("name a key of Redis, without blanks".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_a_language_and_its_words() {
        let (language, words) = stop_words("de: und oder").unwrap();
        assert_eq!((language.as_str(), words.len()), ("de", 2));
        assert!(stop_words("und oder").is_err());
        assert!(stop_words(": und").is_err());
    }
}

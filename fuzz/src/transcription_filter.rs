//! What must hold for whatever the filter judges. The first line of an input are settings, the
//! others are segments: `start length language text`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::transcripts::{
    DropReason, FilterConfig, FilterSegment, KeptSpan, Segment, SegmentContent, SegmentKey,
    SpeakerStatus, TranscriptionFilter, Verdict, field_of, settle,
};

/// More of them would only make a run slower.
const SEGMENTS_MAX: usize = 32;

struct Said<'a> {
    start_ms: i64,
    end_ms: i64,
    language: Option<&'a str>,
    text: &'a str,
}

/// Panics if something does not hold.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let config = config(lines.next().unwrap_or_default());
    let Ok(filter) = TranscriptionFilter::new(config) else { return };
    let said: Vec<Said<'_>> = lines.take(SEGMENTS_MAX).filter_map(said).collect();
    check_verdicts(&filter, &said);
    check_settled(&filter, &said);
}

/// `chars words repeated contained pattern`, each of which may be missing.
fn config(line: &str) -> FilterConfig {
    let mut parts = line.splitn(5, ' ');
    let mut number = || parts.next().and_then(|part| part.parse::<u8>().ok()).map(usize::from);
    let default = FilterConfig::default();
    let config = FilterConfig {
        min_chars: number().unwrap_or(default.min_chars),
        min_real_words: number().unwrap_or(default.min_real_words),
        repeated_chars_max: number().unwrap_or(default.repeated_chars_max),
        drop_contained: number() != Some(0),
        ..default
    };
    let noise_patterns = parts.next().map(|pattern| vec![pattern.to_owned()]);
    FilterConfig { noise_patterns: noise_patterns.unwrap_or_default(), ..config }
}

fn said(line: &str) -> Option<Said<'_>> {
    let mut parts = line.splitn(4, ' ');
    let start_ms: i64 = parts.next()?.parse().ok()?;
    let length_ms = i64::from(parts.next()?.parse::<u32>().ok()?);
    let language = parts.next().filter(|language| !language.is_empty());
    let text = parts.next().unwrap_or_default();
    Some(Said { start_ms, end_ms: start_ms.saturating_add(length_ms), language, text })
}

impl Said<'_> {
    fn looked_at(&self) -> FilterSegment<'_> {
        let Said { start_ms, end_ms, language, text } = *self;
        FilterSegment { text, language, start_ms, end_ms }
    }

    fn span(&self) -> KeptSpan<'_> {
        let text = Cow::Borrowed(self.text);
        KeptSpan { text, start_ms: self.start_ms, end_ms: self.end_ms }
    }
}

fn check_verdicts(filter: &TranscriptionFilter, all: &[Said<'_>]) {
    let mut spans: Vec<KeptSpan<'_>> = Vec::new();
    for said in all {
        let verdict = filter.judge(&said.looked_at(), &spans);
        assert_eq!(filter.judge(&said.looked_at(), &spans), verdict, "nothing is remembered");
        match verdict {
            Verdict::Keep { evicts } => {
                assert!(evicts.is_sorted_by(|a, b| a < b));
                for index in evicts.into_iter().rev() {
                    let evicted = spans.remove(index);
                    let within = said.start_ms <= evicted.start_ms && evicted.end_ms <= said.end_ms;
                    assert!(within, "it stands for what it does not cover");
                }
                spans.push(said.span());
                let again = filter.judge(&said.looked_at(), &spans);
                assert_eq!(again, Verdict::Drop(DropReason::Duplicate));
            }
            Verdict::Drop(DropReason::Duplicate | DropReason::Contained) => {
                let covers = |span: &KeptSpan<'_>| {
                    span.start_ms <= said.start_ms && said.end_ms <= span.end_ms
                };
                assert!(spans.iter().any(covers), "dropped for what does not cover it");
            }
            Verdict::Drop(_) => {
                // By its own text, whatever stands beside it.
                let alone = filter.judge(&said.looked_at(), &[]);
                assert!(matches!(alone, Verdict::Drop(_)));
            }
        }
    }
}

/// Every segment is either kept or dropped, in the order of time; what was kept is not kept twice.
fn check_settled(filter: &TranscriptionFilter, all: &[Said<'_>]) {
    let mut keys = BTreeSet::new();
    let stable: Vec<Segment> =
        all.iter().map(segment).filter(|segment| keys.insert(segment.key.clone())).collect();
    let settled = settle(stable.clone(), &[], &BTreeMap::new(), filter);
    assert_eq!(settled.keep.len() + settled.drop.len(), stable.len());
    let after: BTreeSet<&SegmentKey> = settled
        .keep
        .iter()
        .chain(settled.drop.iter().map(|(segment, _)| segment))
        .map(key)
        .collect();
    assert_eq!(after, keys.iter().collect());
    assert!(settled.keep.is_sorted_by_key(|segment| segment.start_ms));
    assert!(settled.remapped.is_empty(), "nobody has told of speakers");
    let again = settle(settled.keep.clone(), &settled.keep, &BTreeMap::new(), filter);
    assert!(again.keep.is_empty(), "what is final comes again");
}

fn key(segment: &Segment) -> &SegmentKey {
    &segment.key
}

fn segment(said: &Said<'_>) -> Segment {
    // The starts of stored segments are within their session.
    let start_ms = said.start_ms.max(0);
    Segment {
        key: SegmentKey { session_uid: Some("u".to_owned()), field: field_of(start_ms) },
        segment_id: None,
        start_ms,
        content: SegmentContent {
            text: said.text.to_owned(),
            speaker: None,
            language: said.language.map(ToOwned::to_owned),
            end_ms: said.end_ms.max(start_ms),
        },
        speaker_status: SpeakerStatus::NoSpeakerEvents,
        completed: None,
        version: 1,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
        seq: 0,
    }
}

//! What of a transcript is worth keeping: noise, and what was said already, is not.
//!
//! Invariants: rules are tried in the order of [`DropReason`], and the first that applies is the
//! reason; nothing is remembered here, so that the same question has the same answer after a
//! restart. REST never drops different text; only this filter may, and only if it is set to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

/// A pattern is compiled to at most this: no setting takes the memory of the server.
const PATTERN_COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// Segments up to this long are not judged by segments with different text around them.
const INSTANT_MS_MAX: i64 = 100;

/// Words shorter than this are none that tell something.
const REAL_WORD_CHARS_MIN: usize = 3;

/// What is noise. The texts of transcribers that heard nothing, and of people who try their
/// microphones.
const NOISE_PATTERNS: [&str; 15] = [
    r"^\[BLANK_AUDIO\]$",
    r"^<no audio>$",
    r"^<inaudible>$",
    r"^<>$",
    r"^<3$",
    r"^<3\s*$",
    r"^\s*<3\s*$",
    r"^\s*$",
    r"^>+$",
    r"^<+$",
    r"^>>$",
    r"^<<$",
    r"^testing$",
    r"^test[\s\d]*$",
    r"^hello[\s\d]*$",
];

const ENGLISH_STOP_WORDS: [&str; 10] =
    ["the", "and", "for", "you", "this", "that", "with", "from", "have", "are"];

/// The settings. What is not set is as in the reference. Texts are judged without the white space
/// around them, and their lengths are in characters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilterConfig {
    /// Shorter texts are dropped.
    pub min_chars: usize,
    /// A text that starts with a match of one of these regular expressions is dropped. They tell
    /// upper from lower case.
    pub noise_patterns: Vec<String>,
    /// Texts with fewer words that tell something are dropped: words of three characters that are
    /// neither marks (`<…`, `[…`) nor stop words.
    pub min_real_words: usize,
    /// Words that tell nothing, by the language of the segment, in either case.
    pub stop_words: BTreeMap<String, BTreeSet<String>>,
    /// Whether of two segments with different texts, one within the time of the other, the one
    /// that is shorter in both is dropped.
    pub drop_contained: bool,
    /// Texts that repeat a character more often in a row are dropped; 0 lets them all pass.
    pub repeated_chars_max: usize,
}

impl Default for FilterConfig {
    fn default() -> Self {
        let english = ENGLISH_STOP_WORDS.map(str::to_owned).into();
        FilterConfig {
            min_chars: 3,
            noise_patterns: NOISE_PATTERNS.map(str::to_owned).into(),
            min_real_words: 1,
            stop_words: BTreeMap::from([("en".to_owned(), english)]),
            drop_contained: true,
            repeated_chars_max: 4,
        }
    }
}

/// The pattern is no regular expression, or one that is too large.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the noise pattern `{pattern}` cannot be used")]
pub struct InvalidNoisePattern {
    pub pattern: String,
    pub source: regex::Error,
}

/// What is to be judged. Its times are within its session.
#[derive(Debug, Clone, Copy)]
pub struct FilterSegment<'a> {
    pub text: &'a str,
    pub language: Option<&'a str>,
    pub start_ms: i64,
    pub end_ms: i64,
}

/// A segment of the same session that was kept. Only those that overlap or touch the judged one
/// can matter, so that a caller may leave out the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSpan<'a> {
    pub text: Cow<'a, str>,
    pub start_ms: i64,
    pub end_ms: i64,
}

/// What is to be done with the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Keep {
        /// Which of the kept spans the segment stands for from now on, by their index, ascending.
        /// They need not be compared with any more. The reference forgets them and leaves what is
        /// stored of them alone.
        evicts: Vec<usize>,
    },
    Drop(DropReason),
}

/// Why a segment is dropped, in the order of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    TooShort,
    Noise,
    TooFewWords,
    /// The same text was kept for a time that includes the segment's.
    Duplicate,
    /// More text was kept for a longer time that includes the segment's.
    Contained,
    RepeatedCharacter,
}

impl DropReason {
    pub const ALL: [DropReason; 6] = [
        DropReason::TooShort,
        DropReason::Noise,
        DropReason::TooFewWords,
        DropReason::Duplicate,
        DropReason::Contained,
        DropReason::RepeatedCharacter,
    ];

    /// For logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::TooShort => "too_short",
            DropReason::Noise => "noise",
            DropReason::TooFewWords => "too_few_words",
            DropReason::Duplicate => "duplicate",
            DropReason::Contained => "contained",
            DropReason::RepeatedCharacter => "repeated_character",
        }
    }
}

/// The settings, compiled.
#[derive(Debug, Clone)]
pub struct TranscriptionFilter {
    config: FilterConfig,
    noise: Vec<Regex>,
}

impl TranscriptionFilter {
    pub fn new(mut config: FilterConfig) -> Result<Self, InvalidNoisePattern> {
        let noise = config.noise_patterns.iter().map(|pattern| compile(pattern));
        let noise = noise.collect::<Result<_, _>>()?;
        for words in config.stop_words.values_mut() {
            *words = words.iter().map(|word| word.to_lowercase()).collect();
        }
        Ok(TranscriptionFilter { config, noise })
    }

    /// Judges a segment beside the `kept` ones.
    pub fn judge(&self, segment: &FilterSegment<'_>, kept: &[KeptSpan<'_>]) -> Verdict {
        let text = segment.text.trim();
        if let Some(reason) = self.says_nothing(text, segment.language) {
            return Verdict::Drop(reason);
        }
        let current = Span { text, start_ms: segment.start_ms, end_ms: segment.end_ms };
        let mut evicts = Vec::new();
        for (index, span) in kept.iter().enumerate() {
            let kept = Span::of(span);
            if let Some(reason) = self.superseded(&current, &kept) {
                return Verdict::Drop(reason);
            }
            if self.superseded(&kept, &current).is_some() {
                evicts.push(index);
            }
        }
        // The reference forgets what this segment would have stood for even if it is dropped here;
        // then neither of the two would be left to compare with.
        if repeats_a_character(text, self.config.repeated_chars_max) {
            return Verdict::Drop(DropReason::RepeatedCharacter);
        }
        Verdict::Keep { evicts }
    }

    /// The rules that look at nothing but the segment.
    fn says_nothing(&self, text: &str, language: Option<&str>) -> Option<DropReason> {
        if fewer_chars(text, self.config.min_chars) {
            return Some(DropReason::TooShort);
        }
        // The leftmost match is at the start if any is.
        let is_noise = |noise: &Regex| noise.find(text).is_some_and(|found| found.start() == 0);
        if self.noise.iter().any(is_noise) {
            return Some(DropReason::Noise);
        }
        let stop_words = language.and_then(|language| self.config.stop_words.get(language));
        let real_words = text.split_whitespace().filter(|word| is_real(word, stop_words));
        (real_words.take(self.config.min_real_words).count() < self.config.min_real_words)
            .then_some(DropReason::TooFewWords)
    }

    /// Whether `other` says what `span` does, and more.
    fn superseded(&self, span: &Span<'_>, other: &Span<'_>) -> Option<DropReason> {
        if !span.is_within(other) {
            return None;
        }
        if span.text == other.text {
            return Some(DropReason::Duplicate);
        }
        let is_shorter = span.duration_ms() > INSTANT_MS_MAX
            && span.duration_ms() < other.duration_ms()
            && fewer_chars(span.text, other.text.chars().count());
        (self.config.drop_contained && is_shorter).then_some(DropReason::Contained)
    }
}

/// A text, trimmed, and its time.
struct Span<'a> {
    text: &'a str,
    start_ms: i64,
    end_ms: i64,
}

impl<'a> Span<'a> {
    fn of(kept: &'a KeptSpan<'_>) -> Self {
        Span { text: kept.text.trim(), start_ms: kept.start_ms, end_ms: kept.end_ms }
    }

    fn is_within(&self, other: &Span<'_>) -> bool {
        self.start_ms >= other.start_ms && self.end_ms <= other.end_ms
    }

    fn duration_ms(&self) -> i64 {
        self.end_ms.saturating_sub(self.start_ms)
    }
}

fn compile(pattern: &str) -> Result<Regex, InvalidNoisePattern> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_COMPILED_BYTES_MAX)
        .build()
        .map_err(|source| InvalidNoisePattern { pattern: pattern.to_owned(), source })
}

fn is_real(word: &str, stop_words: Option<&BTreeSet<String>>) -> bool {
    !fewer_chars(word, REAL_WORD_CHARS_MIN)
        && !word.starts_with(['<', '['])
        && !stop_words.is_some_and(|words| words.contains(&word.to_lowercase()))
}

fn fewer_chars(text: &str, count: usize) -> bool {
    text.chars().take(count).count() < count
}

/// Lines without text are no repeated character.
fn repeats_a_character(text: &str, max: usize) -> bool {
    let mut run = 0;
    let mut last = None;
    max > 0
        && text.chars().any(|char| {
            run = if last == Some(char) { run + 1 } else { 1 };
            last = Some(char);
            run > max && char != '\n'
        })
}

#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Compiled once: that takes far longer than to judge.
static DEFAULT: LazyLock<TranscriptionFilter> = LazyLock::new(|| filter_with(|_| ()));

fn filter() -> &'static TranscriptionFilter {
    &DEFAULT
}

fn filter_with(change: impl FnOnce(&mut FilterConfig)) -> TranscriptionFilter {
    let mut config = FilterConfig::default();
    change(&mut config);
    TranscriptionFilter::new(config).unwrap()
}

fn segment(text: &str, start_ms: i64, end_ms: i64) -> FilterSegment<'_> {
    FilterSegment { text, language: Some("en"), start_ms, end_ms }
}

fn kept(text: &str, start_ms: i64, end_ms: i64) -> KeptSpan<'_> {
    KeptSpan { text: text.into(), start_ms, end_ms }
}

/// Judges a text of which nothing was kept yet.
fn alone(text: &str) -> Verdict {
    filter().judge(&segment(text, 0, 1_000), &[])
}

/// Judges a text said from 1 s to 2 s beside what was kept.
fn beside(text: &str, spans: &[KeptSpan<'_>]) -> Verdict {
    filter().judge(&segment(text, 1_000, 2_000), spans)
}

const KEEP: Verdict = Verdict::Keep { evicts: Vec::new() };

#[test]
fn short_texts_are_dropped_by_their_characters_without_space_around_them() {
    for text in ["", " ", "ab", "  hi \n", "éé"] {
        assert_eq!(alone(text), Verdict::Drop(DropReason::TooShort), "{text:?}");
    }
    for text in ["abc", " abc ", "ééé", "日本語"] {
        assert_eq!(alone(text), KEEP, "{text:?}");
    }
}

#[test]
fn noise_is_dropped() {
    let noise = [
        "[BLANK_AUDIO]",
        " [BLANK_AUDIO] ",
        "<no audio>",
        "<inaudible>",
        ">>>",
        "<<<",
        "testing",
        "test",
        "test 1 2 3",
        "test123",
        "hello",
        "hello 1",
    ];
    for text in noise {
        assert_eq!(alone(text), Verdict::Drop(DropReason::Noise), "{text:?}");
    }
    let speech = [
        "Testing",
        "Hello",
        "hello world",
        "testing this",
        "test it",
        "say [BLANK_AUDIO]",
        ">>> quote",
        "contest",
    ];
    for text in speech {
        assert_eq!(alone(text), KEEP, "{text:?}");
    }
}

#[test]
fn patterns_that_only_short_texts_match_show_when_short_texts_may_pass() {
    let filter = filter_with(|config| config.min_chars = 0);
    for text in ["", "  ", "<>", "<3", " <3 ", ">", "<", ">>", "<<"] {
        let verdict = filter.judge(&segment(text, 0, 1_000), &[]);
        assert_eq!(verdict, Verdict::Drop(DropReason::Noise), "{text:?}");
    }
}

#[test]
fn a_pattern_matches_at_the_start_or_not_at_all() {
    let filter = filter_with(|config| config.noise_patterns = vec!["(?i)MUSIC".to_owned()]);
    let judge = |text| filter.judge(&segment(text, 0, 1_000), &[]);
    assert_eq!(judge("music plays"), Verdict::Drop(DropReason::Noise));
    assert_eq!(judge("the music plays"), KEEP);
    assert_eq!(judge("testing"), KEEP, "a list in the settings replaces the default");
}

#[test]
fn texts_without_a_word_that_tells_something_are_dropped() {
    for text in ["a b c d", "the and for you", "The AND this", "<tag> [mark] <other>", "of it"] {
        assert_eq!(alone(text), Verdict::Drop(DropReason::TooFewWords), "{text:?}");
    }
    for text in ["the end", "<tag> [mark] real", "(tag)", "you, and"] {
        assert_eq!(alone(text), KEEP, "{text:?}");
    }
}

#[test]
fn stop_words_are_those_of_the_segments_language() {
    let german = BTreeSet::from(["Und".to_owned(), "ÄHM".to_owned()]);
    let filter = filter_with(|config| {
        config.stop_words.insert("de".to_owned(), german);
    });
    let judge = |text, language| {
        filter.judge(&FilterSegment { text, language, start_ms: 0, end_ms: 1_000 }, &[])
    };
    let dropped = Verdict::Drop(DropReason::TooFewWords);
    assert_eq!(judge("the and", Some("en")), dropped);
    assert_eq!(judge("ähm UND", Some("de")), dropped);
    for language in [None, Some("de"), Some("EN"), Some("xx")] {
        assert_eq!(judge("the and", language), KEEP, "{language:?}");
    }
}

#[test]
fn how_many_words_are_needed_is_a_setting() {
    let needs = |words| filter_with(|config| config.min_real_words = words);
    let judge = |words, text| needs(words).judge(&segment(text, 0, 1_000), &[]);
    assert_eq!(judge(2, "only"), Verdict::Drop(DropReason::TooFewWords));
    assert_eq!(judge(2, "only two"), KEEP);
    assert_eq!(judge(0, "a b c"), KEEP);
}

#[test]
fn the_same_text_within_a_kept_one_is_dropped() {
    let duplicate = Verdict::Drop(DropReason::Duplicate);
    assert_eq!(beside("hello world", &[kept("hello world", 1_000, 2_000)]), duplicate);
    assert_eq!(beside(" hello world", &[kept("hello world\n", 0, 3_000)]), duplicate);
    let later = [kept("other words", 0, 500), kept("hello world", 0, 3_000)];
    assert_eq!(beside("hello world", &later), duplicate);
    let instant = segment("hello world", 1_500, 1_500);
    assert_eq!(filter().judge(&instant, &[kept("hello world", 1_500, 1_500)]), duplicate);
}

#[test]
fn the_same_text_that_is_said_again_is_kept() {
    assert_eq!(beside("hello world", &[kept("hello world", 2_000, 3_000)]), KEEP);
    assert_eq!(beside("hello world", &[kept("hello world", 1_001, 2_001)]), KEEP);
    assert_eq!(beside("hello world", &[kept("Hello world", 1_000, 2_000)]), KEEP);
}

#[test]
fn the_same_text_around_kept_ones_stands_for_them() {
    let spans = [
        kept("hello world", 1_000, 1_500),
        kept("hello world", 2_000, 3_000),
        kept("hello world", 1_600, 1_650),
    ];
    assert_eq!(beside("hello world", &spans), Verdict::Keep { evicts: vec![0, 2] });
}

#[test]
fn less_text_within_a_longer_kept_one_is_dropped() {
    let more = "hello world and everybody";
    let contained = Verdict::Drop(DropReason::Contained);
    assert_eq!(beside("hello wood", &[kept(more, 1_000, 2_001)]), contained);
    assert_eq!(beside("hello wood", &[kept(more, 1_000, 2_000)]), KEEP, "not longer");
    assert_eq!(beside("hello wood", &[kept(more, 1_001, 3_000)]), KEEP, "not within");
    assert_eq!(beside("hello wood", &[kept("short text", 0, 3_000)]), KEEP, "not less text");
    // Fewer characters, though more bytes.
    assert_eq!(beside("日本語日本語", &[kept("ten chars.", 0, 3_000)]), contained);
}

#[test]
fn more_text_around_shorter_kept_ones_stands_for_them() {
    let spans = [
        kept("hello", 1_000, 1_900),
        kept("hello", 1_000, 2_000),
        kept("hello", 900, 1_900),
        kept("nothing less than this", 1_100, 1_900),
    ];
    assert_eq!(beside("hello everybody", &spans), Verdict::Keep { evicts: vec![0] });
}

#[test]
fn an_instant_is_not_judged_by_different_text() {
    let around = [kept("hello world and everybody", 0, 3_000)];
    let judge = |end_ms| filter().judge(&segment("hello wood", 1_000, end_ms), &around);
    assert_eq!(judge(1_100), KEEP);
    assert_eq!(judge(1_101), Verdict::Drop(DropReason::Contained));
    let evicts = |end_ms| beside("hello everybody", &[kept("hello", 1_000, end_ms)]);
    assert_eq!(evicts(1_100), KEEP);
    assert_eq!(evicts(1_101), Verdict::Keep { evicts: vec![0] });
}

#[test]
fn different_text_can_be_let_alone() {
    let filter = filter_with(|config| config.drop_contained = false);
    let spans = [kept("hello world and everybody", 0, 3_000), kept("hello", 1_000, 1_900)];
    assert_eq!(filter.judge(&segment("hello wood", 1_000, 2_000), &spans), KEEP);
    let same = [kept("hello wood", 0, 3_000)];
    let verdict = filter.judge(&segment("hello wood", 1_000, 2_000), &same);
    assert_eq!(verdict, Verdict::Drop(DropReason::Duplicate));
}

#[test]
fn a_character_repeated_five_times_in_a_row_is_dropped() {
    for text in ["noooooo", "wait.....", "ha ééééé", "a     b word", "😀😀😀😀😀"] {
        assert_eq!(alone(text), Verdict::Drop(DropReason::RepeatedCharacter), "{text:?}");
    }
    for text in ["noooo", "wait....", "aAaAaA word", "one\n\n\n\n\n\ntwo", "hahahahaha"] {
        assert_eq!(alone(text), KEEP, "{text:?}");
    }
    let any = filter_with(|config| config.repeated_chars_max = 0);
    assert_eq!(any.judge(&segment("noooooo", 0, 1_000), &[]), KEEP);
}

#[test]
fn the_first_rule_that_applies_is_the_reason() {
    let same = [kept("noooooo", 1_000, 2_000)];
    assert_eq!(beside("noooooo", &same), Verdict::Drop(DropReason::Duplicate));
    assert_eq!(beside(">>>>>>", &same), Verdict::Drop(DropReason::Noise));
    assert_eq!(beside("<tag<<<<<<", &same), Verdict::Drop(DropReason::TooFewWords));
    let within = [kept("noooooo", 1_200, 1_500)];
    assert_eq!(beside("noooooo", &within), Verdict::Drop(DropReason::RepeatedCharacter));
}

#[test]
fn a_pattern_that_cannot_be_used_is_named() {
    for pattern in ["(", r"(.)\1{4,}", r"\w{1000}{1000}"] {
        let mut config = FilterConfig::default();
        config.noise_patterns.push(pattern.to_owned());
        let error = TranscriptionFilter::new(config).unwrap_err();
        assert_eq!(error.pattern, pattern);
        assert!(error.to_string().contains(pattern));
        assert!(error.source().is_some());
    }
}

#[test]
fn settings_are_read_over_the_defaults() {
    let read = |text| serde_json::from_str::<FilterConfig>(text);
    assert_eq!(read("{}").unwrap(), FilterConfig::default());
    let config = read(r#"{"min_chars": 5, "stop_words": {"de": ["und"]}}"#).unwrap();
    assert_eq!((config.min_chars, config.min_real_words), (5, 1));
    assert_eq!(config.stop_words.keys().collect::<Vec<_>>(), ["de"]);
    assert!(read(r#"{"min_char": 5}"#).is_err());
}

#[test]
fn reasons_have_names_of_their_own() {
    let names: BTreeSet<&str> = DropReason::ALL.into_iter().map(DropReason::as_str).collect();
    assert_eq!(names.len(), DropReason::ALL.len());
}

/// Texts and times that meet each other, and texts of any characters.
fn any_said() -> impl Strategy<Value = (String, i64, i64)> {
    let text = prop_oneof![
        Just("hello world".to_owned()),
        Just("hello there world".to_owned()),
        Just("nooooooo".to_owned()),
        "[a-c ]{0,12}",
        any::<String>(),
        vec(any::<char>(), 0..12).prop_map(String::from_iter),
    ];
    (text, 0i64..1_000, 0i64..1_000).prop_map(|(text, start, length)| (text, start, start + length))
}

proptest! {
    #[test]
    fn alone_a_segment_is_dropped_only_for_its_own_text((text, start_ms, end_ms) in any_said()) {
        let filter = filter();
        match filter.judge(&segment(&text, start_ms, end_ms), &[]) {
            Verdict::Keep { evicts } => prop_assert_eq!(evicts, Vec::<usize>::new()),
            Verdict::Drop(reason) => {
                prop_assert!(!matches!(reason, DropReason::Duplicate | DropReason::Contained));
            }
        }
    }

    #[test]
    fn what_was_kept_is_a_duplicate_when_it_comes_again(said in vec(any_said(), 0..12)) {
        let filter = filter();
        let mut spans: Vec<KeptSpan<'_>> = Vec::new();
        for (text, start_ms, end_ms) in &said {
            let segment = segment(text, *start_ms, *end_ms);
            let verdict = filter.judge(&segment, &spans);
            prop_assert_eq!(&filter.judge(&segment, &spans), &verdict, "nothing is remembered");
            match verdict {
                Verdict::Keep { evicts } => {
                    prop_assert!(evicts.is_sorted_by(|a, b| a < b));
                    for index in evicts.into_iter().rev() {
                        spans.remove(index);
                    }
                    spans.push(kept(text, *start_ms, *end_ms));
                }
                Verdict::Drop(_) => continue,
            }
            let again = filter.judge(&segment, &spans);
            prop_assert_eq!(again, Verdict::Drop(DropReason::Duplicate));
        }
    }

    #[test]
    fn no_times_are_too_strange(start_ms: i64, end_ms: i64, kept_start: i64, kept_end: i64) {
        let spans = [kept("hello world", kept_start, kept_end)];
        filter().judge(&segment("hello wood", start_ms, end_ms), &spans);
        filter().judge(&segment("hello there world", start_ms, end_ms), &spans);
    }
}

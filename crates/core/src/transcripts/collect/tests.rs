use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn told(start_ms: i64, end_ms: i64, text: &str) -> ToldSegment {
    ToldSegment {
        start_ms,
        end_ms,
        text: text.to_owned(),
        language: Some("en".to_owned()),
        speaker: None,
        completed: Some(false),
        segment_id: None,
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

/// Tells one message after the other and returns what is known then.
fn tell(messages: &[(i64, Vec<ToldSegment>)]) -> (Vec<Known>, usize) {
    let (mut known, mut changes): (Vec<Known>, usize) = (Vec::new(), 0);
    for (version, segments) in messages {
        let speakers = Speakers::default();
        for change in collect(Some("u"), segments, known.clone(), &speakers, *version, at(*version))
        {
            changes += 1;
            known.retain(|known| known.segment.key != change.segment.key);
            known.push(change);
        }
    }
    known.sort_by_key(|known| known.segment.start_ms);
    (known, changes)
}

#[test]
fn what_is_told_again_changes_nothing() {
    let message = vec![told(0, 1000, "a"), told(1000, 2000, "b")];
    let messages: Vec<_> = (1..=100).map(|version| (version, message.clone())).collect();
    let (known, changes) = tell(&messages);
    assert_eq!((known.len(), changes), (2, 2));
    assert_eq!(known[0].segment.updated_at, at(1));
}

#[test]
fn what_a_message_changes_and_changes_back_is_as_it_was() {
    let message = vec![told(0, 1000, "a"), told(0, 1000, "b")];
    let (known, changes) = tell(&[(1, message.clone()), (2, message)]);
    assert_eq!((known[0].segment.content.text.as_str(), changes), ("b", 1));
    assert_eq!(known[0].segment.updated_at, at(1));
}

#[test]
fn a_start_told_twice_in_a_message_is_found_again_by_its_last_word() {
    let before = vec![told(1012, 2500, "hello"), told(1020, 2500, "there")];
    // The last one ends before the segment begins that it is about, which therefore ends as early as
    // it can, and has little in common with what is told.
    let twice = vec![told(1000, 2500, "there"), told(1000, 1001, "")];
    let (_, changes) = tell(&[(1, before.clone()), (2, twice.clone())]);
    let (known, changes_again) = tell(&[(1, before), (2, twice.clone()), (3, twice)]);
    assert_eq!(changes_again, changes, "{known:?}");
}

#[test]
fn an_older_telling_never_replaces_a_newer_one() {
    let versions = [(3, "third"), (1, "first"), (2, "second")];
    let messages: Vec<_> =
        versions.iter().map(|(version, text)| (*version, vec![told(0, 1000, text)])).collect();
    let (known, changes) = tell(&messages);
    assert_eq!((known[0].segment.content.text.as_str(), changes), ("third", 1));
}

#[test]
fn a_start_that_moves_a_little_is_the_same_segment_with_its_first_start() {
    let (known, _) = tell(&[
        (1, vec![told(1000, 2000, "he")]),
        (2, vec![told(1012, 2500, "hello")]),
        (3, vec![told(995, 3000, "hello there")]),
    ]);
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].segment.start_ms, 1000);
    assert_eq!(known[0].segment.content.text, "hello there");
}

#[test]
fn neighbours_that_follow_each_other_stay_apart() {
    let (known, _) = tell(&[(1, vec![told(1000, 1040, "a")]), (2, vec![told(1040, 2000, "b")])]);
    assert_eq!(known.len(), 2);
    let together = vec![told(1000, 2000, "a"), told(1020, 2000, "b")];
    let (known, _) = tell(&[(1, together.clone()), (2, together[1..].to_vec())]);
    assert_eq!(known.len(), 2, "what one message tells apart stays apart");
    let unmoved = [(1, vec![told(1000, 2000, "a")]), (2, vec![told(1012, 2000, "a")])];
    let apart = vec![told(1012, 2000, "a"), told(1020, 2000, "b")];
    let (known, changes) = tell(&[unmoved.as_slice(), &[(3, apart.clone()), (4, apart)]].concat());
    assert_eq!((known.len(), changes), (2, 2), "also beside one that is as it was");
}

#[test]
fn ids_keep_segments_with_the_same_start_apart() {
    let with_id = |id: &str, text: &str| ToldSegment {
        segment_id: Some(id.to_owned()),
        ..told(1000, 2000, text)
    };
    let (known, _) = tell(&[
        (1, vec![with_id("a", "x"), with_id("b", "y"), told(1000, 2000, "z")]),
        (2, vec![ToldSegment { start_ms: 1500, ..with_id("a", "moved") }]),
    ]);
    assert_eq!(known.len(), 3);
    let fields: BTreeSet<&str> =
        known.iter().map(|known| known.segment.key.field.as_str()).collect();
    assert_eq!(fields, BTreeSet::from(["1.000", "1.000#a", "1.000#b"]));
}

#[test]
fn a_speaker_once_known_is_not_forgotten() {
    let mut segment = told(0, 1000, "a");
    segment.speaker = Some("Ann".to_owned());
    let (known, _) = tell(&[(1, vec![segment]), (2, vec![told(0, 1000, "a b")])]);
    assert_eq!(known[0].segment.content.speaker.as_deref(), Some("Ann"));
}

#[test]
fn a_dropped_segment_comes_back_only_when_it_has_changed() {
    let dropped = |text: &str| {
        let mut known = first(
            Some("u"),
            &told(0, 1000, text),
            &(None, SpeakerStatus::NoSpeakerEvents),
            1,
            at(1),
        );
        known.place = Place::Dropped;
        known
    };
    let again = |text: &str| {
        let speakers = Speakers::default();
        collect(Some("u"), &[told(0, 1000, text)], vec![dropped("x")], &speakers, 2, at(2))
    };
    assert!(again("x").is_empty());
    assert_eq!(again("xylophone")[0].place, Place::Live);
}

proptest! {
    /// Whatever is told in whatever order, no two segments have the same key, and the next
    /// telling of the last message changes nothing.
    #[test]
    fn keys_are_unique_and_repeats_are_silent(
        messages in prop::collection::vec(
            prop::collection::vec((0i64..300, 1i64..400, "[ab]{0,2}"), 1..6), 1..8)
    ) {
        let messages: Vec<_> = messages.into_iter().zip(1..).map(|(segments, version)| {
            let segments = segments.into_iter()
                .map(|(start, length, text)| told(start, start + length, &text)).collect();
            (version, segments)
        }).collect();
        let (known, changes) = tell(&messages);
        let keys: BTreeSet<&SegmentKey> = known.iter().map(|k| &k.segment.key).collect();
        prop_assert_eq!(keys.len(), known.len());
        let mut again = messages.clone();
        again.extend(messages.last().map(|(version, told)| (version + 1, told.clone())));
        prop_assert_eq!(tell(&again).1, changes);
    }
}

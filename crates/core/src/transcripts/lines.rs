//! The lines of a transcript as it is read: what is final and what is live, merged.
//!
//! Invariants: the order is total, so that the same lines are always read in the same order; only
//! what is said twice is left out, never a different text or speaker; the same instant is the same
//! string here and in frames, because clients know a segment by that string.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::{Segment, seconds_of};
use crate::Timestamp;

/// A segment with what reading it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub segment: Segment,
    /// `None` if it is not known when its session started.
    pub session_start: Option<Timestamp>,
    /// It is in the database's final table.
    pub kept: bool,
}

/// Sorts by when it was said. Lines whose session has no known start come last, by their time within
/// their session, because any place among the others would be a guess.
pub fn in_order(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(compare);
    lines
}

/// Leaves out what is said twice: of neighbours that overlap and agree in text and speaker, the one
/// that covers the other stays; if neither does, the longer, or the first of two as long.
///
/// Expects lines [`in_order`].
pub fn without_repeats(lines: Vec<Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::with_capacity(lines.len());
    'next: for line in lines {
        // A line that replaces its neighbour gets a new one, which it may repeat as well.
        while let Some(last) = kept.last() {
            match repetition(last, &line) {
                None => break,
                Some(Longer::First) => continue 'next,
                Some(Longer::Second) => drop(kept.pop()),
            }
        }
        kept.push(line);
    }
    kept
}

/// A segment as REST shows it.
pub fn line_body(line: &Line) -> Value {
    let segment = &line.segment;
    let content = &segment.content;
    let absolute = segment.absolute(line.session_start);
    json!({
        "start": seconds_of(segment.start_ms),
        "end": seconds_of(content.end_ms),
        "text": content.text,
        "language": content.language,
        "created_at": segment.created_at.naive(),
        "speaker": content.speaker,
        "absolute_start_time": absolute.map(|(start, _)| instant(start)),
        "absolute_end_time": absolute.map(|(_, end)| instant(end)),
        "completed": segment.completed,
        "segment_id": segment.segment_id,
        "session_uid": segment.key.session_uid,
        "updated_at": instant(segment.updated_at),
        "speaker_mapping_status": segment.speaker_status.as_str(),
        "seq": segment.seq,
    })
}

/// `YYYY-MM-DDTHH:MM:SS.ffffff+00:00`: how REST and frames write an instant.
pub fn instant(at: Timestamp) -> String {
    at.naive() + "+00:00"
}

fn compare(a: &Line, b: &Line) -> Ordering {
    let by_time = match (absolute_span(a), absolute_span(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, None) => relative_span(a).cmp(&relative_span(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
    };
    by_time.then_with(|| a.segment.key.cmp(&b.segment.key))
}

/// Which of two lines says all that both say.
enum Longer {
    First,
    Second,
}

/// `None` if both lines must be read.
fn repetition(a: &Line, b: &Line) -> Option<Longer> {
    let (said, again) = (&a.segment.content, &b.segment.content);
    if said.speaker != again.speaker || said.text.trim() != again.text.trim() {
        return None;
    }
    let (a, b) = comparable_spans(a, b)?;
    let overlap = a.0 < b.1 && b.0 < a.1;
    if !overlap && a != b {
        return None;
    }
    // Whichever covers the other is the longer, so lengths decide all cases.
    let second_is_longer = b.1.saturating_sub(b.0) > a.1.saturating_sub(a.0);
    Some(if second_is_longer { Longer::Second } else { Longer::First })
}

type Span = (i64, i64);

/// Times of different sessions say nothing about each other until their starts are known. Segments
/// that name no session are taken to be of one, as their keys are.
fn comparable_spans(a: &Line, b: &Line) -> Option<(Span, Span)> {
    match (absolute_span(a), absolute_span(b)) {
        (Some(a), Some(b)) => Some((a, b)),
        _ if a.segment.key.session_uid == b.segment.key.session_uid => {
            Some((relative_span(a), relative_span(b)))
        }
        _ => None,
    }
}

/// In microseconds since the epoch.
fn absolute_span(line: &Line) -> Option<Span> {
    let (start, end) = line.segment.absolute(line.session_start)?;
    Some((start.as_micros(), end.as_micros().max(start.as_micros())))
}

/// In milliseconds from the start of the session.
fn relative_span(line: &Line) -> Span {
    let start = line.segment.start_ms;
    (start, line.segment.content.end_ms.max(start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transcripts::samples::{SESSION_START, any_line, said};

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.segment.content.text.as_str()).collect()
    }

    fn times(lines: &[Line]) -> Vec<Span> {
        lines.iter().map(relative_span).collect()
    }

    fn of_session(mut line: Line, uid: &str, started: Option<i64>) -> Line {
        line.segment.key.session_uid = Some(uid.to_owned());
        line.session_start = started.map(Timestamp::from_micros);
        line
    }

    #[test]
    fn sessions_are_read_in_the_order_they_took_place_and_unknown_ones_last() {
        let later = of_session(said(0, 1000, "Ann", "third"), "b", Some(60_000_000));
        let first = of_session(said(0, 1000, "Ann", "first"), "c", Some(1_000_000));
        let second = of_session(said(30_000, 31_000, "Ann", "second"), "c", Some(1_000_000));
        let unknown = of_session(said(5, 10, "Ann", "fifth"), "a", None);
        let unknown_earlier = of_session(said(0, 10, "Ann", "fourth"), "z", None);
        let lines = in_order(vec![unknown, later, second, unknown_earlier, first]);
        assert_eq!(texts(&lines), ["first", "second", "third", "fourth", "fifth"]);
    }

    #[test]
    fn ties_are_broken_by_end_session_and_field() {
        let short = of_session(said(0, 500, "Ann", "1"), "z", Some(0));
        let of_a = of_session(said(0, 1000, "Ann", "2"), "a", Some(0));
        let of_b = of_session(said(0, 1000, "Ann", "3"), "b", Some(0));
        let mut named = of_b.clone();
        named.segment.key.field.push_str("#x");
        named.segment.content.text = "4".to_owned();
        assert_eq!(texts(&in_order(vec![named, of_b, of_a, short])), ["1", "2", "3", "4"]);
    }

    #[test]
    fn of_overlapping_repeats_the_longer_stays() {
        let cases: [(&str, [Span; 2], &[Span]); 9] = [
            ("the second is inner", [(0, 10), (2, 5)], &[(0, 10)]),
            ("the second is outer", [(0, 5), (0, 10)], &[(0, 10)]),
            ("the same time", [(0, 5), (0, 5)], &[(0, 5)]),
            ("part of it, the second is longer", [(0, 5), (4, 20)], &[(4, 20)]),
            ("part of it, the first is longer", [(0, 15), (14, 20)], &[(0, 15)]),
            ("part of it, as long", [(0, 5), (3, 8)], &[(0, 5)]),
            ("one after the other", [(0, 5), (5, 8)], &[(0, 5), (5, 8)]),
            ("no time at all, within the other", [(0, 5), (3, 3)], &[(0, 5)]),
            ("no time at all, twice", [(3, 3), (3, 3)], &[(3, 3)]),
        ];
        for (what, [a, b], expected) in cases {
            let lines = vec![said(a.0, a.1, "Ann", "yes"), said(b.0, b.1, "Ann", " yes\n")];
            assert_eq!(times(&without_repeats(lines)), expected, "{what}");
        }
    }

    #[test]
    fn another_text_or_speaker_or_one_between_keeps_both() {
        let yes = said(0, 10, "Ann", "yes");
        let mut nobody = said(2, 5, "", "yes");
        nobody.segment.content.speaker = None;
        for other in [said(2, 5, "Ann", "Yes"), said(2, 5, "Bob", "yes"), nobody] {
            assert_eq!(without_repeats(vec![yes.clone(), other]).len(), 2);
        }
        let between = [yes.clone(), said(1, 2, "Bob", "no"), said(2, 5, "Ann", "yes")];
        assert_eq!(without_repeats(between.to_vec()).len(), 3);
    }

    #[test]
    fn sessions_are_compared_by_absolute_time_only() {
        let yes = said(0, 10_000, "Ann", "yes");
        let at = |uid, started| of_session(yes.clone(), uid, started);
        let overlapping = vec![at("a", Some(1_000_000)), at("b", Some(2_000_000))];
        assert_eq!(without_repeats(overlapping).len(), 1, "they share nine seconds");
        let apart = vec![at("a", Some(1_000_000)), at("b", Some(60_000_000))];
        assert_eq!(without_repeats(apart).len(), 2, "a minute lies between");
        let unknown = vec![at("a", None), at("b", None)];
        assert_eq!(without_repeats(unknown).len(), 2, "nobody knows");
        let same = vec![at("a", None), at("a", None)];
        assert_eq!(without_repeats(same).len(), 1, "one session");
    }

    #[test]
    fn a_line_may_replace_several() {
        let known = |from, to| of_session(said(from, to, "Ann", "yes"), "a", Some(0));
        let whole = of_session(said(0, 100, "Ann", "yes"), "a", None);
        let lines = without_repeats(vec![known(0, 10), known(20, 30), whole.clone()]);
        assert_eq!(lines, [whole]);
    }

    #[test]
    fn rest_shows_a_segment() {
        let mut line = said(12_340, 15_100, "Ann", "Hello");
        line.segment.segment_id = Some("s-1".to_owned());
        line.segment.content.language = Some("en".to_owned());
        line.segment.completed = Some(true);
        line.segment.seq = 7;
        let expected = json!({
            "start": 12.34, "end": 15.1, "text": "Hello", "language": "en", "speaker": "Ann",
            "created_at": "2026-01-31T12:01:00.000000",
            "absolute_start_time": "2026-01-31T12:00:12.340000+00:00",
            "absolute_end_time": "2026-01-31T12:00:15.100000+00:00",
            "completed": true, "segment_id": "s-1", "session_uid": "session", "seq": 7,
            "updated_at": "2026-01-31T12:01:00.500000+00:00",
            "speaker_mapping_status": "MAPPED",
        });
        assert_eq!(line_body(&line), expected);

        line.session_start = None;
        assert_eq!(line_body(&line)["absolute_start_time"], Value::Null);
        assert_eq!(line_body(&line)["absolute_end_time"], Value::Null);
        assert_eq!(line_body(&line)["start"], 12.34);
    }

    #[test]
    fn an_instant_always_has_microseconds_and_an_offset() {
        assert_eq!(instant(SESSION_START), "2026-01-31T12:00:00.000000+00:00");
        assert_eq!(instant(Timestamp::EPOCH), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(instant(Timestamp::from_micros(1)), "1970-01-01T00:00:00.000001+00:00");
    }

    /// Whether `part` is left of `whole` when some of it is taken away.
    fn is_subsequence(part: &[Line], whole: &[Line]) -> bool {
        let mut rest = whole.iter();
        part.iter().all(|line| rest.any(|other| other == line))
    }

    /// Who said what, with what is said again at once told once.
    fn sayings(lines: &[Line]) -> Vec<(Option<&str>, &str)> {
        let contents = lines.iter().map(|line| &line.segment.content);
        let mut sayings: Vec<_> =
            contents.map(|content| (content.speaker.as_deref(), content.text.trim())).collect();
        sayings.dedup();
        sayings
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_where_lines_came_from(
            lines in proptest::collection::vec(any_line(), 0..20),
            turn in 0_usize..20,
        ) {
            let mut lines = lines;
            // Keys are unique within a meeting; only then is the order total.
            lines.sort_by(|a, b| a.segment.key.cmp(&b.segment.key));
            lines.dedup_by(|a, b| a.segment.key == b.segment.key);
            let mut turned = lines.clone();
            turned.rotate_left(turn.min(lines.len()));
            turned.reverse();
            prop_assert_eq!(in_order(lines), in_order(turned));
        }

        #[test]
        fn known_times_ascend_and_come_first(
            lines in proptest::collection::vec(any_line(), 0..20),
        ) {
            let lines = in_order(lines);
            for pair in lines.windows(2) {
                match (absolute_span(&pair[0]), absolute_span(&pair[1])) {
                    (Some(a), Some(b)) => prop_assert!(a <= b),
                    (None, Some(_)) => prop_assert!(false, "an unknown time before a known one"),
                    (None, None) => prop_assert!(relative_span(&pair[0]) <= relative_span(&pair[1])),
                    (Some(_), None) => {}
                }
            }
        }

        #[test]
        fn only_repeats_are_left_out(lines in proptest::collection::vec(any_line(), 0..20)) {
            let lines = in_order(lines);
            let left = without_repeats(lines.clone());
            prop_assert!(is_subsequence(&left, &lines), "something was made up or moved");
            prop_assert_eq!(sayings(&left), sayings(&lines), "somebody was silenced");
            prop_assert_eq!(&without_repeats(left.clone()), &left, "once is enough");
            for pair in left.windows(2) {
                prop_assert!(repetition(&pair[0], &pair[1]).is_none(), "a repeat is left");
            }
        }
    }
}

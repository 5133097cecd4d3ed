//! What a batch of messages may be about: read once, held in memory while its messages are taken one
//! after the other, so that what a message changes is what the ones after it find.

use std::collections::{BTreeMap, HashSet};

use roundsman_core::transcripts::{
    Known, Reach, SPEAKER_EVENT_SLACK_MS, SpeakerEvent, ToldSegment,
};

use super::transcripts::latest_events;

/// The segments of one session that are known, by start and field: an order that both databases
/// agree about.
pub(crate) type Segments<E> = BTreeMap<(i64, String), E>;

/// Where a segment is among the others of its session.
pub(crate) fn place_of(known: &Known) -> (i64, String) {
    (known.segment.start_ms, known.segment.key.field.clone())
}

/// Those that a message may be about. What else is known of the session was read for other messages.
pub(crate) fn known_within<E: AsRef<Known>>(segments: &Segments<E>, reach: &Reach) -> Vec<Known> {
    let span = (reach.from_ms, String::new())..(reach.to_ms + 1, String::new());
    let mut near: Vec<Known> =
        segments.range(span).map(|(_, entry)| entry.as_ref().clone()).collect();
    if reach.ids.is_empty() {
        return near;
    }
    let is_within = |start_ms: i64| (reach.from_ms..=reach.to_ms).contains(&start_ms);
    let ids: HashSet<&String> = reach.ids.iter().collect();
    let named = segments.values().map(AsRef::as_ref).filter(|known| {
        let id = known.segment.segment_id.as_ref();
        id.is_some_and(|id| ids.contains(id)) && !is_within(known.segment.start_ms)
    });
    near.extend(named.cloned());
    near
}

/// From where to where messages reach: spans that meet are one, so that the usual messages of a
/// session, which tell of the same few seconds, are one look.
pub(crate) fn joined_spans(reaches: &[Reach]) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> =
        reaches.iter().map(|reach| (reach.from_ms, reach.to_ms)).collect();
    spans.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// Up to when events may say who spoke in these segments. `None` if all of them say it themselves.
pub(crate) fn heard_until(told: &[ToldSegment]) -> Option<i64> {
    let unsaid = told.iter().filter(|segment| segment.speaker.is_none());
    let end_ms = unsaid.map(|segment| segment.end_ms).max()?;
    Some(end_ms.saturating_add(SPEAKER_EVENT_SLACK_MS))
}

/// The events that are read for segments up to then.
pub(crate) fn events_until(events: &[SpeakerEvent], until_ms: i64) -> Vec<SpeakerEvent> {
    latest_events(events.iter().filter(|event| event.at_ms <= until_ms).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_meet_are_one() {
        let reach = |from_ms, to_ms| Reach { from_ms, to_ms, ids: Vec::new() };
        let reaches = [reach(40, 60), reach(0, 10), reach(10, 20), reach(5, 7), reach(61, 70)];
        assert_eq!(joined_spans(&reaches), [(0, 20), (40, 60), (61, 70)]);
        assert_eq!(joined_spans(&[]), []);
    }
}

//! When a segment is final: it has not changed for a while, so it is looked at once more and kept,
//! or refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::collect::Speakers;
use super::filter::{DropReason, FilterSegment, KeptSpan, TranscriptionFilter, Verdict};
use super::{Segment, SpeakerStatus};

/// What becomes of segments that are stable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Go to the final table, in this order.
    pub keep: Vec<Segment>,
    /// Leave the cache and are remembered, so that they do not come back unchanged.
    pub drop: Vec<(Segment, DropReason)>,
    /// Places in `keep` of those whose speaker was found now: a change like any other.
    pub remapped: Vec<usize>,
}

/// Decides about the stable segments of one meeting. `kept` are final segments of the same sessions
/// that overlap them; `speakers` are by session.
pub fn settle(
    mut stable: Vec<Segment>,
    kept: &[Segment],
    speakers: &BTreeMap<Option<String>, Speakers>,
    filter: &TranscriptionFilter,
) -> Settled {
    stable.sort_by(|a, b| {
        let order = |segment: &Segment| (segment.key.session_uid.clone(), segment.start_ms);
        order(a).cmp(&order(b)).then_with(|| a.key.field.cmp(&b.key.field))
    });
    let mut spans: BTreeMap<Option<String>, Vec<KeptSpan<'_>>> = BTreeMap::new();
    for segment in kept {
        spans.entry(segment.key.session_uid.clone()).or_default().push(span(segment));
    }
    let mut settled = Settled::default();
    for mut segment in stable {
        let session = &segment.key.session_uid;
        let remapped = speakers.get(session).is_some_and(|speakers| remap(&mut segment, speakers));
        let spans = spans.entry(segment.key.session_uid.clone()).or_default();
        let looked_at = FilterSegment {
            text: &segment.content.text,
            language: segment.content.language.as_deref(),
            start_ms: segment.start_ms,
            end_ms: segment.content.end_ms,
        };
        match filter.judge(&looked_at, spans) {
            Verdict::Keep { mut evicts } => {
                evicts.sort_unstable_by(|a, b| b.cmp(a));
                for index in evicts {
                    spans.swap_remove(index);
                }
                spans.push(span(&segment));
                if remapped {
                    settled.remapped.push(settled.keep.len());
                }
                settled.keep.push(segment);
            }
            Verdict::Drop(reason) => settled.drop.push((segment, reason)),
        }
    }
    settled
}

/// A last look at who spoke, for those of whom it is not known. Whether that changed the speaker.
fn remap(segment: &mut Segment, speakers: &Speakers) -> bool {
    let unsure = segment.content.speaker.is_none() || segment.speaker_status.is_uncertain();
    if !unsure || segment.speaker_status == SpeakerStatus::ProducerLabeled {
        return false;
    }
    let (speaker, status) = speakers.who(segment.start_ms, segment.content.end_ms);
    if status.is_uncertain() && segment.content.speaker.is_some() {
        return false;
    }
    segment.speaker_status = status;
    let changed = segment.content.speaker != speaker;
    segment.content.speaker = speaker;
    changed
}

fn span(segment: &Segment) -> KeptSpan<'static> {
    KeptSpan {
        text: Cow::Owned(segment.content.text.clone()),
        start_ms: segment.start_ms,
        end_ms: segment.content.end_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::transcripts::{
        FilterConfig, SegmentContent, SegmentKey, SpeakerEvent, SpeakerEventKind, field_of,
    };

    fn segment(start_ms: i64, end_ms: i64, text: &str) -> Segment {
        Segment {
            key: SegmentKey { session_uid: Some("u".to_owned()), field: field_of(start_ms) },
            segment_id: None,
            start_ms,
            content: SegmentContent {
                text: text.to_owned(),
                speaker: None,
                language: Some("en".to_owned()),
                end_ms,
            },
            speaker_status: SpeakerStatus::NoSpeakerEvents,
            completed: None,
            version: 1,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            seq: 1,
        }
    }

    fn decide(stable: Vec<Segment>, kept: &[Segment], events: Vec<SpeakerEvent>) -> Settled {
        let filter = TranscriptionFilter::new(FilterConfig::default()).unwrap();
        let speakers = Speakers { events, names: BTreeMap::new() };
        settle(stable, kept, &BTreeMap::from([(Some("u".to_owned()), speakers)]), &filter)
    }

    #[test]
    fn what_says_something_is_kept_in_order_and_noise_is_not() {
        let stable = vec![
            segment(2000, 3000, "and a second sentence"),
            segment(0, 1000, "a whole sentence"),
            segment(1000, 2000, "[BLANK_AUDIO]"),
        ];
        let settled = decide(stable, &[], Vec::new());
        let kept: Vec<i64> = settled.keep.iter().map(|segment| segment.start_ms).collect();
        assert_eq!(kept, [0, 2000]);
        assert_eq!(settled.drop[0].1, DropReason::Noise);
        assert!(settled.remapped.is_empty());
    }

    #[test]
    fn what_was_kept_already_is_not_kept_again() {
        let kept = [segment(0, 2000, "a whole sentence")];
        let settled = decide(vec![segment(500, 1500, "a whole sentence")], &kept, Vec::new());
        assert_eq!(settled.drop[0].1, DropReason::Duplicate);
    }

    #[test]
    fn a_speaker_found_at_the_last_look_is_a_change() {
        let start = SpeakerEvent {
            session_uid: "u".to_owned(),
            kind: SpeakerEventKind::Start,
            participant: "p".to_owned(),
            name: "Ann".to_owned(),
            at_ms: 0,
        };
        let mut sure = segment(2000, 3000, "she said it herself");
        sure.content.speaker = Some("Eve".to_owned());
        sure.speaker_status = SpeakerStatus::ProducerLabeled;
        let unsure = segment(0, 1000, "a whole sentence");
        let settled = decide(vec![unsure, sure], &[], vec![start]);
        assert_eq!(settled.keep[0].content.speaker.as_deref(), Some("Ann"));
        assert_eq!(settled.keep[1].content.speaker.as_deref(), Some("Eve"));
        assert_eq!(settled.remapped, [0]);
    }
}

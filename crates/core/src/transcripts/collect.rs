//! What a message about segments changes.
//!
//! Invariants: what is told again as it was changes nothing; an older telling never replaces a newer
//! one; a segment whose start moves by a little stays the segment it was, with the start it had.

mod matching;

use std::collections::BTreeMap;

use matching::Matches;

use super::message::ToldSegment;
use super::speakers::{SpeakerEvent, SpeakerTimeline};
use super::{Segment, SegmentContent, SegmentKey, SpeakerStatus, field_of};
use crate::Timestamp;

/// A producer without ids may move a segment's start by this much and still mean the same one.
pub const START_SHIFT_MS_MAX: i64 = 50;

/// Which segments of a session a message may be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    pub from_ms: i64,
    pub to_ms: i64,
    pub ids: Vec<String>,
}

/// The part of a session that has to be known before a message can be taken. `None` if it says
/// nothing.
pub fn reach_of(told: &[ToldSegment]) -> Option<Reach> {
    let from = told.iter().map(|segment| segment.start_ms).min()?;
    let to = told.iter().map(|segment| segment.start_ms).max()?;
    Some(Reach {
        from_ms: from - START_SHIFT_MS_MAX,
        to_ms: to + START_SHIFT_MS_MAX,
        ids: told.iter().filter_map(|segment| segment.segment_id.clone()).collect(),
    })
}

/// Where a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// It may still change.
    Live,
    /// The filter refused it; it is remembered so that it does not come back unchanged.
    Dropped,
    /// It is in the final table.
    Kept,
}

/// A segment that is known already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub segment: Segment,
    pub place: Place,
}

/// Who speaks in a session, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Speakers {
    pub events: Vec<SpeakerEvent>,
    /// Names that users have given to speakers of the meeting.
    pub names: BTreeMap<String, String>,
}

impl Speakers {
    pub fn who(&self, start_ms: i64, end_ms: i64) -> (Option<String>, SpeakerStatus) {
        self.on(&SpeakerTimeline::new(&self.events), start_ms, end_ms)
    }

    /// The same for several segments, with the timeline of the events.
    fn on(&self, timeline: &SpeakerTimeline<'_>, start_ms: i64, end_ms: i64) -> Voice {
        let (speaker, status) = timeline.map(start_ms, end_ms);
        (speaker.map(|name| self.renamed(name)), status)
    }

    pub fn renamed(&self, name: String) -> String {
        self.names.get(&name).cloned().unwrap_or(name)
    }
}

/// The segments that are new or different, each once, in the order they were told. Their `seq` is
/// given when the frame about them is stored.
pub fn collect(
    session_uid: Option<&str>,
    told: &[ToldSegment],
    mut known: Vec<Known>,
    speakers: &Speakers,
    version: i64,
    now: Timestamp,
) -> Vec<Known> {
    let timeline = SpeakerTimeline::new(&speakers.events);
    let voices: Vec<Voice> =
        told.iter().map(|segment| voice(segment, speakers, &timeline)).collect();
    let as_it_was =
        |known: &Known, place: usize| !changes(&known.segment, &told[place], &voices[place]);
    let mut matches = Matches::new(&known, told, as_it_was);
    let mut changed: Vec<usize> = Vec::new();
    let mut content_before: BTreeMap<usize, SegmentContent> = BTreeMap::new();
    for (place, segment) in told.iter().enumerate() {
        let index = if let Some(index) = matches.find(&known, segment, place) {
            let replaced = revise(&mut known[index], segment, &voices[place], version, now);
            let Some(replaced) = replaced else { continue };
            if !changed.contains(&index) {
                content_before.insert(index, replaced);
            }
            index
        } else {
            known.push(first(session_uid, segment, &voices[place], version, now));
            known.len() - 1
        };
        if !changed.contains(&index) {
            changed.push(index);
        }
    }
    // A message that tells the same segment twice may leave it as it was.
    changed.retain(|index| content_before.get(index) != Some(&known[*index].segment.content));
    let mut known: Vec<Option<Known>> = known.into_iter().map(Some).collect();
    changed.into_iter().filter_map(|index| known[index].take()).collect()
}

type Voice = (Option<String>, SpeakerStatus);

fn voice(told: &ToldSegment, speakers: &Speakers, timeline: &SpeakerTimeline<'_>) -> Voice {
    match &told.speaker {
        Some(name) => (Some(speakers.renamed(name.clone())), SpeakerStatus::ProducerLabeled),
        None => speakers.on(timeline, told.start_ms, told.end_ms),
    }
}

fn first(
    session_uid: Option<&str>,
    told: &ToldSegment,
    (speaker, speaker_status): &Voice,
    version: i64,
    now: Timestamp,
) -> Known {
    let start = field_of(told.start_ms);
    let field = match &told.segment_id {
        Some(id) => format!("{start}#{id}"),
        None => start,
    };
    let segment = Segment {
        key: SegmentKey { session_uid: session_uid.map(ToOwned::to_owned), field },
        segment_id: told.segment_id.clone(),
        start_ms: told.start_ms,
        content: SegmentContent {
            text: told.text.clone(),
            speaker: speaker.clone(),
            language: told.language.clone(),
            end_ms: told.end_ms,
        },
        speaker_status: *speaker_status,
        completed: told.completed,
        version,
        created_at: now,
        updated_at: now,
        seq: 0,
    };
    Known { segment, place: Place::Live }
}

/// Whether a segment would be rendered differently as it is told now.
fn changes(segment: &Segment, told: &ToldSegment, voice: &Voice) -> bool {
    let content = &segment.content;
    content.end_ms != end_of(segment, told)
        || content.text != told.text
        || content.language != told.language
        || (!forgets(segment, voice) && content.speaker != voice.0)
}

/// Events are kept for a while only: their absence is no reason to forget who spoke.
fn forgets(segment: &Segment, (_, status): &Voice) -> bool {
    status.is_uncertain() && !segment.speaker_status.is_uncertain()
}

/// It keeps its start, so it must not end before that.
fn end_of(segment: &Segment, told: &ToldSegment) -> i64 {
    told.end_ms.max(segment.start_ms + 1)
}

/// What was rendered before, if that has changed. If not, nothing has.
fn revise(
    known: &mut Known,
    told: &ToldSegment,
    voice: &Voice,
    version: i64,
    now: Timestamp,
) -> Option<SegmentContent> {
    let segment = &mut known.segment;
    if version < segment.version || !changes(segment, told, voice) {
        return None;
    }
    let (speaker, status) = if forgets(segment, voice) {
        (segment.content.speaker.clone(), segment.speaker_status)
    } else {
        voice.clone()
    };
    let content = SegmentContent {
        text: told.text.clone(),
        speaker,
        language: told.language.clone(),
        end_ms: end_of(segment, told),
    };
    let replaced = std::mem::replace(&mut segment.content, content);
    segment.speaker_status = status;
    segment.completed = told.completed;
    segment.version = version;
    segment.updated_at = now;
    // What has changed is looked at anew by the filter.
    if known.place == Place::Dropped {
        known.place = Place::Live;
    }
    Some(replaced)
}

#[cfg(test)]
mod tests;

//! Segments between rows and the types of `roundsman_core`, and the decisions about them that both
//! adapters must make alike.
//!
//! Invariant: what is planned here is written as it is, in one transaction. A line gets its place in
//! the stream (`seq`) from the last of the frames that tell of it, so frames are stored first.

use std::collections::{BTreeMap, HashMap, HashSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::{Frame, FrameChannel, NewFrame};
use roundsman_core::ports::{MessageAnswer, Rename, SettledSegments, StoreError, Taken};
use roundsman_core::transcripts::{
    DropReason, Known, Line, Place, Published, SPEAKER_EVENTS_READ_MAX, Segment, SegmentContent,
    SegmentKey, SeqRange, SpeakerEvent, SpeakerEventKind, SpeakerStatus, Speakers, TIME_MS_MAX,
    TranscriptionFilter, bare_uid, field_of, millis_of, mutable_frames, retracted_frames, settle,
};

use super::inconsistent;

pub(crate) const LIVE: &str = "live_segments";
pub(crate) const KEPT: &str = "kept_segments";
pub(crate) const SPEAKER_EVENTS: &str = "speaker_events";
const FRAME_STREAMS: &str = "frame_streams";

/// A segment that is live and final at once.
pub(crate) const SEGMENT_IN_ONE_PLACE: &str = "segment_in_one_place";
/// What is known of a final segment that is not there.
pub(crate) const KEPT_IS_FINAL: &str = "kept_is_final";
/// A meeting with live segments that nobody would look for.
pub(crate) const LIVE_IS_ACTIVE: &str = "live_is_active";
/// A segment that was told of by a frame that never was.
pub(crate) const SEGMENT_WAS_TOLD: &str = "segment_was_told";

/// How a session is called in our tables: producers that do not say have an empty name there.
/// `transcriptions` has NULL for them.
pub(crate) fn session_to_column(session_uid: Option<&str>) -> &str {
    session_uid.unwrap_or_default()
}

pub(crate) fn session_from_column(session_uid: String) -> Option<String> {
    (!session_uid.is_empty()).then_some(session_uid)
}

/// A row of `live_segments`.
#[derive(Debug)]
pub(crate) struct LiveColumns {
    pub(crate) session_uid: String,
    pub(crate) text: String,
    pub(crate) speaker: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) facts: SegmentFacts,
}

/// A row of `transcriptions`, whoever wrote it.
#[derive(Debug)]
pub(crate) struct FinalColumns {
    pub(crate) session_uid: Option<String>,
    /// Seconds.
    pub(crate) start_time: f64,
    pub(crate) end_time: f64,
    pub(crate) text: String,
    pub(crate) speaker: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) created_at: Timestamp,
}

/// What `live_segments` and `kept_segments` have in common.
#[derive(Debug)]
pub(crate) struct SegmentFacts {
    pub(crate) field: String,
    pub(crate) segment_id: Option<String>,
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    pub(crate) speaker_status: String,
    pub(crate) completed: Option<bool>,
    pub(crate) version: i64,
    pub(crate) updated_at: Timestamp,
    pub(crate) seq: i64,
}

impl LiveColumns {
    pub(crate) fn into_segment(self, meeting: MeetingId) -> Result<Segment, StoreError> {
        let content = (self.text, self.speaker, self.language);
        let session_uid = session_from_column(self.session_uid);
        self.facts.into_segment(LIVE, meeting, session_uid, content, self.created_at)
    }
}

impl FinalColumns {
    /// `kept` is the row of `kept_segments`; without one the row is somebody else's.
    pub(crate) fn into_segment(
        self,
        meeting: MeetingId,
        kept: Option<SegmentFacts>,
    ) -> Result<Segment, StoreError> {
        let facts = kept.unwrap_or_else(|| self.foreign_facts());
        let session_uid = self.session_uid.filter(|uid| !uid.is_empty());
        let content = (self.text, self.speaker, self.language);
        facts.into_segment(KEPT, meeting, session_uid, content, self.created_at)
    }
}

impl FinalColumns {
    /// What can be said of a row that somebody else wrote.
    fn foreign_facts(&self) -> SegmentFacts {
        let start_ms = foreign_millis(self.start_time);
        let status = match self.speaker {
            Some(_) => SpeakerStatus::Mapped,
            None => SpeakerStatus::Unknown,
        };
        SegmentFacts {
            field: field_of(start_ms),
            segment_id: None,
            start_ms,
            end_ms: foreign_millis(self.end_time),
            speaker_status: status.as_str().to_owned(),
            completed: None,
            version: 0,
            updated_at: self.created_at,
            seq: 0,
        }
    }
}

impl SegmentFacts {
    fn into_segment(
        self,
        table: &'static str,
        meeting: MeetingId,
        session_uid: Option<String>,
        (text, speaker, language): (String, Option<String>, Option<String>),
        created_at: Timestamp,
    ) -> Result<Segment, StoreError> {
        let speaker_status = SpeakerStatus::parse(&self.speaker_status).ok_or_else(|| {
            let reason = format!("{:?} is no status", self.speaker_status);
            inconsistent(table, "speaker_status", meeting.get(), reason)
        })?;
        Ok(Segment {
            key: SegmentKey { session_uid, field: self.field },
            segment_id: self.segment_id,
            start_ms: self.start_ms,
            content: SegmentContent { text, speaker, language, end_ms: self.end_ms },
            speaker_status,
            completed: self.completed,
            version: self.version,
            created_at,
            updated_at: self.updated_at,
            seq: self.seq,
        })
    }
}

/// Others wrote whatever they liked; such a row is still read.
fn foreign_millis(seconds: f64) -> i64 {
    millis_of(seconds).unwrap_or(if seconds > 0.0 { TIME_MS_MAX } else { 0 })
}

/// An event of `speaker_events`. `meeting` only names the row if it cannot be read.
pub(crate) fn speaker_event(
    session_uid: &str,
    at_ms: i64,
    kind: &str,
    participant: String,
    name: String,
    meeting: MeetingId,
) -> Result<SpeakerEvent, StoreError> {
    let kind = SpeakerEventKind::parse(kind).ok_or_else(|| {
        inconsistent(SPEAKER_EVENTS, "kind", meeting.get(), format!("{kind:?} is no event"))
    })?;
    let session_uid = session_uid.to_owned();
    Ok(SpeakerEvent { session_uid, kind, participant, name, at_ms })
}

/// The latest of a session's events: those that came with the meeting and those that came without
/// one are read apart, at most [`SPEAKER_EVENTS_READ_MAX`] of each.
pub(crate) fn latest_events(mut events: Vec<SpeakerEvent>) -> Vec<SpeakerEvent> {
    let rows_max = SPEAKER_EVENTS_READ_MAX as usize;
    if events.len() > rows_max {
        events.sort_by(|a, b| {
            let order = |event: &SpeakerEvent| (event.at_ms, event.kind);
            order(b).cmp(&order(a)).then_with(|| b.participant.cmp(&a.participant))
        });
        events.truncate(rows_max);
    }
    events
}

/// When the sessions of a meeting started, by the rows of `meeting_sessions`.
#[derive(Debug, Default)]
pub(crate) struct SessionStarts {
    by_uid: BTreeMap<String, Timestamp>,
    /// Some rows have the platform before the uid.
    by_bare_uid: HashMap<String, Timestamp>,
}

impl SessionStarts {
    pub(crate) fn new(rows: impl IntoIterator<Item = (String, Timestamp)>) -> Self {
        let by_uid: BTreeMap<String, Timestamp> = rows.into_iter().collect();
        let mut by_bare_uid = HashMap::new();
        for (uid, start) in &by_uid {
            by_bare_uid.entry(bare_uid(uid).to_owned()).or_insert(*start);
        }
        SessionStarts { by_uid, by_bare_uid }
    }

    /// Segments that name no session have no start.
    pub(crate) fn of(&self, session_uid: Option<&str>) -> Option<Timestamp> {
        let uid = session_uid?;
        self.by_uid.get(uid).or_else(|| self.by_bare_uid.get(bare_uid(uid))).copied()
    }

    /// The same with one start changed.
    pub(crate) fn with(&self, session_uid: &str, start: Timestamp) -> Self {
        let mut by_uid = self.by_uid.clone();
        by_uid.insert(session_uid.to_owned(), start);
        Self::new(by_uid)
    }

    pub(crate) fn live_line(&self, segment: Segment) -> Line {
        self.line(segment, false)
    }

    pub(crate) fn kept_line(&self, segment: Segment) -> Line {
        self.line(segment, true)
    }

    fn line(&self, segment: Segment, kept: bool) -> Line {
        let session_start = self.of(segment.key.session_uid.as_deref());
        Line { segment, session_start, kept }
    }
}

/// What is known of a session's segments, in an order that is the same in both databases: of two
/// that are as close to what is told, the first is meant.
pub(crate) fn in_known_order(mut known: Vec<Known>) -> Vec<Known> {
    known.sort_by(|a, b| {
        let starts = a.segment.start_ms.cmp(&b.segment.start_ms);
        starts.then_with(|| a.segment.key.field.cmp(&b.segment.key.field))
    });
    known
}

/// Segments that have changed as lines, in the same order. None of them is dropped.
pub(crate) fn changed_lines(changed: Vec<Known>, session_start: Option<Timestamp>) -> Vec<Line> {
    let line = |known: Known| Line {
        segment: known.segment,
        session_start,
        kept: known.place == Place::Kept,
    };
    changed.into_iter().map(line).collect()
}

/// The lines that get other absolute times when the sessions started as in `after`, with these.
/// `known` are all segments of a meeting: live ones by their keys, then kept ones by their numbers.
pub(crate) fn moved(
    mut known: Vec<Known>,
    before: &SessionStarts,
    after: &SessionStarts,
) -> Vec<Line> {
    known.retain(|known| {
        let session = known.segment.key.session_uid.as_deref();
        known.place != Place::Dropped && before.of(session) != after.of(session)
    });
    let line = |known: Known| after.line(known.segment, known.place == Place::Kept);
    in_known_order(known).into_iter().map(line).collect()
}

/// What a message that brings the start of its session changes in no other way: lines that are
/// [`moved`] without those that it has changed.
pub(crate) fn only_moved(moved: Vec<Line>, changed: &[Line]) -> Vec<Line> {
    let keys: HashSet<&SegmentKey> = changed.iter().map(|line| &line.segment.key).collect();
    moved.into_iter().filter(|line| !keys.contains(&line.segment.key)).collect()
}

/// Gives lines the place of the last of the frames that tell of them.
pub(crate) fn told_by(lines: &mut [Line], frames: &[Frame]) {
    if let Some(last) = frames.last() {
        for line in lines {
            line.segment.seq = last.seq;
        }
    }
}

/// What a message has changed. `lines` were told of by `frames`.
pub(crate) fn taken(
    lines: Vec<Line>,
    frames: Vec<Frame>,
    session_start: Option<Timestamp>,
) -> MessageAnswer {
    let changed = count_of(lines.len());
    let live = lines.into_iter().filter(|line| !line.kept).collect();
    MessageAnswer::Taken(Taken { changed, frames, live, session_start })
}

/// From where to where the segments of each session reach: final ones that begin before the end and
/// end after the beginning are what the filter compares them with.
pub(crate) fn spans_of(segments: &[Segment]) -> BTreeMap<Option<String>, (i64, i64)> {
    let mut spans: BTreeMap<Option<String>, (i64, i64)> = BTreeMap::new();
    for segment in segments {
        let (start, end) = (segment.start_ms, segment.content.end_ms);
        spans
            .entry(segment.key.session_uid.clone())
            .and_modify(|span| *span = (span.0.min(start), span.1.max(end)))
            .or_insert((start, end));
    }
    spans
}

/// What becomes of the stable segments of a meeting.
#[derive(Debug)]
pub(crate) struct SettlePlan {
    /// To be moved to the final table, in this order.
    pub(crate) keep: Vec<Line>,
    /// To be remembered as dropped.
    pub(crate) drop: Vec<Line>,
    /// Places in `keep` of those whose speaker was found now.
    remapped: Vec<usize>,
    reasons: BTreeMap<DropReason, u32>,
}

impl SettlePlan {
    pub(crate) fn new(
        stable: Vec<Segment>,
        kept: &[Segment],
        speakers: &BTreeMap<Option<String>, Speakers>,
        filter: &TranscriptionFilter,
        starts: &SessionStarts,
        now: Timestamp,
    ) -> Self {
        let settled = settle(stable, kept, speakers, filter);
        let mut keep: Vec<Line> =
            settled.keep.into_iter().map(|segment| starts.kept_line(segment)).collect();
        for index in &settled.remapped {
            keep[*index].segment.updated_at = now;
        }
        let mut reasons = BTreeMap::new();
        let mut drop = Vec::with_capacity(settled.drop.len());
        for (mut segment, reason) in settled.drop {
            *reasons.entry(reason).or_default() += 1;
            segment.updated_at = now;
            drop.push(starts.live_line(segment));
        }
        SettlePlan { keep, drop, remapped: settled.remapped, reasons }
    }

    /// To be stored first, in this order: what was found about speakers, and what is gone. The
    /// number says how many of them are about speakers.
    pub(crate) fn frames(&self, meeting: MeetingId, now: Timestamp) -> (Vec<NewFrame>, usize) {
        let remapped: Vec<Line> =
            self.remapped.iter().map(|index| self.keep[*index].clone()).collect();
        let mut frames = mutable_frames(meeting, &remapped, now);
        let about_speakers = frames.len();
        frames.extend(retracted_frames(meeting, &self.drop, now));
        (frames, about_speakers)
    }

    /// Gives the lines that the frames tell of their place.
    pub(crate) fn told_by(&mut self, frames: &[Frame], about_speakers: usize) {
        let (speakers, gone) = frames.split_at(about_speakers);
        for index in &self.remapped {
            told_by(&mut self.keep[*index..=*index], speakers);
        }
        told_by(&mut self.drop, gone);
    }

    /// `sessions` are all of the meeting's, once nothing is `left`.
    pub(crate) fn answer(
        self,
        frames: Vec<Frame>,
        left: u64,
        sessions: Vec<String>,
    ) -> SettledSegments {
        let kept = count_of(self.keep.len());
        let lines = self.keep.into_iter().chain(self.drop);
        SettledSegments {
            kept,
            dropped: self.reasons,
            frames,
            gone: lines.map(|line| line.segment.key).collect(),
            left,
            sessions,
        }
    }
}

/// The names of a meeting's speakers after one was given another name. A name that is looked up
/// must lead to the last name at once, so those that led to `from` lead to `to`.
pub(crate) fn renamed(
    names: BTreeMap<String, String>,
    rename: &Rename,
) -> BTreeMap<String, String> {
    let mut renamed: BTreeMap<String, String> = names
        .into_iter()
        .map(|(name, shown_as)| {
            let shown_as = if shown_as == rename.from { rename.to.clone() } else { shown_as };
            (name, shown_as)
        })
        .collect();
    renamed.insert(rename.from.clone(), rename.to.clone());
    renamed.retain(|name, shown_as| name != shown_as);
    renamed
}

/// The lines of a speaker who is given another name, with it. Rows of somebody else come last, and
/// have no place for when they changed. `lines` are live ones by their keys, then final ones by their
/// numbers.
pub(crate) fn rename_lines(mut lines: Vec<Line>, rename: &Rename, now: Timestamp) -> Vec<Line> {
    if rename.from == rename.to {
        return Vec::new();
    }
    let is_foreign = |line: &Line| line.kept && line.segment.seq == 0;
    lines.retain(|line| line.segment.content.speaker.as_ref() == Some(&rename.from));
    for line in &mut lines {
        line.segment.content.speaker = Some(rename.to.clone());
        if !is_foreign(line) {
            line.segment.updated_at = now;
        }
    }
    let (foreign, mut ours): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(is_foreign);
    ours.sort_by(|a, b| {
        let starts = a.segment.start_ms.cmp(&b.segment.start_ms);
        starts.then_with(|| a.segment.key.field.cmp(&b.segment.key.field))
    });
    ours.extend(foreign);
    ours
}

/// Up to where the frames of a meeting go when what was said in it is deleted: the last of them that
/// tells of it, given from the newest to the oldest. Those before it that tell of something else go
/// too, so that the ones that stay have no hole among them.
pub(crate) fn last_said(frames: impl IntoIterator<Item = Frame>) -> Option<i64> {
    frames
        .into_iter()
        .find(|frame| frame.channel() == FrameChannel::Transcript)
        .map(|frame| frame.seq)
}

/// The ranges that were handed on, by the name of their stream and in order: that is how streams are
/// locked.
pub(crate) fn by_stream(ranges: &[(MeetingId, SeqRange)]) -> BTreeMap<String, Vec<SeqRange>> {
    let mut by_stream: BTreeMap<String, Vec<SeqRange>> = BTreeMap::new();
    for (meeting, range) in ranges {
        by_stream.entry(stream_of(*meeting)).or_default().push(*range);
    }
    for ranges in by_stream.values_mut() {
        ranges.sort_unstable();
    }
    by_stream
}

/// What is stored of what was handed on of a stream.
pub(crate) fn published(stream: &str, up_to: i64, ahead: &str) -> Result<Published, StoreError> {
    Published::from_stored(up_to, ahead).map_err(|error| {
        // The row is named by its meeting.
        let meeting = stream.rsplit(':').next().and_then(|id| id.parse().ok()).unwrap_or(0);
        inconsistent(FRAME_STREAMS, "published_ahead", meeting, error.to_string())
    })
}

fn count_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

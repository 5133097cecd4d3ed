//! A transcript as it is read: the shape that clients of the Vexa API know, plus our own members.
//!
//! Invariant: whoever reads a transcript and then asks, again and again, for what is new since
//! `next_since` has all of it: no change falls between two answers.

use axum::http::HeaderMap;
use axum::http::header::IF_NONE_MATCH;
use roundsman_core::ports::{MeetingRow, Transcript};
use roundsman_core::transcripts::{
    ExportFormat, ExportMeeting, Line, export, in_order, line_body, retracted_body, without_repeats,
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::meeting::meeting_view;
use super::safe_name;
use crate::problem::{Place, Problem};

/// Segments in one answer, if it is cut at all.
const SEGMENTS_MAX: u32 = 10_000;

/// What was said in a meeting.
#[derive(ToSchema)]
#[schema(as = Transcript)]
#[expect(dead_code, reason = "describes what transcript_view makes, for the OpenAPI document")]
pub(crate) struct TranscriptShape {
    /// The meeting's number.
    #[schema(example = 7)]
    id: i64,
    #[schema(example = "google_meet")]
    platform: String,
    /// `null` once the meeting was anonymised.
    #[schema(example = "abc-defg-hij")]
    native_meeting_id: Option<String>,
    #[schema(example = "https://meet.google.com/abc-defg-hij")]
    constructed_meeting_url: Option<String>,
    /// In Vexa's words.
    #[schema(example = "active")]
    status: String,
    /// In ours.
    #[schema(example = "active")]
    state: String,
    /// UTC, without a zone.
    #[schema(example = "2026-01-31T12:00:00.000000")]
    start_time: Option<String>,
    end_time: Option<String>,
    /// In the order they were said.
    segments: Vec<SegmentShape>,
    /// Segments that are no longer there; only with `since`.
    retracted: Vec<RetractedShape>,
    /// The place of the meeting's last frame.
    #[schema(example = 42)]
    seq: i64,
    /// Send this as `since` for what is new.
    #[schema(example = 42)]
    next_since: i64,
    /// The answer was cut by `limit`.
    more: bool,
}

/// One stretch of speech.
#[derive(ToSchema)]
#[schema(as = Segment)]
#[expect(dead_code, reason = "describes what line_body makes, for the OpenAPI document")]
pub(crate) struct SegmentShape {
    /// Seconds from the start of its session.
    #[schema(example = 12.34)]
    start: f64,
    #[schema(example = 15.1)]
    end: f64,
    #[schema(example = "Good morning.")]
    text: String,
    #[schema(example = "en")]
    language: Option<String>,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    created_at: String,
    #[schema(example = "Ada")]
    speaker: Option<String>,
    /// The same string as in frames; `null` if nobody knows when its session started.
    #[schema(example = "2026-01-31T12:00:12.340000+00:00")]
    absolute_start_time: Option<String>,
    #[schema(example = "2026-01-31T12:00:15.100000+00:00")]
    absolute_end_time: Option<String>,
    /// The producer says that it will not change it any more.
    completed: Option<bool>,
    /// The producer's own name for it.
    segment_id: Option<String>,
    session_uid: Option<String>,
    #[schema(example = "2026-01-31T12:00:16.000000+00:00")]
    updated_at: String,
    #[schema(example = "MAPPED")]
    speaker_mapping_status: String,
    /// The frame that told of its last change; 0 if none did.
    #[schema(example = 41)]
    seq: i64,
}

/// A segment that is no longer there.
#[derive(ToSchema)]
#[schema(as = RetractedSegment)]
#[expect(dead_code, reason = "describes what retracted_body makes, for the OpenAPI document")]
pub(crate) struct RetractedShape {
    session_uid: Option<String>,
    #[schema(example = 12.34)]
    start: f64,
    absolute_start_time: Option<String>,
    segment_id: Option<String>,
}

/// Which part of a transcript.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TranscriptQuery {
    /// Only what has changed after this place: `next_since` of the answer before.
    #[param(minimum = 0)]
    since: Option<i64>,
    /// About this many segments, those that changed first; never only a part of one frame.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<u32>,
    /// Leave out what overlaps its neighbour and says the same; only for a whole transcript.
    #[param(default = true)]
    dedupe: Option<bool>,
}

/// Where to begin.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only what comes after this place; without it, what comes from now on. The header
    /// `Last-Event-ID` counts more.
    #[param(minimum = 0)]
    since: Option<i64>,
}

/// As which file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// `txt`, `srt`, `vtt`, `json`, `csv` or `md`.
    #[param(default = "txt", example = "srt")]
    format: Option<String>,
}

/// A transcript ready to be sent.
pub(crate) struct TranscriptView {
    pub(crate) body: Value,
    /// Without `W/`.
    tag: String,
}

/// A transcript as a file.
pub(crate) struct ExportView {
    pub(crate) text: String,
    pub(crate) file_name: String,
}

impl TranscriptQuery {
    pub(crate) fn check(self) -> Result<Self, Problem> {
        check_since(self.since)?;
        if self.limit.is_some_and(|limit| !(1..=SEGMENTS_MAX).contains(&limit)) {
            let words = format!("must be from 1 to {SEGMENTS_MAX}");
            return Err(Problem::field("limit", words).at(Place::Query));
        }
        Ok(self)
    }

    pub(crate) fn since(self) -> Option<i64> {
        self.since
    }
}

impl EventsQuery {
    pub(crate) fn since(&self) -> Result<Option<i64>, Problem> {
        check_since(self.since)
    }
}

fn check_since(since: Option<i64>) -> Result<Option<i64>, Problem> {
    if since.is_some_and(|seq| seq < 0) {
        return Err(Problem::field("since", "must be from 0 on").at(Place::Query));
    }
    Ok(since)
}

impl ExportQuery {
    pub(crate) fn format(&self) -> Result<ExportFormat, Problem> {
        let text = self.format.as_deref().unwrap_or("txt");
        ExportFormat::parse(text)
            .map_err(|error| Problem::field("format", error.to_string()).at(Place::Query))
    }
}

impl TranscriptView {
    pub(crate) fn new(transcript: Transcript, query: TranscriptQuery) -> Self {
        let whole = query.since.is_none() && query.limit.is_none();
        let Transcript { row, seq, lines, retracted } = transcript;
        let Cut { lines, retracted, next_since, more } = cut(lines, retracted, seq, query.limit);
        let lines = in_order(lines);
        let all = lines.len();
        let lines =
            if whole && query.dedupe != Some(false) { without_repeats(lines) } else { lines };
        let mut body = head(&row);
        body["seq"] = json!(seq);
        body["next_since"] = json!(next_since);
        body["more"] = json!(more);
        // Rows that somebody else writes into the table have no frames; their number tells of them.
        let tag = format!(
            "{}-{seq}-{:x}",
            row.meeting.id,
            fingerprint(&format!("{body} {all} {} {query:?}", retracted.len()))
        );
        body["segments"] = lines.iter().map(line_body).collect();
        body["retracted"] = retracted.iter().map(retracted_body).collect();
        TranscriptView { body, tag }
    }

    /// Not of the bytes but of what they say: a segment's `created_at` moves once, when it becomes
    /// final.
    pub(crate) fn etag(&self) -> String {
        format!("W/\"{}\"", self.tag)
    }

    /// Whether the client has this already.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        known.flat_map(|text| text.split(',')).any(|tag| {
            let tag = tag.trim();
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"') == self.tag
        })
    }
}

impl ExportView {
    pub(crate) fn new(transcript: Transcript, format: ExportFormat) -> Self {
        let Transcript { row, lines, .. } = transcript;
        let meeting = &row.meeting;
        let name = meeting.data.to_value()["name"].as_str().map(str::to_owned);
        let id = meeting.native_id.clone().unwrap_or_else(|| meeting.id.to_string());
        let about = ExportMeeting {
            title: name.unwrap_or_else(|| format!("{} {id}", meeting.platform)),
            platform: meeting.platform.clone(),
            native_id: meeting.native_id.clone(),
            start_time: meeting.start_time,
        };
        let lines = without_repeats(in_order(lines));
        let file_name = safe_name(&format!("transcript-{}-{id}", meeting.platform));
        ExportView {
            text: export(&about, &lines, format),
            file_name: format!("{file_name}.{}", format.extension()),
        }
    }
}

/// All lines of a transcript, as a list.
pub(crate) fn segment_list(transcript: Transcript) -> Vec<Value> {
    without_repeats(in_order(transcript.lines)).iter().map(line_body).collect()
}

/// What a transcript says of its meeting.
fn head(row: &MeetingRow) -> Value {
    let mut meeting = meeting_view(row);
    let members = [
        "id",
        "platform",
        "native_meeting_id",
        "constructed_meeting_url",
        "status",
        "state",
        "start_time",
        "end_time",
    ];
    members.into_iter().map(|name| (name.to_owned(), meeting[name].take())).collect()
}

/// One answer's part.
struct Cut {
    lines: Vec<Line>,
    retracted: Vec<Line>,
    next_since: i64,
    more: bool,
}

/// Those that changed first, at least `limit` of them. What one frame told of is never cut in two:
/// the next answer begins after a frame.
fn cut(lines: Vec<Line>, retracted: Vec<Line>, seq: i64, limit: Option<u32>) -> Cut {
    let whole = |lines, retracted| Cut { lines, retracted, next_since: seq, more: false };
    let Some(limit) = limit.map(|limit| limit as usize) else { return whole(lines, retracted) };
    let mut seqs: Vec<i64> = lines.iter().chain(&retracted).map(|line| line.segment.seq).collect();
    if seqs.len() <= limit {
        return whole(lines, retracted);
    }
    seqs.sort_unstable();
    let last = seqs[limit - 1];
    if seqs.last() == Some(&last) {
        return whole(lines, retracted);
    }
    let until = |lines: Vec<Line>| -> Vec<Line> {
        lines.into_iter().filter(|line| line.segment.seq <= last).collect()
    };
    Cut { lines: until(lines), retracted: until(retracted), next_since: last, more: true }
}

/// FNV-1a: tells texts apart, and is the same on every node and in every release.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use roundsman_core::Timestamp;
    use roundsman_core::transcripts::{Segment, SegmentContent, SegmentKey, SpeakerStatus};

    use super::*;

    fn line(start_ms: i64, seq: i64) -> Line {
        let key = SegmentKey { session_uid: Some("s".to_owned()), field: start_ms.to_string() };
        let content = SegmentContent {
            text: "x".to_owned(),
            speaker: None,
            language: None,
            end_ms: start_ms + 1,
        };
        let segment = Segment {
            key,
            segment_id: None,
            start_ms,
            content,
            speaker_status: SpeakerStatus::Mapped,
            completed: None,
            version: 1,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            seq,
        };
        Line { segment, session_start: None, kept: false }
    }

    fn starts(cut: &Cut) -> (Vec<i64>, Vec<i64>, i64, bool) {
        let starts = |lines: &[Line]| lines.iter().map(|line| line.segment.start_ms).collect();
        (starts(&cut.lines), starts(&cut.retracted), cut.next_since, cut.more)
    }

    #[test]
    fn a_part_ends_after_a_whole_frame() {
        let lines = || vec![line(1, 5), line(2, 0), line(3, 7), line(4, 5), line(5, 0)];
        let retracted = || vec![line(6, 6)];
        let all = (vec![1, 2, 3, 4, 5], vec![6], 9, false);
        let cases = [
            (None, all.clone()),
            (Some(6), all.clone()),
            (Some(100), all),
            (Some(1), (vec![2, 5], vec![], 0, true)),
            (Some(2), (vec![2, 5], vec![], 0, true)),
            (Some(3), (vec![1, 2, 4, 5], vec![], 5, true)),
            (Some(5), (vec![1, 2, 4, 5], vec![6], 6, true)),
        ];
        for (limit, expected) in cases {
            assert_eq!(starts(&cut(lines(), retracted(), 9, limit)), expected, "{limit:?}");
        }
        let one_frame = cut(vec![line(1, 5), line(2, 5)], vec![], 9, Some(1));
        assert_eq!(starts(&one_frame), (vec![1, 2], vec![], 9, false));
    }
}

//! What an endpoint answers: a text, mostly with the times of its parts.
//!
//! Servers differ: times are numbers or texts, or missing; some answer with the text alone.

use roundsman_core::recordings::HeardSegment;
use serde_json::Value;

/// Nothing lasts longer, and times beyond it are none.
const SECS_MAX: f64 = 30.0 * 24.0 * 3600.0;

/// What was heard; `None` if the answer cannot be understood.
pub(super) fn segments(body: &[u8]) -> Option<Vec<HeardSegment>> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let whole = answer.get("text").and_then(Value::as_str);
    match answer.get("segments") {
        Some(Value::Array(segments)) if !segments.is_empty() => Some(timed(segments)),
        // Nothing was said.
        Some(Value::Array(_)) if whole.is_none_or(|text| text.trim().is_empty()) => {
            Some(Vec::new())
        }
        _ => {
            let text = whole?.to_owned();
            // Without a duration either, whoever asked knows how long it is.
            let end_ms = answer.get("duration").and_then(millis).unwrap_or(0);
            let said = HeardSegment { start_ms: 0, end_ms, text };
            Some(if said.text.trim().is_empty() { Vec::new() } else { vec![said] })
        }
    }
}

/// What an answer says went wrong, in a few words.
pub(super) fn error_message(body: &[u8], chars_max: usize) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let places = ["/error/message", "/error", "/detail", "/message"];
    let told = places.iter().find_map(|place| answer.pointer(place)?.as_str());
    let text = told.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    text.trim().chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

/// A segment that does not say when it was, was when the one before it ended.
fn timed(segments: &[Value]) -> Vec<HeardSegment> {
    let mut heard: Vec<HeardSegment> = Vec::with_capacity(segments.len());
    for segment in segments {
        let Some(text) = segment.get("text").and_then(Value::as_str) else { continue };
        let before = heard.last().map_or(0, |before| before.end_ms);
        let start_ms = segment.get("start").and_then(millis).unwrap_or(before);
        let end_ms = segment.get("end").and_then(millis).unwrap_or(start_ms).max(start_ms);
        heard.push(HeardSegment { start_ms, end_ms, text: text.to_owned() });
    }
    heard
}

/// Seconds, as a number or a text, in milliseconds.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
fn millis(value: &Value) -> Option<i64> {
    let secs = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (0.0..SECS_MAX).contains(&secs).then(|| (secs * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<Vec<(i64, i64, String)>> {
        let heard = segments(body.as_bytes())?;
        Some(heard.into_iter().map(|s| (s.start_ms, s.end_ms, s.text)).collect())
    }

    #[test]
    fn segments_are_read_however_they_are_written() {
        let usual = r#"{"task":"transcribe","language":"english","duration":4.2,"text":"Hi. Bye.",
            "segments":[{"id":0,"start":0.0,"end":1.48,"text":" Hi.","tokens":[1]},
                        {"id":1,"start":2.0004,"end":4.2,"text":" Bye."}]}"#;
        let expected = vec![(0, 1480, " Hi.".to_owned()), (2000, 4200, " Bye.".to_owned())];
        assert_eq!(read(usual), Some(expected));
        let odd = r#"{"segments":[{"start":"1.5","text":"a"},{"end":3,"text":"b"},{"start":null},
            {"start":-1,"end":1e99,"text":"c"},{"start":9,"end":8,"text":"d"}]}"#;
        let expected = [(1500, 1500, "a"), (1500, 3000, "b"), (3000, 3000, "c"), (9000, 9000, "d")];
        let expected = expected.map(|(start, end, text)| (start, end, text.to_owned()));
        assert_eq!(read(odd), Some(expected.to_vec()));
    }

    #[test]
    fn a_text_without_segments_is_one_segment() {
        let one = |end| Some(vec![(0, end, "all of it".to_owned())]);
        assert_eq!(read(r#"{"text":"all of it","duration":"12.5"}"#), one(12_500));
        assert_eq!(read(r#"{"text":"all of it","segments":[],"duration":3}"#), one(3000));
        assert_eq!(read(r#"{"text":"all of it","segments":null}"#), one(0));
        for nothing in [r#"{"text":"  "}"#, r#"{"text":"","segments":[]}"#, r#"{"segments":[]}"#] {
            assert_eq!(read(nothing), Some(vec![]), "{nothing}");
        }
    }

    #[test]
    fn nonsense_is_no_transcript() {
        for odd in ["", "WEBVTT", "[]", "{}", r#"{"segments":3}"#, r#"{"text":3}"#, "null"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_went_wrong_is_found() {
        let cases = [
            (r#"{"error":{"message":"no such model","type":"x"}}"#, "no such model"),
            (r#"{"error":"bad"}"#, "bad"),
            (r#"{"detail":"not found"}"#, "not found"),
            (r#"{"detail":[1]}"#, r#"{"detail":[1]"#),
            ("<html>\n", "<html>"),
            ("", ""),
        ];
        for (body, message) in cases {
            assert_eq!(error_message(body.as_bytes(), 13), message, "{body}");
        }
    }
}

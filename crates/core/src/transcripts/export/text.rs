//! What all formats share: when a line is said in the file, and text that cannot break a line.

use crate::Timestamp;
use crate::transcripts::Line;

/// A line as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spoken {
    /// From the start of the first session.
    pub(super) from_ms: i64,
    /// Later than `from_ms`.
    pub(super) to_ms: i64,
    pub(super) speaker: Option<String>,
    /// Not empty, and without line breaks.
    pub(super) text: String,
}

impl Spoken {
    pub(super) fn with_speaker(&self) -> String {
        match &self.speaker {
            Some(speaker) => format!("{speaker}: {}", self.text),
            None => self.text.clone(),
        }
    }
}

/// The lines that have a text, in the order given. A line whose session has no known start keeps its
/// time within the session.
pub(super) fn spoken(lines: &[Line]) -> Vec<Spoken> {
    let first_start = lines.iter().filter_map(|line| line.session_start).min();
    lines.iter().filter_map(|line| speak(line, first_start)).collect()
}

/// `HH:MM:SS`.
pub(super) fn clock(ms: i64) -> String {
    let seconds = ms / 1000;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// One line without control characters. Whitespace of any kind becomes single spaces, because a line
/// break would begin a new line, cell or cue.
pub(super) fn one_line(text: &str) -> String {
    let visible: String = text.chars().filter(|c| c.is_whitespace() || !is_control(*c)).collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Characters that are not text. Those that turn the direction of what follows are among them: they
/// would reach beyond the text they are in; the marks that right-to-left text needs stay.
pub(super) fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        // A byte order mark means something else at the start of a file.
        || c == '\u{feff}'
}

fn speak(line: &Line, first_start: Option<Timestamp>) -> Option<Spoken> {
    let content = &line.segment.content;
    let text = Some(one_line(&content.text)).filter(|text| !text.is_empty())?;
    let session_ms = match (line.session_start, first_start) {
        (Some(start), Some(first)) => start.as_micros().saturating_sub(first.as_micros()) / 1000,
        _ => 0,
    };
    let from_ms = session_ms.saturating_add(line.segment.start_ms).max(0);
    // A cue that ends when it starts is never shown, or is an error.
    let to_ms = session_ms.saturating_add(content.end_ms).max(from_ms.saturating_add(1));
    let speaker = content.speaker.as_deref().map(one_line).filter(|name| !name.is_empty());
    Some(Spoken { from_ms, to_ms, speaker, text })
}

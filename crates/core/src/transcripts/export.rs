//! A transcript as a file: text, subtitles, tables and documents.
//!
//! Invariants: what somebody said or is called can never become part of a format's own syntax, so
//! nobody can put a cue, a cell, a tag or a formula into somebody else's file; the same lines are
//! always the same file.

mod csv;
mod cues;
mod markdown;
mod text;

use serde_json::json;

pub use csv::csv_cell;

use super::Line;
use super::lines::line_body;
use crate::Timestamp;
use text::{Spoken, spoken};

/// What a file says about the meeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportMeeting {
    pub title: String,
    pub platform: String,
    /// `None` once the meeting was anonymised.
    pub native_id: Option<String>,
    pub start_time: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExportFormat {
    Txt,
    Srt,
    Vtt,
    Json,
    Csv,
    Md,
}

impl ExportFormat {
    pub const ALL: [ExportFormat; 6] = [
        ExportFormat::Txt,
        ExportFormat::Srt,
        ExportFormat::Vtt,
        ExportFormat::Json,
        ExportFormat::Csv,
        ExportFormat::Md,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ExportFormat::Txt => "txt",
            ExportFormat::Srt => "srt",
            ExportFormat::Vtt => "vtt",
            ExportFormat::Json => "json",
            ExportFormat::Csv => "csv",
            ExportFormat::Md => "md",
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or(UnknownFormat)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            ExportFormat::Txt => "text/plain; charset=utf-8",
            ExportFormat::Srt => "application/x-subrip; charset=utf-8",
            ExportFormat::Vtt => "text/vtt; charset=utf-8",
            ExportFormat::Json => "application/json",
            ExportFormat::Csv => "text/csv; charset=utf-8; header=present",
            ExportFormat::Md => "text/markdown; charset=utf-8",
        }
    }

    /// Of a file's name, without the dot.
    pub fn extension(self) -> &'static str {
        self.as_str()
    }
}

/// The text names no format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("format must be one of txt, srt, vtt, json, csv, md")]
pub struct UnknownFormat;

/// Writes the file. JSON and CSV have all lines as REST has them; the formats that people read have
/// those with a text, timed from the start of the first session.
pub fn export(meeting: &ExportMeeting, lines: &[Line], format: ExportFormat) -> String {
    match format {
        ExportFormat::Txt => plain(&spoken(lines)),
        ExportFormat::Srt => cues::srt(spoken(lines)),
        ExportFormat::Vtt => cues::vtt(spoken(lines)),
        ExportFormat::Json => json(meeting, lines),
        ExportFormat::Csv => csv::csv(lines),
        ExportFormat::Md => markdown::markdown(meeting, &spoken(lines)),
    }
}

fn plain(spoken: &[Spoken]) -> String {
    let line = |said: &Spoken| format!("[{}] {}\n", text::clock(said.from_ms), said.with_speaker());
    spoken.iter().map(line).collect()
}

/// Nothing is taken away: JSON can carry every character.
fn json(meeting: &ExportMeeting, lines: &[Line]) -> String {
    let body = json!({
        "meeting": {
            "title": meeting.title,
            "platform": meeting.platform,
            "native_meeting_id": meeting.native_id,
            "start_time": meeting.start_time.map(Timestamp::naive),
        },
        "segments": lines.iter().map(line_body).collect::<Vec<_>>(),
    });
    format!("{body:#}\n")
}

#[cfg(test)]
mod tests;

//! A table after RFC 4180, safe to open in a spreadsheet.

use super::text::is_control;
use crate::transcripts::lines::instant;
use crate::transcripts::{Line, field_of};

const HEADER: &str = "start,end,absolute_start_time,absolute_end_time,speaker,language,text,\
    session_uid,segment_id\r\n";

pub(super) fn csv(lines: &[Line]) -> String {
    let mut table = HEADER.to_owned();
    for line in lines {
        let row = row(line);
        table.push_str(&row.join(","));
        table.push_str("\r\n");
    }
    table
}

/// Times within a session are written as REST and fields write them.
fn row(line: &Line) -> [String; 9] {
    let segment = &line.segment;
    let absolute = segment.absolute(line.session_start);
    let text = |value: Option<&String>| value.map(|value| csv_cell(value)).unwrap_or_default();
    [
        field_of(segment.start_ms.max(0)),
        field_of(segment.content.end_ms.max(0)),
        absolute.map(|(start, _)| instant(start)).unwrap_or_default(),
        absolute.map(|(_, end)| instant(end)).unwrap_or_default(),
        text(segment.content.speaker.as_ref()),
        text(segment.content.language.as_ref()),
        text(Some(&segment.content.text)),
        text(segment.key.session_uid.as_ref()),
        text(segment.segment_id.as_ref()),
    ]
}

/// Text that may be anything as one cell of a table: it neither ends the cell nor is calculated.
pub fn csv_cell(text: &str) -> String {
    quoted(&harmless(text))
}

/// Text that a spreadsheet shows and does not calculate. Line breaks and tabs stay: a quoted cell
/// can hold them.
pub(super) fn harmless(text: &str) -> String {
    let keep = |c: &char| matches!(c, '\n' | '\r' | '\t') || !is_control(*c);
    let text: String = text.chars().filter(keep).collect();
    if starts_formula(&text) { format!("'{text}") } else { text }
}

/// Spreadsheets skip spaces before a formula, and some read the wide forms as the narrow ones.
fn starts_formula(text: &str) -> bool {
    let sign = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    text.starts_with(['\t', '\r', '\n']) || text.trim_start().starts_with(sign)
}

fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

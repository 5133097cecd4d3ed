//! A document to read and to paste: who spoke when, and what.

use std::fmt::Write as _;

use super::ExportMeeting;
use super::text::{Spoken, clock, one_line};

pub(super) fn markdown(meeting: &ExportMeeting, spoken: &[Spoken]) -> String {
    let mut document = heading(meeting);
    for turn in spoken.chunk_by(|a, b| a.speaker == b.speaker) {
        document.push_str(&paragraph(turn));
    }
    document
}

fn heading(meeting: &ExportMeeting) -> String {
    let title = Some(one_line(&meeting.title)).filter(|title| !title.is_empty());
    let title = title.as_deref().unwrap_or("Transcript");
    let mut text = format!("# {}\n\n- Platform: {}\n", escaped(title), value(&meeting.platform));
    let native_id = meeting.native_id.as_deref().map(|id| ("Meeting", value(id)));
    let started = meeting.start_time.map(|at| ("Started", at.to_string()));
    for (name, value) in native_id.into_iter().chain(started) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    text
}

/// All that one speaker says until another does.
fn paragraph(turn: &[Spoken]) -> String {
    let Some(first) = turn.first() else {
        return String::new();
    };
    let time = clock(first.from_ms);
    let head = match &first.speaker {
        Some(speaker) => format!("**{}** ({time})", escaped(speaker)),
        None => format!("({time})"),
    };
    let texts: Vec<_> = turn.iter().map(|said| escaped(&said.text)).collect();
    format!("\n{head}\n\n{}\n", texts.join(" "))
}

fn value(text: &str) -> String {
    escaped(&one_line(text))
}

/// One line that is nothing but text to Markdown. `<`, `>` and `&` become references, which also
/// hold where a backslash before them does not.
fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '$' => text.extend(['\\', c]),
            _ => text.push(c),
        }
    }
    escape_start(text)
}

/// What begins a list or underlines a heading does so only at the start of a line.
fn escape_start(mut text: String) -> String {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = text[digits..].chars().next();
    let opens = match mark {
        Some('.' | ')') => digits > 0,
        Some('-' | '+' | '=') => digits == 0,
        _ => false,
    };
    if opens {
        text.insert(digits, '\\');
    }
    text
}

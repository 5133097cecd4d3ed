//! Subtitles: SRT and `WebVTT`.
//!
//! Cues are in the order of their start, as `WebVTT` demands, also where the order of the lines is
//! another because it is not known when a session started.

use super::text::{Spoken, clock};

/// SRT cannot escape anything, and players take `<…>` and `{…}` for styles: such characters become
/// others that look alike. A cue's text is one line, so it has no blank one.
pub(super) fn srt(spoken: Vec<Spoken>) -> String {
    let cue = |(index, said): (usize, Spoken)| {
        let (from, to) = (cue_time(said.from_ms, ','), cue_time(said.to_ms, ','));
        let text: String = said.with_speaker().chars().map(unstyled).collect();
        format!("{}\n{from} --> {to}\n{text}\n\n", index + 1)
    };
    by_start(spoken).into_iter().enumerate().map(cue).collect()
}

/// The speaker is a voice, so that a player can style it. With `>` escaped there is no `-->`.
pub(super) fn vtt(spoken: Vec<Spoken>) -> String {
    let cue = |said: Spoken| {
        let (from, to) = (cue_time(said.from_ms, '.'), cue_time(said.to_ms, '.'));
        let text = escaped(&said.text);
        let payload = match &said.speaker {
            Some(speaker) => format!("<v {}>{text}</v>", escaped(speaker)),
            None => text,
        };
        format!("\n{from} --> {to}\n{payload}\n")
    };
    std::iter::once("WEBVTT\n".to_owned()).chain(by_start(spoken).into_iter().map(cue)).collect()
}

fn by_start(mut spoken: Vec<Spoken>) -> Vec<Spoken> {
    spoken.sort_by_key(|said| said.from_ms);
    spoken
}

fn cue_time(ms: i64, point: char) -> String {
    format!("{}{point}{:03}", clock(ms), ms % 1000)
}

fn unstyled(c: char) -> char {
    match c {
        '<' => '‹',
        '>' => '›',
        '{' => '(',
        '}' => ')',
        other => other,
    }
}

/// Only the references that every `WebVTT` parser knows.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

//! Where in a text a query is met.

use std::ops::Range;

use super::words::{Word, words};
use super::{SearchQuery, Term};

/// A text with what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Highlight {
    /// The text escaped for HTML, with each hit in `<mark>`.
    pub html: String,
    /// Bytes of the text from where to where, ascending and apart from each other. Whole words.
    pub hits: Vec<(usize, usize)>,
}

/// Marks every occurrence of every term, also if others do not occur.
pub fn highlight(text: &str, query: &SearchQuery) -> Highlight {
    let words = words(text);
    let mut found: Vec<_> = query.terms.iter().flat_map(|term| places(&words, term)).collect();
    found.sort_by_key(|place| (place.start, place.end));
    let mut hits: Vec<(usize, usize)> = Vec::new();
    for place in found {
        match hits.last_mut() {
            Some(last) if place.start <= last.1 => last.1 = last.1.max(place.end),
            _ => hits.push((place.start, place.end)),
        }
    }
    Highlight { html: marked(text, &hits), hits }
}

/// Whether every term occurs. Whatever searches must find just such texts.
pub fn matches(text: &str, query: &SearchQuery) -> bool {
    let words = words(text);
    query.terms.iter().all(|term| places(&words, term).next().is_some())
}

fn places<'a>(words: &'a [Word], term: &'a Term) -> impl Iterator<Item = Range<usize>> + 'a {
    words.windows(term.words.len()).filter(|window| is_met(window, term)).filter_map(|window| {
        let (first, last) = (window.first()?, window.last()?);
        Some(first.place.start..last.place.end)
    })
}

fn is_met(window: &[Word], term: &Term) -> bool {
    let last = term.words.len() - 1;
    window.iter().zip(&term.words).enumerate().all(|(index, (word, wanted))| {
        word.folded == *wanted || term.prefix && index == last && word.folded.starts_with(wanted)
    })
}

fn marked(text: &str, hits: &[(usize, usize)]) -> String {
    let mut html = String::with_capacity(text.len());
    let mut done = 0;
    for &(start, end) in hits {
        escape_into(&mut html, &text[done..start]);
        html.push_str("<mark>");
        escape_into(&mut html, &text[start..end]);
        html.push_str("</mark>");
        done = end;
    }
    escape_into(&mut html, &text[done..]);
    html
}

fn escape_into(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
}

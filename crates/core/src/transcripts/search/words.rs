//! What a word is, for everybody who searches.

use std::fmt::Write as _;
use std::ops::Range;

/// A longer run of letters is several words: both databases refuse or skip words that are very long,
/// and a language without spaces writes such runs.
pub const WORD_CHARS_MAX: usize = 255;

/// The words of a text, folded: the longest runs of letters and digits, in lower case.
pub fn tokens(text: &str) -> Vec<String> {
    words(text).into_iter().map(|word| word.folded).collect()
}

/// The text as FTS5 is given it.
pub fn searchable(text: &str) -> String {
    tokens(text).join(" ")
}

/// The text as PostgreSQL is given it, to be cast to `tsvector`. It keeps 256 places of a word and
/// 16,383 places in all: a phrase beyond them is not found, its words are.
pub fn to_tsvector(text: &str) -> String {
    let mut vector = String::new();
    for (index, word) in tokens(text).iter().enumerate() {
        let _ = write!(vector, "'{word}':{} ", index + 1);
    }
    vector.truncate(vector.trim_end().len());
    vector
}

/// A word and the bytes it has in its text.
pub(super) struct Word {
    pub(super) folded: String,
    pub(super) place: Range<usize>,
}

pub(super) fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut chars_of_last = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_alphanumeric()) {
        let goes_on = |word: &&mut Word| word.place.end == at && chars_of_last < WORD_CHARS_MAX;
        if let Some(word) = words.last_mut().filter(goes_on) {
            word.folded.extend(fold(c));
            word.place.end = at + c.len_utf8();
            chars_of_last += 1;
        } else {
            words.push(Word { folded: fold(c).collect(), place: at..at + c.len_utf8() });
            chars_of_last = 1;
        }
    }
    words
}

/// A letter whatever its case and place. What is not a letter itself is left out, such as the dot
/// that `İ` keeps, and the sigma at the end of a word is the one within it.
pub(super) fn fold(c: char) -> impl Iterator<Item = char> {
    let lower = c.to_lowercase().filter(|c| c.is_alphanumeric());
    lower.map(|c| if c == 'ς' { 'σ' } else { c })
}

//! Searching transcripts: what a user asks for, and the same question in each database's language.
//!
//! Invariants: all agree about what a word is, because the databases get words that were already
//! split and folded here ([`searchable`], [`to_tsvector`]) and split them no further; [`matches()`]
//! says what they must find. A query is rebuilt from its words, which have only letters and digits,
//! so nothing that a user types is ever read as an operator.
//!
//! So that they do not split: FTS5 with `tokenize = 'ascii'`, which splits at spaces and leaves
//! letters beyond ASCII alone; PostgreSQL with casts (`::tsvector`, `::tsquery`) in place of the
//! functions of these names, whose parser depends on the locale and makes two words of `1e5a`.

mod highlight;
mod words;

pub use highlight::{Highlight, highlight, matches};
pub use words::{WORD_CHARS_MAX, searchable, to_tsvector, tokens};

/// A query is at most this long.
pub const QUERY_BYTES_MAX: usize = 256;
/// A query has at most this many words and phrases.
pub const QUERY_TERMS_MAX: usize = 16;

/// What must occur in a text, all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// Never empty.
    terms: Vec<Term>,
}

/// Words that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    /// Never empty; each as [`tokens`] makes it.
    words: Vec<String>,
    /// The last word may go on.
    prefix: bool,
}

/// Why a text is no query. Told to whoever typed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    #[error("a search needs at least one word of letters or digits")]
    Empty,
    #[error("a search may be at most {QUERY_BYTES_MAX} bytes long")]
    TooLong,
    #[error("a search may have at most {QUERY_TERMS_MAX} words and phrases")]
    TooManyTerms,
}

impl SearchQuery {
    /// Reads `words`, `"phrases"` and `pref*`. Any text with a word in it is a query: a quote that
    /// is not closed ends with the text, and marks that mean nothing only separate words.
    pub fn parse(text: &str) -> Result<Self, InvalidQuery> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(InvalidQuery::TooLong);
        }
        let mut terms = Vec::new();
        let mut rest = text;
        while let Some((before, quoted)) = rest.split_once('"') {
            terms.extend(before.split_whitespace().filter_map(term));
            let (phrase, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            let unstarred = after.trim_start_matches('*');
            let prefix = unstarred.len() < after.len() && phrase.ends_with(char::is_alphanumeric);
            terms.extend(Term::new(phrase, prefix));
            rest = unstarred;
        }
        terms.extend(rest.split_whitespace().filter_map(term));
        match terms.len() {
            0 => Err(InvalidQuery::Empty),
            1..=QUERY_TERMS_MAX => Ok(SearchQuery { terms }),
            _ => Err(InvalidQuery::TooManyTerms),
        }
    }

    /// For `MATCH` of `SQLite`'s FTS5, over [`searchable`] texts.
    pub fn to_fts5(&self) -> String {
        let term = |term: &Term| {
            let star = if term.prefix { "*" } else { "" };
            format!("\"{}\"{star}", term.words.join(" "))
        };
        self.terms.iter().map(term).collect::<Vec<_>>().join(" AND ")
    }

    /// To be cast to PostgreSQL's `tsquery`, over [`to_tsvector`] texts.
    pub fn to_tsquery(&self) -> String {
        let term = |term: &Term| {
            let words: Vec<_> = term.words.iter().map(|word| format!("'{word}'")).collect();
            let star = if term.prefix { ":*" } else { "" };
            format!("({}{star})", words.join(" <-> "))
        };
        self.terms.iter().map(term).collect::<Vec<_>>().join(" & ")
    }
}

impl Term {
    /// `None` if there is no word in `text`.
    fn new(text: &str, prefix: bool) -> Option<Self> {
        let words = tokens(text);
        (!words.is_empty()).then_some(Term { words, prefix })
    }
}

/// Reads what stands between spaces. A star only counts right after a letter or digit.
fn term(text: &str) -> Option<Term> {
    let unstarred = text.trim_end_matches('*');
    let prefix = unstarred.len() < text.len() && unstarred.ends_with(char::is_alphanumeric);
    Term::new(unstarred, prefix)
}

#[cfg(test)]
mod tests;

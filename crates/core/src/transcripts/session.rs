//! When a session started: declared by its producer, guessed from the bot until then.

use crate::Timestamp;

/// A start that is known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownStart {
    pub start: Timestamp,
    /// When the token was made that declared it; `None` for one that was only guessed, or that
    /// somebody else has written.
    pub declared_by: Option<Timestamp>,
}

/// The start from now on, if the declaration changes it or makes sure of it. The first declaration
/// stands, unless a producer with a newer token says otherwise.
pub fn declare_start(
    known: Option<KnownStart>,
    start: Timestamp,
    token_issued_at: Timestamp,
) -> Option<KnownStart> {
    let declared = KnownStart { start, declared_by: Some(token_issued_at) };
    match known {
        Some(KnownStart { declared_by: Some(by), .. }) if by >= token_issued_at => None,
        Some(known) if known == declared => None,
        _ => Some(declared),
    }
}

/// Platforms that stand before the uid in rows of an existing Vexa database.
const PREFIXES: [&str; 3] = ["google_meet_", "zoom_", "teams_"];

/// The uid of a session without the platform that some rows have before it.
pub fn bare_uid(uid: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| uid.strip_prefix(prefix)).unwrap_or(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second)
    }

    #[test]
    fn the_first_declaration_stands_until_a_newer_token_says_otherwise() {
        let declared = |start, by| KnownStart { start: at(start), declared_by: Some(at(by)) };
        assert_eq!(declare_start(None, at(5), at(1)), Some(declared(5, 1)));
        let guessed = KnownStart { start: at(4), declared_by: None };
        assert_eq!(declare_start(Some(guessed), at(5), at(1)), Some(declared(5, 1)));
        assert_eq!(declare_start(Some(declared(5, 1)), at(6), at(1)), None);
        assert_eq!(declare_start(Some(declared(5, 2)), at(6), at(1)), None);
        assert_eq!(declare_start(Some(declared(5, 1)), at(6), at(2)), Some(declared(6, 2)));
    }

    #[test]
    fn a_platform_before_the_uid_is_not_part_of_it() {
        assert_eq!(bare_uid("google_meet_abc"), "abc");
        assert_eq!(bare_uid("abc"), "abc");
    }
}

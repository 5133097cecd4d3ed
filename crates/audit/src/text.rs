//! Bytes to text, and text to what people read.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Where a page must say its character set, if its headers do not.
pub(crate) const CHARSET_BYTES_MAX: usize = 1024;

/// At most so many characters; what is left out shows as `…`.
pub(crate) fn ellipsis(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// Runs of space made one, none at the ends.
pub(crate) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `phrase` stands in `text` as words of its own. Both are in lower case.
pub(crate) fn contains_words(text: &str, phrase: &str) -> bool {
    let is_part = |edge: Option<char>| edge.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase).any(|(start, _)| {
        !is_part(text[..start].chars().next_back())
            && !is_part(text[start + phrase.len()..].chars().next())
    })
}

pub(crate) fn starts_with_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start))
}

/// Decodes a page the way a browser does: by its byte order mark, its header, its own word.
pub(crate) fn decode(body: &[u8], content_type: Option<&str>) -> String {
    let (text, _, _) = encoding_of(body, content_type).decode(body);
    text.into_owned()
}

fn encoding_of(body: &[u8], content_type: Option<&str>) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return encoding;
    }
    let labels = [content_type.and_then(charset_of).map(str::to_owned), charset_in(body)];
    let named = labels.iter().flatten().find_map(|label| Encoding::for_label(label.as_bytes()));
    let guess = || if std::str::from_utf8(body).is_ok() { UTF_8 } else { WINDOWS_1252 };
    named.unwrap_or_else(guess)
}

/// The `charset` of a content type.
pub(crate) fn charset_of(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then_some(value)
    })
}

/// What the page's beginning says of itself, by a plain search: it is not parsed yet.
fn charset_in(body: &[u8]) -> Option<String> {
    let head = &body[..body.len().min(CHARSET_BYTES_MAX)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    head.match_indices("<meta").find_map(|(at, _)| {
        let tag = head[at..].split('>').next()?;
        let (_, value) = tag.split_once("charset")?;
        let value =
            value.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:".contains(c)));
        let label = &value[..end.unwrap_or(value.len())];
        (!label.is_empty()).then(|| label.to_owned())
    })
}

/// `1 image`, `2 images`.
pub(crate) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `12 KiB`, for people.
pub(crate) fn bytes(number: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = KIB * KIB;
    if number < KIB {
        format!("{number} B")
    } else if number < MIB {
        format!("{} KiB", number.div_ceil(KIB))
    } else {
        format!("{}.{} MiB", number / MIB, number % MIB * 10 / MIB)
    }
}

/// `0.8 s` or `120 ms`.
pub(crate) fn millis(number: u64) -> String {
    if number < 1000 {
        format!("{number} ms")
    } else {
        format!("{}.{} s", number / 1000, number % 1000 / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_words() {
        for (text, phrase, found) in [
            ("try it", "try", true),
            ("country", "try", false),
            ("our industry", "try", false),
            ("re-try", "try", true),
            ("please get started!", "get started", true),
            ("entry, try", "try", true),
        ] {
            assert_eq!(contains_words(text, phrase), found, "{text}");
        }
    }

    #[test]
    fn pages_are_decoded_by_what_they_say() {
        for (body, content_type, text) in [
            (&b"caf\xc3\xa9"[..], None, "café"),
            (b"caf\xe9", None, "café"),
            (b"caf\xe9", Some("text/html; charset=ISO-8859-1"), "café"),
            (b"<meta charset=\"koi8-r\">\xc1", None, "<meta charset=\"koi8-r\">а"),
            (b"\xef\xbb\xbfcaf\xc3\xa9", Some("text/html; charset=latin1"), "café"),
            (b"caf\xc3\xa9", Some("text/html; charset=nonsense"), "café"),
        ] {
            assert_eq!(decode(body, content_type), text);
        }
    }
}

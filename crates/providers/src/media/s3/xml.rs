//! As much of XML as S3's answers need: the text of the first element of a name.

/// Whether there is such an element.
pub(super) fn has(document: &[u8], name: &str) -> bool {
    find(&String::from_utf8_lossy(document), name).is_some()
}

/// The text of the first such element.
pub(super) fn value(document: &[u8], name: &str) -> Option<String> {
    let document = String::from_utf8_lossy(document);
    let text = find(&document, name)?;
    let end = text.find('<')?;
    Some(unescape(&text[..end]))
}

/// A text as an element may have it.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// What follows the beginning of the first such element.
fn find<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = document;
    loop {
        let start = rest.find('<')?;
        rest = &rest[start + 1..];
        let Some(after) = rest.strip_prefix(name) else { continue };
        match after.bytes().next() {
            Some(b'>') => return Some(&after[1..]),
            // It may have attributes.
            Some(b' ') => return after.find('>').map(|end| &after[end + 1..]),
            _ => {}
        }
    }
}

fn unescape(text: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#34;", "\"")];
    let text = pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found() {
        let answer = br#"<?xml version="1.0"?>
            <Error xmlns="x"><Code>NoSuchKey</Code><Message>a &lt;b&gt; &amp;lt;</Message><Key/></Error>"#;
        assert_eq!(value(answer, "Code").as_deref(), Some("NoSuchKey"));
        assert_eq!(value(answer, "Message").as_deref(), Some("a <b> &lt;"));
        assert!(has(answer, "Error") && !has(answer, "Err") && !has(answer, "Key"));
        assert_eq!(value(b"<Code>unended", "Code"), None);
        assert_eq!(value(b"\xff<", "Code"), None);
        assert_eq!(escape("\"a&b\""), "&quot;a&amp;b&quot;");
    }
}

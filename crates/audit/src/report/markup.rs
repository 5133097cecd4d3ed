//! Writing markup with foreign text in it.

use std::fmt::{self, Display, Write};

/// Text as it may stand in an element or in a quoted attribute. Characters that change the direction of
/// what follows are made visible: with them a text could show something else than it is.
pub(super) struct Esc<'a>(pub(super) &'a str);

impl Display for Esc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(' ')?,
                _ if is_odd(c) => f.write_char('\u{fffd}')?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Controls, and marks that turn the direction of writing.
pub(super) fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{fff9}'..='\u{fffb}')
}

/// Markup that grows. Writing to a string cannot fail.
#[derive(Default)]
pub(super) struct Markup(String);

impl Markup {
    pub(super) fn add(&mut self, args: fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(args);
    }

    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    pub(super) fn done(self) -> String {
        self.0
    }
}

/// `2026-01-31 12:00 UTC`.
pub(super) fn when(at: roundsman_core::Timestamp) -> String {
    let text = at.to_string().replace('T', " ");
    format!("{} UTC", text.get(..16).unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let text = "<script>alert(\"x\")</script>&'\u{202e}\u{0}";
        assert_eq!(
            Esc(text).to_string(),
            "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#39;\u{fffd}\u{fffd}"
        );
    }
}

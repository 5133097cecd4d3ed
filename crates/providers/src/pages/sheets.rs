//! What a stylesheet refers to, as far as a browser would load it for a page: other stylesheets, and fonts.
//!
//! Found in one pass, without a parser of CSS: what is not understood is passed over. Which fonts a page
//! needs is decided by its letters (`unicode-range`) and no further: which of a family's weights its text has,
//! only a browser knows.

/// Of a stylesheet with more, these are the first.
const LINKS_MAX: usize = 1000;
/// A font with more ranges is taken for one that has every letter.
const RANGES_MAX: usize = 1000;
/// Fonts that today's browsers read. What says nothing may be any of them.
const FORMATS: [&str; 8] = [
    "woff2",
    "woff",
    "truetype",
    "opentype",
    "woff2-variations",
    "woff-variations",
    "truetype-variations",
    "opentype-variations",
];

/// Something a stylesheet refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SheetLink {
    Import {
        link: String,
        is_for_screens: bool,
    },
    /// With the letters that it is for; none named means all.
    Font {
        link: String,
        ranges: Vec<(u32, u32)>,
    },
}

/// The letters of a page.
pub(super) struct Letters {
    /// A bit for each.
    words: Vec<u64>,
    /// How many there are before each word.
    before: Vec<u32>,
}

impl Letters {
    pub(super) fn of(text: &str) -> Self {
        // One more than there are, so that what lies below the end can be counted too.
        let mut words = vec![0_u64; (char::MAX as usize >> 6) + 2];
        for letter in text.chars() {
            words[letter as usize >> 6] |= 1 << (letter as u32 & 63);
        }
        let mut sum = 0;
        let before = words
            .iter()
            .map(|word| {
                let before = sum;
                sum += word.count_ones();
                before
            })
            .collect();
        Letters { words, before }
    }

    /// How many lie below this one.
    fn below(&self, letter: u32) -> u32 {
        let (word, bit) = ((letter >> 6) as usize, letter & 63);
        match (self.words.get(word), self.before.get(word)) {
            (Some(bits), Some(before)) => before + (bits & ((1 << bit) - 1)).count_ones(),
            _ => u32::MAX,
        }
    }

    /// Whether the page has a letter of these ranges. None named means all.
    pub(super) fn are_in(&self, ranges: &[(u32, u32)]) -> bool {
        let has = |&(first, last): &(u32, u32)| self.below(last + 1) > self.below(first);
        ranges.is_empty() || ranges.iter().any(has)
    }
}

/// The links of a stylesheet, in their order.
pub(super) fn links(text: &str) -> Vec<SheetLink> {
    let mut reader = Reader { text, at: 0 };
    let mut found = Vec::new();
    // Imports stand before all rules; what stands later is no import.
    let mut may_import = true;
    while found.len() < LINKS_MAX
        && let Some(next) = reader.peek()
    {
        match next {
            b'@' => {
                reader.at += 1;
                let name = reader.name().to_ascii_lowercase();
                match name.as_str() {
                    "import" if may_import => found.extend(import(reader.until(b";}"))),
                    "charset" | "layer" if may_import => {
                        reader.until(b";{");
                    }
                    "font-face" => {
                        may_import = false;
                        reader.until(b"{");
                        reader.at += 1;
                        found.extend(font(reader.until(b"}")));
                    }
                    _ => may_import = false,
                }
            }
            b';' => reader.at += 1,
            _ if reader.skip_blank() => {}
            _ => {
                may_import = false;
                reader.skip();
            }
        }
    }
    found
}

/// `"link" layer(x) supports(y) media`, or with `url(link)`.
fn import(text: &str) -> Option<SheetLink> {
    let mut reader = Reader { text, at: 0 };
    while reader.skip_blank() {}
    let link = reader.link()?;
    let mut rest = text.get(reader.at..).unwrap_or_default().trim();
    for condition in ["layer", "supports"] {
        let begins = rest.get(..condition.len());
        if begins.is_some_and(|begin| begin.eq_ignore_ascii_case(condition)) {
            let mut reader = Reader { text: rest, at: condition.len() };
            if reader.peek() == Some(b'(') {
                reader.skip();
            }
            rest = rest.get(reader.at..).unwrap_or_default().trim();
        }
    }
    Some(SheetLink::Import { link, is_for_screens: is_for_screens(rest) })
}

/// What a browser loads for a `@font-face`: the first source that it can read. Of several lists of
/// sources, the last counts.
fn font(declarations: &str) -> Option<SheetLink> {
    let mut reader = Reader { text: declarations, at: 0 };
    let (mut link, mut ranges) = (None, Vec::new());
    while reader.peek().is_some() {
        while reader.skip_blank() {}
        let declaration = reader.until(b";");
        reader.at += 1;
        let Some((name, value)) = declaration.split_once(':') else { continue };
        match without_comments(name).trim().to_ascii_lowercase().as_str() {
            "src" => link = source(value),
            "unicode-range" => ranges = unicode_ranges(value),
            _ => {}
        }
    }
    Some(SheetLink::Font { link: link?, ranges })
}

fn source(list: &str) -> Option<String> {
    let mut reader = Reader { text: list, at: 0 };
    while reader.peek().is_some() {
        let item = reader.until(b",");
        reader.at += 1;
        let mut reader = Reader { text: item, at: 0 };
        while reader.skip_blank() {}
        let Some(link) = reader.link() else { continue };
        let rest = item.get(reader.at..).unwrap_or_default().to_ascii_lowercase();
        let format = rest.split_once("format(").map(|(_, rest)| rest);
        let format = format.map(|rest| {
            rest.split([')', ',']).next().unwrap_or_default().trim().trim_matches(['"', '\''])
        });
        if format.is_none_or(|format| FORMATS.contains(&format)) {
            return Some(link);
        }
    }
    None
}

/// `U+26, U+0-7F, U+4??`. What cannot be read is left out, as browsers leave out the whole: then the font is
/// for all letters.
fn unicode_ranges(list: &str) -> Vec<(u32, u32)> {
    let list = without_comments(list);
    let ranges: Option<Vec<_>> = list.split(',').take(RANGES_MAX + 1).map(unicode_range).collect();
    ranges.filter(|ranges| ranges.len() <= RANGES_MAX).unwrap_or_default()
}

fn unicode_range(text: &str) -> Option<(u32, u32)> {
    let text = text.trim();
    let digits = text.strip_prefix(['u', 'U'])?.strip_prefix('+')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let (first, last) = match digits.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(&digits.replace('?', "0"))?, number(&digits.replace('?', "F"))?),
    };
    (first <= last && last <= char::MAX as u32).then_some((first, last))
}

/// A stylesheet for something else does not hold up the page.
pub(super) fn is_for_screens(media: &str) -> bool {
    let media = media.trim().to_ascii_lowercase();
    let other = |part: &str| {
        let word = part.split_ascii_whitespace().next().unwrap_or_default();
        matches!(word, "print" | "speech" | "not")
    };
    media.is_empty() || media.split(',').any(|part| !other(part.trim()))
}

fn without_comments(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        clean.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    clean.push_str(rest);
    clean
}

/// Goes through CSS by its outermost parts: strings, comments and what is in parentheses are one each.
struct Reader<'t> {
    text: &'t str,
    /// Always at the beginning of a letter.
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Whether there was something that means nothing.
    fn skip_blank(&mut self) -> bool {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            self.at += blank;
            return true;
        }
        for mark in ["<!--", "-->"] {
            if rest.starts_with(mark) {
                self.at += mark.len();
                return true;
            }
        }
        self.skip_comment()
    }

    fn skip_comment(&mut self) -> bool {
        let Some(inside) = self.rest().strip_prefix("/*") else { return false };
        self.at += inside.find("*/").map_or(inside.len() + 2, |end| end + 4);
        true
    }

    /// Past the next part.
    fn skip(&mut self) {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.skip_past(quote),
            Some(b'(') => {
                // Quotes mean something if what is inside begins with one; in a bare URL they do not.
                let inside = &self.rest()[1..];
                let blank = inside.len() - inside.trim_start().len();
                if inside.trim_start().starts_with(['"', '\'']) {
                    self.at += 1 + blank;
                    self.skip();
                    self.at -= 1;
                }
                self.skip_past(b')');
            }
            Some(b'\\') => {
                self.at += 1;
                self.at += self.rest().chars().next().map_or(0, char::len_utf8);
            }
            Some(_) if self.skip_comment() => {}
            Some(_) => self.at += self.rest().chars().next().map_or(1, char::len_utf8),
            None => {}
        }
    }

    /// Past this mark, which the letter here is not counted for.
    fn skip_past(&mut self, mark: u8) {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        while at < bytes.len() && bytes[at] != mark {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        self.at = (at + 1).min(bytes.len());
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }

    /// What comes before one of these marks, which is next then.
    fn until(&mut self, marks: &[u8]) -> &'t str {
        let from = self.at;
        while let Some(next) = self.peek() {
            if marks.contains(&next) {
                break;
            }
            self.skip();
        }
        self.text.get(from..self.at).unwrap_or_default()
    }

    fn name(&mut self) -> &'t str {
        let rest = self.rest();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        self.at += name.len();
        name
    }

    /// `"link"`, `url(link)` or `url("link")`.
    fn link(&mut self) -> Option<String> {
        let from = self.at;
        let link = match self.peek()? {
            b'"' | b'\'' => {
                self.skip();
                quoted(self.text.get(from..self.at)?)
            }
            _ => {
                if !self.name().eq_ignore_ascii_case("url") || self.peek() != Some(b'(') {
                    return None;
                }
                let inside = self.at + 1;
                self.skip();
                let inside = self.text.get(inside..self.at)?;
                quoted(inside.strip_suffix(')').unwrap_or(inside).trim())
            }
        };
        let link = unescaped(link);
        (!link.trim().is_empty()).then_some(link)
    }
}

fn quoted(text: &str) -> &str {
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inside = &text[1..];
            inside.strip_suffix(quote).unwrap_or(inside)
        }
        _ => text,
    }
}

/// `\` before up to six digits means that letter, before anything else the thing itself.
fn unescaped(text: &str) -> String {
    const DIGITS_MAX: usize = 6;
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escaped)) = rest.split_once('\\') {
        plain.push_str(before);
        let digits = escaped.bytes().take(DIGITS_MAX).take_while(u8::is_ascii_hexdigit).count();
        let (taken, letter) = if digits == 0 {
            let letter = escaped.chars().next();
            (letter.map_or(0, char::len_utf8), letter)
        } else {
            let number = u32::from_str_radix(&escaped[..digits], 16).ok();
            let letter = number.and_then(char::from_u32).filter(|letter| *letter != '\0');
            let blank = usize::from(escaped[digits..].starts_with([' ', '\n', '\t']));
            (digits + blank, Some(letter.unwrap_or(char::REPLACEMENT_CHARACTER)))
        };
        // A line that goes on has no letter here.
        plain.extend(letter.filter(|letter| digits > 0 || *letter != '\n'));
        rest = &escaped[taken..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests;

//! As much of CSS as the checks need: declarations and blocks, found without a full parser. What it
//! does not understand it passes over.

use roundsman_core::audits::observed::ResourceKind;

use crate::page::Page;

const SHEET_BYTES_MAX: usize = 1024 * 1024;

/// A stylesheet of the page.
pub(crate) struct Sheet {
    /// Its address, or what it is.
    pub(crate) name: String,
    pub(crate) line: Option<u32>,
    /// Without comments, in lower case.
    pub(crate) text: String,
}

/// What the page has in itself and what was fetched for it.
pub(crate) fn sheets(page: &Page<'_>) -> Vec<Sheet> {
    let own = page.dom.named("style").map(|it| Sheet {
        name: "<style>".to_owned(),
        line: Some(it.line()),
        text: cleaned(&it.raw_text()),
    });
    let fetched = page.seen.resources.iter().filter(|it| it.kind == ResourceKind::Stylesheet);
    let fetched = fetched.filter_map(|it| {
        let body = it.answer.as_option()?.body.as_deref()?;
        let body = &body[..body.len().min(SHEET_BYTES_MAX)];
        let text = cleaned(&String::from_utf8_lossy(body));
        Some(Sheet { name: it.url.clone(), line: Some(it.placement.line), text })
    });
    own.chain(fetched).collect()
}

fn cleaned(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        clean.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    clean.push_str(rest);
    clean.make_ascii_lowercase();
    clean
}

/// The insides of the blocks that `start` opens.
pub(crate) fn blocks<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).filter_map(move |(at, _)| {
        let (_, inside) = text[at..].split_once('{')?;
        Some(inside.split('}').next().unwrap_or_default())
    })
}

/// The rules of a sheet: selector and declarations. Conditions around rules are passed over.
pub(crate) fn rules(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('}').filter_map(|part| {
        let (selector, declarations) = part.rsplit_once('{')?;
        let selector = selector.rsplit(['{', ';']).next().unwrap_or_default();
        Some((selector.trim(), declarations))
    })
}

/// The value of a property among declarations: the last one counts.
pub(crate) fn declaration<'a>(declarations: &'a str, property: &str) -> Option<&'a str> {
    let value = declarations.split(';').rev().find_map(|it| {
        let (name, value) = it.split_once(':')?;
        name.trim().eq_ignore_ascii_case(property).then(|| value.trim())
    });
    value.filter(|it| !it.is_empty())
}

/// A length in pixels, if it is one that does not depend on anything else. Points are a little larger.
pub(crate) fn pixels(value: &str) -> Option<f64> {
    const PIXELS_PER_POINT: f64 = 96.0 / 72.0;
    let value = value.trim().trim_end_matches("!important").trim().to_ascii_lowercase();
    let number = |unit: &str| value.strip_suffix(unit)?.trim().parse::<f64>().ok();
    let pixels = number("px").or_else(|| Some(number("pt")? * PIXELS_PER_POINT));
    pixels.filter(|it| it.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_declarations_are_found() {
        let text = cleaned(
            "/* a { } */ P { Font-Size: 10px } @media x { b, i { color: red; color: blue } } @font-face { src: a }",
        );
        let found: Vec<_> = rules(&text).collect();
        assert_eq!(found[0], ("p", " font-size: 10px "));
        assert_eq!(found[1].0, "b, i");
        assert_eq!(declaration(found[1].1, "color"), Some("blue"));
        assert_eq!(blocks(&text, "@font-face").collect::<Vec<_>>(), [" src: a "]);
        assert_eq!(pixels("9pt"), Some(12.0));
        assert_eq!(pixels("1em"), None);
    }
}

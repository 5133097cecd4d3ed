//! Contrast of text, where inline styles say both colours.

use super::{SERIOUS, rule};
use crate::css;
use crate::dom::Element;
use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::{EvidenceKind, Finding};

const RATIO_MIN: f64 = 4.5;
const RATIO_LARGE_MIN: f64 = 3.0;
const LARGE_PX: f64 = 24.0;

const RULE: Rule = rule(
    "accessibility_color_contrast",
    "contrast",
    SERIOUS,
    [
        "Text stands out from its background",
        "Text hardly stands out from its background",
        "Grey on grey cannot be read in the sun, and not at all by many.",
        "Choose colours with a contrast of at least 4.5 to 1 (3 to 1 for large text).",
    ],
);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Color {
    red: u8,
    green: u8,
    blue: u8,
}

impl Color {
    /// None for what is transparent, has no fixed value or is not known.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches("!important").trim().to_ascii_lowercase();
        if let Some(hex) = text.strip_prefix('#') {
            return Color::read_hex(hex);
        }
        if let Some(inside) = text.strip_prefix("rgb(").and_then(|it| it.strip_suffix(')')) {
            let mut parts = inside.split([',', ' ']).filter(|it| !it.is_empty());
            let mut next = || parts.next()?.parse::<u8>().ok();
            return Some(Color { red: next()?, green: next()?, blue: next()? });
        }
        let [red, green, blue] = match text.as_str() {
            "black" => [0, 0, 0],
            "white" => [255, 255, 255],
            "red" => [255, 0, 0],
            "green" => [0, 128, 0],
            "blue" => [0, 0, 255],
            "yellow" => [255, 255, 0],
            "gray" | "grey" => [128, 128, 128],
            "silver" | "lightgray" | "lightgrey" => [211, 211, 211],
            "navy" => [0, 0, 128],
            "orange" => [255, 165, 0],
            "purple" => [128, 0, 128],
            "teal" => [0, 128, 128],
            "maroon" => [128, 0, 0],
            "pink" => [255, 192, 203],
            _ => return None,
        };
        Some(Color { red, green, blue })
    }

    fn read_hex(hex: &str) -> Option<Self> {
        let digits: Vec<u8> = hex
            .chars()
            .map(|c| c.to_digit(16).and_then(|it| u8::try_from(it).ok()))
            .collect::<Option<_>>()?;
        let pair = |at: usize| Some(digits.get(at)? * 16 + digits.get(at + 1)?);
        match digits[..] {
            [red, green, blue] => Some(Color { red: red * 17, green: green * 17, blue: blue * 17 }),
            [_, _, _, _, _, _] => Some(Color { red: pair(0)?, green: pair(2)?, blue: pair(4)? }),
            _ => None,
        }
    }

    /// As WCAG has it.
    fn luminance(self) -> f64 {
        let linear = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.red) + 0.7152 * linear(self.green) + 0.0722 * linear(self.blue)
    }

    fn contrast(self, other: Self) -> f64 {
        let (one, other) = (self.luminance(), other.luminance());
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }
}

pub(super) fn check(page: &Page<'_>) -> Finding {
    let mut looked_at = 0;
    let mut weak = Vec::new();
    for element in page.dom.elements().filter(|it| it.attr("style").is_some()) {
        let Some((text, background, size)) = colors(element) else { continue };
        if !element.has_text() {
            continue;
        }
        looked_at += 1;
        let ratio = text.contrast(background);
        let least = if size.is_some_and(|it| it >= LARGE_PX) { RATIO_LARGE_MIN } else { RATIO_MIN };
        if ratio < least {
            weak.push((element, ratio));
        }
    }
    if looked_at == 0 {
        return RULE
            .not_applicable()
            .saying("No inline style says both colours; stylesheets are not applied here.");
    }
    weak.iter().fold(RULE.passed_if(weak.is_empty()), |it, (element, ratio)| {
        let text = format!("{ratio:.1} to 1: {}", element.start_tag());
        it.with(EvidenceKind::Element, &text, Some(element.line()))
    })
}

/// Its own text colour, and the nearest background that an inline style around it says.
fn colors(element: Element<'_>) -> Option<(Color, Color, Option<f64>)> {
    let style = element.attr("style")?;
    let text = Color::read(css::declaration(style, "color")?)?;
    let background = |it: Element<'_>| {
        let style = it.attr("style")?;
        let value = css::declaration(style, "background-color")
            .or_else(|| css::declaration(style, "background"))?;
        Some(Color::read(value))
    };
    let nearest = std::iter::once(element).chain(element.ancestors()).find_map(background)??;
    Some((text, nearest, css::declaration(style, "font-size").and_then(css::pixels)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_what_the_guidelines_say() {
        let ratio = |one, other| Color::read(one).unwrap().contrast(Color::read(other).unwrap());
        assert!((ratio("#000", "white") - 21.0).abs() < 0.01);
        assert!((ratio("#777777", "rgb(255, 255, 255)") - 4.48).abs() < 0.01);
        assert_eq!(Color::read("var(--x)"), None);
        assert_eq!(Color::read("#ffff"), None);
        assert_eq!(Color::read("#é"), None);
    }
}

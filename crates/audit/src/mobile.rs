//! Whether the page fits a phone, as far as its source shows.

use crate::css;
use crate::dom::Element;
use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::{Category, EvidenceKind, Finding};

/// What is smaller is hard to read on a phone.
const FONT_PX_MIN: f64 = 12.0;
/// Of all declared sizes, in percent, that may be smaller.
const SMALL_PERCENT_MAX: usize = 40;
/// What WCAG 2.2 asks of a target at least.
const TARGET_PX_MIN: f64 = 24.0;
/// A wide phone.
const SCREEN_PX: f64 = 430.0;

const fn rule(
    key: &'static str,
    topic: &'static str,
    weight: f64,
    texts: [&'static str; 4],
) -> Rule {
    let [good, bad, why, fix] = texts;
    Rule { key, category: Category::Mobile, topic, weight, good, bad, why, fix }
}

const VIEWPORT: Rule = rule(
    "mobile_viewport",
    "viewport",
    5.0,
    [
        "The page fits itself to the screen",
        "The page does not fit itself to the screen",
        "Without a viewport, phones show the page as on a desktop and shrink it until nobody can read it.",
        "Add <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">.",
    ],
);
const ZOOM: Rule = rule(
    "mobile_zoom",
    "zoom",
    2.0,
    [
        "Visitors may zoom",
        "Visitors may not zoom",
        "People who see less well need to enlarge what they read.",
        "Remove user-scalable=no and maximum-scale from the viewport.",
    ],
);
const FONTS: Rule = rule(
    "mobile_font_sizes",
    "font_sizes",
    3.0,
    [
        "Text is large enough to read",
        "Much of the text is too small",
        "Text below 12 pixels has to be enlarged on a phone before it can be read.",
        "Use 16 pixels (1rem) for text and nothing below 12.",
    ],
);
const TARGETS: Rule = rule(
    "mobile_tap_targets",
    "tap_targets",
    3.0,
    [
        "Links and buttons are large enough for fingers",
        "Links or buttons are too small for fingers",
        "A finger is wider than a mouse pointer: what is below 24 pixels is missed.",
        "Make targets at least 24 by 24 pixels, better 48, and leave room between them.",
    ],
);
const WIDTHS: Rule = rule(
    "mobile_fixed_widths",
    "fixed_widths",
    3.0,
    [
        "Nothing is wider than a phone",
        "Parts of the page are wider than a phone",
        "What is wider than the screen makes the whole page slide sideways.",
        "Use max-width: 100% instead of fixed widths in the markup.",
    ],
);
const INPUTS: Rule = rule(
    "mobile_input_types",
    "input_types",
    1.0,
    [
        "Fields bring the right keyboard",
        "Fields do not bring the right keyboard",
        "For type=\"email\" and type=\"tel\" phones show the keys that are needed, and fill them in themselves.",
        "Set the type of the field to what is asked for.",
    ],
);

pub(crate) fn check(page: &Page<'_>) -> Vec<Finding> {
    vec![viewport(page), zoom(page), fonts(page), targets(page), widths(page), inputs(page)]
}

fn viewports<'a>(page: &'a Page<'_>) -> Vec<Element<'a>> {
    page.metas("viewport").collect()
}

/// The value of a property of the viewport, in lower case.
fn viewport_property(viewport: Element<'_>, property: &str) -> Option<String> {
    let content = viewport.attr("content")?.to_ascii_lowercase();
    content.split([',', ';']).find_map(|it| {
        let (name, value) = it.split_once('=')?;
        (name.trim() == property).then(|| value.trim().to_owned())
    })
}

fn viewport(page: &Page<'_>) -> Finding {
    let all = viewports(page);
    let fits = |it: &Element<'_>| {
        viewport_property(*it, "width").is_some_and(|it| it == "device-width")
            || viewport_property(*it, "initial-scale").is_some_and(|it| it.starts_with('1'))
    };
    VIEWPORT.passed_if(all.iter().any(fits)).seen_at(&all)
}

/// Whether a viewport keeps people from enlarging the page to twice its size and more.
pub(crate) fn forbids_zoom(viewport: Element<'_>) -> bool {
    const SCALE_MIN: f64 = 5.0;
    let is_off =
        viewport_property(viewport, "user-scalable").is_some_and(|it| it == "no" || it == "0");
    let scale = viewport_property(viewport, "maximum-scale").and_then(|it| it.parse::<f64>().ok());
    is_off || scale.is_some_and(|it| (0.0..SCALE_MIN).contains(&it))
}

fn zoom(page: &Page<'_>) -> Finding {
    let all = viewports(page);
    let forbidding: Vec<_> = all.iter().copied().filter(|it| forbids_zoom(*it)).collect();
    ZOOM.without(all.len(), &forbidding)
}

/// Sizes that the page's styles declare in absolute units. Relative ones grow with what they are in.
fn fonts(page: &Page<'_>) -> Finding {
    let size =
        |declarations: &str| css::declaration(declarations, "font-size").and_then(css::pixels);
    let mut declared = 0;
    let mut small = Vec::new();
    for sheet in css::sheets(page) {
        for (selector, declarations) in css::rules(&sheet.text) {
            let Some(pixels) = size(declarations) else { continue };
            declared += 1;
            if (0.1..FONT_PX_MIN).contains(&pixels) {
                small.push((
                    format!("{selector} {{ font-size: {pixels}px }} in {}", sheet.name),
                    sheet.line,
                ));
            }
        }
    }
    for element in page.dom.elements() {
        let styled = element.attr("style").and_then(size);
        let is_small_font =
            element.is("font") && ["1", "-2"].iter().any(|it| element.attr_is("size", it));
        declared += usize::from(styled.is_some() || is_small_font);
        if is_small_font || styled.is_some_and(|it| (0.1..FONT_PX_MIN).contains(&it)) {
            small.push((element.start_tag(), Some(element.line())));
        }
    }
    if declared == 0 {
        return FONTS.not_applicable();
    }
    let finding = FONTS.passed_if(small.len() * 100 <= SMALL_PERCENT_MAX * declared);
    let finding = finding
        .saying(&format!("{} of {declared} declared sizes are below 12 pixels.", small.len()));
    small.iter().fold(finding, |it, (text, line)| it.with(EvidenceKind::Text, text, *line))
}

/// Only what the markup itself makes small can be seen here.
fn targets(page: &Page<'_>) -> Finding {
    let is_target = |it: &Element<'_>| {
        it.is("button")
            || it.is("a") && it.attr("href").is_some()
            || it.is("input") && !it.attr_is("type", "hidden")
            || it.attr_is("role", "button")
    };
    let targets: Vec<_> = page.dom.elements().filter(is_target).collect();
    let small: Vec<_> = targets.iter().copied().filter(|it| is_small_target(*it)).collect();
    TARGETS.without(targets.len(), &small)
}

fn is_small_target(target: Element<'_>) -> bool {
    let size = |it: Element<'_>, name: &str| {
        let style = it.attr("style").and_then(|style| css::declaration(style, name));
        match style {
            Some(value) => css::pixels(value),
            None => it.filled(name)?.parse::<f64>().ok(),
        }
    };
    let is_small = |it: Element<'_>| {
        ["width", "height"].iter().any(|name| size(it, name).is_some_and(|it| it < TARGET_PX_MIN))
    };
    let is_empty = !target.has_text();
    // A link around nothing but a small picture is as small as the picture.
    let mut within = target.children();
    let only = within.next().filter(|_| within.next().is_none() && is_empty);
    let picture = only.filter(|it| it.is("img") || it.is_svg());
    is_small(target) || picture.is_some_and(|it| is_small(it) && target.attr("style").is_none())
}

fn widths(page: &Page<'_>) -> Finding {
    let is_wide = |it: &Element<'_>| {
        let style = it.attr("style").unwrap_or_default();
        let is_bounded = css::declaration(style, "max-width").is_some();
        let styled = ["width", "min-width"]
            .iter()
            .filter_map(|name| css::pixels(css::declaration(style, name)?))
            .any(|it| it > SCREEN_PX);
        let by_attribute = it.is_one_of(&["table", "td", "th", "iframe"])
            && it
                .filled("width")
                .and_then(|it| it.parse::<f64>().ok())
                .is_some_and(|it| it > SCREEN_PX);
        !is_bounded && (styled || by_attribute)
    };
    let wide: Vec<_> = page.dom.elements().filter(is_wide).collect();
    WIDTHS.passed_if(wide.is_empty()).seen_at(&wide)
}

fn inputs(page: &Page<'_>) -> Finding {
    let asks_for = |it: &Element<'_>, words: &[&str]| {
        ["name", "id", "autocomplete", "placeholder"].iter().any(|name| {
            let value = it.attr(name).unwrap_or_default().to_lowercase();
            words.iter().any(|word| value == *word || value.starts_with(&format!("{word}-")))
        })
    };
    let wanted = |it: &Element<'_>| {
        if asks_for(it, &["email", "e-mail", "mail"]) {
            Some("email")
        } else if asks_for(it, &["tel", "phone", "telephone", "mobile"]) {
            Some("tel")
        } else {
            None
        }
    };
    let fields: Vec<_> = page
        .dom
        .named("input")
        .filter(|it| !it.attr_is("type", "hidden") && wanted(it).is_some())
        .collect();
    let is_plain = |it: &Element<'_>| {
        let is_text = it.attr("type").is_none_or(|it| it.eq_ignore_ascii_case("text"));
        is_text && it.attr("inputmode").is_none()
    };
    let plain: Vec<_> = fields.iter().copied().filter(is_plain).collect();
    INPUTS.without(fields.len(), &plain)
}

//! Whether everything that can be used has a name that a screen reader can say.

use std::collections::{HashMap, HashSet};

use super::{CRITICAL, SERIOUS, rule};
use crate::dom::{Element, Within};
use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::Finding;

const IMAGES: Rule = rule(
    "accessibility_image_alt",
    "image_alt",
    CRITICAL,
    [
        "All images have an alternative text or are marked as decoration",
        "Images have no alternative text",
        "Whoever cannot see an image hears its text, or else its file name.",
        "Give every image an alt attribute that says what it shows; alt=\"\" if it is decoration.",
    ],
);
const IMAGE_BUTTONS: Rule = rule(
    "accessibility_input_image_alt",
    "image_button",
    CRITICAL,
    [
        "Image buttons have a text",
        "Image buttons have no text",
        "A button without a text is only \"button\" to a screen reader.",
        "Add alt to <input type=\"image\"> that says what the button does.",
    ],
);
const LABELS: Rule = rule(
    "accessibility_label",
    "label",
    CRITICAL,
    [
        "Form fields have labels",
        "Form fields have no labels",
        "Without a label nobody who does not see the field knows what to enter; a placeholder vanishes when one types.",
        "Connect a <label for=\"…\"> with the field's id, or put the field into the label.",
    ],
);
const SELECTS: Rule = rule(
    "accessibility_select_name",
    "select_label",
    CRITICAL,
    [
        "Lists to choose from have labels",
        "Lists to choose from have no labels",
        "Without a label nobody who does not see the list knows what is chosen.",
        "Connect a <label for=\"…\"> with the list's id.",
    ],
);
const BUTTONS: Rule = rule(
    "accessibility_button_name",
    "button_name",
    CRITICAL,
    [
        "Buttons have names",
        "Buttons have no names",
        "A button with only an icon is only \"button\" to a screen reader.",
        "Write text into the button, or add aria-label.",
    ],
);
const LINKS: Rule = rule(
    "accessibility_link_name",
    "link_name",
    SERIOUS,
    [
        "Links have names",
        "Links have no names",
        "A link with only an icon is read as its address, letter by letter.",
        "Write text into the link, give its image an alt text, or add aria-label.",
    ],
);
const FRAMES: Rule = rule(
    "accessibility_frame_title",
    "frame_title",
    SERIOUS,
    [
        "Frames have titles",
        "Frames have no titles",
        "The title tells what is in a frame before one enters it.",
        "Add title=\"…\" to the <iframe>.",
    ],
);

/// The names that elements give each other.
struct Names<'a> {
    /// Texts of elements by their id, for `aria-labelledby`.
    by_id: HashMap<&'a str, Element<'a>>,
    /// Ids that a label with a text is for.
    labelled: HashSet<&'a str>,
    /// What is in a label with a text.
    in_label: Within,
}

impl<'a> Names<'a> {
    fn read(page: &'a Page<'_>) -> Self {
        let with_id = page.dom.elements().filter_map(|it| Some((it.filled("id")?, it)));
        let labels = page.dom.named("label").filter(|it| it.has_text() || has_named_image(*it));
        Names {
            by_id: with_id.collect(),
            labelled: labels.filter_map(|it| it.filled("for")).collect(),
            in_label: page.dom.within(|it| it.is("label") && it.has_text()),
        }
    }

    /// Named by itself, whatever it is.
    fn has_aria_name(&self, element: Element<'_>) -> bool {
        let by_other = |ids: &str| {
            let texts = ids.split_ascii_whitespace().filter_map(|id| self.by_id.get(id));
            texts.into_iter().any(|it| it.has_text() || it.filled("aria-label").is_some())
        };
        element.filled("aria-label").is_some()
            || element.attr("aria-labelledby").is_some_and(by_other)
            || element.filled("title").is_some()
    }

    fn has_label(&self, field: Element<'_>) -> bool {
        self.has_aria_name(field)
            || field.filled("id").is_some_and(|id| self.labelled.contains(id))
            || self.in_label.has(field)
    }

    fn has_content(&self, element: Element<'_>) -> bool {
        self.has_aria_name(element)
            || element.has_text()
            || has_named_image(element)
            || element.descendants().any(|it| it.filled("aria-label").is_some())
    }
}

fn has_named_image(element: Element<'_>) -> bool {
    element.descendants().any(|it| {
        it.is("img") && it.filled("alt").is_some()
            || it.name() == "title" && !it.is("title") && !it.raw_text().trim().is_empty()
    })
}

/// What hides an element and everything in it. What is hidden from everybody needs no name.
fn hides(element: Element<'_>) -> bool {
    let is_styled_away = |style: &str| {
        let style: String = style.to_lowercase().split_whitespace().collect();
        style.contains("display:none") || style.contains("visibility:hidden")
    };
    element.attr("hidden").is_some()
        || element.attr_is("aria-hidden", "true")
        || element.attr("style").is_some_and(is_styled_away)
}

pub(super) fn check(page: &Page<'_>) -> Vec<Finding> {
    let names = Names::read(page);
    let hidden = page.dom.within(hides);
    let shown = |wanted: &dyn Fn(Element<'_>) -> bool| -> Vec<Element<'_>> {
        page.dom.elements().filter(|it| wanted(*it) && !hidden.has(*it)).collect()
    };
    let judge = |rule: &Rule, elements: &[Element<'_>], is_named: &dyn Fn(Element<'_>) -> bool| {
        let nameless: Vec<_> = elements.iter().copied().filter(|it| !is_named(*it)).collect();
        rule.without(elements.len(), &nameless)
    };
    let typed = |it: Element<'_>, types: &[&str]| types.iter().any(|kind| it.attr_is("type", kind));
    let is_button = |it: Element<'_>| {
        it.is("button") || it.is("input") && typed(it, &["button", "submit", "reset"])
    };
    let no_field = ["hidden", "button", "submit", "reset", "image"];
    let is_field = |it: Element<'_>| it.is("textarea") || it.is("input") && !typed(it, &no_field);
    let button_named = |it: Element<'_>| {
        let speaks_for_itself = it.is("input") && typed(it, &["submit", "reset"]);
        names.has_content(it)
            || it.filled("value").is_some()
            || speaks_for_itself && it.attr("value").is_none()
    };
    vec![
        judge(&IMAGES, &shown(&|it| it.is("img")), &crate::search::has_alternative),
        judge(&IMAGE_BUTTONS, &shown(&|it| it.is("input") && typed(it, &["image"])), &|it| {
            it.filled("alt").is_some() || names.has_aria_name(it)
        }),
        judge(&LABELS, &shown(&is_field), &|it| names.has_label(it)),
        judge(&SELECTS, &shown(&|it| it.is("select")), &|it| names.has_label(it)),
        judge(&BUTTONS, &shown(&is_button), &button_named),
        judge(&LINKS, &shown(&|it| it.is("a") && it.attr("href").is_some()), &|it| {
            names.has_content(it)
        }),
        judge(&FRAMES, &shown(&|it| it.is_one_of(&["iframe", "frame"])), &|it| {
            names.has_aria_name(it)
        }),
    ]
}

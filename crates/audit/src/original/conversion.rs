//! Whether visitors are asked to do something, and can.

use serde_json::json;

use super::Checked;
use crate::dom::Element;
use crate::finding::Rule;
use crate::page::Page;
use crate::text::{contains_words, starts_with_ignoring_case};
use crate::verdict::Category;

/// What a button says that wants something of the visitor.
const CALLS: [&str; 14] = [
    "sign up",
    "get started",
    "try",
    "buy",
    "subscribe",
    "join",
    "register",
    "download",
    "learn more",
    "contact",
    "shop",
    "book now",
    "read more",
    "free trial",
];
const CALL_CLASSES: [&str; 4] = ["cta", "call-to-action", "btn-primary", "button-primary"];
const CONTACT_WORDS: [&str; 3] = ["contact", "message", "get in touch"];
const CONTACT_PHRASES: [&str; 2] = ["contact us", "get in touch"];

const BUTTONS: Rule = Rule {
    key: "conversion_cta_buttons",
    category: Category::Conversion,
    topic: "call_to_action",
    weight: 1.0,
    good: "The page asks visitors to act",
    bad: "Nothing asks visitors to act",
    why: "A clear call to action is what turns visitors into customers.",
    fix: "Add a button that says what to do next, such as \"Get started\" or \"Book now\", where everybody sees it.",
};

const FORM: Rule = Rule {
    key: "conversion_form_presence",
    category: Category::Conversion,
    topic: "form",
    weight: 1.0,
    good: "The page has a form",
    bad: "The page has no form",
    why: "A form lets visitors answer at once: an enquiry, an order, a subscription.",
    fix: "Add a short form: an e-mail address and one question are often enough.",
};

const CONTACT: Rule = Rule {
    key: "conversion_contact_method",
    category: Category::Conversion,
    topic: "contact",
    weight: 1.0,
    good: "Visitors can get in touch",
    bad: "There is no way to get in touch",
    why: "People trust and buy from those they can reach.",
    fix: "Add a contact page, an e-mail link (mailto:) or a telephone link (tel:).",
};

pub(super) fn buttons(page: &Page<'_>) -> Checked {
    let calls: Vec<_> = page.dom.elements().filter(|it| is_call(*it)).collect();
    let finding = BUTTONS.passed_if(!calls.is_empty()).seen_at(&calls);
    let said = if calls.len() == 1 { "one call" } else { "these calls" };
    let finding = if calls.is_empty() {
        finding
    } else {
        finding.saying(&format!("The page has {said} to action."))
    };
    Checked::new(finding, json!(calls.len()))
}

/// By whole words: a country is nothing to try.
fn is_call(element: Element<'_>) -> bool {
    if CALL_CLASSES.iter().any(|class| element.has_word("class", class)) {
        return true;
    }
    if !element.is_one_of(&["button", "a"]) {
        return false;
    }
    let text = element.words().to_lowercase();
    CALLS.iter().any(|call| contains_words(&text, call))
}

pub(super) fn form(page: &Page<'_>) -> Checked {
    let is_field = |it: &Element<'_>| {
        let is_typed = |types: &[&str]| types.iter().any(|kind| it.attr_is("type", kind));
        it.is("form")
            || it.is("textarea")
            || it.is("input") && is_typed(&["text", "email", "submit"])
            || it.is("button") && is_typed(&["submit"])
    };
    let field = page.dom.elements().find(is_field);
    let finding = FORM.passed_if(field.is_some()).seen_at(field.as_slice());
    Checked::new(finding, json!(field.is_some()))
}

pub(super) fn contact(page: &Page<'_>) -> Checked {
    let way = page.dom.elements().find(|it| is_contact(*it));
    let is_said = || {
        let text = page.dom.first("body").map(|it| it.words().to_lowercase()).unwrap_or_default();
        CONTACT_PHRASES.iter().any(|phrase| contains_words(&text, phrase))
    };
    let is_there = way.is_some() || is_said();
    Checked::new(CONTACT.passed_if(is_there).seen_at(way.as_slice()), json!(is_there))
}

fn is_contact(element: Element<'_>) -> bool {
    if element.is("form") {
        let text = element.words().to_lowercase();
        return CONTACT_WORDS.iter().any(|word| contains_words(&text, word));
    }
    let Some(href) = element.attr("href").filter(|_| element.is("a")) else { return false };
    let href = href.trim().to_lowercase();
    ["mailto:", "tel:"].iter().any(|scheme| starts_with_ignoring_case(&href, scheme))
        || contains_words(&href.replace(['-', '_', '/', '.', '#'], " "), "contact")
}

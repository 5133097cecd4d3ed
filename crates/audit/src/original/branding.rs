//! Whether the site is recognised as somebody's own.

use serde_json::json;

use super::Checked;
use crate::dom::{Element, Within};
use crate::finding::Rule;
use crate::hosts::{host_of, is_below};
use crate::page::Page;
use crate::verdict::Category;

/// Whose names are lent to everybody.
const LENT_DOMAINS: [&str; 13] = [
    "blogspot.com",
    "wordpress.com",
    "wix.com",
    "weebly.com",
    "squarespace.com",
    "sites.google.com",
    "github.io",
    "netlify.app",
    "vercel.app",
    "herokuapp.com",
    "myshopify.com",
    "webnode.com",
    "jimdo.com",
];

/// Around an image that is likely a logo.
const LOGO_PLACES: [&str; 7] =
    ["logo", "brand", "header", "navbar", "nav", "site-logo", "site-header"];

const LOGO: Rule = Rule {
    key: "branding_logo_presence",
    category: Category::Branding,
    topic: "logo",
    weight: 1.0,
    good: "The page shows a logo",
    bad: "No logo was found",
    why: "A logo at the top tells visitors whose page they are on.",
    fix: "Show your logo in the page's header, with your name as its alternative text.",
};

const DOMAIN: Rule = Rule {
    key: "branding_professional_domain",
    category: Category::Branding,
    topic: "domain",
    weight: 1.0,
    good: "The site has a domain of its own",
    bad: "The site lives under somebody else's domain",
    why: "A domain of your own is remembered, trusted, and stays yours when you change the provider.",
    fix: "Register a domain and have the site answer under it.",
};

pub(super) fn logo(page: &Page<'_>) -> Checked {
    let places = page.dom.within(|it| is_placed(it) || is_marked(it));
    let logo = page.dom.elements().find(|it| is_logo(*it, &places));
    let finding = LOGO.passed_if(logo.is_some()).seen_at(logo.as_slice());
    Checked::new(finding, json!(logo.is_some()))
}

/// Where an image or a drawing is likely a logo.
fn is_placed(element: Element<'_>) -> bool {
    element.is("header") || says_logo(element, "class") || says_logo(element, "id")
}

/// Where an image is likely a logo.
fn is_marked(element: Element<'_>) -> bool {
    LOGO_PLACES.iter().any(|class| element.has_word("class", class))
}

fn says_logo(element: Element<'_>, name: &str) -> bool {
    element.attr(name).is_some_and(|it| it.to_lowercase().contains("logo"))
}

fn is_logo(element: Element<'_>, places: &Within) -> bool {
    if element.is("img") {
        return says_logo(element, "alt") || says_logo(element, "src") || places.has(element);
    }
    element.is_svg() && (is_placed(element) || element.ancestors().any(is_placed))
}

pub(super) fn domain(page: &Page<'_>) -> Checked {
    let host = host_of(&page.url).unwrap_or_default();
    let lender = LENT_DOMAINS.iter().find(|domain| is_below(&host, domain));
    let finding = DOMAIN.passed_if(lender.is_none()).with_text(&host);
    Checked::new(finding, json!(lender.is_none()))
}

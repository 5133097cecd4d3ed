//! Whether the site is recognised as somebody's own.

use serde_json::json;

use super::Checked;
use crate::dom::Element;
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
    let logo = page.dom.elements().find(|it| is_logo(*it));
    let finding = LOGO.passed_if(logo.is_some()).seen_at(logo.as_slice());
    Checked::new(finding, json!(logo.is_some()))
}

fn is_logo(element: Element<'_>) -> bool {
    let says = |name| element.attr(name).is_some_and(|it| it.to_lowercase().contains("logo"));
    let is_placed = |it: Element<'_>| {
        let names_logo =
            |name: &str| it.attr(name).is_some_and(|value| value.to_lowercase().contains("logo"));
        it.is("header") || names_logo("class") || names_logo("id")
    };
    let is_marked = |it: Element<'_>| LOGO_PLACES.iter().any(|class| it.has_word("class", class));
    if element.is("img") {
        return says("alt")
            || says("src")
            || says("class")
            || says("id")
            || element.ancestors().any(|it| is_placed(it) || is_marked(it));
    }
    element.is_svg() && (is_placed(element) || element.ancestors().any(is_placed))
}

pub(super) fn domain(page: &Page<'_>) -> Checked {
    let host = host_of(&page.url).unwrap_or_default();
    let lender = LENT_DOMAINS.iter().find(|domain| is_below(&host, domain));
    let finding = DOMAIN.passed_if(lender.is_none()).with_text(&host);
    Checked::new(finding, json!(lender.is_none()))
}

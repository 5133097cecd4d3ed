//! Where else the site's owner can be found.

use std::collections::BTreeSet;

use serde_json::json;
use url::Url;

use super::Checked;
use crate::dom::Element;
use crate::finding::Rule;
use crate::hosts::{host_of, is_below, registrable};
use crate::page::Page;
use crate::text::contains_words;
use crate::verdict::{Category, Finding};

/// A platform: its name as links say it, and the domains that are its own.
const PLATFORMS: [(&str, &[&str]); 10] = [
    ("facebook", &["facebook.com", "fb.com", "fb.me"]),
    ("twitter", &["twitter.com", "x.com", "t.co"]),
    ("instagram", &["instagram.com"]),
    ("linkedin", &["linkedin.com", "lnkd.in"]),
    ("youtube", &["youtube.com", "youtu.be"]),
    ("pinterest", &["pinterest.com", "pin.it"]),
    ("tiktok", &["tiktok.com"]),
    ("snapchat", &["snapchat.com"]),
    ("reddit", &["reddit.com"]),
    ("medium", &["medium.com"]),
];

/// Words that are platforms' names, but not only: a link must say them alone.
const COMMON_WORDS: [&str; 1] = ["medium"];

const GOOGLE_PHRASES: [&str; 5] =
    ["find us on google", "google business", "google maps", "directions", "our location"];

const SOCIAL: Rule = Rule {
    key: "presence_social_media_links",
    category: Category::Presence,
    topic: "social",
    weight: 1.0,
    good: "The page links to social media",
    bad: "The page hardly links to social media",
    why: "Profiles elsewhere show that there are people behind a page, and keep visitors in touch.",
    fix: "Link to at least two profiles that you keep up to date, usually in the footer.",
};

const GOOGLE: Rule = Rule {
    key: "presence_google_presence",
    category: Category::Presence,
    topic: "google",
    weight: 1.0,
    good: "The page links to a place on the map",
    bad: "Nothing links to a place on the map",
    why: "Customers nearby look for directions, and a business profile decides who is shown first.",
    fix: "Claim the business profile at Google and link to it or to the map.",
};

/// Two platforms are full marks, one is half.
pub(super) fn social(page: &Page<'_>) -> Checked {
    let mut platforms = BTreeSet::new();
    let mut links = Vec::new();
    for element in page.dom.elements() {
        if let Some(platform) = platform_of(page, element)
            && platforms.insert(platform)
        {
            links.push(element);
        }
    }
    let score = match platforms.len() {
        0 => 0,
        1 => 50,
        _ => 100,
    };
    let named: Vec<&str> = platforms.iter().copied().collect();
    let said = if named.is_empty() { "no platform".to_owned() } else { named.join(", ") };
    let finding = if score == 100 { SOCIAL.passed() } else { SOCIAL.failed() };
    let finding = Finding { score: Some(score), ..finding };
    let finding = finding.saying(&format!("Linked: {said}.")).seen_at(&links);
    Checked::new(finding, json!(platforms.len()))
}

/// By the link's host as it was registered; by what the link or its icon says only if it leads
/// somewhere else than the page itself.
fn platform_of(page: &Page<'_>, element: Element<'_>) -> Option<&'static str> {
    let href = element.filled("href").filter(|_| element.is("a"))?;
    let url = page.resolve(href)?;
    if let Some(host) = host_of(&url) {
        let owner = registrable(&host);
        if let Some((name, _)) = PLATFORMS.iter().find(|(_, domains)| domains.contains(&owner)) {
            return Some(name);
        }
    }
    let text = element.words().to_lowercase();
    let label = element.attr("aria-label").unwrap_or_default().to_lowercase();
    PLATFORMS.iter().map(|(name, _)| *name).find(|name| {
        let is_said = |text: &str| {
            if COMMON_WORDS.contains(name) { text == *name } else { contains_words(text, name) }
        };
        let has_icon = |it: Element<'_>| {
            ["fa-", "icon-", "bi-", "social-"]
                .iter()
                .any(|start| it.has_word("class", &format!("{start}{name}")))
        };
        is_said(&text)
            || is_said(&label)
            || !COMMON_WORDS.contains(name) && element.has_word("class", name)
            || has_icon(element)
            || element.descendants().any(has_icon)
    })
}

pub(super) fn google(page: &Page<'_>) -> Checked {
    let link = page.dom.named("a").find(|it| is_map_link(page, *it));
    let finding = GOOGLE.passed_if(link.is_some()).seen_at(link.as_slice());
    Checked::new(finding, json!(link.is_some()))
}

fn is_map_link(page: &Page<'_>, link: Element<'_>) -> bool {
    let url = link.filled("href").and_then(|href| page.resolve(href));
    let text = link.words().to_lowercase();
    url.is_some_and(|url| is_google_place(&url))
        || GOOGLE_PHRASES.iter().any(|phrase| contains_words(&text, phrase))
}

fn is_google_place(url: &Url) -> bool {
    let Some(host) = host_of(url) else { return false };
    let path = url.path();
    let is_google = registrable(&host).split('.').next() == Some("google");
    let is_search = path == "/search" && url.query_pairs().any(|(name, _)| name == "q");
    is_google && (host.starts_with("maps.") || path.starts_with("/maps") || is_search)
        || host == "goo.gl" && path.starts_with("/maps")
        || is_below(&host, "maps.app.goo.gl")
        || host == "g.page"
}

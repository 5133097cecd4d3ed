//! The basics of being found.

use serde_json::json;

use super::{Checked, is_there};
use crate::finding::Rule;
use crate::page::Page;
use crate::text::{count, ellipsis, squeezed};
use crate::verdict::Category;

const VALUE_CHARS_MAX: usize = 500;
/// Of the images, in percent, that must have a text.
const ALT_PERCENT_MIN: usize = 80;

const TITLE: Rule = Rule {
    key: "seo_title_tag",
    category: Category::Seo,
    topic: "title",
    weight: 1.0,
    good: "The page has a title",
    bad: "The page has no title",
    why: "The title is what search results, bookmarks and tabs show.",
    fix: "Add a <title> of 50 to 60 characters that says what is on this page and nowhere else.",
};

const DESCRIPTION: Rule = Rule {
    key: "seo_meta_description",
    category: Category::Seo,
    topic: "description",
    weight: 1.0,
    good: "The page has a description",
    bad: "The page has no description",
    why: "Search engines often show the description below the title; a good one is why people click.",
    fix: "Add <meta name=\"description\" content=\"…\"> with one or two sentences of up to 160 characters.",
};

const HEADING: Rule = Rule {
    key: "seo_h1_heading",
    category: Category::Seo,
    topic: "h1",
    weight: 1.0,
    good: "The page has one main heading",
    bad: "The page does not have exactly one main heading",
    why: "One <h1> tells people and search engines what the page is about.",
    fix: "Give the page one <h1> with its subject, and make the others <h2> or lower.",
};

const ALT_TEXT: Rule = Rule {
    key: "seo_image_alt_text",
    category: Category::Seo,
    topic: "image_alt",
    weight: 1.0,
    good: "Images have alternative texts",
    bad: "Too many images have no alternative text",
    why: "Search engines and screen readers know an image by its text.",
    fix: "Give every image that says something an alt attribute that says the same in words.",
};

const SITEMAP: Rule = Rule {
    key: "seo_sitemap",
    category: Category::Seo,
    topic: "sitemap",
    weight: 1.0,
    good: "The site has a sitemap",
    bad: "No sitemap was found",
    why: "A sitemap tells search engines which pages there are, also those that few links lead to.",
    fix: "Serve a sitemap at /sitemap.xml and name it in robots.txt (Sitemap: https://…/sitemap.xml).",
};

/// Only the page's own title counts: pictures within it have titles, too.
pub(super) fn title(page: &Page<'_>) -> Checked {
    let element = page.dom.first("title");
    let title = element.map(|it| squeezed(&it.raw_text())).unwrap_or_default();
    let finding = TITLE.passed_if(!title.is_empty());
    let finding = match element {
        Some(element) => finding.seen_at(&[element]),
        None => finding,
    };
    Checked::new(finding, json!(ellipsis(&title, VALUE_CHARS_MAX)))
}

pub(super) fn description(page: &Page<'_>) -> Checked {
    let element = page.metas("description").find(|it| it.filled("content").is_some());
    let text = element.and_then(|it| it.filled("content")).unwrap_or_default();
    let finding = DESCRIPTION.passed_if(element.is_some());
    let finding = finding.seen_at(&page.metas("description").collect::<Vec<_>>());
    Checked::new(finding, json!(ellipsis(text, VALUE_CHARS_MAX)))
}

pub(super) fn heading(page: &Page<'_>) -> Checked {
    let headings: Vec<_> = page.dom.named("h1").collect();
    let finding = HEADING.passed_if(headings.len() == 1).seen_at(&headings);
    let finding = finding
        .saying(&format!("The page has {} of the first level.", count(headings.len(), "heading")));
    Checked::new(finding, json!(headings.len()))
}

pub(super) fn alt_text(page: &Page<'_>) -> Checked {
    let images: Vec<_> = page.dom.named("img").collect();
    let without: Vec<_> = images.iter().copied().filter(|it| it.filled("alt").is_none()).collect();
    let with = images.len() - without.len();
    // Without images there is nothing wrong with them.
    let percent = (with * 100).checked_div(images.len()).unwrap_or(100);
    let is_good = images.is_empty() || with * 100 >= ALT_PERCENT_MIN * images.len();
    let finding = ALT_TEXT.passed_if(is_good).seen_at(&without);
    let finding =
        finding.saying(&format!("{with} of {} have a text.", count(images.len(), "image")));
    Checked::new(finding, json!(percent))
}

/// The sitemap was asked for with GET: many servers do not answer HEAD.
pub(super) fn sitemap(page: &Page<'_>) -> Checked {
    let found = page.seen.sitemaps.iter().find(|it| is_there(it)).and_then(|it| it.as_option());
    let finding = SITEMAP.passed_if(found.is_some());
    let finding = match found {
        Some(sitemap) => finding.with_url(&sitemap.url),
        None => finding,
    };
    Checked::new(finding, json!(found.is_some()))
}

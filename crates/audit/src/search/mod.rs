//! What search engines see, with Lighthouse's weights.

mod crawling;
mod links;
mod meta;

pub(crate) use meta::{has_alternative, is_language};

use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::{Category, Finding};

/// A rule of this category. All but being crawlable weigh the same.
const fn rule(
    key: &'static str,
    topic: &'static str,
    weight: f64,
    texts: [&'static str; 4],
) -> Rule {
    let [good, bad, why, fix] = texts;
    Rule { key, category: Category::Search, topic, weight, good, bad, why, fix }
}

pub(crate) fn check(page: &Page<'_>) -> Vec<Finding> {
    vec![
        crawling::is_crawlable(page),
        meta::title(page),
        meta::description(page),
        meta::status(page),
        links::texts(page),
        links::crawlable(page),
        crawling::robots(page),
        meta::image_alt(page),
        meta::hreflang(page),
        meta::canonical(page),
        meta::structured_data(page),
    ]
}

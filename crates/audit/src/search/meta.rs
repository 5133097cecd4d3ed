//! What the page says of itself.

use url::Url;

use super::rule;
use crate::dom::Element;
use crate::finding::Rule;
use crate::hosts::is_same_site;
use crate::page::Page;
use crate::text::squeezed;
use crate::verdict::{EvidenceKind, Finding, Impact};

const STRUCTURED_MAX: usize = 50;

const TITLE: Rule = rule(
    "search_document_title",
    "title",
    1.0,
    [
        "The page has a title",
        "The page has no title",
        "The title is what search results show.",
        "Add a <title> that says what is on this page and nowhere else.",
    ],
);
const DESCRIPTION: Rule = rule(
    "search_meta_description",
    "description",
    1.0,
    [
        "The page has a description",
        "The page has no description",
        "Search engines often show the description below the title.",
        "Add <meta name=\"description\" content=\"…\"> with one or two sentences.",
    ],
);
const STATUS: Rule = rule(
    "search_http_status",
    "status",
    1.0,
    [
        "The page is answered with success",
        "The page is answered with an error",
        "Search engines do not list pages that are answered with an error.",
        "Answer the page with 200.",
    ],
);
const IMAGE_ALT: Rule = rule(
    "search_image_alt",
    "image_alt",
    1.0,
    [
        "All images have an alternative text or are marked as decoration",
        "Images have no alternative text",
        "Search engines know an image by its text.",
        "Give every image an alt attribute; an empty one if it is decoration.",
    ],
);
const HREFLANG: Rule = rule(
    "search_hreflang",
    "hreflang",
    1.0,
    [
        "The links to other languages are valid",
        "Links to other languages are not valid",
        "Search engines show visitors the page in their language only if the link can be read.",
        "Use codes such as en, pt-BR or x-default, and whole addresses.",
    ],
);
const CANONICAL: Rule = rule(
    "search_canonical",
    "canonical",
    1.0,
    [
        "The canonical address is valid",
        "The canonical address is not valid",
        "It tells search engines which of several addresses of the same page counts.",
        "Name one whole address in <link rel=\"canonical\" href=\"https://…\"> that leads to this very page.",
    ],
);
const STRUCTURED: Rule = rule(
    "search_structured_data",
    "structured_data",
    0.0,
    [
        "The structured data can be read",
        "Structured data cannot be read",
        "Search engines make prices, ratings and events of it; a comma too many and they see nothing.",
        "Correct the JSON-LD named below; it must be valid JSON with a @context and a @type.",
    ],
);

pub(super) fn title(page: &Page<'_>) -> Finding {
    let title = page.dom.first("title").map(|it| squeezed(&it.raw_text())).unwrap_or_default();
    TITLE.passed_if(!title.is_empty())
}

pub(super) fn description(page: &Page<'_>) -> Finding {
    DESCRIPTION.passed_if(page.metas("description").any(|it| it.filled("content").is_some()))
}

pub(super) fn status(page: &Page<'_>) -> Finding {
    let status = page.seen.page.status;
    STATUS.passed_if(!(400..600).contains(&status)).with_text(&format!("status {status}"))
}

pub(super) fn image_alt(page: &Page<'_>) -> Finding {
    let images: Vec<_> = page.dom.named("img").collect();
    let without: Vec<_> = images.iter().copied().filter(|it| !has_alternative(*it)).collect();
    IMAGE_ALT.without(images.len(), &without)
}

/// An empty `alt` says that the image is decoration.
pub(crate) fn has_alternative(image: Element<'_>) -> bool {
    image.attr("alt").is_some()
        || ["aria-label", "aria-labelledby", "title"].iter().any(|it| image.filled(it).is_some())
        || ["presentation", "none"].iter().any(|role| image.attr_is("role", role))
        || image.attr_is("aria-hidden", "true")
}

fn links<'a>(page: &'a Page<'_>, rel: &'a str) -> impl Iterator<Item = Element<'a>> {
    page.dom.named("link").filter(move |it| it.has_word("rel", rel))
}

pub(super) fn hreflang(page: &Page<'_>) -> Finding {
    let all: Vec<_> = links(page, "alternate").filter(|it| it.attr("hreflang").is_some()).collect();
    let is_bad = |it: &Element<'_>| {
        let code = it.attr("hreflang").unwrap_or_default().trim().to_ascii_lowercase();
        let is_whole = it.filled("href").is_some_and(|href| Url::parse(href).is_ok());
        !(code == "x-default" || is_language(&code)) || !is_whole
    };
    let bad: Vec<_> = all.iter().copied().filter(is_bad).collect();
    HREFLANG.without(all.len(), &bad)
}

/// Whether this can be a language tag: a language of two or three letters, then short parts.
pub(crate) fn is_language(tag: &str) -> bool {
    let mut parts = tag.split('-');
    let language = parts.next().unwrap_or_default();
    let is_known =
        matches!(language.len(), 2 | 3) && language.chars().all(|c| c.is_ascii_alphabetic());
    let is_private = matches!(language, "xx" | "zz" | "qq");
    is_known
        && !is_private
        && parts
            .all(|it| (1..=8).contains(&it.len()) && it.chars().all(|c| c.is_ascii_alphanumeric()))
}

pub(super) fn canonical(page: &Page<'_>) -> Finding {
    let all: Vec<_> = links(page, "canonical").collect();
    let Some(first) = all.first() else { return CANONICAL.not_applicable() };
    let fault = canonical_fault(page, &all, *first);
    let finding = CANONICAL.passed_if(fault.is_none()).seen_at(&all);
    match fault {
        Some(fault) => finding.saying(fault),
        None => finding,
    }
}

fn canonical_fault(
    page: &Page<'_>,
    all: &[Element<'_>],
    first: Element<'_>,
) -> Option<&'static str> {
    let href = first.filled("href");
    if all.iter().any(|it| it.filled("href") != href) {
        return Some("Several canonical addresses contradict each other.");
    }
    let Some(url) = href.and_then(|href| Url::parse(href).ok()) else {
        return Some("The canonical address is not a whole address.");
    };
    if !is_same_site(&url, &page.url) {
        return Some("The canonical address is on another site.");
    }
    let is_root = url.path() == "/" && url.query().is_none();
    let page_is_root = page.url.path() == "/";
    (is_root && !page_is_root)
        .then_some("The canonical address is the home page, and this page is another.")
}

pub(super) fn structured_data(page: &Page<'_>) -> Finding {
    let scripts: Vec<_> = page
        .dom
        .named("script")
        .filter(|it| it.attr_is("type", "application/ld+json"))
        .take(STRUCTURED_MAX)
        .collect();
    if scripts.is_empty() {
        return STRUCTURED.not_applicable();
    }
    let faults: Vec<_> = scripts
        .iter()
        .filter_map(|it| Some((it.line(), structured_fault(&it.raw_text())?)))
        .collect();
    let finding = STRUCTURED.passed_if(faults.is_empty()).mattering(Impact::Medium);
    faults.iter().fold(finding, |it, (line, fault)| it.with(EvidenceKind::Text, fault, Some(*line)))
}

fn structured_fault(text: &str) -> Option<String> {
    let value: serde_json::Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(problem) => return Some(problem.to_string()),
    };
    let entries = match &value {
        serde_json::Value::Array(entries) => entries.iter().collect(),
        other => vec![other],
    };
    let is_sound = |it: &&serde_json::Value| {
        it.get("@context").is_some() && (it.get("@type").is_some() || it.get("@graph").is_some())
    };
    (!entries.iter().all(is_sound)).then(|| "no @context or no @type".to_owned())
}

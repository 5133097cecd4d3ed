//! What Lighthouse calls best practices, as far as the page alone shows them.

use crate::css;
use crate::dom::Element;
use crate::finding::Rule;
use crate::page::Page;
use crate::security::loads_insecurely;
use crate::text::{CHARSET_BYTES_MAX, charset_of};
use crate::verdict::{Category, EvidenceKind, Finding};
use roundsman_core::audits::observed::{Resource, Seen};

const fn rule(
    key: &'static str,
    topic: &'static str,
    weight: f64,
    texts: [&'static str; 4],
) -> Rule {
    let [good, bad, why, fix] = texts;
    Rule { key, category: Category::BestPractices, topic, weight, good, bad, why, fix }
}

const HTTPS: Rule = rule(
    "best_practices_is_on_https",
    "https",
    5.0,
    [
        "Everything comes over https",
        "Not everything comes over https",
        "Everybody on the way can read and change what is not encrypted.",
        "Serve the page and all that it loads over https.",
    ],
);
const REDIRECT: Rule = rule(
    "best_practices_redirects_http",
    "http_redirect",
    1.0,
    [
        "Plain http leads to https",
        "Plain http does not lead to https",
        "Visitors who type the address come over plain http first.",
        "Redirect everything on port 80 to https.",
    ],
);
const DOCTYPE: Rule = rule(
    "best_practices_doctype",
    "doctype",
    1.0,
    [
        "The page has the HTML doctype",
        "The page does not have the HTML doctype",
        "Without it browsers imitate those of the last century, each in its own way.",
        "Begin the page with <!doctype html>.",
    ],
);
const CHARSET: Rule = rule(
    "best_practices_charset",
    "charset",
    1.0,
    [
        "The page says its character set",
        "The page does not say its character set in time",
        "Browsers that have to guess show wrong letters or start over.",
        "Put <meta charset=\"utf-8\"> first into the <head>, or send Content-Type: text/html; charset=utf-8.",
    ],
);
const PASTE: Rule = rule(
    "best_practices_paste",
    "paste",
    3.0,
    [
        "Visitors may paste into fields",
        "A field does not let visitors paste",
        "Whoever cannot paste does not use a password manager, and chooses weaker passwords.",
        "Remove the onpaste handler that returns false.",
    ],
);
const ASPECT: Rule = rule(
    "best_practices_image_aspect_ratio",
    "image_aspect_ratio",
    1.0,
    [
        "Images are shown in their own proportions",
        "Images are shown distorted",
        "A distorted face or logo looks careless.",
        "Set width and height in the proportions of the file, or use object-fit: cover.",
    ],
);
const CONSOLE: Rule = rule(
    "best_practices_console_errors",
    "console_errors",
    1.0,
    [
        "The browser's console shows no errors",
        "The browser's console shows errors",
        "An error there is something on the page that does not work.",
        "Open the browser's console and mend what it names.",
    ],
);

pub(crate) fn check(page: &Page<'_>) -> Vec<Finding> {
    vec![
        https(page),
        redirect(page),
        doctype(page),
        charset(page),
        paste(page),
        aspect(page),
        console(page),
    ]
}

fn https(page: &Page<'_>) -> Finding {
    if !page.is_https() {
        return HTTPS.failed().with_url(page.url.as_str());
    }
    let mixed: Vec<_> = page.dom.elements().filter(|it| loads_insecurely(page, *it)).collect();
    // It is the same defect that security tells.
    let topic = "mixed_content".to_owned();
    Finding { topic, ..HTTPS.passed_if(mixed.is_empty()).seen_at(&mixed) }
}

fn redirect(page: &Page<'_>) -> Finding {
    let hops = match &page.seen.plain_http {
        Seen::Seen(hops) => hops,
        Seen::Missing(_) => return REDIRECT.not_applicable(),
    };
    let end = hops.last().map(|hop| hop.location.as_deref().unwrap_or(&hop.url));
    REDIRECT.passed_if(end.is_some_and(|url| url.starts_with("https://")))
}

fn doctype(page: &Page<'_>) -> Finding {
    if !page.is_html {
        return DOCTYPE.not_applicable();
    }
    let is_html = page.dom.doctype.as_deref().is_some_and(|it| it.eq_ignore_ascii_case("html"));
    let finding = DOCTYPE.passed_if(is_html && !page.dom.is_quirky);
    match &page.dom.doctype {
        Some(name) => finding.with(EvidenceKind::Text, &format!("<!doctype {name}>"), Some(1)),
        None => finding,
    }
}

fn charset(page: &Page<'_>) -> Finding {
    if !page.is_html {
        return CHARSET.not_applicable();
    }
    let body = &page.seen.page.body;
    let by_header = page.header("content-type").and_then(charset_of);
    let has_mark = encoding_rs::Encoding::for_bom(body).is_some();
    let head = &body[..body.len().min(CHARSET_BYTES_MAX)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let in_time = head
        .match_indices("<meta")
        .any(|(at, _)| head[at..].split('>').next().is_some_and(|tag| tag.contains("charset=")));
    CHARSET.passed_if(by_header.is_some() || has_mark || in_time)
}

fn paste(page: &Page<'_>) -> Finding {
    let fields: Vec<_> =
        page.dom.elements().filter(|it| it.is_one_of(&["input", "textarea"])).collect();
    let refuses = |it: &Element<'_>| {
        let code: String =
            it.attr("onpaste").unwrap_or_default().to_lowercase().split_whitespace().collect();
        code.contains("returnfalse") || code.contains("preventdefault")
    };
    let refusing: Vec<_> = fields.iter().copied().filter(refuses).collect();
    PASTE.without(fields.len(), &refusing)
}

/// Lighthouse allows a difference of two pixels at the shown size.
fn aspect(page: &Page<'_>) -> Finding {
    let mut looked_at = 0;
    let mut distorted = Vec::new();
    for image in page.dom.named("img") {
        let style = image.attr("style").unwrap_or_default();
        let Some((width, height)) = shown_size(image) else { continue };
        let Some((real_width, real_height)) = real_size(page, image) else { continue };
        if css::declaration(style, "object-fit").is_some() {
            continue;
        }
        looked_at += 1;
        if (width * real_height / real_width - height).abs() > 2.0 {
            distorted.push(image);
        }
    }
    ASPECT.without(looked_at, &distorted)
}

fn shown_size(image: Element<'_>) -> Option<(f64, f64)> {
    let size = |name: &str| {
        let style = image.attr("style").and_then(|style| css::declaration(style, name));
        match style {
            Some(value) => css::pixels(value),
            None => image.filled(name)?.trim_end_matches("px").parse::<f64>().ok(),
        }
    };
    Some((size("width")?, size("height")?)).filter(|(width, height)| *width > 5.0 && *height > 5.0)
}

fn real_size(page: &Page<'_>, image: Element<'_>) -> Option<(f64, f64)> {
    let url = page.resolve(image.filled("src")?)?;
    let is_it = |it: &&Resource| it.url == url.as_str();
    let resource = page.seen.resources.iter().find(is_it)?;
    let seen = resource.answer.as_option()?.image.as_ref().filter(|it| it.format != "svg")?;
    let (width, height) = (f64::from(seen.width_px?), f64::from(seen.height_px?));
    (width > 0.0 && height > 0.0).then_some((width, height))
}

fn console(page: &Page<'_>) -> Finding {
    match &page.seen.browser {
        Seen::Missing(reason) => {
            CONSOLE.not_measured(&format!("No browser looked at the page: {reason}."))
        }
        Seen::Seen(browser) => {
            let errors = &browser.console_errors;
            errors
                .iter()
                .fold(CONSOLE.passed_if(errors.is_empty()), |it, error| it.with_text(error))
        }
    }
}

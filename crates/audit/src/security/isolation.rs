//! The headers that keep a page apart from foreign ones in the browser's memory.

use super::headers::with_value;
use super::{Result, graded, rule};
use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::Finding;

const RESOURCE: Rule = rule(
    "security_resource_policy",
    "corp",
    [
        "Nothing is wrong with who may embed the page's files",
        "The header for who may embed files cannot be read",
        "Cross-Origin-Resource-Policy keeps files out of the memory of foreign pages.",
        "Send Cross-Origin-Resource-Policy: same-origin (or same-site).",
    ],
);

const EMBEDDER: Rule = rule(
    "security_embedder_policy",
    "coep",
    [
        "Nothing is wrong with what the page may embed",
        "The header for what the page may embed cannot be read",
        "Cross-Origin-Embedder-Policy lets the page embed only what agrees to it.",
        "Send Cross-Origin-Embedder-Policy: require-corp (or credentialless).",
    ],
);

const OPENER: Rule = rule(
    "security_opener_policy",
    "coop",
    [
        "Nothing is wrong with who may hold the page's window",
        "The header for who may hold the page's window cannot be read",
        "Cross-Origin-Opener-Policy cuts the tie to windows that foreign pages opened.",
        "Send Cross-Origin-Opener-Policy: same-origin (or same-origin-allow-popups).",
    ],
);

const NOT_SET: Result = Result::new(0, "The header is not set.");
const SET: Result = Result::new(10, "The header is set and protects.");
const OPEN: Result = Result::new(0, "The header is set to what browsers do without it.");
const INVALID: Result = Result::new(-5, "The header has a value that browsers do not know.");

pub(super) fn resource_policy(page: &Page<'_>) -> Finding {
    one_of(
        page,
        &RESOURCE,
        "cross-origin-resource-policy",
        &["same-origin", "same-site"],
        "cross-origin",
    )
}

pub(super) fn embedder_policy(page: &Page<'_>) -> Finding {
    one_of(
        page,
        &EMBEDDER,
        "cross-origin-embedder-policy",
        &["require-corp", "credentialless"],
        "unsafe-none",
    )
}

pub(super) fn opener_policy(page: &Page<'_>) -> Finding {
    let good = ["same-origin", "same-origin-allow-popups", "noopener-allow-popups"];
    one_of(page, &OPENER, "cross-origin-opener-policy", &good, "unsafe-none")
}

/// The value may carry parameters behind a semicolon. Twice is not valid.
fn one_of(page: &Page<'_>, rule: &Rule, name: &str, good: &[&str], open: &str) -> Finding {
    let values: Vec<&str> = page.seen.page.headers.all(name).collect();
    let finding = graded(rule, &result(&values, good, open));
    values.iter().fold(finding, |it, value| with_value(it, name, Some(value)))
}

fn result(values: &[&str], good: &[&str], open: &str) -> Result {
    let [value] = values else { return if values.is_empty() { NOT_SET } else { INVALID } };
    let value = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if good.contains(&value.as_str()) {
        SET
    } else if value == open {
        OPEN
    } else {
        INVALID
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_has_the_published_modifiers() {
        for (values, expected) in [
            (&[][..], 0),
            (&["same-origin"], 10),
            (&["same-site; report-to=\"a\""], 10),
            (&["cross-origin"], 0),
            (&["nonsense"], -5),
            (&["same-origin", "same-origin"], -5),
        ] {
            let modifier = result(values, &["same-origin", "same-site"], "cross-origin").modifier;
            assert_eq!(modifier, expected, "{values:?}");
        }
    }
}

//! Single headers that the Observatory looks at.

use roundsman_core::audits::observed::{FOREIGN_ORIGIN, Headers, Seen};

use super::csp::Policies;
use super::{Result, graded, rule};
use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::Finding;

const CORS: Rule = rule(
    "security_cors",
    "cors",
    [
        "Foreign sites cannot read the page in a visitor's name",
        "Every foreign site can read the page in a visitor's name",
        "A page that answers any origin with credentials shows everybody what a visitor who is signed in would see.",
        "Send Access-Control-Allow-Origin only for origins you know instead of repeating what was asked, or leave out Access-Control-Allow-Credentials.",
    ],
);

const REFERRER: Rule = rule(
    "security_referrer_policy",
    "referrer_policy",
    [
        "Other sites learn little from links",
        "Other sites learn whole addresses from links",
        "Without a referrer policy, or with a lax one, addresses with what is private in them are sent along.",
        "Send Referrer-Policy: strict-origin-when-cross-origin (or no-referrer).",
    ],
);

const CONTENT_TYPE: Rule = rule(
    "security_content_type_options",
    "nosniff",
    [
        "Browsers take files for what they are said to be",
        "Browsers may take files for something else than they are said to be",
        "A browser that guesses can be made to run an uploaded picture as a script.",
        "Send X-Content-Type-Options: nosniff with every answer.",
    ],
);

const FRAMES: Rule = rule(
    "security_frame_options",
    "frames",
    [
        "Foreign sites cannot put the page into a frame",
        "Foreign sites can put the page into a frame",
        "A page in an invisible frame can be made to receive clicks that were meant for something else.",
        "Send Content-Security-Policy: frame-ancestors 'none' (or 'self'), and X-Frame-Options: DENY for old browsers.",
    ],
);

const CORS_NONE: Result = Result::new(0, "The page is not open to scripts of other sites.");
const CORS_PUBLIC: Result =
    Result::new(0, "The page can be read by all sites, but only as a stranger sees it.");
const CORS_RESTRICTED: Result =
    Result::new(0, "The page is open to scripts of certain sites only.");
const CORS_UNIVERSAL: Result =
    Result::new(-50, "The page lets any site read it with the visitor's cookies.");

/// Whether any origin is let in shows when a strange one asks. Without such a request, the page's own
/// headers are looked at.
pub(super) fn cors(page: &Page<'_>) -> Finding {
    let headers = match &page.seen.foreign_origin {
        Seen::Seen(headers) => headers,
        Seen::Missing(_) => &page.seen.page.headers,
    };
    let finding = graded(&CORS, &cors_result(headers));
    let names = ["access-control-allow-origin", "access-control-allow-credentials"];
    names.iter().fold(finding, |it, name| match headers.first(name) {
        Some(value) => it.with_header(name, value),
        None => it,
    })
}

fn cors_result(headers: &Headers) -> Result {
    let Some(origin) = headers.first("access-control-allow-origin").map(str::trim) else {
        return CORS_NONE;
    };
    let credentials = headers.first("access-control-allow-credentials");
    let with_credentials = credentials.is_some_and(|it| it.trim().eq_ignore_ascii_case("true"));
    if origin == "*" {
        CORS_PUBLIC
    } else if origin.eq_ignore_ascii_case(FOREIGN_ORIGIN) && with_credentials {
        CORS_UNIVERSAL
    } else {
        CORS_RESTRICTED
    }
}

const PRIVATE: [&str; 4] =
    ["no-referrer", "same-origin", "strict-origin", "strict-origin-when-cross-origin"];
const LAX: [&str; 4] =
    ["origin", "origin-when-cross-origin", "unsafe-url", "no-referrer-when-downgrade"];

/// The last value that is known counts, and what the page says itself comes after the header.
pub(super) fn referrer_policy(page: &Page<'_>) -> Finding {
    let headers = page.seen.page.headers.all("referrer-policy");
    let metas = page.metas("referrer").filter_map(|it| it.filled("content"));
    let said: Vec<&str> = headers.chain(page.http_equiv("referrer-policy")).chain(metas).collect();
    let finding = graded(&REFERRER, &referrer_result(&said));
    said.iter().fold(finding, |it, value| it.with_header("referrer-policy", value))
}

fn referrer_result(said: &[&str]) -> Result {
    if said.is_empty() {
        return Result::new(
            0,
            "No referrer policy is set; browsers use a safe one by themselves today.",
        );
    }
    let values = said.iter().flat_map(|it| it.split(',')).map(|it| it.trim().to_ascii_lowercase());
    let mut known =
        values.filter(|it| PRIVATE.contains(&it.as_str()) || LAX.contains(&it.as_str()));
    match known.next_back() {
        Some(policy) if PRIVATE.contains(&policy.as_str()) => {
            Result::new(5, "The referrer policy keeps addresses private.")
        }
        Some(_) => Result::new(-5, "The referrer policy gives addresses away."),
        None => Result::new(-5, "The referrer policy is none that browsers know."),
    }
}

pub(super) fn content_type_options(page: &Page<'_>) -> Finding {
    let value = page.header("x-content-type-options");
    let result = match value.map(|it| it.trim().eq_ignore_ascii_case("nosniff")) {
        Some(true) => Result::new(0, "The header is set to nosniff."),
        Some(false) => Result::new(-5, "The header has a value that browsers do not know."),
        None => Result::new(-5, "The header is not set."),
    };
    with_value(graded(&CONTENT_TYPE, &result), "x-content-type-options", value)
}

/// The bonus is for saying who may frame the page in either way: the Observatory gave it to the policy
/// alone at first and to both since.
pub(super) fn frame_options(page: &Page<'_>, policies: &Policies) -> Finding {
    let value = page.header("x-frame-options");
    let known = value.map(|it| it.trim().to_ascii_lowercase());
    let result = match known.as_deref() {
        _ if policies.has_frame_ancestors() => {
            Result::new(5, "The content security policy says who may frame the page.")
        }
        Some("deny" | "sameorigin") => {
            Result::new(5, "X-Frame-Options says who may frame the page.")
        }
        Some(it) if it.starts_with("allow-from") => {
            Result::new(0, "ALLOW-FROM is passed over by browsers of today.")
        }
        Some(_) => Result::new(-20, "X-Frame-Options has a value that browsers do not know."),
        None => Result::new(-20, "Nothing says who may frame the page."),
    };
    with_value(graded(&FRAMES, &result), "x-frame-options", value)
}

pub(super) fn with_value(finding: Finding, name: &str, value: Option<&str>) -> Finding {
    match value {
        Some(value) => finding.with_header(name, value),
        None => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referrer_policies_have_the_published_modifiers() {
        for (said, expected) in [
            (&[][..], 0),
            (&["no-referrer"], 5),
            (&["strict-origin-when-cross-origin"], 5),
            (&["unsafe-url"], -5),
            (&["no-referrer-when-downgrade"], -5),
            (&["nonsense"], -5),
            (&["unsafe-url, no-referrer"], 5),
            (&["no-referrer, future-policy"], 5),
        ] {
            assert_eq!(referrer_result(said).modifier, expected, "{said:?}");
        }
    }

    #[test]
    fn cors_has_the_published_modifiers() {
        for (origin, credentials, expected) in [
            (None, None, 0),
            (Some("*"), None, 0),
            (Some("*"), Some("true"), 0),
            (Some("https://partner.example"), Some("true"), 0),
            (Some(FOREIGN_ORIGIN), None, 0),
            (Some(FOREIGN_ORIGIN), Some("true"), -50),
        ] {
            let all = [
                ("access-control-allow-origin", origin),
                ("access-control-allow-credentials", credentials),
            ];
            let headers = all
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
            assert_eq!(cors_result(&Headers(headers.collect())).modifier, expected, "{origin:?}");
        }
    }
}

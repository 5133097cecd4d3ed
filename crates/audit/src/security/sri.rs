//! Whether foreign scripts are held to what they were when the page was written.

use super::{Result, graded, rule};
use crate::dom::Element;
use crate::finding::Rule;
use crate::hosts::is_same_site;
use crate::page::Page;
use crate::text::starts_with_ignoring_case;
use crate::verdict::Finding;

const RULE: Rule = rule(
    "security_subresource_integrity",
    "sri",
    [
        "Scripts of other sites cannot change unnoticed",
        "Scripts of other sites can change unnoticed",
        "Whoever breaks into the server of a foreign script is in your page, too. A checksum stops what is not what you tested.",
        "Load the script over https with integrity=\"sha384-…\" and crossorigin=\"anonymous\", or serve it from your own site.",
    ],
);

const ALL_OWN: Result = Result::new(5, "Scripts have checksums and come from the page's own site.");
const ALL_CHECKED: Result =
    Result::new(5, "All foreign scripts have checksums and come over https.");
const NOT_HTML: Result = Result::new(0, "What was answered is no page, so no scripts are in it.");
const UNPARSABLE: Result = Result::new(-20, "What was answered is said to be a page, but is none.");
const NO_SCRIPTS: Result = Result::new(0, "The page has no scripts.");
const OWN_ONLY: Result = Result::new(0, "All scripts come from the page's own site.");

/// From good to worst: the worst script counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    CheckedButInsecure,
    Unchecked,
    UncheckedAndInsecure,
}

impl Fault {
    const fn result(self) -> Result {
        match self {
            Fault::CheckedButInsecure => Result::new(
                -20,
                "Foreign scripts have checksums, but come over plain http or leave the scheme open (//…).",
            ),
            Fault::Unchecked => {
                Result::new(-5, "Foreign scripts come over https, but without checksums.")
            }
            Fault::UncheckedAndInsecure => Result::new(
                -50,
                "Foreign scripts have no checksums and come over plain http or leave the scheme open (//…).",
            ),
        }
    }
}

struct Script {
    is_own: bool,
    is_checked: bool,
    is_secure: bool,
}

impl Script {
    fn fault(&self) -> Option<Fault> {
        match (self.is_own, self.is_checked, self.is_secure) {
            (true, ..) | (_, true, true) => None,
            (_, true, false) => Some(Fault::CheckedButInsecure),
            (_, false, true) => Some(Fault::Unchecked),
            (_, false, false) => Some(Fault::UncheckedAndInsecure),
        }
    }
}

/// The Observatory counts a reference that leaves the scheme open as foreign and not secure.
fn look(page: &Page<'_>, element: Element<'_>) -> Option<Script> {
    let src = element.filled("src")?;
    let url = page.resolve(src)?;
    let leaves_scheme_open = src.starts_with("//");
    let is_whole = ["http://", "https://"].iter().any(|it| starts_with_ignoring_case(src, it));
    let is_relative = !leaves_scheme_open && !is_whole;
    Some(Script {
        is_own: is_relative || !leaves_scheme_open && is_same_site(&url, &page.url),
        is_checked: element.filled("integrity").is_some(),
        is_secure: !leaves_scheme_open && url.scheme() == "https",
    })
}

pub(super) fn check(page: &Page<'_>) -> Finding {
    if !page.is_html {
        return graded(&RULE, &NOT_HTML);
    }
    if is_binary(&page.seen.page.body) {
        return graded(&RULE, &UNPARSABLE);
    }
    let elements: Vec<_> = page.dom.named("script").collect();
    let scripts: Vec<_> = elements.iter().filter_map(|it| Some((*it, look(page, *it)?))).collect();
    let result = result(!elements.is_empty(), &scripts.iter().map(|(_, script)| script));
    let faulty: Vec<_> = scripts
        .iter()
        .filter(|(_, it)| it.fault().is_some())
        .map(|(element, _)| *element)
        .collect();
    graded(&RULE, &result).seen_at(&faulty)
}

fn result<'a>(has_scripts: bool, scripts: &(impl Iterator<Item = &'a Script> + Clone)) -> Result {
    if let Some(worst) = scripts.clone().filter_map(Script::fault).max() {
        return worst.result();
    }
    if !has_scripts {
        NO_SCRIPTS
    } else if scripts.clone().any(|it| !it.is_own) {
        ALL_CHECKED
    } else if scripts.clone().any(|it| it.is_checked && it.is_secure) {
        ALL_OWN
    } else {
        OWN_ONLY
    }
}

/// A page has no zero bytes at its beginning.
fn is_binary(body: &[u8]) -> bool {
    let head = &body[..body.len().min(512)];
    let is_utf16 = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    !is_utf16 && head.contains(&0)
}

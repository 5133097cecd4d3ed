//! The content security policy, judged by what it lets through.
//!
//! Several policies all apply: something is let through only if every one lets it through. So each is
//! looked at by itself, and a weakness counts if all have it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Result, graded, rule};
use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::Finding;

const RULE: Rule = rule(
    "security_csp",
    "csp",
    [
        "The content security policy is strong",
        "The content security policy is missing or weak",
        "A content security policy decides which scripts may run. It is the best defence when somebody manages to put foreign code into a page.",
        "Send Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none', and allow from there only what the page needs. Replace inline scripts by files, or give them nonces.",
    ],
);

const NO_UNSAFE_DEFAULT_NONE: Result =
    Result::new(10, "The policy begins with default-src 'none' and lets nothing unsafe through.");
const NO_UNSAFE: Result = Result::new(5, "The policy lets nothing unsafe through.");
const UNSAFE_STYLE: Result = Result::new(0, "The policy is only lax with styles.");
const INSECURE_PASSIVE: Result =
    Result::new(-10, "The policy lets images or media come over plain http.");
const UNSAFE_EVAL: Result =
    Result::new(-10, "The policy lets text be run as code ('unsafe-eval').");
const UNSAFE_INLINE: Result = Result::new(
    -20,
    "The policy lets inline scripts run, or scripts or plug-ins come from almost anywhere.",
);
const INSECURE_SCHEME: Result = Result::new(-20, "The policy lets code come over plain http.");
const INVALID: Result = Result::new(-25, "The policy cannot be read.");
const MISSING: Result = Result::new(-25, "The page has no content security policy.");
const REPORT_ONLY: Result =
    Result::new(-25, "The policy only reports what it would stop, and stops nothing.");

const BROAD: [&str; 8] =
    ["ftp:", "http:", "https:", "*", "http://*", "http://*.*", "https://*", "https://*.*"];
const INLINE: [&str; 2] = ["'unsafe-inline'", "data:"];
const NOT_IN_META: [&str; 3] = ["frame-ancestors", "report-uri", "sandbox"];
const MAY_REPEAT: [&str; 2] = ["report-uri", "report-to"];
const PASSIVE: [&str; 2] = ["img-src", "media-src"];
/// No policy is shorter than the shortest directive.
const POLICY_BYTES_MIN: usize = 6;
const POLICIES_MAX: usize = 32;

type Sources = BTreeSet<String>;

#[derive(Debug, Default)]
struct Policy(BTreeMap<String, Sources>);

/// What a page says in headers and in itself.
pub(super) struct Policies {
    from_headers: usize,
    /// None if one of them cannot be read.
    all: Option<Vec<Policy>>,
    has_report_only: bool,
}

impl Policies {
    pub(super) fn read(page: &Page<'_>) -> Self {
        let split = |value: &str| -> Vec<String> {
            value.split(',').map(|it| it.trim().to_owned()).collect()
        };
        let headers: Vec<String> =
            page.seen.page.headers.all("content-security-policy").flat_map(split).collect();
        let metas: Vec<String> =
            page.http_equiv("content-security-policy").flat_map(split).collect();
        let from_headers = headers.len().min(POLICIES_MAX);
        let read = headers
            .iter()
            .map(|it| Policy::read(it, &[]))
            .chain(metas.iter().map(|it| Policy::read(it, &NOT_IN_META)));
        Policies {
            from_headers,
            all: read.take(POLICIES_MAX).collect(),
            has_report_only: page.header("content-security-policy-report-only").is_some(),
        }
    }

    /// Whether a header says who may frame the page. What the page says of that itself does not count.
    pub(super) fn has_frame_ancestors(&self) -> bool {
        let policies = self.all.as_deref().unwrap_or_default();
        policies.iter().take(self.from_headers).any(|it| it.0.contains_key("frame-ancestors"))
    }

    fn result(&self, is_https: bool) -> Result {
        let Some(policies) = &self.all else { return INVALID };
        let policies: Vec<&Policy> = policies.iter().filter(|it| !it.0.is_empty()).collect();
        if policies.is_empty() {
            return if self.has_report_only { REPORT_ONLY } else { MISSING };
        }
        if policies.iter().any(|it| it.is_dynamic_without_anchor()) {
            return INVALID;
        }
        let all = |weak: &dyn Fn(&Policy) -> bool| policies.iter().all(|it| weak(it));
        if all(&Policy::has_unsafe_scripts) {
            UNSAFE_INLINE
        } else if is_https && all(&Policy::has_insecure_code) {
            INSECURE_SCHEME
        } else if all(&Policy::has_eval) {
            UNSAFE_EVAL
        } else if is_https && all(&Policy::has_insecure_images) {
            INSECURE_PASSIVE
        } else if all(&Policy::has_unsafe_styles) {
            UNSAFE_STYLE
        } else if policies.iter().any(|it| it.is_default_none()) {
            NO_UNSAFE_DEFAULT_NONE
        } else {
            NO_UNSAFE
        }
    }
}

impl Policy {
    /// A directive that is there twice makes a policy unreadable: browsers take the first, and whoever
    /// wrote it meant something else.
    fn read(text: &str, left_out: &[&str]) -> Option<Self> {
        if text.len() < POLICY_BYTES_MIN {
            return None;
        }
        let mut policy = Policy::default();
        for part in text.split(';') {
            let mut words = part.split_whitespace();
            let Some(name) = words.next().map(str::to_lowercase) else { continue };
            let mut sources: Sources = words.map(str::to_lowercase).collect();
            if sources.is_empty() && name.ends_with("-src") {
                sources.insert("'none'".to_owned());
            }
            if left_out.contains(&name.as_str()) {
                continue;
            }
            let may_repeat = MAY_REPEAT.contains(&name.as_str());
            if policy.0.insert(name, sources).is_some() && !may_repeat {
                return None;
            }
        }
        Some(policy)
    }

    /// What applies to a directive: its own sources, the default's, or everything.
    fn sources(&self, name: &str) -> Sources {
        let named = self.0.get(name).or_else(|| self.0.get("default-src"));
        let mut sources = named.cloned().unwrap_or_else(|| Sources::from(["*".to_owned()]));
        // Browsers that know nonces and hashes pass over 'unsafe-inline' beside them.
        if ["script-src", "style-src"].contains(&name) && has_anchor(&sources) {
            sources.remove("'unsafe-inline'");
            if name == "script-src" && sources.contains("'strict-dynamic'") {
                sources.retain(|it| {
                    it != "'self'" && !BROAD.iter().any(|broad| it.starts_with(broad))
                });
            }
        }
        sources
    }

    fn is_dynamic_without_anchor(&self) -> bool {
        let scripts = self.sources("script-src");
        scripts.contains("'strict-dynamic'") && !has_anchor(&scripts)
    }

    fn has_unsafe_scripts(&self) -> bool {
        has_any(&self.sources("script-src"), &[&BROAD[..], &INLINE[..]])
            || has_any(&self.sources("object-src"), &[&BROAD[..]])
    }

    fn has_insecure_code(&self) -> bool {
        let active = self
            .0
            .iter()
            .filter(|(name, _)| *name != "script-src" && !PASSIVE.contains(&name.as_str()));
        active.flat_map(|(_, sources)| sources).any(|it| is_insecure(it))
            || self.sources("script-src").iter().any(|it| is_insecure(it))
    }

    fn has_eval(&self) -> bool {
        ["script-src", "style-src"].iter().any(|it| self.sources(it).contains("'unsafe-eval'"))
    }

    fn has_insecure_images(&self) -> bool {
        PASSIVE.iter().any(|it| self.sources(it).iter().any(|it| is_insecure(it)))
    }

    fn has_unsafe_styles(&self) -> bool {
        has_any(&self.sources("style-src"), &[&BROAD[..], &INLINE[..]])
    }

    fn is_default_none(&self) -> bool {
        self.0.get("default-src").is_some_and(|it| it.len() == 1 && it.contains("'none'"))
    }
}

fn has_anchor(sources: &Sources) -> bool {
    let starts = ["'sha256-", "'sha384-", "'sha512-", "'nonce-"];
    sources.iter().any(|source| starts.iter().any(|start| source.starts_with(start)))
}

fn has_any(sources: &Sources, lists: &[&[&str]]) -> bool {
    lists.iter().any(|list| list.iter().any(|it| sources.contains(*it)))
}

fn is_insecure(source: &str) -> bool {
    source.starts_with("http:") || source.starts_with("ftp:")
}

pub(super) fn check(page: &Page<'_>, policies: &Policies) -> Finding {
    let finding = graded(&RULE, &policies.result(page.is_https()));
    let names = ["content-security-policy", "content-security-policy-report-only"];
    names.iter().fold(finding, |finding, name| {
        page.seen.page.headers.all(name).fold(finding, |it, value| it.with_header(name, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modifier(policies: &[&str]) -> i32 {
        let read = policies.iter().map(|it| Policy::read(it, &[])).collect();
        let policies = Policies { from_headers: policies.len(), all: read, has_report_only: false };
        policies.result(true).modifier
    }

    #[test]
    fn policies_have_the_published_modifiers() {
        for (policy, expected) in [
            ("default-src 'none'", 10),
            ("default-src 'none'; script-src 'self'", 10),
            ("default-src 'self'", 5),
            ("default-src 'self'; style-src 'self' 'unsafe-inline'", 0),
            ("default-src 'self'; style-src https:", 0),
            ("default-src 'self'; img-src http:", -10),
            ("default-src 'self'; script-src 'self' 'unsafe-eval'", -10),
            ("default-src 'self'; script-src 'self' 'unsafe-inline'", -20),
            ("default-src 'self'; script-src data:", -20),
            ("script-src 'self'", -20),
            ("default-src https:", -20),
            ("upgrade-insecure-requests", -20),
            ("default-src 'self'; script-src http://cdn.example", -20),
            ("default-src 'self'; default-src 'none'", -25),
            ("default-src 'self'; report-uri /a; report-uri /b", 5),
            ("default-src 'self'; script-src 'strict-dynamic'", -25),
            ("default-src 'self'; script-src 'nonce-abc' 'unsafe-inline'", 5),
            (
                "default-src 'none'; script-src 'nonce-abc' 'strict-dynamic' https: 'unsafe-inline'",
                10,
            ),
            ("x", -25),
        ] {
            assert_eq!(modifier(&[policy]), expected, "{policy}");
        }
        assert_eq!(modifier(&[]), -25);
    }

    #[test]
    fn a_weakness_counts_if_all_policies_have_it() {
        assert_eq!(modifier(&["script-src 'self'; object-src 'none'", "default-src *"]), 0);
        assert_eq!(modifier(&["default-src *", "default-src 'self' 'unsafe-inline'"]), -20);
        assert_eq!(modifier(&["default-src 'self'", "script-src *"]), 5);
    }
}

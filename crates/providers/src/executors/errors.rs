//! What the service says when something is wrong, in our words.
//!
//! Invariant: what a code in the body says goes before what the status of HTTP says. Kling answers
//! 429 for an account without money and for one that is merely busy.

use std::time::Duration;

use roundsman_core::ports::FailureCode;
use serde_json::Value;

use super::description::{ErrorShape, RuleShape};
use super::params::json;
use super::plan::unknown_code;
use super::pointer::{Pointer, first_text};

/// How much of what a service says is passed on.
const MESSAGE_CHARS_MAX: usize = 500;

/// How errors are read.
#[derive(Debug)]
pub(super) struct Errors {
    ok: Option<(Pointer, Value)>,
    code: Vec<Pointer>,
    message: Vec<Pointer>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    http: Vec<u16>,
    codes: Vec<CodePattern>,
    contains: Option<String>,
    code: FailureCode,
    is_retryable: Option<bool>,
    after: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
enum CodePattern {
    Exact(String),
    Range(i64, i64),
    Prefix(String),
}

/// An error, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) code: FailureCode,
    pub(super) message: String,
    pub(super) is_retryable: bool,
    pub(super) after: Option<Duration>,
    /// It has the form of the service's own errors, so it was the service that answered.
    pub(super) is_own: bool,
}

impl Errors {
    pub(super) fn new(shape: &ErrorShape, problems: &mut Vec<String>) -> Self {
        let mut pointer = |place: &str, text: &str| {
            Pointer::parse(text).unwrap_or_else(|reason| {
                problems.push(format!("{place}: {reason}"));
                Pointer::WHOLE
            })
        };
        let ok = shape.ok.as_ref().map(|ok| (pointer("errors.ok", &ok.at), json(&ok.equals)));
        let code = shape.code.iter().map(|text| pointer("errors.code", text)).collect();
        let message = shape.message.iter().map(|text| pointer("errors.message", text)).collect();
        let rules = shape.rules.iter().enumerate();
        let rules = rules.map(|(at, rule)| Rule::new(at, rule, problems)).collect();
        Errors { ok, code, message, rules }
    }

    /// Whether an answer with a good status is good. One that says nothing of it is read further.
    pub(super) fn is_good(&self, body: &Value) -> bool {
        let said = |(at, good): &(Pointer, Value)| at.first(body).is_none_or(|said| said == good);
        self.ok.as_ref().is_none_or(said)
    }

    /// What an answer that is not good says.
    pub(super) fn told(&self, status: u16, body: &Value) -> Told {
        let code = first_text(&self.code, body);
        let message = first_text(&self.message, body);
        let is_own = code.is_some() || message.is_some();
        let words = message.map(|text| shortened(&text)).unwrap_or_default();
        let rule = self.rule(Some(status), code.as_deref(), &words);
        let message = match (&code, words.as_str()) {
            (Some(code), "") => format!("{status} {code}"),
            (Some(code), words) => format!("{status} {code}: {words}"),
            (None, "") => format!("{status}"),
            (None, words) => format!("{status}: {words}"),
        };
        let code = rule.map_or_else(|| by_status(status), |rule| rule.code);
        let is_retryable = rule.and_then(|rule| rule.is_retryable);
        Told {
            code,
            message,
            is_retryable: is_retryable.unwrap_or_else(|| code.is_passing()),
            after: rule.and_then(|rule| rule.after),
            is_own,
        }
    }

    /// What the code and the message of a task that failed come to.
    pub(super) fn of_task(&self, code: Option<&str>, message: &str) -> FailureCode {
        let rule = self.rule(None, code, message);
        rule.map_or(FailureCode::Provider, |rule| rule.code)
    }

    fn rule(&self, status: Option<u16>, code: Option<&str>, words: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.fits(status, code, words))
    }
}

impl Rule {
    fn new(at: usize, shape: &RuleShape, problems: &mut Vec<String>) -> Self {
        let place = format!("errors.rules[{at}]");
        if shape.http.is_empty() && shape.codes.is_empty() && shape.contains.is_none() {
            problems.push(format!("{place}: say when it holds"));
        }
        let code = FailureCode::parse(&shape.code).unwrap_or_else(|| {
            problems.push(unknown_code(&place, &shape.code));
            FailureCode::Provider
        });
        Rule {
            http: shape.http.clone(),
            codes: shape.codes.iter().map(|text| CodePattern::parse(text)).collect(),
            contains: shape.contains.as_ref().map(|text| text.to_lowercase()),
            code,
            is_retryable: shape.retry,
            after: shape.after_secs.map(Duration::from_secs),
        }
    }

    fn fits(&self, status: Option<u16>, code: Option<&str>, words: &str) -> bool {
        let of_http = self.http.is_empty() || status.is_some_and(|s| self.http.contains(&s));
        let of_code = self.codes.is_empty()
            || code.is_some_and(|code| self.codes.iter().any(|pattern| pattern.fits(code)));
        let of_words =
            self.contains.as_ref().is_none_or(|text| words.to_lowercase().contains(text.as_str()));
        of_http && of_code && of_words
    }
}

impl CodePattern {
    fn parse(text: &str) -> Self {
        if let Some(prefix) = text.strip_suffix('*') {
            return CodePattern::Prefix(prefix.to_owned());
        }
        let range = text.split_once('-');
        let range = range.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        match range {
            Some((from, to)) => CodePattern::Range(from, to),
            None => CodePattern::Exact(text.to_owned()),
        }
    }

    fn fits(&self, code: &str) -> bool {
        match self {
            CodePattern::Exact(text) => text == code,
            CodePattern::Prefix(prefix) => code.starts_with(prefix.as_str()),
            CodePattern::Range(from, to) => {
                code.parse().is_ok_and(|number: i64| (*from..=*to).contains(&number))
            }
        }
    }
}

fn by_status(status: u16) -> FailureCode {
    match status {
        401 | 403 => FailureCode::Unauthorized,
        402 => FailureCode::Billing,
        404 => FailureCode::NotFound,
        409 => FailureCode::Duplicate,
        410 => FailureCode::Expired,
        408 | 425 => FailureCode::Unavailable,
        429 => FailureCode::RateLimited,
        400..=499 => FailureCode::InvalidParams,
        500..=599 => FailureCode::Provider,
        _ => FailureCode::Odd,
    }
}

/// One line, not too long.
pub(super) fn shortened(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(text: &str) -> Errors {
        let mut problems = Vec::new();
        let errors = Errors::new(&toml::from_str(text).unwrap(), &mut problems);
        assert_eq!(problems, Vec::<String>::new());
        errors
    }

    #[test]
    fn the_code_of_the_body_goes_before_the_status() {
        let errors = errors(
            r#"
            code = ["/code"]
            message = ["/message"]
            ok = { at = "/code", equals = 0 }
            rules = [
                { codes = ["1100-1102"], as = "billing" },
                { codes = ["1303"], as = "busy", after_secs = 1 },
                { codes = ["SAFETY.*"], as = "content_policy" },
                { http = [400], contains = "already exists", as = "duplicate" },
            ]
            "#,
        );
        let told = |status, body: Value| {
            let told = errors.told(status, &body);
            (told.code.as_str(), told.is_retryable, told.is_own)
        };
        assert_eq!(told(429, json!({"code": 1102})), ("billing", false, true));
        assert_eq!(told(429, json!({"code": 1303})), ("busy", true, true));
        assert_eq!(told(429, json!({})), ("rate_limited", true, false));
        assert_eq!(told(400, json!({"message": "It ALREADY exists"})), ("duplicate", false, true));
        assert_eq!(told(502, Value::Null), ("provider", true, false));
        assert_eq!(errors.of_task(Some("SAFETY.INPUT.TEXT"), ""), FailureCode::ContentPolicy);
        assert_eq!(errors.of_task(None, "it broke"), FailureCode::Provider);
        assert!(errors.is_good(&json!({"code": 0})));
        assert!(errors.is_good(&json!({})));
        assert!(!errors.is_good(&json!({"code": 1303})));
        let long = errors.told(500, &json!({"message": format!("a\nb{}", "x".repeat(900))}));
        assert!(long.message.starts_with("500: a b") && long.message.chars().count() == 505);
    }
}

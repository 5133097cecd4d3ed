//! Who goes first: rules that an operator writes, evaluated when an audit is enqueued.
//!
//! A rule is a line such as `plan pro +10`, `user 7 -20`, `domain *.example.org +5`, `age 30d +3` or
//! `recurring -10`. All rules that apply are added to what was asked for; a step is worth a minute of
//! waiting, as everywhere, so nobody waits for ever.

use std::time::Duration;

use crate::limits::PRIORITY_MAX;
use crate::users::UserId;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityRule {
    when: When,
    add: i16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum When {
    Plan(String),
    User(UserId),
    Domain {
        name: String,
        with_subdomains: bool,
    },
    /// Its latest audit is older than this, or there is none.
    Age(Duration),
    Recurring,
}

/// A rule that cannot be followed, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule {rule:?} {problem}")]
pub struct InvalidRule {
    pub rule: String,
    pub problem: String,
}

/// What rules look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedAudit<'a> {
    pub user_id: UserId,
    pub plan: Option<&'a str>,
    pub domain: &'a str,
    /// How long ago the same page was last audited for the same user.
    pub last_age: Option<Duration>,
    pub is_recurring: bool,
}

impl PriorityRule {
    pub fn parse(rule: &str) -> Result<Self, InvalidRule> {
        let wrong = |problem: String| InvalidRule { rule: rule.to_owned(), problem };
        let words: Vec<&str> = rule.split_whitespace().collect();
        let (when, add) = match words.as_slice() {
            ["recurring", add] => (When::Recurring, *add),
            ["plan", plan, add] => (When::Plan((*plan).to_owned()), *add),
            ["user", user, add] => {
                let number = user.parse().ok().filter(|number| *number > 0);
                let user =
                    number.ok_or_else(|| wrong("does not name a user by number".to_owned()))?;
                (When::User(UserId::new(user)), *add)
            }
            ["domain", domain, add] => (domain_rule(domain).map_err(wrong)?, *add),
            ["age", age, add] => {
                let age = parse_duration(age)
                    .ok_or_else(|| wrong("needs an age such as 90m, 12h or 30d".to_owned()))?;
                (When::Age(age), *add)
            }
            [] => return Err(wrong("is empty".to_owned())),
            _ => {
                let forms = "is none of: plan NAME ±N, user NUMBER ±N, domain NAME ±N, age TIME ±N, \
                             recurring ±N";
                return Err(wrong(forms.to_owned()));
            }
        };
        Ok(PriorityRule { when, add: parse_step(add).map_err(wrong)? })
    }

    fn applies(&self, asked: &AskedAudit<'_>) -> bool {
        match &self.when {
            When::Plan(plan) => asked.plan == Some(plan.as_str()),
            When::User(user) => asked.user_id == *user,
            When::Domain { name, with_subdomains } => {
                asked.domain == name
                    || *with_subdomains
                        && asked
                            .domain
                            .strip_suffix(name.as_str())
                            .is_some_and(|front| front.ends_with('.'))
            }
            When::Age(age) => asked.last_age.is_none_or(|last| last >= *age),
            When::Recurring => asked.is_recurring,
        }
    }
}

/// What was asked for, and all rules that apply, within the limits of priorities.
pub fn priority_of(rules: &[PriorityRule], wanted: i16, asked: &AskedAudit<'_>) -> i16 {
    let added = rules.iter().filter(|rule| rule.applies(asked)).map(|rule| i32::from(rule.add));
    let sum = added.fold(i32::from(wanted), i32::saturating_add);
    let max = i32::from(PRIORITY_MAX);
    i16::try_from(sum.clamp(-max, max)).unwrap_or(PRIORITY_MAX)
}

fn domain_rule(text: &str) -> Result<When, String> {
    let (name, with_subdomains) = match text.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (text, false),
    };
    let is_name = !name.is_empty()
        && name.split('.').all(|label| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        });
    if !is_name {
        return Err("needs a domain such as example.org or *.example.org".to_owned());
    }
    Ok(When::Domain { name: name.to_ascii_lowercase(), with_subdomains })
}

fn parse_step(text: &str) -> Result<i16, String> {
    let signed = text.starts_with(['+', '-']);
    match text.parse::<i16>() {
        Ok(step) if signed && step != 0 && (-PRIORITY_MAX..=PRIORITY_MAX).contains(&step) => {
            Ok(step)
        }
        _ => {
            Err(format!("must end with a step from -{PRIORITY_MAX} to +{PRIORITY_MAX}, such as +5"))
        }
    }
}

/// Seconds, minutes, hours or days.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let secs: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let count: u64 = text[..text.len() - 1].parse().ok()?;
    let time = Duration::from_secs(count.checked_mul(secs)?);
    let century = Duration::from_secs(100 * 365 * 86_400);
    (!time.is_zero() && time <= century).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> AskedAudit<'static> {
        AskedAudit {
            user_id: UserId::new(7),
            plan: Some("pro"),
            domain: "shop.example.org",
            last_age: Some(Duration::from_secs(3 * 86_400)),
            is_recurring: false,
        }
    }

    fn rules(lines: &[&str]) -> Vec<PriorityRule> {
        lines.iter().map(|line| PriorityRule::parse(line).unwrap()).collect()
    }

    #[test]
    fn all_rules_that_apply_add_up() {
        for (lines, wanted, sum) in [
            (vec![], 4, 4),
            (vec!["plan pro +10", "plan free -10"], 0, 10),
            (vec!["user 7 -20", "user 8 +50"], 5, -15),
            (vec!["domain *.example.org +5", "domain example.org +1"], 0, 5),
            (vec!["domain shop.example.org +5", "domain *.ample.org +1"], 0, 5),
            (vec!["age 2d +3", "age 72h +1", "age 4d +50"], 0, 4),
            (vec!["recurring -10"], 0, 0),
            (vec!["plan pro +100", "user 7 +100"], 100, 100),
        ] {
            assert_eq!(priority_of(&rules(&lines), wanted, &asked()), sum, "{lines:?}");
        }
        let fresh = AskedAudit { last_age: None, is_recurring: true, plan: None, ..asked() };
        assert_eq!(priority_of(&rules(&["age 365d +3", "recurring -10"]), 0, &fresh), -7);
    }

    #[test]
    fn a_wrong_rule_says_what_is_wrong_with_it() {
        for (line, part) in [
            ("", "is empty"),
            ("weather sunny +5", "is none of"),
            ("plan pro", "is none of"),
            ("plan pro 5", "+5"),
            ("plan pro +0", "step"),
            ("plan pro +101", "step"),
            ("user ada +1", "by number"),
            ("user -1 +1", "by number"),
            ("domain exa_mple +1", "domain"),
            ("domain *. +1", "domain"),
            ("age long +1", "age"),
            ("age 0d +1", "age"),
        ] {
            let problem = PriorityRule::parse(line).unwrap_err().to_string();
            assert!(problem.contains(part) && problem.contains(line), "{problem}");
        }
    }
}

//! How a service is spoken to, as it is written in a preset or by an operator.
//!
//! These are the words of the configuration and nothing more; [`Plan`](super::plan::Plan) is what
//! they come to once they are checked. Names that nothing has are refused.

mod parts;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(super) use parts::{
    Auth, CancelShape, ErrorShape, IdempotencyWord, Limits, LookUpShape, NeedsWord, ParamKind,
    ParamShape, PollShape, RequestShape, ResultShape, RuleShape, Schedule, StatusWord, SubmitShape,
    Variant, VerifyWord, WebhookShape,
};

/// A whole service.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// Where all requests go; may name settings, such as `{$setting.location}`.
    pub(super) base_url: String,
    /// What templates may name as `{$setting.name}`.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, String>,
    pub(super) auth: Auth,
    /// Sent with every request.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// The types of tasks, each with the parameters that it begins with.
    pub(super) task_types: BTreeMap<String, toml::Table>,
    #[serde(default)]
    pub(super) params: BTreeMap<String, ParamShape>,
    /// The first whose condition holds sets its parameters.
    #[serde(default)]
    pub(super) variants: Vec<Variant>,
    pub(super) submit: SubmitShape,
    pub(super) poll: Option<PollShape>,
    pub(super) result: ResultShape,
    #[serde(default)]
    pub(super) errors: ErrorShape,
    #[serde(default)]
    pub(super) idempotency: IdempotencyWord,
    pub(super) look_up: Option<LookUpShape>,
    pub(super) cancel: Option<CancelShape>,
    pub(super) webhook: Option<WebhookShape>,
    #[serde(default)]
    pub(super) schedule: Schedule,
    #[serde(default)]
    pub(super) limits: Limits,
}

/// Reads a description; the error says where it is wrong, and how.
pub(super) fn read(table: toml::Table) -> Result<Description, String> {
    serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| {
        let path = error.path().to_string();
        let what = error.inner().to_string();
        let what = what.lines().next().unwrap_or_default().trim();
        if path == "." { what.to_owned() } else { format!("{path}: {what}") }
    })
}

/// What an operator says goes over what the preset says, member by member. What is of another kind
/// takes the whole place.
pub(super) fn merge(under: &mut toml::Table, over: toml::Table) {
    let of_one_kind = |under: &toml::Table, over: &toml::Table| {
        over.get("kind").is_none_or(|kind| under.get("kind") == Some(kind))
    };
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over))
                if of_one_kind(under, &over) =>
            {
                merge(under, over);
            }
            (_, value) => drop(under.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_words_go_over_the_presets() {
        let mut under: toml::Table = "a = 1\n[b]\nc = 2\nd = [1, 2]".parse().unwrap();
        merge(&mut under, "[b]\nd = [3]\ne = 4\n[f]\ng = 5".parse().unwrap());
        let expected: toml::Table =
            "a = 1\n[b]\nc = 2\nd = [3]\ne = 4\n[f]\ng = 5".parse().unwrap();
        assert_eq!(under, expected);
        let mut under: toml::Table = "auth = { kind = 'x', scope = 1 }".parse().unwrap();
        merge(&mut under, "auth = { kind = 'y' }".parse().unwrap());
        assert_eq!(under, "auth = { kind = 'y' }".parse().unwrap());
    }
}

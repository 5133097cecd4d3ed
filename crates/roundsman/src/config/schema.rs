//! Which settings exist, what they mean and what they are by default.
//!
//! Invariant: the embedded `default.toml` is the only list of settings. The environment's names, the
//! reference in `docs/configuration.md` and the defaults all come from it, so they cannot disagree.

use std::sync::LazyLock;

use toml::Value;

/// The commented default configuration, as `roundsman config --default` prints it.
pub(crate) const DEFAULT_TOML: &str = include_str!("default.toml");

/// Settings that are never shown, not even in part.
const SECRETS: [&str; 12] = [
    "admin.token",
    "daily.api_key",
    "daily.tracks_s3_access_key",
    "daily.tracks_s3_secret_key",
    "daily.webhook_secret",
    "daily.webhook_secrets_accepted",
    "launcher.nomad_token",
    "meeting_token.secret",
    "meeting_token.secrets_accepted",
    "recordings.s3_access_key",
    "recordings.s3_secret_key",
    "transcriber.api_key",
];

/// Settings that are shown, but whose text may carry a password.
const URLS: [&str; 9] = [
    "bots.callback_url",
    "bots.redis_url",
    "bots.whisper_live_url",
    "daily.api_url",
    "daily.webhook_url",
    "database.url",
    "redis.url",
    "server.public_url",
    "transcriber.url",
];

/// Settings whose variable is not named by the rule, because it had its name before.
const OWN_NAMES: [(&str, &str); 1] = [("launcher.kind", "ROUNDSMAN_LAUNCHER")];

/// Names that operators of the systems we come from have set already. Ours goes before them.
pub(super) const ALIASES: [(&str, &str); 10] = [
    ("BACKGROUND_TASK_INTERVAL", "transcripts.persist_secs"),
    ("IMMUTABILITY_THRESHOLD", "transcripts.stable_after_secs"),
    ("PENDING_MSG_TIMEOUT_MS", "transcripts.stream_claim_ms"),
    ("REDIS_CONSUMER_GROUP", "transcripts.stream_group"),
    ("REDIS_SEGMENT_TTL", "transcripts.cache_ttl_secs"),
    ("REDIS_SPEAKER_EVENT_KEY_PREFIX", "transcripts.speaker_event_prefix"),
    ("REDIS_SPEAKER_EVENT_TTL", "transcripts.speaker_event_ttl_secs"),
    ("REDIS_STREAM_BLOCK_MS", "transcripts.stream_block_ms"),
    ("REDIS_STREAM_NAME", "transcripts.stream"),
    ("REDIS_STREAM_READ_COUNT", "transcripts.stream_read_max"),
];

/// How much of a setting's value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposure {
    Open,
    Url,
    Secret,
}

/// What a setting accepts. The default's type decides, and for durations the unit in the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Whole,
    Duration,
    Flag,
    List,
}

/// One setting.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) section: String,
    pub(super) name: String,
    /// `section.name`, as messages call it.
    pub(super) path: String,
    /// The environment variable that sets it.
    pub(super) env: String,
    pub(super) doc: String,
    pub(super) default: Value,
    pub(super) kind: Kind,
    pub(super) exposure: Exposure,
}

#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) keys: Vec<Key>,
}

/// All settings in the order of the default file.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) sections: Vec<Section>,
}

/// The settings of this build.
pub(super) fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(DEFAULT_TOML));
    &SCHEMA
}

impl Schema {
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.sections.iter().flat_map(|section| &section.keys)
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Reads the order and the comments line by line, because a TOML parser drops both, and the
    /// values with the TOML parser. A comment belongs to the line that follows it directly.
    fn parse(text: &str) -> Schema {
        let values: toml::Table = text.parse().expect("the embedded defaults are valid TOML");
        let mut sections: Vec<Section> = Vec::new();
        let mut comment: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(words) = line.strip_prefix('#') {
                comment.push(words.trim());
                continue;
            }
            let doc = std::mem::take(&mut comment).join(" ");
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                sections.push(Section { name: name.to_owned(), doc, keys: Vec::new() });
            } else if let Some((name, _)) = line.split_once(" = ") {
                let section = sections.last_mut().expect("every default is inside a section");
                let default = values[&section.name][name].clone();
                section.keys.push(Key::new(&section.name, name, doc, default));
            }
        }
        Schema { sections }
    }
}

impl Key {
    fn new(section: &str, name: &str, doc: String, default: Value) -> Key {
        let path = format!("{section}.{name}");
        let by_rule = || format!("ROUNDSMAN_{section}_{name}").to_uppercase();
        let own = OWN_NAMES.iter().find(|(named, _)| *named == path);
        Key {
            env: own.map_or_else(by_rule, |(_, env)| (*env).to_owned()),
            kind: Kind::of(name, &default),
            exposure: Exposure::of(&path),
            section: section.to_owned(),
            name: name.to_owned(),
            path,
            doc,
            default,
        }
    }

    /// The variable that names a file holding the value; only what may be secret has one.
    pub(super) fn env_file(&self) -> Option<String> {
        (self.exposure != Exposure::Open).then(|| format!("{}_FILE", self.env))
    }
}

impl Exposure {
    fn of(path: &str) -> Exposure {
        if SECRETS.contains(&path) {
            Exposure::Secret
        } else if URLS.contains(&path) {
            Exposure::Url
        } else {
            Exposure::Open
        }
    }
}

impl Kind {
    fn of(name: &str, default: &Value) -> Kind {
        let has_unit = name.split('_').any(|word| matches!(word, "ms" | "secs" | "hours"));
        match default {
            Value::Integer(_) | Value::Float(_) if has_unit => Kind::Duration,
            Value::Integer(_) => Kind::Whole,
            Value::Boolean(_) => Kind::Flag,
            Value::Array(_) => Kind::List,
            _ => Kind::Text,
        }
    }

    /// Whether a value in a file has the right type.
    pub(super) fn accepts(self, value: &Value) -> bool {
        match self {
            Kind::Text => value.is_str(),
            Kind::Whole => value.is_integer(),
            Kind::Duration => value.is_integer() || value.is_float(),
            Kind::Flag => value.is_bool(),
            Kind::List => value.as_array().is_some_and(|items| items.iter().all(Value::is_str)),
        }
    }

    /// Reads the text of a variable or a flag, which carries no type of its own.
    pub(super) fn parse(self, text: &str) -> Option<Value> {
        let whole = || text.trim().parse().ok().map(Value::Integer);
        match self {
            Kind::Text => Some(Value::String(text.to_owned())),
            Kind::Whole => whole(),
            Kind::Duration => whole().or_else(|| text.trim().parse().ok().map(Value::Float)),
            Kind::Flag => text.trim().parse().ok().map(Value::Boolean),
            Kind::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Some(Value::Array(items.map(Value::from).collect()))
            }
        }
    }

    /// What a message says was expected.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Kind::Text => "text in quotes",
            Kind::Whole => "a whole number",
            Kind::Duration => "a number",
            Kind::Flag => "true or false",
            Kind::List => "a list of texts",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_lines_and_the_values_agree() {
        let table: toml::Table = DEFAULT_TOML.parse().unwrap();
        let parsed: BTreeSet<String> = table
            .iter()
            .flat_map(|(section, keys)| {
                keys.as_table().unwrap().keys().map(move |key| format!("{section}.{key}"))
            })
            .collect();
        let listed: BTreeSet<String> = schema().keys().map(|key| key.path.clone()).collect();
        assert_eq!(listed, parsed);
    }

    #[test]
    fn everything_is_explained() {
        for section in &schema().sections {
            assert!(!section.doc.is_empty(), "[{}] has no comment", section.name);
            for key in &section.keys {
                assert!(key.doc.ends_with('.'), "{}: a sentence, please", key.path);
            }
        }
    }

    #[test]
    fn no_two_settings_share_a_variable() {
        let mut seen = BTreeSet::new();
        for key in schema().keys() {
            for name in [Some(key.env.clone()), key.env_file()].into_iter().flatten() {
                assert!(seen.insert(name.clone()), "{name} is used twice");
            }
        }
    }

    /// A guard for whoever adds a setting: what sounds secret is declared to be.
    #[test]
    fn what_sounds_secret_is_hidden() {
        for path in SECRETS.iter().chain(&URLS) {
            assert!(schema().keys().any(|key| key.path == *path), "{path} is no setting");
        }
        for key in schema().keys() {
            let last = key.name.rsplit('_').next().unwrap();
            let sounds_secret = ["token", "secret", "password", "key", "url"].contains(&last)
                || key.name.contains("secrets_");
            assert_eq!(sounds_secret, key.exposure != Exposure::Open, "{}", key.path);
        }
    }

    #[test]
    fn text_becomes_the_type_of_the_default() {
        let cases = [
            (Kind::Text, " a ", Some(Value::from(" a "))),
            (Kind::Whole, "12", Some(Value::from(12))),
            (Kind::Whole, "1.5", None),
            (Kind::Duration, "12", Some(Value::from(12))),
            (Kind::Duration, "0.5", Some(Value::from(0.5))),
            (Kind::Duration, "5s", None),
            (Kind::Flag, "true", Some(Value::from(true))),
            (Kind::Flag, "1", None),
            (Kind::List, "a, b,", Some(Value::from(vec!["a", "b"]))),
        ];
        for (kind, text, value) in cases {
            assert_eq!(kind.parse(text), value, "{kind:?} {text:?}");
        }
    }
}

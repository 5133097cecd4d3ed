//! What users may ask of a task, and what becomes of it before it is sent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::description::{Description, ParamKind};
use super::pointer::text_of;
use super::template::{JsonTemplate, Pictures, Scope, is_name};

/// The parameters of a service's tasks.
#[derive(Debug)]
pub(super) struct Params {
    known: BTreeMap<String, Param>,
    aliases: BTreeMap<String, String>,
    of_type: BTreeMap<String, Map<String, Value>>,
    variants: Vec<Variant>,
}

/// What is set when a parameter is there, or always.
#[derive(Debug)]
struct Variant {
    when: Option<String>,
    set: Vec<(String, JsonTemplate)>,
    refuse: Option<String>,
}

#[derive(Debug)]
struct Param {
    kind: ParamKind,
    is_required: bool,
    default: Option<Value>,
    values: Vec<String>,
    chars_max: usize,
}

impl Params {
    pub(super) fn new(description: &Description, problems: &mut Vec<String>) -> Self {
        let mut params = Params {
            known: BTreeMap::new(),
            aliases: BTreeMap::new(),
            of_type: BTreeMap::new(),
            variants: Vec::new(),
        };
        for (name, shape) in &description.params {
            if !is_name(name) {
                problems.push(format!("params.{name}: small letters, digits and `_`, please"));
            }
            let param = Param {
                kind: shape.kind,
                is_required: shape.required,
                default: shape.default.as_ref().map(json),
                values: shape.values.iter().filter_map(|value| text_of(&json(value))).collect(),
                chars_max: shape.chars_max.unwrap_or(usize::MAX),
            };
            if let Some(reason) = param.default.as_ref().and_then(|value| param.refuses(value)) {
                problems.push(format!("params.{name}.default: {reason}"));
            }
            params.known.insert(name.clone(), param);
            for alias in &shape.aliases {
                let other = params.aliases.insert(alias.clone(), name.clone());
                if other.is_some() || description.params.contains_key(alias) {
                    problems.push(format!("params.{name}.aliases: `{alias}` is another's name"));
                }
            }
        }
        params.add_types(description, problems);
        params.add_variants(description, problems);
        params
    }

    fn add_types(&mut self, description: &Description, problems: &mut Vec<String>) {
        if description.task_types.is_empty() {
            problems.push("task_types: name at least one".to_owned());
        }
        for (task_type, begins) in &description.task_types {
            let place = format!("task_types.{task_type}");
            if !is_name(task_type) {
                problems.push(format!("{place}: small letters, digits and `_`, please"));
            }
            let begins = self.checked(&place, begins, problems);
            self.of_type.insert(task_type.clone(), begins);
        }
    }

    fn add_variants(&mut self, description: &Description, problems: &mut Vec<String>) {
        for (at, variant) in description.variants.iter().enumerate() {
            let place = format!("variants[{at}]");
            if let Some(when) = variant.when.as_ref().filter(|when| !self.known.contains_key(*when))
            {
                problems.push(format!("{place}.when: there is no parameter `{when}`"));
            }
            let mut set = Vec::new();
            for (name, value) in &variant.set {
                if self.known.contains_key(name) {
                    problems.push(format!("{place}.set: `{name}` is a parameter that users give"));
                }
                match JsonTemplate::parse(value) {
                    Ok(template) => set.push((name.clone(), template)),
                    Err(reason) => problems.push(format!("{place}.set.{name}: {reason}")),
                }
            }
            let (when, refuse) = (variant.when.clone(), variant.refuse.clone());
            self.variants.push(Variant { when, set, refuse });
        }
    }

    fn checked(
        &self,
        place: &str,
        table: &toml::Table,
        problems: &mut Vec<String>,
    ) -> Map<String, Value> {
        let mut checked = Map::new();
        for (name, value) in table {
            let value = json(value);
            let reason = match self.known.get(name) {
                None => Some("there is no such parameter".to_owned()),
                Some(param) => param.refuses(&value),
            };
            problems.extend(reason.map(|reason| format!("{place}.{name}: {reason}")));
            checked.insert(name.clone(), value);
        }
        checked
    }

    /// Whether templates may name it.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_set = |variant: &Variant| variant.set.iter().any(|(known, _)| known == name);
        self.known.contains_key(name) || self.variants.iter().any(is_set)
    }

    pub(super) fn task_types(&self) -> Vec<&str> {
        self.of_type.keys().map(String::as_str).collect()
    }

    /// The parameters as templates see them; the error is for whoever gave them.
    pub(super) fn settle(
        &self,
        task_type: &str,
        given: &Value,
    ) -> Result<Map<String, Value>, String> {
        let begins = self.of_type.get(task_type);
        let mut settled = begins.ok_or_else(|| format!("no tasks of type {task_type}"))?.clone();
        for (name, param) in &self.known {
            if let Some(default) = &param.default {
                settled.entry(name.clone()).or_insert_with(|| default.clone());
            }
        }
        let given = given.as_object().ok_or("params: an object, please")?;
        for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            let name = self.aliases.get(name).unwrap_or(name);
            let param = self.known.get(name).ok_or_else(|| self.unknown(name))?;
            if let Some(reason) = param.refuses(value) {
                return Err(format!("params.{name}: {reason}"));
            }
            settled.insert(name.clone(), value.clone());
        }
        for (name, param) in &self.known {
            if param.is_required && is_empty(settled.get(name)) {
                return Err(format!("params.{name} is missing"));
            }
        }
        let holds = |when: &Option<String>| when.as_ref().is_none_or(|n| !is_empty(settled.get(n)));
        let Some(variant) = self.variants.iter().find(|variant| holds(&variant.when)) else {
            return Ok(settled);
        };
        if let Some(reason) = &variant.refuse {
            return Err(format!("params: {reason}"));
        }
        let follows = variant.following(&settled)?;
        settled.extend(follows);
        Ok(settled)
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.known.keys().map(String::as_str).collect();
        format!("params.{name} is unknown; there are {}", known.join(", "))
    }
}

impl Variant {
    fn following(&self, params: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        let scope = Scope {
            params,
            settings: &BTreeMap::new(),
            key: "",
            ids: &[],
            callback_url: None,
            pictures: &Pictures::new(),
            item: None,
        };
        let mut follows = Map::new();
        for (name, template) in &self.set {
            follows.extend(template.render(&scope)?.map(|value| (name.clone(), value)));
        }
        Ok(follows)
    }
}

impl Param {
    /// Why the value is not taken.
    fn refuses(&self, value: &Value) -> Option<String> {
        if !self.kind.takes(value) {
            return Some(format!("{}, please", self.kind.words()));
        }
        let text = text_of(value);
        if text.as_ref().is_some_and(|text| text.chars().count() > self.chars_max) {
            return Some(format!("at most {} characters, please", self.chars_max));
        }
        let is_listed = text.is_some_and(|text| self.values.contains(&text));
        if !self.values.is_empty() && !is_listed {
            return Some(format!("one of {}, please", self.values.join(", ")));
        }
        None
    }
}

impl ParamKind {
    fn takes(self, value: &Value) -> bool {
        let is_text = |value: &Value| value.is_string();
        match self {
            ParamKind::Any => true,
            ParamKind::Text => value.is_string() || value.is_number(),
            ParamKind::Integer => match value {
                Value::String(text) => text.trim().parse::<i64>().is_ok(),
                value => value.is_i64(),
            },
            ParamKind::Number => match value {
                Value::String(text) => text.trim().parse::<f64>().is_ok_and(f64::is_finite),
                value => value.is_number(),
            },
            ParamKind::Flag => value.is_boolean(),
            ParamKind::Object => value.is_object(),
            ParamKind::List => value.is_array(),
            ParamKind::Picture => match value {
                Value::Array(items) => items.iter().all(is_text),
                value => is_text(value),
            },
        }
    }

    fn words(self) -> &'static str {
        match self {
            ParamKind::Any => "anything",
            ParamKind::Text => "a text",
            ParamKind::Integer => "a whole number",
            ParamKind::Number => "a number",
            ParamKind::Flag => "true or false",
            ParamKind::Object => "an object",
            ParamKind::List => "a list",
            ParamKind::Picture => "the address of a picture, or a picture in base64",
        }
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Dates become texts.
pub(super) fn json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Datetime(date) => Value::from(date.to_string()),
        toml::Value::Array(items) => items.iter().map(json).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.iter().map(|(name, value)| (name.clone(), json(value))).collect())
        }
    }
}

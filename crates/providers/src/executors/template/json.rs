//! JSON with places in it.

use serde_json::{Map, Value};

use super::{Place, Scope, Source, TextTemplate};

/// How a body is made.
///
/// An object is left out where its `$if` does not hold or its `$unless` does; in a list, `$each`
/// repeats it for every item of a parameter; `$merge` puts the members of a parameter under its own;
/// `$value` stands for the whole. An object of which nothing is left is left out too.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::executors) enum JsonTemplate {
    Literal(Value),
    Text(TextTemplate),
    List(Vec<JsonTemplate>),
    Object(ObjectTemplate),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::executors) struct ObjectTemplate {
    when: Vec<Source>,
    unless: Vec<Source>,
    each: Option<Source>,
    merge: Option<Source>,
    value: Option<Box<JsonTemplate>>,
    members: Vec<(String, JsonTemplate)>,
}

impl JsonTemplate {
    pub(in crate::executors) fn parse(value: &toml::Value) -> Result<Self, String> {
        Ok(match value {
            toml::Value::String(text) => JsonTemplate::Text(TextTemplate::parse(text)?),
            toml::Value::Integer(number) => JsonTemplate::Literal(Value::from(*number)),
            toml::Value::Float(number) => JsonTemplate::Literal(Value::from(*number)),
            toml::Value::Boolean(flag) => JsonTemplate::Literal(Value::from(*flag)),
            toml::Value::Datetime(_) => return Err("a body has no dates: write a text".to_owned()),
            toml::Value::Array(items) => {
                JsonTemplate::List(items.iter().map(JsonTemplate::parse).collect::<Result<_, _>>()?)
            }
            toml::Value::Table(table) => JsonTemplate::Object(ObjectTemplate::parse(table)?),
        })
    }

    /// `None` if it is left out.
    pub(in crate::executors) fn render(&self, scope: &Scope<'_>) -> Result<Option<Value>, String> {
        match self {
            JsonTemplate::Literal(value) => Ok(Some(value.clone())),
            JsonTemplate::Text(text) => text.value(scope),
            JsonTemplate::Object(object) => object.render(scope),
            JsonTemplate::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    item.render_into(scope, &mut list)?;
                }
                let is_left_out = list.is_empty() && !items.is_empty();
                Ok((!is_left_out).then_some(Value::Array(list)))
            }
        }
    }

    fn render_into(&self, scope: &Scope<'_>, list: &mut Vec<Value>) -> Result<(), String> {
        let each = match self {
            JsonTemplate::Object(ObjectTemplate { each: Some(each), .. }) => each,
            other => {
                list.extend(other.render(scope)?);
                return Ok(());
            }
        };
        // One thing is as good as a list of one.
        let items = match scope.value(each) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(one) => vec![one],
        };
        for item in &items {
            list.extend(self.render(&Scope { item: Some(item), ..*scope })?);
        }
        Ok(())
    }

    /// The members of the outermost object, for a form.
    pub(in crate::executors) fn members(&self) -> &[(String, JsonTemplate)] {
        match self {
            JsonTemplate::Object(object) => &object.members,
            _ => &[],
        }
    }

    /// Every place, those of conditions included.
    pub(in crate::executors) fn places(&self) -> Vec<Place> {
        match self {
            JsonTemplate::Literal(_) => Vec::new(),
            JsonTemplate::Text(text) => text.places().cloned().collect(),
            JsonTemplate::List(items) => items.iter().flat_map(JsonTemplate::places).collect(),
            JsonTemplate::Object(object) => {
                let bare = |source: &Source| Place { source: source.clone(), filters: Vec::new() };
                let conditions = object.when.iter().chain(&object.unless);
                let mut places: Vec<Place> =
                    conditions.chain(&object.merge).chain(&object.each).map(bare).collect();
                let below = object.members.iter().map(|(_, member)| member);
                let below = below.chain(object.value.as_deref()).flat_map(JsonTemplate::places);
                // Pictures of a list are fetched by the name of the list.
                let named = below.map(|place| match (&place.source, &object.each) {
                    (Source::Item, Some(each)) => Place { source: each.clone(), ..place },
                    _ => place,
                });
                places.extend(named);
                places
            }
        }
    }
}

impl ObjectTemplate {
    fn parse(table: &toml::Table) -> Result<Self, String> {
        let mut object = ObjectTemplate::default();
        for (name, value) in table {
            match name.as_str() {
                "$if" => object.when = sources(name, value)?,
                "$unless" => object.unless = sources(name, value)?,
                "$each" => object.each = sources(name, value)?.pop(),
                "$merge" => object.merge = sources(name, value)?.pop(),
                "$value" => object.value = Some(Box::new(JsonTemplate::parse(value)?)),
                other if other.starts_with('$') => {
                    return Err(format!(
                        "`{other}` is none of `$if`, `$unless`, `$each`, `$merge` and `$value`"
                    ));
                }
                _ => object.members.push((name.clone(), JsonTemplate::parse(value)?)),
            }
        }
        if object.value.is_some() && !(object.members.is_empty() && object.merge.is_none()) {
            return Err("beside `$value` there are no members".to_owned());
        }
        Ok(object)
    }

    fn render(&self, scope: &Scope<'_>) -> Result<Option<Value>, String> {
        let is_wished = self.when.iter().all(|source| scope.holds(source))
            && !self.unless.iter().any(|source| scope.holds(source));
        if !is_wished {
            return Ok(None);
        }
        if let Some(value) = &self.value {
            return value.render(scope);
        }
        let mut members = match self.merge.as_ref().and_then(|source| scope.value(source)) {
            None => Map::new(),
            Some(Value::Object(members)) => members,
            Some(_) => return Err("what is merged must be an object".to_owned()),
        };
        for (name, template) in &self.members {
            if let Some(value) = template.render(scope)? {
                members.insert(name.clone(), value);
            }
        }
        let is_left_out = members.is_empty() && !(self.members.is_empty() && self.merge.is_none());
        Ok((!is_left_out).then_some(Value::Object(members)))
    }
}

fn sources(name: &str, value: &toml::Value) -> Result<Vec<Source>, String> {
    let one = |value: &toml::Value| {
        let text = value.as_str().ok_or_else(|| format!("`{name}` names a parameter"))?;
        Source::parse(text)
    };
    match value {
        toml::Value::Array(items) => items.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn render(template: &str, params: Value) -> Value {
        let table: toml::Table = template.parse().unwrap();
        let template = JsonTemplate::parse(&table["body"]).unwrap();
        let params: Map<String, Value> = serde_json::from_value(params).unwrap();
        let scope = Scope {
            params: &params,
            settings: &BTreeMap::new(),
            key: "k",
            ids: &[],
            callback_url: None,
            pictures: &BTreeMap::new(),
            item: None,
        };
        template.render(&scope).unwrap().unwrap_or_default()
    }

    #[test]
    fn members_without_a_value_are_left_out() {
        let template = r#"
            [body]
            prompt = "{prompt}"
            seed = "{seed}"
            fixed = true
            options = { callback = "{$callback_url}" }
            list = [{ "$if" = "image", type = "frame", url = "{image}" }]
        "#;
        assert_eq!(
            render(template, json!({"prompt": "a cat"})),
            json!({"prompt": "a cat", "fixed": true})
        );
        assert_eq!(
            render(template, json!({"prompt": "a", "seed": 3, "image": "u"})),
            json!({"prompt": "a", "seed": 3, "fixed": true, "list": [{"type": "frame", "url": "u"}]})
        );
    }

    #[test]
    fn lists_repeat_and_objects_merge() {
        let template = r#"
            [body]
            "$merge" = "input"
            prompt = "{prompt}"
            refs = [{ "$each" = "images", url = "{$item}" }]
            [body.size]
            "$unless" = "image"
            ratio = "16:9"
        "#;
        assert_eq!(
            render(
                template,
                json!({"input": {"steps": 4, "prompt": "x"}, "prompt": "y", "images": ["a", "b"]})
            ),
            json!({"steps": 4, "prompt": "y", "refs": [{"url": "a"}, {"url": "b"}], "size": {"ratio": "16:9"}})
        );
        assert_eq!(
            render(template, json!({"image": "i", "images": "a"})),
            json!({"refs": [{"url": "a"}]})
        );
    }

    #[test]
    fn odd_members_are_refused() {
        let parse = |text: &str| JsonTemplate::parse(&text.parse::<toml::Table>().unwrap()["body"]);
        for bad in [
            "body = { '$when' = 'a' }",
            "body = { '$if' = 3 }",
            "body = 2026-01-01",
            "body = ['{']",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

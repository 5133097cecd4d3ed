//! One request, but for the values that are filled in.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;

use crate::executors::description::RequestShape;
use crate::executors::template::{Filter, JsonTemplate, Place, Scope, TextTemplate};

/// How a request is made.
#[derive(Debug)]
pub(in crate::executors) struct RequestPlan {
    pub(in crate::executors) method: Method,
    path: TextTemplate,
    query: Vec<(String, TextTemplate)>,
    headers: Vec<(HeaderName, TextTemplate)>,
    body: Option<JsonTemplate>,
    pub(in crate::executors) is_form: bool,
}

/// A part of a form.
pub(in crate::executors) enum FormPart {
    Field { name: String, value: String },
    File { name: String, media_type: String, bytes: Bytes },
}

impl RequestPlan {
    /// Problems begin with `place`.
    pub(super) fn build(place: &str, shape: &RequestShape, problems: &mut Vec<String>) -> Self {
        let mut text = |what: &str, text: &str| {
            TextTemplate::parse(text).unwrap_or_else(|reason| {
                problems.push(format!("{place}.{what}: {reason}"));
                TextTemplate::EMPTY
            })
        };
        let path = text("path", &shape.path);
        let query = shape.query.iter();
        let query = query.map(|(name, value)| (name.clone(), text("query", value))).collect();
        let headers: Vec<_> =
            shape.headers.iter().map(|(name, value)| (name, text("headers", value))).collect();
        if !shape.path.starts_with('/') {
            problems.push(format!("{place}.path: it begins with `/`"));
        }
        let mut named = Vec::new();
        for (name, value) in headers {
            match HeaderName::try_from(name.as_str()) {
                Ok(name) => named.push((name, value)),
                Err(_) => {
                    problems.push(format!("{place}.headers: `{name}` is no name of a header"));
                }
            }
        }
        let body = shape.body.as_ref().map(JsonTemplate::parse).transpose();
        let body = body.unwrap_or_else(|reason| {
            problems.push(format!("{place}.body: {reason}"));
            None
        });
        if body
            .as_ref()
            .is_some_and(|body| !matches!(body, JsonTemplate::Object(_) | JsonTemplate::Text(_)))
        {
            problems.push(format!("{place}.body: an object, please"));
        }
        let methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH];
        let method = methods.into_iter().find(|method| method.as_str() == shape.method);
        let method = method.unwrap_or_else(|| {
            problems.push(format!("{place}.method: GET, POST, PUT, PATCH or DELETE, please"));
            Method::GET
        });
        let plan =
            RequestPlan { method, path, query, headers: named, body, is_form: shape.is_form };
        let wants_file = plan.places().iter().any(|place| place.filters.contains(&Filter::File));
        if wants_file && !plan.is_form {
            problems.push(format!("{place}.body: `file` needs `is_form = true`"));
        }
        plan
    }

    /// Every place of it.
    pub(in crate::executors) fn places(&self) -> Vec<Place> {
        let texts = self.query.iter().map(|(_, text)| text);
        let texts = texts.chain(self.headers.iter().map(|(_, text)| text)).chain([&self.path]);
        let mut places: Vec<Place> = texts.flat_map(TextTemplate::places).cloned().collect();
        places.extend(self.body.iter().flat_map(JsonTemplate::places));
        places
    }

    /// Where it goes.
    pub(in crate::executors) fn url(&self, base: &Url, scope: &Scope<'_>) -> Result<Url, String> {
        let path = self.path.path(scope)?;
        let whole = format!("{}{path}", base.as_str().trim_end_matches('/'));
        let mut url = Url::parse(&whole).map_err(|error| error.to_string())?;
        for (name, template) in &self.query {
            if let Some(value) = template.text(scope)? {
                url.query_pairs_mut().append_pair(name, &value);
            }
        }
        Ok(url)
    }

    pub(in crate::executors) fn headers(
        &self,
        scope: &Scope<'_>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let mut headers = Vec::new();
        for (name, template) in &self.headers {
            let Some(text) = template.text(scope)? else { continue };
            let value = HeaderValue::from_str(&text);
            headers.push((name.clone(), value.map_err(|_| format!("{name} cannot be sent"))?));
        }
        Ok(headers)
    }

    pub(in crate::executors) fn body(&self, scope: &Scope<'_>) -> Result<Option<Value>, String> {
        let Some(template) = &self.body else { return Ok(None) };
        Ok(Some(template.render(scope)?.unwrap_or_else(|| Value::Object(serde_json::Map::new()))))
    }

    /// The body as the parts of a form.
    pub(in crate::executors) fn form(&self, scope: &Scope<'_>) -> Result<Vec<FormPart>, String> {
        let members = self.body.as_ref().map_or(&[][..], JsonTemplate::members);
        let mut parts = Vec::new();
        for (name, template) in members {
            let Some(value) = template.render(scope)? else { continue };
            let is_file =
                template.places().iter().any(|place| place.filters.contains(&Filter::File));
            let name = name.clone();
            parts.push(match value {
                Value::String(text) if is_file => {
                    let picture = scope.pictures.get(&text).ok_or("the picture was not fetched")?;
                    let (media_type, bytes) = (picture.media_type.clone(), picture.bytes.clone());
                    FormPart::File { name, media_type, bytes }
                }
                Value::String(value) => FormPart::Field { name, value },
                other => FormPart::Field { name, value: other.to_string() },
            });
        }
        Ok(parts)
    }
}

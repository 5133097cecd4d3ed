//! What a task brought, or why it brought nothing.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use roundsman_core::ports::{FailureCode, ResultContent, ResultFile, TaskFailure, TaskResult};
use serde_json::{Map, Value};
use url::Url;

use super::description::NeedsWord;
use super::errors::shortened;
use super::plan::{Plan, ResultPlan};
use super::pointer::text_of;
use super::template::Scope;

/// More than this is no result of one task.
const FILES_MAX: usize = 64;

impl Plan {
    /// Reads the answer of a task that ended well by the service's word.
    pub(super) fn result(
        &self,
        answer: &Value,
        scope: &Scope<'_>,
    ) -> Result<TaskResult, TaskFailure> {
        let result = &self.result;
        let mut files = result.inline_files(answer)?;
        let links = result.links(answer);
        files.extend(links.iter().map(|link| ResultFile {
            media_type: media_type_of(link).map(str::to_owned),
            content: ResultContent::Link(link.clone()),
        }));
        if let Some(path) = &result.path {
            let path = path.path(scope).map_err(none)?;
            let link = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
            files.push(ResultFile { content: ResultContent::Link(link), media_type: None });
        }
        files.truncate(FILES_MAX);
        let data = result.data(answer, &links);
        let is_enough = match result.needs {
            NeedsWord::File => !files.is_empty(),
            NeedsWord::Anything => !files.is_empty() || !data.is_empty(),
        };
        if is_enough {
            return Ok(TaskResult { files, data: Value::Object(data) });
        }
        Err(result.why_none(answer))
    }
}

impl ResultPlan {
    fn links(&self, answer: &Value) -> Vec<String> {
        let mut links: Vec<String> = Vec::new();
        for found in self.files.iter().flat_map(|pointer| pointer.all(answer)) {
            let Some(link) = found.as_str().and_then(|text| self.link(text)) else { continue };
            if !links.contains(&link) {
                links.push(link);
            }
        }
        links
    }

    /// The address at which a file can be read, if the text is one.
    fn link(&self, text: &str) -> Option<String> {
        if let (Some(rest), Some(storage)) = (text.strip_prefix("gs://"), &self.storage) {
            let (bucket, name) = rest.split_once('/')?;
            let mut url = storage.clone();
            url.path_segments_mut()
                .ok()?
                .pop_if_empty()
                .extend(["storage", "v1", "b", bucket, "o", name]);
            url.set_query(Some("alt=media"));
            return Some(url.into());
        }
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        url.has_host().then(|| text.to_owned())
    }

    fn inline_files(&self, answer: &Value) -> Result<Vec<ResultFile>, TaskFailure> {
        let mut files = Vec::new();
        for inline in &self.inline {
            for at in inline.at.all(answer) {
                let Some(data) = inline.data.first(at).and_then(Value::as_str) else { continue };
                let bytes = BASE64_STANDARD.decode(data).map_err(|_| TaskFailure {
                    code: FailureCode::Odd,
                    message: "the result is not in base64".to_owned(),
                })?;
                let media_type = inline.media_type.as_ref().and_then(|pointer| pointer.first(at));
                files.push(ResultFile {
                    content: ResultContent::Inline(bytes.into()),
                    media_type: media_type.and_then(text_of),
                });
            }
        }
        Ok(files)
    }

    /// What is told beside the files. Links are not told: they expire, and some open more than they
    /// should.
    fn data(&self, answer: &Value, links: &[String]) -> Map<String, Value> {
        let told = self.data.iter().filter_map(|(name, pointer)| {
            let value = without_links(pointer.first(answer)?, links)?;
            Some((name.clone(), value))
        });
        told.collect()
    }

    fn why_none(&self, answer: &Value) -> TaskFailure {
        for reason in &self.none {
            let found = reason.at.all(answer).into_iter().filter_map(text_of);
            let fits = |text: &String| {
                !text.is_empty() && (reason.values.is_empty() || reason.values.contains(text))
            };
            let words: Vec<String> = found.filter(fits).collect();
            if !words.is_empty() {
                return TaskFailure { code: reason.code, message: shortened(&words.join("; ")) };
            }
        }
        none("the task ended well, and there is no result".to_owned())
    }
}

fn none(message: String) -> TaskFailure {
    TaskFailure { code: FailureCode::NoResult, message }
}

/// `None` if nothing is left.
fn without_links(value: &Value, links: &[String]) -> Option<Value> {
    match value {
        Value::String(text) => (!links.contains(text)).then(|| value.clone()),
        Value::Array(items) => {
            let left: Vec<Value> =
                items.iter().filter_map(|item| without_links(item, links)).collect();
            (!left.is_empty()).then_some(Value::Array(left))
        }
        Value::Object(members) => {
            let left = members.iter();
            let left: Map<String, Value> = left
                .filter_map(|(name, member)| Some((name.clone(), without_links(member, links)?)))
                .collect();
            (!left.is_empty()).then_some(Value::Object(left))
        }
        Value::Null => None,
        other => Some(other.clone()),
    }
}

/// By the name at the end of a link.
fn media_type_of(link: &str) -> Option<&'static str> {
    let url = Url::parse(link).ok()?;
    let (_, extension) = url.path().rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mov" => "video/quicktime",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        _ => return None,
    })
}

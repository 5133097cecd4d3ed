//! What a task brought becomes ours, before its links expire.

use std::path::Path;
use std::sync::Arc;

use roundsman_core::failpoint;
use roundsman_core::jobs::{Json, LeaseRef};
use roundsman_core::ports::{Executor, Fetched, MediaError, ResultContent, ResultFile, TaskResult};
use roundsman_core::tasks::{KeptFile, Produced, RESULT_DATA_BYTES_MAX, Task};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::work::TaskWork;

/// A task brings at most this many files.
const FILES_MAX: usize = 32;

/// Why a result could not be had.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) message: String,
    /// Trying again will not help.
    pub(super) is_final: bool,
}

impl Trouble {
    fn of_media(what: &str, error: &MediaError) -> Self {
        let is_final = matches!(error, MediaError::Refused(_) | MediaError::NotConfigured);
        Trouble { message: format!("{what}: {error}"), is_final }
    }
}

impl TaskWork {
    /// Keeps all files of a result under names of their content.
    pub(super) async fn keep_result(
        &self,
        executor: &Arc<dyn Executor>,
        task: &Task,
        result: TaskResult,
        lease: LeaseRef,
    ) -> Result<Produced, Trouble> {
        let mut files = Vec::new();
        for (place, file) in result.files.iter().take(FILES_MAX).enumerate() {
            let name = format!("{}-{}-{place}", task.id, lease.lease_no.get());
            let path = self.options.work_folder.join(name);
            let kept = self.keep_file(executor.as_ref(), file, &path).await;
            // Nobody needs it here any more; what a dead process has left is cleared at its start.
            let _ = tokio::fs::remove_file(&path).await;
            files.push(kept?);
            failpoint::hit("tasks.kept");
        }
        let urls: Vec<String> = (0..files.len()).map(|place| self.url_of(task, place)).collect();
        let shown: Vec<Value> =
            files.iter().zip(&urls).map(|(file, url)| shown(file, url)).collect();
        Ok(Produced {
            result_url: urls.into_iter().next(),
            result_data: result_data(&result.data, &shown),
            files,
        })
    }

    async fn keep_file(
        &self,
        executor: &dyn Executor,
        file: &ResultFile,
        path: &Path,
    ) -> Result<KeptFile, Trouble> {
        let folder = &self.options.work_folder;
        tokio::fs::create_dir_all(folder).await.map_err(|error| Trouble {
            message: format!("the work folder cannot be made: {error}"),
            is_final: false,
        })?;
        let fetched = match &file.content {
            ResultContent::Inline(bytes) => write(path, bytes.clone()).await,
            ResultContent::Link(_) => executor.download(file, path).await,
        };
        let Fetched { bytes, sha256 } =
            fetched.map_err(|error| Trouble::of_media("a result cannot be fetched", &error))?;
        let kept = self.media.keep(path, &sha256).await;
        let blob = kept.map_err(|error| Trouble::of_media("a result cannot be kept", &error))?;
        Ok(KeptFile { blob, bytes, sha256, media_type: file.media_type.clone() })
    }

    /// Where whoever has the task's key finds one of its files.
    fn url_of(&self, task: &Task, place: usize) -> String {
        let base = self.options.public_url.as_deref().unwrap_or_default();
        format!("{base}/results/{}/{place}", task.result_key)
    }

    /// Forgets what a process that died has left in the work folder.
    pub async fn clear_left(&self) {
        let _ = tokio::fs::remove_dir_all(&self.options.work_folder).await;
    }
}

/// What is said about a result, with its files; a text that is too long is left out.
pub(super) fn result_data(data: &Value, files: &[Value]) -> Option<Json> {
    let mut said = match data {
        Value::Object(members) => members.clone(),
        Value::Null => serde_json::Map::new(),
        other => serde_json::Map::from_iter([("data".to_owned(), other.clone())]),
    };
    if !files.is_empty() {
        said.insert("files".to_owned(), Value::Array(files.to_vec()));
    }
    if said.is_empty() {
        return None;
    }
    let whole = Json::from_value(&Value::Object(said)).ok();
    let fits = |json: &Json| json.as_str().len() <= RESULT_DATA_BYTES_MAX;
    whole.filter(fits).or_else(|| Json::from_value(&json!({ "files": files, "is_cut": true })).ok())
}

fn shown(file: &KeptFile, url: &str) -> Value {
    json!({
        "url": url,
        "media_type": file.media_type,
        "bytes": file.bytes,
        "sha256": file.sha256,
    })
}

async fn write(path: &Path, bytes: bytes::Bytes) -> Result<Fetched, MediaError> {
    let fetched = Fetched {
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        sha256: hex::encode(Sha256::digest(&bytes)),
    };
    let written = tokio::fs::write(path, bytes).await;
    written.map_err(|error| MediaError::Failed(error.to_string()))?;
    Ok(fetched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_kept_with_the_files_or_cut() {
        let text = |data: Value, files: &[Value]| result_data(&data, files).map(Json::into_string);
        assert_eq!(text(json!(null), &[]), None);
        assert_eq!(text(json!({}), &[]), None);
        assert_eq!(text(json!({"a": 1}), &[]).as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(text(json!("x"), &[]).as_deref(), Some(r#"{"data":"x"}"#));
        assert_eq!(text(json!(null), &[json!(1)]).as_deref(), Some(r#"{"files":[1]}"#));
        let long = json!({ "text": "x".repeat(RESULT_DATA_BYTES_MAX) });
        assert_eq!(text(long, &[]).as_deref(), Some(r#"{"files":[],"is_cut":true}"#));
    }
}

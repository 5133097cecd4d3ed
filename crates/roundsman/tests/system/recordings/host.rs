//! A user with a meeting in a room, and what is left on a disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use roundsman_testkit::JsonClient;
use serde_json::{Value, json};

/// A user who has a meeting in a room.
pub(super) struct Host {
    pub(super) client: JsonClient,
    pub(super) room: String,
    pub(super) meeting: i64,
}

/// A stretch of speech as it is read: from, to, who, what.
pub(super) type Line = (f64, f64, Option<String>, String);

impl Host {
    /// Opens a meeting in the room, which must have none.
    pub(super) async fn open(&mut self) -> Result<i64> {
        let wish = json!({"room": self.room});
        let made = self.client.post("/presence/meetings", &wish).await?.expect_status(201)?;
        self.meeting = made.body["id"].as_i64().context("a meeting without a number")?;
        Ok(self.meeting)
    }

    /// Ends the meeting.
    pub(super) async fn close(&self) -> Result<()> {
        let path = format!("/presence/meetings/{}/deactivate", self.meeting);
        self.client.post(&path, &json!({})).await?.expect_status(200).map(drop)
    }

    /// What was said in the newest meeting of the room.
    pub(super) async fn said(&self) -> Result<Vec<Line>> {
        self.said_in(self.meeting).await
    }

    pub(super) async fn said_in(&self, meeting: i64) -> Result<Vec<Line>> {
        let path = format!("/transcripts/daily/{}?dedupe=false&meeting_id={meeting}", self.room);
        let read = self.client.get(&path).await?.expect_status(200)?.body;
        let segments = read["segments"].as_array().context("no list of segments")?;
        let line = |segment: &Value| {
            let (start, end) = (segment["start"].as_f64()?, segment["end"].as_f64()?);
            let text = segment["text"].as_str()?.to_owned();
            Some((start, end, segment["speaker"].as_str().map(str::to_owned), text))
        };
        let lines: Option<Vec<Line>> = segments.iter().map(line).collect();
        lines.with_context(|| format!("{read}"))
    }

    /// What was said, in words alone.
    pub(super) async fn texts(&self) -> Result<Vec<String>> {
        Ok(self.said().await?.into_iter().map(|(.., text)| text).collect())
    }
}

/// All files below a folder, which may not be there.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

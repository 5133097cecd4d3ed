//! What a document said earlier, and going back to it.

use roundsman_core::ports::StoreError;
use roundsman_core::rooms::{ProjectId, RoomVersion, UpdateOrigin};
use roundsman_documents::{Document, UnknownVersion, merge_patch_between};
use serde_json::Value;

use super::service::Rooms;
use super::write::document_error;
use crate::{Error, FieldError};

/// A version's name is at most this long.
const NAME_BYTES_MAX: usize = 200;

/// Which versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionPage {
    /// Only those with a lower number.
    pub before: Option<i64>,
    pub rows_max: u32,
}

/// What lies between two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionDiff {
    /// The JSON merge patch that makes the later of the earlier one; `None` if they say the same.
    pub patch: Option<Value>,
}

impl Rooms {
    /// Versions, newest first.
    pub async fn versions(
        &self,
        project: &ProjectId,
        page: VersionPage,
    ) -> Result<Vec<RoomVersion>, StoreError> {
        self.store().room_versions(project.clone(), page.before, page.rows_max).await
    }

    /// Names the document as it is now.
    pub async fn keep_version(
        &self,
        project: &ProjectId,
        name: Option<String>,
    ) -> Result<RoomVersion, Error> {
        if name
            .as_ref()
            .is_some_and(|name| name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control))
        {
            let message = format!("at most {NAME_BYTES_MAX} bytes without control characters");
            return Err(Error::Invalid(vec![FieldError::new("name", message)]));
        }
        let (document, stored) = self.load(project).await.map_err(document_error)?;
        let at = self.clock().now();
        let seq = stored.room.head_seq;
        let version = RoomVersion { seq, frontiers: document.place(), name, at };
        if !self.store().keep_version(project.clone(), version.clone()).await? {
            return Err(Error::NotFound { what: "room" });
        }
        let kept = self.store().room_version(project.clone(), seq).await?;
        Ok(kept.unwrap_or(version))
    }

    /// What the document said at a version.
    pub async fn read_version(&self, project: &ProjectId, seq: i64) -> Result<Value, Error> {
        let version = self.version(project, seq).await?;
        self.look_back(project, move |document| document.to_json_at(&version.frontiers)).await
    }

    /// What changed from one version to another, or to now.
    pub async fn diff_versions(
        &self,
        project: &ProjectId,
        from: i64,
        to: Option<i64>,
    ) -> Result<VersionDiff, Error> {
        let from = self.version(project, from).await?;
        let to = match to {
            Some(to) => Some(self.version(project, to).await?),
            None => None,
        };
        let patch = self.look_back(project, move |document| {
            let before = document.to_json_at(&from.frontiers)?;
            let after = match to {
                Some(to) => document.to_json_at(&to.frontiers)?,
                None => document.to_json(),
            };
            Ok(merge_patch_between(&before, &after))
        });
        Ok(VersionDiff { patch: patch.await? })
    }

    /// Lets the document say what it said at a version. `None` if it says that already.
    pub async fn restore_version(
        &self,
        project: &ProjectId,
        seq: i64,
    ) -> Result<Option<i64>, Error> {
        let version = self.version(project, seq).await?;
        let restore = move |document: &mut Document| document.restore(&version.frontiers);
        self.change(project, UpdateOrigin::Request, restore).await
    }

    async fn version(&self, project: &ProjectId, seq: i64) -> Result<RoomVersion, Error> {
        let found = self.store().room_version(project.clone(), seq).await?;
        found.ok_or(Error::NotFound { what: "version" })
    }

    async fn look_back<T: Send + 'static>(
        &self,
        project: &ProjectId,
        look: impl FnOnce(&Document) -> Result<T, UnknownVersion> + Send + 'static,
    ) -> Result<T, Error> {
        let (document, _) = self.load(project).await.map_err(document_error)?;
        let seen = self.workshop().run(move || look(&document)).await;
        let seen = seen.ok_or_else(|| StoreError::Failed("looking back panicked".into()))?;
        seen.map_err(|_| Error::NotFound { what: "version" })
    }
}

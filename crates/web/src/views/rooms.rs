//! Rooms: their documents, versions and tokens.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::rooms::{Permission, ProjectId, Room, RoomToken, RoomVersion};
use roundsman_engine::rooms::{IssuedRoomToken, VersionDiff, VersionPage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{next_before, page_rows};
use crate::problem::{Place, Problem};

/// A token holds this long unless asked otherwise.
const TOKEN_SECS_DEFAULT: u64 = 3600;

/// Which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RoomListQuery {
    /// Only projects whose names come after this one: `next_after` of the page before.
    after: Option<String>,
    /// Rooms on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

impl RoomListQuery {
    pub(crate) fn check(self) -> Result<(Option<ProjectId>, u32), Problem> {
        let after = self.after.as_deref().map(ProjectId::new).transpose();
        let after = after.map_err(|error| Problem::field("after", error.to_string()));
        let rows = page_rows(self.limit);
        Ok((after.map_err(|p| p.at(Place::Query))?, rows.map_err(|p| p.at(Place::Query))?))
    }
}

/// A page of rooms, by the names of their projects.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomList)]
pub(crate) struct RoomListView {
    rooms: Vec<RoomView>,
    /// Send this as `after` for the next page; `null` after the last one.
    next_after: Option<String>,
}

impl RoomListView {
    pub(crate) fn new(rooms: &[Room], rows_max: u32) -> Self {
        let is_full = rooms.len() >= rows_max as usize;
        let last = rooms.last().filter(|_| is_full);
        RoomListView {
            rooms: rooms.iter().map(RoomView::from).collect(),
            next_after: last.map(|room| room.project.to_string()),
        }
    }
}

/// A room.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Room)]
pub(crate) struct RoomView {
    #[schema(example = "storyboard-7")]
    project_id: String,
    /// Whoever named the project first.
    #[schema(example = 3)]
    user_id: i64,
    /// How many updates its document has had.
    #[schema(example = 1234)]
    seq: i64,
    /// Those up to here are merged into a snapshot.
    #[schema(example = 1200)]
    snapshot_seq: i64,
    /// What is stored of the document.
    #[schema(example = 65536)]
    document_bytes: u64,
    /// Since when there are updates that are not merged; `null` if there are none.
    #[schema(value_type = Option<String>, format = DateTime)]
    dirty_since: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<&Room> for RoomView {
    fn from(room: &Room) -> Self {
        RoomView {
            project_id: room.project.to_string(),
            user_id: room.owner.get(),
            seq: room.head_seq,
            snapshot_seq: room.snapshot_seq,
            document_bytes: room.document_bytes(),
            dirty_since: room.dirty_since,
            created_at: room.created_at,
            updated_at: room.updated_at,
        }
    }
}

/// What a document says.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomDocument)]
pub(crate) struct RoomDocumentView {
    #[schema(example = "storyboard-7")]
    pub(crate) project_id: String,
    /// The version this is; `null` for the document as it is now.
    pub(crate) version: Option<i64>,
    /// How many updates the document has had; `null` for an earlier version.
    #[schema(example = 1234)]
    pub(crate) seq: Option<i64>,
    /// The maps `nodes`, `edges` and `tasks`, and whatever else its clients keep in it.
    #[schema(value_type = Object)]
    pub(crate) doc: Value,
}

/// What a change came to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomChange)]
pub(crate) struct PatchedView {
    /// `false` if the document said so already.
    changed: bool,
    /// The number of the update; `null` if there was none.
    #[schema(example = 1235)]
    seq: Option<i64>,
}

impl From<Option<i64>> for PatchedView {
    fn from(seq: Option<i64>) -> Self {
        PatchedView { changed: seq.is_some(), seq }
    }
}

/// Which versions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionListQuery {
    /// Only versions with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Versions on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

impl VersionListQuery {
    pub(crate) fn check(self) -> Result<VersionPage, Problem> {
        let rows_max = page_rows(self.limit).map_err(|problem| problem.at(Place::Query))?;
        Ok(VersionPage { before: self.before, rows_max })
    }
}

/// A page of versions, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = VersionList)]
pub(crate) struct VersionListView {
    versions: Vec<VersionView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

impl VersionListView {
    pub(crate) fn new(versions: &[RoomVersion], rows_max: u32) -> Self {
        VersionListView {
            next_before: next_before(versions.iter().map(|version| version.seq), rows_max),
            versions: versions.iter().map(VersionView::from).collect(),
        }
    }
}

/// A place in the history of a document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub(crate) struct VersionView {
    /// How many updates the document had had by then.
    #[schema(example = 1200)]
    seq: i64,
    /// Given by a person; `null` for those that were made with snapshots.
    #[schema(example = "before the meeting")]
    name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<&RoomVersion> for VersionView {
    fn from(version: &RoomVersion) -> Self {
        VersionView { seq: version.seq, name: version.name.clone(), at: version.at }
    }
}

/// A version to be kept.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = VersionRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionBody {
    #[schema(example = "before the meeting", max_length = 200)]
    pub(crate) name: Option<String>,
}

/// Up to where to compare.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionDiffQuery {
    /// The other version; without it, the document as it is now.
    pub(crate) to: Option<i64>,
}

/// What lies between two versions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = VersionDiff)]
pub(crate) struct VersionDiffView {
    from: i64,
    to: Option<i64>,
    /// The JSON merge patch (RFC 7396) that makes the later of the earlier one; `null` if they say the
    /// same.
    #[schema(value_type = Option<Object>)]
    patch: Option<Value>,
}

impl VersionDiffView {
    pub(crate) fn new(from: i64, to: Option<i64>, diff: VersionDiff) -> Self {
        VersionDiffView { from, to, patch: diff.patch }
    }
}

/// A room token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = DocumentTokenRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct DocumentTokenBody {
    /// `read` or `write`.
    #[schema(example = "write", required)]
    permission: Option<String>,
    /// For whoever looks at the list.
    #[schema(max_length = 200)]
    pub(crate) name: Option<String>,
    /// How long it holds.
    #[schema(minimum = 10, default = 3600)]
    expires_in_secs: Option<u64>,
}

impl DocumentTokenBody {
    pub(crate) fn check(self) -> Result<(Permission, Option<String>, Duration), Problem> {
        let permission = Permission::parse(self.permission.as_deref().unwrap_or_default());
        let permission =
            permission.map_err(|error| Problem::field("permission", error.to_string()))?;
        let secs = self.expires_in_secs.unwrap_or(TOKEN_SECS_DEFAULT);
        Ok((permission, self.name, Duration::from_secs(secs)))
    }
}

/// How long a token is to hold from now on.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TokenTimeRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenTimeBody {
    #[schema(minimum = 10, default = 3600)]
    expires_in_secs: Option<u64>,
}

impl TokenTimeBody {
    pub(crate) fn holds_for(&self) -> Duration {
        Duration::from_secs(self.expires_in_secs.unwrap_or(TOKEN_SECS_DEFAULT))
    }
}

/// A new room token. Its secret is here and nowhere else.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NewDocumentToken)]
pub(crate) struct NewDocumentTokenView {
    /// What its holder sends.
    #[schema(example = "rrt_7_…")]
    token: String,
    #[serde(flatten)]
    about: DocumentTokenView,
}

impl From<&IssuedRoomToken> for NewDocumentTokenView {
    fn from(issued: &IssuedRoomToken) -> Self {
        NewDocumentTokenView { token: issued.text.clone(), about: (&issued.token).into() }
    }
}

/// The tokens of a room that hold, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DocumentTokenList)]
pub(crate) struct DocumentTokenListView {
    tokens: Vec<DocumentTokenView>,
}

impl DocumentTokenListView {
    pub(crate) fn new(tokens: &[RoomToken]) -> Self {
        DocumentTokenListView { tokens: tokens.iter().map(DocumentTokenView::from).collect() }
    }
}

/// A room token, without its secret, which nobody has kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DocumentToken)]
pub(crate) struct DocumentTokenView {
    #[schema(example = 7)]
    id: i64,
    #[schema(example = "storyboard-7")]
    project_id: String,
    #[schema(example = "write")]
    permission: &'static str,
    name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

impl From<&RoomToken> for DocumentTokenView {
    fn from(token: &RoomToken) -> Self {
        DocumentTokenView {
            id: token.id.get(),
            project_id: token.project.to_string(),
            permission: token.permission.as_str(),
            name: token.name.clone(),
            created_at: token.created_at,
            expires_at: token.expires_at,
        }
    }
}

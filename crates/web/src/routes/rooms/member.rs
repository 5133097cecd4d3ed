//! Being in a room: how a connection gets in, and whether it may stay.

use std::sync::Arc;

use bytes::Bytes;
use roundsman_core::ports::{DocumentError, StoreError};
use roundsman_core::rooms::{Permission, ProjectId};
use roundsman_documents::protocol::{Crdt, JoinErrorCode, JoinRefusal};
use roundsman_engine::rooms::{Access, AccessDenied, JoinError, Joined, Membership, Naming, Rooms};
use tokio::sync::Notify;

use super::frames::{own_refusal, refusal};

/// A room on a connection: documents, presence and presence that is kept are apart.
pub(super) type RoomKey = (Crdt, String);

/// The connection in one room.
pub(super) struct Member {
    pub(super) membership: Membership,
    pub(super) access: Access,
    /// Asked about again and again; never shown.
    pub(super) credential: Arc<str>,
}

/// What a newcomer is told.
pub(super) struct Entry {
    pub(super) member: Member,
    pub(super) permission: Permission,
    pub(super) version: Vec<u8>,
    pub(super) missing: Option<Bytes>,
}

/// Why a connection is not in a room.
pub(super) enum NotIn {
    Refused(JoinRefusal),
    /// The database does not answer: the client should come back later.
    Later,
}

/// Lets a connection into a room.
pub(super) async fn enter(
    rooms: &Rooms,
    key: &RoomKey,
    credential: Option<Arc<str>>,
    version: Bytes,
    bell: &Arc<Notify>,
) -> Result<Entry, NotIn> {
    let project = ProjectId::new(&key.1)
        .map_err(|error| NotIn::Refused(own_refusal("invalid_room", &error.to_string())))?;
    let denied = || NotIn::Refused(refusal(JoinErrorCode::AuthFailed, "no token was sent"));
    let credential = credential.ok_or_else(denied)?;
    let access =
        rooms.authorise(&project, &credential, Naming::Opens).await.map_err(
            |denied| match denied {
                AccessDenied::Unavailable(error) => unavailable(&error),
                denied => NotIn::Refused(refusal(JoinErrorCode::AuthFailed, &denied.to_string())),
            },
        )?;
    match key.0 {
        Crdt::Loro => {
            let Joined { membership, version, missing } =
                rooms.join(&project, version, bell).await.map_err(not_in)?;
            let permission = access.permission;
            let member = Member { membership, access, credential };
            Ok(Entry { member, permission, version, missing })
        }
        // Whoever may read may say that they are there.
        Crdt::Ephemeral => {
            let (membership, missing) =
                rooms.join_presence(&project, bell).await.map_err(not_in)?;
            let member = Member { membership, access, credential };
            let (permission, version) = (Permission::Write, Vec::new());
            Ok(Entry { member, permission, version, missing })
        }
        // What is kept is written.
        Crdt::PersistedEphemeral => {
            let (membership, missing) =
                rooms.join_kept_presence(&project, bell).await.map_err(not_in)?;
            let (permission, version) = (access.permission, Vec::new());
            let member = Member { membership, access, credential };
            Ok(Entry { member, permission, version, missing })
        }
        _ => Err(NotIn::Refused(own_refusal(
            "unsupported",
            "this server keeps Loro documents (%LOR) and presence (%EPH, %EPS)",
        ))),
    }
}

fn not_in(error: JoinError) -> NotIn {
    match error {
        JoinError::Document(DocumentError::Store(error)) => unavailable(&error),
        JoinError::Document(DocumentError::NoSuchRoom(_)) => {
            NotIn::Refused(refusal(JoinErrorCode::AuthFailed, "there is no such room"))
        }
        // What is stored is left as it is, and nobody gets an empty document in its place.
        JoinError::Document(DocumentError::Unreadable { .. }) => {
            NotIn::Refused(own_refusal("storage_error", "the document cannot be read"))
        }
        JoinError::RoomFull => {
            let words = "the room has as many connections as it may";
            NotIn::Refused(own_refusal("room_full", words))
        }
        JoinError::UnknownVersion { ours } => NotIn::Refused(JoinRefusal {
            version: Some(ours.into()),
            ..refusal(JoinErrorCode::VersionUnknown, "not the version of a document")
        }),
    }
}

fn unavailable(error: &StoreError) -> NotIn {
    tracing::warn!(%error, "a room cannot be joined now");
    NotIn::Later
}

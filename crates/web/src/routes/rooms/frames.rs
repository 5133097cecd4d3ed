//! What is told to members of rooms.

use bytes::Bytes;
use roundsman_core::rooms::Permission;
use roundsman_documents::protocol::{
    AckStatus, BatchId, Frame, JoinErrorCode, JoinRefusal, Message, RoomErrorCode,
};

use super::member::RoomKey;

pub(super) fn joined(key: &RoomKey, permission: Permission, version: Vec<u8>) -> Bytes {
    let (version, extra) = (version.into(), Bytes::new());
    frame(key, Message::JoinOk { permission, version, extra })
}

pub(super) fn refusal(code: JoinErrorCode, message: &str) -> JoinRefusal {
    JoinRefusal { code, message: message.to_owned(), version: None, app_code: None }
}

/// A refusal that the protocol has no code for.
pub(super) fn own_refusal(app_code: &str, message: &str) -> JoinRefusal {
    let app_code = Some(app_code.to_owned());
    JoinRefusal { app_code, ..refusal(JoinErrorCode::App, message) }
}

pub(super) fn not_joined(key: &RoomKey, refusal: JoinRefusal) -> Bytes {
    frame(key, Message::JoinError(refusal))
}

pub(super) fn ack(key: &RoomKey, batch: BatchId, status: AckStatus) -> Bytes {
    frame(key, Message::Ack { batch, status })
}

pub(super) fn out(key: &RoomKey, code: RoomErrorCode, message: &str) -> Bytes {
    frame(key, Message::RoomError { code, message: message.to_owned() })
}

fn frame(key: &RoomKey, message: Message) -> Bytes {
    Frame { crdt: key.0, room: key.1.clone(), message }.encode()
}

//! Writing frames, and cutting what does not fit into one.

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::kind;
use super::{BatchId, Crdt, FRAME_BYTES_MAX, Frame, JoinRefusal, Message, ROOM_BYTES_MAX};

/// A large update is sent in pieces of this size, as the clients do.
pub const FRAGMENT_BYTES: usize = 240 * 1024;

/// More than a frame needs beside the update it carries.
const OVERHEAD_BYTES_MAX: usize = 4 + 2 + ROOM_BYTES_MAX + 1 + 10 + 10 + 8;

impl Frame {
    pub fn encode(&self) -> Bytes {
        let mut out = begin(self.crdt, &self.room);
        match &self.message {
            Message::JoinRequest { auth, version } => {
                out.put_u8(kind::JOIN_REQUEST);
                put_bytes(&mut out, auth);
                put_bytes(&mut out, version);
            }
            Message::JoinOk { permission, version, extra } => {
                out.put_u8(kind::JOIN_OK);
                put_bytes(&mut out, permission.as_str().as_bytes());
                put_bytes(&mut out, version);
                put_bytes(&mut out, extra);
            }
            Message::JoinError(refusal) => put_refusal(&mut out, refusal),
            Message::Update { updates, batch } => {
                out.put_u8(kind::UPDATE);
                put_number(&mut out, updates.len() as u64);
                for update in updates {
                    put_bytes(&mut out, update);
                }
                out.put_slice(&batch.0);
            }
            Message::FragmentHeader { batch, fragments, bytes } => {
                out.put_u8(kind::FRAGMENT_HEADER);
                out.put_slice(&batch.0);
                put_number(&mut out, *fragments);
                put_number(&mut out, *bytes);
            }
            Message::Fragment { batch, index, bytes } => {
                out.put_u8(kind::FRAGMENT);
                out.put_slice(&batch.0);
                put_number(&mut out, *index);
                put_bytes(&mut out, bytes);
            }
            Message::RoomError { code, message } => {
                out.put_u8(kind::ROOM_ERROR);
                out.put_u8(code.byte());
                put_bytes(&mut out, message.as_bytes());
            }
            Message::Leave => out.put_u8(kind::LEAVE),
            Message::Ack { batch, status } => {
                out.put_u8(kind::ACK);
                out.put_slice(&batch.0);
                out.put_u8(status.byte());
            }
        }
        out.freeze()
    }
}

/// The frames that carry one update, however large it is.
pub fn update_frames(crdt: Crdt, room: &str, update: &Bytes, batch: BatchId) -> Vec<Bytes> {
    let frame = |message| Frame { crdt, room: room.to_owned(), message }.encode();
    if update.len() + OVERHEAD_BYTES_MAX <= FRAME_BYTES_MAX {
        return vec![frame(Message::Update { updates: vec![update.clone()], batch })];
    }
    let fragments = update.len().div_ceil(FRAGMENT_BYTES) as u64;
    let header = Message::FragmentHeader { batch, fragments, bytes: update.len() as u64 };
    let pieces = (0..update.len()).step_by(FRAGMENT_BYTES).zip(0u64..).map(|(start, index)| {
        let bytes = update.slice(start..update.len().min(start + FRAGMENT_BYTES));
        frame(Message::Fragment { batch, index, bytes })
    });
    std::iter::once(frame(header)).chain(pieces).collect()
}

fn begin(crdt: Crdt, room: &str) -> BytesMut {
    let mut out = BytesMut::with_capacity(64);
    out.put_slice(crdt.magic());
    put_bytes(&mut out, room.as_bytes());
    out
}

fn put_refusal(out: &mut BytesMut, refusal: &JoinRefusal) {
    out.put_u8(kind::JOIN_ERROR);
    out.put_u8(refusal.code.byte());
    put_bytes(out, refusal.message.as_bytes());
    if let Some(version) = &refusal.version {
        put_bytes(out, version);
    }
    if let Some(app_code) = &refusal.app_code {
        put_bytes(out, app_code.as_bytes());
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn put_number(out: &mut BytesMut, mut number: u64) {
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            return out.put_u8(low);
        }
        out.put_u8(low | 0x80);
    }
}

#[cfg(test)]
mod tests;

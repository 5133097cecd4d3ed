//! What clients of either server send, and what they hear: as little of it as a measurement needs.

use anyhow::{Context, ensure};
use bench_support::websocket::{Socket, binary_frame};
use bytes::Bytes;
use roundsman_documents::protocol::{AckStatus, BatchId, Crdt, Frame, Message, update_frames};

use crate::documents::{text, unsigned};

/// Whose language is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// loro-protocol v1.
    Loro,
    /// That of Hocuspocus: the name of the document, a number for the sort of message, and what the
    /// protocol of Yjs says.
    Yjs,
}

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Joined,
    /// What was sent last is acknowledged.
    Ack,
    /// Somebody else has changed something; or all there is, in one message.
    Update,
    /// All there is, in so many pieces.
    Pieces(u64),
    Piece,
    /// All there is.
    Whole,
    Refused(String),
    Other,
}

/// The sorts of messages of Hocuspocus, and within one of them those of Yjs.
mod sort {
    pub(super) const SYNC: u64 = 0;
    pub(super) const AUTH: u64 = 2;
    pub(super) const SYNC_REPLY: u64 = 4;
    pub(super) const STATUS: u64 = 8;
    pub(super) const STEP_1: u64 = 0;
    pub(super) const STEP_2: u64 = 1;
    pub(super) const UPDATE: u64 = 2;
    pub(super) const TOKEN: u64 = 0;
    pub(super) const DENIED: u64 = 1;
    pub(super) const AUTHENTICATED: u64 = 2;
}

impl Wire {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Wire::Loro => "/ws/rooms",
            Wire::Yjs => "/",
        }
    }

    /// Asks for a room and all there is in it.
    pub(crate) fn join(self, room: &str, token: &str) -> Vec<u8> {
        match self {
            Wire::Loro => {
                let (auth, version) = (Bytes::copy_from_slice(token.as_bytes()), Bytes::new());
                loro(room, Message::JoinRequest { auth, version })
            }
            Wire::Yjs => {
                let mut auth = yjs(room, sort::AUTH, sort::TOKEN);
                text(&mut auth, token);
                let mut step = yjs(room, sort::SYNC, sort::STEP_1);
                // The version of nothing.
                step.extend([1, 0]);
                [binary_frame(&auth), binary_frame(&step)].concat()
            }
        }
    }

    pub(crate) fn update(self, room: &str, number: u64, update: &Bytes) -> Vec<u8> {
        match self {
            Wire::Loro => {
                let batch = BatchId(number.to_be_bytes());
                let frames = update_frames(Crdt::Loro, room, update, batch);
                frames.iter().flat_map(|frame| binary_frame(frame)).collect()
            }
            Wire::Yjs => {
                let mut message = yjs(room, sort::SYNC, sort::UPDATE);
                unsigned(&mut message, update.len() as u64);
                message.extend(update);
                binary_frame(&message)
            }
        }
    }

    pub(crate) fn hear(self, message: Vec<u8>) -> anyhow::Result<Heard> {
        match self {
            Wire::Loro => Ok(match Frame::decode(message.into())?.message {
                Message::JoinOk { .. } => Heard::Joined,
                Message::Ack { status: AckStatus::Ok, .. } => Heard::Ack,
                Message::Update { .. } => Heard::Update,
                Message::FragmentHeader { fragments, .. } => Heard::Pieces(fragments),
                Message::Fragment { .. } => Heard::Piece,
                refused => Heard::Refused(format!("{refused:?}")),
            }),
            Wire::Yjs => hear_yjs(&message).context("not a message of Hocuspocus"),
        }
    }
}

fn loro(room: &str, message: Message) -> Vec<u8> {
    binary_frame(&Frame { crdt: Crdt::Loro, room: room.to_owned(), message }.encode())
}

fn yjs(room: &str, sort: u64, part: u64) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, room);
    unsigned(&mut out, sort);
    unsigned(&mut out, part);
    out
}

fn hear_yjs(message: &[u8]) -> Option<Heard> {
    let (name_bytes, rest) = read(message)?;
    let rest = rest.get(usize::try_from(name_bytes).ok()?..)?;
    let (sort, rest) = read(rest)?;
    let part = read(rest).map(|(part, _)| part);
    Some(match (sort, part) {
        (sort::SYNC | sort::SYNC_REPLY, Some(sort::STEP_2)) => Heard::Whole,
        (sort::SYNC, Some(sort::UPDATE)) => Heard::Update,
        (sort::AUTH, Some(sort::AUTHENTICATED)) => Heard::Joined,
        (sort::AUTH, Some(sort::DENIED)) => Heard::Refused("denied".to_owned()),
        (sort::STATUS, Some(1)) => Heard::Ack,
        (sort::STATUS, _) => Heard::Refused("not saved".to_owned()),
        _ => Heard::Other,
    })
}

/// A number, and what follows it.
fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

/// Joins a room and waits until all there is in it has come. Returns how many bytes that were.
pub(crate) async fn open(
    socket: &mut Socket,
    wire: Wire,
    room: &str,
    token: &str,
) -> anyhow::Result<usize> {
    socket.send(&wire.join(room, token)).await?;
    let (mut bytes, mut pieces, mut is_in) = (0, None, false);
    loop {
        let message = socket.binary().await?;
        bytes += message.len();
        match wire.hear(message)? {
            Heard::Joined => is_in = true,
            Heard::Pieces(count) => pieces = Some(count),
            Heard::Piece => {
                let left = pieces.as_mut().context("a piece of nothing")?;
                *left -= 1;
                if *left == 0 {
                    return Ok(bytes);
                }
            }
            Heard::Update | Heard::Whole => {
                ensure!(is_in, "a document before the room");
                return Ok(bytes);
            }
            Heard::Refused(why) => anyhow::bail!("{room}: {why}"),
            Heard::Ack | Heard::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_hocuspocus_are_told_apart() {
        let message = |sort, part| yjs("a room", sort, part);
        let hear = |message: Vec<u8>| Wire::Yjs.hear(message).unwrap();
        assert_eq!(hear(message(sort::AUTH, sort::AUTHENTICATED)), Heard::Joined);
        assert_eq!(hear(message(sort::SYNC, sort::STEP_2)), Heard::Whole);
        assert_eq!(hear(message(sort::SYNC_REPLY, sort::STEP_1)), Heard::Other);
        assert_eq!(hear(message(sort::SYNC, sort::UPDATE)), Heard::Update);
        assert_eq!(hear(message(sort::STATUS, 1)), Heard::Ack);
        assert!(matches!(hear(message(sort::STATUS, 0)), Heard::Refused(_)));
        assert!(Wire::Yjs.hear(vec![0xff]).is_err());
    }
}

//! What nodes tell each other about a room. A message that cannot be read says "look".

use bytes::{BufMut, Bytes, BytesMut};
use roundsman_core::rooms::ProjectId;

/// Where the news of a room are told.
pub(super) fn topic(project: &ProjectId) -> String {
    format!("room:{project}")
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Who tells.
    pub(super) node: u64,
    pub(super) news: News,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// An update was stored; it is here if the bus could carry it.
    Update {
        seq: i64,
        payload: Option<Bytes>,
    },
    Presence(Bytes),
    /// This version of presence is kept; what was said is here if the bus could carry it.
    Kept {
        version: i64,
        said: Option<Bytes>,
    },
    /// Somebody has come where nobody was: who is here?
    WhoIsHere,
    /// Tokens of the room have changed.
    Tokens,
    /// It cannot be told what.
    Look,
}

const UPDATE: u8 = 1;
const UPDATE_STORED: u8 = 2;
const PRESENCE: u8 = 3;
const WHO_IS_HERE: u8 = 4;
const TOKENS: u8 = 5;
const LOOK: u8 = 6;
const KEPT: u8 = 7;
const KEPT_STORED: u8 = 8;

impl Message {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        let (kind, seq, payload) = match &self.news {
            News::Update { seq, payload: Some(payload) } => (UPDATE, *seq, Some(payload)),
            News::Update { seq, payload: None } => (UPDATE_STORED, *seq, None),
            News::Presence(payload) => (PRESENCE, 0, Some(payload)),
            News::Kept { version, said: Some(said) } => (KEPT, *version, Some(said)),
            News::Kept { version, said: None } => (KEPT_STORED, *version, None),
            News::WhoIsHere => (WHO_IS_HERE, 0, None),
            News::Tokens => (TOKENS, 0, None),
            News::Look => (LOOK, 0, None),
        };
        out.put_u8(kind);
        out.put_u64(self.node);
        out.put_i64(seq);
        if let Some(payload) = payload {
            out.put_slice(payload);
        }
        out.freeze()
    }

    pub(super) fn decode(mut bytes: Bytes) -> Self {
        const HEAD: usize = 17;
        if bytes.len() < HEAD {
            return Message { node: 0, news: News::Look };
        }
        let payload = bytes.split_off(HEAD);
        let number = |from: usize| {
            let eight: [u8; 8] = bytes[from..from + 8].try_into().unwrap_or_default();
            u64::from_be_bytes(eight)
        };
        let (node, seq) = (number(1), number(9).cast_signed());
        let news = match bytes[0] {
            UPDATE => News::Update { seq, payload: Some(payload) },
            UPDATE_STORED => News::Update { seq, payload: None },
            PRESENCE => News::Presence(payload),
            KEPT => News::Kept { version: seq, said: Some(payload) },
            KEPT_STORED => News::Kept { version: seq, said: None },
            WHO_IS_HERE => News::WhoIsHere,
            TOKENS => News::Tokens,
            _ => News::Look,
        };
        Message { node, news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_and_noise_says_look() {
        let bytes = || Bytes::from_static(b"xyz");
        for news in [
            News::Update { seq: 7, payload: Some(bytes()) },
            News::Update { seq: i64::MAX, payload: None },
            News::Presence(bytes()),
            News::Kept { version: 3, said: Some(bytes()) },
            News::Kept { version: 4, said: None },
            News::WhoIsHere,
            News::Tokens,
            News::Look,
        ] {
            let message = Message { node: u64::MAX - 1, news };
            assert_eq!(Message::decode(message.encode()), message);
        }
        for noise in [&b""[..], b"\x01", &[9; 40]] {
            assert_eq!(Message::decode(Bytes::copy_from_slice(noise)).news, News::Look);
        }
    }
}

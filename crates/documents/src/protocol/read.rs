//! Reading a frame. Nothing is copied: what a frame carries is a part of it.

use bytes::{Buf, Bytes};
use roundsman_core::rooms::Permission;

use super::frame::kind;
use super::{
    AckStatus, BatchId, Crdt, FRAME_BYTES_MAX, Frame, JoinErrorCode, JoinRefusal, Message,
    ROOM_BYTES_MAX, RoomErrorCode,
};

/// Updates in one frame; an update is at least a byte for its length.
const UPDATES_PER_FRAME_MAX: u64 = 16 * 1024;

/// The bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a frame has at most {FRAME_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the frame ends too early")]
    CutOff,
    #[error("no sort of document begins like this")]
    UnknownCrdt,
    #[error("a room's name has at most {ROOM_BYTES_MAX} bytes of UTF-8")]
    BadRoom,
    #[error("no message begins like this")]
    UnknownMessage,
    #[error("a number is too large")]
    BadNumber,
    #[error("a text is not UTF-8")]
    BadText,
    #[error("no permission is called like this")]
    BadPermission,
    #[error("there are too many updates in one frame")]
    TooManyUpdates,
    #[error("something follows the end of the message")]
    Trailing,
}

impl Frame {
    pub fn decode(bytes: Bytes) -> Result<Frame, DecodeError> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        let mut reader = Reader(bytes);
        let magic = reader.take(4)?;
        let crdt = Crdt::ALL.into_iter().find(|crdt| magic == crdt.magic()[..]);
        let crdt = crdt.ok_or(DecodeError::UnknownCrdt)?;
        let room = reader.var_bytes()?;
        if room.len() > ROOM_BYTES_MAX {
            return Err(DecodeError::BadRoom);
        }
        let room = text(&room).map_err(|_| DecodeError::BadRoom)?;
        let message = reader.message()?;
        if reader.0.has_remaining() {
            return Err(DecodeError::Trailing);
        }
        Ok(Frame { crdt, room, message })
    }
}

struct Reader(Bytes);

impl Reader {
    fn message(&mut self) -> Result<Message, DecodeError> {
        Ok(match self.byte()? {
            kind::JOIN_REQUEST => {
                Message::JoinRequest { auth: self.var_bytes()?, version: self.var_bytes()? }
            }
            kind::JOIN_OK => Message::JoinOk {
                permission: Permission::parse(&self.var_text()?)
                    .map_err(|_| DecodeError::BadPermission)?,
                version: self.var_bytes()?,
                extra: self.var_bytes()?,
            },
            kind::JOIN_ERROR => self.join_error()?,
            kind::UPDATE => self.update()?,
            kind::FRAGMENT_HEADER => Message::FragmentHeader {
                batch: self.batch()?,
                fragments: self.number()?,
                bytes: self.number()?,
            },
            kind::FRAGMENT => Message::Fragment {
                batch: self.batch()?,
                index: self.number()?,
                bytes: self.var_bytes()?,
            },
            kind::ROOM_ERROR => Message::RoomError {
                code: RoomErrorCode::from_byte(self.byte()?),
                message: self.var_text()?,
            },
            kind::LEAVE => Message::Leave,
            kind::ACK => {
                Message::Ack { batch: self.batch()?, status: AckStatus::from_byte(self.byte()?) }
            }
            _ => return Err(DecodeError::UnknownMessage),
        })
    }

    fn join_error(&mut self) -> Result<Message, DecodeError> {
        let code = JoinErrorCode::from_byte(self.byte()?);
        let message = self.var_text()?;
        let more = self.0.has_remaining();
        let version = match code {
            JoinErrorCode::VersionUnknown if more => Some(self.var_bytes()?),
            _ => None,
        };
        let app_code = match code {
            JoinErrorCode::App if more => Some(self.var_text()?),
            _ => None,
        };
        Ok(Message::JoinError(JoinRefusal { code, message, version, app_code }))
    }

    fn update(&mut self) -> Result<Message, DecodeError> {
        let count = self.number()?;
        if count > UPDATES_PER_FRAME_MAX {
            return Err(DecodeError::TooManyUpdates);
        }
        let updates = (0..count).map(|_| self.var_bytes()).collect::<Result<_, _>>()?;
        Ok(Message::Update { updates, batch: self.batch()? })
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.0.try_get_u8().map_err(|_| DecodeError::CutOff)
    }

    fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if self.0.len() < length {
            return Err(DecodeError::CutOff);
        }
        Ok(self.0.split_to(length))
    }

    fn batch(&mut self) -> Result<BatchId, DecodeError> {
        let bytes = self.take(8)?;
        Ok(BatchId(bytes.as_ref().try_into().map_err(|_| DecodeError::CutOff)?))
    }

    /// Seven bits at a time, the lowest first.
    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::BadNumber);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError::BadNumber)
    }

    fn var_bytes(&mut self) -> Result<Bytes, DecodeError> {
        let length = usize::try_from(self.number()?).map_err(|_| DecodeError::BadNumber)?;
        self.take(length)
    }

    fn var_text(&mut self) -> Result<String, DecodeError> {
        text(&self.var_bytes()?)
    }
}

fn text(bytes: &[u8]) -> Result<String, DecodeError> {
    std::str::from_utf8(bytes).map(ToOwned::to_owned).map_err(|_| DecodeError::BadText)
}

//! What a frame says.

use bytes::Bytes;
use roundsman_core::rooms::Permission;

/// A sort of document. Those of others are known so that they can be refused politely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Crdt {
    /// A document.
    Loro,
    /// Presence.
    Ephemeral,
    /// Presence that outlives those it is about.
    PersistedEphemeral,
    Yjs,
    YjsAwareness,
    /// Documents that only their clients can read.
    Encrypted,
    Flock,
}

impl Crdt {
    pub const ALL: [Crdt; 7] = [
        Crdt::Loro,
        Crdt::Ephemeral,
        Crdt::PersistedEphemeral,
        Crdt::Yjs,
        Crdt::YjsAwareness,
        Crdt::Encrypted,
        Crdt::Flock,
    ];

    /// How its frames begin.
    pub fn magic(self) -> &'static [u8; 4] {
        match self {
            Crdt::Loro => b"%LOR",
            Crdt::Ephemeral => b"%EPH",
            Crdt::PersistedEphemeral => b"%EPS",
            Crdt::Yjs => b"%YJS",
            Crdt::YjsAwareness => b"%YAW",
            Crdt::Encrypted => b"%ELO",
            Crdt::Flock => b"%FLO",
        }
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub crdt: Crdt,
    pub room: String,
    pub message: Message,
}

/// Names a batch of updates, so that it can be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(pub [u8; 8]);

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    JoinRequest {
        auth: Bytes,
        version: Bytes,
    },
    JoinOk {
        permission: Permission,
        version: Bytes,
        extra: Bytes,
    },
    JoinError(JoinRefusal),
    Update {
        updates: Vec<Bytes>,
        batch: BatchId,
    },
    FragmentHeader {
        batch: BatchId,
        fragments: u64,
        bytes: u64,
    },
    Fragment {
        batch: BatchId,
        index: u64,
        bytes: Bytes,
    },
    /// The client is out of the room.
    RoomError {
        code: RoomErrorCode,
        message: String,
    },
    Leave,
    Ack {
        batch: BatchId,
        status: AckStatus,
    },
}

/// Why somebody may not join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRefusal {
    pub code: JoinErrorCode,
    pub message: String,
    /// With [`JoinErrorCode::VersionUnknown`]: what we have.
    pub version: Option<Bytes>,
    /// With [`JoinErrorCode::App`]: a word for programs.
    pub app_code: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinErrorCode {
    Unknown,
    VersionUnknown,
    AuthFailed,
    App,
}

impl JoinErrorCode {
    pub(super) fn byte(self) -> u8 {
        match self {
            JoinErrorCode::Unknown => 0x00,
            JoinErrorCode::VersionUnknown => 0x01,
            JoinErrorCode::AuthFailed => 0x02,
            JoinErrorCode::App => 0x7f,
        }
    }

    /// A code that is not known says only that it failed.
    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0x01 => JoinErrorCode::VersionUnknown,
            0x02 => JoinErrorCode::AuthFailed,
            0x7f => JoinErrorCode::App,
            _ => JoinErrorCode::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomErrorCode {
    /// Join again, at once and with what you have.
    RejoinSuggested,
    /// Do not join again.
    Evicted,
    Unknown,
}

impl RoomErrorCode {
    pub(super) fn byte(self) -> u8 {
        match self {
            RoomErrorCode::RejoinSuggested => 0x01,
            RoomErrorCode::Evicted => 0x02,
            RoomErrorCode::Unknown => 0x7f,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0x01 => RoomErrorCode::RejoinSuggested,
            0x02 => RoomErrorCode::Evicted,
            _ => RoomErrorCode::Unknown,
        }
    }
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckStatus {
    Ok,
    Unknown,
    PermissionDenied,
    InvalidUpdate,
    PayloadTooLarge,
    RateLimited,
    FragmentTimeout,
    App,
}

impl AckStatus {
    pub(super) fn byte(self) -> u8 {
        match self {
            AckStatus::Ok => 0x00,
            AckStatus::Unknown => 0x01,
            AckStatus::PermissionDenied => 0x03,
            AckStatus::InvalidUpdate => 0x04,
            AckStatus::PayloadTooLarge => 0x05,
            AckStatus::RateLimited => 0x06,
            AckStatus::FragmentTimeout => 0x07,
            AckStatus::App => 0x7f,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0x00 => AckStatus::Ok,
            0x03 => AckStatus::PermissionDenied,
            0x04 => AckStatus::InvalidUpdate,
            0x05 => AckStatus::PayloadTooLarge,
            0x06 => AckStatus::RateLimited,
            0x07 => AckStatus::FragmentTimeout,
            0x7f => AckStatus::App,
            _ => AckStatus::Unknown,
        }
    }
}

/// The byte that says which message follows.
pub(super) mod kind {
    pub(in crate::protocol) const JOIN_REQUEST: u8 = 0x00;
    pub(in crate::protocol) const JOIN_OK: u8 = 0x01;
    pub(in crate::protocol) const JOIN_ERROR: u8 = 0x02;
    pub(in crate::protocol) const UPDATE: u8 = 0x03;
    pub(in crate::protocol) const FRAGMENT_HEADER: u8 = 0x04;
    pub(in crate::protocol) const FRAGMENT: u8 = 0x05;
    pub(in crate::protocol) const ROOM_ERROR: u8 = 0x06;
    pub(in crate::protocol) const LEAVE: u8 = 0x07;
    pub(in crate::protocol) const ACK: u8 = 0x08;
}

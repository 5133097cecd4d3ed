//! An event as it comes in, and what it comes to.

use roundsman_core::daily::{Delivery, Event};
use roundsman_core::ports::INBOX_PAYLOAD_BYTES_MAX;
use roundsman_core::presence::Hint;

/// Why an event is nothing to us.
const PING: &str = "ping";
const NOT_ACTED_ON: &str = "not_acted_on";

/// An event of the provider whose signature was good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The provider's name for it: the same when it is sent again.
    pub event: String,
    /// As the provider calls its kind.
    pub kind: String,
    pub room: Option<String>,
    pub matter: Matter,
    /// As it came.
    pub payload: String,
}

/// What an event comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matter {
    /// It is a reason to look at its room.
    Look(Hint),
    /// Whoever it is for has taken it already, as with recordings, which are stored before the
    /// provider is answered. It is only kept to be seen.
    Taken,
    /// It is nothing to us.
    Ignored { reason: &'static str },
    /// It cannot be understood.
    Odd { reason: String },
}

impl Heard {
    /// A delivery of Daily's, with its body. One about a recording is taken by whoever stores it.
    pub fn of(delivery: Delivery, body: &[u8]) -> Self {
        let Delivery { id: event, kind, room, event: said } = delivery;
        let matter = match said {
            Event::Participant { hint, .. } | Event::MeetingEnded { hint, .. } => {
                Matter::Look(hint)
            }
            Event::RecordingReady(_) => Matter::Taken,
            Event::Ping => Matter::Ignored { reason: PING },
            Event::Other => Matter::Ignored { reason: NOT_ACTED_ON },
            Event::Odd { reason } => Matter::Odd { reason },
        };
        // No more of it than is kept.
        let kept = &body[..body.len().min(INBOX_PAYLOAD_BYTES_MAX)];
        let payload = String::from_utf8_lossy(kept).into_owned();
        Heard { event, kind, room, matter, payload }
    }
}

/// What hearing an event came to. The provider is told the same in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HearAnswer {
    Taken,
    Ignored,
    Odd,
    /// It came before.
    Repeated,
    /// There is no place for it now.
    Full,
}

impl HearAnswer {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            HearAnswer::Taken => "taken",
            HearAnswer::Ignored => "ignored",
            HearAnswer::Odd => "odd",
            HearAnswer::Repeated => "repeated",
            HearAnswer::Full => "full",
        }
    }
}

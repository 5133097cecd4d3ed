//! The states of a bot, in the words of the tables and in those that Vexa's clients know.

/// Where a bot is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BotStatus {
    /// A slot is reserved; nothing runs yet.
    Reserved,
    /// The bot runs and is on its way into the meeting.
    Starting,
    /// The bot is in the meeting.
    Active,
    /// The bot is leaving.
    Stopping,
    Completed,
    Failed,
}

/// How far a bot is within `starting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    Joining,
    AwaitingAdmission,
}

/// The text names no status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown status")]
pub struct UnknownStatus;

impl BotStatus {
    pub const ALL: [BotStatus; 6] = [
        BotStatus::Reserved,
        BotStatus::Starting,
        BotStatus::Active,
        BotStatus::Stopping,
        BotStatus::Completed,
        BotStatus::Failed,
    ];

    /// The word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            BotStatus::Reserved => "reserved",
            BotStatus::Starting => "starting",
            BotStatus::Active => "active",
            BotStatus::Stopping => "stopping",
            BotStatus::Completed => "completed",
            BotStatus::Failed => "failed",
        }
    }

    /// Reads the word in the table. The words of an existing Vexa database are understood too, so
    /// that its rows need not be rewritten.
    pub fn parse(text: &str) -> Result<Self, UnknownStatus> {
        match text {
            "reserved" | "requested" => Ok(BotStatus::Reserved),
            "starting" | "joining" | "awaiting_admission" => Ok(BotStatus::Starting),
            "active" => Ok(BotStatus::Active),
            "stopping" => Ok(BotStatus::Stopping),
            "completed" => Ok(BotStatus::Completed),
            "failed" | "error" => Ok(BotStatus::Failed),
            _ => Err(UnknownStatus),
        }
    }

    /// The word that Vexa's clients know.
    pub fn as_vexa(self, stage: Option<Stage>) -> &'static str {
        match (self, stage) {
            (BotStatus::Reserved, _) => "requested",
            (BotStatus::Starting, Some(Stage::AwaitingAdmission)) => "awaiting_admission",
            (BotStatus::Starting, _) => "joining",
            (status, _) => status.as_str(),
        }
    }

    pub fn is_over(self) -> bool {
        matches!(self, BotStatus::Completed | BotStatus::Failed)
    }
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Joining => "joining",
            Stage::AwaitingAdmission => "awaiting_admission",
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownStatus> {
        match text {
            "joining" => Ok(Stage::Joining),
            "awaiting_admission" => Ok(Stage::AwaitingAdmission),
            _ => Err(UnknownStatus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for status in BotStatus::ALL {
            assert_eq!(BotStatus::parse(status.as_str()), Ok(status));
            assert_eq!(BotStatus::parse(status.as_vexa(None)), Ok(status));
        }
        for stage in [Stage::Joining, Stage::AwaitingAdmission] {
            assert_eq!(Stage::parse(stage.as_str()), Ok(stage));
            assert_eq!(BotStatus::Starting.as_vexa(Some(stage)), stage.as_str());
        }
        assert_eq!(BotStatus::parse("open"), Err(UnknownStatus), "Daily meetings are no bots");
    }
}

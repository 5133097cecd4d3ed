//! Which bots have been silent for too long.

use std::time::Duration;

use super::{BotRecord, BotStatus};
use crate::Timestamp;

/// How long a bot may stay in a state without being heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BotTimeouts {
    pub reserved: Duration,
    pub starting: Duration,
    /// Without a heartbeat.
    pub active: Duration,
    pub stopping: Duration,
    /// Active without progress of its media, for bots that report it; `None` does not look.
    pub media: Option<Duration>,
    /// From reservation to end, whatever happens.
    pub lifetime: Duration,
}

impl Default for BotTimeouts {
    fn default() -> Self {
        BotTimeouts {
            reserved: Duration::from_secs(300),
            starting: Duration::from_secs(600),
            active: Duration::from_secs(120),
            stopping: Duration::from_secs(120),
            media: Some(Duration::from_secs(240)),
            lifetime: Duration::from_secs(24 * 3600),
        }
    }
}

/// The times that the sweep compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BotClock {
    pub status: BotStatus,
    pub reserved_at: Timestamp,
    /// When it came into its present state.
    pub entered_at: Timestamp,
    /// The latest sign of life: a heartbeat, or its launcher saying that it runs.
    pub heard_at: Option<Timestamp>,
    /// When its media last progressed, if it reports that.
    pub media_at: Option<Timestamp>,
    /// Its silence says nothing: it is known by its launcher alone, and that could not be asked.
    pub silence_is_ours: bool,
}

/// A bot that is overdue, with the reason that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdue {
    pub reason: &'static str,
}

/// Whether a bot must be given up. `serving_since` is when we could last begin to hear bots without
/// a break: silence before that was ours, so no bot is given up before a full timeout from then.
pub fn overdue(
    bot: BotClock,
    timeouts: &BotTimeouts,
    serving_since: Timestamp,
    now: Timestamp,
) -> Option<Overdue> {
    let past = |since: Timestamp, limit: Duration| now > since.max(serving_since) + limit;
    let silent_since = bot.heard_at.map_or(bot.entered_at, |heard| heard.max(bot.entered_at));
    let reason = match bot.status {
        BotStatus::Completed | BotStatus::Failed => return None,
        _ if past(bot.reserved_at, timeouts.lifetime) => "max_duration_exceeded",
        BotStatus::Reserved if past(bot.entered_at, timeouts.reserved) => "never_started",
        BotStatus::Starting if past(bot.entered_at, timeouts.starting) => "join_timeout",
        BotStatus::Active if !bot.silence_is_ours && past(silent_since, timeouts.active) => {
            "heartbeat_timeout"
        }
        BotStatus::Active if no_media(&bot, timeouts, past) => "no_media",
        BotStatus::Stopping if past(bot.entered_at, timeouts.stopping) => "stop_timeout",
        _ => return None,
    };
    Some(Overdue { reason })
}

fn no_media(
    bot: &BotClock,
    timeouts: &BotTimeouts,
    past: impl Fn(Timestamp, Duration) -> bool,
) -> bool {
    match (bot.media_at, timeouts.media) {
        (Some(at), Some(limit)) => past(at.max(bot.entered_at), limit),
        _ => false,
    }
}

impl BotClock {
    /// The times of these rows. `runtime_answered` says whether the launcher could be asked.
    pub fn of(record: &BotRecord, runtime_answered: bool) -> Self {
        let bot = &record.bot;
        BotClock {
            status: record.status,
            reserved_at: bot.reserved_at,
            entered_at: bot.entered_at,
            heard_at: if bot.beats { bot.heartbeat_at } else { bot.seen_at },
            media_at: bot.media_at,
            silence_is_ours: !bot.beats && !runtime_answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::EPOCH + Duration::from_secs(secs)
    }

    fn bot(status: BotStatus, entered: u64, heard: Option<u64>) -> BotClock {
        BotClock {
            status,
            reserved_at: at(0),
            entered_at: at(entered),
            heard_at: heard.map(at),
            media_at: None,
            silence_is_ours: false,
        }
    }

    #[test]
    fn each_state_has_its_patience() {
        use BotStatus::{Active, Completed, Reserved, Starting, Stopping};
        let cases = [
            (bot(Reserved, 0, None), 300, None),
            (bot(Reserved, 0, None), 301, Some("never_started")),
            (bot(Starting, 100, None), 700, None),
            (bot(Starting, 100, None), 701, Some("join_timeout")),
            (bot(Starting, 100, Some(690)), 701, Some("join_timeout")),
            (bot(Active, 200, None), 321, Some("heartbeat_timeout")),
            (bot(Active, 200, Some(300)), 420, None),
            (bot(Active, 200, Some(300)), 421, Some("heartbeat_timeout")),
            (bot(Stopping, 500, Some(500)), 621, Some("stop_timeout")),
            (bot(Active, 200, Some(86_400)), 86_401, Some("max_duration_exceeded")),
            (bot(Completed, 0, None), 1_000_000, None),
        ];
        for (bot, now, expected) in cases {
            let found = overdue(bot, &BotTimeouts::default(), at(0), at(now));
            assert_eq!(found.map(|overdue| overdue.reason), expected, "{bot:?} at {now}");
        }
    }

    #[test]
    fn a_bot_whose_media_stands_still_is_given_up() {
        let timeouts = BotTimeouts::default();
        let bot = BotClock { media_at: Some(at(300)), ..bot(BotStatus::Active, 200, Some(540)) };
        assert_eq!(overdue(bot, &timeouts, at(0), at(540)), None);
        assert_eq!(overdue(bot, &timeouts, at(0), at(541)).unwrap().reason, "no_media");
        let unwatched = BotTimeouts { media: None, ..timeouts };
        assert_eq!(overdue(bot, &unwatched, at(0), at(541)), None);
    }

    #[test]
    fn a_bot_that_only_its_launcher_knows_is_not_given_up_while_that_is_away() {
        let silent = bot(BotStatus::Active, 200, None);
        let timeouts = BotTimeouts::default();
        assert!(overdue(silent, &timeouts, at(0), at(1000)).is_some());
        let unknown = BotClock { silence_is_ours: true, ..silent };
        assert_eq!(overdue(unknown, &timeouts, at(0), at(1000)), None);
        assert!(overdue(unknown, &timeouts, at(0), at(90_000)).is_some(), "but not for ever");
    }

    #[test]
    fn our_own_outage_is_not_held_against_a_bot() {
        let bot = bot(BotStatus::Active, 200, Some(300));
        let timeouts = BotTimeouts::default();
        assert_eq!(overdue(bot, &timeouts, at(1000), at(1120)), None);
        assert!(overdue(bot, &timeouts, at(1000), at(1121)).is_some());
    }
}

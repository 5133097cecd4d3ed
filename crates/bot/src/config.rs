//! What a bot is told at its start: the JSON in `BOT_CONFIG`.
//!
//! The keys are those that Vexa's bots are started with, and one object of our own, `roundsman`,
//! with the way back. Keys that are not known are ignored: they are for other bots.

use std::time::Duration;

use serde::Deserialize;

use crate::environment::Environment;

/// Where the instructions are.
pub const BOT_CONFIG: &str = "BOT_CONFIG";

const HEARTBEAT_SECS_MAX: u64 = 600;
const LEAVE_SECS_MAX: u64 = 600;

/// The instructions of one bot for one attempt at one meeting.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BotConfig {
    #[serde(rename = "meeting_id")]
    pub meeting_id: i64,
    /// Names this attempt; the session of everything the bot transcribes.
    pub connection_id: String,
    #[serde(default)]
    pub platform: String,
    pub meeting_url: Option<String>,
    #[serde(default = "default_bot_name")]
    pub bot_name: String,
    pub native_meeting_id: Option<String>,
    /// Signs what the bot tells of the meeting. Without it nothing is told.
    pub token: Option<Secret>,
    pub language: Option<String>,
    pub task: Option<String>,
    /// Without it, wishes are heard in the answers to heartbeats alone.
    pub redis_url: Option<Secret>,
    #[serde(default)]
    pub automatic_leave: AutomaticLeave,
    pub roundsman: CallbackConfig,
}

/// When a bot leaves by itself, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutomaticLeave {
    /// Not admitted for so long.
    pub waiting_room_timeout: u64,
    /// Admitted, and nobody else ever came.
    pub no_one_joined_timeout: u64,
    /// Everybody else has left.
    pub everyone_left_timeout: u64,
}

/// The way back to the server.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallbackConfig {
    pub callback_url: String,
    /// Good for this meeting and this attempt alone.
    pub callback_token: Secret,
    #[serde(default = "default_heartbeat_secs")]
    pub heartbeat_secs: u64,
    /// How long leaving may take before the server helps with a signal.
    #[serde(default = "default_leave_secs")]
    pub leave_secs: u64,
}

/// A value that no log shows.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// Why a bot cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{BOT_CONFIG} is not set: it holds the bot's instructions as JSON")]
    Missing,
    #[error("{BOT_CONFIG} cannot be used: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("{BOT_CONFIG} cannot be used: {name} must be {expected}")]
    Invalid { name: &'static str, expected: &'static str },
}

impl BotConfig {
    pub fn from_environment(environment: &Environment) -> Result<Self, ConfigError> {
        Self::from_json(environment.get(BOT_CONFIG).ok_or(ConfigError::Missing)?)
    }

    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: BotConfig = serde_json::from_str(text)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let url = &self.roundsman.callback_url;
        let rules = [
            (!self.connection_id.is_empty(), "connectionId", "not empty"),
            (
                url.starts_with("http://") || url.starts_with("https://"),
                "roundsman.callbackUrl",
                "a URL that begins with http:// or https://",
            ),
            (
                !self.roundsman.callback_token.expose().is_empty(),
                "roundsman.callbackToken",
                "not empty",
            ),
            (
                (1..=HEARTBEAT_SECS_MAX).contains(&self.roundsman.heartbeat_secs),
                "roundsman.heartbeatSecs",
                "from 1 to 600",
            ),
            (self.roundsman.leave_secs <= LEAVE_SECS_MAX, "roundsman.leaveSecs", "at most 600"),
        ];
        let broken = rules.into_iter().find(|(holds, ..)| !holds);
        broken.map_or(Ok(()), |(_, name, expected)| Err(ConfigError::Invalid { name, expected }))
    }
}

impl AutomaticLeave {
    pub fn waiting_room(&self) -> Duration {
        Duration::from_millis(self.waiting_room_timeout)
    }

    pub fn no_one_joined(&self) -> Duration {
        Duration::from_millis(self.no_one_joined_timeout)
    }

    pub fn everyone_left(&self) -> Duration {
        Duration::from_millis(self.everyone_left_timeout)
    }
}

impl Default for AutomaticLeave {
    fn default() -> Self {
        AutomaticLeave {
            waiting_room_timeout: 300_000,
            no_one_joined_timeout: 120_000,
            everyone_left_timeout: 60_000,
        }
    }
}

impl CallbackConfig {
    pub fn heartbeat_every(&self) -> Duration {
        Duration::from_secs(self.heartbeat_secs)
    }

    pub fn leave_limit(&self) -> Duration {
        Duration::from_secs(self.leave_secs)
    }
}

impl Secret {
    /// The value, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn default_bot_name() -> String {
    "Roundsman".to_owned()
}

fn default_heartbeat_secs() -> u64 {
    30
}

fn default_leave_secs() -> u64 {
    30
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn full() -> Value {
        json!({
            "meeting_id": 7, "platform": "google_meet", "meetingUrl": null, "botName": "Ann's bot",
            "token": "jwt", "nativeMeetingId": "abc-defg-hij", "connectionId": "c-1",
            "language": "en", "redisUrl": "redis://:hunter2@127.0.0.1/", "container_name": "x",
            "automaticLeave": {"waitingRoomTimeout": 5},
            "roundsman": {"callbackUrl": "http://127.0.0.1:8080", "callbackToken": "rmb_canary"},
        })
    }

    fn without(path: &str) -> Value {
        let mut config = full();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = config.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(key);
        config
    }

    #[test]
    fn what_is_not_said_has_a_default_and_what_is_not_known_is_ignored() {
        let config = BotConfig::from_json(&full().to_string()).unwrap();
        assert_eq!((config.meeting_id, config.connection_id.as_str()), (7, "c-1"));
        assert_eq!(config.meeting_url, None);
        assert_eq!(config.task, None);
        assert_eq!(config.automatic_leave.waiting_room(), Duration::from_millis(5));
        assert_eq!(config.automatic_leave.everyone_left(), Duration::from_mins(1));
        assert_eq!(config.roundsman.heartbeat_every(), Duration::from_secs(30));
        assert_eq!(config.roundsman.leave_limit(), Duration::from_secs(30));
    }

    #[test]
    fn what_must_be_there_is_named_when_it_is_not() {
        for path in ["/meeting_id", "/connectionId", "/roundsman", "/roundsman/callbackToken"] {
            let error = BotConfig::from_json(&without(path).to_string()).unwrap_err().to_string();
            let name = path.rsplit('/').next().unwrap();
            assert!(error.contains("BOT_CONFIG") && error.contains(name), "{path}: {error}");
        }
        let absent = BotConfig::from_environment(&Environment::default()).unwrap_err();
        assert!(matches!(absent, ConfigError::Missing));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for (pointer, value) in [
            ("/connectionId", json!("")),
            ("/roundsman/callbackUrl", json!("ftp://x")),
            ("/roundsman/callbackToken", json!("")),
        ] {
            let mut config = full();
            *config.pointer_mut(pointer).unwrap() = value;
            assert!(BotConfig::from_json(&config.to_string()).is_err(), "{pointer}");
        }
        for secs in [0, 601] {
            let mut config = full();
            config["roundsman"]["heartbeatSecs"] = json!(secs);
            assert!(BotConfig::from_json(&config.to_string()).is_err(), "{secs}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", BotConfig::from_json(&full().to_string()).unwrap());
        assert!(!shown.contains("canary") && !shown.contains("hunter2"), "{shown}");
    }
}

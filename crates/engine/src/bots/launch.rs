//! What a bot is started with: the words of Vexa, so that its bots run unchanged, and our own.
//!
//! Invariant: the same rows and options always give the same, so that a launch that is repeated
//! after a crash hands out what the bot that perhaps runs already was given.

use std::time::Duration;

use roundsman_core::bots::{
    BotRecord, CallbackKey, ConnectionId, MeetingGrant, MeetingTokens, WorkloadId, meeting_url,
};
use roundsman_core::ports::LaunchSpec;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How long a meeting's token outlives the longest meeting: transcripts may arrive late.
const TOKEN_OUTLIVES: Duration = Duration::from_secs(3600);

/// What all bots are told. Its `Debug` shows no secrets.
#[derive(Clone)]
pub struct LaunchOptions {
    /// Keeps apart the servers that share a runtime.
    pub installation: String,
    /// Where bots reach this server, without a path.
    pub callback_url: String,
    pub redis_url: Option<String>,
    pub whisper_live_url: Option<String>,
    pub log_level: String,
    /// How often a bot says that it lives.
    pub heartbeat: Duration,
    /// How long leaving may take before the server helps with a signal.
    pub leave: Duration,
    /// The longest a bot may live.
    pub lifetime: Duration,
    pub waiting_room_timeout_ms: u64,
    pub no_one_joined_timeout_ms: u64,
    pub everyone_left_timeout_ms: u64,
    pub meeting_tokens: MeetingTokens,
    pub callback_key: CallbackKey,
    /// Further variables; those that are named here and set by us are ours.
    pub extra_env: Vec<(String, String)>,
}

/// What to run for the current attempt of a bot.
pub fn launch_spec(record: &BotRecord, options: &LaunchOptions) -> LaunchSpec {
    let meeting = &record.meeting;
    let mut env = vec![
        ("BOT_CONFIG".to_owned(), bot_config(record, options).to_string()),
        ("LOG_LEVEL".to_owned(), options.log_level.clone()),
    ];
    env.extend(options.whisper_live_url.clone().map(|url| ("WHISPER_LIVE_URL".to_owned(), url)));
    for (name, value) in &options.extra_env {
        if !env.iter().any(|(ours, _)| ours == name) {
            env.push((name.clone(), value.clone()));
        }
    }
    LaunchSpec {
        workload: record.workload(),
        user_id: meeting.user_id,
        platform: meeting.platform.clone(),
        native_meeting_id: meeting.native_id.clone().unwrap_or_default(),
        connection_id: record.bot.connection_id.as_str().to_owned(),
        env,
    }
}

/// The JSON in `BOT_CONFIG`. Vexa's bots refuse keys that are null, so there are none.
fn bot_config(record: &BotRecord, options: &LaunchOptions) -> Value {
    let (meeting, bot) = (&record.meeting, &record.bot);
    let workload = record.workload();
    let token = options.callback_key.token(workload, &bot.connection_id);
    let url = options.callback_url.trim_end_matches('/');
    let wish = &bot.wish;
    let mut config = json!({
        "meeting_id": meeting.id,
        "platform": meeting.platform,
        "meetingUrl": meeting_url(meeting, Some(bot)),
        "botName": wish.bot_name.clone().unwrap_or_else(|| default_name(&bot.connection_id)),
        "token": meeting_token(record, options),
        "nativeMeetingId": meeting.native_id,
        "connectionId": bot.connection_id,
        "language": bot.config.language,
        "task": bot.config.task,
        "redisUrl": options.redis_url,
        "container_name": workload.name(&options.installation),
        "automaticLeave": {
            "waitingRoomTimeout":
                wish.waiting_room_timeout_ms.unwrap_or(options.waiting_room_timeout_ms),
            "noOneJoinedTimeout":
                wish.no_one_joined_timeout_ms.unwrap_or(options.no_one_joined_timeout_ms),
            "everyoneLeftTimeout":
                wish.everyone_left_timeout_ms.unwrap_or(options.everyone_left_timeout_ms),
        },
        // Stock bots can send no header: the token travels in the address.
        "botManagerCallbackUrl": format!("{url}/bots/internal/callback/{token}/exited"),
        "roundsman": {
            "callbackUrl": url,
            "callbackToken": token,
            "heartbeatSecs": whole_secs(options.heartbeat),
            "leaveSecs": whole_secs(options.leave),
        },
    });
    if let Value::Object(members) = &mut config {
        members.retain(|_, value| !value.is_null());
    }
    config
}

/// Issued with the reservation and not with the launch, so that every launch has the same.
fn meeting_token(record: &BotRecord, options: &LaunchOptions) -> String {
    let (meeting, bot) = (&record.meeting, &record.bot);
    let grant = MeetingGrant {
        meeting_id: meeting.id,
        user_id: meeting.user_id,
        platform: meeting.platform.clone(),
        native_meeting_id: meeting.native_id.clone().unwrap_or_default(),
    };
    let until = bot.reserved_at + options.lifetime + TOKEN_OUTLIVES;
    let jti = token_name(record.workload(), &bot.connection_id);
    options.meeting_tokens.sign(&grant, bot.reserved_at, until, &jti)
}

/// Names the one token of one attempt, in the form of a UUID.
fn token_name(workload: WorkloadId, connection: &ConnectionId) -> String {
    let text = digest(&format!("{}\0{}", connection.as_str(), workload.attempt));
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..32])
}

fn default_name(connection: &ConnectionId) -> String {
    format!("VexaBot-{}", &digest(connection.as_str())[..6])
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// Bots count in whole seconds, and in at least one.
fn whole_secs(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX).max(1)
}

impl std::fmt::Debug for LaunchOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaunchOptions")
            .field("installation", &self.installation)
            .field("callback_url", &self.callback_url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use roundsman_core::Timestamp;
    use roundsman_core::bots::{BotWish, MeetingId, NewBot, Platform};
    use roundsman_core::users::UserId;

    use super::*;

    fn options() -> LaunchOptions {
        LaunchOptions {
            installation: "a1b2".to_owned(),
            callback_url: "http://server:8080/".to_owned(),
            redis_url: Some("redis://redis:6379/0".to_owned()),
            whisper_live_url: Some("ws://whisper:9090".to_owned()),
            log_level: "info".to_owned(),
            heartbeat: Duration::from_secs(30),
            leave: Duration::from_millis(29_500),
            lifetime: Duration::from_secs(24 * 3600),
            waiting_room_timeout_ms: 300_000,
            no_one_joined_timeout_ms: 120_000,
            everyone_left_timeout_ms: 60_000,
            meeting_tokens: MeetingTokens::new(b"0123456789abcdef0123456789abcdef"),
            callback_key: CallbackKey::new(b"fedcba9876543210fedcba9876543210"),
            extra_env: vec![
                ("TZ".to_owned(), "UTC".to_owned()),
                ("BOT_CONFIG".to_owned(), "not this one".to_owned()),
            ],
        }
    }

    fn record(wish: BotWish) -> BotRecord {
        let bot = NewBot {
            user_id: UserId::new(3),
            platform: Platform::Teams,
            native_id: "1234567890".to_owned(),
            connection_id: ConnectionId::from_stored("c-1".to_owned()),
            language: None,
            task: Some("transcribe".to_owned()),
            wish,
        };
        bot.record(MeetingId::new(7), Timestamp::from_micros(1_767_225_600_000_000))
    }

    fn config(spec: &LaunchSpec) -> Value {
        serde_json::from_str(&spec.env[0].1).unwrap()
    }

    /// The whole of what a bot gets, so that no change to it goes unseen.
    #[test]
    fn a_bot_is_told_what_vexas_bots_are_told_and_the_way_back() {
        let wish = BotWish {
            passcode: Some("abcd1234".to_owned()),
            no_one_joined_timeout_ms: Some(5000),
            ..BotWish::default()
        };
        let spec = launch_spec(&record(wish), &options());
        let names: Vec<&str> = spec.env.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["BOT_CONFIG", "LOG_LEVEL", "WHISPER_LIVE_URL", "TZ"]);
        assert_eq!((spec.workload.attempt, spec.platform.as_str()), (1, "teams"));
        assert_eq!((&*spec.native_meeting_id, &*spec.connection_id), ("1234567890", "c-1"));

        let token = options()
            .callback_key
            .token(spec.workload, &ConnectionId::from_stored("c-1".to_owned()));
        let mut told = config(&spec);
        let meeting_token = told["token"].take();
        let expected = json!({
            "meeting_id": 7,
            "platform": "teams",
            "meetingUrl": "https://teams.live.com/meet/1234567890?p=abcd1234",
            "botName": "VexaBot-a6f7ef",
            "token": null,
            "nativeMeetingId": "1234567890",
            "connectionId": "c-1",
            "task": "transcribe",
            "redisUrl": "redis://redis:6379/0",
            "container_name": "roundsman-a1b2-bot-7-1",
            "automaticLeave": {
                "waitingRoomTimeout": 300_000,
                "noOneJoinedTimeout": 5000,
                "everyoneLeftTimeout": 60_000,
            },
            "botManagerCallbackUrl":
                format!("http://server:8080/bots/internal/callback/{token}/exited"),
            "roundsman": {
                "callbackUrl": "http://server:8080",
                "callbackToken": token,
                "heartbeatSecs": 30,
                "leaveSecs": 30,
            },
        });
        assert_eq!(told, expected);

        let start = record(BotWish::default()).bot.reserved_at;
        let tokens = options().meeting_tokens;
        let text = meeting_token.as_str().unwrap();
        let day = Duration::from_secs(24 * 3600);
        let grant = tokens.verify(text, start + day).expect("it lives as long as the meeting may");
        assert_eq!((grant.meeting_id, grant.user_id), (MeetingId::new(7), UserId::new(3)));
        assert!(tokens.verify(text, start + day * 2).is_err());
    }

    #[test]
    fn a_repeated_launch_is_the_same_and_another_attempt_is_not() {
        let first = record(BotWish::default());
        assert_eq!(launch_spec(&first, &options()), launch_spec(&first, &options()));
        let mut second = first.clone();
        second.bot.attempt = 2;
        let (first, second) = (launch_spec(&first, &options()), launch_spec(&second, &options()));
        for key in ["token", "container_name", "botManagerCallbackUrl"] {
            assert_ne!(config(&first)[key], config(&second)[key], "{key}");
        }
        assert_eq!(config(&first)["botName"], config(&second)["botName"]);
    }
}

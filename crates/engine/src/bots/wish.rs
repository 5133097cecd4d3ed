//! What may be asked of a new bot.

use roundsman_core::bots::{
    BotWish, ConnectionId, MeetingAddress, MeetingId, NewBot, Platform, check_language, check_task,
};
use roundsman_core::ports::StoreError;
use roundsman_core::users::UserId;

use crate::FieldError;

const BOT_NAME_CHARS_MAX: usize = 100;
const MEETING_URL_BYTES_MAX: usize = 2048;
/// No bot waits for anything longer than this; a day, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 24 * 3600 * 1000;

/// A bot as asked for.
#[derive(Debug, Clone, Default)]
pub struct StartWish {
    pub platform: String,
    pub native_meeting_id: String,
    pub bot_name: Option<String>,
    pub language: Option<String>,
    pub task: Option<String>,
    pub passcode: Option<String>,
    /// In place of the address made from platform and id.
    pub meeting_url: Option<String>,
    pub waiting_room_timeout_ms: Option<u64>,
    pub no_one_joined_timeout_ms: Option<u64>,
    pub everyone_left_timeout_ms: Option<u64>,
}

/// Why no bot was reserved; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the request is not valid")]
    Invalid(Vec<FieldError>),
    #[error("no such user")]
    NoSuchUser,
    #[error("{live} of at most {max} bots are live")]
    LimitReached { live: u32, max: i32 },
    #[error("meeting {meeting} has a live bot already")]
    AlreadyLive { meeting: MeetingId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StartWish {
    /// The bot to be reserved, or everything that is wrong with the wish.
    pub(super) fn check(
        self,
        user_id: UserId,
        connection_id: ConnectionId,
    ) -> Result<NewBot, Vec<FieldError>> {
        let mut problems = Vec::new();
        // An empty text is how forms say that nothing was chosen.
        let passcode = filled(self.passcode);
        let address = check_address(
            &self.platform,
            &self.native_meeting_id,
            passcode.as_deref(),
            &mut problems,
        );
        let bot_name = filled(self.bot_name);
        let meeting_url = filled(self.meeting_url);
        let (language, task) = (filled(self.language), filled(self.task));
        problems.extend(check_bot_name(bot_name.as_deref()));
        problems.extend(check_url(meeting_url.as_deref()));
        problems.extend(check_config(language.as_deref(), task.as_deref()));
        for (field, timeout) in [
            ("waiting_room_timeout_ms", self.waiting_room_timeout_ms),
            ("no_one_joined_timeout_ms", self.no_one_joined_timeout_ms),
            ("everyone_left_timeout_ms", self.everyone_left_timeout_ms),
        ] {
            if timeout.is_some_and(|ms| ms > TIMEOUT_MS_MAX) {
                let reason = format!("must be at most {TIMEOUT_MS_MAX} milliseconds");
                problems.push(FieldError::new(field, reason));
            }
        }
        let Some(address) = address.filter(|_| problems.is_empty()) else {
            return Err(problems);
        };
        let wish = BotWish {
            bot_name,
            passcode: address.passcode,
            meeting_url,
            waiting_room_timeout_ms: self.waiting_room_timeout_ms,
            no_one_joined_timeout_ms: self.no_one_joined_timeout_ms,
            everyone_left_timeout_ms: self.everyone_left_timeout_ms,
        };
        let MeetingAddress { platform, native_id, .. } = address;
        Ok(NewBot { user_id, platform, native_id, connection_id, language, task, wish })
    }
}

/// What is wrong with a language and a task, if anything.
pub(super) fn check_config(language: Option<&str>, task: Option<&str>) -> Vec<FieldError> {
    let language = language.and_then(|code| check_language(code).err());
    let task = task.and_then(|task| check_task(task).err());
    let mut problems = Vec::new();
    problems.extend(language.map(|problem| FieldError::new("language", problem.to_string())));
    problems.extend(task.map(|problem| FieldError::new("task", problem.to_string())));
    problems
}

/// The id is looked at first and alone, so that a problem is told for the field that has it.
fn check_address(
    platform: &str,
    native_id: &str,
    passcode: Option<&str>,
    problems: &mut Vec<FieldError>,
) -> Option<MeetingAddress> {
    let platform = match Platform::parse_attended(platform) {
        Ok(platform) => platform,
        Err(problem) => {
            problems.push(FieldError::new("platform", problem.to_string()));
            return None;
        }
    };
    if let Err(problem) = MeetingAddress::new(platform, native_id, None) {
        problems.push(FieldError::new("native_meeting_id", problem.to_string()));
        return None;
    }
    let address = MeetingAddress::new(platform, native_id, passcode);
    address.map_err(|problem| problems.push(FieldError::new("passcode", problem.to_string()))).ok()
}

fn check_bot_name(name: Option<&str>) -> Option<FieldError> {
    let name = name?;
    let fits = name.chars().count() <= BOT_NAME_CHARS_MAX && !name.chars().any(char::is_control);
    let reason =
        format!("must be at most {BOT_NAME_CHARS_MAX} characters without control characters");
    (!fits).then(|| FieldError::new("bot_name", reason))
}

fn check_url(url: Option<&str>) -> Option<FieldError> {
    let url = url?;
    let plain = !url.chars().any(|c| c.is_control() || c.is_whitespace());
    let web = url.starts_with("https://") || url.starts_with("http://");
    let fits = plain && web && url.len() <= MEETING_URL_BYTES_MAX;
    let reason =
        format!("must be an http:// or https:// address of at most {MEETING_URL_BYTES_MAX} bytes");
    (!fits).then(|| FieldError::new("meeting_url", reason))
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> StartWish {
        StartWish {
            platform: "google_meet".to_owned(),
            native_meeting_id: "abc-defg-hij".to_owned(),
            ..StartWish::default()
        }
    }

    fn fields(wish: StartWish) -> Vec<String> {
        let connection = ConnectionId::from_stored("c".to_owned());
        match wish.check(UserId::new(1), connection) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.into_iter().map(|problem| problem.field).collect(),
        }
    }

    #[test]
    fn a_wish_is_told_everything_that_is_wrong_with_it() {
        let some = |text: &str| Some(text.to_owned());
        let good = [
            wish(),
            StartWish { native_meeting_id: " abc-defg-hij ".to_owned(), ..wish() },
            StartWish { bot_name: some("Ada's notes ✓"), language: some("en"), ..wish() },
            StartWish { passcode: some(""), bot_name: some(" "), ..wish() },
        ];
        for wish in good {
            assert_eq!(fields(wish), [""; 0]);
        }
        let bad = [
            (StartWish { platform: "webex".to_owned(), ..wish() }, "platform"),
            (StartWish { native_meeting_id: "ABC".to_owned(), ..wish() }, "native_meeting_id"),
            (
                StartWish { native_meeting_id: "abc-defg-hi\0".into(), ..wish() },
                "native_meeting_id",
            ),
            (StartWish { passcode: some("12345678"), ..wish() }, "passcode"),
            (StartWish { bot_name: some(&"x".repeat(101)), ..wish() }, "bot_name"),
            (StartWish { bot_name: some("a\0b"), ..wish() }, "bot_name"),
            (StartWish { language: some("klingon"), ..wish() }, "language"),
            (StartWish { task: some("sing"), ..wish() }, "task"),
            (StartWish { meeting_url: some("file:///etc/passwd"), ..wish() }, "meeting_url"),
            (StartWish { meeting_url: some("https://a b"), ..wish() }, "meeting_url"),
            (
                StartWish { everyone_left_timeout_ms: Some(u64::MAX), ..wish() },
                "everyone_left_timeout_ms",
            ),
        ];
        for (wish, field) in bad {
            assert_eq!(fields(wish), [field]);
        }
        let all =
            StartWish { language: some("x"), task: some("x"), bot_name: some("\n"), ..wish() };
        assert_eq!(fields(all).len(), 2, "a name of blanks is no name");
    }
}

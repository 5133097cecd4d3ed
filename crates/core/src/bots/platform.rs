//! Where meetings take place, and how a meeting is named there.

use std::fmt;

use crate::presence::{DAILY, RoomName};

/// A meeting platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Platform {
    GoogleMeet,
    Zoom,
    Teams,
    /// Its meetings are attended by nobody's bot: it tells itself who is there, and records.
    Daily,
}

/// The text names no platform, or none that will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("platform must be one of {permitted}")]
pub struct UnknownPlatform {
    permitted: &'static str,
}

/// The text cannot name a meeting on that platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMeetingId(pub &'static str);

impl Platform {
    pub const ALL: [Platform; 4] =
        [Platform::GoogleMeet, Platform::Zoom, Platform::Teams, Platform::Daily];
    /// Those that bots can attend.
    pub const ATTENDED: [Platform; 3] = [Platform::GoogleMeet, Platform::Zoom, Platform::Teams];

    pub fn as_str(self) -> &'static str {
        match self {
            Platform::GoogleMeet => "google_meet",
            Platform::Zoom => "zoom",
            Platform::Teams => "teams",
            Platform::Daily => DAILY,
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownPlatform> {
        let unknown = UnknownPlatform { permitted: "google_meet, zoom, teams, daily" };
        Platform::ALL.into_iter().find(|platform| platform.as_str() == text).ok_or(unknown)
    }

    /// The same for a platform that bots can attend.
    pub fn parse_attended(text: &str) -> Result<Self, UnknownPlatform> {
        let unknown = UnknownPlatform { permitted: "google_meet, zoom, teams" };
        Platform::parse(text).ok().filter(|platform| platform.is_attended()).ok_or(unknown)
    }

    pub fn is_attended(self) -> bool {
        Platform::ATTENDED.contains(&self)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A meeting as its platform names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeetingAddress {
    pub platform: Platform,
    pub native_id: String,
    pub passcode: Option<String>,
}

impl MeetingAddress {
    /// Checks the id and the passcode by the platform's rules.
    pub fn new(
        platform: Platform,
        native_id: &str,
        passcode: Option<&str>,
    ) -> Result<Self, InvalidMeetingId> {
        let native_id = native_id.trim();
        if native_id.is_empty() {
            return Err(InvalidMeetingId("native_meeting_id cannot be empty"));
        }
        check_id(platform, native_id)?;
        if let Some(passcode) = passcode {
            check_passcode(platform, passcode)?;
        }
        let passcode = passcode.map(ToOwned::to_owned);
        Ok(MeetingAddress { platform, native_id: native_id.to_owned(), passcode })
    }

    /// The address a person would open. Where a room of Daily is depends on whose it is.
    pub fn url(&self) -> Option<String> {
        let id = &self.native_id;
        let url = match (self.platform, &self.passcode) {
            (Platform::GoogleMeet, _) => format!("https://meet.google.com/{id}"),
            (Platform::Zoom, None) => format!("https://zoom.us/j/{id}"),
            (Platform::Zoom, Some(code)) => format!("https://zoom.us/j/{id}?pwd={code}"),
            (Platform::Teams, None) => format!("https://teams.live.com/meet/{id}"),
            (Platform::Teams, Some(code)) => format!("https://teams.live.com/meet/{id}?p={code}"),
            (Platform::Daily, _) => return None,
        };
        Some(url)
    }
}

fn check_id(platform: Platform, id: &str) -> Result<(), InvalidMeetingId> {
    let digits = |range: std::ops::RangeInclusive<usize>| {
        range.contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit())
    };
    match platform {
        Platform::GoogleMeet if !is_google_meet_id(id) => Err(InvalidMeetingId(
            "Google Meet ID must be in format 'abc-defg-hij' (lowercase letters only)",
        )),
        Platform::Zoom if !digits(9..=11) => {
            Err(InvalidMeetingId("Zoom meeting ID must be 9-11 digits only (not a full URL)"))
        }
        Platform::Teams if !digits(10..=15) => {
            Err(InvalidMeetingId("Teams meeting ID must be 10-15 digits only (not a full URL)"))
        }
        Platform::Daily if RoomName::new(id).is_err() => {
            Err(InvalidMeetingId("Daily room name must be 1-128 letters, digits, '-' and '_'"))
        }
        Platform::GoogleMeet | Platform::Zoom | Platform::Teams | Platform::Daily => Ok(()),
    }
}

/// Three letters, four, three, joined by hyphens.
fn is_google_meet_id(id: &str) -> bool {
    let lengths: Vec<usize> = id.split('-').map(str::len).collect();
    lengths == [3, 4, 3] && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase())
}

fn check_passcode(platform: Platform, passcode: &str) -> Result<(), InvalidMeetingId> {
    let plain = passcode.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match platform {
        Platform::GoogleMeet => {
            Err(InvalidMeetingId("Passcode is not supported for Google Meet meetings"))
        }
        Platform::Teams if !plain || !(8..=20).contains(&passcode.len()) => {
            Err(InvalidMeetingId("Teams passcode must be 8-20 alphanumeric characters"))
        }
        // Zoom's links carry longer codes with a few more characters.
        Platform::Zoom
            if passcode.is_empty()
                || passcode.len() > 64
                || !passcode.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) =>
        {
            Err(InvalidMeetingId("Zoom passcode must be 1-64 letters, digits, '.', '_' or '-'"))
        }
        Platform::Daily => Err(InvalidMeetingId("Passcode is not supported for Daily rooms")),
        Platform::Zoom | Platform::Teams => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_rules_of_their_platform() {
        use Platform::{Daily, GoogleMeet, Teams, Zoom};
        let good = [
            (GoogleMeet, "abc-defg-hij", None, "https://meet.google.com/abc-defg-hij"),
            (Zoom, "123456789", None, "https://zoom.us/j/123456789"),
            (Zoom, "12345678901", Some("a.B1"), "https://zoom.us/j/12345678901?pwd=a.B1"),
            (Teams, "1234567890", None, "https://teams.live.com/meet/1234567890"),
            (
                Teams,
                "1234567890",
                Some("abcd1234"),
                "https://teams.live.com/meet/1234567890?p=abcd1234",
            ),
        ];
        for (platform, id, passcode, url) in good {
            let address = MeetingAddress::new(platform, id, passcode).unwrap();
            assert_eq!(address.url().as_deref(), Some(url));
        }
        assert_eq!(MeetingAddress::new(Daily, "my-room_7", None).unwrap().url(), None);
        let bad = [
            (GoogleMeet, "", None),
            (GoogleMeet, "ABC-defg-hij", None),
            (GoogleMeet, "abc-def-hij", None),
            (GoogleMeet, "abc-defg-hij", Some("x")),
            (Zoom, "12345678", None),
            (Zoom, "https://zoom.us/j/123456789", None),
            (Zoom, "123456789", Some("a&b")),
            (Teams, "123", None),
            (Teams, "1234567890", Some("short")),
            (Teams, "1234567890", Some("with space")),
            (Daily, "my room", None),
            (Daily, "https://x.daily.co/room", None),
            (Daily, "room", Some("abcd1234")),
        ];
        for (platform, id, passcode) in bad {
            assert!(MeetingAddress::new(platform, id, passcode).is_err(), "{platform} {id}");
        }
    }

    #[test]
    fn rooms_of_daily_are_named_but_not_attended() {
        for platform in Platform::ALL {
            assert_eq!(Platform::parse(platform.as_str()), Ok(platform));
            assert_eq!(Platform::parse_attended(platform.as_str()).ok(), {
                platform.is_attended().then_some(platform)
            });
        }
        assert!(!Platform::Daily.is_attended());
        let refused = Platform::parse_attended("daily").unwrap_err();
        assert_eq!(refused.to_string(), "platform must be one of google_meet, zoom, teams");
        assert!(Platform::parse("webex").unwrap_err().to_string().ends_with(", daily"));
    }
}

//! Where meetings take place, and how a meeting is named there.

use std::fmt;

/// A meeting platform that bots can attend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Platform {
    GoogleMeet,
    Zoom,
    Teams,
}

/// The text names no platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("platform must be one of google_meet, zoom, teams")]
pub struct UnknownPlatform;

/// The text cannot name a meeting on that platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMeetingId(pub &'static str);

impl Platform {
    pub const ALL: [Platform; 3] = [Platform::GoogleMeet, Platform::Zoom, Platform::Teams];

    pub fn as_str(self) -> &'static str {
        match self {
            Platform::GoogleMeet => "google_meet",
            Platform::Zoom => "zoom",
            Platform::Teams => "teams",
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownPlatform> {
        Platform::ALL.into_iter().find(|platform| platform.as_str() == text).ok_or(UnknownPlatform)
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

    /// The address a person would open.
    pub fn url(&self) -> String {
        let id = &self.native_id;
        match (self.platform, &self.passcode) {
            (Platform::GoogleMeet, _) => format!("https://meet.google.com/{id}"),
            (Platform::Zoom, None) => format!("https://zoom.us/j/{id}"),
            (Platform::Zoom, Some(code)) => format!("https://zoom.us/j/{id}?pwd={code}"),
            (Platform::Teams, None) => format!("https://teams.live.com/meet/{id}"),
            (Platform::Teams, Some(code)) => format!("https://teams.live.com/meet/{id}?p={code}"),
        }
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
        Platform::GoogleMeet | Platform::Zoom | Platform::Teams => Ok(()),
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
        Platform::Zoom | Platform::Teams => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_rules_of_their_platform() {
        use Platform::{GoogleMeet, Teams, Zoom};
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
            assert_eq!(MeetingAddress::new(platform, id, passcode).unwrap().url(), url);
        }
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
        ];
        for (platform, id, passcode) in bad {
            assert!(MeetingAddress::new(platform, id, passcode).is_err(), "{platform} {id}");
        }
    }
}

//! Tracks of a recording, and what their names tell.

use serde::{Deserialize, Serialize};

/// What a track carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrackMedium {
    Audio,
    Video,
}

/// A file of a recording at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    pub medium: TrackMedium,
    /// Its name in the provider's bucket.
    pub key: String,
    pub bytes: Option<u64>,
}

impl Track {
    /// Whether somebody can be heard in it: what a screen plays is nobody's speech.
    pub fn is_speech(&self) -> bool {
        let is_camera = parse_track_name(&self.key).is_none_or(|name| name.source == "cam-audio");
        self.medium == TrackMedium::Audio && is_camera
    }
}

/// What the name of a raw track tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackName {
    pub recording_started_ms: i64,
    /// The session of the person, as presence knows it.
    pub session_id: String,
    /// `cam-audio`, `cam-video`, `screen-audio`.
    pub source: String,
    pub track_started_ms: i64,
}

impl TrackName {
    /// How much later than the recording it begins.
    pub fn offset_ms(&self) -> i64 {
        (self.track_started_ms - self.recording_started_ms).max(0)
    }
}

/// Reads `…/<recording ms>-<session>-<source>-<track ms>`, with or without an extension.
pub fn parse_track_name(key: &str) -> Option<TrackName> {
    const SESSION_CHARS: usize = 36;
    const STAMP_DIGITS_MIN: usize = 13;
    let name = key.rsplit('/').next()?;
    let name = name.split('.').next()?;
    let stamp = |text: &str| {
        let whole = text.len() >= STAMP_DIGITS_MIN && text.bytes().all(|b| b.is_ascii_digit());
        whole.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (first, rest) = name.split_once('-')?;
    let (session, rest) = rest.split_at_checked(SESSION_CHARS)?;
    if !session.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return None;
    }
    let (source, last) = rest.strip_prefix('-')?.rsplit_once('-')?;
    Some(TrackName {
        recording_started_ms: stamp(first)?,
        session_id: session.to_owned(),
        source: source.to_owned(),
        track_started_ms: stamp(last)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f10";

    #[test]
    fn names_tell_who_and_when() {
        let key = format!("domain/room/1760988935484-{ID}-cam-audio-1760988935922");
        let name = parse_track_name(&key).unwrap();
        assert_eq!((name.session_id.as_str(), name.source.as_str()), (ID, "cam-audio"));
        assert_eq!(name.offset_ms(), 438);
        assert_eq!(parse_track_name(&format!("{key}.webm")), Some(name));
        for odd in [
            "room/1760988935484",
            &format!("1760988935484-{ID}-cam-audio-1"),
            &format!("1-{ID}-cam-audio-1760988935922"),
            &format!("1760988935484-{}-cam-audio-1760988935922", "x".repeat(36)),
            "",
            "ä-ö",
        ] {
            assert_eq!(parse_track_name(odd), None, "{odd}");
        }
    }

    #[test]
    fn only_what_people_say_is_speech() {
        let track = |medium, source: &str| Track {
            medium,
            key: format!("r/1760988935484-{ID}-{source}-1760988935922"),
            bytes: None,
        };
        assert!(track(TrackMedium::Audio, "cam-audio").is_speech());
        assert!(!track(TrackMedium::Audio, "screen-audio").is_speech());
        assert!(!track(TrackMedium::Video, "cam-video").is_speech());
        let odd = Track { medium: TrackMedium::Audio, key: "a.webm".to_owned(), bytes: None };
        assert!(odd.is_speech(), "a name that says nothing excludes nothing");
    }
}

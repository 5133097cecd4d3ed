//! What was heard in a recording, as one transcript.

use super::RecordingId;

/// Something that was heard in one file, by its own time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeardSegment {
    pub start_ms: i64,
    pub end_ms: i64,
    pub text: String,
}

/// What was heard in one file of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeardTrack {
    /// Whose voice it is, if the file has only one.
    pub speaker: Option<String>,
    /// How much later than the recording the file begins.
    pub offset_ms: i64,
    pub language: Option<String>,
    pub segments: Vec<HeardSegment>,
}

/// Something that was said in a recording, by the recording's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenSegment {
    pub start_ms: i64,
    pub end_ms: i64,
    pub text: String,
    pub speaker: Option<String>,
    pub language: Option<String>,
}

/// The files of a recording as one conversation, in the order in which things were said.
pub fn merge_tracks(tracks: Vec<HeardTrack>) -> Vec<SpokenSegment> {
    let mut spoken: Vec<SpokenSegment> = Vec::new();
    for track in tracks {
        let HeardTrack { speaker, offset_ms, language, segments } = track;
        for heard in segments {
            let text: String = heard.text.trim().chars().filter(|c| *c != '\0').collect();
            if text.is_empty() {
                continue;
            }
            let start_ms = heard.start_ms.max(0).saturating_add(offset_ms.max(0));
            let end_ms = heard.end_ms.max(0).saturating_add(offset_ms.max(0)).max(start_ms);
            let (speaker, language) = (speaker.clone(), language.clone());
            spoken.push(SpokenSegment { start_ms, end_ms, text, speaker, language });
        }
    }
    // Whoever began first, and of two the one who was shorter: an interjection.
    spoken.sort_by(|a, b| {
        (a.start_ms, a.end_ms, &a.speaker).cmp(&(b.start_ms, b.end_ms, &b.speaker))
    });
    spoken
}

/// The session under which a recording's segments are kept.
pub fn session_uid(recording: &RecordingId) -> String {
    format!("recording:{}", recording.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(start_ms: i64, end_ms: i64, text: &str) -> HeardSegment {
        HeardSegment { start_ms, end_ms, text: text.to_owned() }
    }

    #[test]
    fn tracks_become_one_conversation() {
        let ada = HeardTrack {
            speaker: Some("Ada".to_owned()),
            offset_ms: 0,
            language: None,
            segments: vec![
                heard(0, 2000, "hello"),
                heard(5000, 6000, " bye "),
                heard(7000, 7100, " "),
            ],
        };
        let bob = HeardTrack {
            speaker: Some("Bob".to_owned()),
            offset_ms: 1500,
            language: Some("en".to_owned()),
            segments: vec![heard(1000, 2000, "hi"), heard(-5, -9, "um\0")],
        };
        let merged = merge_tracks(vec![ada, bob]);
        let told: Vec<_> = merged
            .iter()
            .map(|s| (s.start_ms, s.end_ms, s.speaker.as_deref().unwrap(), s.text.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (0, 2000, "Ada", "hello"),
                (1500, 1500, "Bob", "um"),
                (2500, 3500, "Bob", "hi"),
                (5000, 6000, "Ada", "bye"),
            ]
        );
    }
}

//! How a meeting page is recognised: CSS selectors, so that another page needs another file and no
//! other code.

use std::path::Path;

use serde::{Deserialize, Serialize};

const FILE_BYTES_MAX: usize = 64 * 1024;

/// The selectors of one kind of meeting page. The stages are told by what can be seen; where
/// several can, the later in a meeting's life wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageProfile {
    pub name_input: Option<String>,
    pub join_button: String,
    pub leave_button: Option<String>,
    pub lobby: Option<String>,
    pub admitted: String,
    pub rejected: Option<String>,
    pub removed: Option<String>,
    pub ended: Option<String>,
    pub left: Option<String>,
    /// One element for each participant.
    pub participant: Option<String>,
    /// The attribute with a participant's id; without it the name is the id.
    pub participant_id: Option<String>,
    /// Within the participant's element; without it the whole text is the name.
    pub participant_name: Option<String>,
    /// Matches the bot's own element.
    pub participant_self: Option<String>,
    /// Matches the element of whoever speaks.
    pub participant_speaking: Option<String>,
    /// One element for each caption, the oldest first.
    pub caption: Option<String>,
    /// The attribute with a caption's id; without it the element is the id.
    pub caption_id: Option<String>,
    pub caption_speaker: Option<String>,
    pub caption_text: Option<String>,
    /// Matches a caption that will not change; without it, every one but the last.
    pub caption_completed: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("{path} cannot be read: {source}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("{path} is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge { path: String },
    #[error("{path} is not a page profile: {source}")]
    Malformed { path: String, source: serde_json::Error },
}

impl PageProfile {
    /// The meeting page of our own testkit.
    pub fn built_in() -> Self {
        serde_json::from_str(include_str!("profile.json")).expect("a test parses this file")
    }

    pub fn from_file(path: &Path) -> Result<Self, ProfileError> {
        let shown = path.display().to_string();
        let text = match std::fs::read(path) {
            Ok(text) if text.len() > FILE_BYTES_MAX => {
                return Err(ProfileError::TooLarge { path: shown });
            }
            Ok(text) => text,
            Err(source) => return Err(ProfileError::Unreadable { path: shown, source }),
        };
        serde_json::from_slice(&text)
            .map_err(|source| ProfileError::Malformed { path: shown, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profile_names_everything() {
        let profile = serde_json::to_value(PageProfile::built_in()).unwrap();
        assert!(profile.as_object().unwrap().values().all(serde_json::Value::is_string));
    }

    #[test]
    fn a_file_replaces_it_and_a_mistake_in_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            PageProfile::from_file(&path).map_err(|error| error.to_string())
        };
        let small = read(r##"{"joinButton": "#go", "admitted": "#in"}"##).unwrap();
        assert_eq!((small.join_button.as_str(), small.lobby), ("#go", None));
        for (text, named) in
            [(r#"{"joinButton": "x"}"#, "admitted"), (r#"{"jionButton": "x"}"#, "jionButton")]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains(named) && error.contains("profile.json"), "{error}");
        }
        assert!(PageProfile::from_file(&folder.path().join("none")).is_err());
    }
}

//! What can be transcribed, and how.

/// The languages that the transcriber knows, by their codes.
pub const LANGUAGES: [&str; 100] = [
    "af", "am", "ar", "as", "az", "ba", "be", "bg", "bn", "bo", "br", "bs", "ca", "cs", "cy", "da",
    "de", "el", "en", "es", "et", "eu", "fa", "fi", "fo", "fr", "gl", "gu", "ha", "haw", "he",
    "hi", "hr", "ht", "hu", "hy", "id", "is", "it", "ja", "jw", "ka", "kk", "km", "kn", "ko", "la",
    "lb", "ln", "lo", "lt", "lv", "mg", "mi", "mk", "ml", "mn", "mr", "ms", "mt", "my", "ne", "nl",
    "nn", "no", "oc", "pa", "pl", "ps", "pt", "ro", "ru", "sa", "sd", "si", "sk", "sl", "sn", "so",
    "sq", "sr", "su", "sv", "sw", "ta", "te", "tg", "th", "tk", "tl", "tr", "tt", "uk", "ur", "uz",
    "vi", "yi", "yo", "zh", "yue",
];

/// What is done with what was said.
pub const TASKS: [&str; 2] = ["transcribe", "translate"];

/// The text is no language or no task; says what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidChoice(String);

pub fn check_language(code: &str) -> Result<(), InvalidChoice> {
    check("language code", code, &LANGUAGES)
}

pub fn check_task(task: &str) -> Result<(), InvalidChoice> {
    check("task", task, &TASKS)
}

fn check(what: &str, text: &str, known: &[&str]) -> Result<(), InvalidChoice> {
    if known.contains(&text) {
        return Ok(());
    }
    let quoted: Vec<String> = known.iter().map(|word| format!("'{word}'")).collect();
    let message = format!("Invalid {what} '{text}'. Must be one of: [{}]", quoted.join(", "));
    Err(InvalidChoice(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_accepted_and_the_rest_is_told_what_is() {
        assert!(check_language("en").is_ok() && check_language("yue").is_ok());
        let error = check_task("sing").unwrap_err().to_string();
        assert_eq!(error, "Invalid task 'sing'. Must be one of: ['transcribe', 'translate']");
        assert!(check_language("xx").unwrap_err().to_string().starts_with("Invalid language code"));
    }
}

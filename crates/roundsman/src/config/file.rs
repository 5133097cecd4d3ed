//! Reads what is configured in files: the configuration file itself and files that hold one secret.
//!
//! Invariant: no message quotes a line of a file, because that line may hold a secret.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toml::Value;
use toml::de::DeTable;

/// A configuration or a secret is at most this large; anything larger is some other file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One assignment in a configuration file.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// Absent if the assignment stands before the first section.
    pub(super) section: Option<String>,
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) line: usize,
}

/// The assignments in a configuration file, or the problem with the file as a whole.
pub(super) fn read_entries(path: &Path) -> Result<Vec<Entry>, String> {
    let text = read_text(path)
        .map_err(|error| format!("the configuration file {}: {error}", path.display()))?;
    parse_entries(&text).map_err(|(line, what)| {
        format!("the configuration file {}, line {line}: {what}", path.display())
    })
}

/// A secret kept in a file; one line end at its end belongs to the file, not to the secret.
pub(super) fn read_secret(path: &Path) -> io::Result<String> {
    let text = read_text(path)?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    Ok(secret.strip_suffix('\r').unwrap_or(secret).to_owned())
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Parses twice: once for the values and once for the places they stand at.
fn parse_entries(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let line_at = |offset: usize| text[..offset].matches('\n').count() + 1;
    let failure = |error: toml::de::Error| {
        (line_at(error.span().map_or(0, |span| span.start)), error.message().to_owned())
    };
    let values: toml::Table = toml::from_str(text).map_err(failure)?;
    let places = DeTable::parse(text).map_err(failure)?;

    let mut entries = Vec::new();
    for (name, place) in places.get_ref() {
        let value = &values[name.get_ref().as_ref()];
        match (place.get_ref().as_table(), value) {
            (Some(keys), Value::Table(section)) => entries.extend(keys.keys().map(|key| Entry {
                section: Some(name.get_ref().to_string()),
                key: key.get_ref().to_string(),
                value: section[key.get_ref().as_ref()].clone(),
                line: line_at(key.span().start),
            })),
            _ => entries.push(Entry {
                section: None,
                key: name.get_ref().to_string(),
                value: value.clone(),
                line: line_at(name.span().start),
            }),
        }
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_with_their_lines() {
        let text = "stray = 1\n\n[jobs]\nslots = 3 # few\npoll_secs = 0.5\n[log]\nlevel = 'warn'\n";
        let entries: Vec<_> = parse_entries(text)
            .unwrap()
            .into_iter()
            .map(|entry| (entry.line, entry.section, entry.key, entry.value))
            .collect();
        let jobs = Some("jobs".to_owned());
        let expected = [
            (1, None, "stray".to_owned(), Value::from(1)),
            (4, jobs.clone(), "slots".to_owned(), Value::from(3)),
            (5, jobs, "poll_secs".to_owned(), Value::from(0.5)),
            (7, Some("log".to_owned()), "level".to_owned(), Value::from("warn")),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn a_syntax_error_names_the_line_and_quotes_nothing() {
        let (line, what) = parse_entries("[admin]\ntoken = canary\n").unwrap_err();
        assert_eq!(line, 2);
        assert!(!what.contains("canary"), "{what}");
    }

    #[test]
    fn a_secret_loses_one_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for (written, read) in [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n")] {
            std::fs::write(&path, written).unwrap();
            assert_eq!(read_secret(&path).unwrap(), read, "{written:?}");
        }
    }

    #[test]
    fn a_file_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        std::fs::write(&path, vec![b'#'; 1 + (1 << 20)]).unwrap();
        assert!(read_entries(&path).unwrap_err().contains("larger than"));
    }
}

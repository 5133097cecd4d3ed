//! Advice for names that no setting has: what somebody probably meant to write.

use super::env::PREFIX;
use super::file::Entry;
use super::schema::{Section, schema};

/// What to do about an assignment in a file.
pub(super) fn entry(entry: &Entry) -> String {
    match entry.section.as_deref() {
        None => outside_of_sections(&entry.key),
        Some(name) => match schema().section(name) {
            None => unknown_section(name),
            Some(section) => unknown_key(section, &entry.key),
        },
    }
}

/// What to do about an environment variable. What all names begin with is left out of the
/// comparison: it would make any two of them look alike.
pub(super) fn variable<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let short = |name: &'a str| name.strip_prefix(PREFIX);
    let known: Vec<&str> = known.into_iter().filter_map(short).collect();
    let given = name.strip_prefix(PREFIX).unwrap_or(name);
    // ROUNDSMAN_LISTEN for ROUNDSMAN_SERVER_LISTEN: the section is easily forgotten.
    let without_section = || known.iter().find(|known| known.ends_with(&format!("_{given}")));
    match nearest(given, known.iter().copied()).or_else(|| without_section().copied()) {
        Some(similar) => format!("no such setting; did you mean {PREFIX}{similar}?"),
        None => "no such setting; remove it, or see `roundsman config --default`".to_owned(),
    }
}

fn outside_of_sections(name: &str) -> String {
    if schema().section(name).is_some() {
        return format!("expected a section; write [{name}] on a line of its own");
    }
    match schema().keys().find(|key| key.name == name) {
        Some(key) => format!("settings stand in sections; put it under [{}]", key.section),
        None => "settings stand in sections; see `roundsman config --default`".to_owned(),
    }
}

fn unknown_section(name: &str) -> String {
    let names: Vec<&str> = schema().sections.iter().map(|section| section.name.as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(similar) => format!("no such section; did you mean [{similar}]?"),
        None => format!("no such section; there are [{}]", names.join("], [")),
    }
}

fn unknown_key(section: &Section, name: &str) -> String {
    // The right name in the wrong section is a likelier slip than a wrong name.
    if let Some(key) = schema().keys().find(|key| key.name == name) {
        return format!("no such setting; did you mean {}?", key.path);
    }
    match nearest(name, section.keys.iter().map(|key| key.name.as_str())) {
        Some(similar) => format!("no such setting; did you mean {}.{similar}?", section.name),
        None => "no such setting; remove it, or see `roundsman config --default`".to_owned(),
    }
}

/// The candidate that differs least from `given`, if it differs little enough to be a slip.
fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips_max = given.chars().count() / 3 + 1;
    candidates
        .into_iter()
        .map(|candidate| (distance(given, candidate), candidate))
        .min_by_key(|(slips, _)| *slips)
        .filter(|(slips, _)| *slips <= slips_max)
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, remove or replace to get from one text to the other (Levenshtein), computed
/// row by row so that only one row is kept.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_slips() {
        let cases = [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3)];
        for (from, to, slips) in cases {
            assert_eq!(distance(from, to), slips, "{from} {to}");
            assert_eq!(distance(to, from), slips, "{to} {from}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["poll_secs", "slots", "sweep_secs"];
        let cases = [
            ("pol_secs", Some("poll_secs")),
            ("slot", Some("slots")),
            ("sweep_seconds", Some("sweep_secs")),
            ("colour", None),
        ];
        for (given, suggested) in cases {
            assert_eq!(nearest(given, known), suggested, "{given}");
        }
        assert_eq!(nearest("x", []), None);
    }
}

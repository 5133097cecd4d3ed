//! Writes the reference of all settings from the comments in the default file.

use std::fmt::Write;

use super::layers::Settings;
use super::problem::Problems;
use super::reader::Reader;
use super::schema::{Exposure, Section, schema};
use super::sections::Config;

/// The command that writes the reference; the test that finds it stale names it.
const COMMAND: &str = "cargo run -p roundsman -- docs config > docs/configuration.md";

const INTRODUCTION: &str = "\
A setting is taken from the first place that has it: a **flag** (`--data`, `--listen`, `--roles`),
the **environment**, the **file**, the **default**. The file is the one that `--config` or
`ROUNDSMAN_CONFIG` names, otherwise `roundsman.toml` in the working directory if it exists.
`roundsman config` shows the effective values and where each came from;
`roundsman config --default` prints a commented file to start from.

- Names that no setting has are errors, in the file and among the variables that begin with
  `ROUNDSMAN_`.
- In a variable, the items of a list are separated by commas; an empty variable counts as absent.
- Where *or a file* is noted, the variable with `_FILE` at its end names a file that holds the
  value; one line end at its end is dropped.
- Secrets are shown as `<set>`, and URLs without their password.
- Durations may have a fraction. Relative paths start at the working directory.
- Outside generators stand in sections `[executors.NAME]` beside these; see [executors.md](executors.md).
- Everything is checked at start, also between settings; all problems are reported at once.
";

/// `docs/configuration.md`.
pub(crate) fn reference() -> String {
    let defaults = Settings::defaults();
    let mut reader = Reader::new(&defaults, Problems::default());
    Config::read(&mut reader, None);
    let allowed = reader.into_allowed();

    let mut text = format!("# Configuration\n\n<!-- Generated: {COMMAND} -->\n\n{INTRODUCTION}");
    for section in &schema().sections {
        let Section { name, doc, .. } = section;
        let header = "| key | environment | default | allowed | meaning |\n|---|---|---|---|---|";
        write!(text, "\n## [{name}]\n\n{doc}\n\n{header}\n").expect(CANNOT_FAIL);
        for key in &section.keys {
            let file = if key.exposure == Exposure::Open { "" } else { " or a file" };
            let allowed = allowed.get(key.path.as_str()).map_or("", String::as_str);
            let cells = [
                format!("`{}`", key.name),
                format!("`{}`{file}", key.env),
                format!("`{}`", key.default),
                allowed.to_owned(),
                key.doc.clone(),
            ];
            let row = cells.map(|cell| cell.replace('|', "\\|")).join(" | ");
            writeln!(text, "| {row} |").expect(CANNOT_FAIL);
        }
    }
    text
}

const CANNOT_FAIL: &str = "writing to a string cannot fail";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_committed_reference_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == reference(), "docs/configuration.md is stale; run: {COMMAND}");
    }

    #[test]
    fn every_setting_is_read() {
        let defaults = Settings::defaults();
        let mut reader = Reader::new(&defaults, Problems::default());
        Config::read(&mut reader, None);
        let allowed = reader.into_allowed();
        for key in schema().keys() {
            assert!(allowed.contains_key(key.path.as_str()), "{} has no effect", key.path);
        }
    }
}

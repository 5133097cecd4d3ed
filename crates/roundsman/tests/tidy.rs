//! Rules about the tree that no compiler checks. Each test reads the files and names every place
//! that breaks its rule; the rules themselves are tested at the end.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use roundsman_core::failpoint;

const FILE_LINES_MAX: usize = 600;

/// Folders of the working tree that are not part of the project.
const NOT_OURS: [&str; 4] = [".git", "target", "node_modules", "roundsman-data"];

/// This file holds the patterns it looks for.
const THIS_FILE: &str = "crates/roundsman/tests/tidy.rs";

/// Real time passes only here: the engine's wake module, the bus's reconnection, a launcher's wait
/// for a process to be gone, the own clocks of the bot and of the worker library, and the testkit's
/// bounded polling and delays.
const MAY_SLEEP: [&str; 6] = [
    "crates/bot/src/time.rs",
    "crates/bus/src/backoff.rs",
    "crates/engine/src/wake.rs",
    "crates/providers/src/wait.rs",
    "crates/testkit/src/real_time.rs",
    "crates/worker/src/time.rs",
];

/// SQL is the store's. Tests and benchmarks look into the database from outside; the bus over
/// PostgreSQL calls `pg_notify`.
const MAY_SPEAK_SQL: [&str; 4] =
    ["bench/", "crates/bus/src/postgres.rs", "crates/store/", "crates/testkit/"];

/// The systems. Each has a module of this name in every layer it has reached, so that whoever knows
/// the system knows the file.
const SYSTEMS: [&str; 11] = [
    "alarms",
    "audits",
    "bots",
    "jobs",
    "presence",
    "recordings",
    "rooms",
    "tasks",
    "transcripts",
    "users",
    "webhooks",
];
/// From the inside out, which is how a system is built: the layers further in come first.
const LAYERS: [&str; 4] = ["core", "store", "engine", "web"];
/// What `core` holds beside the systems.
const CORE_ONLY: [&str; 7] = ["daily", "effects", "failpoint", "lib", "limits", "ports", "time"];

/// Which crates a crate may use. Tests may also use the testkit and, through it, anything.
const MAY_DEPEND_ON: [(&str, &[&str]); 12] = [
    ("core", &[]),
    ("audit", &["core"]),
    ("bot", &[]),
    ("worker", &[]),
    ("documents", &["core"]),
    ("engine", &["core", "audit", "documents"]),
    ("store", &["core"]),
    ("bus", &["core"]),
    ("providers", &["core"]),
    ("web", &["core", "documents", "engine"]),
    ("testkit", &["core"]),
    (
        "roundsman",
        &[
            "core",
            "audit",
            "bot",
            "documents",
            "engine",
            "store",
            "bus",
            "providers",
            "web",
            "testkit",
        ],
    ),
];

#[test]
fn sql_stays_in_the_store() {
    check_lines(rust_files(), |path, line| !may_speak_sql(path) && speaks_sql(line));
}

#[test]
fn nothing_sleeps_outside_the_modules_made_for_it() {
    check_lines(rust_files(), |path, line| {
        !MAY_SLEEP.contains(&path) && !is_comment(line) && line.contains("sleep(")
    });
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    check_lines(rust_files(), |_, line| line.contains("#[allow(") || line.contains("#![allow("));
}

#[test]
fn nothing_is_left_for_later() {
    check_lines(text_files(), |_, line| is_left_for_later(line));
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    check_lines(text_files(), |_, line| names_a_machine(line));
}

#[test]
fn files_are_short_enough_to_read() {
    let long = |file: &File| {
        let lines = file.text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", file.path))
    };
    report(&rust_files().iter().filter_map(long).collect::<Vec<_>>());
}

#[test]
fn migrations_have_the_same_names_for_both_databases() {
    let names = |dialect: &str| names_in(&format!("crates/store/migrations/{dialect}"));
    let sqlite = names("sqlite");
    assert!(!sqlite.is_empty(), "no migrations found");
    assert_eq!(sqlite, names("postgres"));
}

#[test]
fn every_setting_is_documented() {
    let defaults = read("crates/roundsman/src/config/default.toml");
    // The example of a generator is explained where generators are.
    let reference = read("docs/configuration.md") + &read("docs/executors.md");
    let keys = setting_names(&defaults);
    assert!(!keys.is_empty(), "no settings found");
    let missing = |key: &String| (!reference.contains(&format!("`{key}`"))).then(|| key.clone());
    report(&keys.iter().filter_map(missing).collect::<Vec<_>>());
}

/// A place that is not listed is one that no test can kill a server at.
#[test]
fn every_failpoint_is_listed_and_every_listed_one_exists() {
    let mut marked = BTreeSet::new();
    for File { path, text } in rust_files() {
        if path.starts_with("crates/") && path.contains("/src/") {
            marked.extend(failpoints(&path, &text));
        }
    }
    assert!(marked.len() > 100, "hardly any were found: {marked:?}");
    let listed: BTreeSet<String> = failpoint::ALL.iter().map(|name| (*name).to_owned()).collect();
    let missing = marked.difference(&listed).map(|name| format!("{name} is not in failpoint::ALL"));
    let gone = listed.difference(&marked).map(|name| format!("{name} is marked nowhere"));
    report(&missing.chain(gone).collect::<Vec<_>>());
    let in_order = failpoint::ALL.is_sorted();
    assert!(in_order, "failpoint::ALL is not in the order of the alphabet");
}

#[test]
fn dependencies_point_one_way() {
    let mut problems = Vec::new();
    for name in names_in("crates") {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let Some((_, allowed)) = MAY_DEPEND_ON.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("crates/{name} has no entry in {THIS_FILE}"));
            continue;
        };
        let forbidden = dependencies(&manifest).into_iter().filter(|used| !allowed.contains(used));
        problems.extend(forbidden.map(|used| format!("crates/{name} must not use crates/{used}")));
    }
    report(&problems);
}

#[test]
fn a_system_has_the_same_name_in_every_layer() {
    let mut problems = Vec::new();
    let in_core = module_names(&names_in("crates/core/src"));
    for module in &in_core {
        if !SYSTEMS.contains(&module.as_str()) && !CORE_ONLY.contains(&module.as_str()) {
            problems
                .push(format!("core::{module} is neither a system nor shared: see {THIS_FILE}"));
        }
    }
    for system in SYSTEMS {
        let present = LAYERS.map(|layer| modules_of(layer).contains(system));
        let outermost = present.iter().rposition(|present| *present).unwrap_or(0);
        for (layer, _) in LAYERS.iter().zip(present).take(outermost).filter(|(_, there)| !there) {
            problems.push(format!("crates/{layer} has no module {system}, a layer around it has"));
        }
    }
    report(&problems);
}

// The rules.

fn may_speak_sql(path: &str) -> bool {
    path.contains("/tests/") || MAY_SPEAK_SQL.iter().any(|allowed| path.starts_with(allowed))
}

fn speaks_sql(line: &str) -> bool {
    let sets = |rest: &str| rest.contains(" SET ");
    !is_comment(line)
        && (["SELECT ", "INSERT INTO ", "DELETE FROM "].iter().any(|words| line.contains(words))
            || line.split_once("UPDATE ").is_some_and(|(_, rest)| sets(rest)))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn is_left_for_later(line: &str) -> bool {
    ["TODO", "FIXME", "XXX"].iter().any(|mark| contains_word(line, mark))
        || ["todo!(", "unimplemented!("].iter().any(|call| line.contains(call))
}

/// The checkout's own path is one that this machine is sure to have.
fn names_a_machine(line: &str) -> bool {
    ["/root/", "/home/", &CHECKOUT].iter().any(|path| line.contains(path))
}

static CHECKOUT: LazyLock<String> =
    LazyLock::new(|| root().canonicalize().expect("the checkout exists").display().to_string());

/// Whether `word` stands in `line` with nothing like a word right before or after it.
fn contains_word(line: &str, word: &str) -> bool {
    let is_part = |edge: Option<char>| edge.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(start, _)| {
        !is_part(line[..start].chars().next_back())
            && !is_part(line[start + word.len()..].chars().next())
    })
}

/// The keys of a TOML file; a key that is commented out is a setting without a default.
fn setting_names(defaults: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (name, _) = line.trim_start_matches('#').trim_start().split_once(" = ")?;
        let is_key = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_key.then(|| name.to_owned())
    };
    defaults.lines().filter_map(name).collect()
}

/// The crates of this workspace that a manifest names outside its `dev-dependencies`.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut in_dependencies = false;
    let mut used = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            in_dependencies = section.contains("dependencies") && !section.contains("dev-");
        }
        let entry = line.trim_start_matches("[dependencies.");
        if let Some(name) = entry.strip_prefix("roundsman-").filter(|_| in_dependencies) {
            let end = name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len());
            used.push(&name[..end]);
        }
    }
    used
}

/// `jobs` for both `jobs.rs` and `jobs/`.
fn module_names(file_names: &BTreeSet<String>) -> BTreeSet<String> {
    file_names.iter().map(|name| name.trim_end_matches(".rs").to_owned()).collect()
}

/// The places that a file marks: by itself, or, in the store, by the name it gives to a change.
fn failpoints(path: &str, text: &str) -> Vec<String> {
    const MARKS: [&str; 3] = ["failpoint::hit(", ".change(", ".write("];
    let in_store = path.starts_with("crates/store/src/");
    let marks = MARKS.iter().take(if in_store { MARKS.len() } else { 1 });
    let name_after = |rest: &str| {
        let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        name.contains('.').then(|| name.to_owned())
    };
    let found = |mark: &&str| {
        let ends = text.match_indices(*mark).map(|(at, _)| &text[at + mark.len()..]);
        ends.filter_map(name_after).collect::<Vec<_>>()
    };
    marks.flat_map(found).collect()
}

// The tree.

struct File {
    /// Relative to the root of the project, with forward slashes.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn names_in(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(folder));
    let entries = entries.unwrap_or_else(|error| panic!("{folder}: {error}"));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Every module of a layer, at whatever depth: the adapters of a port are nested in their dialect.
fn modules_of(layer: &str) -> BTreeSet<String> {
    let prefix = format!("crates/{layer}/src/");
    let files = rust_files();
    let inside = files.iter().filter_map(|file| file.path.strip_prefix(&prefix));
    let parts = inside.flat_map(|path| path.split('/')).map(str::to_owned);
    module_names(&parts.collect())
}

fn rust_files() -> Vec<File> {
    let mut files = text_files();
    files.retain(|file| Path::new(&file.path).extension().is_some_and(|end| end == "rs"));
    files
}

/// Every file of the project that is text, but for this one.
fn text_files() -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                folders.extend((!NOT_OURS.contains(&name.as_str())).then_some(path));
            } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                files.push(File { path: path.to_str().unwrap().to_owned(), text });
            }
        }
    }
    files.retain(|file| file.path != THIS_FILE);
    assert!(files.len() > 20, "this is not the project's folder");
    files
}

fn check_lines(files: Vec<File>, breaks_rule: impl Fn(&str, &str) -> bool) {
    let mut problems = Vec::new();
    for File { path, text } in files {
        let lines = text.lines().zip(1..).filter(|(line, _)| breaks_rule(&path, line));
        problems.extend(lines.map(|(line, number)| format!("{path}:{number}: {}", line.trim())));
    }
    report(&problems);
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

// The rules can fail.

#[test]
fn failpoints_are_recognised() {
    let text = "failpoint::hit(\"a.b\"); self.change(\n    \"store.c\", x); file.write(\"d.toml\")";
    assert_eq!(failpoints("crates/engine/src/x.rs", text), ["a.b"]);
    assert_eq!(failpoints("crates/store/src/x.rs", text), ["a.b", "store.c", "d.toml"]);
    assert!(failpoints("crates/store/src/x.rs", "failpoint::hit(place); .write(\"x\")").is_empty());
}

#[test]
fn sql_is_recognised() {
    let sql = ["\"SELECT 1\"", "INSERT INTO t", "DELETE FROM t", "UPDATE t SET a = 1"];
    assert!(sql.iter().all(|line| speaks_sql(line)));
    let other = ["// SELECT 1", "FOR UPDATE SKIP LOCKED", "let select = 1;", "UPDATE_LIMIT"];
    assert!(!other.iter().any(|line| speaks_sql(line)));
    assert!(may_speak_sql("crates/store/src/jobs.rs"));
    assert!(may_speak_sql("crates/web/tests/it/jobs.rs"));
    assert!(!may_speak_sql("crates/web/src/jobs.rs"));
}

#[test]
fn marks_and_machines_are_recognised() {
    let marked = ["// TODO later", "XXX", "todo!()", "(FIXME: x)"];
    assert!(marked.iter().all(|line| is_left_for_later(line)));
    let clean = ["mktemp run.XXXXXX", "the TODOS_MAX limit", "nothing to do"];
    assert!(!clean.iter().any(|line| is_left_for_later(line)));
    assert!(names_a_machine(&format!("cd {}/crates", *CHECKOUT)));
    assert!(names_a_machine("cd /home/somebody") && !names_a_machine("cd /usr/lib/postgresql"));
}

#[test]
fn settings_and_dependencies_are_read() {
    let defaults = "# A comment = not a key\n[jobs]\npoll_secs = 5\n# url = \"\"\n";
    assert_eq!(setting_names(defaults), BTreeSet::from(["poll_secs", "url"].map(str::to_owned)));

    let manifest = "[dependencies]\nroundsman-core.workspace = true\nserde = \"1\"\n\
        [dependencies.roundsman-bus]\npath = \"\"\n[dev-dependencies]\nroundsman-web = \"1\"\n";
    assert_eq!(dependencies(manifest), ["core", "bus"]);

    let by_name: BTreeMap<_, _> = MAY_DEPEND_ON.into_iter().collect();
    assert_eq!(by_name.len(), MAY_DEPEND_ON.len(), "a crate is listed twice");
}

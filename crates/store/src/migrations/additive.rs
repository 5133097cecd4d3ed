//! G-11: while one node after the other is replaced, nodes of the release before work on the newer
//! schema. So a migration adds, and changes nothing that is there: what they write must go in, and what
//! they read must be where it was.
//!
//! The statements are read as text and must be of a kind that is known to be harmless. A migration
//! that needs more than that needs a release in between, or a reason, written down here.

use std::collections::BTreeSet;

use super::MIGRATIONS;

/// The first release had the steps before this one.
const ROLLED_SINCE: u32 = 8;

/// Statements that do more than add, by their first words, and why nodes of the release before go on
/// all the same.
const HARMLESS: [(u32, &str, &str); 4] = [
    (15, "update recurring_audits set schedule = '0 0 * * 1'", SAME_DAY),
    (15, "update roundsman.recurring_audits set schedule = '0 0 * * 1'", SAME_DAY),
    (
        15,
        "alter table roundsman.audit_records drop constraint audit_records_pkey , add primary",
        SAME_KEY,
    ),
    (
        15,
        "alter table roundsman.recurring_audits drop constraint recurring_audits_pkey , add primary",
        SAME_KEY,
    ),
];
const SAME_DAY: &str = "they read the five fields as they read the word";
const SAME_KEY: &str = "the key is there again when the transaction ends";

#[test]
fn every_migration_since_the_first_release_only_adds() {
    let since = MIGRATIONS.iter().filter(|migration| migration.number >= ROLLED_SINCE);
    let mut looked_at = 0;
    for migration in since {
        for (dialect, text) in [("sqlite", migration.sqlite), ("postgres", migration.postgres)] {
            let mut statements = statements(text);
            assert!(!statements.is_empty(), "{} of {dialect} is empty", migration.name);
            looked_at += statements.len();
            statements.retain(|words| !is_known_to_be_harmless(migration.number, words));
            if let Err(reason) = only_adds(&statements) {
                panic!("{} of {dialect} breaks nodes that still run: {reason}", migration.name);
            }
        }
    }
    assert!(looked_at > 20, "only {looked_at} statements were found");
}

fn is_known_to_be_harmless(number: u32, words: &[String]) -> bool {
    let text = words.join(" ");
    HARMLESS.iter().any(|(of, begin, _)| *of == number && text.starts_with(begin))
}

#[test]
fn what_is_called_harmless_is_there_and_has_a_reason() {
    for (number, begin, reason) in HARMLESS {
        let migration = MIGRATIONS.iter().find(|migration| migration.number == number);
        let migration = migration.unwrap_or_else(|| panic!("there is no migration {number}"));
        let all = [statements(migration.sqlite), statements(migration.postgres)].concat();
        let found = all.iter().any(|words| words.join(" ").starts_with(begin));
        assert!(found && !reason.is_empty(), "{begin} is not in {}", migration.name);
    }
}

/// Looks at the statements of one migration. What it makes itself it may change as it likes.
fn only_adds(statements: &[Vec<String>]) -> Result<(), String> {
    let mut made = BTreeSet::new();
    for words in statements {
        let text: Vec<&str> = words.iter().map(String::as_str).collect();
        let refused = |reason: &str| Err(format!("{reason}: {}", text.join(" ")));
        match text.as_slice() {
            ["create", "table", name, rest @ ..] => {
                made.insert((*name).to_owned());
                if !references_only(rest, &made) {
                    return refused("old nodes delete rows that it refers to");
                }
            }
            ["create", "index", ..] if on_table(&text).is_some() => {}
            ["create", "unique", "index", ..] if is_made(on_table(&text), &made) => {}
            ["create", "unique", ..] => return refused("old nodes may write what it excludes"),
            ["alter", "table", name, ..] if made.contains(*name) => {}
            ["alter", "table", _, "add", "column", column @ ..] => {
                if let Some(reason) = refuses_old_rows(column) {
                    return refused(reason);
                }
            }
            ["insert", "into", name, ..] if made.contains(*name) => {}
            // The server refuses one that does not have the columns that were there, in their order.
            ["create", "or", "replace", "view", ..] => {}
            _ => return refused("it is of no kind that is known to be harmless"),
        }
    }
    Ok(())
}

/// Why a row without this column, which is how old nodes write it, could not be stored.
fn refuses_old_rows(column: &[&str]) -> Option<&'static str> {
    let has = |word: &str| column.contains(&word);
    if has("null") && has("not") && !has("default") {
        return Some("old nodes do not fill it");
    }
    if column.contains(&",") {
        return Some("one column in a statement, so that each is looked at");
    }
    let harmful = ["unique", "primary", "references", "check", "generated"].into_iter().any(has);
    harmful.then_some("old nodes may write what it excludes")
}

fn on_table<'a>(words: &[&'a str]) -> Option<&'a str> {
    let on = words.iter().position(|word| *word == "on")?;
    words.get(on + 1).copied()
}

fn is_made(table: Option<&str>, made: &BTreeSet<String>) -> bool {
    table.is_some_and(|table| made.contains(table))
}

fn references_only(words: &[&str], made: &BTreeSet<String>) -> bool {
    let mut pairs = words.iter().zip(words.iter().skip(1));
    pairs.all(|(word, next)| *word != "references" || made.contains(*next))
}

/// The statements of a migration, each as its words in small letters; parentheses and commas are words.
fn statements(text: &str) -> Vec<Vec<String>> {
    let without_comments: Vec<&str> =
        text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let text = without_comments.join(" ");
    // None of these migrations has a semicolon in a text or in a body; such a piece would be of no
    // kind that is known.
    let pieces = text.split(';').map(words).filter(|words| !words.is_empty());
    pieces.collect()
}

fn words(piece: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(piece.len());
    for letter in piece.chars() {
        if ['(', ')', ','].contains(&letter) {
            spaced.extend([' ', letter, ' ']);
        } else {
            spaced.extend(letter.to_lowercase());
        }
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

// The rule can fail.

#[test]
fn what_breaks_old_nodes_is_recognised() {
    let harmless = [
        "CREATE TABLE a (id INTEGER PRIMARY KEY, b TEXT UNIQUE) STRICT; -- DROP TABLE z;\n\
         CREATE UNIQUE INDEX a_b ON a (b); ALTER TABLE a ADD PRIMARY KEY (id)",
        "CREATE INDEX b_c ON b (c) WHERE c IS NOT NULL",
        "ALTER TABLE roundsman.b ADD COLUMN d text COLLATE \"C\"",
        "ALTER TABLE b ADD COLUMN d INTEGER NOT NULL DEFAULT 0",
        "CREATE TABLE a (id int); CREATE TABLE c (id int REFERENCES a ON DELETE CASCADE)",
        "CREATE OR REPLACE VIEW roundsman.v AS SELECT 1 AS a",
    ];
    for text in harmless {
        assert_eq!(only_adds(&statements(text)), Ok(()), "{text}");
    }
    let harmful = [
        "DROP TABLE b",
        "DROP INDEX b_c",
        "DROP VIEW v; CREATE VIEW v AS SELECT 1 AS a",
        "ALTER TABLE b RENAME TO c",
        "ALTER TABLE b RENAME COLUMN c TO d",
        "ALTER TABLE b DROP COLUMN c",
        "ALTER TABLE b ALTER COLUMN c TYPE bigint",
        "ALTER TABLE b ALTER c SET NOT NULL",
        "ALTER TABLE b ADD CONSTRAINT x CHECK (c > 0)",
        "ALTER TABLE b ADD COLUMN d text NOT NULL",
        "ALTER TABLE b ADD COLUMN d text, ADD COLUMN e text NOT NULL",
        "ALTER TABLE b ADD COLUMN d integer DEFAULT 0 CHECK (d >= 0)",
        "ALTER TABLE b ADD COLUMN d integer REFERENCES e",
        "CREATE UNIQUE INDEX b_c ON b (c)",
        "CREATE TABLE c (id int REFERENCES b)",
        "CREATE TRIGGER t BEFORE INSERT ON b BEGIN SELECT RAISE(ABORT, 'no'); END",
        "UPDATE b SET c = 1",
        "DELETE FROM b",
        "INSERT INTO b VALUES (1)",
    ];
    for text in harmful {
        assert!(only_adds(&statements(text)).is_err(), "{text}");
    }
}

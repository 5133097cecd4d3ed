//! What the fuzz target checks, over its seeds and a bounded number of changed ones. The long runs,
//! guided by coverage, are `scripts/fuzz audit_page`.
#![cfg(test)]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "../../../fuzz/src/audit_page.rs"]
mod audit_page;

/// Pieces that mean something to a page.
const PIECES: [&str; 18] = [
    "<",
    ">",
    "\"",
    "'",
    "&",
    "</",
    "<!--",
    "-->",
    "\n\n",
    "\0",
    "\u{202e}",
    "%",
    "é",
    "<svg>",
    "<table>",
    "<script>",
    "<template>",
    "style=\"",
];

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/audit_page");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 1, "there are no seeds");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// A seed with parts of it left out and pieces put in.
fn any_input() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<Index>(), 0_usize..30, select(PIECES.to_vec()));
    (select(seeds()), proptest::collection::vec(edit, 0..6)).prop_map(|(mut data, edits)| {
        for (at, length, piece) in edits {
            let start = at.index(data.len() + 1);
            let end = (start + length).min(data.len());
            data.splice(start..end, piece.bytes());
        }
        data
    })
}

#[test]
fn every_seed_holds() {
    for seed in seeds() {
        audit_page::check(&seed);
    }
    audit_page::check(b"");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pages_like_the_seeds_hold(input in any_input()) {
        audit_page::check(&input);
    }
}

//! What the fuzz targets check, over their seeds and a bounded number of changed seeds. The long
//! runs, guided by coverage, are `scripts/fuzz`.
#![cfg(test)]

use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "../../../fuzz/src/daily.rs"]
mod daily;
#[path = "../../../fuzz/src/ingest_message.rs"]
mod ingest_message;
#[path = "../../../fuzz/src/transcription_filter.rs"]
mod transcription_filter;

/// Pieces that mean something to one of the targets.
const PIECES: [&str; 27] = [
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    " ",
    "-",
    "0",
    "1.012",
    "9e99",
    "null",
    "NaN",
    "😀",
    "\"text\"",
    "\"start\"",
    "\"segment_id\"",
    "\"payload\"",
    "\"room\"",
    "\"id\"",
    "\"data\"",
    "\"total_count\"",
];

#[derive(Debug, Clone)]
enum Edit {
    Remove { at: Index, length: usize },
    Insert { at: Index, piece: &'static str },
    Repeat { at: Index, length: usize },
    Replace { at: Index, byte: u8 },
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 1_usize..40).prop_map(|(at, length)| Edit::Remove { at, length }),
        (at(), select(PIECES.to_vec())).prop_map(|(at, piece)| Edit::Insert { at, piece }),
        (at(), 1_usize..200).prop_map(|(at, length)| Edit::Repeat { at, length }),
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Replace { at, byte }),
    ]
}

fn edited(mut data: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits {
        let length_now = data.len();
        let place = |at: &Index| at.index(length_now + 1);
        match edit {
            Edit::Remove { at, length } => {
                let start = place(at);
                data.drain(start..(start + length).min(length_now));
            }
            Edit::Insert { at, piece } => {
                let start = place(at);
                data.splice(start..start, piece.bytes());
            }
            Edit::Repeat { at, length } => {
                let start = place(at);
                let part = data[start..(start + length).min(length_now)].to_vec();
                data.splice(start..start, part);
            }
            Edit::Replace { at, byte } => {
                if let Some(place) = data.get_mut(place(at)) {
                    *place = *byte;
                }
            }
        }
    }
    data
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 1, "{target} has no seeds");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// A seed, and what to change in it.
fn any_input(target: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    (select(seeds(target)), vec(any_edit(), 0..6)).prop_map(|(seed, edits)| edited(seed, &edits))
}

#[test]
fn every_seed_holds() {
    for seed in seeds("daily") {
        daily::check(&seed);
    }
    for seed in seeds("ingest_message") {
        ingest_message::check(&seed);
    }
    for seed in seeds("transcription_filter") {
        transcription_filter::check(&seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn events_and_answers_like_the_seeds_hold(input in any_input("daily")) {
        daily::check(&input);
    }

    #[test]
    fn messages_like_the_seeds_hold(input in any_input("ingest_message")) {
        ingest_message::check(&input);
    }

    #[test]
    fn judgements_like_the_seeds_hold(input in any_input("transcription_filter")) {
        transcription_filter::check(&input);
    }
}

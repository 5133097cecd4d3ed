//! What the fuzz target of rooms checks, over its seeds and a bounded number of changed seeds. The long
//! runs, guided by coverage, are `scripts/fuzz`.
#![cfg(test)]

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

#[path = "../../../fuzz/src/room_frame.rs"]
mod room_frame;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/room_frame");
    let files = std::fs::read_dir(folder).expect("the seeds");
    let mut seeds: Vec<Vec<u8>> =
        files.map(|file| std::fs::read(file.expect("a seed").path()).expect("a seed")).collect();
    // An update, and a document with all that it has had.
    let mut document = roundsman_documents::Document::new(7);
    let patch = serde_json::json!({"nodes": {"a": {"x": [1, "two", null]}}});
    seeds.push(document.patch(&patch).expect("a patch").expect("a change").to_vec());
    seeds.push(document.snapshot().to_vec());
    seeds.push(document.version());
    seeds.sort();
    seeds
}

#[test]
fn the_seeds_hold() {
    let seeds = seeds();
    assert!(seeds.len() > 4, "no seeds found");
    for seed in &seeds {
        room_frame::check(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_seeds_hold(
        seed in any::<Index>(),
        edits in vec((any::<Index>(), any::<u8>(), 0_usize..4), 1..6),
    ) {
        let seeds = seeds();
        let mut data = seed.get(&seeds).clone();
        for (at, byte, what) in edits {
            let place = at.index(data.len().max(1));
            match what {
                0 => data.insert(place.min(data.len()), byte),
                1 if place < data.len() => data[place] = byte,
                2 => data.truncate(place),
                _ => data.extend_from_within(..place.min(data.len())),
            }
        }
        room_frame::check(&data);
    }
}

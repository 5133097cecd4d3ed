//! The suite on SQLite as a server runs it: a file, a writer thread, readers.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, Traits, catalog};

use crate::open;

const TRAITS: Traits = Traits { exclusive: true, races: 2_000 };

fn fixture() -> Fixture {
    let (store, folder) = open::sqlite(catalog());
    Fixture::new(Arc::new(store), TRAITS, folder)
}

roundsman_store::conformance_suite!(std::future::ready(fixture()));

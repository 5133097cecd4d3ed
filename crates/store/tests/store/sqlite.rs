//! The suite on SQLite as a server runs it: a file, a writer thread, readers.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, catalog};

use crate::backdoor::SqliteDoor;
use crate::open;

fn fixture() -> Fixture {
    let (store, folder) = open::sqlite(catalog());
    let door = SqliteDoor::new(folder.path());
    Fixture::new(Arc::new(store), open::traits(true, 2_000), folder).with_backdoor(door)
}

roundsman_store::conformance_suite!(std::future::ready(fixture()));

//! The suite on the reference itself: what the adapters are compared with obeys the same cases.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, catalog};

use crate::open;
use crate::reference::{Reference, ReferenceDoor};

fn fixture() -> Fixture {
    let store = Arc::new(Reference::new(catalog()));
    let door = ReferenceDoor(Arc::clone(&store));
    // It looks through everything for anything, so that ten times as much takes a hundred times.
    Fixture::new(store, open::usual_traits(true, 2_000), ()).with_backdoor(door)
}

roundsman_store::conformance_suite!(std::future::ready(fixture()));

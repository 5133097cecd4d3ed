//! The suite on SQLite as the simulations run it: in memory, on the caller's thread.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, Traits, catalog};

use crate::open;

const TRAITS: Traits = Traits { exclusive: true, races: 2_000 };

fn fixture() -> Fixture {
    Fixture::new(Arc::new(open::sqlite_inline(catalog())), TRAITS, ())
}

roundsman_store::conformance_suite!(std::future::ready(fixture()));

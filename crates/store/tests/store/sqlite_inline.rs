//! The suite on SQLite as the simulations run it: in memory, on the caller's thread, where nobody
//! else can reach it.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, catalog};

use crate::open;

fn fixture() -> Fixture {
    Fixture::new(Arc::new(open::sqlite_inline(catalog())), open::traits(true, 2_000), ())
}

roundsman_store::conformance_suite!(std::future::ready(fixture()));

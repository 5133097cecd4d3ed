//! The suite on the reference itself: what the adapters are compared with obeys the same cases.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, Traits, catalog};

use crate::reference::Reference;

const TRAITS: Traits = Traits { exclusive: true, races: 2_000 };

fn fixture() -> Fixture {
    Fixture::new(Arc::new(Reference::new(catalog())), TRAITS, ())
}

roundsman_store::conformance_suite!(std::future::ready(fixture()));

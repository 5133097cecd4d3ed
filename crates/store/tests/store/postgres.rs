//! The suite on PostgreSQL, each case on a database of its own.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, Traits, catalog};

use crate::open;

const TRAITS: Traits = Traits { exclusive: false, races: 10_000 };

async fn fixture() -> Fixture {
    let (store, database) = open::postgres(catalog()).await;
    Fixture::new(Arc::new(store), TRAITS, database)
}

roundsman_store::conformance_suite!(fixture());

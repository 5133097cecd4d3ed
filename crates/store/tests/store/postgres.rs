//! The suite on PostgreSQL, each case on a database of its own.

use std::sync::Arc;

use roundsman_store::conformance::{Fixture, catalog};

use crate::backdoor::PostgresDoor;
use crate::open;

async fn fixture() -> Fixture {
    let (store, database) = open::postgres(catalog()).await;
    let database = Arc::new(database);
    let door = PostgresDoor(Arc::clone(&database));
    Fixture::new(Arc::new(store), open::traits(false, 10_000), database).with_backdoor(door)
}

roundsman_store::conformance_suite!(fixture());

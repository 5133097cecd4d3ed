//! `roundsman migrate`: brings the schema up to date without starting a server.

use std::sync::Arc;

use roundsman_store::SCHEMA_KNOWN;
use serde_json::json;

use crate::cli::MigrateArgs;
use crate::config::Config;
use crate::node::{Access, catalog, open_store};
use crate::output;

pub(crate) async fn run(config: Config, args: MigrateArgs) -> anyhow::Result<()> {
    let catalog = Arc::new(catalog(&config));
    // Opening migrates. A server that runs on the same file has done it already.
    let store = open_store(&config, catalog, Access::Tool).await?;
    let database = store.describe();
    store.close().await;
    let json = json!({"database": database, "schema": SCHEMA_KNOWN});
    output::tell(args.json, &json, &format!("{database}: the schema is up to date"))
}

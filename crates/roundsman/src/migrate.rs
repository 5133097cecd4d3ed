//! `roundsman migrate`: brings the schema up to date without starting a server.

use std::sync::Arc;

use crate::config::Config;
use crate::node::{Access, catalog, open_store};
use crate::output;

pub(crate) async fn run(config: Config) -> anyhow::Result<()> {
    let catalog = Arc::new(catalog(&config));
    // Opening migrates. A server that runs on the same file has done it already.
    let store = open_store(&config, catalog, Access::Tool).await?;
    output::print(&format!("{}: the schema is up to date", store.describe()))?;
    store.close().await;
    Ok(())
}

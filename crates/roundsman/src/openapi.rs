//! `roundsman openapi`: prints the description of the HTTP interface.

use crate::output;

pub(crate) fn run() -> anyhow::Result<()> {
    let document = serde_json::to_string_pretty(&roundsman_web::openapi())?;
    Ok(output::print(&document)?)
}

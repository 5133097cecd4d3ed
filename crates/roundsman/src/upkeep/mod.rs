//! What operators do from the shell: copies, putting one back, looking whether all is well.

mod backup;
mod check;
mod doctor;
mod postgres_tools;
mod restore;

use serde_json::Value;

pub(crate) use backup::run as backup;
pub(crate) use check::run as check;
pub(crate) use doctor::run as doctor;
pub(crate) use restore::run as restore;

use crate::output;

/// Prints a result for people, or for a script.
fn tell(is_json: bool, json: &Value, text: &str) -> anyhow::Result<()> {
    if is_json {
        return Ok(output::print(&serde_json::to_string_pretty(json)?)?);
    }
    Ok(output::print(text)?)
}

//! Dying on purpose: lets tests end the process at an exact place, as a crash would.
//!
//! `ROUNDSMAN_FAILPOINTS=name=3` kills the process when the place `name` is reached for the third
//! time. Without the variable nothing is installed and a place costs one load.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use roundsman_core::failpoint;

/// Hits left until each named place kills.
static ARMED: OnceLock<BTreeMap<String, AtomicU64>> = OnceLock::new();

pub(super) fn install(text: Option<&str>) -> anyhow::Result<()> {
    let Some(text) = text else { return Ok(()) };
    let mut armed = BTreeMap::new();
    for item in text.split(',') {
        let (name, count) = item.split_once('=').unwrap_or((item, "1"));
        let count: u64 = count.parse().with_context(|| format!("failpoint {item}: no count"))?;
        if !failpoint::ALL.contains(&name) {
            bail!("there is no failpoint {name}; there are {}", failpoint::ALL.join(", "));
        }
        armed.insert(name.to_owned(), AtomicU64::new(count));
    }
    tracing::warn!(failpoints = text, "this process will kill itself for a test");
    if ARMED.set(armed).is_ok() {
        failpoint::install(hit);
    }
    Ok(())
}

fn hit(name: &'static str) {
    let Some(left) = ARMED.get().and_then(|armed| armed.get(name)) else { return };
    if left.fetch_sub(1, Ordering::SeqCst) == 1 {
        // Not a panic and not an orderly exit: nothing may be flushed, closed or answered.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

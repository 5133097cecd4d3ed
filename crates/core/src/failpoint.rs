//! Named places where a test may end the process, as a crash would.
//!
//! A place is marked with [`hit`]; what happens there is decided by whoever installed a hook, and
//! without one nothing happens. Marking places is the only thing that tests ask of this code.

use std::sync::OnceLock;

static HOOK: OnceLock<fn(&'static str)> = OnceLock::new();

/// Every place there is. A test kills the server at each of them under load.
pub const ALL: &[&str] = &[];

/// Calls `hook` at every place from now on; the first one installed stays.
pub fn install(hook: fn(&'static str)) {
    // A second hook would come from a second test in one process; the first one goes on.
    let _ = HOOK.set(hook);
}

/// Execution has reached a place.
#[inline]
pub fn hit(name: &'static str) {
    if let Some(hook) = HOOK.get() {
        debug_assert!(ALL.contains(&name), "{name} is not listed in ALL");
        hook(name);
    }
}

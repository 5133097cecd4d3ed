//! The invariants, by name: a failure says which one is broken.

pub(super) const ONE_STATE: &str = "J1: an acknowledged job is in exactly one state";
pub(super) const ENDS: &str = "J1: every job ends";
pub(super) const ONE_LEASE: &str = "J2: at most one live lease per job, numbers only grow";
pub(super) const FENCE: &str =
    "J3: whoever lost the lease changes nothing, whoever holds it keeps it";
pub(super) const ONE_RESULT: &str = "J4: one result per job, by the lease that held it";
pub(super) const ATTEMPTS: &str = "J5: attempts are counted exactly";
pub(super) const ONE_PER_KEY: &str = "keys: at most one waits and one runs";
pub(super) const NO_LOST_TRIGGER: &str = "keys: a trigger is followed by a run or still waits";
pub(super) const BACKOFF: &str = "backoff: nothing runs before its time";

/// Ends the run with the rule that is broken and what was seen.
macro_rules! hold {
    ($rule:expr, $condition:expr, $($seen:tt)*) => {
        if !$condition {
            return Err(format!("{}: {}", $rule, format_args!($($seen)*)));
        }
    };
}
pub(super) use hold;

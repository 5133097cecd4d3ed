//! The rules, by name: a failure says which one is broken.

pub(super) const LOOKED_AFTER: &str =
    "L1: a room with a task that is not over has its alarm in time";
pub(super) const RESTS: &str = "L2: a room without such a task has no alarm after one round";
pub(super) const ENDS: &str = "L4: every task ends";
pub(super) const TOLD_ONCE: &str = "L5: the document is told of every end once";
pub(super) const PAID_ONCE: &str = "L7: nothing is submitted twice";
pub(super) const CONSISTENT: &str = "the database finds nothing wrong with itself";

/// Ends the run with the rule that is broken and what was seen.
macro_rules! hold {
    ($rule:expr, $condition:expr, $($seen:tt)*) => {
        if !$condition {
            return Err(format!("{}: {}", $rule, format_args!($($seen)*)));
        }
    };
}
pub(super) use hold;

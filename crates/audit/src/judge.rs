//! From what was seen to the verdict.

use roundsman_core::audits::observed::Observed;

use crate::verdict::{Device, Verdict};

#[derive(Debug, Clone, Default)]
pub struct JudgeOptions {
    pub device: Device,
}

pub fn judge(seen: &Observed, options: &JudgeOptions) -> Verdict {
    let _ = (seen, options);
    unreachable!("comes next")
}

//! `docs/state-machines.md`: the states of every entity, drawn from the rules.

use roundsman_core::bots::bot_diagram;
use roundsman_core::jobs::job_diagram;
use roundsman_core::tasks::task_diagram;

#[cfg(test)]
const COMMAND: &str = "cargo run -p roundsman -- docs states > docs/state-machines.md";

/// The whole document.
pub(crate) fn document() -> String {
    let (job, bot, task) = (job_diagram(), bot_diagram(), task_diagram());
    format!(
        "# State machines\n\n\
         Generated from the rules in `crates/core`; a test fails when this file is stale.\n\n\
         ## Jobs\n\n\
         A step with two ends depends on the attempts that are left. A job that wants to wait again\n\
         while another with its key waits folds into that one and ends `cancelled` (or `completed`\n\
         after `again`).\n\n\
         ```mermaid\n{job}```\n\n\
         ## Bots\n\n\
         A callback that comes early takes the steps it skipped with it.\n\n\
         ```mermaid\n{bot}```\n\n\
         ## Tasks\n\n\
         What leads to several states depends on how late it is and how many looks in a row came to\n\
         nothing. `submit_unknown` is the error of a task that `failed`, not a state.\n\n\
         ```mermaid\n{task}```\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_committed_document_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machines.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == document(), "docs/state-machines.md is stale; run: {COMMAND}");
    }
}

//! The states of a bot as a picture, drawn by asking the rules themselves.

use super::{BotStatus, may_follow};

/// A Mermaid state diagram of every step that is allowed.
pub fn bot_diagram() -> String {
    let mut lines = vec!["stateDiagram-v2".to_owned()];
    lines.push(format!("    [*] --> {}", BotStatus::Reserved.as_str()));
    for from in BotStatus::ALL {
        for to in BotStatus::ALL {
            if may_follow(from, to) {
                lines.push(format!("    {} --> {}", from.as_str(), to.as_str()));
            }
        }
        if from.is_over() {
            lines.push(format!("    {} --> [*]", from.as_str()));
        }
    }
    lines.join("\n") + "\n"
}

//! One thing that the doctor looked at.

use roundsman_store::advice::{Advice, Grade};
use serde_json::json;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The part of the system, such as `database`.
    pub(super) area: &'static str,
    pub(super) grade: Grade,
    pub(super) found: String,
    /// Empty if there is nothing to do.
    pub(super) todo: String,
}

impl Finding {
    pub(super) fn fine(area: &'static str, found: impl Into<String>) -> Self {
        Finding { area, grade: Grade::Fine, found: found.into(), todo: String::new() }
    }

    pub(super) fn doubtful(area: &'static str, found: impl Into<String>, todo: &str) -> Self {
        Finding { area, grade: Grade::Doubtful, found: found.into(), todo: todo.to_owned() }
    }

    pub(super) fn wrong(area: &'static str, found: impl Into<String>, todo: &str) -> Self {
        Finding { area, grade: Grade::Wrong, found: found.into(), todo: todo.to_owned() }
    }

    /// What the configuration itself has to say.
    pub(super) fn hint(hint: &str) -> Self {
        Finding::doubtful("configuration", hint, "see `roundsman config`")
    }

    pub(super) fn of_database(advice: Advice) -> Self {
        let Advice { subject, found, grade, todo } = advice;
        Finding { area: "database", grade, found: format!("{subject}: {found}"), todo }
    }

    pub(super) fn line(&self) -> String {
        let mark = match self.grade {
            Grade::Fine => "ok   ",
            Grade::Doubtful => "hint ",
            Grade::Wrong => "WRONG",
        };
        let line = format!("{mark}  {:<13} {}", self.area, self.found);
        if self.todo.is_empty() { line } else { format!("{line}\n       → {}", self.todo) }
    }

    pub(super) fn as_json(&self) -> serde_json::Value {
        let grade = match self.grade {
            Grade::Fine => "fine",
            Grade::Doubtful => "doubtful",
            Grade::Wrong => "wrong",
        };
        json!({"area": self.area, "grade": grade, "found": self.found, "todo": self.todo})
    }
}

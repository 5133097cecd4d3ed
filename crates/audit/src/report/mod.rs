//! What people read of a verdict: a page, a document, a table, a plot. All of them tell the same story.
//!
//! Everything that came from the audited page is foreign: it is escaped where it is written, and no
//! report loads anything or runs anything.

mod html;
mod markup;
mod pdf;
mod plain;
mod sections;
mod story;
mod style;
mod svg;

use roundsman_core::Timestamp;

use crate::compare::Comparison;
use crate::verdict::Category;

pub use html::report_html;
pub use pdf::report_pdf;
pub use plain::report_text;
pub use svg::history_svg;

/// What a report shows beside the verdict.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportContext<'a> {
    pub comparison: Option<&'a Comparison>,
    pub screenshot_png: Option<&'a [u8]>,
    /// Earlier audits of the same page and this one, oldest first.
    pub history: &'a [HistoryPoint],
}

/// One audit in the history of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPoint {
    pub at: Timestamp,
    pub overall: u8,
    pub scores: Vec<(Category, u8)>,
}

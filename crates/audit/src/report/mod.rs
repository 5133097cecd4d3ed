//! What people read of a verdict.

use roundsman_core::Timestamp;

use crate::compare::Comparison;
use crate::verdict::{Category, Verdict};

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

pub fn report_html(verdict: &Verdict, context: &ReportContext<'_>) -> String {
    let _ = context;
    verdict.final_url.clone()
}

pub fn report_pdf(verdict: &Verdict, context: &ReportContext<'_>) -> Vec<u8> {
    report_html(verdict, context).into_bytes()
}

/// A table for a terminal. `width_columns` is the terminal's.
pub fn report_text(
    verdict: &Verdict,
    comparison: Option<&Comparison>,
    width_columns: usize,
) -> String {
    let _ = (comparison, width_columns);
    verdict.final_url.clone()
}

/// A plot of the scores over time, as a self-contained SVG picture.
pub fn history_svg(points: &[HistoryPoint]) -> String {
    points.len().to_string()
}

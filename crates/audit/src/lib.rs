//! Judges what was seen of a page, and writes the reports.
//!
//! Invariant: nothing in this crate does I/O, reads a clock or draws randomness, and no page can make it
//! panic or work without bound. The same [`Observed`](roundsman_core::audits::observed::Observed) always
//! gives the same [`Verdict`], and the same verdict the same report.

mod accessibility;
mod best_practices;
mod compare;
mod css;
mod dom;
mod facts;
mod finding;
mod hosts;
mod judge;
mod mobile;
mod original;
mod page;
mod performance;
mod report;
mod search;
mod security;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

pub use compare::{Change, Comparison, compare};
pub use judge::{JudgeOptions, judge};
pub use report::{HistoryPoint, ReportContext, history_svg, report_html, report_pdf, report_text};
pub use verdict::{
    BrowserFacts, Category, CategoryScore, Device, ENGINE_VERSION, Evidence, EvidenceKind, Facts,
    Finding, Impact, Light, Missing, OriginalCheck, Outcome, RawData, Redirect, RequestFact,
    Verdict,
};

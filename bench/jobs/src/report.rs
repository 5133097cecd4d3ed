//! Collects figures and prints their medians.

use std::collections::BTreeMap;
use std::io::Write;

/// Every figure of every run, in the order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Report {
    order: Vec<(String, String)>,
    figures: BTreeMap<(String, String), Vec<f64>>,
}

impl Report {
    pub(crate) fn add(&mut self, target: &str, what: &str, figure: f64) {
        let key = (target.to_owned(), what.to_owned());
        if !self.figures.contains_key(&key) {
            self.order.push(key.clone());
        }
        self.figures.entry(key).or_default().push(figure);
    }

    /// A table of medians with the range they were taken from.
    pub(crate) fn print(&self) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "| database | figure | median | lowest | highest |");
        let _ = writeln!(out, "|---|---|---:|---:|---:|");
        for key in &self.order {
            let mut values = self.figures[key].clone();
            values.sort_by(f64::total_cmp);
            let (low, high) = (values[0], values[values.len() - 1]);
            let median = values[values.len() / 2];
            let (target, what) = key;
            let _ = writeln!(
                out,
                "| {target} | {what} | {} | {} | {} |",
                shown(median),
                shown(low),
                shown(high)
            );
        }
    }
}

fn shown(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

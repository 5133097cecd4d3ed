//! Collects figures and prints their medians.

use std::collections::BTreeMap;

use bench_support::table::{print_line, shown};

/// Every figure of every run, in the order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Report {
    order: Vec<(String, String)>,
    figures: BTreeMap<(String, String), Vec<f64>>,
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn add(&mut self, target: &str, what: &str, figure: f64) {
        let key = (target.to_owned(), what.to_owned());
        if !self.figures.contains_key(&key) {
            self.order.push(key.clone());
        }
        self.figures.entry(key).or_default().push(figure);
    }

    /// A line below the table.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// A table of medians with the range they were taken from.
    pub(crate) fn print(&self, title: &str) {
        if self.order.is_empty() {
            return;
        }
        print_line(&format!("\n{title}\n\n| database | figure | median | lowest | highest |"));
        print_line("|---|---|---:|---:|---:|");
        for key in &self.order {
            let values = sorted(&self.figures[key]);
            let (low, high) = (values[0], values[values.len() - 1]);
            let (target, what) = key;
            // A single run has no range.
            let range = if values.len() > 1 { [shown(low), shown(high)] } else { <_>::default() };
            let median = shown(values[values.len() / 2]);
            print_line(&format!("| {target} | {what} | {median} | {} | {} |", range[0], range[1]));
        }
        for note in &self.notes {
            print_line(&format!("\n{note}"));
        }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

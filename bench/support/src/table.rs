//! Figures of contenders that were measured in the same run, as a table of medians.

use std::fmt::Write as _;
use std::io::Write as _;

/// A row for each contender, a column for each figure.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    /// For each column, what was seen in each run.
    figures: Vec<Vec<f64>>,
}

impl Table {
    pub fn new(columns: &[&'static str]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// What was seen in one run, in the order of the columns.
    pub fn add(&mut self, name: &str, figures: &[f64]) {
        assert_eq!(figures.len(), self.columns.len(), "{name} has other figures");
        let index = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let figures = vec![Vec::new(); self.columns.len()];
            self.rows.push(Row { name: name.to_owned(), figures });
            self.rows.len() - 1
        });
        for (seen, figure) in self.rows[index].figures.iter_mut().zip(figures) {
            seen.push(*figure);
        }
    }

    /// The median of a figure, if the contender was measured.
    pub fn median(&self, name: &str, column: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.name == name)?;
        let column = self.columns.iter().position(|known| *known == column)?;
        Some(median(&row.figures[column]))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.name.as_str())
    }

    pub fn print(&self) {
        let mut text = format!("| | {} |\n|---|", self.columns.join(" | "));
        text.extend(self.columns.iter().map(|_| "---:|"));
        for row in &self.rows {
            let _ = write!(text, "\n| {} |", row.name);
            for seen in &row.figures {
                let _ = write!(text, " {} |", shown(median(seen)));
            }
        }
        let _ = writeln!(std::io::stdout().lock(), "{text}\n");
    }
}

/// A line about several contenders, such as a ratio.
pub fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

fn median(seen: &[f64]) -> f64 {
    let mut sorted = seen.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// With as many digits as tell something.
pub fn shown(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    match value.abs() {
        size if size >= 1000.0 => grouped(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// `12,345`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_with_as_many_digits_as_tell_something() {
        let cases = [(1.0, "1"), (0.1234, "0.123"), (12.34, "12.3"), (999.4, "999")];
        for (value, text) in cases {
            assert_eq!(shown(value), text);
        }
        assert_eq!((shown(1000.0), shown(1_234_567.0)), ("1,000".into(), "1,234,567".into()));
    }

    #[test]
    fn a_contender_has_the_median_of_its_runs() {
        let mut table = Table::new(&["a", "b"]);
        for figures in [[1.0, 9.0], [3.0, 7.0], [2.0, 8.0]] {
            table.add("x", &figures);
        }
        assert_eq!(table.median("x", "a"), Some(2.0));
        assert_eq!(table.median("y", "a"), None);
    }
}

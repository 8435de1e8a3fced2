//! Rows, bars, charts, the table and the JSON.
//!
//! The JSON is what `publish.rs` makes the document of. Whatever else measures (load, soak) writes the same form.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::machine::Machine;
use crate::measure::{Run, median, smallest};
use crate::plot::{Chart, Drawing};

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    section: &'static str,
    name: String,
    unit: &'static str,
    /// Every run: its median for a latency, else the figure itself.
    runs: Vec<f64>,
    /// The median of the runs.
    median: f64,
    /// For a latency: the p99 of each run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    p99_runs: Vec<f64>,
    /// For a latency: the p99 of the best run.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
    /// The row of the floor it is compared with, and how many times that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<(String, f64)>,
}

/// Figures along an axis, for plots: each point has a value for each column, the first being the axis.
#[derive(Debug, Clone, Serialize)]
struct Curve {
    section: &'static str,
    name: String,
    columns: Vec<&'static str>,
    points: Vec<Vec<f64>>,
}

/// A promise and what became of it.
#[derive(Debug, Clone, Serialize)]
struct Bar {
    name: String,
    value: f64,
    limit: f64,
    /// `<=`, `>=` or `==`.
    relation: &'static str,
    met: bool,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    curves: Vec<Curve>,
    bars: Vec<Bar>,
    charts: Vec<Chart>,
    /// Sections that came to no end, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
}

impl Report {
    /// Takes note of a section that failed; its rows are those it had come to.
    pub(crate) fn note(&mut self, section: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            let text = format!("{section}: {error:#}");
            progress(&format!("ERROR: {text}"));
            self.errors.push(text);
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Adds one run of a latency row, which is made by its first run.
    pub(crate) fn add_run(&mut self, section: &'static str, name: &str, run: Run) {
        let row = self.row_mut(section, name, "ms");
        row.runs.push(run.p50);
        row.p99_runs.push(run.p99);
        row.median = median(&row.runs);
        row.p99 = Some(smallest(&row.p99_runs));
        let p50 = run.p50;
        progress(&format!(
            "{section}: {name}: p50 {p50:.3} p99 {:.3} ms",
            run.p99
        ));
    }

    /// Adds a figure to a row.
    pub(crate) fn add(
        &mut self,
        section: &'static str,
        name: &str,
        unit: &'static str,
        value: f64,
    ) {
        let row = self.row_mut(section, name, unit);
        row.runs.push(value);
        row.median = median(&row.runs);
        progress(&format!("{section}: {name}: {value:.3} {unit}"));
    }

    /// Adds a curve.
    pub(crate) fn add_curve(
        &mut self,
        section: &'static str,
        name: &str,
        columns: &[&'static str],
        points: Vec<Vec<f64>>,
    ) {
        self.curves.push(Curve {
            section,
            name: name.to_owned(),
            columns: columns.to_vec(),
            points,
        });
    }

    fn row_mut(&mut self, section: &'static str, name: &str, unit: &'static str) -> &mut Row {
        let at = self
            .rows
            .iter()
            .position(|row| row.section == section && row.name == name);
        let at = at.unwrap_or_else(|| {
            self.rows.push(Row {
                section,
                name: name.to_owned(),
                unit,
                runs: Vec::new(),
                median: f64::NAN,
                p99_runs: Vec::new(),
                p99: None,
                ratio: None,
            });
            self.rows.len() - 1
        });
        // Just found or just pushed.
        &mut self.rows[at]
    }

    /// Compares a row with one of the floor; gives the ratio of their medians.
    pub(crate) fn compare(&mut self, section: &'static str, name: &str, floor: &str) -> f64 {
        let ratio = self.median(section, name) / self.median("floor", floor);
        self.row_mut(section, name, "ms").ratio = Some((floor.to_owned(), ratio));
        ratio
    }

    pub(crate) fn median(&self, section: &str, name: &str) -> f64 {
        self.find(section, name).map_or(f64::NAN, |row| row.median)
    }

    pub(crate) fn p99(&self, section: &str, name: &str) -> f64 {
        self.find(section, name)
            .and_then(|row| row.p99)
            .unwrap_or(f64::NAN)
    }

    pub(crate) fn runs(&self, section: &str, name: &str) -> &[f64] {
        self.find(section, name).map_or(&[], |row| &row.runs)
    }

    fn find(&self, section: &str, name: &str) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.section == section && row.name == name)
    }

    pub(crate) fn at_most(&mut self, name: &str, value: f64, limit: f64) {
        self.bar(name, value, limit, "<=", value <= limit);
    }

    pub(crate) fn at_least(&mut self, name: &str, value: f64, limit: f64) {
        self.bar(name, value, limit, ">=", value >= limit);
    }

    pub(crate) fn equal(&mut self, name: &str, value: f64, expected: f64) {
        let same = (value - expected).abs() < f64::EPSILON;
        self.bar(name, value, expected, "==", same);
    }

    fn bar(&mut self, name: &str, value: f64, limit: f64, relation: &'static str, met: bool) {
        self.bars.push(Bar {
            name: name.to_owned(),
            value,
            limit,
            relation,
            met,
        });
    }

    /// Keeps what a picture is to be made of.
    pub(crate) fn draw(&mut self, mut chart: Chart) {
        // JSON knows no other numbers.
        if let Drawing::Lines { lines, .. } = &mut chart.drawing {
            for line in lines {
                line.points.retain(|(x, y)| x.is_finite() && y.is_finite());
            }
        }
        self.charts.push(chart);
    }

    pub(crate) fn all_bars_met(&self) -> bool {
        self.bars.iter().all(|bar| bar.met)
    }

    /// Notes the end of the measurements.
    pub(crate) fn finish(&mut self) {
        self.machine.finish();
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }

    /// Writes the table, and the bars unless they are switched off, to stdout.
    pub(crate) fn print(&self, with_bars: bool) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let machine = &self.machine;
        writeln!(
            out,
            "\n{machine}\n\np99 is that of the run with the \
             lowest; × is to the row of the floor, measured in turn with it.\n",
        )?;
        writeln!(
            out,
            "| {:<10} | {:<42} | {:>9} | {:>9} | {:>6} | unit | runs",
            "section", "what", "median", "p99", "×"
        )?;
        writeln!(out, "|---|---|---:|---:|---:|---|---|")?;
        for row in &self.rows {
            let p99 = row.p99.map_or_else(String::new, figure);
            let ratio = row
                .ratio
                .as_ref()
                .map_or_else(String::new, |(_, ratio)| format!("{ratio:.2}"));
            let runs: Vec<String> = row.runs.iter().copied().map(figure).collect();
            writeln!(
                out,
                "| {:<10} | {:<42} | {:>9} | {p99:>9} | {ratio:>6} | {:<4} | {} |",
                row.section,
                row.name,
                figure(row.median),
                row.unit,
                runs.join(" ")
            )?;
        }
        writeln!(out)?;
        for error in &self.errors {
            writeln!(out, "ERROR {error}")?;
        }
        if with_bars {
            for bar in &self.bars {
                let verdict = if bar.met { "PASS" } else { "FAIL" };
                let (value, limit) = (figure(bar.value), figure(bar.limit));
                writeln!(
                    out,
                    "{verdict}  {:<58} {value:>9} {} {limit}",
                    bar.name, bar.relation
                )?;
            }
        }
        Ok(())
    }
}

/// Three digits that matter, without an exponent.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Says on stderr what has just been measured.
#[expect(
    clippy::print_stderr,
    reason = "a benchmark of minutes shows where it is"
)]
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
}

/// Says what was not measured, so that nobody takes it for met.
pub(crate) fn skipped(why: &str) {
    progress(&format!("SKIPPED: {why}"));
}

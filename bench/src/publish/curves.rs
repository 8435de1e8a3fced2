//! Curves of several columns, as load and soak write them, become charts: one for each unit.
//!
//! The first column is the axis. A column's last word tells its unit: `p99_ms`, `hub_rss_kib`, `agent_fds`.

use serde::Deserialize;

use crate::plot::{Axis, Chart, Line, Scale};

/// A curve of a report.
#[derive(Debug, Deserialize)]
pub(super) struct Curve {
    section: String,
    name: String,
    columns: Vec<String>,
    points: Vec<Vec<Option<f64>>>,
}

/// What the generator of load says of itself is in the JSON for who doubts it.
const OF_THE_GENERATOR: &str = "generator_";
/// More lines cannot be told apart.
const MOST_LINES: usize = 7;

impl Curve {
    pub(super) fn charts(&self) -> Vec<Chart> {
        let Some((axis, columns)) = self.columns.split_first() else {
            return Vec::new();
        };
        let mut units: Vec<(String, Vec<Line>)> = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            if column.starts_with(OF_THE_GENERATOR) {
                continue;
            }
            let (name, unit) = self.split(column);
            let points = self.points.iter().filter_map(|point| {
                let x = (*point.first()?)?;
                let y = (*point.get(at + 1)?)?;
                Some((x, y))
            });
            let line = Line::new(&name.replace('_', " "), points.collect());
            match units.iter_mut().find(|(known, _)| *known == unit) {
                Some((_, lines)) => lines.push(line),
                None => units.push((unit, vec![line])),
            }
        }
        let mut charts = Vec::new();
        for (unit, lines) in units {
            let parts = lines.len().div_ceil(MOST_LINES);
            for (part, lines) in lines.chunks(MOST_LINES).enumerate() {
                let mut id = format!("{} {} {unit}", self.section, self.name);
                if parts > 1 {
                    id.push_str(&format!(" {}", part + 1));
                }
                let unit = unit.replace('_', " ");
                let title = format!("{}, {}: {unit}", self.section, self.name);
                let x = Axis::new(&axis.replace('_', " "), Scale::Linear);
                let y = Axis::new(&unit, scale_of(lines));
                charts.push(Chart::lines(
                    &self.section,
                    &file_name(&id),
                    &title,
                    [x, y],
                    lines.to_vec(),
                ));
            }
        }
        charts
    }

    /// A column's name and unit. A last word that no other column has is no unit but part of a name.
    fn split<'a>(&self, column: &'a str) -> (&'a str, String) {
        let per_second = column.strip_suffix("_per_second");
        if let Some(name) = per_second {
            return (name, "per_second".to_owned());
        }
        let alike = |unit: &str| {
            let columns = self.columns.iter().skip(1);
            columns
                .filter(|column| column.rsplit('_').next() == Some(unit))
                .count()
        };
        match column.rsplit_once('_') {
            Some((name, unit)) if alike(unit) > 1 => (name, unit.to_owned()),
            _ => (column, "counts".to_owned()),
        }
    }
}

/// Logarithmic where linear would squash most lines to the bottom.
fn scale_of(lines: &[Line]) -> Scale {
    let values = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().map(|(_, y)| *y))
    };
    let highest = values().fold(f64::MIN_POSITIVE, f64::max);
    let lowest = values().fold(f64::INFINITY, f64::min);
    if lowest > 0.0 && highest / lowest > 50.0 {
        Scale::Log
    } else {
        Scale::Linear
    }
}

/// Lower-case words joined by `-`.
fn file_name(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-")
}

//! Tables in Markdown.

use serde::Deserialize;

use crate::machine::Machine;
use crate::plot::{Axis, Chart, Drawing, Line, Scale, tick};
use crate::report::figure;

/// A line of a report's table, as it is read back.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) section: String,
    name: String,
    #[serde(default)]
    unit: String,
    /// None where nothing could be measured.
    median: Option<f64>,
    #[serde(default)]
    p99: Option<f64>,
    #[serde(default)]
    runs: Vec<Option<f64>>,
    #[serde(default)]
    ratio: Option<(String, Option<f64>)>,
}

/// A bar of a report.
#[derive(Debug, Deserialize)]
pub(super) struct Promise {
    pub(super) name: String,
    value: Option<f64>,
    limit: Option<f64>,
    relation: String,
    met: bool,
}

/// What was measured on, and how.
pub(super) fn facts(machines: &[Machine]) -> String {
    let Some(first) = machines.first() else {
        return String::new();
    };
    let mut out = format!(
        "| machine | |\n|---|---|\n| processor | {} × {} |\n| memory | {} |\n| kernel | Linux {} |\n\
         | distribution | {} |\n| shell | {} |\n| run by | {} |\n\n",
        first.processors,
        cell(&first.processor),
        first.memory,
        cell(&first.kernel),
        cell(&first.distribution),
        cell(&first.shell),
        first.user
    );
    out.push_str(
        "| command | date | commit | profile | load before | load after |\n|---|---|---|---|---|---|\n",
    );
    for machine in machines {
        out.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} |\n",
            cell(&machine.command),
            machine.date,
            machine.commit,
            machine.profile,
            machine.load_before,
            machine.load_after
        ));
    }
    out
}

/// Rows, with a column only where one of them has something for it.
pub(super) fn rows(rows: &[&Row]) -> String {
    let p99 = rows.iter().any(|row| row.p99.is_some());
    let ratio = rows.iter().any(|row| row.ratio.is_some());
    let runs = rows.iter().any(|row| row.runs.len() > 1);
    let mut head = vec!["what", "median"];
    let mut line = vec!["---", "---:"];
    for (wanted, name, align) in [
        (p99, "p99", "---:"),
        (ratio, "to the floor", "---:"),
        (runs, "runs", "---"),
    ] {
        if wanted {
            head.push(name);
            line.push(align);
        }
    }
    let mut out = format!("| {} |\n|{}|\n", head.join(" | "), line.join("|"));
    for row in rows {
        let mut cells = vec![cell(&row.name), told(row.median, &row.unit)];
        if p99 {
            cells.push(
                row.p99
                    .map_or_else(String::new, |p99| told(Some(p99), &row.unit)),
            );
        }
        if ratio {
            let ratio = row.ratio.as_ref();
            let ratio = ratio.and_then(|(floor, ratio)| Some((floor, (*ratio)?)));
            cells.push(ratio.map_or_else(String::new, |(floor, ratio)| {
                format!("{ratio:.2} of {}", cell(floor))
            }));
        }
        if runs {
            let runs = row.runs.iter().map(|run| run.map_or("–".to_owned(), short));
            let runs: Vec<String> = runs.collect();
            cells.push(if runs.len() > 1 {
                runs.join(" ")
            } else {
                String::new()
            });
        }
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out
}

pub(super) fn bars(bars: &[Promise]) -> String {
    let mut out = String::from("| promise | measured | wanted | |\n|---|---:|---:|---|\n");
    for bar in bars {
        let relation = match bar.relation.as_str() {
            "<=" => "≤",
            ">=" => "≥",
            "==" => "=",
            other => other,
        };
        out.push_str(&format!(
            "| {} | {} | {relation} {} | {} |\n",
            cell(&bar.name),
            told(bar.value, ""),
            told(bar.limit, ""),
            if bar.met { "met" } else { "**missed**" }
        ));
    }
    out
}

/// The figures of a chart, to be opened by who wants them.
pub(super) fn folded(chart: &Chart) -> String {
    let table = match &chart.drawing {
        Drawing::Bars { unit, mark, bars } => {
            let marked = bars.iter().any(|bar| bar.mark.is_some());
            let (head, line) = if marked {
                (format!(" {mark} |"), "---:|")
            } else {
                (String::new(), "")
            };
            let mut out = format!("| what | {unit} |{head}\n|---|---:|{line}\n");
            for bar in bars {
                let value = told(Some(bar.value), "");
                let mark = if marked {
                    format!(" {} |", bar.mark.map_or_else(String::new, short))
                } else {
                    String::new()
                };
                out.push_str(&format!("| {} | {value} |{mark}\n", cell(&bar.name)));
            }
            out
        }
        Drawing::Lines { x, y, lines } => by_place(x, y, lines),
    };
    format!("<details><summary>The figures</summary>\n\n{table}\n</details>\n")
}

/// A row for each place on the axis, a column for each line. Of a long series, every so many.
fn by_place(x: &Axis, y: &Axis, lines: &[Line]) -> String {
    const MOST: usize = 30;
    let mut places: Vec<f64> = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|(x, _)| *x))
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let every = places.len().div_ceil(MOST).max(1);
    let names: Vec<String> = lines.iter().map(|line| cell(&line.name)).collect();
    let mut out = format!("{}:\n\n", y.label);
    out.push_str(&format!("| {} | {} |\n", cell(&x.label), names.join(" | ")));
    out.push_str(&format!("|---:|{}\n", "---:|".repeat(lines.len())));
    for place in places.into_iter().step_by(every) {
        let figures = lines.iter().map(|line| {
            // A place can be measured twice: a rate that was too high is tried again.
            let found = line
                .points
                .iter()
                .filter(|(x, _)| x.total_cmp(&place).is_eq());
            found.map(|(_, y)| short(*y)).collect::<Vec<_>>().join(", ")
        });
        let figures: Vec<String> = figures.collect();
        let at = match x.scale {
            Scale::Percentile => format!("p{}", tick(x.scale, place)),
            _ => tick(x.scale, place),
        };
        out.push_str(&format!("| {at} | {} |\n", figures.join(" | ")));
    }
    out
}

/// A figure and its unit; a dash where there is none.
fn told(value: Option<f64>, unit: &str) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if unit.is_empty() => short(value),
        Some(value) => format!("{} {unit}", short(value)),
    }
}

/// Three digits that matter, thousands apart.
fn short(value: f64) -> String {
    if value.abs() >= 1000.0 {
        tick(Scale::Linear, value)
    } else {
        figure(value)
    }
}

/// A text that cannot end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

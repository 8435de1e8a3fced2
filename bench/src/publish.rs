//! `sandshell-bench publish FILE.json…`: figures become tables and pictures of a document.
//!
//! The document says by markers what goes where, and keeps every word around them:
//!
//! ```text
//! <!-- bench: facts -->            machine, commands, dates
//! <!-- bench: rows http floor -->  the rows of these sections, as a table
//! <!-- bench: chart growth-files -->  a picture, and its figures folded away
//! <!-- bench: bars -->             each promise and what became of it
//! <!-- bench: rest -->             rows and charts that nothing above has named
//! …what was made…
//! <!-- end -->
//! ```
//!
//! A marker whose figures are in none of the files keeps what it had, so that a part can be published alone. Figures
//! of a kind that is not known here are passed over, and said to be.

mod curves;
mod tables;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::curves::Curve;
use self::tables::{Promise, Row};
use crate::machine::Machine;
use crate::plot::Chart;
use crate::report::skipped;

const OPEN: &str = "<!-- bench: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end -->";
/// All pictures of ours begin so, that others in the directory are left alone.
const PREFIX: &str = "bench-";

const HELP: &str = "\
Usage: sandshell-bench publish [--document FILE] [--pictures DIR] FILE.json…

Writes tables and pictures of these figures between the markers of a document.

  --document FILE  [default: docs/benchmarks.md]
  --pictures DIR   where the pictures go [default: pictures, beside the document]
";

/// What one file holds, as far as it is understood.
#[derive(Debug, Deserialize)]
struct File {
    machine: Machine,
    #[serde(default)]
    rows: Vec<Value>,
    #[serde(default)]
    bars: Vec<Value>,
    #[serde(default)]
    curves: Vec<Value>,
    #[serde(default)]
    charts: Vec<Value>,
}

/// All files together. Of a section or chart that several have, the last counts.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    machines: Vec<Machine>,
    rows: Vec<Row>,
    bars: Vec<Promise>,
    charts: Vec<Chart>,
}

/// A document and the pictures it shows, by file name.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) document: String,
    pub(crate) pictures: Vec<(String, String)>,
}

pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let mut document = PathBuf::from("docs/benchmarks.md");
    let mut pictures = None;
    let mut figures = Figures::default();
    let mut files = 0;
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--document") => document = words.next().context(HELP)?.into(),
            Some("--pictures") => pictures = Some(PathBuf::from(words.next().context(HELP)?)),
            Some(flag) if flag.starts_with('-') => bail!("{HELP}"),
            _ => {
                let path = Path::new(&word);
                let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
                figures
                    .take(&text)
                    .with_context(|| path.display().to_string())?;
                files += 1;
            }
        }
    }
    ensure!(files > 0, "{HELP}");
    let beside = document.parent().unwrap_or(Path::new("")).join("pictures");
    let pictures = pictures.unwrap_or(beside);
    let text = fs::read_to_string(&document).with_context(|| document.display().to_string())?;
    let published = figures.publish(&text)?;
    fs::create_dir_all(&pictures)?;
    for (name, picture) in &published.pictures {
        fs::write(pictures.join(name), picture)?;
    }
    fs::write(&document, published.document)?;
    Ok(ExitCode::SUCCESS)
}

impl Figures {
    /// Adds what a file holds.
    pub(crate) fn take(&mut self, json: &str) -> Result<()> {
        let file: File = serde_json::from_str(json)?;
        let rows: Vec<Row> = understood("row", file.rows);
        let bars: Vec<Promise> = understood("bar", file.bars);
        let curves: Vec<Curve> = understood("curve", file.curves);
        let mut charts: Vec<Chart> = understood("chart", file.charts);
        charts.extend(curves.iter().flat_map(Curve::charts));
        let anew: BTreeSet<&str> = rows.iter().map(|row| row.section.as_str()).collect();
        self.rows.retain(|row| !anew.contains(row.section.as_str()));
        self.rows.extend(rows);
        self.bars
            .retain(|old| bars.iter().all(|bar| bar.name != old.name));
        self.bars.extend(bars);
        self.charts
            .retain(|old| charts.iter().all(|chart| chart.id != old.id));
        self.charts.extend(charts);
        self.machines.push(file.machine);
        Ok(())
    }

    /// The document with everything between its markers made anew.
    pub(crate) fn publish(&self, document: &str) -> Result<Published> {
        let named = Named::in_document(document);
        let mut out = String::new();
        let mut pictures = Vec::new();
        let mut lines = document.lines();
        while let Some(line) = lines.next() {
            out.push_str(line);
            out.push('\n');
            let Some(marker) = marker(line) else { continue };
            let mut old = String::new();
            loop {
                let line = lines
                    .next()
                    .with_context(|| format!("{line} has no {END}"))?;
                ensure!(marker_of(line).is_none(), "{marker:?} has no {END}");
                if line == END {
                    break;
                }
                old.push_str(line);
                old.push('\n');
            }
            match self.make(&marker, &named, &mut pictures)? {
                Some(made) => out.push_str(&format!("\n{}\n\n", made.trim_end())),
                None => out.push_str(&old),
            }
            out.push_str(END);
            out.push('\n');
        }
        Ok(Published {
            document: out,
            pictures,
        })
    }

    /// What belongs between a marker and its end; nothing when no file has it.
    fn make(
        &self,
        marker: &Marker<'_>,
        named: &Named<'_>,
        pictures: &mut Vec<(String, String)>,
    ) -> Result<Option<String>> {
        match (marker.what, marker.names.as_slice()) {
            ("facts", []) => Ok(Some(tables::facts(&self.machines))),
            ("bars", []) => Ok((!self.bars.is_empty()).then(|| tables::bars(&self.bars))),
            ("rows", sections @ [_, ..]) => {
                let wanted = |row: &&Row| sections.contains(&row.section.as_str());
                let rows: Vec<&Row> = self.rows.iter().filter(wanted).collect();
                Ok((!rows.is_empty()).then(|| tables::rows(&rows)))
            }
            ("chart", [id]) => {
                let chart = self.charts.iter().find(|chart| chart.id == *id);
                Ok(chart.map(|chart| show(chart, pictures)))
            }
            ("rest", []) => Ok(Some(self.rest(named, pictures))),
            _ => bail!(
                "{OPEN}{} {}{CLOSE} means nothing",
                marker.what,
                marker.names.join(" ")
            ),
        }
    }

    fn rest(&self, named: &Named<'_>, pictures: &mut Vec<(String, String)>) -> String {
        let mut out = String::new();
        let placed: BTreeSet<&str> = self
            .charts
            .iter()
            .filter(|chart| named.charts.contains(chart.id.as_str()))
            .map(|chart| chart.section.as_str())
            .chain(named.sections.iter().copied())
            .collect();
        let mut sections: Vec<&str> = Vec::new();
        for section in self
            .rows
            .iter()
            .map(|row| row.section.as_str())
            .chain(self.charts.iter().map(|chart| chart.section.as_str()))
        {
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
        for section in sections {
            let mut part = String::new();
            let rows = self.rows.iter().filter(|row| row.section == section);
            let rows: Vec<&Row> = rows.collect();
            if !rows.is_empty() && !placed.contains(section) {
                part.push_str(&tables::rows(&rows));
            }
            for chart in &self.charts {
                if chart.section == section && !named.charts.contains(chart.id.as_str()) {
                    part.push_str(&format!("\n{}", show(chart, pictures)));
                }
            }
            if !part.is_empty() {
                out.push_str(&format!("### {section}\n\n{}\n", part.trim_start()));
            }
        }
        out
    }
}

/// The lines that show a picture, which is drawn.
fn show(chart: &Chart, pictures: &mut Vec<(String, String)>) -> String {
    let name = format!("{PREFIX}{}.svg", chart.id);
    let told = format!(
        "![{}](pictures/{name})\n\n{}",
        chart.title,
        tables::folded(chart)
    );
    pictures.push((name, chart.svg()));
    told
}

/// What is of a kind known here; the rest is said to be passed over.
fn understood<T: DeserializeOwned>(kind: &str, values: Vec<Value>) -> Vec<T> {
    let mut known = Vec::with_capacity(values.len());
    for value in values {
        let name = value.get("name").or(value.get("id")).cloned();
        match serde_json::from_value(value) {
            Ok(value) => known.push(value),
            Err(error) => skipped(&format!("{kind} {}: {error}", name.unwrap_or(Value::Null))),
        }
    }
    known
}

#[derive(Debug)]
struct Marker<'a> {
    what: &'a str,
    names: Vec<&'a str>,
}

/// What is between the brackets of a marker's line.
fn marker_of(line: &str) -> Option<&str> {
    line.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

fn marker(line: &str) -> Option<Marker<'_>> {
    let mut words = marker_of(line)?.split_whitespace();
    Some(Marker {
        what: words.next()?,
        names: words.collect(),
    })
}

/// What a document has a place of its own for.
#[derive(Debug, Default)]
struct Named<'a> {
    sections: BTreeSet<&'a str>,
    charts: BTreeSet<&'a str>,
}

impl<'a> Named<'a> {
    fn in_document(document: &'a str) -> Self {
        let mut named = Self::default();
        for marker in document.lines().filter_map(marker) {
            match marker.what {
                "rows" => named.sections.extend(marker.names),
                "chart" => named.charts.extend(marker.names),
                _ => {}
            }
        }
        named
    }
}

#[cfg(test)]
mod tests;

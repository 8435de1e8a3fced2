//! Charts: what is drawn, as data in the report, and the pictures made of it.
//!
//! A chart is either lines over an axis or horizontal bars. Pictures are SVG written by hand: no script, no font of
//! their own, colours that follow a light or dark page, and text that stays text. A chart's `id` names its file.

mod bars;
mod lines;
mod paper;
mod scale;

use serde::{Deserialize, Serialize};

/// One picture, as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chart {
    /// Lower-case words joined by `-`.
    pub(crate) id: String,
    /// The part of the report it belongs to.
    pub(crate) section: String,
    pub(crate) title: String,
    #[serde(flatten)]
    pub(crate) drawing: Drawing,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Drawing {
    /// Growth curves, time series, percentile curves.
    Lines { x: Axis, y: Axis, lines: Vec<Line> },
    /// One figure for each name.
    Bars {
        unit: String,
        /// What the mark right of a bar is, such as `p99`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        mark: String,
        bars: Vec<Bar>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// With its unit: `exec, p50 in ms`.
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) scale: Scale,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    /// From zero.
    #[default]
    Linear,
    Log,
    /// Logarithmic, of bytes: ticks are powers of two.
    Bytes,
    /// Percentiles from 0 to below 100; each nine has the same room.
    Percentile,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// From left to right.
    pub(crate) points: Vec<(f64, f64)>,
    /// Something to compare with: drawn grey and dashed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) reference: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mark: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) reference: bool,
}

impl Axis {
    pub(crate) fn new(label: &str, scale: Scale) -> Self {
        Self {
            label: label.to_owned(),
            scale,
        }
    }
}

impl Line {
    pub(crate) fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points,
            reference: false,
        }
    }

    pub(crate) fn reference(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            reference: true,
            ..Self::new(name, points)
        }
    }
}

impl Chart {
    pub(crate) fn lines(
        section: &str,
        id: &str,
        title: &str,
        [x, y]: [Axis; 2],
        lines: Vec<Line>,
    ) -> Self {
        Self {
            id: id.to_owned(),
            section: section.to_owned(),
            title: title.to_owned(),
            drawing: Drawing::Lines { x, y, lines },
        }
    }

    /// The picture.
    pub(crate) fn svg(&self) -> String {
        match &self.drawing {
            Drawing::Lines { x, y, lines } => lines::draw(&self.title, x, y, lines),
            Drawing::Bars { unit, mark, bars } => bars::draw(&self.title, unit, mark, bars),
        }
    }
}

/// A figure as it stands beside an axis of this kind.
pub(crate) fn tick(scale: Scale, value: f64) -> String {
    match scale {
        Scale::Bytes => scale::bytes(value),
        Scale::Linear | Scale::Log | Scale::Percentile => scale::number(value),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::is_well_formed;

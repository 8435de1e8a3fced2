//! Horizontal bars, one below the other, each with its name and its figure.

use super::Bar;
use super::paper::{Anchor, BELOW_TITLE, MARGIN, Paper, WIDTH, colour, text_width};
use crate::report::figure;

const ROW: f64 = 26.0;
const THICK: f64 = 16.0;
/// Names longer than this would leave no room for bars.
const MOST_NAME: f64 = 320.0;

pub(super) fn draw(title: &str, unit: &str, mark: &str, bars: &[Bar]) -> String {
    let names = bars.iter().map(|bar| text_width(&bar.name));
    let left = MARGIN + names.fold(0.0, f64::max).min(MOST_NAME) + 12.0;
    let told = |bar: &Bar| {
        let value = format!("{} {unit}", figure(bar.value));
        match bar.mark {
            Some(at) => format!("{value} ({mark} {})", figure(at)),
            None => value,
        }
    };
    let room = bars
        .iter()
        .map(|bar| text_width(&told(bar)))
        .fold(0.0, f64::max);
    let right = WIDTH - MARGIN - room - 10.0;
    let longest = bars
        .iter()
        .flat_map(|bar| [Some(bar.value), bar.mark])
        .flatten()
        .filter(|value| value.is_finite())
        .fold(f64::MIN_POSITIVE, f64::max);
    let x_of = |value: f64| left + (value / longest).clamp(0.0, 1.0) * (right - left);
    let mut paper = Paper::new(title, BELOW_TITLE + bars.len() as f64 * ROW + MARGIN);
    let bottom = BELOW_TITLE + bars.len() as f64 * ROW;
    paper.line("axis", (left, BELOW_TITLE), (left, bottom));
    for (at, bar) in bars.iter().enumerate() {
        let top = BELOW_TITLE + at as f64 * ROW + (ROW - THICK) / 2.0;
        let middle = top + THICK / 2.0;
        paper.text("label", (left - 8.0, middle + 4.5), Anchor::End, &bar.name);
        let end = x_of(bar.value);
        paper.bar(&colour(0, bar.reference), (left, top), end - left, THICK);
        let mut after = end;
        if let Some(value) = bar.mark.filter(|value| value.is_finite()) {
            let there = x_of(value);
            paper.line("mark", (end, middle), (there, middle));
            paper.line("mark", (there, top + 3.0), (there, top + THICK - 3.0));
            after = there.max(end);
        }
        paper.text(
            "label",
            (after + 8.0, middle + 4.5),
            Anchor::Start,
            &told(bar),
        );
    }
    paper.finish()
}

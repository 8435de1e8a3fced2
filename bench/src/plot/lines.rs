//! Lines over an axis.

use super::paper::{Anchor, BELOW_TITLE, MARGIN, Paper, WIDTH, colour, legend_height};
use super::scale::{Ruler, number};
use super::{Axis, Line};

/// Of the field between the axes.
const HEIGHT: f64 = 250.0;
/// Room for the figures and the label of an axis.
const LEFT: f64 = 78.0;
const BELOW: f64 = 50.0;
const RIGHT: f64 = WIDTH - MARGIN - 14.0;
/// More points than this are a curve of its own: dots would hide it.
const MOST_DOTS: usize = 40;

pub(super) fn draw(title: &str, x_axis: &Axis, y_axis: &Axis, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let mut steps: Vec<f64> = all().map(|(x, _)| x).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let across = Ruler::of_steps(x_axis.scale, &steps);
    let across = across.unwrap_or_else(|| Ruler::new(x_axis.scale, steps.iter().copied()));
    let up = Ruler::new(y_axis.scale, all().map(|(_, y)| y));
    let mut of_kind = [0, 0];
    let names: Vec<(String, String)> = lines
        .iter()
        .map(|line| {
            let [coloured, references] = &mut of_kind;
            let place = if line.reference { references } else { coloured };
            let class = colour(*place, line.reference);
            *place += 1;
            (line.name.clone(), class)
        })
        .collect();
    let top = BELOW_TITLE + legend_height(&names) + 14.0;
    let bottom = top + HEIGHT;
    let x_of = |x: f64| LEFT + across.place(x) * (RIGHT - LEFT);
    let y_of = |y: f64| bottom - up.place(y) * HEIGHT;

    let mut paper = Paper::new(title, bottom + BELOW);
    paper.legend(BELOW_TITLE, &names);
    for (tick, told) in up.ticks() {
        let y = y_of(tick);
        paper.line("grid", (LEFT, y), (RIGHT, y));
        paper.text("tick", (LEFT - 8.0, y + 4.0), Anchor::End, &told);
    }
    for (tick, told) in across.ticks() {
        let x = x_of(tick);
        paper.line("grid", (x, top), (x, bottom));
        paper.text("tick", (x, bottom + 17.0), Anchor::Middle, &told);
    }
    paper.line("axis", (LEFT, bottom), (RIGHT, bottom));
    paper.line("axis", (LEFT, top), (LEFT, bottom));
    let middle = f64::midpoint(LEFT, RIGHT);
    paper.text(
        "label",
        (middle, bottom + 38.0),
        Anchor::Middle,
        &x_axis.label,
    );
    paper.upright((MARGIN + 8.0, f64::midpoint(top, bottom)), &y_axis.label);
    for (line, (name, class)) in lines.iter().zip(&names) {
        let shown: Vec<(f64, f64)> = line
            .points
            .iter()
            .copied()
            .filter(|(x, y)| across.shows(*x) && up.shows(*y))
            .collect();
        let places: Vec<(f64, f64)> = shown.iter().map(|(x, y)| (x_of(*x), y_of(*y))).collect();
        paper.curve(class, &places);
        if shown.len() <= MOST_DOTS {
            for ((x, y), place) in shown.iter().zip(places) {
                let told = format!("{name}: {} at {}", number(*y), number(*x));
                paper.dot(class, place, &told);
            }
        }
    }
    paper.finish()
}

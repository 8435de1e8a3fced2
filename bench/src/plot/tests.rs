use super::scale::{Ruler, bytes, number};
use super::*;

fn told(ruler: &Ruler) -> Vec<String> {
    ruler.ticks().into_iter().map(|(_, told)| told).collect()
}

/// Every tag that opens closes, in order; attributes have quotes; nothing is left to be escaped.
pub(crate) fn is_well_formed(svg: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        if text.contains('>') {
            return Err(format!("a bracket in the text {text:?}"));
        }
        let end = tag.find('>').ok_or("a tag without an end")?;
        let inner = tag.get(1..end).unwrap_or_default();
        if inner.matches('"').count() % 2 != 0 {
            return Err(format!("quotes in <{inner}>"));
        }
        if let Some(name) = inner.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes something else"));
            }
        } else if !inner.ends_with('/') {
            open.push(inner.split(' ').next().unwrap_or_default());
        }
        rest = tag.get(end + 1..).unwrap_or_default();
    }
    if svg.contains("NaN") || svg.contains("inf") {
        return Err("a place that is no number".to_owned());
    }
    open.is_empty()
        .then_some(())
        .ok_or(format!("{open:?} stay open"))
}

#[test]
fn an_axis_is_labelled_as_people_count() {
    let linear = Ruler::new(Scale::Linear, [3.0, 44.0].into_iter());
    assert_eq!(told(&linear), ["0", "10", "20", "30", "40", "50"]);
    let small = Ruler::new(Scale::Linear, [0.02, 0.31].into_iter());
    assert_eq!(told(&small), ["0", "0.1", "0.2", "0.3", "0.4"]);
    let decades = Ruler::new(Scale::Log, [1.0, 5000.0].into_iter());
    assert_eq!(told(&decades), ["1", "10", "100", "1,000"]);
    let few = Ruler::new(Scale::Log, [0.3, 7.0].into_iter());
    assert_eq!(told(&few), ["0.2", "0.5", "1", "2", "5", "10"]);
    let sizes = Ruler::new(Scale::Bytes, [1024.0, 4.0 * 1024f64.powi(3)].into_iter());
    assert!(told(&sizes).contains(&"1 MiB".to_owned()), "{sizes:?}");
    let steps = Ruler::of_steps(Scale::Log, &[1.0, 10.0, 5000.0]).unwrap();
    assert_eq!(told(&steps), ["1", "10", "5,000"]);
    assert!((steps.place(5000.0) - 1.0).abs() < 1e-9);
    let nines = Ruler::new(Scale::Percentile, [0.0, 99.9].into_iter());
    assert_eq!(told(&nines), ["0", "50", "90", "99", "99.9"]);
    assert!((nines.place(90.0) - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn figures_are_written_as_people_write_them() {
    assert_eq!(number(0.05), "0.05");
    assert_eq!(number(12_345.6), "12,346");
    assert_eq!(number(-1_234_567.0), "-1,234,567");
    assert_eq!(bytes(4.0 * 1024f64.powi(3)), "4 GiB");
    assert_eq!(bytes(512.0), "512 B");
}

#[test]
fn nothing_at_all_is_a_picture_too() {
    let axis = || Axis::new("a < b & \"c\"", Scale::Log);
    for points in [vec![], vec![(1.0, 1.0)], vec![(0.0, -1.0), (f64::NAN, 2.0)]] {
        let lines = vec![Line::new("<only>", points)];
        let chart = Chart::lines("section", "id", "a & b", [axis(), axis()], lines);
        is_well_formed(&chart.svg()).unwrap();
    }
    let drawing = Drawing::Bars {
        unit: "ms".to_owned(),
        mark: String::new(),
        bars: Vec::new(),
    };
    let chart = Chart {
        drawing,
        ..Chart::lines("section", "id", "none", [axis(), axis()], Vec::new())
    };
    is_well_formed(&chart.svg()).unwrap();
}

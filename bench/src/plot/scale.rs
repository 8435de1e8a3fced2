//! From figures to places on an axis, and the figures that are written beside it.

use super::Scale;

/// An axis that knows what it has to show.
#[derive(Debug)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// Where the ticks are, if that was said.
    steps: Vec<f64>,
}

/// More would not leave room for their figures.
const MOST_STEPS: usize = 8;

impl Ruler {
    /// Spans all values; a logarithmic one leaves out what it cannot show.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| value.is_finite() && shows(scale, *value));
        let (mut low, mut high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        });
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        match scale {
            Scale::Linear => {
                low = low.min(0.0);
                let step = linear_step(low, high);
                high = (high / step).ceil() * step;
                if high <= low {
                    high = low + 1.0;
                }
            }
            Scale::Log => {
                // To a whole decade, unless that would leave most of the picture empty.
                (low, high) = (low_of(low), high_of(high));
                if high <= low {
                    high = low * 10.0;
                }
            }
            Scale::Bytes => {
                if high <= low {
                    high = low * 1024.0;
                }
            }
            Scale::Percentile => {
                low = 0.0;
                high = high.max(90.0);
            }
        }
        Self {
            scale,
            low,
            high,
            steps: Vec::new(),
        }
    }

    /// The same from the first of these values to the last, each with a tick; for what was measured at a few steps.
    pub(super) fn of_steps(scale: Scale, steps: &[f64]) -> Option<Self> {
        let (low, high) = (*steps.first()?, *steps.last()?);
        let fits = matches!(scale, Scale::Log | Scale::Bytes) && low > 0.0 && low < high;
        (fits && steps.len() <= MOST_STEPS).then(|| Self {
            scale,
            low,
            high,
            steps: steps.to_vec(),
        })
    }

    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && shows(self.scale, value)
    }

    /// Where a value lies, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let of = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log | Scale::Bytes => value.log10(),
            Scale::Percentile => -(1.0 - value / 100.0).log10(),
        };
        (of(value) - of(self.low)) / (of(self.high) - of(self.low))
    }

    /// The figures to write, and how.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let ticks: Vec<f64> = match self.scale {
            _ if !self.steps.is_empty() => self.steps.clone(),
            Scale::Linear => {
                let step = linear_step(self.low, self.high);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|at| at as f64 * step).collect()
            }
            Scale::Log => self.log_ticks(),
            Scale::Bytes => {
                let (first, last) = (self.low.log2().ceil() as i32, self.high.log2() as i32);
                let step = ((last - first) / 10).max(1) * 2;
                (first..=last)
                    .filter(|power| power % step == 0)
                    .map(|power| 2f64.powi(power))
                    .collect()
            }
            Scale::Percentile => [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999]
                .into_iter()
                .filter(|tick| *tick <= self.high)
                .collect(),
        };
        let told = ticks.iter().map(|tick| super::tick(self.scale, *tick));
        let told: Vec<String> = told.collect();
        ticks.into_iter().zip(told).collect()
    }

    /// Decades; with their halves and fifths when there are few.
    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let parts: &[f64] = if decades <= 3.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)))
            .filter(|tick| *tick >= self.low * 0.999 && *tick <= self.high * 1.001)
            .collect()
    }
}

fn shows(scale: Scale, value: f64) -> bool {
    match scale {
        Scale::Linear => true,
        Scale::Log | Scale::Bytes => value > 0.0,
        Scale::Percentile => (0.0..100.0).contains(&value),
    }
}

/// The next of 1, 2, 5, 10 below.
fn low_of(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let part = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|part| part * decade <= value * 1.0001);
    part.unwrap_or(1.0) * decade
}

/// The next of 1, 2, 5, 10 above.
fn high_of(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let part = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|part| part * decade >= value * 0.9999);
    part.unwrap_or(10.0) * decade
}

/// 1, 2 or 5 times a power of ten, so that four to ten of them fill the axis.
fn linear_step(low: f64, high: f64) -> f64 {
    let rough = ((high - low) / 5.0).abs().max(1e-12);
    high_of(rough)
}

/// As people write it: `0.05`, `20`, `5,000`.
pub(super) fn number(value: f64) -> String {
    let text = if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    grouped(&text)
}

fn grouped(text: &str) -> String {
    let whole = text.split('.').next().unwrap_or_default();
    let digits = whole.trim_start_matches('-').len();
    if digits < 4 {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut left = digits;
    for (at, letter) in text.char_indices() {
        out.push(letter);
        if at < whole.len() && letter.is_ascii_digit() {
            left -= 1;
            if left > 0 && left.is_multiple_of(3) {
                out.push(',');
            }
        }
    }
    out
}

/// `1 KiB`, `4 GiB`.
pub(super) fn bytes(value: f64) -> String {
    let mut value = value;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", number(value))
}

//! What is made of the samples: rows, curves and bars.

use super::traces::{Held, NAMES, Traces};
use super::{Options, SECTION, Sample};
use crate::measure::{largest, median};
use crate::report::{Report, progress};

const KIB: f64 = 1024.0;
/// What each process may grow by after the first third, in MiB.
const GROWTH: f64 = 1.0;

/// The last command of each of the two sandboxes may leave one group more, with a handle of it.
const SPARE: f64 = 4.0;

/// One column for each value of a sample; the processes are in the order of the cast.
pub(crate) const COLUMNS: [&str; 34] = [
    "seconds",
    "probe_p50_ms",
    "probe_p99_ms",
    "turns",
    "errors",
    "processes",
    "control_groups",
    "files",
    "disk_bytes",
    "database_bytes",
    "hub_rss_kib",
    "hub_anon_kib",
    "hub_pss_kib",
    "hub_threads",
    "hub_fds",
    "hub_mounts",
    "launcher_rss_kib",
    "launcher_anon_kib",
    "launcher_pss_kib",
    "launcher_threads",
    "launcher_fds",
    "launcher_mounts",
    "agent1_rss_kib",
    "agent1_anon_kib",
    "agent1_pss_kib",
    "agent1_threads",
    "agent1_fds",
    "agent1_mounts",
    "agent2_rss_kib",
    "agent2_anon_kib",
    "agent2_pss_kib",
    "agent2_threads",
    "agent2_fds",
    "agent2_mounts",
];

fn values(sample: &Sample) -> Vec<f64> {
    let traces = &sample.traces;
    let mut values = vec![
        sample.seconds,
        sample.p50,
        sample.p99,
        sample.turns as f64,
        sample.errors as f64,
        traces.processes as f64,
        traces.groups.all() as f64,
        traces.files as f64,
        traces.bytes as f64,
        traces.database_bytes as f64,
    ];
    for held in &traces.held {
        values.extend([
            held.rss_kib as f64,
            held.anon_kib as f64,
            held.pss_kib as f64,
            held.threads as f64,
            held.fds() as f64,
            held.mounts as f64,
        ]);
    }
    values
}

/// A line of the CSV.
pub(crate) fn line(sample: &Sample) -> String {
    let words: Vec<String> = values(sample).iter().map(ToString::to_string).collect();
    words.join(",")
}

/// A line for whoever watches.
pub(crate) fn summary(sample: &Sample) -> String {
    let each = |value: fn(&Held) -> f64| -> String {
        let values = sample.traces.held.iter().map(value);
        let words: Vec<String> = values.map(|value| format!("{value:.1}")).collect();
        words.join(" ")
    };
    format!(
        "{SECTION}: {:.0} s, {} turns, {} errors, probe p50 {:.2} p99 {:.2} ms; RSS in MiB {}, descriptors {}",
        sample.seconds,
        sample.turns,
        sample.errors,
        sample.p50,
        sample.p99,
        each(|held| held.rss_kib as f64 / KIB),
        each(|held| held.fds() as f64),
    )
}

/// How much a series grew after its first third: the median of its last tenth less that of as many
/// values right after that third. Single peaks are neither growth nor a way to hide it.
fn growth(series: &[f64]) -> f64 {
    let rest = &series[series.len() / 3..];
    let window = (series.len() / 10).max(1).min(rest.len());
    median(&rest[rest.len() - window..]) - median(&rest[..window])
}

/// Rows and the curve of the samples, and the bars on memory where it ran long enough for them.
pub(super) fn rows(report: &mut Report, options: &Options, samples: &[Sample]) {
    let probes: Vec<f64> = samples.iter().map(|sample| sample.p50).collect();
    report.add(
        SECTION,
        "probe p50, median of all samples",
        "ms",
        median(&probes),
    );
    let probes: Vec<f64> = samples.iter().map(|sample| sample.p99).collect();
    report.add(
        SECTION,
        "probe p99, median of all samples",
        "ms",
        median(&probes),
    );
    for (at, name) in NAMES.iter().enumerate() {
        let of = |value: fn(&Held) -> u64| -> Vec<f64> {
            let held = samples
                .iter()
                .filter_map(|sample| sample.traces.held.get(at));
            held.map(|held| value(held) as f64 / KIB).collect()
        };
        let rss = of(|held| held.rss_kib);
        report.add(SECTION, &format!("{name}: RSS, most"), "MiB", largest(&rss));
        let row = format!("{name}: RSS grown after the first third");
        let grown = growth(&rss);
        report.add(SECTION, &row, "MiB", grown);
        let anon = growth(&of(|held| held.anon_kib));
        report.add(
            SECTION,
            &format!("{name}: of it, not of files"),
            "MiB",
            anon,
        );
        if options.is_long() {
            report.at_most(&format!("{SECTION}: {row}, in MiB"), grown, GROWTH);
        }
    }
    let disk: Vec<f64> = samples
        .iter()
        .map(|sample| sample.traces.database_bytes as f64 / KIB / KIB)
        .collect();
    report.add(SECTION, "records on disk, most", "MiB", largest(&disk));
    let points = samples.iter().map(values).collect();
    report.add_curve(SECTION, "samples", &COLUMNS, points);
}

/// Rows and bars of what was there before and after.
pub(super) fn counts(report: &mut Report, options: &Options, before: &Traces, after: &Traces) {
    let all = options.is_long();
    for ((name, before), (_, after)) in before.counts(all).into_iter().zip(after.counts(all)) {
        report.add(SECTION, &format!("{name} before"), "", before as f64);
        let more = after as f64 - before as f64;
        report.equal(&format!("{SECTION}: {name}, after less before"), more, 0.0);
    }
    let more = after.spare() as f64 - before.spare() as f64;
    let spare = format!("{SECTION}: spare control groups and handles, after less before");
    report.at_most(&spare, more, SPARE);
    for difference in after.differences(before) {
        progress(&format!("{SECTION}: descriptors of {difference}"));
    }
    for (at, name) in NAMES.iter().enumerate() {
        let threads = |traces: &Traces| traces.held.get(at).map_or(0, |held| held.threads);
        let more = threads(after) as f64 - threads(before) as f64;
        report.add(
            SECTION,
            &format!("{name}: threads, after less before"),
            "",
            more,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_after_the_first_third() {
        let warm_up = (0..30).map(|_| 0.0);
        let flat = warm_up.clone().chain((30..90).map(|_| 5.0));
        assert!(growth(&flat.collect::<Vec<_>>()).abs() < 1e-9);
        let leak = warm_up.chain((30..90).map(f64::from));
        assert!(growth(&leak.collect::<Vec<_>>()) > 45.0);
        assert!(growth(&[]).is_nan());
    }

    #[test]
    fn one_peak_is_no_growth() {
        let mut series = vec![5.0; 90];
        series[89] = 50.0;
        assert!(growth(&series).abs() < 1e-9);
    }
}

//! What work costs as there is more of it: sessions, sandboxes, output, files. And what a sandbox is
//! made of (`layers.rs`).
//!
//! Each part fills one agent or hub step by step and measures the same at every step, so that a figure can be set
//! against the one of the step before.

pub(crate) mod files;
pub(crate) mod layers;
pub(crate) mod output;
pub(crate) mod sandboxes;
pub(crate) mod sessions;

use std::fs;

use anyhow::{Context as _, Result};

const MIB: f64 = 1024.0 * 1024.0;

/// One line of a chart in the making: what was measured at each step.
#[derive(Debug, Default)]
struct Points(Vec<(f64, f64)>);

impl Points {
    fn add(&mut self, x: usize, y: f64) {
        self.0.push((x as f64, y));
    }

    fn at(&self, x: usize) -> f64 {
        let found = self.0.iter().find(|(at, _)| (*at - x as f64).abs() < 0.5);
        found.map_or(f64::NAN, |(_, y)| *y)
    }
}

/// The most memory a process has held since a moment.
struct Peak {
    pid: i32,
    before: f64,
}

impl Peak {
    fn start(pid: i32) -> Result<Self> {
        // Makes the kernel forget the former peak.
        fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
        let before = peak_mib(pid)?;
        Ok(Self { pid, before })
    }

    fn growth_mib(&self) -> Result<f64> {
        Ok((peak_mib(self.pid)? - self.before).max(0.0))
    }
}

fn peak_mib(pid: i32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("VmHWM")?.trim().parse::<f64>()? / 1024.0)
}

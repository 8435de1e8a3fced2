//! Create and exec with 1 to 500 sandboxes.

use std::time::Instant;

use anyhow::{Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::{Hub, children_deep, pss_bytes, rss_bytes};
use sandshell_types::{SandboxId, SandboxSpec};

use super::{MIB, Points};
use crate::hub::exec;
use crate::measure::{RUNS, Run, repeat_async};
use crate::plot::{Axis, Chart, Line, Scale};
use crate::report::Report;

const SECTION: &str = "growth-sandboxes";
const STEPS: [usize; 6] = [1, 10, 50, 100, 200, 500];
/// How much the time of a create may differ and still be called flat.
const FLAT: f64 = 1.5;

pub(crate) async fn run(report: &mut Report, hub: &Hub, count: usize, quick: bool) -> Result<()> {
    let client = hub.client();
    let first = client.create_sandbox(&SandboxSpec::default()).await?.id;
    let mut ids = vec![first.clone()];
    let mut lines: [Points; 5] = Default::default();
    let steps = if quick { &STEPS[..4] } else { &STEPS[..] };
    for &step in steps {
        while ids.len() < step {
            ids.push(client.create_sandbox(&SandboxSpec::default()).await?.id);
        }
        let [created, used, execs, each, held] = &mut lines;
        let row = |what: &str| format!("{what}, {step} there");
        for _ in 0..RUNS {
            let (create, first_result) = probes(&client, count.div_ceil(10)).await?;
            report.add_run(SECTION, &row("create"), create);
            report.add_run(SECTION, &row("create to first exec result"), first_result);
            let sandbox = client.sandbox(&first);
            let run = repeat_async(count, async || exec(&sandbox).await);
            report.add_run(SECTION, &row("exec: true"), run.await?);
        }
        created.add(step, report.median(SECTION, &row("create")));
        used.add(
            step,
            report.median(SECTION, &row("create to first exec result")),
        );
        execs.add(step, report.median(SECTION, &row("exec: true")));
        let below = children_deep(hub.pid());
        ensure!(below.len() >= step * 2, "not all sandboxes are there");
        let pss = below.iter().map(|&pid| pss_bytes(pid)).sum::<u64>() as f64 / MIB;
        report.add(SECTION, &row("PSS of all"), "MiB", pss);
        let rss = rss_bytes(hub.pid()) as f64 / MIB;
        report.add(SECTION, &row("hub RSS"), "MiB", rss);
        each.add(step, pss);
        held.add(step, rss);
    }
    if let Some(&last) = steps.last() {
        for (what, line) in [("create", &lines[0]), ("exec", &lines[2])] {
            let ratio = line.at(last) / line.at(1);
            report.at_most(&format!("{what}: 1 to {last} sandboxes, ×"), ratio, FLAT);
        }
    }
    draw(report, lines);
    empty(&client, ids).await
}

fn draw(report: &mut Report, lines: [Points; 5]) {
    let [created, used, execs, each, held] = lines.map(|line| line.0);
    let sandboxes = || Axis::new("sandboxes of the hub", Scale::Log);
    report.draw(Chart::lines(
        SECTION,
        "growth-sandboxes",
        "Create and exec as sandboxes grow",
        [sandboxes(), Axis::new("p50 in ms", Scale::Log)],
        vec![
            Line::new("create to first exec result", used),
            Line::new("create", created),
            Line::new("exec: true, through the hub", execs),
        ],
    ));
    report.draw(Chart::lines(
        SECTION,
        "memory-sandboxes",
        "Memory as sandboxes grow",
        [sandboxes(), Axis::new("MiB", Scale::Log)],
        vec![
            Line::new("all sandboxes, PSS", each),
            Line::new("hub, RSS", held),
        ],
    ));
}

/// Makes one, uses it, ends it, several times: until it is there, and until its first result.
pub(super) async fn probes(client: &Client, count: usize) -> Result<(Run, Run)> {
    let (mut created, mut used) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = Instant::now();
        let id = client.create_sandbox(&SandboxSpec::default()).await?.id;
        created.push(start.elapsed());
        exec(&client.sandbox(&id)).await?;
        used.push(start.elapsed());
        client.destroy_sandbox(&id).await?;
    }
    Ok((Run::of(&created), Run::of(&used)))
}

async fn empty(client: &Client, ids: Vec<SandboxId>) -> Result<()> {
    for id in ids {
        client.destroy_sandbox(&id).await?;
    }
    Ok(())
}

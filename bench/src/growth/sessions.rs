//! Latency and memory with 1 to 5,000 idle sessions.
//!
//! Floor, exec and session exec are measured in turn at every step: where all three go up together, it was the machine.

use anyhow::{Result, ensure};
use rustix::process::{Resource, getrlimit};
use sandshell_client::Client;
use sandshell_testkit::{Agent, children_deep, open_fds, pss_bytes, rss_bytes};
use sandshell_types::{SessionId, SessionRequest};

use super::{MIB, Points};
use crate::exec::once as exec_once;
use crate::exec::shell;
use crate::floor::Program;
use crate::measure::{RUNS, repeat, repeat_async};
use crate::plot::{Axis, Chart, Line, Scale};
use crate::report::{Report, skipped};
use crate::sessions::exec;

const SECTION: &str = "growth-sessions";
const STEPS: [usize; 5] = [1, 10, 100, 1000, 5000];
const AT_ONCE: usize = 8;
/// What a session takes of the agent's, and what it has for itself.
const DESCRIPTORS: u64 = 3;
const SPARE_DESCRIPTORS: u64 = 200;

pub(crate) async fn run(
    report: &mut Report,
    agent: &Agent,
    count: usize,
    quick: bool,
) -> Result<()> {
    let client = agent.client();
    let bash = Program::bash()?;
    let busy = client.create_session(&SessionRequest::default()).await?.id;
    exec(&client, &busy, "true").await?;
    let mut ids = vec![busy.clone()];
    let mut lines: [Points; 6] = Default::default();
    let steps = if quick { &STEPS[..4] } else { &STEPS[..] };
    let steps = within_limits(steps);
    for &step in steps {
        fill(&client, &mut ids, step).await?;
        let [floor, execs, in_session, created, held, shells] = &mut lines;
        let row = |what: &str| format!("{what}, {step} idle");
        for _ in 0..RUNS {
            let run = repeat(count, || bash.run_with_pipes())?;
            report.add_run(SECTION, &row("floor: bash -c true"), run);
            let request = shell("true");
            let run = repeat_async(count, async || exec_once(&client, &request).await);
            report.add_run(SECTION, &row("exec: true"), run.await?);
            let run = repeat_async(count, async || exec(&client, &busy, "true").await.map(drop));
            report.add_run(SECTION, &row("session: true"), run.await?);
            let run = repeat_async(count / 5, async || {
                let id = client.create_session(&SessionRequest::default()).await?.id;
                exec(&client, &id, "true").await?;
                client.delete_session(&id).await?;
                Ok(())
            });
            report.add_run(SECTION, &row("session: create, exec, end"), run.await?);
        }
        floor.add(step, report.median(SECTION, &row("floor: bash -c true")));
        execs.add(step, report.median(SECTION, &row("exec: true")));
        in_session.add(step, report.median(SECTION, &row("session: true")));
        created.add(
            step,
            report.median(SECTION, &row("session: create, exec, end")),
        );

        let rss = rss_bytes(agent.pid()) as f64 / MIB;
        let below = children_deep(agent.pid());
        ensure!(
            below.len() >= step,
            "only {} processes are there",
            below.len()
        );
        let pss = below.iter().map(|&pid| pss_bytes(pid)).sum::<u64>() as f64 / MIB;
        report.add(SECTION, &row("agent RSS"), "MiB", rss);
        report.add(SECTION, &row("PSS of all shells"), "MiB", pss);
        report.add(
            SECTION,
            &row("agent descriptors"),
            "",
            open_fds(agent.pid()) as f64,
        );
        held.add(step, rss);
        shells.add(step, pss);
    }
    for (what, line) in [("exec", &lines[1]), ("session exec", &lines[2])] {
        for (step, limit) in [(1000, 2.0), (5000, 3.0)] {
            if steps.contains(&step) {
                let ratio = line.at(step) / line.at(1);
                report.at_most(
                    &format!("{what}: 1 to {step} idle sessions, ×"),
                    ratio,
                    limit,
                );
            }
        }
    }
    draw(report, lines);
    empty(&client, ids).await
}

/// The steps that the limit of open files leaves room for.
fn within_limits(steps: &[usize]) -> &[usize] {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let room = |step: &&usize| DESCRIPTORS * **step as u64 + SPARE_DESCRIPTORS <= most;
    let count = steps.iter().take_while(room).count();
    let (fit, rest) = steps.split_at(count);
    for step in rest {
        skipped(&format!(
            "{SECTION}: {step} sessions need more than {most} open files (ulimit -Hn)"
        ));
    }
    fit
}

fn draw(report: &mut Report, lines: [Points; 6]) {
    let [floor, execs, in_session, created, held, shells] = lines.map(|line| line.0);
    let sessions = || Axis::new("idle sessions in the agent", Scale::Log);
    report.draw(Chart::lines(
        SECTION,
        "growth-sessions",
        "Latency as idle sessions grow",
        [sessions(), Axis::new("p50 in ms", Scale::Log)],
        vec![
            Line::new("session: true", in_session),
            Line::new("exec: true", execs),
            Line::new("session: create, exec, end", created),
            Line::reference("floor: bash -c true", floor),
        ],
    ));
    report.draw(Chart::lines(
        SECTION,
        "memory-sessions",
        "Memory as idle sessions grow",
        [sessions(), Axis::new("MiB", Scale::Log)],
        vec![
            Line::new("all shells, PSS", shells),
            Line::new("agent, RSS", held),
        ],
    ));
}

/// Makes sessions until there are as many as wanted; each has been used, and has state of its own.
async fn fill(client: &Client, ids: &mut Vec<SessionId>, wanted: usize) -> Result<()> {
    let missing = wanted.saturating_sub(ids.len());
    let mut makers = Vec::new();
    for worker in 0..AT_ONCE {
        let share = (missing + worker) / AT_ONCE;
        let client = client.clone();
        makers.push(tokio::spawn(async move {
            let mut made = Vec::with_capacity(share);
            for _ in 0..share {
                let id = client.create_session(&SessionRequest::default()).await?.id;
                exec(&client, &id, "cd /tmp; export A=1").await?;
                made.push(id);
            }
            anyhow::Ok(made)
        }));
    }
    for maker in makers {
        ids.extend(maker.await??);
    }
    ensure!(ids.len() == wanted, "{} instead of {wanted}", ids.len());
    Ok(())
}

async fn empty(client: &Client, ids: Vec<SessionId>) -> Result<()> {
    for id in ids {
        client.delete_session(&id).await?;
    }
    Ok(())
}

//! What hostile clients do to everybody else, and how soon it is over.
//!
//! ```text
//! quiet: a probe by a timetable ─► the flood, on a thread of its own, beside the probe ─► it stops ─► seconds
//!                                                                                until the probe is as quiet
//! ```
//!
//! Every flood is bounded in connections and in time, goes over loopback to a hub that was started for it,
//! and closes all it opened.

mod attack;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sandshell_client::Client;
use sandshell_testkit::{Hub, rss_bytes};

use self::attack::Attack;
use super::arrivals::Spread;
use super::crew::{Crew, Kind};
use super::step::{self, Step};
use crate::dice::Dice;
use crate::report::{Report, progress};

const SECTION: &str = "floods";
const MIB: f64 = 1024.0 * 1024.0;
const PROBES_PER_SECOND: f64 = 100.0;
const QUIET: Duration = Duration::from_secs(5);
/// How long a flood goes on.
const FLOOD: Duration = Duration::from_secs(5);
/// How soon all must be as before.
const CALM: Duration = Duration::from_secs(5);
/// How long is looked for it at most.
const PATIENCE: Duration = Duration::from_secs(20);
/// A second is as quiet as before when its p50 is at most this many times the quiet one. One second has a
/// hundred probes, so that a p99 would be chance's.
const AS_QUIET: f64 = 1.5;
/// What the hub's memory may be above that before the flood, in MiB.
const MEMORY: f64 = 4.0;

pub(super) async fn run(report: &mut Report, dice: &mut Dice) -> Result<()> {
    for attack in Attack::ALL {
        // One of its own: what is left of one flood would count against the next.
        let hub = Hub::start();
        let sandboxes = super::sandboxes(&hub, false).await?;
        let crew = Arc::new(Crew::hire(Kind::Session, &sandboxes).await?);
        one(report, attack, &hub, &sandboxes, &crew, dice).await?;
    }
    Ok(())
}

async fn one(
    report: &mut Report,
    attack: Attack,
    hub: &Hub,
    sandboxes: &[Client],
    crew: &Arc<Crew>,
    dice: &mut Dice,
) -> Result<()> {
    let name = attack.name();
    // A first one makes what is made once: buffers, threads, tables of connections.
    attack.against(hub, Duration::from_secs(1)).join()?;
    let mut probe =
        async |length| step::run(crew, Spread::Poisson, PROBES_PER_SECOND, length, dice).await;
    probe(QUIET).await?;
    let quiet = probe(QUIET).await?;
    let (fds, rss) = settled(hub, sandboxes, None).await?;

    let flood = attack.against(hub, FLOOD);
    let under = probe(FLOOD).await?;
    let (most_fds, most_rss) = held(hub)?;
    let done = flood.join()?;
    let stopped = Instant::now();
    let mut calm = None;
    let mut errors = quiet.errors + under.errors;
    while calm.is_none() && stopped.elapsed() < PATIENCE {
        let began = stopped.elapsed();
        let second = probe(Duration::from_secs(1)).await?;
        errors += second.errors;
        if second.latency(500) <= AS_QUIET * quiet.latency(500) {
            calm = Some(began);
        }
    }
    let (fds_after, rss_after) = settled(hub, sandboxes, Some(rss + MEMORY)).await?;

    progress(&format!("{SECTION}: {name}: {done}"));
    let mut row =
        |what: &str, unit, value| report.add(SECTION, &format!("{name}: {what}"), unit, value);
    row("quiet p50", "ms", quiet.latency(500));
    row("p50 beside it", "ms", under.latency(500));
    row("p99 beside it", "ms", under.latency(990));
    row("hub's descriptors beside it", "", most_fds as f64);
    row("hub's RSS beside it", "MiB", most_rss);
    row("hub's RSS before", "MiB", rss);
    row("hub's RSS after", "MiB", rss_after);
    let calm = calm
        .context("never calm again")
        .map_or(f64::INFINITY, |calm| calm.as_secs_f64());
    let mut bar = |what: &str, value, limit| {
        report.at_most(&format!("{SECTION}: {name}: {what}"), value, limit);
    };
    bar("seconds until it is as quiet", calm, CALM.as_secs_f64());
    bar("errors of others", errors as f64, 0.0);
    bar("hub's descriptors left", fds_after as f64 - fds as f64, 0.0);
    bar("hub's RSS left, in MiB", rss_after - rss, MEMORY);
    tell(name, &under);
    Ok(())
}

/// Descriptors and memory of the hub, once its own probes' connections are gone and, with a limit, memory
/// is within it or some seconds have passed.
async fn settled(hub: &Hub, sandboxes: &[Client], limit: Option<f64>) -> Result<(usize, f64)> {
    for sandbox in sandboxes {
        sandbox.close_idle();
    }
    let deadline = Instant::now() + 2 * CALM;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let held = held(hub)?;
        if limit.is_none_or(|limit| held.1 <= limit) || Instant::now() > deadline {
            return Ok(held);
        }
    }
}

/// Descriptors of the hub, without those of Unix sockets: connections to agents that are kept for a minute
/// are honest clients' doing. And its memory, in MiB.
fn held(hub: &Hub) -> Result<(usize, f64)> {
    let known = std::fs::read_to_string("/proc/net/unix")?;
    let unix: HashSet<&str> = known
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(6))
        .collect();
    let mut count = 0;
    for entry in std::fs::read_dir(format!("/proc/{}/fd", hub.pid()))? {
        let target = std::fs::read_link(entry?.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        let inode = target
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'));
        count += usize::from(!inode.is_some_and(|inode| unix.contains(inode)));
    }
    Ok((count, rss_bytes(hub.pid()) as f64 / MIB))
}

fn tell(name: &str, under: &Step) {
    progress(&format!(
        "{SECTION}: beside {name}: {:.0}/s offered, {:.0}/s answered, {} errors{}",
        under.asked,
        under.achieved,
        under.errors,
        under
            .first_error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {error}")),
    ));
}

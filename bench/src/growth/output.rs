//! Output of 1 KiB to 4 GiB: the rate at which it comes, and what the agent holds of it.
//!
//! Three ways: all of it kept and read as bytes; kept up to the usual limit and read as events, which tell what was
//! dropped; and as the result of an exec, which has the head and the tail. In each, bytes that came and bytes that
//! were told to be missing must make up what was written.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sandshell_client::{Client, EventQuery, OutputQuery, OutputStreamEvent};
use sandshell_testkit::Agent;
use sandshell_types::{ProcessRequest, StreamName};

use super::{Peak, Points};
use crate::exec::shell;
use crate::measure::median;
use crate::plot::{Axis, Chart, Line, Scale};
use crate::report::Report;

const SECTION: &str = "growth-output";
const KIB: u64 = 1024;
/// What is written, how it is called, and how often for one figure.
const SIZES: [(u64, &str, usize); 7] = [
    (KIB, "1 KiB", 50),
    (32 * KIB, "32 KiB", 50),
    (KIB * KIB, "1 MiB", 20),
    (32 * KIB * KIB, "32 MiB", 5),
    (256 * KIB * KIB, "256 MiB", 3),
    (KIB * KIB * KIB, "1 GiB", 1),
    (4 * KIB * KIB * KIB, "4 GiB", 1),
];
/// Above the largest, so that nothing is dropped.
pub(crate) const LOG_BYTES: &str = "4831838208";
/// What the agent may hold more for 4 GiB than for 1 MiB.
const FLAT_MIB: f64 = 64.0;

#[derive(Debug, Clone, Copy)]
enum Way {
    Kept,
    Events,
    Result,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Kept => "all kept, read as bytes",
            Self::Events => "usual limit, read as events",
            Self::Result => "result of an exec, head and tail",
        }
    }
}

/// The first agent keeps everything, the second what agents usually keep.
pub(crate) async fn run(report: &mut Report, agents: [&Agent; 2], quick: bool) -> Result<()> {
    let sizes = if quick { &SIZES[..5] } else { &SIZES[..] };
    let ways = [
        (Way::Kept, agents[0]),
        (Way::Events, agents[1]),
        (Way::Result, agents[1]),
    ];
    let (mut rates, mut held) = (Vec::new(), Vec::new());
    for (way, agent) in ways {
        let client = agent.client();
        let (mut rate_line, mut held_line) = (Points::default(), Points::default());
        for &(size, amount, rounds) in sizes {
            let peak = Peak::start(agent.pid())?;
            let mut took = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                took.push(once(&client, way, size).await?.as_secs_f64());
            }
            let growth = peak.growth_mib()?;
            let rate = size as f64 / median(&took) / 1e6;
            let name = format!("{amount}, {}", way.name());
            report.add(SECTION, &name, "MB/s", rate);
            report.add(SECTION, &format!("{name}: agent holds"), "MiB", growth);
            rate_line.add(size as usize, rate);
            held_line.add(size as usize, growth);
        }
        let largest = held_line.0.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        let name = format!("output of any size, {}: agent holds, MiB", way.name());
        report.at_most(&name, largest, FLAT_MIB);
        rates.push(Line::new(way.name(), rate_line.0));
        held.push(Line::new(way.name(), held_line.0));
    }
    let size = || Axis::new("output of one command", Scale::Bytes);
    report.draw(Chart::lines(
        SECTION,
        "growth-output",
        "Rate of output as it grows, start of the command included",
        [size(), Axis::new("MB/s", Scale::Log)],
        rates,
    ));
    report.draw(Chart::lines(
        SECTION,
        "memory-output",
        "Memory the agent takes for output as it grows",
        [size(), Axis::new("MiB above idle, at most", Scale::Linear)],
        held,
    ));
    Ok(())
}

async fn once(client: &Client, way: Way, size: u64) -> Result<Duration> {
    let text = format!("yes abcdefghijklmnopqrstuvwxyz | head -c {size}");
    let start = Instant::now();
    if let Way::Result = way {
        let result = client.exec(&shell(&text)).await?;
        let took = start.elapsed();
        let missing = result.truncated.map_or(0, |cut| cut.stdout_bytes);
        let told = result.stdout.len() as u64 + missing;
        ensure!(told == size, "{told} of {size} bytes are accounted for");
        return Ok(took);
    }
    let request = ProcessRequest {
        command: Some(text),
        max_output_bytes: matches!(way, Way::Kept).then_some(size + KIB),
        ..Default::default()
    };
    let id = client.create_process(&request).await?.id;
    let mut came = 0;
    if let Way::Kept = way {
        let follow = OutputQuery::follow(StreamName::Stdout);
        let mut bytes = client.process_output(&id, follow).await?;
        while let Some(next) = bytes.next().await {
            came += next?.len() as u64;
        }
    } else {
        let follow = EventQuery {
            from: None,
            follow: Some(true),
        };
        let mut events = client.process_events(&id, follow).await?;
        while let Some(event) = events.next().await {
            match event?.event {
                OutputStreamEvent::Output(output) => came += output.data.len() as u64,
                OutputStreamEvent::Truncated(missing) => came += missing.bytes,
                _ => {}
            }
        }
    }
    let took = start.elapsed();
    ensure!(came == size, "{came} of {size} bytes are accounted for");
    client.delete_process(&id).await?;
    Ok(took)
}

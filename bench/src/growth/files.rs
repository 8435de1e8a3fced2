//! Trees of 1 to 100,000 files: listing, searching, watching, packing.
//!
//! `find`, `grep` and `tar` do the like in turn with ours: what grows with them is the file system.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use sandshell_client::{
    ArchiveQuery, ByteStream, Client, FileQuery, ListOptions, WatchStreamEvent,
};
use sandshell_testkit::Agent;
use sandshell_types::{BackupRequest, ChangesRequest, SearchRequest};

use super::{Peak, Points};
use crate::measure::{median, milliseconds};
use crate::plot::{Axis, Chart, Line, Scale};
use crate::report::Report;

const SECTION: &str = "growth-files";
const STEPS: [usize; 6] = [1, 10, 100, 1000, 10_000, 100_000];
const FILES_OF_A_DIRECTORY: usize = 100;
/// What a file may cost more among 100,000 than among 1,000.
const LINEAR: f64 = 2.0;

const OURS: [&str; 5] = ["list", "search", "watch set-up", "archive", "backup"];
const TOOLS: [&str; 3] = ["find", "grep -r", "tar"];

pub(crate) async fn run(report: &mut Report, quick: bool) -> Result<()> {
    let place = tempfile::tempdir()?;
    let tree = place.path().join("tree");
    let steps = if quick { &STEPS[..5] } else { &STEPS[..] };
    let mut ours: [Points; OURS.len()] = Default::default();
    let mut tools: [Points; TOOLS.len()] = Default::default();
    let mut held = Points::default();
    let (mut made, mut asked) = (0, 0);
    for &step in steps {
        grow(&tree, &mut made, step)?;
        let rounds = if step > 1000 { 3 } else { 10 };
        // An agent each: watches go on for a while after their clients, and their files would be counted.
        let agent = Agent::start();
        let client = agent.client();
        let peak = Peak::start(agent.pid())?;
        let mut took: [Vec<f64>; OURS.len()] = Default::default();
        let mut theirs: [Vec<f64>; TOOLS.len()] = Default::default();
        for _ in 0..rounds {
            for (samples, tool) in theirs.iter_mut().zip(TOOLS) {
                let start = Instant::now();
                by_tool(tool, &tree)?;
                samples.push(milliseconds(start.elapsed()));
            }
            for (samples, what) in took.iter_mut().zip(OURS) {
                asked += 1;
                samples.push(by_us(&client, what, &tree, (step, asked)).await?);
            }
        }
        held.add(step, peak.growth_mib()?);
        let all = OURS.iter().zip(&took).zip(&mut ours);
        for ((what, samples), line) in all.chain(TOOLS.iter().zip(&theirs).zip(&mut tools)) {
            let value = median(samples);
            report.add(SECTION, &format!("{what}, {step} files"), "ms", value);
            line.add(step, value);
        }
        report.add(
            SECTION,
            &format!("agent holds, {step} files"),
            "MiB",
            held.at(step),
        );
    }
    if let Some(&last) = steps.last() {
        for (what, line) in OURS.iter().zip(&ours) {
            let ratio = (line.at(last) / last as f64) / (line.at(1000) / 1000.0);
            let name = format!("{what}: time of a file, among {last} to among 1000, ×");
            report.at_most(&name, ratio, LINEAR);
        }
    }
    let mut lines: Vec<Line> = OURS
        .iter()
        .zip(ours)
        .map(|(what, line)| Line::new(what, line.0))
        .collect();
    let floors = TOOLS.iter().zip(tools);
    lines.extend(floors.map(|(what, line)| Line::reference(what, line.0)));
    report.draw(Chart::lines(
        SECTION,
        "growth-files",
        "Whole trees as files grow",
        [
            Axis::new("files of 100 bytes, 100 in a directory", Scale::Log),
            Axis::new("ms", Scale::Log),
        ],
        lines,
    ));
    Ok(())
}

/// Makes files until there are as many as wanted.
fn grow(tree: &Path, made: &mut usize, wanted: usize) -> Result<()> {
    let line = "nothing to be found in this file\n";
    while *made < wanted {
        let dir = tree.join(format!("d{}", *made / FILES_OF_A_DIRECTORY));
        fs::create_dir_all(&dir)?;
        let until = (*made / FILES_OF_A_DIRECTORY + 1) * FILES_OF_A_DIRECTORY;
        for number in *made..until.min(wanted) {
            fs::write(dir.join(format!("f{number}")), line.repeat(3))?;
        }
        *made = until.min(wanted);
    }
    Ok(())
}

/// One round; in milliseconds.
async fn by_us(
    client: &Client,
    what: &str,
    tree: &Path,
    (files, asked): (usize, usize),
) -> Result<f64> {
    let path = tree.to_str().context("a path that is text")?;
    let start = Instant::now();
    let took = match what {
        "list" => {
            let options = ListOptions {
                recursive: true,
                hidden: None,
            };
            let lines = client
                .list_files_lines(&FileQuery::new(path), options)
                .await?;
            let listed = lines_of(lines).await?;
            ensure!(listed >= files, "{listed} of {files} were listed");
            start.elapsed()
        }
        "search" => {
            let request = SearchRequest {
                path: Some(path.to_owned()),
                pattern: "needle".to_owned(),
                literal: true,
                ..Default::default()
            };
            let reply = client.search_files(&request).await?;
            ensure!(reply.matches.is_empty(), "there is none");
            start.elapsed()
        }
        "watch set-up" => {
            let request = ChangesRequest {
                path: Some(path.to_owned()),
                // One that is watched already would be there at once.
                exclude: vec![format!("no-such-file-{asked}")],
                ..Default::default()
            };
            let mut watch = client.watch_files(&request).await?;
            let first = watch.next().await.context("the watch ended")??;
            ensure!(matches!(first.1, WatchStreamEvent::Ready(_)), "{first:?}");
            start.elapsed()
        }
        "archive" => {
            let query = ArchiveQuery {
                directory: FileQuery::new(path),
                ..Default::default()
            };
            lines_of(client.get_archive(&query).await?).await?;
            start.elapsed()
        }
        _ => {
            let request = BackupRequest {
                path: Some(path.to_owned()),
                ..Default::default()
            };
            let record = client.create_backup(&request).await?;
            let took = start.elapsed();
            client.delete_backup(&record.id).await?;
            took
        }
    };
    Ok(milliseconds(took))
}

/// Reads to the end; how many lines came.
async fn lines_of(mut bytes: ByteStream) -> Result<usize> {
    let mut lines = 0;
    while let Some(next) = bytes.next().await {
        lines += next?.split(|byte| *byte == b'\n').count() - 1;
    }
    Ok(lines)
}

fn by_tool(tool: &str, tree: &Path) -> Result<()> {
    let mut command = match tool {
        "find" => {
            let mut find = Command::new("find");
            find.arg(tree).args(["-printf", "%p %s %m %T@\\n"]);
            find
        }
        "grep -r" => {
            let mut grep = Command::new("grep");
            grep.args(["-rF", "needle"]).arg(tree);
            grep
        }
        _ => {
            let mut tar = Command::new("tar");
            // Told of /dev/null, it would read no file; so through a pipe.
            tar.args(["-cf", "-", "."]).current_dir(tree);
            tar.stdout(Stdio::piped());
            let mut tar = tar.spawn()?;
            let mut out = tar.stdout.take().context("a pipe")?;
            std::io::copy(&mut out, &mut std::io::sink())?;
            ensure!(tar.wait()?.success(), "tar failed");
            return Ok(());
        }
    };
    let status = command.stdout(Stdio::null()).status()?;
    // grep tells by 1 that it found nothing.
    ensure!(matches!(status.code(), Some(0 | 1)), "{tool}: {status}");
    Ok(())
}

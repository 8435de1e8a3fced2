//! A large file up and down, and a tree of 100,000 files.
//!
//! The time of a transfer runs from the request to its last byte; what was transferred is hashed
//! apart. Lists are compared with `find`, run in turn with them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures_util::stream;
use sandshell_client::{
    ByteStream, Client, FileQuery, ListOptions, Page, ReadOptions, WriteOptions,
};
use sandshell_testkit::{Agent, rss_bytes};
use sandshell_types::{CopyRequest, RemoveRequest};
use sha2::{Digest as _, Sha256};

use crate::measure::{RUNS, largest, median, milliseconds};
use crate::report::Report;

const SECTION: &str = "files";
const PIECE: usize = 1 << 20;
const UP: &str = "upload 1 GiB";
const DOWN: &str = "download 1 GiB";
const FIND: &str = "find -printf of 100,000 files";
const LINES: &str = "list of 100,000 files, in lines";
const PAGES: &str = "list of 100,000 files, in pages of 10,000";

pub(crate) async fn run(report: &mut Report, agent: &Agent, quick: bool) -> Result<()> {
    let client = agent.client();
    let pieces = if quick { 100 } else { 1024 };
    transfers(report, agent, &client, pieces).await?;
    trees(report, agent, &client, if quick { 10 } else { 100 }).await
}

/// Different in every piece, so that none can stand for another.
fn piece(number: usize) -> Bytes {
    let mut state = number as u64 + 1;
    let mut bytes = Vec::with_capacity(PIECE);
    while bytes.len() < PIECE {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.into()
}

async fn transfers(
    report: &mut Report,
    agent: &Agent,
    client: &Client,
    pieces: usize,
) -> Result<()> {
    let path = agent.work_dir().join("big");
    let file = FileQuery::new(path.to_str().context("a path that is text")?);
    // Few enough to stay in the processor's cache would be too easy, all of them too much memory.
    let kept: Vec<Bytes> = (0..64).map(piece).collect();
    let content = |at: usize| kept.get(at % kept.len()).cloned().unwrap_or_default();
    let mut expected = Sha256::new();
    for at in 0..pieces {
        expected.update(content(at));
    }
    let expected = expected.finalize();
    let megabytes = (pieces * PIECE) as f64 / 1e6;
    // Threads and buffers are there before the first look.
    let warm = client
        .write_file(&file, &WriteOptions::default(), content(0))
        .await?;
    ensure!(warm.size == PIECE as u64);
    let before = rss_bytes(agent.pid());
    let mut growths = Vec::new();
    for _ in 0..3 {
        let sent: Vec<_> = (0..pieces).map(|at| Ok(content(at))).collect();
        let start = Instant::now();
        let entry = client
            .upload_file(&file, &WriteOptions::default(), stream::iter(sent))
            .await?;
        report.add(
            SECTION,
            UP,
            "MB/s",
            megabytes / start.elapsed().as_secs_f64(),
        );
        ensure!(entry.size == (pieces * PIECE) as u64);
        growths.push(growth(agent, before));
        let start = Instant::now();
        let mut bytes = download(client, &file).await?;
        let mut received = 0;
        while let Some(next) = bytes.next().await {
            received += next?.len();
        }
        report.add(
            SECTION,
            DOWN,
            "MB/s",
            megabytes / start.elapsed().as_secs_f64(),
        );
        ensure!(received == pieces * PIECE);
        growths.push(growth(agent, before));
    }
    let mut bytes = download(client, &file).await?;
    let mut downloaded = Sha256::new();
    while let Some(next) = bytes.next().await {
        downloaded.update(next?);
    }
    ensure!(
        downloaded.finalize() == expected,
        "what came is not what was sent"
    );
    let mut stored = Sha256::new();
    std::io::copy(&mut std::fs::File::open(&path)?, &mut Hashing(&mut stored))?;
    ensure!(
        stored.finalize() == expected,
        "what is stored is not what was sent"
    );
    std::fs::remove_file(&path)?;
    let growth = largest(&growths);
    report.add(
        SECTION,
        "agent RSS above idle, 1 GiB up and down",
        "MiB",
        growth,
    );
    report.at_least("1 GiB up, MB/s", report.median(SECTION, UP), 500.0);
    report.at_least("1 GiB down, MB/s", report.median(SECTION, DOWN), 500.0);
    report.at_most("1 GiB up and down, agent RSS growth in MiB", growth, 32.0);
    Ok(())
}

struct Hashing<'a>(&'a mut Sha256);

impl std::io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn download(client: &Client, file: &FileQuery) -> Result<ByteStream> {
    Ok(client.read_file(file, &ReadOptions::default()).await?.bytes)
}

fn growth(agent: &Agent, before: u64) -> f64 {
    rss_bytes(agent.pid()).saturating_sub(before) as f64 / 1024.0 / 1024.0
}

async fn trees(report: &mut Report, agent: &Agent, client: &Client, dirs: usize) -> Result<()> {
    let path = agent.work_dir().join("tree");
    let text = |name: &str| Some(agent.work_dir().join(name).to_string_lossy().into_owned());
    for dir in 0..dirs {
        let dir = path.join(format!("directory-{dir:03}"));
        std::fs::create_dir_all(&dir)?;
        for file in 0..1000 {
            std::fs::write(dir.join(format!("file-{file:04}.txt")), "some content\n")?;
        }
    }
    let count = dirs * 1001;
    let query = FileQuery::new(path.to_str().context("a path that is text")?);
    let options = ListOptions {
        recursive: true,
        hidden: None,
    };
    let before = rss_bytes(agent.pid());
    for _ in 0..RUNS {
        let start = Instant::now();
        find(&path)?;
        report.add(SECTION, FIND, "ms", milliseconds(start.elapsed()));
        let start = Instant::now();
        let mut lines = client.list_files_lines(&query, options).await?;
        let mut listed = 0;
        while let Some(bytes) = lines.next().await {
            let lines = bytes?;
            listed += lines.split(|byte| *byte == b'\n').count() - 1;
        }
        report.add(SECTION, LINES, "ms", milliseconds(start.elapsed()));
        ensure!(listed == count, "{listed} of {count} were listed");
    }
    let held = growth(agent, before);
    report.add(SECTION, "agent RSS above idle, list", "MiB", held);
    let start = Instant::now();
    ensure!(pages(client, &query, options).await? == count);
    report.add(SECTION, PAGES, "ms", milliseconds(start.elapsed()));
    let ratio = median(report.runs(SECTION, LINES)) / median(report.runs(SECTION, FIND));
    report.add(SECTION, "list in lines / find", "", ratio);
    report.at_most("list of 100,000 files, times find", ratio, 2.0);

    let start = Instant::now();
    let copied = client
        .copy_file(&CopyRequest {
            from: text("tree"),
            to: text("copy"),
            recursive: true,
            ..Default::default()
        })
        .await?;
    report.add(
        SECTION,
        "copy of 100,000 files",
        "ms",
        milliseconds(start.elapsed()),
    );
    ensure!(copied.copied == count as u64 + 1);
    let mut took = Duration::ZERO;
    for name in ["copy", "tree"] {
        let start = Instant::now();
        let removed = client
            .remove_file(&RemoveRequest {
                path: text(name),
                recursive: true,
                ..Default::default()
            })
            .await?;
        took = start.elapsed();
        report.add(SECTION, "remove 100,000 files", "ms", milliseconds(took));
        ensure!(removed.removed == count as u64 + 1);
    }
    report.at_most("remove 100,000 files, seconds", took.as_secs_f64(), 30.0);
    Ok(())
}

fn find(path: &Path) -> Result<()> {
    let status = Command::new("find")
        .arg(path)
        .args(["-printf", "%p %s %m %T@\\n"])
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success());
    Ok(())
}

async fn pages(client: &Client, query: &FileQuery, options: ListOptions) -> Result<usize> {
    let mut listed = 0;
    let mut page = Page {
        limit: Some(10_000),
        cursor: None,
    };
    loop {
        let list = client.list_files(query, options, &page).await?;
        listed += list.items.len();
        page.cursor = list.next_cursor;
        if page.cursor.is_none() {
            return Ok(listed);
        }
    }
}

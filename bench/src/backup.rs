//! Backup and restore of many files and of a large one, beside tar and zstd.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::Agent;
use sandshell_types::{BackupRequest, RestoreRequest};

use crate::measure::milliseconds;
use crate::report::Report;

const SECTION: &str = "backup";
const FILES_OF_A_DIRECTORY: usize = 100;
const FILE_BYTES: usize = 1024;
const LARGE_BYTES: usize = 512 << 20;
const MIB: f64 = 1024.0 * 1024.0;

pub(crate) async fn run(report: &mut Report, agent: &Agent, files: usize) -> Result<()> {
    let client = agent.client();
    let many = agent.work_dir().join("many");
    let mut numbers = Numbers(1);
    for number in 0..files {
        let dir = many.join(format!("d{}", number / FILES_OF_A_DIRECTORY));
        fs::create_dir_all(&dir)?;
        fs::write(dir.join(format!("f{number}")), numbers.bytes(FILE_BYTES))?;
    }
    let large = agent.work_dir().join("large");
    fs::create_dir(&large)?;
    fs::write(large.join("file"), numbers.bytes(LARGE_BYTES))?;
    let before = peak(agent.pid())?;
    let bytes = (files * FILE_BYTES) as f64;
    let name = format!("{files} files of 1 KiB");
    one(report, agent, &client, &many, &name, bytes).await?;
    one(
        report,
        agent,
        &client,
        &large,
        "one file of 512 MiB",
        LARGE_BYTES as f64,
    )
    .await?;
    let growth = (peak(agent.pid())? - before) as f64 / MIB;
    report.add(SECTION, "peak RSS of the agent above idle", "MiB", growth);
    report.at_most(
        "backup and restore, agent RSS above idle in MiB",
        growth,
        64.0,
    );
    Ok(())
}

async fn one(
    report: &mut Report,
    agent: &Agent,
    client: &Client,
    dir: &Path,
    name: &str,
    bytes: f64,
) -> Result<()> {
    let start = Instant::now();
    let archive = agent.work_dir().join("by-tar");
    with_tar(dir, &archive)?;
    add(report, &format!("tar | zstd -3, {name}"), start, bytes);
    // How long files take to be made depends on what the file system went through before (ext4 passes
    // over inodes that were freed a moment ago), so the floor is measured in the same minute.
    let unpacked = agent.work_dir().join("by-tar.d");
    fs::create_dir(&unpacked)?;
    let start = Instant::now();
    let status = Command::new("tar")
        .args(["--zstd", "-xf"])
        .arg(&archive)
        .current_dir(&unpacked)
        .status()?;
    ensure!(status.success(), "tar -x failed");
    add(report, &format!("tar -x, {name}"), start, bytes);
    fs::remove_file(&archive)?;

    let request = BackupRequest {
        path: Some(dir.display().to_string()),
        ..Default::default()
    };
    let start = Instant::now();
    let record = client.create_backup(&request).await?;
    add(report, &format!("backup, {name}"), start, bytes);
    ensure!(record.contents.bytes as f64 >= bytes, "{record:?}");

    let restore = RestoreRequest {
        path: Some(agent.work_dir().join("restored").display().to_string()),
        ..Default::default()
    };
    let start = Instant::now();
    client.restore_backup(&record.id, &restore).await?;
    add(
        report,
        &format!("restore to a new directory, {name}"),
        start,
        bytes,
    );
    let start = Instant::now();
    client.restore_backup(&record.id, &restore).await?;
    add(report, &format!("restore over it, {name}"), start, bytes);
    let same = Command::new("diff")
        .arg("-r")
        .args([dir, &agent.work_dir().join("restored")])
        .status()?;
    ensure!(same.success(), "what was restored differs");
    fs::remove_dir_all(agent.work_dir().join("restored"))?;
    fs::remove_dir_all(unpacked)?;
    client.delete_backup(&record.id).await?;
    Ok(())
}

fn add(report: &mut Report, name: &str, start: Instant, bytes: f64) {
    let elapsed = milliseconds(start.elapsed());
    report.add(SECTION, name, "ms", elapsed);
    let rate = bytes / MIB / (elapsed / 1000.0);
    report.add(SECTION, &format!("{name}: rate"), "MiB/s", rate);
}

/// The same with the common tools; to a file and synced, as a backup is.
fn with_tar(dir: &Path, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar")
        .args(["-cf", "-", "--format=pax", "."])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .spawn()?;
    let zstd = Command::new("zstd")
        .args(["-q", "-3"])
        .stdin(tar.stdout.take().context("a pipe")?)
        .stdout(fs::File::create(archive)?)
        .status()?;
    ensure!(tar.wait()?.success() && zstd.success(), "tar | zstd failed");
    fs::File::open(archive)?.sync_all()?;
    Ok(())
}

/// The most memory that the agent ever had.
fn peak(pid: i32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes.context("VmHWM")?.trim().parse::<u64>()? * 1024)
}

/// Bytes that compress about as little as they do in compiled programs.
struct Numbers(u64);

impl Numbers {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend((self.0 & 0x3f3f_3f3f_3f3f_3f3f).to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

//! How long it takes to make an isolated sandbox, and what many of them take.
//!
//! The floor is bubblewrap, which builds namespaces around one command and keeps nothing: one of it
//! and one of ours in turn.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::{Hub, UnprivilegedUser, children_deep, pss_bytes};
use sandshell_types::{SandboxId, SandboxSpec};

use crate::hub::exec;
use crate::measure::{RUNS, Run};
use crate::report::Report;

const SECTION: &str = "sandboxes";
const FLOOR: &str = "bwrap --unshare-all bash -c true";
const COLD: &str = "create to first exec result";
const WARM: &str = "create to first exec result, from the warm pool";
const MANY: usize = 200;
const MIB: f64 = 1024.0 * 1024.0;

pub(crate) async fn run(report: &mut Report, count: usize) -> Result<()> {
    let hub = Hub::start();
    let client = hub.client();
    cold(report, &client, None, count).await?;
    // Without root these are that user's figures already. Limits need groups, which few users may make.
    if let Some(user) = UnprivilegedUser::get() {
        let hub = Hub::of_with(user, &["--isolation", "best-effort"]);
        cold(report, &hub.client(), Some(user), count).await?;
    }
    many(report, &hub, &client).await?;
    let warm = Hub::with(&["--warm", "1"]);
    let client = warm.client();
    for _ in 0..RUNS {
        let mut ours = Vec::new();
        for _ in 0..count {
            filled(&client).await?;
            ours.push(create(&client).await?);
        }
        report.add_run(SECTION, WARM, Run::of(&ours));
    }
    let warm = report.median(SECTION, WARM);
    report.at_most("sandboxes: warm create and exec, p50 in ms", warm, 1.5);
    Ok(())
}

/// Bubblewrap and a hub of the same user in turn.
async fn cold(
    report: &mut Report,
    client: &Client,
    user: Option<UnprivilegedUser>,
    count: usize,
) -> Result<()> {
    let whose = if user.is_some() {
        ", as an ordinary user"
    } else {
        ""
    };
    let (floor_row, cold_row) = (format!("{FLOOR}{whose}"), format!("{COLD}{whose}"));
    for _ in 0..RUNS {
        let (mut floor, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let start = Instant::now();
            bubblewrap(user)?;
            floor.push(start.elapsed());
            ours.push(create(client).await?);
        }
        report.add_run(SECTION, &floor_row, Run::of(&floor));
        report.add_run(SECTION, &cold_row, Run::of(&ours));
    }
    let cold = report.median(SECTION, &cold_row);
    report.at_most(
        &format!("sandboxes: cold create and exec, ratio to bwrap{whose}"),
        cold / report.median(SECTION, &floor_row),
        1.2,
    );
    let bar = format!("sandboxes: cold create and exec, p50 in ms{whose}");
    report.at_most(&bar, cold, 8.0);
    Ok(())
}

/// Makes one, uses it and ends it; the time until its first result.
async fn create(client: &Client) -> Result<std::time::Duration> {
    let start = Instant::now();
    let made = client.create_sandbox(&SandboxSpec::default()).await?;
    exec(&client.sandbox(&made.id)).await?;
    let took = start.elapsed();
    client.destroy_sandbox(&made.id).await?;
    Ok(took)
}

/// Many at once: all answer, and what each takes.
async fn many(report: &mut Report, hub: &Hub, client: &Client) -> Result<()> {
    let start = Instant::now();
    let mut ids: Vec<SandboxId> = Vec::new();
    for _ in 0..MANY {
        ids.push(client.create_sandbox(&SandboxSpec::default()).await?.id);
    }
    report.add(
        SECTION,
        "create 200, one after the other",
        "ms",
        crate::measure::milliseconds(start.elapsed()),
    );
    for id in &ids {
        exec(&client.sandbox(id)).await?;
    }
    let everything = children_deep(hub.pid());
    ensure!(everything.len() >= MANY * 2, "not all sandboxes are there");
    let pss: u64 = everything.iter().map(|&pid| pss_bytes(pid)).sum();
    let each = pss as f64 / MANY as f64 / MIB;
    report.add(SECTION, "PSS of each of 200, shells included", "MiB", each);
    report.at_most("sandboxes: PSS of each of 200, in MiB", each, 2.0);
    let start = Instant::now();
    for id in &ids {
        client.destroy_sandbox(id).await?;
    }
    report.add(
        SECTION,
        "destroy 200, one after the other",
        "ms",
        crate::measure::milliseconds(start.elapsed()),
    );
    Ok(())
}

fn bubblewrap(user: Option<UnprivilegedUser>) -> Result<()> {
    let mut command = Command::new("bwrap");
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid).current_dir("/");
    }
    let status = command
        .args([
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/usr",
            "/usr",
        ])
        .args([
            "--symlink",
            "usr/bin",
            "/bin",
            "--symlink",
            "usr/lib",
            "/lib",
        ])
        .args(["--symlink", "usr/lib64", "/lib64", "--proc", "/proc"])
        .args(["--dev", "/dev", "--tmpfs", "/tmp", "bash", "-c", "true"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .status()
        .context("bubblewrap is the floor here; install it")?;
    ensure!(status.success(), "bubblewrap ended with {status}");
    Ok(())
}

/// Waits until a sandbox waits in the pool.
async fn filled(client: &Client) -> Result<()> {
    while !client
        .metrics()
        .await?
        .contains("sandshell_sandboxes_warm 1")
    {
        tokio::task::yield_now().await;
    }
    Ok(())
}

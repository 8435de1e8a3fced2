//! What a command in a session costs the users of Cloudflare's own client.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sandshell_testkit::Hub;
use sandshell_types::{SandboxSpec, Scope, TokenRequest};

use crate::measure::{RUNS, Run};
use crate::report::{Report, skipped};

const SECTION: &str = "cloudflare";
/// What a command may take through their client, in milliseconds. Through their own server: 7.9.
const BAR: f64 = 1.5;

const EXEC: &str = "session: true, through @cloudflare/sandbox";
const SCRIPT: &str = include_str!("cloudflare.mjs");

pub(crate) async fn run(report: &mut Report, count: usize) -> Result<()> {
    let packages = packages();
    if !packages.join("installed").exists() {
        skipped(&format!(
            "{SECTION}: {} has no packages; scripts/test installs them",
            packages.display()
        ));
        return Ok(());
    }
    let hub = Hub::start();
    let client = hub.client();
    let sandbox = client.create_sandbox(&SandboxSpec::default()).await?.id;
    let request = TokenRequest {
        name: None,
        scopes: vec![Scope::Sandbox(sandbox.clone())],
        expires_at: None,
        max_sandboxes: None,
    };
    let token = client.create_token(&request).await?.token;
    let base = format!("{}/cloudflare/{sandbox}/{token}", hub.url());
    for _ in 0..RUNS {
        let output = Command::new("node")
            .args(["--input-type=module", "--eval", SCRIPT])
            .current_dir(&packages)
            .env("BASE", &base)
            .env("WARM_UP", "100")
            .env("COUNT", count.to_string())
            .output()
            .context("node")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the client failed: {told}");
        let samples: Vec<f64> = serde_json::from_slice(&output.stdout)?;
        let samples: Vec<Duration> = samples
            .into_iter()
            .map(|sample| Duration::from_secs_f64(sample / 1e3))
            .collect();
        report.add_run(SECTION, EXEC, Run::of(&samples));
    }
    let median = report.median(SECTION, EXEC);
    report.at_most(&format!("{SECTION}: {EXEC}, p50 in ms"), median, BAR);
    Ok(())
}

/// Where the client is installed.
fn packages() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join(target).join("node/cloudflare")
}

//! What `make package` makes: that its static binary runs on any Linux, whatever the root file system
//! lacks, and that packages hold what they should.
//!
//! `SANDSHELL_PACKAGES` names the directory to look at; `scripts/test` has one made with `scripts/package
//! --quick`, and `make package` has the real one looked at. Everything is run in bubblewrap.

mod contents;
mod image;
mod roots;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandshell_client::Client;
use sandshell_client::types::{ErrorCode, ExecRequest, SessionRequest};
use sandshell_client::{ClientError, types::Problem};
use serde_json::Value;

use crate::calls::{exec, exec_of, in_time, skipped, text};
use image::Image;
use roots::{Kind, Place};

/// Longest time of a start: what people feel as none.
const QUICK: Duration = Duration::from_millis(10);

/// Names of processors as packages have them.
const ARCH: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};

/// The directory of packages; a test without it says so and does nothing.
fn packages() -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("SANDSHELL_PACKAGES") else {
        skipped("SANDSHELL_PACKAGES is not set; scripts/test and `make package` set it");
        return None;
    };
    let dir = crate::house::root().join(dir);
    assert!(dir.is_dir(), "{} is no directory", dir.display());
    Some(dir)
}

fn binary(packages: &Path) -> PathBuf {
    packages.join(format!("sandshell-linux-{ARCH}"))
}

#[test]
fn the_binary_starts_at_once() {
    let Some(packages) = packages() else { return };
    let start = || {
        let before = Instant::now();
        let output = std::process::Command::new(binary(&packages))
            .arg("version")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        before.elapsed()
    };
    // The best of many: what the machine does besides is not what is measured.
    let (begun, mut best) = (Instant::now(), start());
    while best > QUICK && begun.elapsed() < Duration::from_mins(1) {
        best = best.min(start());
    }
    assert!(best <= QUICK, "{best:?}");
}

#[tokio::test]
async fn it_runs_in_a_root_with_nothing_else() {
    runs_in(Kind::Scratch, false).await;
}

#[tokio::test]
async fn it_runs_in_a_root_with_bash_alone() {
    runs_in(Kind::Scratch, true).await;
}

#[tokio::test]
async fn it_runs_in_a_root_of_musl_and_busybox() {
    runs_in(Kind::Musl, false).await;
}

#[tokio::test]
async fn it_runs_in_a_root_of_musl_with_bash() {
    runs_in(Kind::Musl, true).await;
}

#[tokio::test]
async fn it_runs_in_debian_without_bash() {
    runs_in(Kind::Debian, false).await;
}

#[tokio::test]
async fn it_runs_in_debian() {
    runs_in(Kind::Debian, true).await;
}

/// The image of the Dockerfile, with another root below it: first every command that a person would
/// try, then the agent as its entrypoint.
async fn runs_in(kind: Kind, bash: bool) {
    let Some(packages) = packages() else { return };
    let image = Image::read();
    let place = match Place::build(kind, bash) {
        Ok(place) => place.with(&image, &packages),
        Err(why) => return skipped(&why),
    };
    place.proves_itself();

    let version = place.output(&image, &["version"]);
    assert!(version.starts_with(concat!("sandshell ", env!("CARGO_PKG_VERSION"))));
    doctor_sees(&place, &image, bash);

    let agent = place.agent(&image);
    let client = agent.client(&place, &image);
    // Programs are there without any shell.
    let program = image.entrypoint()[0].clone();
    let request = ExecRequest {
        argv: Some(vec![program, "version".to_owned()]),
        ..ExecRequest::default()
    };
    let ran = in_time(client.exec(&request)).await.unwrap();
    assert_eq!((ran.exit_code, ran.stdout), (0, version), "{}", ran.stderr);
    if bash {
        let ran = exec(&client, "echo ${BASH_VERSION:+bash}").await;
        assert_eq!(
            (ran.stdout.as_str(), ran.exit_code),
            ("bash\n", 0),
            "{ran:?}"
        );
        keeps_a_session(&client).await;
    } else if kind == Kind::Scratch {
        let refused = in_time(client.exec(&exec_of("echo hello"))).await;
        let problem = problem_of(refused);
        assert_eq!(problem.code, ErrorCode::ProgramNotFound, "{problem:?}");
        assert!(problem.detail.contains("no shell"), "{problem:?}");
        assert!(problem.hint.is_some_and(|hint| hint.contains("argv")));
    } else {
        let ran = exec(&client, "echo ${BASH_VERSION:-sh}").await;
        assert_eq!((ran.stdout.as_str(), ran.exit_code), ("sh\n", 0), "{ran:?}");
        keeps_a_session(&client).await;
    }
}

async fn keeps_a_session(client: &Client) {
    let request = SessionRequest::default();
    let id = in_time(client.create_session(&request)).await.unwrap().id;
    for (command, said) in [
        ("cd /etc; word=kept", ""),
        ("echo $PWD $word", "/etc kept\n"),
    ] {
        let ran = in_time(client.session_exec(&id, &text(command))).await;
        assert_eq!(ran.unwrap().stdout, said, "{command}");
    }
}

fn problem_of<T: std::fmt::Debug>(reply: Result<T, ClientError>) -> Problem {
    match reply.unwrap_err() {
        ClientError::Problem(problem) => *problem,
        other => panic!("{other:?}"),
    }
}

/// The report is whole wherever it is made, and true about bash.
fn doctor_sees(place: &Place, image: &Image, bash: bool) {
    let output = place
        .command(image, &["doctor", "--json"])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let rows = report["checks"].as_array().unwrap();
    assert!(rows.len() > 15, "{report:#}");
    let row = rows.iter().find(|row| row["name"] == "bash").unwrap();
    assert_eq!(row["status"] == "ok", bash, "{row}");
    assert_eq!(row["remedy"].is_null(), bash, "{row}");
    assert_eq!(output.status.success(), report["status"] != "fail");
}

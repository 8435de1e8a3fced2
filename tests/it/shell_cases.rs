//! The shell cases, run through us and through plain bash: stdout, stderr, status and the state
//! seen by the next command are equal.

use std::fs;
use std::path::Path;

use sandshell_client::Client;
use sandshell_testkit::{Agent, Hub};
use sandshell_tests::cases::{self, Case, Observed, PROBE, show};
use sandshell_types::{
    Encoded, Encoding, ExecRequest, SessionExecRequest, SessionRequest, TextEncoding,
};

use crate::hub::spec_of;

fn bytes(text: &str, encoding: TextEncoding) -> Vec<u8> {
    Encoded::decode(text, encoding).unwrap()
}

/// Empties a directory without replacing it: waiting shells are already in it.
fn empty(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
}

async fn exec(client: &Client, step: &str, stdin: Option<&str>, cwd: Option<&Path>) -> Observed {
    let result = client
        .exec(&ExecRequest {
            command: Some(step.to_owned()),
            stdin: stdin.map(str::to_owned),
            cwd: cwd.map(|c| c.display().to_string()),
            encoding: Encoding::Base64,
            ..ExecRequest::default()
        })
        .await
        .unwrap();
    Observed {
        status: result.exit_code,
        stdout: bytes(&result.stdout, result.stdout_encoding),
        stderr: bytes(&result.stderr, result.stderr_encoding),
    }
}

/// Collects differences, so that one run shows them all.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, what: &str, ours: &Observed, oracle: &Observed) {
        if ours != oracle {
            self.0.push(format!(
                "== {what}\n-- ours: {}\n-- bash: {}\n",
                show(ours),
                show(oracle)
            ));
        }
    }

    fn finish(self, compared: usize) {
        assert!(
            self.0.is_empty(),
            "{} of {compared} steps differ\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

#[test]
fn there_are_enough_cases_and_their_names_are_unique() {
    let cases = cases::load();
    assert!(cases.len() >= 150, "{}", cases.len());
    let mut names: Vec<&str> = cases.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_does_what_plain_bash_does() {
    let agent = Agent::start();
    let client = agent.client();
    let mut differences = Differences::default();
    let mut compared = 0;
    for case in cases::load().iter().filter(|c| c.exec_only.is_none()) {
        compared += compare_session(&client, case, &mut differences).await;
    }
    differences.finish(compared);
}

async fn compare_session(client: &Client, case: &Case, differences: &mut Differences) -> usize {
    let work = tempfile::tempdir().unwrap();
    let cwd = work.path().join("cwd");
    let mut steps = case.steps.clone();
    steps.push(PROBE.to_owned());
    fs::create_dir(&cwd).unwrap();
    let oracle = cases::session_oracle(&steps, case.stdin.as_deref(), &cwd);
    fs::remove_dir_all(&cwd).unwrap();
    fs::create_dir(&cwd).unwrap();
    let session = client
        .create_session(&SessionRequest {
            cwd: Some(cwd.display().to_string()),
            ..SessionRequest::default()
        })
        .await
        .unwrap();
    for (i, (step, oracle)) in steps.iter().zip(&oracle).enumerate() {
        let result = client
            .session_exec(
                &session.id,
                &SessionExecRequest {
                    command: step.clone(),
                    stdin: case.stdin.clone(),
                    encoding: Encoding::Base64,
                    ..SessionExecRequest::default()
                },
            )
            .await
            .unwrap();
        let ours = Observed {
            status: result.exit_code,
            stdout: bytes(&result.stdout, result.stdout_encoding),
            stderr: bytes(&result.stderr, result.stderr_encoding),
        };
        let what = if i == case.steps.len() {
            "state".to_owned()
        } else {
            format!("step {i}: {step}")
        };
        differences.compare(&format!("session, {}, {what}", case.name), &ours, oracle);
    }
    client.delete_session(&session.id).await.unwrap();
    oracle.len()
}

/// Once through shells that were waiting, once through fresh ones.
#[tokio::test(flavor = "multi_thread")]
async fn an_exec_does_what_bash_c_does() {
    let home = tempfile::tempdir().unwrap();
    let agent = Agent::builder()
        .arg("--cwd")
        .arg(home.path().display().to_string())
        .start();
    let client = agent.client();
    let mut differences = Differences::default();
    let mut compared = 0;
    for case in cases::load().iter().filter(|c| c.session_only.is_none()) {
        for (i, step) in case.steps.iter().enumerate() {
            let stdin = case.stdin.as_deref();
            let oracle = cases::exec_oracle(step, stdin);
            let what = format!("{}, step {i}: {step}", case.name);
            empty(home.path());
            let ours = exec(&client, step, stdin, None).await;
            differences.compare(&format!("exec, {what}"), &ours, &oracle);
            let fresh = tempfile::tempdir().unwrap();
            let ours = exec(&client, step, stdin, Some(fresh.path())).await;
            differences.compare(&format!("exec in a directory, {what}"), &ours, &oracle);
            compared += 2;
        }
    }
    differences.finish(compared);
}

/// There init is another, and what a program begins with is what that gives.
#[tokio::test(flavor = "multi_thread")]
async fn an_exec_in_a_sandbox_does_what_bash_c_does() {
    let hub = Hub::start();
    let client = hub.client();
    let mut spec = spec_of("shell");
    // Who the oracle is.
    spec.user = Some("root".to_owned());
    let made = client.create_sandbox(&spec).await.unwrap();
    let inside = client.sandbox(&made.id);
    let place = Path::new("/workspace/case");
    let mut differences = Differences::default();
    let mut compared = 0;
    for case in cases::load().iter().filter(|c| c.session_only.is_none()) {
        for (i, step) in case.steps.iter().enumerate() {
            let stdin = case.stdin.as_deref();
            let oracle = cases::exec_oracle(step, stdin);
            let fresh = "rm -rf /workspace/case && mkdir /workspace/case";
            assert_eq!(exec(&inside, fresh, None, None).await.status, 0);
            let ours = exec(&inside, step, stdin, Some(place)).await;
            let what = format!("in a sandbox, {}, step {i}: {step}", case.name);
            differences.compare(&what, &ours, &oracle);
            compared += 1;
        }
    }
    differences.finish(compared);
}

//! The scenario of `scenario.toml`, run for every language and driver.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandshell_client::Client;
use sandshell_client::types::{
    ContextId, ContextOutcome, ContextRequest, Encoded, Encoding, ErrorCode, KernelChoice,
    Language, RunEnd, RunError, RunEvent, RunRequest, RunResult, RunStatus,
};
use sandshell_testkit::Agent;
use serde::Deserialize;

use super::context_of;
use crate::calls::{code_of as refusal_of, in_time, skipped};

#[derive(Debug, Deserialize)]
struct Scenario {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    python: Vec<Step>,
    jupyter: Option<Vec<Step>>,
    javascript: Vec<Step>,
    typescript: Option<Vec<Step>>,
    bash: Vec<Step>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    code: String,
    pad: String,
    times: usize,
    action: Option<String>,
    env: BTreeMap<String, String>,
    timeout_ms: Option<u64>,
    interrupt_at: Option<String>,
    status: Option<RunStatus>,
    outcome: Option<ContextOutcome>,
    stdout: Option<String>,
    stderr: Option<String>,
    stderr_has: Option<String>,
    repeated: Option<(String, usize)>,
    bytes: bool,
    counted: Option<usize>,
    result: Option<String>,
    result_length: Option<usize>,
    results: Option<usize>,
    has: Vec<String>,
    order: Option<String>,
    error: Option<String>,
    value: Option<String>,
    traceback: Option<String>,
    without: Option<String>,
}

/// All that came of a run.
#[derive(Debug, Default)]
struct Seen {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    results: Vec<RunResult>,
    error: Option<RunError>,
    order: Vec<&'static str>,
    end: Option<RunEnd>,
}

async fn run(client: &Client, id: &ContextId, step: &Step) -> Seen {
    let request = RunRequest {
        code: step.pad.repeat(step.times) + &step.code,
        timeout_ms: step.timeout_ms,
        env: step
            .env
            .iter()
            .map(|(name, value)| (name.clone(), Some(value.clone())))
            .collect(),
        encoding: Encoding::Auto,
        ..Default::default()
    };
    let mut events = in_time(client.run_code_stream(id, &request)).await.unwrap();
    let mut seen = Seen::default();
    let mut interrupted = false;
    while let Some(event) = in_time(events.next()).await {
        assert!(seen.end.is_none(), "something after the end");
        let kind = match event.unwrap() {
            RunEvent::Started(_) => "started",
            RunEvent::Stdout(piece) => {
                seen.stdout
                    .extend(Encoded::decode(&piece.data, piece.encoding).unwrap());
                "stdout"
            }
            RunEvent::Stderr(piece) => {
                seen.stderr
                    .extend(Encoded::decode(&piece.data, piece.encoding).unwrap());
                "stderr"
            }
            RunEvent::Truncated(gap) => panic!("output is missing: {gap:?}"),
            RunEvent::Result(result) => {
                seen.results.push(result);
                "result"
            }
            RunEvent::Error(error) => {
                seen.error = Some(error);
                "error"
            }
            RunEvent::End(end) => {
                seen.end = Some(end);
                "end"
            }
        };
        if seen.order.last() != Some(&kind) {
            seen.order.push(kind);
        }
        if let Some(text) = &step.interrupt_at
            && !interrupted
            && String::from_utf8_lossy(&seen.stdout).contains(text)
        {
            interrupted = true;
            let reply = in_time(client.interrupt_context(id)).await.unwrap();
            let outcome = step.outcome.unwrap_or(ContextOutcome::Kept);
            assert_eq!(reply.outcome, outcome, "{}: {reply:?}", step.code);
            assert!(reply.run_id.is_some());
        }
    }
    seen
}

/// What is not as the step wants it.
fn check(step: &Step, seen: &Seen) -> Result<(), String> {
    let end = seen.end.as_ref().ok_or("there is no end")?;
    let expected = match (&step.status, &step.error) {
        (Some(status), _) => *status,
        (None, Some(_)) => RunStatus::Error,
        (None, None) => RunStatus::Ok,
    };
    let want = |holds: bool, what: &str| holds.then_some(()).ok_or_else(|| what.to_owned());
    want(end.status == expected, "status")?;
    let outcome = step.outcome.unwrap_or(ContextOutcome::Kept);
    want(end.context == outcome, "context")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some(stdout) = &step.stdout {
        want(text(&seen.stdout) == *stdout, "stdout")?;
    }
    if let Some(stderr) = &step.stderr {
        want(text(&seen.stderr) == *stderr, "stderr")?;
    }
    if let Some(part) = &step.stderr_has {
        want(text(&seen.stderr).contains(part), "stderr_has")?;
    }
    if let Some((unit, times)) = &step.repeated {
        want(seen.stdout == unit.repeat(*times).as_bytes(), "repeated")?;
    }
    if step.bytes {
        let all: Vec<u8> = (0..=255).collect();
        want(seen.stdout == all, "bytes")?;
    }
    if let Some(count) = step.counted {
        let mut counted = String::new();
        for n in 0..count {
            counted.push_str(&format!("{n},"));
        }
        want(text(&seen.stdout) == counted, "counted")?;
    }
    let main = seen.results.iter().find(|result| result.is_main);
    let plain = main.and_then(|result| result.data.get("text/plain")?.as_str());
    if let Some(result) = &step.result {
        want(plain == Some(result), "result")?;
    }
    if let Some(length) = step.result_length {
        want(plain.map(str::len) == Some(length), "result_length")?;
    }
    if let Some(count) = step.results {
        want(seen.results.len() == count, "results")?;
    }
    for mime in &step.has {
        let found = seen
            .results
            .iter()
            .any(|result| result.data.contains_key(mime));
        want(found, mime)?;
    }
    if let Some(order) = &step.order {
        let order = format!("started {order} end");
        want(seen.order.join(" ") == order, "order")?;
    }
    if let Some(name) = &step.error {
        let error = seen.error.as_ref().ok_or("there is no error")?;
        want(error.name == *name, "error")?;
        let traceback = error.traceback.join("\n");
        if let Some(value) = &step.value {
            want(error.value == *value, "value")?;
        }
        if let Some(part) = &step.traceback {
            want(traceback.contains(part), "traceback")?;
        }
        if let Some(part) = &step.without {
            want(!traceback.contains(part), "without")?;
        }
    } else if expected == RunStatus::Ok {
        want(seen.error.is_none(), "no error")?;
    }
    Ok(())
}

/// What came of a run, short enough to be read.
fn shown(seen: &Seen) -> String {
    let cut = |text: String| text.chars().take(300).collect::<String>();
    let output = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        format!("{} bytes {:?}", bytes.len(), cut(text))
    };
    format!(
        "stdout {}, stderr {}, {}, {:?}, {:?}",
        output(&seen.stdout),
        output(&seen.stderr),
        cut(format!("{:?}", seen.results)),
        seen.error,
        seen.end
    )
}

async fn play(client: &Client, request: &ContextRequest, pick: impl Fn(&Case) -> Vec<Step>) {
    let scenario: Scenario = toml::from_str(include_str!("scenario.toml")).unwrap();
    assert!(scenario.case.len() >= 30, "{} cases", scenario.case.len());
    let context = in_time(client.create_context(request)).await.unwrap();
    let mut wrong = Vec::new();
    for case in &scenario.case {
        for (n, step) in pick(case).iter().enumerate() {
            match step.action.as_deref() {
                Some("restart") => {
                    in_time(client.restart_context(&context.id)).await.unwrap();
                    continue;
                }
                Some("refused") => {
                    let again = in_time(client.run_code(&context.id, &super::code_of("1"))).await;
                    assert_eq!(refusal_of(again), ErrorCode::ContextEnded);
                    continue;
                }
                Some(other) => panic!("{other}"),
                None => {}
            }
            let seen = run(client, &context.id, step).await;
            if let Err(what) = check(step, &seen) {
                let shown = shown(&seen);
                wrong.push(format!("{}, step {n}: {what}: {shown}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    in_time(client.delete_context(&context.id)).await.unwrap();
}

#[tokio::test]
async fn python_with_the_built_in_driver() {
    let agent = Agent::start();
    play(&agent.client(), &context_of(Language::Python), |case| {
        case.python.clone()
    })
    .await;
}

#[tokio::test]
async fn javascript_with_the_built_in_driver() {
    let agent = Agent::start();
    play(&agent.client(), &context_of(Language::Javascript), |case| {
        case.javascript.clone()
    })
    .await;
}

#[tokio::test]
async fn typescript_with_the_built_in_driver() {
    let agent = Agent::start();
    play(&agent.client(), &context_of(Language::Typescript), |case| {
        let own = case.typescript.as_ref();
        own.unwrap_or(&case.javascript).clone()
    })
    .await;
}

#[tokio::test]
async fn bash_in_a_session() {
    let agent = Agent::start();
    play(&agent.client(), &context_of(Language::Bash), |case| {
        case.bash.clone()
    })
    .await;
}

#[tokio::test]
async fn python_in_a_jupyter_kernel() {
    let Some(venv) = python_environment() else {
        return;
    };
    let agent = Agent::start();
    let request = ContextRequest {
        kernel: KernelChoice::Jupyter,
        ..with_packages(&venv)
    };
    play(&agent.client(), &request, |case| {
        case.jupyter.as_ref().unwrap_or(&case.python).clone()
    })
    .await;
}

#[tokio::test]
async fn a_jupyter_kernel_leaves_no_file_behind() {
    let Some(venv) = python_environment() else {
        return;
    };
    let agent = Agent::start();
    let client = agent.client();
    let request = ContextRequest {
        kernel: KernelChoice::Jupyter,
        ..with_packages(&venv)
    };
    let id = in_time(client.create_context(&request)).await.unwrap().id;
    let code =
        "from ipykernel.connect import get_connection_file\nprint(get_connection_file(), end='')";
    let file = PathBuf::from(super::run(&client, &id, code).await.stdout);
    let directory = file.parent().unwrap().to_owned();
    assert!(file.exists() && directory.starts_with("/tmp"), "{file:?}");
    in_time(client.delete_context(&id)).await.unwrap();
    assert!(!directory.exists());
}

/// What an agent that was killed left in /tmp goes when the next one takes its state directory.
#[tokio::test]
async fn the_next_agent_removes_what_a_killed_one_left_of_a_kernel() {
    let Some(venv) = python_environment() else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let start = |ready: &'static str| {
        let socket = format!("unix:{}", state.path().join("agent.sock").display());
        let child = std::process::Command::new(sandshell_testkit::find_binary())
            .args(["agent", "--listen", &socket, "--state-dir"])
            .arg(state.path().join("state"))
            .arg("--ready-file")
            .arg(state.path().join(ready))
            .spawn()
            .unwrap();
        (child, Client::new(&socket, None).unwrap())
    };
    let is_ready = async |ready: &str| {
        let file = state.path().join(ready);
        crate::signs::until_so(state.path(), || file.exists()).await;
    };
    let (mut first, client) = start("1");
    is_ready("1").await;
    let request = ContextRequest {
        kernel: KernelChoice::Jupyter,
        ..with_packages(&venv)
    };
    let id = in_time(client.create_context(&request)).await.unwrap().id;
    let code =
        "from ipykernel.connect import get_connection_file\nprint(get_connection_file(), end='')";
    let file = PathBuf::from(super::run(&client, &id, code).await.stdout);
    let directory = file.parent().unwrap().to_owned();
    first.kill().unwrap();
    first.wait().unwrap();
    let there = directory.exists();
    let _ = std::fs::remove_file(state.path().join("agent.sock"));
    let (mut second, _) = start("2");
    is_ready("2").await;
    let left = directory.exists();
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(there && !left, "{directory:?}");
}

/// The Python environment with numpy, matplotlib, pandas and ipykernel that `scripts/test` makes.
pub(super) fn python_environment() -> Option<PathBuf> {
    let given = std::env::var_os("SANDSHELL_TEST_VENV").map(PathBuf::from);
    let usual = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-venv");
    let found = given
        .into_iter()
        .chain([usual])
        .find(|path| path.join("bin/python3").exists());
    if found.is_none() {
        skipped("target/test-venv is not there; scripts/test makes it");
    }
    found.map(|path| path.canonicalize().unwrap())
}

pub(super) fn with_packages(venv: &std::path::Path) -> ContextRequest {
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", venv.display());
    ContextRequest {
        env: crate::calls::env(&[("PATH", Some(&path))]),
        ..context_of(Language::Python)
    }
}

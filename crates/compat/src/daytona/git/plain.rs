//! What git itself is asked for, as a command in the sandbox.

use axum::Json;
use axum::extract::Query;
use http::StatusCode;
use sandshell_client::Client;
use sandshell_client::types::{ErrorCode, ExecRequest, ExecResult, OnDisconnect};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::daytona::body::Given;
use crate::daytona::error::Fault;
use crate::daytona::reach::Sandbox;

type Done = Result<StatusCode, Fault>;

/// Runs git in a directory, and without one at the sandbox's.
async fn run(
    sandbox: &Client,
    path: Option<&str>,
    arguments: Vec<String>,
) -> Result<ExecResult, Fault> {
    let mut argv = vec!["git".to_owned()];
    if let Some(path) = path {
        argv.extend(["-C".to_owned(), path.to_owned()]);
    }
    argv.extend(arguments);
    let request = ExecRequest {
        argv: Some(argv),
        env: [("LC_ALL".to_owned(), Some("C".to_owned()))].into(),
        on_disconnect: OnDisconnect::Kill,
        ..ExecRequest::default()
    };
    match sandbox.exec(&request).await {
        Err(error) if error.code() == Some(ErrorCode::ProgramNotFound) => Err(Fault::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "UNPROCESSABLE_ENTITY",
            "git is not installed in the sandbox",
        )),
        other => Ok(other?),
    }
}

/// The same for what must succeed.
async fn done(
    sandbox: &Client,
    path: Option<&str>,
    arguments: Vec<String>,
) -> Result<String, Fault> {
    let result = run(sandbox, path, arguments).await?;
    if result.exit_code == 0 {
        return Ok(result.stdout);
    }
    let said = result.stderr.trim();
    if said.contains("not a git repository") || said.contains("cannot change to") {
        return Err(Fault::new(
            StatusCode::NOT_FOUND,
            "GIT_REPO_NOT_FOUND",
            said,
        ));
    }
    Err(Fault::invalid(said))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[derive(Deserialize)]
pub(in crate::daytona) struct Init {
    path: String,
    bare: Option<bool>,
    initial_branch: Option<String>,
}

pub(in crate::daytona) async fn init(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Init>,
) -> Result<StatusCode, Fault> {
    let mut arguments = words(&["init", "--quiet"]);
    if asked.bare == Some(true) {
        arguments.push("--bare".to_owned());
    }
    if let Some(branch) = asked.initial_branch.filter(|branch| !branch.is_empty()) {
        arguments.push(format!("--initial-branch={branch}"));
    }
    arguments.extend(["--".to_owned(), asked.path]);
    done(&sandbox, None, arguments).await?;
    Ok(StatusCode::CREATED)
}

#[derive(Deserialize)]
pub(in crate::daytona) struct Reset {
    path: String,
    mode: Option<String>,
    target: Option<String>,
    files: Option<Vec<String>>,
}

pub(in crate::daytona) async fn reset(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Reset>,
) -> Done {
    let mut arguments = words(&["reset", "--quiet"]);
    match asked.mode.as_deref() {
        None | Some("") => {}
        Some(mode @ ("soft" | "mixed" | "hard" | "merge" | "keep")) => {
            arguments.push(format!("--{mode}"));
        }
        Some(other) => return Err(Fault::invalid(format!("{other:?} is not a mode of reset"))),
    }
    let target = asked.target.filter(|target| !target.is_empty());
    arguments.push(revision(target.as_deref().unwrap_or("HEAD"))?);
    arguments.push("--".to_owned());
    arguments.extend(asked.files.unwrap_or_default());
    done(&sandbox, Some(&asked.path), arguments).await?;
    Ok(StatusCode::OK)
}

/// A revision, which is not an option.
fn revision(text: &str) -> Result<String, Fault> {
    if text.starts_with('-') {
        return Err(Fault::invalid(format!("{text:?} is not a revision")));
    }
    Ok(text.to_owned())
}

#[derive(Deserialize)]
pub(in crate::daytona) struct Restore {
    path: String,
    files: Vec<String>,
    staged: Option<bool>,
    worktree: Option<bool>,
    source: Option<String>,
}

pub(in crate::daytona) async fn restore(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Restore>,
) -> Done {
    let mut arguments = words(&["restore", "--quiet"]);
    if asked.staged == Some(true) {
        arguments.push("--staged".to_owned());
    }
    if asked.worktree == Some(true) {
        arguments.push("--worktree".to_owned());
    }
    if let Some(source) = asked.source.filter(|source| !source.is_empty()) {
        arguments.push(format!("--source={source}"));
    }
    arguments.push("--".to_owned());
    arguments.extend(asked.files);
    done(&sandbox, Some(&asked.path), arguments).await?;
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
pub(in crate::daytona) struct Of {
    path: String,
}

pub(in crate::daytona) async fn remotes(
    Sandbox(sandbox): Sandbox,
    Query(of): Query<Of>,
) -> Result<Json<Value>, Fault> {
    let listed = done(&sandbox, Some(&of.path), words(&["remote", "-v"])).await?;
    let remotes: Vec<Value> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(" (fetch)")?.split_once('\t'))
        .map(|(name, url)| json!({"name": name, "url": url}))
        .collect();
    Ok(Json(json!({"remotes": remotes})))
}

#[derive(Deserialize)]
pub(in crate::daytona) struct AddRemote {
    path: String,
    name: String,
    url: String,
    fetch: Option<bool>,
    overwrite: Option<bool>,
}

pub(in crate::daytona) async fn add_remote(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<AddRemote>,
) -> Result<StatusCode, Fault> {
    let path = Some(asked.path.as_str());
    let known = words(&["remote", "get-url", "--", &asked.name]);
    let there = run(&sandbox, path, known).await?.exit_code == 0;
    let verb = match (there, asked.overwrite == Some(true)) {
        (false, _) => "add",
        (true, true) => "set-url",
        (true, false) => {
            let message = format!("remote {} already exists", asked.name);
            return Err(Fault::conflict(message));
        }
    };
    let put = words(&["remote", verb, "--", &asked.name, &asked.url]);
    done(&sandbox, path, put).await?;
    if asked.fetch == Some(true) {
        done(&sandbox, path, words(&["fetch", "--", &asked.name])).await?;
    }
    Ok(StatusCode::CREATED)
}

/// Where a setting is, as an option of `git config`.
fn scope(scope: Option<&str>) -> Result<&'static str, Fault> {
    match scope {
        None | Some("" | "global") => Ok("--global"),
        Some("local") => Ok("--local"),
        Some("system") => Ok("--system"),
        Some(other) => Err(Fault::invalid(format!(
            "{other:?} is not global, local or system"
        ))),
    }
}

#[derive(Deserialize)]
pub(in crate::daytona) struct Setting {
    key: String,
    value: Option<String>,
    scope: Option<String>,
    path: Option<String>,
}

impl Setting {
    fn path(&self) -> Option<&str> {
        self.path.as_deref().filter(|path| !path.is_empty())
    }
}

pub(in crate::daytona) async fn config(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Setting>,
) -> Result<Json<Value>, Fault> {
    let place = scope(asked.scope.as_deref())?;
    let arguments = words(&["config", place, "--get", "--", &asked.key]);
    let result = run(&sandbox, asked.path(), arguments).await?;
    match result.exit_code {
        0 => {
            let value = result.stdout.strip_suffix('\n').unwrap_or(&result.stdout);
            Ok(Json(json!({"key": asked.key, "value": value})))
        }
        // It is not set.
        1 => Ok(Json(json!({"key": asked.key, "value": null}))),
        _ => Err(Fault::invalid(result.stderr.trim())),
    }
}

pub(in crate::daytona) async fn set_config(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Setting>,
) -> Done {
    let place = scope(asked.scope.as_deref())?;
    let value = asked.value.clone().unwrap_or_default();
    let arguments = words(&["config", place, "--", &asked.key, &value]);
    done(&sandbox, asked.path(), arguments).await?;
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
pub(in crate::daytona) struct User {
    name: String,
    email: String,
    scope: Option<String>,
    path: Option<String>,
}

pub(in crate::daytona) async fn set_user(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<User>,
) -> Done {
    let place = scope(asked.scope.as_deref())?;
    let path = asked.path.as_deref().filter(|path| !path.is_empty());
    for (key, value) in [("user.name", &asked.name), ("user.email", &asked.email)] {
        let arguments = words(&["config", place, "--", key, value]);
        done(&sandbox, path, arguments).await?;
    }
    Ok(StatusCode::OK)
}

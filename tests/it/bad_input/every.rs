//! Bad input for every operation, read from the `OpenAPI` document: a new route is tested without a word.

use http::{HeaderMap, Method};
use sandshell_client::types::Problem;
use sandshell_testkit::{Agent, find_binary};
use serde_json::Value;

use super::{json, table};
use crate::calls::in_time;

/// Operations that the table does not try yet.
const NOT_IN_THE_TABLE: &[&str] = &[];

struct Operation {
    method: Method,
    path: String,
    description: Value,
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Probes and pages take anything, and have nothing that could be wrong.
    fn is_open(&self) -> bool {
        self.description.get("security").is_some()
    }

    /// A path of the form, with ids of nothing. A port is a number, everything else text.
    fn path(&self) -> String {
        let parts = self.path.split('/').map(|part| match part {
            "{port}" => "1",
            part if part.starts_with('{') => "gone",
            part => part,
        });
        parts.collect::<Vec<_>>().join("/")
    }

    fn fits(&self, method: &Method, path: &str) -> bool {
        let path = path.split('?').next().unwrap();
        let parts: Vec<&str> = self.path.split('/').collect();
        let rest = parts.last().is_some_and(|part| part.starts_with("{*"));
        let given: Vec<&str> = path.split('/').collect();
        self.method == *method
            && (given.len() == parts.len() || rest && given.len() > parts.len())
            && parts
                .iter()
                .zip(&given)
                .all(|(part, given)| part == given || part.starts_with('{'))
    }
}

fn operations() -> Vec<Operation> {
    let printed = std::process::Command::new(find_binary())
        .arg("openapi")
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, description) in item.as_object().unwrap() {
            all.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                description: description.clone(),
            });
        }
    }
    all
}

#[test]
fn the_table_tries_every_operation() {
    let table = table();
    let mut missing: Vec<String> = Vec::new();
    for operation in operations().iter().filter(|operation| !operation.is_open()) {
        if !table
            .iter()
            .any(|case| operation.fits(&case.method, case.path))
        {
            missing.push(operation.name());
        }
    }
    let (excused, missing): (Vec<_>, Vec<_>) = missing
        .into_iter()
        .partition(|name| NOT_IN_THE_TABLE.contains(&name.as_str()));
    assert!(
        missing.is_empty(),
        "no line of tests/it/bad_input.txt or tests/it/bad_input/*.txt tries:\n  {}\n\
         (excused so far: {excused:?})",
        missing.join("\n  ")
    );
}

/// Sends a request and says what is wrong with the refusal; `None` when it is a clear 400.
async fn refused(agent: &Agent, method: &Method, path: &str, body: &[u8]) -> Option<String> {
    let client = agent.client();
    let headers = json();
    let asked = client.raw(method.clone(), path, &headers, body.to_vec());
    let (status, head, answer) = in_time(asked).await.unwrap();
    let shown = String::from_utf8_lossy(body).into_owned();
    let problem = serde_json::from_slice::<Problem>(&answer).ok();
    let clear = status.as_u16() == 400
        && head["content-type"] == "application/problem+json"
        && problem.as_ref().is_some_and(|problem| {
            problem.code.as_str() == "invalid_request" && !problem.detail.is_empty()
        });
    (!clear).then(|| format!("{method} {path} {shown}: {status} {problem:?}"))
}

#[tokio::test]
async fn bodies_that_no_operation_takes() {
    let agent = Agent::start();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for operation in operations() {
        if operation.description["requestBody"]["content"]["application/json"].is_null() {
            continue;
        }
        for body in [
            "{",
            "{} more",
            "nonsense",
            "[]",
            "[{}]",
            "\"text\"",
            "null",
            "7",
            "{\"a\": 1,}",
            "{\"no_such_field\": 1}",
        ] {
            let path = operation.path();
            wrong.extend(refused(&agent, &operation.method, &path, body.as_bytes()).await);
        }
        let path = operation.path();
        wrong.extend(refused(&agent, &operation.method, &path, b"{\"\xff\": 1}").await);
        tried += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 5, "{tried} operations take JSON");
}

#[tokio::test]
async fn parameters_that_no_operation_takes() {
    let agent = Agent::start();
    let mut wrong = Vec::new();
    for operation in operations() {
        let proxied = operation.path.contains("/proxy");
        if operation.is_open() || proxied {
            continue;
        }
        let path = format!("{}?no_such_parameter=1", operation.path());
        wrong.extend(refused(&agent, &operation.method, &path, b"{}").await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn no_operation_is_open_without_the_token() {
    let agent = Agent::start();
    let stranger = sandshell_client::Client::new(agent.url(), None).unwrap();
    for operation in operations() {
        let (path, headers) = (operation.path(), HeaderMap::new());
        let asked = stranger.raw(operation.method.clone(), &path, &headers, "");
        let (status, _, _) = in_time(asked).await.unwrap();
        assert_eq!(
            status.as_u16() == 401,
            !operation.is_open(),
            "{}: {status}",
            operation.name()
        );
    }
}

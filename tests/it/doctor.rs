//! `sandshell doctor`: its shape, its exit codes, and that it finds what is wrong.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use sandshell_testkit::{Hub, UnprivilegedUser, find_binary};
use serde_json::Value;
use tempfile::TempDir;

use crate::calls::{DEADLINE, skipped};

/// The rows, in order.
const NAMES: &[&str] = &[
    "kernel",
    "user-namespaces",
    "control-groups",
    "landlock",
    "seccomp",
    "overlayfs",
    "inotify",
    "open-files",
    "disk",
    "inodes",
    "clock",
    "address",
    "token-file",
    "bash",
    "git",
    "tar",
    "python3",
    "node",
    "sandbox",
];

/// An address that nothing listens on: a port that was ours a moment ago.
fn free_address() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().to_string()
}

fn doctor(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(find_binary());
    command
        .arg("doctor")
        .args(arguments)
        .env("XDG_STATE_HOME", dir)
        .env("XDG_RUNTIME_DIR", dir)
        .env("XDG_CONFIG_HOME", dir)
        .env_remove("SANDSHELL_URL")
        .env_remove("SANDSHELL_HUB")
        .env_remove("SANDSHELL_TOKEN")
        .env_remove("SANDSHELL_STATE_DIR")
        .env_remove("SANDSHELL_TOKEN_FILE");
    if !arguments.contains(&"--listen") {
        command.env("SANDSHELL_LISTEN", free_address());
    }
    command
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A row of its report. It asks for 2 s, and a machine may stand still for longer: as long as it does not say this, it
/// is run again.
fn row_that_says(command: &mut Command, name: &str, said: &str) -> Value {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let json = report(&command.output().unwrap());
        let row = row(&json, name);
        let says = row["value"]
            .as_str()
            .is_some_and(|text| text.contains(said));
        if says || Instant::now() > deadline {
            return row.clone();
        }
    }
}

fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = report["checks"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

/// What holds for every report, wherever it was made.
fn has_its_shape(report: &Value) {
    let rows = report["checks"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, NAMES);
    for row in rows {
        let status = row["status"].as_str().unwrap();
        assert!(["ok", "warn", "fail"].contains(&status), "{row}");
        assert!(!row["value"].as_str().unwrap().is_empty(), "{row}");
        // Whatever is not well has a remedy, and nothing else has.
        assert_eq!(row["remedy"].is_string(), status != "ok", "{row}");
    }
    let rank = |status: &str| ["ok", "warn", "fail"].iter().position(|s| *s == status);
    let worst = rows.iter().filter_map(|row| row["status"].as_str());
    let worst = worst.max_by_key(|status| rank(status));
    assert_eq!(report["status"].as_str(), worst);
    for one in report["isolation"]["protections"].as_array().unwrap() {
        let enforced = one["status"] == "enforced";
        assert!(enforced || one["reason"].is_string(), "{one}");
    }
}

fn nothing_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn tells_the_same_as_text_and_as_json() {
    let dir = TempDir::new().unwrap();
    let output = doctor(dir.path(), &["--json"]).output().unwrap();
    let json = report(&output);
    has_its_shape(&json);
    assert_eq!(output.status.success(), json["status"] != "fail");
    let output = doctor(dir.path(), &[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (rows, rest) = text.split_once("\n\n").unwrap();
    let mut lines = rows.lines().filter(|line| !line.starts_with(' '));
    for row in json["checks"].as_array().unwrap() {
        let words = [
            row["status"].as_str().unwrap(),
            row["name"].as_str().unwrap(),
        ];
        let line: Vec<&str> = lines.next().unwrap().split_whitespace().take(2).collect();
        assert_eq!(line, words, "{text}");
    }
    assert_eq!(lines.next(), None, "{text}");
    assert!(rest.starts_with("What isolation you get here"), "{text}");
    let all = json["isolation"]["protections"].as_array().unwrap();
    for one in all {
        assert!(rest.contains(one["name"].as_str().unwrap()), "{text}");
    }
    assert!(!text.contains('\x1b'), "colours without a terminal");
    nothing_left(dir.path());
}

/// Where tests run as root, strict sandboxes are expected; that is what the others need too.
#[test]
fn root_gets_strict_sandboxes() {
    if UnprivilegedUser::get().is_none() {
        skipped("only root gets all protections, and this is not root");
        return;
    }
    let dir = TempDir::new().unwrap();
    let output = doctor(dir.path(), &["--json"]).output().unwrap();
    let report = report(&output);
    assert!(output.status.success(), "{report:#}");
    assert_eq!(row(&report, "user-namespaces")["status"], "ok");
    assert_eq!(
        report["isolation"]["policies"],
        serde_json::json!(["strict", "best_effort"]),
        "{report:#}"
    );
}

#[test]
fn an_ordinary_user_is_warned_and_only_strict_fails() {
    let Some(user) = UnprivilegedUser::get() else {
        skipped("only root can become an ordinary user for a test");
        return;
    };
    let dir = TempDir::new().unwrap();
    user.own(dir.path());
    let run = |arguments: &[&str]| {
        let mut command = doctor(dir.path(), arguments);
        command.uid(user.uid).gid(user.gid).output().unwrap()
    };
    let output = run(&["--json"]);
    let json = report(&output);
    has_its_shape(&json);
    assert!(output.status.success(), "{json:#}");
    assert_eq!(row(&json, "user-namespaces")["status"], "ok");
    let groups = row(&json, "control-groups");
    assert_eq!(groups["status"], "warn", "{groups}");
    assert!(groups["remedy"].as_str().unwrap().contains("Delegate=yes"));
    assert_eq!(row(&json, "sandbox")["status"], "warn");
    let isolation = &json["isolation"];
    assert_eq!(isolation["policies"], serde_json::json!(["best_effort"]));
    assert_eq!(run(&["--json", "--strict"]).status.code(), Some(1));
    nothing_left(dir.path());
}

/// In a place where no namespace can be made.
#[test]
fn fails_where_there_are_no_user_namespaces() {
    let dir = TempDir::new().unwrap();
    let mut command = Command::new("bwrap");
    command
        .args([
            "--unshare-user",
            "--disable-userns",
            "--unshare-pid",
            "--unshare-net",
        ])
        .args(["--uid", "1000", "--gid", "1000", "--die-with-parent"])
        .args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"])
        .arg("--bind")
        .args([dir.path(), dir.path()])
        .args(["--setenv", "XDG_STATE_HOME"])
        .arg(dir.path())
        .args(["--setenv", "XDG_RUNTIME_DIR"])
        .arg(dir.path())
        .arg(find_binary())
        .args(["doctor", "--json"]);
    let output = command.output().unwrap();
    let json = report(&output);
    has_its_shape(&json);
    assert_eq!(output.status.code(), Some(1), "{json:#}");
    let namespaces = row(&json, "user-namespaces");
    assert_eq!(namespaces["status"], "fail", "{namespaces}");
    assert!(
        namespaces["value"]
            .as_str()
            .unwrap()
            .contains("none can be made")
    );
    assert_eq!(row(&json, "sandbox")["status"], "fail");
    let isolation = &json["isolation"];
    assert_eq!(isolation["policies"], serde_json::json!([]));
    assert!(isolation["error"].is_string(), "{isolation}");
    nothing_left(dir.path());
}

#[test]
fn finds_a_token_that_others_can_read() {
    let dir = TempDir::new().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let file = state.join("token");
    fs::write(&file, "sk_secret-of-the-hub\n").unwrap();
    let arguments = ["--json", "--state-dir", state.to_str().unwrap()];
    for (mode, status) in [(0o644, "fail"), (0o640, "fail"), (0o600, "ok")] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let output = doctor(dir.path(), &arguments).output().unwrap();
        let json = report(&output);
        let token = row(&json, "token-file");
        assert_eq!(token["status"], status, "{token}");
        assert_eq!(output.status.success(), status == "ok", "{json:#}");
        let said = json.to_string();
        assert!(!said.contains("secret"), "{said}");
        if status == "fail" {
            let remedy = format!("chmod 600 {}", file.display());
            assert_eq!(token["remedy"], remedy);
        }
    }
}

#[test]
fn tells_who_has_the_address() {
    let dir = TempDir::new().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let output = doctor(dir.path(), &["--json", "--listen", &address]).output();
    let json = report(&output.unwrap());
    let taken = row(&json, "address");
    assert_eq!(taken["status"], "warn", "{taken}");
    let by = format!("(pid {})", std::process::id());
    assert!(taken["value"].as_str().unwrap().contains(&by), "{taken}");
    drop(socket);
    // A hub of ours may have it.
    let hub = Hub::start();
    let address = hub.url().trim_start_matches("http://");
    let mut command = doctor(dir.path(), &["--json", "--listen", address]);
    let ours = row_that_says(&mut command, "address", "has a hub");
    assert_eq!(ours["status"], "ok", "{ours}");
    assert!(
        ours["value"].as_str().unwrap().contains("has a hub"),
        "{ours}"
    );
}

#[test]
fn the_hub_that_was_chosen_is_asked() {
    let dir = TempDir::new().unwrap();
    let hub = Hub::start();
    let nobody = format!("http://{}", free_address());
    for (url, token, status, said) in [
        (hub.url(), hub.token(), "ok", "takes the token"),
        (hub.url(), "wrong", "warn", "token"),
        (&nobody, hub.token(), "warn", "does not answer"),
    ] {
        let mut command = doctor(dir.path(), &["--json"]);
        command
            .env("SANDSHELL_URL", url)
            .env("SANDSHELL_TOKEN", token);
        let row = row_that_says(&mut command, "hub", said);
        assert_eq!(row["status"], status, "{row}");
        assert!(row["value"].as_str().unwrap().contains(said), "{row}");
    }
}

#[test]
fn the_file_of_a_served_hub_is_missed_only_where_there_is_no_other_token() {
    let dir = TempDir::new().unwrap();
    let hub = Hub::start();
    let address = hub.url().trim_start_matches("http://");
    let mut command = doctor(dir.path(), &["--json", "--listen", address]);
    let missed = row_that_says(&mut command, "token-file", "has another");
    assert_eq!(missed["status"], "warn", "{missed}");
    command
        .env("SANDSHELL_URL", hub.url())
        .env("SANDSHELL_TOKEN", hub.token());
    let known = row_that_says(&mut command, "token-file", "is made by `sandshell serve`");
    assert_eq!(known["status"], "ok", "{known}");
}

//! The shell cases in `tests/cases/*.toml` and their oracles: what plain bash does with them.
//!
//! A case is a list of steps. As a session, the steps run one after another in one shell; the
//! oracle is one plain bash that sources them in turn under the same name, so that even error
//! messages are equal byte for byte. As an exec, each step runs alone; the oracle is `bash -c STEP`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::Deserialize;

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub steps: Vec<String>,
    /// Standard input of every step.
    pub stdin: Option<String>,
    /// Why the steps are not run as execs.
    pub session_only: Option<String>,
    /// Why the steps are not run in a session.
    pub exec_only: Option<String>,
}

#[derive(Deserialize)]
struct CaseFile {
    case: Vec<Case>,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Shows bytes as text for a message.
pub fn show(observed: &Observed) -> String {
    format!(
        "status {}\n--- stdout\n{}\n--- stderr\n{}",
        observed.status,
        observed.stdout.escape_ascii(),
        observed.stderr.escape_ascii()
    )
}

/// Prints the state a session is left in, as far as it is the user's.
pub const PROBE: &str = r#"PATH=/usr/bin:/bin
pwd; umask; set +o; shopt -p; alias -p; declare -f; dirs -l; printf '[%s]' $# "$@"
declare -p | grep -avE '^declare -[^ ]* (BASH[A-Z_]*|EUID|UID|PPID|SHELLOPTS|_|PIPESTATUS|DIRSTACK|GROUPS|RANDOM|SRANDOM|SECONDS|EPOCH[A-Z]*|LINENO|SHLVL|FUNCNAME|COMP_WORDBREAKS|HOST[A-Z]*|MACHTYPE|OSTYPE|OPTERR|PS4|HISTCMD|OLDPWD|PWD|__rc)(=|$)'
"#;

/// All cases.
pub fn load() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let file: CaseFile =
                toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            file.case
        })
        .collect()
}

/// The environment both sides run with: the agent's base environment for the user of this test.
pub fn environment() -> Vec<(String, String)> {
    let uid = rustix::process::getuid().as_raw();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = passwd
        .lines()
        .map(|l| l.split(':').collect::<Vec<_>>())
        .find(|f| f.get(2) == Some(&uid.to_string().as_str()));
    let (name, home) = match &entry {
        Some(fields) => (fields[0].to_owned(), fields[5].to_owned()),
        None => (uid.to_string(), "/".to_owned()),
    };
    [
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ),
        ("HOME", home),
        ("USER", name.clone()),
        ("LOGNAME", name),
        ("SHELL", "/usr/bin/bash".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
    ]
    .map(|(k, v)| (k.to_owned(), v))
    .to_vec()
}

/// Runs plain bash; stdin, where given, comes through a pipe.
fn plain_bash(arguments: &[&str], cwd: &Path, stdin: Option<&str>) -> Output {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("/usr/bin/bash");
    // `$0` and the prefix of messages come from the name it is called by.
    command
        .arg0("bash")
        .args(arguments)
        .current_dir(cwd)
        .env_clear()
        .envs(environment());
    command.stdin(if stdin.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), stdin) {
        // The cases' inputs fit into a pipe; a program that reads none of it is no error.
        let _ = pipe.write_all(text.as_bytes());
    }
    child.wait_with_output().unwrap()
}

fn status(output: &Output) -> i32 {
    output
        .status
        .code()
        .unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0))
}

/// What `bash -c` does with a step.
pub fn exec_oracle(step: &str, stdin: Option<&str>) -> Observed {
    let cwd = tempfile::tempdir().unwrap();
    let output = plain_bash(&["-c", "--", step], cwd.path(), stdin);
    Observed {
        status: status(&output),
        stdout: output.stdout,
        stderr: output.stderr,
    }
}

/// What one plain bash does with the steps, one after another. Ends early where the shell exits.
pub fn session_oracle(steps: &[String], stdin: Option<&str>, cwd: &Path) -> Vec<Observed> {
    let work = tempfile::tempdir().unwrap();
    let at = |i: usize, file: &str| work.path().join(i.to_string()).join(file);
    let mut driver = "__rc=0\n".to_owned();
    let input = work.path().join("stdin");
    fs::write(&input, stdin.unwrap_or_default()).unwrap();
    let input = if stdin.is_some() {
        input.display().to_string()
    } else {
        "/dev/null".to_owned()
    };
    for (i, step) in steps.iter().enumerate() {
        fs::create_dir(work.path().join(i.to_string())).unwrap();
        fs::write(at(i, "command"), step).unwrap();
        driver.push_str(&format!(
            "exec 31<{dir}\n(exit $__rc)\n. /proc/self/fd/31/command <{input} >|{dir}/out 2>|{dir}/err\n__rc=$?;builtin echo $__rc >|{dir}/rc\n",
            dir = work.path().join(i.to_string()).display(),
        ));
    }
    let script = work.path().join("driver");
    fs::write(&script, driver).unwrap();
    let output = plain_bash(
        &["--norc", "--noprofile", &script.display().to_string()],
        cwd,
        None,
    );
    let mut observed = Vec::new();
    for i in 0..steps.len() {
        let (Ok(stdout), Ok(stderr)) = (fs::read(at(i, "out")), fs::read(at(i, "err"))) else {
            break;
        };
        let rc = fs::read_to_string(at(i, "rc"))
            .ok()
            .and_then(|t| t.trim().parse().ok());
        observed.push(Observed {
            status: rc.unwrap_or_else(|| status(&output)),
            stdout,
            stderr,
        });
    }
    observed
}

//! Places to put an intruder into: a sandbox at each level of privilege, and bubblewrap's.

use std::process::Stdio;
use std::time::Duration;

use sandshell_testkit::{UnprivilegedUser, find_binary};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// A few system calls wait for a second each; the rest is quick.
const DEADLINE: Duration = Duration::from_secs(150);

/// Who makes the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Root,
    User,
}

/// Somewhere to run a script.
#[derive(Debug)]
pub(super) struct Place {
    level: Level,
    /// The user inside.
    user: Option<&'static str>,
    /// The words before the script's own.
    words: Vec<String>,
    home: tempfile::TempDir,
    /// In the environment of whoever makes the place; not to be seen inside.
    secret: String,
}

/// Put where the place keeps nothing.
const INSTALL: &str = "cat > /tmp/intruder && chmod 755 /tmp/intruder && exec /tmp/intruder ";

impl Place {
    /// A sandbox; says why where it cannot be.
    pub(super) fn sandbox(level: Level, user: Option<&'static str>) -> Result<Self, String> {
        let mut words = as_level(level)?;
        words.push(find_binary().display().to_string());
        words.push("run".to_owned());
        words.extend(user.map(|user| format!("--user={user}")));
        words.push("--".to_owned());
        Ok(Self::new(level, user, words))
    }

    /// What `bwrap --unshare-all` makes.
    pub(super) fn bubblewrap(level: Level) -> Result<Self, String> {
        let mut words = as_level(level)?;
        if std::process::Command::new("bwrap")
            .arg("--version")
            .output()
            .is_err()
        {
            return Err("bubblewrap is not installed".to_owned());
        }
        let options = "bwrap --unshare-all --die-with-parent --new-session --clearenv \
             --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin \
             --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp \
             --setenv PATH /usr/bin:/usr/sbin";
        words.extend(options.split_whitespace().map(str::to_owned));
        Ok(Self::new(level, None, words))
    }

    fn new(level: Level, user: Option<&'static str>, words: Vec<String>) -> Self {
        let home = tempfile::tempdir().unwrap();
        if let (Level::User, Some(user)) = (level, UnprivilegedUser::get()) {
            user.own(home.path());
        }
        Self {
            level,
            user,
            words,
            home,
            secret: String::new(),
        }
    }

    pub(super) fn with_secret(mut self, secret: &str) -> Self {
        secret.clone_into(&mut self.secret);
        self
    }

    pub(super) fn as_root(&self) -> bool {
        self.user == Some("root")
    }

    /// Whether there is no more than one user id to be had.
    pub(super) fn one_id(&self) -> bool {
        self.level == Level::User
    }

    /// What the intruder prints in this place.
    pub(super) async fn intrude(&self, words: &str) -> String {
        let (said, errors) = self.run(&format!("{INSTALL}{words}"), &intruder()).await;
        assert!(!said.is_empty(), "{self:?}: {errors}");
        said
    }

    /// Puts the intruder there, to stand until its input ends. Says what it said on its first line.
    pub(super) async fn stand(&self, marker: &str) -> (Child, String) {
        let intruder = intruder();
        let script = format!(
            "head -c {} > /tmp/intruder && chmod 755 /tmp/intruder && exec /tmp/intruder stand {marker}",
            intruder.len()
        );
        let mut child = self.start(&script);
        let talk = async {
            let input = child.stdin.as_mut().unwrap();
            input.write_all(&intruder).await.unwrap();
            input.flush().await.unwrap();
            let mut line = String::new();
            let mut output = BufReader::new(child.stdout.as_mut().unwrap());
            output.read_line(&mut line).await.unwrap();
            line.trim_end().to_owned()
        };
        let line = tokio::time::timeout(DEADLINE, talk).await.unwrap();
        assert!(line.contains(marker), "{line:?}");
        (child, line)
    }

    fn start(&self, script: &str) -> Child {
        let (program, words) = self.words.split_first().unwrap();
        Command::new(program)
            .args(words)
            .args(["bash", "-c", script])
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("SECRET", &self.secret)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// What a script prints on its outputs.
    pub(super) async fn run(&self, script: &str, stdin: &[u8]) -> (String, String) {
        let mut child = self.start(script);
        let mut input = child.stdin.take().unwrap();
        let (mut output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (mut said, mut complained) = (Vec::new(), Vec::new());
        let talk = async {
            // A script that does not want it all closes the pipe.
            let write = async {
                let _ = input.write_all(stdin).await;
                drop(input);
            };
            let ((), read, read_errors) = tokio::join!(
                write,
                output.read_to_end(&mut said),
                errors.read_to_end(&mut complained)
            );
            read.and(read_errors).unwrap();
            child.wait().await.unwrap();
        };
        tokio::time::timeout(DEADLINE, talk)
            .await
            .unwrap_or_else(|_| panic!("{script:?} did not end in {self:?}"));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(said), text(complained))
    }
}

pub(super) fn intruder() -> Vec<u8> {
    std::fs::read(env!("CARGO_BIN_EXE_intruder")).unwrap()
}

/// The words that make what follows run at this level; says why where that cannot be.
fn as_level(level: Level) -> Result<Vec<String>, String> {
    match (level, UnprivilegedUser::get()) {
        (Level::Root, None) => Err("the test does not run as root".to_owned()),
        (Level::Root, Some(_)) | (Level::User, None) => Ok(Vec::new()),
        (Level::User, Some(UnprivilegedUser { uid, gid })) => Ok(vec![
            "setpriv".to_owned(),
            format!("--reuid={uid}"),
            format!("--regid={gid}"),
            "--clear-groups".to_owned(),
        ]),
    }
}

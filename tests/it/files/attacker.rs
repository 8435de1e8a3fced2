//! An attacker in the sandbox swaps directories, files and links beside file calls of every kind.
//!
//! The agent runs in a root of its own (bubblewrap). Outside that root there is a secret that the
//! agent, being root, could reach through /hostproc/PID/root if it ever followed such a link; inside
//! there is one that is root's and that the calls, which are made for another user, must not reach.
//! The test proves first that both can be read from where the agent is.
//!
//! Eight seconds in a normal run; `SANDSHELL_ATTACK_SECONDS=60` for as long as wanted.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sandshell_client::types::{
    ChmodRequest, CopyRequest, FileMode, MkdirRequest, MoveRequest, ProcessRequest, RemoveRequest,
};
use sandshell_client::{Client, ClientError, FileQuery, ListOptions, WriteOptions};
use sandshell_testkit::{Agent, UnprivilegedUser, find_binary};

use super::{read, tree_of};
use crate::calls::{DEADLINE, exec, in_time, marker, skipped};

/// Names, directories and links that trade places as fast as the kernel lets them.
const SWAPPER: &str = r#"
    my ($base, @targets) = @ARGV;
    chdir $base or die;
    sub fill { my $d = shift; mkdir $d; mkdir "$d/sub";
        for my $f ("$d/file", "$d/sub/file") { open(my $h, ">", $f); print $h "harmless"; close $h } }
    $| = 1; print "go\n";
    my $n = 0;
    while (1) {
        $n++;
        my $t = $targets[$n % @targets];
        fill("dir") if !-d "dir";
        symlink($t, "link$n"); symlink("$t/file", "flink$n");
        for (1 .. 20) {
            rename("dir", "aside"); rename("link$n", "dir"); rename("dir", "link$n"); rename("aside", "dir");
            rename("dir/sub", "subaside"); rename("link$n", "dir/sub"); rename("dir/sub", "link$n"); rename("subaside", "dir/sub");
            rename("dir/file", "faside"); rename("flink$n", "dir/file"); rename("dir/file", "flink$n"); rename("faside", "dir/file");
        }
        unlink "link$n", "flink$n", "dir/file";
        if ($n % 7 == 0) { system("mkfifo", "dir/file") } else { fill("dir") }
        for my $junk ("aside", "subaside", "faside") { system("rm", "-rf", $junk) if -e $junk || -l $junk }
    }
"#;

struct Prison {
    dir: tempfile::TempDir,
    agent: Agent,
    client: Client,
    secret: String,
    user: String,
}

impl Prison {
    /// `None` where it cannot be built, which is said loudly.
    fn build() -> Option<Self> {
        let Some(user) = UnprivilegedUser::get() else {
            skipped("the attack needs root, to give the agent rights it must not use");
            return None;
        };
        let dir = tempfile::TempDir::with_prefix("sandshell-test-").unwrap();
        let at = |name: &str| dir.path().join(name);
        let secret = marker();
        for name in [
            "outside/sub",
            "root/roots-own/sub",
            "root/work",
            "root/work2",
            "root/tmp",
        ] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for place in ["outside", "root/roots-own"] {
            for name in ["file", "sub/file", "only-here"] {
                std::fs::write(at(place).join(name), &secret).unwrap();
            }
        }
        let mode = std::fs::Permissions::from_mode;
        std::fs::set_permissions(at("root/roots-own"), mode(0o700)).unwrap();
        for name in ["root/work", "root/work2"] {
            user.own(&at(name));
        }
        let script = at("agent.sh");
        // The agent's own directories are where they are outside, for the test to find them.
        let text = format!(
            "#!/bin/sh\nset -e\nhere=$(dirname \"$PWD\")\nexec bwrap --die-with-parent \
             --bind '{}' / --ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/bin /bin \
             --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/sbin /sbin --proc /proc --dev /dev \
             --bind /proc /hostproc --bind /sys /sys --bind \"$here\" \"$here\" --ro-bind '{}' /sandshell \
             --chdir \"$PWD\" /sandshell \"$@\"\n",
            at("root").display(),
            find_binary().display(),
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, mode(0o755)).unwrap();
        let able = Command::new("bwrap")
            .args([
                "--ro-bind",
                "/",
                "/",
                "--dev",
                "/dev",
                "--proc",
                "/proc",
                "true",
            ])
            .status();
        if !able.is_ok_and(|status| status.success()) {
            skipped("bubblewrap cannot make a root here, so there is no attack");
            return None;
        }
        // Its commands must be able to see what its files must not show.
        let agent = Agent::builder()
            .binary(script)
            .args(["--isolation", "off"])
            .start();
        Some(Self {
            client: agent.client(),
            agent,
            dir,
            secret,
            user: user.uid.to_string(),
        })
    }

    /// The directory outside, as it can be reached from within.
    fn outside(&self) -> String {
        let path = self.dir.path().join("outside");
        format!("/hostproc/{}/root{}", std::process::id(), path.display())
    }

    fn state(&self) -> [String; 2] {
        ["outside", "root/roots-own"].map(|name| {
            let path = self.dir.path().join(name);
            format!("{}{}", tree_of(&path), times(&path))
        })
    }
}

fn times(path: &Path) -> String {
    let found = Command::new("find")
        .arg(path)
        .args(["-printf", "%p %T@ %i\\n"])
        .output();
    String::from_utf8(found.unwrap().stdout).unwrap()
}

fn file(prison: &Prison, path: &str, as_root: bool) -> FileQuery {
    FileQuery {
        path: path.to_owned(),
        user: (!as_root).then(|| prison.user.clone()),
        ..Default::default()
    }
}

#[tokio::test]
async fn never_a_byte_from_outside() {
    let Some(prison) = Prison::build() else {
        return;
    };
    let outside = prison.outside();
    // Both secrets are there for an agent that follows: it can read them itself.
    for path in [outside.as_str(), "/roots-own"] {
        let seen = exec(&prison.client, &format!("cat {path}/file"))
            .await
            .stdout;
        assert_eq!(
            seen, prison.secret,
            "{path} cannot be reached, so nothing is proved"
        );
    }
    let before = prison.state();
    // What the user's calls meet, and what root's meet: those may do as they like with all that is in
    // the root, so only the way out is laid for them, and to nowhere but the secret.
    let everywhere = [
        "/roots-own",
        &outside,
        &format!("../../../../..{outside}"),
        "/proc/self/root",
        "/proc/1/root",
        "/hostproc/1/root",
        "/dev",
        "..",
        "dir",
    ];
    let out = [outside.as_str(), &format!("../../../../..{outside}")];
    let mut attackers = Vec::new();
    for (base, targets) in [
        ("/work", &everywhere[..]),
        ("/work", &everywhere[..]),
        ("/work2", &out[..]),
    ] {
        let program = ["/usr/bin/perl", "-e", SWAPPER, base];
        let argv = program.iter().chain(targets).map(|word| (*word).to_owned());
        let attack = ProcessRequest {
            argv: Some(argv.collect()),
            user: Some(prison.user.clone()),
            ..Default::default()
        };
        let id = crate::calls::start(&prison.client, &attack).await;
        crate::calls::wait_for_text(&prison.client, &id, "go").await;
        attackers.push(id);
    }
    let seconds = std::env::var("SANDSHELL_ATTACK_SECONDS");
    let seconds = seconds.map_or(8, |text| text.parse().expect("a number of seconds"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let tally = Tally::default();
    let callers: Vec<_> = (0..4)
        .map(|caller| call_until(&prison, end, caller, &outside, &tally))
        .collect();
    futures_util::future::join_all(callers).await;
    let (calls, answered) = (tally.calls.get(), tally.answered.get());
    super::say(&format!(
        "{calls} calls in {seconds} s or more, {answered} of them did something"
    ));
    assert!(tally.is_enough(), "{calls} calls, {answered} answered");
    for id in attackers {
        let running = in_time(prison.client.process(&id)).await.unwrap();
        assert_eq!(running.exit_code, None, "the attacker gave up: {running:?}");
        in_time(prison.client.delete_process(&id)).await.unwrap();
    }
    assert_eq!(prison.state(), before, "something outside was changed");
    // Nothing that was copied or moved has brought anything in.
    for name in ["work", "work2"] {
        let dir: PathBuf = prison.dir.path().join("root").join(name);
        let leaked = Command::new("grep")
            .args(["-rl", &prison.secret])
            .arg(&dir)
            .output()
            .unwrap();
        let leaked = String::from_utf8_lossy(&leaked.stdout).into_owned();
        assert_eq!(leaked, "", "a secret was brought in");
        let named = Command::new("find")
            .arg(&dir)
            .args(["-name", "only-here"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&named.stdout), "");
    }
    drop(prison.agent);
}

/// Calls of all callers, and those that were not refused.
#[derive(Default)]
struct Tally {
    calls: Cell<u32>,
    answered: Cell<u32>,
}

impl Tally {
    /// Whether the attack has been met at all.
    fn is_enough(&self) -> bool {
        self.calls.get() > 50 && self.answered.get() > 10
    }
}

/// Calls of every kind, until then; and on while all callers have made too few, as on a machine that stands still.
async fn call_until(prison: &Prison, end: Instant, caller: usize, outside: &str, tally: &Tally) {
    let as_root = caller == 3;
    let client = &prison.client;
    let user = (!as_root).then(|| prison.user.clone());
    let text = |path: String| Some(path);
    let links = [
        format!("{outside}/file"),
        "/proc/self/root/etc/hostname".to_owned(),
        format!(
            "/proc/1/root{}/file",
            outside.trim_start_matches("/hostproc")
        ),
        format!("/hostproc/self/cwd/../..{outside}/file"),
    ];
    let mut turn = caller;
    let latest = end + DEADLINE;
    while Instant::now() < end || (!tally.is_enough() && Instant::now() < latest) {
        turn += 1;
        let base = if as_root { "/work2" } else { "/work" };
        let dir = format!("{base}/dir");
        let copy = format!("{base}/copy-{caller}");
        let note = |done: Result<String, ClientError>| {
            tally.calls.update(|calls| calls + 1);
            if let Ok(said) = done {
                tally.answered.update(|answered| answered + 1);
                assert!(!said.contains(&prison.secret), "a secret came out");
                let named = said.contains("only-here");
                assert!(!named, "a name from outside came out: {said}");
            }
        };
        for name in ["file", "sub/file"] {
            let path = if as_root && turn.is_multiple_of(2) {
                links[turn / 2 % links.len()].clone()
            } else {
                format!("{dir}/{name}")
            };
            let bytes = read(client, &file(prison, &path, as_root)).await;
            note(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
        let straight = as_root && turn.is_multiple_of(4);
        let target = if straight { outside } else { dir.as_str() };
        let options = WriteOptions::default();
        for name in ["file", "new", "sub/new"] {
            let query = file(prison, &format!("{target}/{name}"), as_root);
            let written = in_time(client.write_file(&query, &options, "harmless")).await;
            note(written.map(|entry| format!("{entry:?}")));
        }
        let recursive = ListOptions {
            recursive: true,
            hidden: None,
        };
        let list =
            in_time(client.list_files_lines(&file(prison, target, as_root), recursive)).await;
        let listed = match list {
            Ok(lines) => in_time(lines.read_to_end()).await,
            Err(error) => Err(error),
        };
        note(listed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        let made = in_time(client.make_directory(&MkdirRequest {
            path: text(format!("{target}/sub/made")),
            user: user.clone(),
            ..Default::default()
        }))
        .await;
        note(made.map(|entry| format!("{entry:?}")));
        let copied = in_time(client.copy_file(&CopyRequest {
            from: text(target.to_owned()),
            to: text(copy.clone()),
            recursive: true,
            user: user.clone(),
            ..Default::default()
        }))
        .await;
        note(copied.map(|reply| format!("{reply:?}")));
        let copied = in_time(client.copy_file(&CopyRequest {
            from: text("/etc/hostname".to_owned()),
            to: text(format!("{target}/sub/file")),
            overwrite: true,
            user: user.clone(),
            ..Default::default()
        }))
        .await;
        note(copied.map(|reply| format!("{reply:?}")));
        let moved = in_time(client.move_file(&MoveRequest {
            from: text(format!("{target}/sub/file")),
            to: text(format!("{target}/moved")),
            overwrite: true,
            user: user.clone(),
            ..Default::default()
        }))
        .await;
        note(moved.map(|entry| format!("{entry:?}")));
        let changed = in_time(client.change_mode(&ChmodRequest {
            path: text(target.to_owned()),
            path_base64: None,
            mode: FileMode::new(0o777).unwrap(),
            recursive: true,
            user: user.clone(),
            session: None,
        }))
        .await;
        note(changed.map(|reply| format!("{reply:?}")));
        // What was copied is looked into before it goes.
        let list = in_time(client.list_files_lines(&file(prison, &copy, as_root), recursive)).await;
        let listed = match list {
            Ok(lines) => in_time(lines.read_to_end()).await,
            Err(error) => Err(error),
        };
        note(listed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        let copied = read(client, &file(prison, &format!("{copy}/file"), as_root)).await;
        note(copied.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        for path in [copy, format!("{target}/sub")] {
            let removed = in_time(client.remove_file(&RemoveRequest {
                path: text(path),
                recursive: true,
                user: user.clone(),
                ..Default::default()
            }))
            .await;
            note(removed.map(|reply| format!("{reply:?}")));
        }
    }
}

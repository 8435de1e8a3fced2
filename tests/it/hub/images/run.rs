//! `sandshell run --image`: the same without a server.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sandshell_testkit::{UnprivilegedUser, alive_with_marker, find_binary, wait_until_gone};
use serde_json::json;
use tempfile::TempDir;

use super::make::{Item, archive, export, gzip, root, saved, tar_of};
use crate::calls::{DEADLINE, marker, skipped};

/// A run whose own directory lies below this one.
fn run(user: Option<UnprivilegedUser>, dir: &Path, image: &Path, argv: &[&str]) -> Command {
    let mut command = Command::new(find_binary());
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    command.arg("run").arg("--image").arg(image);
    if !argv.is_empty() {
        command.arg("--").args(argv);
    }
    command
        .env("TMPDIR", dir)
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::null());
    command
}

fn at_each_level(test: impl Fn(Option<UnprivilegedUser>, &Path)) {
    let mut levels = vec![None];
    match UnprivilegedUser::get() {
        Some(user) => levels.push(Some(user)),
        None => skipped("this is an ordinary user already: no other level to try"),
    }
    for user in levels {
        let dir = TempDir::with_prefix("sandshell-run-").unwrap();
        if let Some(user) = user {
            user.own(dir.path());
        }
        test(user, dir.path());
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left"
        );
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn directories_and_archives_run() {
    let root = root();
    let files = TempDir::with_prefix("sandshell-tar-").unwrap();
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let put = |name: &str, bytes: Vec<u8>| {
        let path = files.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let plain = export(root.path(), &[]);
    let config = json!({
        "Entrypoint": ["/bin/bash", "-c"], "Cmd": ["echo $WHO in $PWD"],
        "Env": ["WHO=image", "PATH=/bin"], "WorkingDir": "/made/for/it",
    });
    let image = archive(&saved(std::slice::from_ref(&plain), &config));
    let (plain, image) = (put("plain.tgz", gzip(&plain)), put("image.tar", image));
    let broken = put("broken.tar", tar_of(&[("../x", Item::File(""))]));
    at_each_level(|user, dir| {
        let done = |image: &Path, argv: &[&str]| run(user, dir, image, argv).output().unwrap();
        for image in [root.path(), &plain] {
            let output = done(
                image,
                &[
                    "bash",
                    "-c",
                    "id -un; pwd; [[ ! -e /etc/shadow ]] && echo ok",
                ],
            );
            assert_eq!(said(&output), "sandbox\n/workspace\nok\n", "{output:?}");
        }
        // What the image says, or what is asked for.
        let output = done(&image, &[]);
        assert_eq!(said(&output), "image in /made/for/it\n", "{output:?}");
        let output = done(&image, &["bash", "-c", "echo $WHO; exit 9"]);
        assert_eq!(
            (said(&output).as_str(), output.status.code()),
            ("image\n", Some(9))
        );
        for (image, code, why) in [
            (root.path(), 2, "does not say what to run"),
            (&broken, 125, "would leave the directory"),
            (Path::new("/none"), 125, "cannot use the image"),
        ] {
            let output = done(image, &[]);
            let why_not = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{why_not}");
            assert!(why_not.contains(why), "{why_not}");
        }
    });
    assert!(
        !root.path().join("workspace").exists(),
        "the directory is as it was"
    );
}

#[test]
fn nothing_is_left_of_a_killed_run() {
    let root = root();
    let files = TempDir::with_prefix("sandshell-tar-").unwrap();
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let tar = files.path().join("image.tar");
    fs::write(&tar, export(root.path(), &[])).unwrap();
    at_each_level(|user, dir| {
        let mark = marker();
        let script = format!("echo here; exec -a {mark} cat");
        let mut child = run(user, dir, &tar, &["bash", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "here\n");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until_gone(&mark, DEADLINE);
        assert_eq!(alive_with_marker(&mark), Vec::<i32>::new());
        until_empty(dir);
    });
}

#[test]
fn nothing_is_left_of_a_run_that_was_killed_while_it_unpacked() {
    at_each_level(|user, dir| {
        let place = TempDir::with_prefix("sandshell-tar-").unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let image = place.path().join("image.tar");
        let open_to_all = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &image,
            rustix::fs::FileType::Fifo,
            open_to_all,
            0,
        )
        .unwrap();
        fs::set_permissions(&image, fs::Permissions::from_mode(0o666)).unwrap();
        let mut child = run(user, dir, &image, &["true"]).spawn().unwrap();
        // It waits for the rest, which does not come.
        let mut writer = fs::File::options().write(true).open(&image).unwrap();
        let tar = tar_of(&[("a", Item::File("a")), ("b", Item::File("b"))]);
        writer.write_all(&tar[..1200]).unwrap();
        let unpacked = || {
            let own = fs::read_dir(dir).unwrap().next().unwrap().unwrap();
            own.path().join("root/a").exists()
        };
        let began = std::time::Instant::now();
        while !unpacked() {
            assert!(began.elapsed() < DEADLINE, "nothing is unpacked");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        until_empty(dir);
    });
}

/// The launcher removes the directory when it sees our end, of which nothing tells.
fn until_empty(dir: &Path) {
    let began = std::time::Instant::now();
    while fs::read_dir(dir).unwrap().count() > 0 {
        assert!(began.elapsed() < DEADLINE, "the directory stays");
        std::thread::yield_now();
    }
}

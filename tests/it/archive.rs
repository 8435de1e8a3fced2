//! Trees as archives: out and in, and what bad archives cannot do.

mod hostile;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use sandshell_client::types::{ArchiveFormat, ErrorCode};
use sandshell_client::{ArchiveQuery, Client, FileQuery};
use sandshell_testkit::{Agent, UnprivilegedUser};

use crate::calls::{code_of, in_time, skipped};
use crate::signs::until_so;
use crate::tree::{grow, inner_shape, leftovers, shape};

fn at(path: &Path) -> FileQuery {
    FileQuery::new(path.display().to_string())
}

fn of(path: &Path, format: ArchiveFormat) -> ArchiveQuery {
    ArchiveQuery {
        directory: at(path),
        format,
        ..Default::default()
    }
}

async fn packed(client: &Client, query: &ArchiveQuery) -> Vec<u8> {
    let body = in_time(client.get_archive(query)).await.unwrap();
    in_time(body.read_to_end()).await.unwrap().to_vec()
}

/// Runs tar in a directory.
fn tar(dir: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("tar")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "tar {args:?}");
    output.stdout
}

#[tokio::test]
async fn a_tree_comes_back_the_same() {
    let agent = Agent::start();
    let client = agent.client();
    let formats = [
        ArchiveFormat::Tar,
        ArchiveFormat::TarGz,
        ArchiveFormat::TarZst,
    ];
    for seed in 1..=12 {
        let from = agent.work_dir().join(format!("from-{seed}"));
        fs::create_dir(&from).unwrap();
        grow(&from, seed);
        let expected = shape(&from);
        let format = formats[usize::try_from(seed % 3).unwrap()];
        let archive = packed(&client, &of(&from, format)).await;
        // Into a directory that is not there, two levels deep.
        let to = agent.work_dir().join(format!("to-{seed}/new"));
        let counts = in_time(client.put_archive(&at(&to), archive.clone())).await;
        let counts = counts.unwrap();
        assert_eq!(shape(&to), expected, "seed {seed}");
        let kinds = |kind: &str| {
            let inner = expected.iter().filter(|(name, _)| !name.is_empty());
            inner.filter(|(_, what)| what.0.starts_with(kind)).count() as u64
        };
        assert_eq!(
            (counts.files, counts.directories, counts.symlinks),
            (kinds("file"), kinds("dir"), kinds("link"))
        );
        // Into an empty one, whose own attributes stay.
        let empty = agent.work_dir().join(format!("empty-{seed}"));
        fs::create_dir(&empty).unwrap();
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o711)).unwrap();
        in_time(client.put_archive(&at(&empty), archive.clone()))
            .await
            .unwrap();
        assert_eq!(inner_shape(&empty), inner_shape(&from), "seed {seed}");
        assert_eq!(fs::metadata(&empty).unwrap().mode() & 0o7777, 0o711);
        assert!(leftovers(&empty).is_empty());
        // Tar reads ours.
        let by_tar = agent.work_dir().join(format!("tar-{seed}"));
        fs::create_dir(&by_tar).unwrap();
        let flag = if format == ArchiveFormat::TarGz {
            "-xpzf"
        } else {
            "-xpf"
        };
        let plain = match format {
            ArchiveFormat::TarZst => packed(&client, &of(&from, ArchiveFormat::Tar)).await,
            _ => archive,
        };
        tar(&by_tar, &[flag, "-"], &plain);
        assert_eq!(shape(&by_tar), expected, "seed {seed}, read by tar");
    }
}

#[tokio::test]
async fn archives_of_tar_are_read() {
    let agent = Agent::start();
    let client = agent.client();
    for (seed, format) in [(21, "gnu"), (22, "pax"), (23, "gnu"), (24, "pax")] {
        let from = agent.work_dir().join(format!("from-{seed}"));
        fs::create_dir(&from).unwrap();
        grow(&from, seed);
        let archive = tar(
            &from,
            &["-c", &format!("--format={format}"), "-f", "-", "."],
            b"",
        );
        let to = agent.work_dir().join(format!("to-{seed}"));
        in_time(client.put_archive(&at(&to), archive))
            .await
            .unwrap();
        let mut expected = shape(&from);
        if format == "gnu" {
            // It has whole seconds only.
            for what in expected.values_mut() {
                what.2 = 0;
            }
        }
        assert_eq!(shape(&to), expected, "seed {seed}, {format}");
    }
}

#[tokio::test]
async fn what_is_there_stays_unless_it_is_in_the_archive() {
    let agent = Agent::start();
    let client = agent.client();
    let (from, to) = (agent.work_dir().join("from"), agent.work_dir().join("to"));
    for dir in [&from, &to] {
        fs::create_dir_all(dir.join("both/deep")).unwrap();
    }
    fs::write(from.join("both/deep/new"), "new").unwrap();
    fs::write(from.join("both/changed"), "after").unwrap();
    fs::write(to.join("both/changed"), "before").unwrap();
    fs::write(to.join("both/deep/stays"), "stays").unwrap();
    let outside = agent.work_dir().join("outside");
    fs::write(&outside, "untouched").unwrap();
    fs::write(from.join("was-a-link"), "a file now").unwrap();
    std::os::unix::fs::symlink(&outside, to.join("was-a-link")).unwrap();
    let archive = packed(&client, &of(&from, ArchiveFormat::Tar)).await;
    in_time(client.put_archive(&at(&to), archive.clone()))
        .await
        .unwrap();
    for (name, content) in [
        ("both/deep/new", "new"),
        ("both/changed", "after"),
        ("both/deep/stays", "stays"),
        ("was-a-link", "a file now"),
        ("../outside", "untouched"),
    ] {
        assert_eq!(
            fs::read_to_string(to.join(name)).unwrap(),
            content,
            "{name}"
        );
    }
    // A conflict is found before anything changes.
    fs::remove_file(to.join("was-a-link")).unwrap();
    fs::create_dir(to.join("was-a-link")).unwrap();
    fs::write(to.join("both/changed"), "before").unwrap();
    let before = shape(&to);
    let refused = in_time(client.put_archive(&at(&to), archive)).await;
    assert_eq!(code_of(refused), ErrorCode::IsADirectory);
    assert_eq!(inner_shape(&to), {
        let mut s = before;
        s.remove(&Vec::new());
        s
    });
}

#[tokio::test]
async fn rules_and_rights_of_packing() {
    let Some(user) = UnprivilegedUser::get() else {
        return skipped("only root can give up rights");
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    let dir = agent.work_dir().join("tree");
    for name in ["keep", "skip.log", "target/out", "sub/ignored", ".git/HEAD"] {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, name).unwrap();
    }
    fs::write(dir.join("sub/.gitignore"), "ignored\n").unwrap();
    let query = ArchiveQuery {
        exclude: vec!["*.log".into(), "target/out".into()],
        gitignore: true,
        ..of(&dir, ArchiveFormat::Tar)
    };
    let names = tar(&dir, &["-tf", "-"], &packed(&client, &query).await);
    let mut names: Vec<_> = std::str::from_utf8(&names).unwrap().lines().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "./",
            ".git/",
            ".git/HEAD",
            "keep",
            "sub/",
            "sub/.gitignore",
            "target/"
        ]
    );
    // What came in belongs to the user.
    let to = agent.work_dir().join("to");
    let archive = packed(&client, &query).await;
    in_time(client.put_archive(&at(&to), archive))
        .await
        .unwrap();
    assert_eq!(fs::metadata(to.join("keep")).unwrap().uid(), user.uid);
    // What cannot be read breaks the archive off, unless it may be left out.
    fs::set_permissions(dir.join("keep"), fs::Permissions::from_mode(0o600)).unwrap();
    let body = in_time(client.get_archive(&of(&dir, ArchiveFormat::Tar)))
        .await
        .unwrap();
    in_time(body.read_to_end())
        .await
        .expect_err("it must not look complete");
    let query = ArchiveQuery {
        skip_unreadable: true,
        ..of(&dir, ArchiveFormat::TarZst)
    };
    let archive = packed(&client, &query).await;
    let to = agent.work_dir().join("partial");
    in_time(client.put_archive(&at(&to), archive))
        .await
        .unwrap();
    assert!(to.join("skip.log").exists() && !to.join("keep").exists());
    let refused =
        in_time(client.put_archive(&FileQuery::new("/root/x"), tar(&dir, &["-c", "sub"], b"")))
            .await;
    assert_eq!(code_of(refused), ErrorCode::PermissionDenied);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing() {
    use tokio::io::AsyncWriteExt as _;
    let agent = Agent::start();
    let to = agent.work_dir().join("to");
    fs::create_dir(&to).unwrap();
    let from = agent.work_dir().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("large"), vec![7; 3 << 20]).unwrap();
    let archive = packed(&agent.client(), &of(&from, ArchiveFormat::Tar)).await;
    let address = agent.url().strip_prefix("http://").unwrap().to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "PUT /v1/files/archive?path={} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        to.display(),
        agent.token().unwrap(),
        archive.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&archive[..2 << 20]).await.unwrap();
    until_so(&to, || !leftovers(&to).is_empty()).await;
    drop(stream);
    until_so(&to, || leftovers(&to).is_empty()).await;
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    // A reader that goes away ends the packing.
    fs::write(from.join("sparse"), "").unwrap();
    fs::File::options()
        .write(true)
        .open(from.join("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let mut body = agent
        .client()
        .get_archive(&of(&from, ArchiveFormat::Tar))
        .await
        .unwrap();
    in_time(body.next()).await.unwrap().unwrap();
    drop(body);
    until_so(&from.join("sparse"), || {
        !fs::read_dir(format!("/proc/{}/fd", agent.pid()))
            .unwrap()
            .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
            .any(|path| path.ends_with("sparse"))
    })
    .await;
}

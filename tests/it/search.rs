//! Finding files and searching in them, against `find`, `grep` and `git`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use sandshell_client::types::{
    CaseMode, Encoded, ErrorCode, FileKind, FindReply, FindRequest, SearchReply, SearchRequest,
    SearchSummary, TextEncoding,
};
use sandshell_testkit::{Agent, UnprivilegedUser};

use crate::calls::{code_of, in_time, skipped};

type Names = BTreeSet<Vec<u8>>;

fn find_in(dir: &Path) -> FindRequest {
    FindRequest {
        path: Some(dir.display().to_string()),
        ..Default::default()
    }
}

fn search_in(dir: &Path, pattern: &str) -> SearchRequest {
    SearchRequest {
        path: Some(dir.display().to_string()),
        pattern: pattern.to_owned(),
        ..Default::default()
    }
}

/// What was found, as exact bytes below the directory.
fn names(dir: &Path, reply: &FindReply) -> Names {
    let name = |path: &str, base64: &Option<String>| {
        let bytes = match base64 {
            Some(text) => Encoded::decode(text, TextEncoding::Base64).unwrap(),
            None => path.as_bytes().to_vec(),
        };
        let start = dir.as_os_str().as_bytes().len() + 1;
        bytes[start..].to_vec()
    };
    let found: Vec<_> = reply
        .items
        .iter()
        .map(|item| name(&item.path, &item.path_base64))
        .collect();
    let set: Names = found.iter().cloned().collect();
    assert_eq!(set.len(), found.len(), "something was found twice");
    set
}

/// What a program lists, separated by NULs.
fn listed(dir: &Path, program: &str, args: &[&str]) -> Names {
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[tokio::test]
async fn finds_what_find_finds() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir();
    crate::tree::grow(&dir, 7);
    write(&dir, "src/deep/er/main.rs", "fn main() {}");
    write(&dir, "src/lib.rs", "");
    symlink("..", dir.join("src/up")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("src/fifo"), fifo, mode, 0).unwrap();
    let all = |more: &[&str]| {
        let args = [&["-mindepth", "1"], more, &["-printf", "%P\\0"]].concat();
        listed(&dir, "find", &args)
    };
    let glob = |glob: &str| vec![glob.to_owned()];
    let cases = [
        (find_in(&dir), all(&[])),
        (
            FindRequest {
                patterns: glob("*.rs"),
                ..find_in(&dir)
            },
            all(&["-name", "*.rs"]),
        ),
        (
            FindRequest {
                patterns: glob("src/**/*.rs"),
                ..find_in(&dir)
            },
            all(&["-path", "./src/*.rs"]),
        ),
        (
            FindRequest {
                kind: Some(FileKind::Directory),
                ..find_in(&dir)
            },
            all(&["-type", "d"]),
        ),
        (
            FindRequest {
                kind: Some(FileKind::Fifo),
                ..find_in(&dir)
            },
            all(&["-type", "p"]),
        ),
        (
            FindRequest {
                max_depth: Some(2),
                ..find_in(&dir)
            },
            all(&["-maxdepth", "2"]),
        ),
        (
            FindRequest {
                hidden: Some(false),
                ..find_in(&dir)
            },
            all(&["-not", "-path", "*/.*"]),
        ),
        (
            FindRequest {
                exclude: glob("deep"),
                ..find_in(&dir)
            },
            all(&["-not", "-path", "*/deep", "-not", "-path", "*/deep/*"]),
        ),
    ];
    for (request, expected) in cases {
        let reply = in_time(client.find_files(&request)).await.unwrap();
        assert_eq!(names(&dir, &reply), expected, "{request:?}");
        assert!(!reply.truncated, "{request:?}");
    }
    let request = FindRequest {
        patterns: glob("main.rs"),
        ..find_in(&dir)
    };
    let one = in_time(client.find_files(&request))
        .await
        .unwrap()
        .items
        .remove(0);
    assert_eq!(
        (one.kind, one.size, one.mode.bits()),
        (FileKind::File, 12, 0o644)
    );
}

#[tokio::test]
async fn says_when_there_is_more() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir();
    for n in 0..200 {
        write(&dir, &format!("d{}/f{n}", n % 7), "needle\n");
    }
    let mut request = find_in(&dir);
    request.kind = Some(FileKind::File);
    for (limit, truncated) in [(199, true), (200, false)] {
        request.limit = Some(limit);
        let reply = in_time(client.find_files(&request)).await.unwrap();
        assert_eq!(
            (reply.items.len(), reply.truncated),
            (limit as usize, truncated)
        );
    }
    let mut request = search_in(&dir, "needle");
    for (limit, truncated) in [(199, true), (200, false)] {
        request.limit = Some(limit);
        let SearchReply { matches, summary } =
            in_time(client.search_files(&request)).await.unwrap();
        assert_eq!(
            (matches.len(), summary.truncated),
            (limit as usize, truncated)
        );
    }
    request.timeout_ms = Some(0);
    let reply = in_time(client.search_files(&request)).await.unwrap();
    assert!(reply.summary.timed_out && reply.summary.truncated);
}

#[tokio::test]
async fn leaves_out_what_git_leaves_out() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir();
    for (name, content) in [
        (
            ".gitignore",
            "*.log\n/build\n!keep.log\ndocs/*.txt\n**/cache/\n# no rule\n\\#odd\n",
        ),
        ("a.log", ""),
        ("keep.log", ""),
        ("#odd", ""),
        ("build/out.o", ""),
        ("src/build/in.o", ""),
        ("src/.gitignore", "*.tmp\n!important.tmp\n*.log\n"),
        ("src/x.tmp", ""),
        ("src/important.tmp", ""),
        ("src/keep.log", ""),
        ("src/cache", "a file, not a directory"),
        ("src/deep/cache/data", ""),
        ("docs/a.txt", ""),
        ("docs/more/b.txt", ""),
        ("other/.gitignore", "sub/\n!sub/\n/only-here\n"),
        ("other/sub/f", ""),
        ("other/only-here", ""),
        ("other/deeper/only-here", ""),
        ("spaced name.txt", ""),
        ("excluded-by-info", ""),
    ] {
        write(&dir, name, content);
    }
    let mut init = Command::new("git");
    init.args(["init", "-q"]).current_dir(&dir);
    assert!(init.status().unwrap().success());
    write(&dir, ".git/info/exclude", "excluded-by-info\n");
    for start in ["", "src", "other/deeper"] {
        let start = match start {
            "" => dir.clone(),
            start => dir.join(start),
        };
        let args = ["ls-files", "-z", "-co", "--exclude-standard", "."];
        let expected = listed(&start, "git", &args);
        let request = FindRequest {
            gitignore: Some(true),
            kind: Some(FileKind::File),
            ..find_in(&start)
        };
        let reply = in_time(client.find_files(&request)).await.unwrap();
        assert_eq!(names(&start, &reply), expected, "{}", start.display());
    }
    // Another repository within this one has rules of its own.
    write(&dir, "inner/.git/HEAD", "");
    write(&dir, "inner/a.log", "");
    let request = FindRequest {
        gitignore: Some(true),
        patterns: vec!["inner/*".to_owned()],
        ..find_in(&dir)
    };
    let reply = in_time(client.find_files(&request)).await.unwrap();
    assert_eq!(names(&dir, &reply), Names::from([b"inner/a.log".to_vec()]));
}

/// `path:line:text` of each match, as grep prints it.
fn as_grep(dir: &Path, reply: &SearchReply) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = reply
        .matches
        .iter()
        .map(|found| {
            let path = Path::new(&found.path).strip_prefix(dir).unwrap();
            let mut line = format!("{}:{}:", path.display(), found.line).into_bytes();
            line.extend(Encoded::decode(&found.text, found.text_encoding).unwrap());
            line
        })
        .collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn finds_the_lines_that_grep_finds() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir();
    write(&dir, "a.txt", "foo\nbar foo foo\n\nno end foo");
    write(&dir, "b/c.txt", "x\n".repeat(5000) + "FOO 123\nfoo\n");
    write(&dir, "b/latin", b"caf\xe9 foo\nplain\n");
    write(&dir, "b/.hidden", "foo in hiding\n");
    write(&dir, "b/binary", b"text foo\n\0\0\n");
    write(&dir, "dots", "f.o\nfxo\n(f.o)\n");
    for (pattern, literal, flags) in [
        ("foo", false, "-E"),
        ("fo+|[0-9]{3}", false, "-E"),
        ("^foo$", false, "-E"),
        ("f.o", true, "-F"),
        ("f.o", false, "-E"),
        ("(f.o)", true, "-F"),
        ("nowhere", false, "-E"),
    ] {
        let request = SearchRequest {
            literal,
            hidden: Some(true),
            exclude: vec!["binary".to_owned()],
            ..search_in(&dir, pattern)
        };
        let reply = in_time(client.search_files(&request)).await.unwrap();
        let args = ["-rn", flags, "--exclude=binary", "-a", "--", pattern];
        let output = Command::new("grep")
            .args(args)
            .current_dir(&dir)
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let mut expected: Vec<Vec<u8>> = output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        expected.sort();
        assert_eq!(as_grep(&dir, &reply), expected, "{pattern}");
        for found in &reply.matches {
            let content = fs::read(&found.path).unwrap();
            let line = &content[usize::try_from(found.offset).unwrap()..];
            assert!(!found.spans.is_empty());
            for span in &found.spans {
                let range =
                    usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap();
                let matched = String::from_utf8_lossy(&line[range]).into_owned();
                assert!(matched == pattern || !literal, "{matched:?} in {found:?}");
            }
        }
    }
    let binary = in_time(client.search_files(&search_in(&dir.join("b/binary"), "foo"))).await;
    assert_eq!(binary.unwrap().summary.binary_files, 1);
}

#[tokio::test]
async fn options_of_a_search() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir();
    write(&dir, "f.rs", "1\n2\nNeedle\n4\nneedle\n6\n7\n8\n");
    write(&dir, "f.txt", "needle\n");
    write(&dir, "large", "needle\n".repeat(1000));
    write(&dir, "wide", format!("needle {}\n", "é".repeat(20_000)));
    write(&dir, ".gitignore", "f.txt\n");
    let request = SearchRequest {
        include: vec!["*.rs".to_owned()],
        case: CaseMode::Insensitive,
        context: 1,
        ..search_in(&dir, "NEEDLE")
    };
    let reply = in_time(client.search_files(&request)).await.unwrap();
    let [first, second] = &reply.matches[..] else {
        panic!("{reply:?}");
    };
    let lines = |lines: &[sandshell_client::types::ContextLine]| {
        lines.iter().map(|line| line.line).collect::<Vec<_>>()
    };
    assert_eq!(
        (first.line, lines(&first.before), lines(&first.after)),
        (3, vec![2], vec![4])
    );
    assert_eq!(
        (second.line, lines(&second.before), lines(&second.after)),
        (5, vec![], vec![6])
    );
    let request = SearchRequest {
        max_file_bytes: Some(100),
        ..search_in(&dir, "needle")
    };
    let reply = in_time(client.search_files(&request)).await.unwrap();
    assert_eq!(reply.matches.len(), 1, "one is ignored: {reply:?}");
    assert_eq!(reply.summary.large_files, 2);
    let wide = in_time(client.search_files(&search_in(&dir.join("wide"), "needle"))).await;
    let wide = wide.unwrap().matches.remove(0);
    assert!(wide.text_truncated && wide.text.ends_with('é') && wide.text.len() <= 16 << 10);
    // The same as events.
    let mut events = client
        .search_events(&search_in(&dir, "eedle"))
        .await
        .unwrap();
    let mut seen = Vec::new();
    while let Some(event) = in_time(events.next()).await {
        seen.push(event.unwrap());
    }
    let last = seen.pop().unwrap();
    assert_eq!(last.event, "done");
    let summary: SearchSummary = serde_json::from_str(&last.data).unwrap();
    assert_eq!(summary.matched_lines, seen.len() as u64);
    assert!(seen.iter().all(|event| event.event == "match"));
    assert!(summary.truncated && summary.matched_lines == 1000);
}

#[tokio::test]
async fn links_lead_nowhere_and_rights_hold() {
    let Some(user) = UnprivilegedUser::get() else {
        return skipped("only root can give up rights");
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    let dir = agent.work_dir();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "needle outside\n");
    symlink(outside.path(), dir.join("link")).unwrap();
    symlink(outside.path().join("secret"), dir.join("file-link")).unwrap();
    write(&dir, "mine", "needle\n");
    write(&dir, "not-mine", "needle\n");
    write(&dir, "closed/inside", "needle\n");
    for name in ["not-mine", "closed"] {
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let reply = in_time(client.search_files(&search_in(&dir, "needle")))
        .await
        .unwrap();
    assert_eq!(reply.matches.len(), 1, "{reply:?}");
    assert_eq!(reply.summary.unreadable, 2);
    let found = in_time(client.find_files(&find_in(&dir))).await.unwrap();
    assert_eq!((found.items.len(), found.unreadable), (5, 1));
    let closed = in_time(client.find_files(&find_in(&dir.join("closed")))).await;
    assert_eq!(code_of(closed), ErrorCode::PermissionDenied);
}

/// `.` means nothing in a path, and is not told; a pattern that is none comes with what to do.
#[tokio::test]
async fn paths_are_told_plainly() {
    let agent = Agent::builder().start();
    let client = agent.client();
    let dir = agent.work_dir();
    write(&dir, "sub/a", "needle\n");
    let plain = dir.join("sub/a").display().to_string();
    for end in ["/.", "/./", "/./sub/.", "/sub//", "//sub"] {
        let start = format!("{}{end}", dir.display());
        let start = Path::new(&start);
        let found = in_time(client.find_files(&find_in(start))).await.unwrap();
        let found = found.items.iter().any(|item| item.path == plain);
        assert!(found, "{}", start.display());
        let search = search_in(start, "needle");
        let search = in_time(client.search_files(&search)).await.unwrap();
        assert_eq!(search.matches[0].path, plain, "{}", start.display());
    }
    let bad = in_time(client.search_files(&search_in(&dir, "a(b")))
        .await
        .unwrap_err();
    let problem = bad.problem().unwrap();
    assert_eq!(problem.pointer.as_deref(), Some("/pattern"));
    assert!(
        problem
            .hint
            .as_deref()
            .unwrap_or_default()
            .contains("literal"),
        "{problem:?}"
    );
}

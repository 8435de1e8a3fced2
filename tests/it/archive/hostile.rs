//! Archives made byte by byte to get out, to lie, or to break off.

use std::fs;
use std::path::Path;

use sandshell_client::Client;
use sandshell_client::types::{ArchiveFormat, ErrorCode};
use sandshell_testkit::Agent;

use super::{at, of, packed};
use crate::calls::{code_of, in_time};
use crate::tree::{grow, leftovers, shape};

/// One header and its content, padded.
fn entry(name: &[u8], kind: u8, mode: u32, link: &[u8], content: &[u8]) -> Vec<u8> {
    sized(
        name,
        kind,
        mode,
        link,
        content,
        &format!("{:011o}", content.len()),
    )
}

fn sized(name: &[u8], kind: u8, mode: u32, link: &[u8], content: &[u8], size: &str) -> Vec<u8> {
    let mut block = [0_u8; 512];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, size.as_bytes());
    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut bytes = block.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str) -> Vec<u8> {
    entry(
        name.as_bytes(),
        b'0',
        0o644,
        b"",
        b"written by the archive\n",
    )
}

fn link(name: &str, target: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'2', 0o777, target.as_bytes(), b"")
}

fn hard(name: &str, target: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'1', 0o644, target.as_bytes(), b"")
}

fn pax(records: &[u8]) -> Vec<u8> {
    entry(b"pax", b'x', 0o644, b"", records)
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1024]].concat()
}

/// A directory with a target in it and files around it that must not change.
struct Place {
    agent: Agent,
    client: Client,
}

impl Place {
    fn new() -> Self {
        let agent = Agent::start();
        let work = agent.work_dir();
        fs::create_dir(work.join("target")).unwrap();
        fs::write(work.join("target/there"), "before").unwrap();
        fs::create_dir(work.join("outside")).unwrap();
        fs::write(work.join("outside/file"), "untouched").unwrap();
        let client = agent.client();
        Self { agent, client }
    }

    async fn put(&self, archive: Vec<u8>) -> Result<(), ErrorCode> {
        let target = at(&self.agent.work_dir().join("target"));
        let put = self.client.put_archive(&target, archive);
        match in_time(put).await {
            Ok(_) => Ok(()),
            refused => Err(code_of(refused)),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.agent.work_dir().join(name)
    }
}

#[tokio::test]
async fn nothing_leaves_the_directory() {
    let place = Place::new();
    let outside = place.path("outside").display().to_string();
    let record = |text: &str| {
        let mut length = text.len() + 3;
        while format!("{length} {text}\n").len() != length {
            length = format!("{length} {text}\n").len();
        }
        format!("{length} {text}\n").into_bytes()
    };
    let long_name = [
        entry(b"././@LongLink", b'L', 0, b"", b"../outside/by-long-name\0"),
        file("short"),
    ];
    let long_link = [
        entry(b"././@LongLink", b'K', 0, b"", b"../outside/file\0"),
        hard("short", "x"),
    ];
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("absolute", vec![file("/tmp/sandshell-hostile")]),
        ("up", vec![file("../outside/new")]),
        ("up within", vec![file("a/../../outside/new")]),
        ("only dots", vec![entry(b"..", b'5', 0o755, b"", b"")]),
        ("no name", vec![file("")]),
        ("file called dot", vec![file(".")]),
        (
            "through its own link",
            vec![link("a", &outside), file("a/new")],
        ),
        (
            "through a relative link",
            vec![link("a", "../outside"), file("a/new")],
        ),
        (
            "through two links",
            vec![link("a", ".."), link("b", "a/outside"), file("b/new")],
        ),
        (
            "through a link to the top",
            vec![link("a", "."), link("a/b", "x")],
        ),
        (
            "directory through a link",
            vec![link("a", &outside), entry(b"a/sub", b'5', 0o755, b"", b"")],
        ),
        (
            "directory over a link",
            vec![
                link("a", &outside),
                entry(b"a", b'5', 0o777, b"", b""),
                file("a/new"),
            ],
        ),
        ("through a file", vec![file("a"), file("a/b")]),
        ("hard link out", vec![hard("a", "../outside/file")]),
        ("hard link to root", vec![hard("a", "/etc/passwd")]),
        (
            "hard link through a link",
            vec![link("l", &outside), hard("a", "l/file")],
        ),
        ("hard link to what was there", vec![hard("a", "there")]),
        (
            "hard link to a directory",
            vec![entry(b"d", b'5', 0o755, b"", b""), hard("a", "d")],
        ),
        ("hard link to itself", vec![hard("a", "a")]),
        (
            "pax path up",
            vec![pax(&record("path=../outside/new")), file("x")],
        ),
        (
            "pax path with nul",
            vec![pax(&record("path=a\0b")), file("x")],
        ),
        (
            "pax link up",
            vec![pax(&record("linkpath=../outside/file")), hard("x", "y")],
        ),
        ("pax lies", vec![pax(b"999 path=a\n"), file("x")]),
        (
            "pax size",
            vec![pax(&record("size=99999999999999")), file("x")],
        ),
        (
            "pax size at the end of the numbers",
            vec![pax(&record("size=18446744073709551615")), file("x")],
        ),
        (
            "pax sparse",
            vec![pax(&record("GNU.sparse.major=1")), file("x")],
        ),
        ("pax for nothing", vec![pax(&record("path=x"))]),
        (
            "global path",
            vec![
                entry(b"g", b'g', 0, b"", &record("path=../outside/new")),
                file("x"),
            ],
        ),
        ("long name up", long_name.to_vec()),
        ("long link up", long_link.to_vec()),
        ("sparse", vec![entry(b"s", b'S', 0o644, b"", b"")]),
        ("unknown type", vec![entry(b"u", b'Z', 0o644, b"", b"")]),
        (
            "directory and file",
            vec![entry(b"d", b'5', 0o755, b"", b""), file("d")],
        ),
        (
            "huge",
            vec![sized(b"h", b'0', 0o644, b"", b"x", "77777777777")],
        ),
        (
            "size that is no number",
            vec![sized(b"h", b'0', 0o644, b"", b"x", "99999999999")],
        ),
    ];
    let around = |place: &Place| {
        let mut shape = shape(&place.agent.work_dir());
        // Its time changes when the staging directory comes and goes.
        shape.get_mut(&b"target"[..]).unwrap().1 = 0;
        shape.get_mut(&b"target"[..]).unwrap().2 = 0;
        shape
    };
    let before = around(&place);
    for (what, entries) in cases {
        let result = place.put(archive(&entries)).await;
        assert_eq!(result, Err(ErrorCode::InvalidArchive), "{what}");
        assert_eq!(around(&place), before, "{what}");
    }
    let mut flipped = archive(&[file("a")]);
    flipped[3] ^= 1;
    assert_eq!(place.put(flipped).await, Err(ErrorCode::InvalidArchive));
    let behind = [archive(&[file("a")]), file("b")].concat();
    assert_eq!(place.put(behind).await, Err(ErrorCode::InvalidArchive));
    let name = vec![b'n'; 2 << 20];
    let bomb = [entry(b"././@LongLink", b'L', 0, b"", &name), file("x")];
    assert_eq!(
        place.put(archive(&bomb)).await,
        Err(ErrorCode::InvalidArchive)
    );
    assert_eq!(around(&place), before);
    assert!(!Path::new("/tmp/sandshell-hostile").exists());
}

#[tokio::test]
async fn later_entries_never_write_through_earlier_ones() {
    let place = Place::new();
    let outside = place.path("outside/file").display().to_string();
    let entries = [
        link("a", &outside),
        file("a"),
        file("first"),
        hard("second", "first"),
        entry(b"second", b'0', 0o600, b"", b"its own\n"),
        file("gone"),
        link("gone", "elsewhere"),
        entry(b"device", b'3', 0o666, b"", b""),
        entry(b"fifo", b'6', 0o666, b"", b""),
        entry(b"setuid", b'0', 0o6755, b"", b"x"),
        entry(b"dir/", b'0', 0o755, b"", b""),
        entry(b"dir", b'5', 0o700, b"", b""),
    ];
    place.put(archive(&entries)).await.unwrap();
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(read("outside/file"), "untouched");
    assert_eq!(read("target/a"), "written by the archive\n");
    assert_eq!(read("target/first"), "written by the archive\n");
    assert_eq!(read("target/second"), "its own\n");
    assert_eq!(read("target/there"), "before");
    let after = shape(&place.path("target"));
    assert_eq!(after[&b"gone"[..]].0, "link 0000");
    assert_eq!(after[&b"setuid"[..]].0, "file 0755");
    assert_eq!(after[&b"dir"[..]].0, "dir 0700");
    assert!(!after.contains_key(&b"device"[..]) && !after.contains_key(&b"fifo"[..]));
}

#[tokio::test]
async fn an_archive_cut_off_anywhere_changes_nothing() {
    let place = Place::new();
    let from = place.path("from");
    fs::create_dir(&from).unwrap();
    grow(&from, 3);
    for large in ["70000", "300001"] {
        let large: u64 = large.parse().unwrap();
        for path in fs::read_dir(&from)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_file() && fs::metadata(&path).unwrap().len() == large {
                fs::write(path, "short").unwrap();
            }
        }
    }
    let target = place.path("target");
    let before = shape(&target);
    for format in [
        ArchiveFormat::Tar,
        ArchiveFormat::TarGz,
        ArchiveFormat::TarZst,
    ] {
        let whole = packed(&place.client, &of(&from, format)).await;
        let step = match format {
            ArchiveFormat::Tar => 512.max(whole.len() / 512 / 150 * 512),
            _ => (whole.len() / 60).max(1),
        };
        let last = whole.len() - 1;
        let cuts = (0..whole.len()).step_by(step).chain([1, 511, last]);
        // Every block of the last few, where the end mark is.
        let end = whole.len().saturating_sub(512 * 6)..whole.len();
        let cuts = cuts.chain(end.step_by(512));
        for cut in cuts {
            let result = place.put(whole[..cut].to_vec()).await;
            assert_eq!(
                result,
                Err(ErrorCode::InvalidArchive),
                "{format:?} cut at {cut}"
            );
        }
        let mut after = shape(&target);
        let mut expected = before.clone();
        for shape in [&mut after, &mut expected] {
            shape.remove(&Vec::new());
        }
        assert_eq!(after, expected);
        assert!(leftovers(&target).is_empty());
    }
}

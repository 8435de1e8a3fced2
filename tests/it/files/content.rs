//! Bytes of a file, out and in.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use bytes::Bytes;
use http::Method;
use sandshell_client::types::{ErrorCode, FileKind, FileMode};
use sandshell_client::{FileQuery, ReadOptions, WriteOptions};
use sandshell_testkit::rss_bytes;

use super::{Desk, ask, encoded, noise, read};
use crate::calls::{Shell, code_of, in_time};

#[tokio::test]
async fn what_is_written_is_read_again() {
    let desk = Desk::new();
    for length in [0, 1, 1000, 256 * 1024, 256 * 1024 + 1, 512 * 1024, 3 << 20] {
        let content = noise(length);
        let entry = desk.put("file", content.clone()).await;
        assert_eq!((entry.size, entry.kind), (length as u64, FileKind::File));
        assert!(desk.get("file").await == content, "{length} bytes differ");
        assert!(std::fs::read(desk.dir.join("file")).unwrap() == content);
    }
    let left = std::fs::read_dir(&desk.dir).unwrap().count();
    assert_eq!(left, 1, "a temporary file was left");
}

#[tokio::test]
async fn a_large_body_in_small_pieces_takes_little_memory() {
    let desk = Desk::new();
    desk.put("warm", noise(4 << 20)).await;
    desk.get("warm").await;
    let before = rss_bytes(desk.agent.pid());
    let piece = Bytes::from(noise(64 * 1024 - 7));
    let (count, length) = (2048_u64, 2048 * (64 * 1024 - 7));
    let pieces = futures(count, piece.clone());
    let options = WriteOptions::default();
    let upload = in_time(
        desk.client
            .upload_file(&desk.query("big"), &options, pieces),
    )
    .await;
    assert_eq!(upload.unwrap().size, length);
    let content = in_time(
        desk.client
            .read_file(&desk.query("big"), &ReadOptions::default()),
    )
    .await;
    let mut content = content.unwrap();
    assert_eq!(content.length, Some(length));
    let mut at = 0_usize;
    while let Some(bytes) = in_time(content.bytes.next()).await {
        let mut bytes = &bytes.unwrap()[..];
        while !bytes.is_empty() {
            let expected = &piece[at % piece.len()..];
            let both = expected.len().min(bytes.len());
            assert!(bytes[..both] == expected[..both], "at {at}");
            at += both;
            bytes = &bytes[both..];
        }
    }
    assert_eq!(at as u64, length);
    let grown = rss_bytes(desk.agent.pid()).saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");
}

/// A stream of the same piece.
fn futures(
    count: u64,
    piece: Bytes,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    futures_util::stream::iter((0..count).map(move |_| Ok(piece.clone())))
}

#[tokio::test]
async fn ranges_and_conditions() {
    let desk = Desk::new();
    desk.put("file", "0123456789").await;
    let route = format!("/v1/files/content?path={}", desk.path("file"));
    let get = async |headers: &[(&'static str, &str)]| {
        let (status, head, body) = ask(&desk.client, Method::GET, &route, headers, "").await;
        (
            status.as_u16(),
            head,
            String::from_utf8(body.to_vec()).unwrap(),
        )
    };
    let (status, head, body) = get(&[]).await;
    assert_eq!((status, body.as_str()), (200, "0123456789"));
    let etag = head["etag"].to_str().unwrap().to_owned();
    let modified = head["last-modified"].to_str().unwrap().to_owned();
    assert_eq!(head["accept-ranges"], "bytes");
    assert_eq!(head["content-length"], "10");
    assert_eq!(head["content-type"], "application/octet-stream");
    let seconds = std::fs::metadata(desk.dir.join("file")).unwrap().mtime();
    let said = std::process::Command::new("date")
        .args(["-d", &modified, "+%s"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).trim(),
        seconds.to_string()
    );
    for (range, expected, part) in [
        ("bytes=2-4", "234", Some("bytes 2-4/10")),
        ("bytes=7-", "789", Some("bytes 7-9/10")),
        ("bytes=-2", "89", Some("bytes 8-9/10")),
        ("bytes=0-1,3-4", "0123456789", None),
    ] {
        let (status, head, body) = get(&[("range", range)]).await;
        assert_eq!(body, expected, "{range}");
        assert_eq!(status, if part.is_some() { 206 } else { 200 });
        let said = head
            .get("content-range")
            .map(|value| value.to_str().unwrap());
        assert_eq!(said, part);
        assert_eq!(head["content-length"], expected.len().to_string().as_str());
    }
    let (status, head, body) = get(&[("range", "bytes=10-")]).await;
    assert_eq!(
        (status, &head["content-range"]),
        (416, &"bytes */10".parse().unwrap())
    );
    assert!(body.contains("range_not_satisfiable"));
    let (status, head, body) = get(&[("if-none-match", &etag)]).await;
    assert_eq!((status, body.as_str()), (304, ""));
    assert_eq!(head["etag"], etag.as_str());
    assert_eq!(get(&[("if-modified-since", &modified)]).await.0, 304);
    assert_eq!(get(&[("if-match", "\"other\"")]).await.0, 412);
    assert_eq!(get(&[("if-match", &etag)]).await.0, 200);
    assert_eq!(
        get(&[("if-range", &etag), ("range", "bytes=0-0")]).await.0,
        206
    );
    assert_eq!(
        get(&[("if-range", "\"x\""), ("range", "bytes=0-0")])
            .await
            .0,
        200
    );
    let (status, head, body) = ask(&desk.client, Method::HEAD, &route, &[], "").await;
    assert_eq!((status.as_u16(), body.len()), (200, 0));
    assert_eq!(
        (&head["content-length"], &head["etag"]),
        (&"10".parse().unwrap(), &etag.parse().unwrap())
    );
    // A change that keeps size and time still changes the tag.
    let path = desk.dir.join("file");
    let stamp = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, "9876543210").unwrap();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(stamp)
        .unwrap();
    let (status, head, body) = get(&[("if-none-match", &etag)]).await;
    assert_eq!((status, body.as_str()), (200, "9876543210"));
    assert_ne!(head["etag"], etag.as_str());
}

#[tokio::test]
async fn writes_may_depend_on_what_is_there() {
    let desk = Desk::new();
    let write = async |if_match: Option<&str>, if_none_match: Option<&str>, text: &'static str| {
        let options = WriteOptions {
            if_match: if_match.map(str::to_owned),
            if_none_match: if_none_match.map(str::to_owned),
            ..Default::default()
        };
        in_time(desk.client.write_file(&desk.query("file"), &options, text)).await
    };
    assert_eq!(
        code_of(write(Some("*"), None, "0").await),
        ErrorCode::PreconditionFailed
    );
    assert!(!desk.dir.join("file").exists());
    write(None, Some("*"), "1").await.unwrap();
    assert_eq!(
        code_of(write(None, Some("*"), "2").await),
        ErrorCode::PreconditionFailed
    );
    let content = in_time(
        desk.client
            .read_file(&desk.query("file"), &ReadOptions::default()),
    )
    .await;
    let etag = content.unwrap().etag.unwrap();
    write(Some(&etag), None, "3").await.unwrap();
    assert_eq!(
        code_of(write(Some(&etag), None, "4").await),
        ErrorCode::PreconditionFailed
    );
    assert_eq!(desk.get("file").await, "3");
    // Of many who start from one version, one wins.
    let content = in_time(
        desk.client
            .read_file(&desk.query("file"), &ReadOptions::default()),
    )
    .await;
    let etag = content.unwrap().etag;
    let mut writers = Vec::new();
    for n in 0..16 {
        let (client, query) = (desk.client.clone(), desk.query("file"));
        let options = WriteOptions {
            if_match: etag.clone(),
            ..Default::default()
        };
        writers.push(tokio::spawn(async move {
            client
                .write_file(&query, &options, format!("writer {n}"))
                .await
                .is_ok()
        }));
    }
    let mut won = 0;
    for writer in writers {
        won += usize::from(writer.await.unwrap());
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn mode_time_and_parents() {
    let desk = Desk::new();
    let path = desk.dir.join("a/b/file");
    let write = async |options: WriteOptions| {
        in_time(
            desk.client
                .write_file(&desk.query("a/b/file"), &options, "x"),
        )
        .await
    };
    let none = WriteOptions {
        parents: Some(false),
        ..Default::default()
    };
    assert_eq!(code_of(write(none).await), ErrorCode::FileNotFound);
    assert!(!desk.dir.join("a").exists());
    write(WriteOptions::default()).await.unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&path), mode(&desk.dir.join("a"))), (0o644, 0o755));
    let chosen = WriteOptions {
        mode: FileMode::new(0o751),
        modified_at: Some("2001-09-09T01:46:40.123456789Z".parse().unwrap()),
        durable: true,
        ..Default::default()
    };
    let entry = write(chosen.clone()).await.unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(mode(&path), 0o751);
    assert_eq!(
        (metadata.mtime(), metadata.mtime_nsec()),
        (1_000_000_000, 123_456_789)
    );
    assert_eq!(Some(entry.modified_at), chosen.modified_at);
    // A mode that is there is kept, but not the bits that would give rights away.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4711)).unwrap();
    write(WriteOptions::default()).await.unwrap();
    assert_eq!(mode(&path), 0o711);
    let old = WriteOptions {
        modified_at: Some("1969-12-31T23:59:58.5Z".parse().unwrap()),
        ..Default::default()
    };
    write(old).await.unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (-2, 500_000_000));
}

#[tokio::test]
async fn links_are_written_through_and_stay_links() {
    let desk = Desk::new();
    std::fs::create_dir(desk.dir.join("d")).unwrap();
    std::fs::write(desk.dir.join("d/real"), "old").unwrap();
    symlink("d/middle", desk.dir.join("link")).unwrap();
    symlink("real", desk.dir.join("d/middle")).unwrap();
    symlink("d/../d/fresh", desk.dir.join("dangling")).unwrap();
    symlink("loop", desk.dir.join("loop")).unwrap();
    desk.put("link", "new").await;
    desk.put("dangling", "made").await;
    assert_eq!(std::fs::read(desk.dir.join("d/real")).unwrap(), b"new");
    assert_eq!(std::fs::read(desk.dir.join("d/fresh")).unwrap(), b"made");
    for link in ["link", "d/middle", "dangling"] {
        assert!(desk.dir.join(link).is_symlink(), "{link}");
    }
    assert_eq!(
        code_of(read(&desk.client, &desk.query("loop")).await),
        ErrorCode::TooManyLinks
    );
    let options = WriteOptions::default();
    let written = desk
        .client
        .write_file(&desk.query("loop"), &options, "x")
        .await;
    assert_eq!(code_of(written), ErrorCode::TooManyLinks);
}

#[tokio::test]
async fn appending_adds_to_what_is_there() {
    let desk = Desk::new();
    let options = WriteOptions {
        append: true,
        ..Default::default()
    };
    for text in ["one\n", "two\n", "three\n"] {
        let file = desk.query("new/log");
        in_time(desk.client.write_file(&file, &options, text))
            .await
            .unwrap();
    }
    assert_eq!(desk.get("new/log").await, "one\ntwo\nthree\n");
}

#[tokio::test]
async fn the_kernels_own_files_have_content_though_no_size() {
    let desk = Desk::new();
    let read = |path: &'static str| {
        let client = desk.client.clone();
        async move { read(&client, &FileQuery::new(path)).await.unwrap() }
    };
    let expected = std::fs::read("/proc/cpuinfo").unwrap().len();
    // Clock speeds differ from look to look, their digits hardly.
    assert!(read("/proc/cpuinfo").await.len().abs_diff(expected) < 200);
    assert_eq!(
        read("/proc/sys/kernel/ostype").await,
        std::fs::read("/proc/sys/kernel/ostype").unwrap()
    );
    if let Ok(lo) = std::fs::read("/sys/class/net/lo/address") {
        assert_eq!(read("/sys/devices/virtual/net/lo/address").await, lo);
    }
}

#[tokio::test]
async fn a_file_that_shrinks_breaks_the_answer_off() {
    let desk = Desk::new();
    let path = desk.dir.join("file");
    // More than fits in all the buffers on the way.
    std::fs::write(&path, noise(64 << 20)).unwrap();
    let content = in_time(
        desk.client
            .read_file(&desk.query("file"), &ReadOptions::default()),
    )
    .await;
    let mut content = content.unwrap();
    content.bytes.next().await.unwrap().unwrap();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    let ended = loop {
        match in_time(content.bytes.next()).await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Some(Err(_))), "{ended:?}");
}

#[tokio::test]
async fn relative_paths_start_at_the_sessions_directory() {
    let desk = Desk::new();
    std::fs::create_dir(desk.dir.join("here")).unwrap();
    let shell = Shell::new(&desk.agent).await;
    shell.run(&format!("cd '{}'", desk.path("here"))).await;
    let file = FileQuery {
        path: "file".to_owned(),
        session: Some(shell.id.clone()),
        ..Default::default()
    };
    let options = WriteOptions::default();
    let entry = in_time(desk.client.write_file(&file, &options, "x"))
        .await
        .unwrap();
    assert_eq!(entry.path, desk.path("here/file"));
    assert_eq!(shell.out("cat file").await, "x");
    let root = FileQuery::new("file-that-is-not-in-the-root");
    assert_eq!(
        code_of(read(&desk.client, &root).await),
        ErrorCode::FileNotFound
    );
}

#[tokio::test]
async fn names_may_be_any_bytes() {
    use base64::Engine as _;
    use std::os::unix::ffi::OsStrExt as _;
    let desk = Desk::new();
    let long = "n".repeat(255);
    let names: [&[u8]; 8] = [
        b"new\nline",
        b"\xff\xfe bytes",
        b"-rf",
        b"with space & ? # % +",
        b"\xc3\xa4",
        b"*",
        b"...",
        long.as_bytes(),
    ];
    for name in names {
        let path = desk.dir.join(std::ffi::OsStr::from_bytes(name));
        let base64 = base64::engine::general_purpose::STANDARD.encode(path.as_os_str().as_bytes());
        let file = FileQuery {
            path_base64: Some(base64.clone()),
            ..Default::default()
        };
        let options = WriteOptions::default();
        let written = in_time(desk.client.write_file(&file, &options, name.to_vec())).await;
        assert_eq!(std::fs::read(&path).unwrap(), name);
        let entry = written.unwrap();
        match std::str::from_utf8(name) {
            Ok(name) => assert_eq!((entry.name.as_str(), entry.path_base64), (name, None)),
            Err(_) => assert_eq!(entry.path_base64, Some(base64)),
        }
        assert_eq!(read(&desk.client, &file).await.unwrap(), name);
        if std::str::from_utf8(name).is_ok() {
            let route = format!("/v1/files/content?path={}", encoded(&path));
            assert_eq!(
                ask(&desk.client, Method::GET, &route, &[], "").await.2,
                name
            );
        }
    }
    let too_long = desk.query(&"n".repeat(256));
    assert_eq!(
        code_of(read(&desk.client, &too_long).await),
        ErrorCode::NameTooLong
    );
    let options = WriteOptions::default();
    let written = desk.client.write_file(&too_long, &options, "x").await;
    assert_eq!(code_of(written), ErrorCode::NameTooLong);
}

/// There are 64 threads for files; whoever is slow must not hold one.
#[tokio::test]
async fn many_slow_readers_and_writers_are_in_nobodys_way() {
    let desk = Desk::new();
    let sparse = std::fs::File::create(desk.dir.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for n in 0..80 {
        let options = ReadOptions::default();
        let content = desk.client.read_file(&desk.query("sparse"), &options).await;
        readers.push(content.unwrap().bytes);
        let (client, query) = (desk.client.clone(), desk.query(&format!("slow-{n}")));
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let piece = Bytes::from(noise(300_000));
        let slow = futures_util::stream::once(async move {
            begun.send(()).unwrap();
            Ok(piece)
        });
        let slow = futures_util::StreamExt::chain(slow, futures_util::stream::pending());
        writers.push(tokio::spawn(async move {
            let options = WriteOptions::default();
            client.upload_file(&query, &options, slow).await
        }));
        in_time(has_begun).await.unwrap();
    }
    desk.put("quick", "x").await;
    assert_eq!(desk.get("quick").await, "x");
    for writer in writers {
        writer.abort();
    }
    drop(readers);
}

//! A write is seen whole or not at all, by readers beside it and after it broke off.

use bytes::Bytes;
use futures_util::stream;
use sandshell_client::types::{CopyRequest, ErrorCode};
use sandshell_client::{ReadOptions, WriteOptions};

use super::{Desk, noise, read, tree_of};
use crate::calls::{code_of, exec_of, in_time, skipped};

#[tokio::test]
async fn readers_see_the_old_file_or_the_new_one() {
    let desk = Desk::new();
    let length = 700_000;
    let version = move |n: u8| vec![b'a' + n % 26; length];
    desk.put("file", version(0)).await;
    let (client, query) = (desk.client.clone(), desk.query("file"));
    let writer = tokio::spawn(async move {
        for n in 1..60 {
            let options = WriteOptions::default();
            let pieces = version(n);
            // Half of them as a stream of many pieces.
            if n % 2 == 0 {
                client.write_file(&query, &options, pieces).await.unwrap();
            } else {
                let pieces: Vec<_> = pieces
                    .chunks(10_000)
                    .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                    .collect();
                let pieces = stream::iter(pieces);
                client.upload_file(&query, &options, pieces).await.unwrap();
            }
        }
    });
    let path = desk.dir.join("file");
    let mut seen = 0;
    while !writer.is_finished() {
        for content in [
            read(&desk.client, &desk.query("file"))
                .await
                .unwrap()
                .to_vec(),
            std::fs::read(&path).unwrap(),
        ] {
            assert_eq!(content.len(), length);
            assert!(content.iter().all(|byte| *byte == content[0]), "a mixture");
            seen += 1;
        }
    }
    writer.await.unwrap();
    assert!(seen > 10, "only {seen} looks");
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let desk = Desk::new();
    desk.put("there", "old").await;
    let before = tree_of(&desk.dir);
    for name in ["there", "new", "deep/below/new"] {
        for pieces in [1, 100] {
            let piece = Bytes::from(noise(100_000));
            let pieces = (0..pieces).map(move |_| Ok(piece.clone()));
            let broken = [Err(std::io::Error::other("the sender is gone"))];
            let options = WriteOptions::default();
            let content = stream::iter(pieces.chain(broken));
            in_time(
                desk.client
                    .upload_file(&desk.query(name), &options, content),
            )
            .await
            .unwrap_err();
        }
    }
    // A request of its own is answered after whatever the ones before left behind was undone.
    for _ in 0..50 {
        if tree_of(&desk.dir) == before {
            break;
        }
        desk.client.exec(&exec_of("true")).await.unwrap();
    }
    assert_eq!(tree_of(&desk.dir), before);
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.dir.join("from/a/b")).unwrap();
    std::fs::write(desk.dir.join("from/a/file"), "x").unwrap();
    // Nobody may make devices through the API.
    let device = desk.dir.join("from/z");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &device,
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::RUSR,
        rustix::fs::makedev(1, 3),
    );
    if made.is_err() {
        skipped("no device can be made here, so that no copy can be made to fail by one");
        return;
    }
    let before = tree_of(&desk.dir);
    let copied = in_time(desk.client.copy_file(&CopyRequest {
        from: Some(desk.path("from")),
        to: Some(desk.path("deep/to")),
        recursive: true,
        ..Default::default()
    }))
    .await;
    assert_eq!(code_of(copied), ErrorCode::NotARegularFile);
    assert_eq!(tree_of(&desk.dir), before);
    let whole = in_time(
        desk.client
            .read_file(&desk.query("from/a/file"), &ReadOptions::default()),
    )
    .await;
    assert_eq!(whole.unwrap().length, Some(1));
}

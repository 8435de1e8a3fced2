#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod excerpt;
mod model;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sandshell_types::Truncate;
use tempfile::TempDir;

use super::fuzzing::{settled, tiny, tiny_log};
use super::order::{Block, Cursor, Order, OrderPlace};
use super::{
    Config, JointPiece, JointReader, LogLimits, LogSpace, OutputError, OutputLog, PerStream,
    Stream, StreamReader,
};
use Stream::{Stderr, Stdout};

/// A cap that nothing here reaches.
const PLENTY: u64 = 1 << 30;

fn real(dir: &Path, cap: u64, keep_head: u64) -> OutputLog {
    let config = Config::new(dir.join("log"), LogLimits { cap, keep_head });
    OutputLog::with_config(config, &LogSpace::new(u64::MAX))
}

async fn read_all(mut reader: StreamReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(data) = reader.next().await.unwrap() {
        assert!(!data.is_empty());
        bytes.extend_from_slice(&data);
    }
    bytes
}

async fn joint_all(mut reader: JointReader) -> Vec<JointPiece> {
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next().await.unwrap() {
        pieces.push(piece);
    }
    pieces
}

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[tokio::test]
async fn small_output_never_makes_a_file() {
    let dir = TempDir::new().unwrap();
    let log = real(dir.path(), 256 << 20, 10 << 20);
    log.append(Stdout, b"").await;
    assert!(log.is_empty());
    for _ in 0..64 {
        log.append(Stdout, &[1; 1024]).await;
        log.append(Stderr, &[2; 1024]).await;
    }
    log.end();
    settled(&log).await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(
        read_all(log.reader(Stdout, 0, true).unwrap()).await,
        vec![1; 64 << 10]
    );
    assert_eq!(
        read_all(log.reader(Stderr, 1000, false).unwrap())
            .await
            .len(),
        (64 << 10) - 1000
    );
}

#[test]
fn the_directory_goes_with_the_last_reader() {
    let dir = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let reader = runtime.block_on(async {
        let log = real(dir.path(), 256 << 20, 0);
        log.append(Stdout, &vec![7; 3 << 20]).await;
        log.end();
        settled(&log).await;
        assert!(dir.path().join("log/stdout.0").exists());
        let mut reader = log.reader(Stdout, 0, true).unwrap();
        drop(log);
        assert!(reader.next().await.unwrap().is_some());
        reader
    });
    assert!(dir.path().join("log").exists());
    runtime.block_on(async { drop(reader) });
    // A runtime that goes away runs or drops what it was given; both remove the directory.
    drop(runtime);
    assert!(!dir.path().join("log").exists());
}

#[tokio::test]
async fn a_name_that_is_used_again_leaves_the_log_before_alone() {
    let dir = TempDir::new().unwrap();
    let again = || {
        let limits = LogLimits {
            cap: 256 << 20,
            keep_head: 0,
        };
        OutputLog::new(dir.path().join("name"), limits, &LogSpace::new(u64::MAX))
    };
    let write = async |log: &OutputLog, byte: u8| {
        log.append(Stdout, &vec![byte; 3 << 20]).await;
        log.end();
        settled(log).await;
    };
    let first = again();
    write(&first, 1).await;
    let reader = first.reader(Stdout, 0, true).unwrap();
    drop(first);
    let second = again();
    write(&second, 2).await;
    assert_eq!(read_all(reader).await, vec![1; 3 << 20]);
    // The first is being removed by now.
    let reader = second.reader(Stdout, 0, true).unwrap();
    assert_eq!(read_all(reader).await, vec![2; 3 << 20]);
}

#[tokio::test]
async fn a_finished_log_holds_neither_memory_nor_descriptors() {
    let dir = TempDir::new().unwrap();
    let log = real(dir.path(), 256 << 20, 0);
    log.append(Stdout, &vec![7; 3 << 20]).await;
    settled(&log).await;
    log.end();
    settled(&log).await;
    let state = format!("{:?}", log.shared.lock().streams.stdout);
    assert!(state.contains("chunks: []"), "{state}");
    let disk = format!("{:?}", log.shared.disk.lock().unwrap());
    assert!(
        disk.contains("file: None") && !disk.contains("fd:"),
        "{disk}"
    );
    // Late output goes on in the same file and is seen by readers opened later.
    log.append(Stdout, &vec![8; 1 << 20]).await;
    settled(&log).await;
    let all = read_all(log.reader(Stdout, 0, true).unwrap()).await;
    assert_eq!((all.len(), all.last()), (4 << 20, Some(&8)));
    assert_eq!(
        std::fs::read_dir(dir.path().join("log")).unwrap().count(),
        1
    );
}

#[tokio::test]
async fn a_follower_stops_at_the_end_and_not_at_late_output() {
    let dir = TempDir::new().unwrap();
    let log = tiny_log(dir.path(), PLENTY, 0);
    let follower = log.reader(Stdout, 0, true).unwrap();
    let joint = log.joint_reader(0, true).unwrap();
    log.append(Stdout, b"before").await;
    assert!(!log.is_ended());
    log.end();
    log.append(Stdout, b" after").await;
    log.end();
    assert!(log.is_ended());
    assert_eq!(read_all(follower).await, b"before");
    assert_eq!(joint_all(joint).await.len(), 1);
    assert_eq!(
        read_all(log.reader(Stdout, 0, true).unwrap()).await,
        b"before after"
    );
    assert_eq!(read_all(log.reader(Stdout, 12, true).unwrap()).await, b"");
}

#[tokio::test]
async fn a_follower_wakes_for_bytes_and_for_the_end() {
    let dir = TempDir::new().unwrap();
    let log = tiny_log(dir.path(), PLENTY, 0);
    let stream = tokio::spawn(read_all(log.reader(Stderr, 0, true).unwrap()));
    let joint = tokio::spawn(joint_all(log.joint_reader(0, true).unwrap()));
    // Followers that are dropped while they wait leave no trace in the log.
    let handles = Arc::strong_count(&log.shared);
    let mut gone = log.reader(Stderr, 0, true).unwrap();
    tokio::select! { biased; _ = gone.next() => panic!("nothing to read"), () = async {} => {} }
    drop(gone);
    assert_eq!(Arc::strong_count(&log.shared), handles);
    tokio::task::yield_now().await;
    log.append(Stderr, b"x").await;
    tokio::task::yield_now().await;
    log.end();
    assert_eq!(stream.await.unwrap(), b"x");
    assert_eq!(joint.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_reader_near_the_live_end_gets_the_appended_memory() {
    let dir = TempDir::new().unwrap();
    let log = real(dir.path(), 256 << 20, 0);
    let mut one = log.reader(Stdout, 0, true).unwrap();
    let mut two = log.reader(Stdout, 0, true).unwrap();
    log.append(Stdout, &[7; 5000]).await;
    let (one, two) = (
        one.next().await.unwrap().unwrap(),
        two.next().await.unwrap().unwrap(),
    );
    assert_eq!((one.len(), one.as_ptr()), (5000, two.as_ptr()));
}

#[tokio::test]
async fn the_cap_keeps_the_head_and_the_newest() {
    let dir = TempDir::new().unwrap();
    let log = tiny_log(dir.path(), 400, 70);
    let all = numbered(3000);
    for piece in all.chunks(10) {
        log.append(Stdout, piece).await;
    }
    settled(&log).await;
    let first = log.first_offset(Stdout);
    assert!(first > 2600 && first <= 2900, "{first}");
    assert_eq!(log.dropped(Stdout), first - 70);
    assert_eq!((log.first_offset(Stderr), log.dropped(Stderr)), (0, 0));
    assert!(matches!(log.reader(Stdout, 70, false),
        Err(OutputError::Gone { first_offset }) if first_offset == first));
    assert!(matches!(
        log.reader(Stdout, 3001, false),
        Err(OutputError::Beyond { len: 3000 })
    ));
    assert!(matches!(
        log.joint_reader(3001, false),
        Err(OutputError::Beyond { len: 3000 })
    ));
    assert_eq!(
        read_all(log.reader(Stdout, first, false).unwrap()).await,
        all[first as usize..]
    );
    let mut head = log.reader(Stdout, 0, false).unwrap();
    while head.offset() < 70 {
        head.next().await.unwrap().unwrap();
    }
    assert!(matches!(head.next().await,
        Err(OutputError::Gone { first_offset }) if first_offset == first));
    assert_eq!(head.offset(), 70);
    let kept: u64 = std::fs::read_dir(dir.path().join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(kept <= 400, "{kept}");
}

#[tokio::test]
async fn a_reader_keeps_the_segment_it_is_in() {
    let dir = TempDir::new().unwrap();
    let log = tiny_log(dir.path(), 400, 0);
    let all = numbered(2000);
    log.append(Stdout, &all[..200]).await;
    settled(&log).await;
    let mut reader = log.reader(Stdout, 0, true).unwrap();
    let mut got = reader.next().await.unwrap().unwrap().to_vec();
    log.append(Stdout, &all[200..]).await;
    settled(&log).await;
    assert!(log.first_offset(Stdout) > 200);
    let error = loop {
        match reader.next().await {
            Ok(data) => got.extend_from_slice(&data.unwrap()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, OutputError::Gone { .. }), "{error}");
    assert_eq!(got, all[..48]);
}

#[tokio::test]
async fn a_disk_that_refuses_costs_bytes_but_neither_time_nor_truth() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), b"").unwrap();
    let log = tiny_log(&dir.path().join("file"), PLENTY, 20);
    let all = numbered(1000);
    for piece in all.chunks(10) {
        log.append(Stdout, piece).await;
        log.append(Stderr, b"!").await;
    }
    log.end();
    settled(&log).await;
    // Twenty bytes of head and a tail are all that memory has.
    let first = log.first_offset(Stdout);
    assert_eq!(log.dropped(Stdout), first - 20);
    assert!((952..=968).contains(&first), "{first}");
    let kept = log.excerpt(Stdout, 5000, Truncate::Both).await.unwrap();
    assert_eq!(kept.bytes, [&all[..20], &all[first as usize..]].concat());
    assert_eq!(kept.omitted, first - 20);
    model::check_joint(&log, &model::Model::from_log_order(&all, 10), 0).await;

    // Once the disk takes bytes again, nothing more is lost.
    std::fs::remove_file(dir.path().join("file")).unwrap();
    log.append(Stdout, &all).await;
    settled(&log).await;
    assert_eq!(log.dropped(Stdout), 1000 - 20);
    assert_eq!(
        read_all(log.reader(Stdout, 1000, false).unwrap()).await,
        all
    );
}

fn sharing(dir: &Path, name: &str, space: &LogSpace) -> OutputLog {
    OutputLog::with_config(tiny(&dir.join(name), PLENTY, 100), space)
}

/// Bytes of all files below.
fn on_disk(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let sizes = entries.map(|entry| match entry.metadata().unwrap() {
        found if found.is_dir() => on_disk(&entry.path()),
        found => found.len(),
    });
    sizes.sum()
}

#[tokio::test]
async fn logs_that_ended_make_room_for_others_the_oldest_first() {
    let dir = TempDir::new().unwrap();
    let space = LogSpace::new(1000);
    let all = numbered(400);
    let mut ended = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let log = sharing(dir.path(), name, &space);
        log.append(Stdout, &all).await;
        log.end();
        settled(&log).await;
        assert!(on_disk(dir.path()) <= 1000, "after {name}");
        ended.push(log);
    }
    let dropped: Vec<u64> = ended.iter().map(|log| log.dropped(Stdout)).collect();
    assert_eq!(dropped, [400, 400, 0, 0]);
    // What is gone is told, and an excerpt counts it.
    let gone = ended[0].reader(Stdout, 0, false);
    assert!(matches!(gone, Err(OutputError::Gone { first_offset: 400 })));
    let excerpt = ended[0].excerpt(Stdout, 400, Truncate::Both).await.unwrap();
    assert_eq!((excerpt.bytes.len(), excerpt.omitted), (0, 400));
    let kept = read_all(ended[3].reader(Stdout, 0, false).unwrap()).await;
    assert_eq!(kept, all);
    // The room of a log that is gone is there for the next.
    // On a thread without a runtime its files go at once.
    std::thread::spawn(move || drop(ended)).join().unwrap();
    let last = sharing(dir.path(), "e", &space);
    last.append(Stdout, &numbered(900)).await;
    settled(&last).await;
    assert_eq!(last.dropped(Stdout), 0);
}

#[tokio::test]
async fn a_running_log_without_room_goes_on_live() {
    let dir = TempDir::new().unwrap();
    let space = LogSpace::new(500);
    let first = sharing(dir.path(), "a", &space);
    first.append(Stdout, &numbered(450)).await;
    settled(&first).await;
    let second = sharing(dir.path(), "b", &space);
    let mut live = second.reader(Stdout, 0, true).unwrap();
    for piece in numbered(1000).chunks(10) {
        second.append(Stdout, piece).await;
        assert_eq!(live.next().await.unwrap().unwrap(), piece);
    }
    second.end();
    settled(&second).await;
    assert!(second.dropped(Stdout) > 0);
    assert_eq!(first.dropped(Stdout), 0);
    assert!(on_disk(dir.path()) <= 500);
}

#[tokio::test]
async fn few_ended_logs_hold_in_memory_what_the_disk_refused() {
    let dir = TempDir::new().unwrap();
    let space = LogSpace::new(0);
    let mut logs = Vec::new();
    for number in 0..100 {
        let log = sharing(dir.path(), &number.to_string(), &space);
        log.append(Stdout, &numbered(200)).await;
        log.end();
        settled(&log).await;
        logs.push(log);
    }
    let holding = logs.iter().filter(|log| log.dropped(Stdout) < 200).count();
    assert_eq!(holding, 64);
    assert!(logs[99].dropped(Stdout) < 200);
}

#[test]
fn runs_join_only_when_they_belong_together() {
    let config = tiny(Path::new("/"), PLENTY, 0);
    let mut order = Order::default();
    let pushes: [(Stream, u64, i64); 6] = [
        (Stdout, 3, 1000),
        (Stdout, 4, 1004),
        (Stdout, 1, 1005),
        (Stderr, 2, 1005),
        (Stderr, 2, 900),
        (Stdout, 9, i64::from(i32::MAX) * 4),
    ];
    for (stream, len, at) in pushes {
        order.push(stream, len, at, &config);
    }
    let mut cursor = Cursor::default();
    let mut runs = Vec::new();
    let mut position = 0;
    while position < 21 {
        let run = match order.find(position, &mut cursor) {
            OrderPlace::Run(run) => run,
            OrderPlace::Block(block) => {
                let again = Block::decode(&block.encode(&config)).unwrap();
                assert_eq!((again.start(), again.end()), (block.start(), block.end()));
                again.run_at(position, &mut cursor).unwrap()
            }
            other => panic!("{other:?}"),
        };
        position = run.start.total() + run.len;
        runs.push((run.stream, run.len, run.at_ms));
    }
    let far = i64::from(i32::MAX) * 4;
    assert_eq!(
        runs,
        [
            (Stdout, 7, 1000),
            (Stdout, 1, 1005),
            (Stderr, 2, 1005),
            (Stderr, 2, 900),
            (Stdout, 9, far)
        ]
    );
}

#[test]
fn a_damaged_order_is_refused() {
    let words = |words: [u64; 5]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let damaged: [Vec<u8>; 3] = [
        // A run, a start, and both together that no number reaches.
        words([u64::MAX, 0, 0, 1, 5 << 32]),
        words([u64::MAX, 1, 0, 0, 0]),
        words([u64::MAX - 4, 0, 0, 1, 1 << 63 | 5 << 32]),
    ];
    for bytes in damaged {
        assert!(Block::decode(&bytes).is_err(), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_cancelled_runtime_does_not_stop_the_producer() {
    let dir = TempDir::new().unwrap();
    let log = tiny_log(dir.path(), PLENTY, 0);
    let other = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let handle = other.handle().clone();
    other.shutdown_background();
    log.append(Stdout, &[0; 30]).await;
    {
        // Jobs given to a runtime that is gone are dropped without being run.
        let _inside = handle.enter();
        log.end();
    }
    for piece in numbered(500).chunks(10) {
        log.append(Stdout, piece).await;
    }
    settled(&log).await;
    assert_eq!((log.len(Stdout), log.dropped(Stdout)), (530, 30));
    let data: Option<Bytes> = log
        .reader(Stdout, 520, false)
        .unwrap()
        .next()
        .await
        .unwrap();
    assert_eq!(data.unwrap().len(), 10);
    assert_eq!(
        log.shared.lock().marks(),
        PerStream {
            stdout: 530,
            stderr: 0
        }
    );
}

//! Output logs: what a log gives back of files that were damaged, and of files that were not.

use std::fs;
use std::path::{Path, PathBuf};

use sandshell_exec::fuzzing::{order_block, settled, tiny_log};
use sandshell_exec::output::{JointPiece, OutputError, OutputLog, Stream};

use crate::input::Input;
use crate::place::{Place, runtime};

/// A cap that drops much, and one that drops nothing.
const CAPS: [u64; 2] = [400, 1 << 30];

/// A block of the order from a damaged file is refused or read, and says nothing impossible.
pub(crate) fn order_of_output(data: &[u8]) {
    let mut input = Input(data);
    let positions: Vec<u64> = (0..4).map(|_| input.large()).collect();
    if let Some((start, end, found)) = order_block(input.0, &positions) {
        assert!(start <= end);
        for (position, run) in positions.iter().zip(found) {
            if (start..end).contains(position) {
                assert!(run.is_some_and(|at| (start..=*position).contains(&at)));
            } else {
                assert!(run.is_none() || *position < start);
            }
        }
    }
}

/// Appends as the input says, damages files of the log as it says, and reads from any offset.
pub(crate) fn log_files(data: &[u8]) {
    let mut input = Input(data);
    let place = Place::new();
    runtime(|runtime| runtime.block_on(log(place.path(), &mut input)));
}

async fn log(dir: &Path, input: &mut Input<'_>) {
    let how = input.byte();
    let log = tiny_log(dir, CAPS[usize::from(how & 1)], u64::from(how >> 1) % 80);
    let mut written: [Vec<u8>; 2] = Default::default();
    for _ in 0..input.byte() % 24 {
        let how = input.byte();
        let stream = usize::from(how & 1);
        let piece = vec![how; usize::from(input.byte() % 96)];
        log.append(side(stream), &piece).await;
        written[stream].extend_from_slice(&piece);
    }
    log.end();
    settled(&log).await;
    let damaged = damage(&dir.join("log"), input);
    let offset = u64::from(input.number() % 2048);
    for (stream, all) in written.iter().enumerate() {
        read(&log, side(stream), all, offset, damaged).await;
    }
    read_both(&log, &written, damaged).await;
}

fn side(stream: usize) -> Stream {
    [Stream::Stdout, Stream::Stderr][stream]
}

/// What of the files is no longer as it was written.
#[derive(Debug, Clone, Copy, Default)]
struct Damaged {
    bytes: bool,
    order: bool,
}

fn damage(dir: &Path, input: &mut Input<'_>) -> Damaged {
    let mut damaged = Damaged::default();
    for _ in 0..input.byte() % 4 {
        let mut files: Vec<PathBuf> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        if files.is_empty() {
            break;
        }
        let file = &files[usize::from(input.byte()) % files.len()];
        let mut content = fs::read(file).unwrap();
        let at = usize::from(input.number()) % (content.len() + 1);
        match input.byte() % 4 {
            0 => content.truncate(at),
            1 => {
                let new = input.bytes(8);
                content.splice(at..(at + new.len()).min(content.len()), new.iter().copied());
            }
            2 => content.extend_from_slice(input.bytes(16)),
            _ => content.fill(input.byte()),
        }
        fs::write(file, content).unwrap();
        if file.to_string_lossy().contains("order") {
            damaged.order = true;
        } else {
            damaged.bytes = true;
        }
    }
    damaged
}

async fn read(log: &OutputLog, stream: Stream, all: &[u8], offset: u64, damaged: Damaged) {
    let mut reader = match log.reader(stream, offset, false) {
        Ok(reader) => reader,
        Err(OutputError::Beyond { len }) => return assert_eq!(len, all.len() as u64),
        Err(OutputError::Gone { first_offset }) => return assert!(first_offset > offset),
        Err(error) => panic!("{error}"),
    };
    loop {
        let at = reader.offset() as usize;
        match reader.next().await {
            Ok(Some(bytes)) => {
                let right = &all[at..at + bytes.len()];
                assert!(
                    damaged.bytes || bytes == right,
                    "other bytes than were written"
                );
            }
            Ok(None) => return assert_eq!(at, all.len()),
            Err(OutputError::Gone { first_offset }) => {
                return assert!(first_offset > at as u64 && log.dropped(stream) > 0);
            }
            Err(error) => return assert!(damaged.bytes, "{error}"),
        }
    }
}

/// Both streams together are all there is, in some order, or an error.
async fn read_both(log: &OutputLog, written: &[Vec<u8>; 2], damaged: Damaged) {
    let mut reader = log.joint_reader(0, false).unwrap();
    let mut seen = [0; 2];
    let total = written.iter().map(Vec::len).sum::<usize>() as u64;
    for _ in 0..20_000 {
        match reader.next().await {
            Ok(Some(JointPiece::Data {
                stream,
                offset,
                data,
                ..
            })) => {
                let side = usize::from(stream == Stream::Stderr);
                if !damaged.order {
                    assert_eq!(offset, seen[side]);
                    let right = &written[side][offset as usize..][..data.len()];
                    assert!(damaged.bytes || data == right);
                }
                seen[side] = offset + data.len() as u64;
            }
            Ok(Some(JointPiece::Gap { stream, bytes, .. })) => {
                let side = usize::from(stream == Stream::Stderr);
                seen[side] += bytes;
                assert!(bytes <= total || damaged.order);
            }
            Ok(None) => {
                let all = seen.iter().sum::<u64>() == total;
                return assert!(all || damaged.order, "{seen:?} of {total}");
            }
            Err(error) => return assert!(damaged.order || damaged.bytes, "{error}"),
        }
    }
    panic!("the reader goes on for ever");
}

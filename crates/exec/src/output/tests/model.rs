//! Random use of the log against two byte vectors and a list of who wrote when.

use proptest::prelude::*;
use tokio::task::JoinHandle;

use super::*;

/// What the log should hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    streams: PerStream<Vec<u8>>,
    /// One element per byte of the joint log.
    order: Vec<Stream>,
}

impl Model {
    fn add(&mut self, stream: Stream, data: &[u8]) {
        self.streams.get_mut(stream).extend_from_slice(data);
        self.order.extend(std::iter::repeat_n(stream, data.len()));
    }

    /// `stdout` in pieces, with one byte of stderr after each.
    pub(super) fn from_log_order(stdout: &[u8], piece: usize) -> Self {
        let mut model = Self::default();
        for piece in stdout.chunks(piece) {
            model.add(Stdout, piece);
            model.add(Stderr, b"!");
        }
        model
    }

    fn marks_at(&self, position: usize) -> PerStream<u64> {
        let stderr = self.order[..position]
            .iter()
            .filter(|s| **s == Stderr)
            .count() as u64;
        PerStream {
            stdout: position as u64 - stderr,
            stderr,
        }
    }
}

/// Polls the future once and drops it, which must change nothing.
async fn poke<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! { biased; done = future => Some(done), () = async {} => None }
}

async fn check_stream(log: &OutputLog, model: &Model, stream: Stream, offset: u64) {
    let all = model.streams.get(stream);
    let mut reader = match log.reader(stream, offset, false) {
        Ok(reader) => reader,
        Err(OutputError::Beyond { len }) => return assert_eq!(len, all.len() as u64),
        Err(OutputError::Gone { first_offset }) => {
            assert!(first_offset > offset && first_offset >= log.first_offset(stream));
            return;
        }
        Err(other) => panic!("{other}"),
    };
    loop {
        let at = reader.offset() as usize;
        let next = match poke(reader.next()).await {
            Some(next) => next,
            None => reader.next().await,
        };
        match next {
            Ok(Some(data)) => assert_eq!(data[..], all[at..at + data.len()]),
            Ok(None) => return assert_eq!(at, all.len()),
            Err(OutputError::Gone { first_offset }) => {
                assert!(first_offset > at as u64 && log.dropped(stream) > 0);
                return;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Reads the joint log from `from`; every byte is there in its place, or in a gap. Returns how
/// many bytes were in gaps.
pub(super) async fn check_joint(log: &OutputLog, model: &Model, from: usize) -> u64 {
    let mut reader = log.joint_reader(from as u64, false).unwrap();
    let mut expected = model.marks_at(from);
    let (mut position, mut missing, mut data_seen) = (from as u64, 0, false);
    loop {
        let next = match poke(reader.next()).await {
            Some(next) => next,
            None => reader.next().await,
        };
        let Some(piece) = next.unwrap() else { break };
        match piece {
            JointPiece::Data {
                stream,
                offset,
                data,
                position_after,
                at,
            } => {
                assert!(at.as_millisecond() > 0);
                data_seen = true;
                assert_eq!(offset, *expected.get(stream));
                assert_eq!(position_after, position + data.len() as u64);
                let range = position as usize..position_after as usize;
                assert!(model.order[range].iter().all(|s| *s == stream));
                let at = offset as usize;
                assert_eq!(data[..], model.streams.get(stream)[at..at + data.len()]);
                *expected.get_mut(stream) += data.len() as u64;
            }
            JointPiece::Gap {
                stream,
                offset,
                bytes,
                position_after,
            } => {
                assert!(bytes > 0);
                // Inside of a range whose order is gone the start cannot be known exactly.
                if data_seen || from == 0 {
                    assert_eq!(offset, *expected.get(stream));
                } else {
                    assert!(offset <= *expected.get(stream));
                }
                *expected.get_mut(stream) = offset + bytes;
                missing += bytes;
                assert!(position_after >= position);
            }
        }
        position = expected.total();
    }
    assert_eq!(position, model.order.len() as u64);
    missing
}

async fn follow_stream(mut reader: StreamReader) -> Result<Vec<u8>, u64> {
    let mut bytes = Vec::new();
    loop {
        match reader.next().await {
            Ok(Some(data)) => bytes.extend_from_slice(&data),
            Ok(None) => return Ok(bytes),
            Err(OutputError::Gone { first_offset }) => return Err(first_offset),
            Err(other) => panic!("{other}"),
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Append(Stream, Vec<u8>),
    Read(Stream, u16),
    Joint(u16),
    Follow(Stream),
    Settle,
    End,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let stream = prop_oneof![Just(Stdout), Just(Stderr)];
    let op = prop_oneof![
        10 => (stream.clone(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(s, data)| Op::Append(s, data)),
        6 => (stream.clone(), any::<u8>()).prop_map(|(s, byte)| Op::Append(s, vec![byte])),
        2 => (stream.clone(), any::<u16>()).prop_map(|(s, at)| Op::Read(s, at)),
        2 => any::<u16>().prop_map(Op::Joint),
        1 => stream.prop_map(Op::Follow),
        2 => Just(Op::Settle),
        1 => Just(Op::End),
    ];
    prop::collection::vec(op, 0..120)
}

async fn play(ops: Vec<Op>, cap: u64, keep_head: u64) {
    let dir = TempDir::new().unwrap();
    let log = tiny_log(dir.path(), cap, keep_head);
    let mut model = Model::default();
    let mut ended: Option<Model> = None;
    let mut followers: Vec<(Stream, u64, Model, JoinHandle<_>)> = Vec::new();
    let joint_follower = tokio::spawn(joint_all(log.joint_reader(0, true).unwrap()));
    for op in ops {
        match op {
            Op::Append(stream, data) => {
                log.append(stream, &data).await;
                model.add(stream, &data);
            }
            Op::Read(stream, at) => {
                let at = u64::from(at) % (log.len(stream) + 2);
                check_stream(&log, &model, stream, at).await;
            }
            Op::Joint(at) => {
                let at = usize::from(at) % (model.order.len() + 1);
                let missing = check_joint(&log, &model, at).await;
                assert!(missing == 0 || cap < PLENTY);
            }
            Op::Follow(stream) => {
                let at = log.len(stream);
                let reader = log.reader(stream, at, true).unwrap();
                let until = ended.as_ref().map(|_| model.clone()).unwrap_or_default();
                followers.push((stream, at, until, tokio::spawn(follow_stream(reader))));
            }
            Op::Settle => settled(&log).await,
            Op::End => {
                log.end();
                ended.get_or_insert_with(|| model.clone());
            }
        }
        let state = log.shared.lock();
        for stream in Stream::BOTH {
            let side = state.streams.get(stream);
            assert_eq!(side.len(), model.streams.get(stream).len() as u64);
            // Head, hole and the rest make the whole.
            let hole = side.first_offset().saturating_sub(keep_head);
            assert_eq!(side.dropped(), hole);
        }
    }
    log.end();
    let at_end = ended.unwrap_or_else(|| model.clone());
    settled(&log).await;
    for stream in Stream::BOTH {
        let len = log.len(stream);
        for offset in (0..=len)
            .step_by(1 + len as usize / 7)
            .chain([len, len + 1])
        {
            check_stream(&log, &model, stream, offset).await;
        }
    }
    let len = model.order.len();
    for from in (0..=len).step_by(1 + len / 5).chain([len]) {
        let missing = check_joint(&log, &model, from).await;
        assert!(missing == 0 || cap < PLENTY);
    }
    for (stream, at, until, follower) in followers {
        let until = if until.order.is_empty() {
            &at_end
        } else {
            &until
        };
        match follower.await.unwrap() {
            Ok(bytes) => assert_eq!(bytes, until.streams.get(stream)[at as usize..]),
            Err(first_offset) => assert!(cap < PLENTY && first_offset > at),
        }
    }
    let followed: u64 = joint_follower
        .await
        .unwrap()
        .iter()
        .fold(0, |sum, piece| match piece {
            JointPiece::Data { data, .. } => sum + data.len() as u64,
            JointPiece::Gap { bytes, .. } => {
                assert!(cap < PLENTY);
                sum + bytes
            }
        });
    assert!(followed == at_end.order.len() as u64 || cap < PLENTY && followed > 0);
}

fn run(cap: u64, keep_head: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    proptest!(ProptestConfig::with_cases(48), |(ops in ops())| {
        runtime.block_on(play(ops, cap, keep_head));
    });
}

#[test]
fn without_a_cap_everything_is_exact() {
    run(PLENTY, 0);
}

#[test]
fn with_a_head_everything_is_exact() {
    run(PLENTY, 37);
}

#[test]
fn with_a_cap_what_is_kept_is_exact() {
    run(500, 0);
}

#[test]
fn with_a_cap_and_a_head_what_is_kept_is_exact() {
    run(600, 75);
}

//! Logs for tests and fuzz targets.

use std::path::Path;

use super::order::{Block, Cursor};
use super::{Config, LogSpace, OutputLog};

/// Sizes at which a few hundred bytes reach every path.
pub(crate) fn tiny(dir: &Path, cap: u64, keep_head: u64) -> Config {
    Config {
        dir: dir.join("log"),
        cap,
        keep_head,
        piece: 16,
        gather: 8,
        small: 24,
        tail: 32,
        flush_at: 32,
        unwritten_max: 64,
        batch: 40,
        segment: 48,
        window: 20,
        joint_piece: 12,
        order_runs: 4,
        order_blocks: 2,
        order_segment: 3,
    }
}

/// A log of such sizes.
pub(crate) fn tiny_log(dir: &Path, cap: u64, keep_head: u64) -> OutputLog {
    OutputLog::with_config(tiny(dir, cap, keep_head), &LogSpace::new(u64::MAX))
}

/// Waits until no flush job runs.
pub(crate) async fn settled(log: &OutputLog) {
    loop {
        let progress = log.shared.flushed.notified();
        if !log.shared.lock().flushing {
            // It lets go of the disk last.
            drop(log.shared.disk.lock());
            return;
        }
        progress.await;
    }
}

/// What a block of the order, read from a file, says: how far it reaches, and the byte after each
/// position. `None` when it is refused.
pub(crate) fn order_block(bytes: &[u8], positions: &[u64]) -> Option<(u64, u64, Vec<Option<u64>>)> {
    let block = Block::decode(bytes).ok()?;
    let mut cursor = Cursor::default();
    let found = positions
        .iter()
        .map(|position| {
            block
                .run_at(*position, &mut cursor)
                .map(|run| run.start.total())
        })
        .collect();
    Some((block.start(), block.end(), found))
}

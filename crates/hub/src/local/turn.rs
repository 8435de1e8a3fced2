//! Whose turn it is to launch: the launcher of one hub at a time.
//!
//! A hub that is killed leaves its launcher behind, which finishes what it was told before it sees that
//! nobody is there: it may be about to make a sandbox that no record knows of, or to thaw one that the
//! record calls paused. It holds a lock until then, and whoever comes next waits for it before anything
//! is taken over or swept away. In the file that is locked launchers write down where they make groups.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::oneshot;

/// Far longer than a launcher takes for anything it can be told, unless the machine stands still.
const PATIENCE: Duration = Duration::from_mins(1);

/// Takes the lock. It is held as long as the file is open, here or in a launcher.
pub(super) async fn take(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(file),
        Err(Errno::WOULDBLOCK) => tracing::info!("waiting for the launcher of an earlier hub"),
        Err(errno) => return Err(errno.into()),
    }
    let (tell, taken) = oneshot::channel();
    // A thread that nobody waits for, should the lock never come.
    std::thread::Builder::new().spawn(move || {
        let locked = loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                locked => break locked,
            }
        };
        // Whoever asked may have given up.
        let _ = tell.send(locked.map(|()| file));
    })?;
    match tokio::time::timeout(PATIENCE, taken).await {
        Ok(Ok(locked)) => Ok(locked?),
        Ok(Err(_)) => Err(io::Error::other(
            "the lock of the launcher cannot be waited for",
        )),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "the launcher of an earlier hub does not end; it holds {}",
                path.display()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn is_had_when_the_last_holder_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("launcher");
        let hub = take(&path).await.unwrap();
        let launcher = hub.try_clone().unwrap();
        drop(hub);
        let mut next = Box::pin(take(&path));
        let early = tokio::time::timeout(Duration::from_millis(50), &mut next).await;
        assert!(early.is_err(), "a launcher holds it still");
        drop(launcher);
        next.await.unwrap();
    }
}

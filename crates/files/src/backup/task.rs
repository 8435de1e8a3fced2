//! Work that several may watch.

use sandshell_types::BackupProgress;
use tokio::sync::watch;

use super::BackupError;

type Outcome<T> = Option<Result<T, BackupError>>;

/// Work that goes on by itself: its progress and its result.
#[derive(Debug, Clone)]
pub struct Task<T> {
    progress: watch::Receiver<BackupProgress>,
    outcome: watch::Receiver<Outcome<T>>,
}

/// The side of whoever does the work.
#[derive(Debug)]
pub(super) struct Begun<T> {
    pub(super) progress: watch::Sender<BackupProgress>,
    outcome: watch::Sender<Outcome<T>>,
}

pub(super) fn begin<T>() -> (Begun<T>, Task<T>) {
    let (progress, progress_seen) = watch::channel(BackupProgress::default());
    let (outcome, outcome_seen) = watch::channel(None);
    let begun = Begun { progress, outcome };
    let task = Task {
        progress: progress_seen,
        outcome: outcome_seen,
    };
    (begun, task)
}

impl<T> Begun<T> {
    pub(super) fn finish(self, result: Result<T, BackupError>) {
        self.outcome.send_replace(Some(result));
    }
}

impl<T: Clone> Task<T> {
    /// One that is over.
    pub(super) fn done(value: T) -> Self {
        let (begun, task) = begin();
        begun.finish(Ok(value));
        task
    }

    /// How far it is.
    pub fn progress(&self) -> BackupProgress {
        *self.progress.borrow()
    }

    /// Waits until it has got further than was last seen here.
    ///
    /// CANCEL SAFETY: nothing is lost when the future is dropped.
    pub async fn progressed(&mut self) -> BackupProgress {
        if self.progress.changed().await.is_err() {
            // It is over, which its outcome tells.
            std::future::pending::<()>().await;
        }
        *self.progress.borrow_and_update()
    }

    /// Waits for the end.
    ///
    /// CANCEL SAFETY: nothing is lost when the future is dropped.
    pub async fn outcome(&mut self) -> Result<T, BackupError> {
        match self.outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Err(BackupError::Broken)),
            // Whoever worked on it ended without a word.
            Err(_) => Err(BackupError::Broken),
        }
    }
}

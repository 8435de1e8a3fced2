//! Bytes made on the inside's threads, given out piece by piece.
//!
//! A thread is taken for one piece at a time, so that a slow reader holds none; the next piece is made
//! while the one before is on its way. At most two pieces exist.
//!
//! For work that can stop after any piece and go on later: a file, a list. Work that cannot, because a
//! tar or zstd writer holds its own place on the stack, keeps its thread and uses `pipe`.

use std::future::{Future as _, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use futures_util::future::maybe_done;
use futures_util::stream::{Stream, try_unfold};
use sandshell_exec::inside::{Inside, Root, Who};

use crate::FileError;

/// Something that makes bytes.
pub trait Source: Send + 'static {
    /// The next piece; `None` at the end. Runs on a thread of the inside.
    fn next(&mut self, root: &Root) -> Result<Option<Bytes>, FileError>;
}

/// The bytes of a source. Nothing is begun before it is polled.
pub fn stream<S: Source>(
    inside: Inside,
    who: Who,
    source: S,
) -> impl Stream<Item = Result<Bytes, FileError>> + Send {
    let make = move |source| Box::pin(maybe_done(piece(inside.clone(), who.clone(), source)));
    let first = make.clone()(source);
    try_unfold((first, make), |(mut ahead, make)| async move {
        ahead.as_mut().await;
        let Some(made) = ahead.as_mut().take_output() else {
            return Ok(None);
        };
        let Some((bytes, source)) = made? else {
            return Ok(None);
        };
        let mut ahead = make.clone()(source);
        // Sets the thread to work.
        poll_fn(|cx| {
            let _ = ahead.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
        Ok(Some((bytes, (ahead, make))))
    })
}

async fn piece<S: Source>(
    inside: Inside,
    who: Who,
    mut source: S,
) -> Result<Option<(Bytes, S)>, FileError> {
    let job = move |root: &Root| {
        source
            .next(root)
            .map(|made| made.map(|bytes| (bytes, source)))
    };
    inside.run(&who, job).await?
}

/// Buffers of one size that come back when their bytes have been sent: fresh memory would cost as
/// much as the copy into it.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    size: usize,
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// As many as are on their way at a time.
const SPARE: usize = 4;

impl Buffers {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            spare: Arc::default(),
        }
    }

    /// Has a buffer filled; its bytes, as many as the filling says.
    pub(crate) fn fill<E>(
        &self,
        with: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Bytes, E> {
        let spare = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut lent = Lent {
            buffer: spare.unwrap_or_else(|| vec![0; self.size]),
            length: 0,
            home: self.spare.clone(),
        };
        lent.length = with(&mut lent.buffer)?;
        Ok(Bytes::from_owner(lent))
    }
}

struct Lent {
    buffer: Vec<u8>,
    length: usize,
    home: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut home = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        if home.len() < SPARE {
            home.push(std::mem::take(&mut self.buffer));
        }
    }
}

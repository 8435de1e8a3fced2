//! Tasks of tokio's runtime, and their time.

use std::pin::Pin;
use std::time::Duration;

use tokio::task::JoinHandle;

/// What one wait counts for at most, however late its end is heard of.
const SLICE: Duration = Duration::from_millis(500);

/// Resolves when so much time has gone by in which this process could run.
///
/// On a machine that stood still an hour says nothing against what was to be done in a second: nothing was. So time
/// is counted in slices, and the one in which the machine stood still counts for no more than the others.
pub async fn own_time(time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        let slice = left.min(SLICE);
        tokio::time::sleep(slice).await;
        left -= slice;
    }
}

/// Starts a task. Its future is boxed: what drives a task, some two kilobytes, is compiled for each kind of outcome
/// then, not for each future.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_stood_still_has_used_up_one_slice() {
        let began = tokio::time::Instant::now();
        let mut own = std::pin::pin!(own_time(10 * SLICE));
        tokio::select! {
            () = &mut own => unreachable!("nothing has gone by"),
            () = tokio::task::yield_now() => {}
        }
        let stood_still = 1000 * SLICE;
        tokio::time::advance(stood_still).await;
        own.await;
        assert_eq!(began.elapsed(), stood_still + 9 * SLICE);
    }
}

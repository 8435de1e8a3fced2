//! Tasks of tokio's runtime.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts a task. Its future is boxed: what drives a task, some two kilobytes, is compiled for each kind of outcome
/// then, not for each future.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(future)
}

//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! Owns the socket and hyper's state machine for it. Does not decide on reuse or retries; the pool
//! and the client do.
//!
//! hyper's sender, reply future and reply body only make progress when the driver is polled, and
//! here that always happens in the same task. They are therefore polled with a no-op waker, and
//! only the driver registers the task: one wake-up per socket event instead of several. For the
//! same reason they are kept out of Tokio's cooperative budget: a pause it forces on a future is
//! announced to that future's waker alone, and would be lost.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use tokio::task::coop::unconstrained;

use crate::ClientError;
use crate::endpoint::{Endpoint, Transport};

pub(crate) type OutRequest = Request<OutBody>;

/// The body of a request.
pub(crate) enum OutBody {
    Whole(Bytes),
    Stream(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl OutBody {
    pub(crate) fn stream(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }

    /// The same again; a stream cannot be had twice.
    pub(crate) fn again(&self) -> Option<Self> {
        match self {
            Self::Whole(bytes) => Some(Self::Whole(bytes.clone())),
            Self::Stream(_) => None,
        }
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(stream) => {
                let next = stream.as_mut().poll_next(cx);
                next.map(|next| next.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

pub(crate) struct Connection {
    sender: http1::SendRequest<OutBody>,
    /// `None` once it has finished: the socket is then closed. Boxed because connections move
    /// between pool, future and stream.
    driver: Option<Box<http1::Connection<Transport, OutBody>>>,
}

/// A request that got no reply.
pub(crate) struct SendFailure {
    pub(crate) error: ClientError,
    /// The request, when not one byte of it was written.
    pub(crate) unsent: Option<OutRequest>,
    /// Whether the connection ended without a reply, rather than with a malformed one.
    pub(crate) no_reply: bool,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let transport = endpoint.connect().await?;
        let (sender, driver) = http1::handshake(transport)
            .await
            .map_err(|error| ClientError::protocol("the connection could not be set up", error))?;
        Ok(Self {
            sender,
            driver: Some(Box::new(driver)),
        })
    }

    /// Moves bytes in both directions. `Ready` means that the socket is closed; what was read
    /// before is still delivered.
    pub(crate) fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(driver) = &mut self.driver else {
            return Poll::Ready(());
        };
        // The driver's own result is dropped: the same error reaches the reply or its body.
        let ended = Pin::new(&mut **driver).poll(cx).map(|_| ());
        if ended.is_ready() {
            self.driver = None;
        }
        ended
    }

    /// Whether a request may be sent now, after noticing what the server did meanwhile.
    ///
    /// Takes no task's waker, so that handing in the next request wakes nobody.
    pub(crate) fn is_usable(&mut self) -> bool {
        let drive = pin!(unconstrained(poll_fn(|cx| self.poll_drive(cx))));
        let ended = drive
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready();
        !ended && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of the reply.
    ///
    /// CANCEL SAFETY: after a drop the connection is mid-request and must be dropped too.
    pub(crate) async fn send(
        &mut self,
        request: OutRequest,
    ) -> Result<Response<Incoming>, SendFailure> {
        let mut reply = pin!(unconstrained(self.sender.try_send_request(request)));
        let outcome = poll_fn(|cx| {
            let ended = self.poll_drive(cx).is_ready();
            match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if ended => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        let context = "the connection failed before the reply";
        match outcome {
            Some(Ok(response)) => Ok(response),
            Some(Err(mut failure)) => {
                let unsent = failure.take_message();
                let error = failure.into_error();
                Err(SendFailure {
                    no_reply: !error.is_parse(),
                    error: ClientError::protocol(context, error),
                    unsent,
                })
            }
            None => Err(SendFailure {
                error: ClientError::Protocol {
                    context: context.to_owned(),
                    source: None,
                },
                unsent: None,
                no_reply: true,
            }),
        }
    }
}

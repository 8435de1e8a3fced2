//! Forms with files in them, read as they come.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use multer::{Error, Field, Multipart};

/// Most bytes of a form that are held.
const HELD: usize = 16 * 1024 * 1024;

/// A form that is read as it comes. What is read of it and cannot be given on yet, such as the head of a
/// part, is held; so much and no more.
pub struct Form {
    form: Multipart<'static>,
    held: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Form").finish_non_exhaustive()
    }
}

impl Form {
    /// The form in a body; the body for one that is none.
    pub fn of(headers: &HeaderMap, body: Body) -> Result<Self, Body> {
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let Some(boundary) = kind.and_then(|kind| multer::parse_boundary(kind).ok()) else {
            return Err(body);
        };
        let held = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&held);
        let mut body = body.into_data_stream();
        let mut given = false;
        let pieces = stream::poll_fn(move |cx| {
            // Its reader takes all there is before it looks at any of it; so there is one piece at a time.
            if std::mem::take(&mut given) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let piece = ready!(body.poll_next_unpin(cx));
            given = piece.is_some();
            Poll::Ready(piece.map(|piece| {
                let piece = piece.map_err(io::Error::other)?;
                let held = count.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
                if held > HELD {
                    return Err(io::Error::other("a part of it has no end"));
                }
                Ok(piece)
            }))
        });
        let form = Multipart::new(pieces, boundary);
        Ok(Self { form, held })
    }

    /// The next part.
    pub async fn next(&mut self) -> Result<Option<Field<'static>>, Error> {
        let field = self.form.next_field().await;
        self.held.store(0, Ordering::Relaxed);
        field
    }

    /// The content of a part.
    pub fn pieces(
        &self,
        field: Field<'static>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        let held = Arc::clone(&self.held);
        field.map_err(io::Error::other).inspect(move |_| {
            held.store(0, Ordering::Relaxed);
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn form(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Form {
        let kind = HeaderValue::from_static("multipart/form-data; boundary=x");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
        let body = Body::from_stream(pieces.map(Ok::<_, io::Error>));
        Form::of(&headers, body).unwrap()
    }

    fn endless() -> impl Stream<Item = Bytes> {
        stream::repeat(Bytes::from(vec![b'a'; 65536]))
    }

    #[tokio::test]
    async fn a_body_without_its_boundary_is_not_held_whole() {
        assert!(form(endless()).next().await.is_err());
    }

    #[tokio::test]
    async fn a_part_may_be_longer_than_what_is_held() {
        let head = "--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
        let content = endless().take(HELD / 65536 * 3);
        let head = stream::iter([Bytes::from_static(head.as_bytes())]);
        let end = stream::iter([Bytes::from_static(b"\r\n--x--\r\n")]);
        let mut form = form(head.chain(content).chain(end));
        let field = form.next().await.unwrap().unwrap();
        let mut pieces = form.pieces(field);
        let mut length = 0;
        while let Some(piece) = pieces.next().await {
            length += piece.unwrap().len();
        }
        drop(pieces);
        assert_eq!(length, HELD * 3);
        assert!(form.next().await.unwrap().is_none());
    }
}

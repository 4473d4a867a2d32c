//! The unread rest of a request's body after its response is made.
//!
//! Most errors occur before the body is read. A connection can be reused only once the body has
//! been read, so a small rest is read and discarded. For a larger one the response announces that
//! the connection closes, and the peer may finish sending before it does: closing the connection
//! while the peer is still sending would lose the response.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};

/// Bytes that are read to keep a connection.
const MOST: u64 = 64 << 10;
/// How long the response waits for them.
const TIME: Duration = Duration::from_secs(1);

/// A body shared by a handler and the code that discards its rest.
#[derive(Clone, Debug)]
pub(crate) struct UnreadBody {
    body: Arc<Mutex<Body>>,
    /// The peer waits for a request to send the body (`Expect: 100-continue`), and it has not been
    /// read yet: reading its first chunk sends the request.
    is_held_back: Arc<AtomicBool>,
}

impl UnreadBody {
    /// The rest of a request's body.
    pub(crate) fn take(request: &mut Request) -> Self {
        let rest = Self {
            body: Arc::new(Mutex::new(std::mem::take(request.body_mut()))),
            is_held_back: Arc::new(request.headers().contains_key(EXPECT).into()),
        };
        if !rest.with(|body| body.is_end_stream()) {
            *request.body_mut() = Body::new(rest.clone());
        }
        rest
    }

    /// Discards the unread rest, or announces in the response that the connection closes.
    pub(crate) async fn clear_up(self, response: &mut Response, unread: Option<&Unread>) {
        if !self.has_gone().await {
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            unread.into_iter().for_each(Unread::mark);
        }
    }

    /// Reads the rest. Returns whether nothing is left.
    async fn has_gone(mut self) -> bool {
        let (is_over, least) = self.with(|body| (body.is_end_stream(), body.size_hint().lower()));
        if is_over {
            return true;
        }
        if self.is_held_back.load(Ordering::Relaxed) || least > MOST {
            return false;
        }
        let reading = async {
            let mut read = 0;
            while let Some(frame) = self.frame().await {
                let Ok(frame) = frame else { return false };
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
                if read > MOST {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(TIME, reading).await.unwrap_or(false)
    }

    fn with<T>(&self, of: impl FnOnce(&mut Body) -> T) -> T {
        of(&mut self.body.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl hyper::body::Body for UnreadBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.is_held_back.store(false, Ordering::Relaxed);
        self.with(|body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}

/// Whether a connection closes while its peer is sending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Unread {
    /// Marks it.
    pub(crate) fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is marked.
    pub(crate) fn is_marked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

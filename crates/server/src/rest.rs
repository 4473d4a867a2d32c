//! What a request's body still has when its answer is made.
//!
//! Most refusals come before the body is read. A connection can only be used again once the body is
//! out of the way, so what is left of a small one is read and thrown away. Else the answer says
//! that the connection closes, and the peer is let finish what it sends before it does: who closes
//! on somebody who is still sending takes the answer from them.

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
/// How long the answer waits for them.
const TIME: Duration = Duration::from_secs(1);

/// A body in the hands of a handler, and of whoever clears up behind it.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    body: Arc<Mutex<Body>>,
    /// The peer sends the body only when it is told to, and nobody has asked for it yet: who asks
    /// for the first piece of it tells the peer.
    is_held_back: Arc<AtomicBool>,
}

impl Rest {
    /// What will be left of a request's body.
    pub(crate) fn of(request: &mut Request) -> Self {
        let rest = Self {
            body: Arc::new(Mutex::new(std::mem::take(request.body_mut()))),
            is_held_back: Arc::new(request.headers().contains_key(EXPECT).into()),
        };
        if !rest.with(|body| body.is_end_stream()) {
            *request.body_mut() = Body::new(rest.clone());
        }
        rest
    }

    /// Reads what nobody has read, or has the answer say that the connection ends.
    pub(crate) async fn clear_up(self, response: &mut Response, unread: Option<&Unread>) {
        if !self.has_gone().await {
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            unread.into_iter().for_each(Unread::mark);
        }
    }

    /// Reads what nobody has read. Whether nothing is left of it.
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

impl hyper::body::Body for Rest {
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

/// Whether a connection ends while its peer is sending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Unread {
    /// It does.
    pub(crate) fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it does.
    pub(crate) fn is_marked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

//! The bytes of a connection: stalled peers are dropped, and the HTTP library's own responses are
//! replaced by our envelope.
//!
//! A request that cannot be parsed never reaches the router; the library answers it with a bare
//! status line. Clients are promised an envelope for every error, so the bare response is replaced
//! on its way out.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::problem::Problem;
use crate::trace::REQUEST_ID;
use crate::unread_body::Unread;

/// Bytes of a peer that is still sending that are discarded before its connection closes.
const MOST_LEFT: usize = 8 << 20;
/// The time limit for that.
const LEFT_TIME: Duration = Duration::from_secs(2);

/// A connection's bytes.
pub(crate) struct Wire<T> {
    inner: T,
    /// Our response, still to be written, in place of one of the library's.
    ours: Vec<u8>,
    stall_time: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    unread: Unread,
    /// How long the peer may continue to send, and how much.
    last: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<T: AsyncWrite + Unpin> Wire<T> {
    pub(crate) fn new(inner: T, stall_time: Duration, unread: Unread) -> Self {
        Self {
            inner,
            ours: Vec::new(),
            stall_time,
            stalled: None,
            unread,
            last: None,
        }
    }

    /// Passes a write's result on, or gives up if nothing was accepted for too long.
    fn watched(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stall_time = self.stall_time;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(stall_time)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn write_ours(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.ours.is_empty() {
            let written = Pin::new(&mut self.inner).poll_write(cx, &self.ours);
            match ready!(self.watched(cx, written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => drop(self.ours.drain(..n)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The replacement of a response that the library made by itself.
fn instead_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_whole = bytes.len() < 512 && bytes.ends_with(b"\r\n\r\n");
    let line = bytes
        .strip_prefix(b"HTTP/1.1 ")
        .or(bytes.strip_prefix(b"HTTP/1.0 "))?;
    let text = is_whole.then(|| std::str::from_utf8(line).ok()).flatten()?;
    let is_bare = text.contains("content-length: 0\r\n") && !text.contains(REQUEST_ID.as_str());
    let status: u16 = text.get(..3)?.parse().ok()?;
    let status = StatusCode::from_u16(status).ok()?;
    if !is_bare || !(status.is_client_error() || status.is_server_error()) {
        return None;
    }
    let problem = match status {
        StatusCode::URI_TOO_LONG => Problem::address_too_long(),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Problem::headers_too_large(),
        StatusCode::REQUEST_TIMEOUT => Problem::new(
            status,
            "request_timeout",
            "the request took too long to arrive",
        ),
        _ => Problem::new(
            status,
            "validation_error",
            "this is not an HTTP/1.1 request",
        ),
    };
    let body = problem.envelope().to_string();
    let reason = status.canonical_reason().unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: application/json; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        status.as_str(),
        body.len()
    );
    Some([head.into_bytes(), body.into_bytes()].concat())
}

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire<T> {
    /// Discards the peer's bytes until it ends, or its time is over.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let fresh = || (Box::pin(sleep(LEFT_TIME)), MOST_LEFT);
        let (over, left) = self.last.get_or_insert_with(fresh);
        let mut bytes = [0; 8 << 10];
        loop {
            if *left == 0 || over.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut into = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut into));
            match (read, into.filled().len()) {
                (Err(_), _) | (_, 0) => return Poll::Ready(()),
                (Ok(()), n) => *left = left.saturating_sub(n),
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.write_ours(cx))?;
        if let Some(ours) = instead_of(bytes) {
            self.ours = ours;
            // The following flush writes the rest.
            let _ = self.write_ours(cx)?;
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watched(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = pieces {
            return self.poll_write(cx, only);
        }
        ready!(self.write_ours(cx))?;
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.watched(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.write_ours(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.last.is_none() {
            ready!(self.write_ours(cx))?;
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        }
        if self.unread.is_marked() {
            ready!(self.poll_left(cx));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_refusals_are_replaced() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
            content-length: 0\r\n\r\n";
        let ours = String::from_utf8(instead_of(bare).unwrap()).unwrap();
        assert!(ours.contains("\"error\":\"headers_too_large\""), "{ours}");
        let own = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nx-request-id: 1\r\n\r\n";
        assert_eq!(instead_of(own), None);
        let fine = b"HTTP/1.1 304 Not Modified\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(instead_of(fine), None);
        assert_eq!(instead_of(b"HTTP/1.1 400 Bad"), None);
    }
}

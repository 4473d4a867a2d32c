//! Connections: accepted, bounded, and shut down in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::app::{App, app};
use crate::metrics::Counted;
use crate::origin::Bound;
use crate::unread_body::Unread;
use crate::wire::Wire;

/// A listening server that does not serve yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
}

impl Listening {
    /// Listens on an address; port 0 selects a free one.
    ///
    /// # Errors
    /// The system's.
    pub async fn at(address: SocketAddr, app: App) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            app,
        })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the application drains, then lets current requests end within its grace.
    pub async fn serve(self) {
        let Self {
            listener,
            address: bound,
            app: state,
        } = self;
        let router = app(state.clone());
        let slots = Arc::new(Semaphore::new(state.limits().connections));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = state.draining().cancelled() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Mostly out of file descriptors: connections that end free some.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(slot) = slots.clone().try_acquire_owned() else {
                connections.spawn(turn_away(stream));
                continue;
            };
            let counted = Counted::new(state.clone(), |metrics| &metrics.connections);
            let connection = connection(stream, bound, router.clone(), state.clone());
            connections.spawn(async move {
                connection.await;
                drop((slot, counted));
            });
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(state.limits().grace, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time");
        }
    }
}

async fn connection(stream: TcpStream, bound: SocketAddr, router: Router, state: App) {
    let _ = stream.set_nodelay(true);
    let limits = state.limits();
    let unread = Unread::default();
    let of_connection = unread.clone();
    let bound = Bound(bound.ip());
    let service = router.map_request(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(of_connection.clone());
        request.extensions_mut().insert(bound);
        request
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes.max(8_192));
    let connection = builder.serve_connection(
        TokioIo::new(Wire::new(stream, limits.stall_time, unread)),
        TowerToHyperService::new(service),
    );
    let mut connection = std::pin::pin!(connection);
    let mut is_told = false;
    loop {
        tokio::select! {
            // Errors are the peer's: it disconnected, or did not send HTTP.
            _ = connection.as_mut() => return,
            () = state.draining().cancelled(), if !is_told => {
                is_told = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Tells a peer that the limit of connections is reached.
async fn turn_away(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
        content-type: application/json; charset=utf-8\r\n\
        content-length: 133\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
        {\"error\":\"service_unavailable\",\"message\":\"the server has the most connections that it accepts; try again\",\"details\":{\"retryAfter\":1}}";
    let _ = stream.write_all(ANSWER).await;
    let _ = stream.shutdown().await;
}

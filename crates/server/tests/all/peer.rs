//! An HTTP peer on the loopback that counts its requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// A peer that answers every request with the same text.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Peer {
    pub(crate) async fn saying(text: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
        };
        let (asked, length) = (peer.asked.clone(), text.len());
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{text}"
        );
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                asked.fetch_add(1, Ordering::SeqCst);
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                // The head ends with an empty line; requests have no body here.
                while stream.read_line(&mut line).await.unwrap_or(0) > 2 {
                    line.clear();
                }
                let _ = stream.get_mut().write_all(answer.as_bytes()).await;
            }
        });
        peer
    }

    /// The number of requests.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

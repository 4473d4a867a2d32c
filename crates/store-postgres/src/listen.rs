//! Hints of appends that other processes made. They may be lost, and carry no data that counts.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use kernel::ids::{Seq, StreamId};
use serde::Deserialize;
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The wait before the next attempt to listen.
const AGAIN: Duration = Duration::from_secs(1);

/// A summary of an append of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Hint {
    /// A stream may wait in the queue.
    pub queue: bool,
    /// A message may wait in the outbox.
    pub outbox: bool,
    /// Streams with their new lengths; empty if there are too many.
    #[serde(default)]
    pub streams: Vec<(StreamId, Seq)>,
    /// The process that appended.
    #[serde(default)]
    pub(crate) origin: i64,
}

/// Listens until `stop` is dropped. Each new connection gives the hint that anything may have
/// happened.
pub(crate) async fn listen(
    config: Config,
    tls: MakeRustlsConnect,
    origin: i64,
    hear: Arc<dyn Fn(Hint) + Send + Sync>,
    mut stop: watch::Receiver<()>,
) {
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            ended = until_failure(&config, tls.clone(), origin, &*hear) => {
                tracing::debug!(?ended, "hints are interrupted");
            }
        }
        if tokio::time::timeout(AGAIN, stop.changed()).await.is_ok() {
            return;
        }
    }
}

async fn until_failure(
    config: &Config,
    tls: MakeRustlsConnect,
    origin: i64,
    hear: &(dyn Fn(Hint) + Send + Sync),
) -> Result<(), Error> {
    let (client, mut connection) = config.connect(tls).await?;
    let heard = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message? {
                let hint: Hint = serde_json::from_str(notification.payload()).unwrap_or_default();
                if hint.origin != origin {
                    hear(hint);
                }
            }
        }
        Ok(())
    };
    let begin = async {
        client.batch_execute("LISTEN runwright").await?;
        hear(Hint {
            queue: true,
            outbox: true,
            ..Hint::default()
        });
        Ok::<(), Error>(())
    };
    match select(std::pin::pin!(begin), std::pin::pin!(heard)).await {
        Either::Left((Ok(()), heard)) => heard.await,
        Either::Left((Err(error), _)) => Err(error),
        Either::Right((ended, _)) => ended,
    }
}

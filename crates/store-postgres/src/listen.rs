//! Hints of appends that other processes made. They may be lost, and carry no data that counts.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use kernel::ids::{Seq, StreamId};
use serde::Deserialize;
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Error};

use crate::connect::Hosts;

/// The wait before the next attempt to listen.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the connection is tried: one that was cut somewhere is silent for ever.
const TRY: Duration = Duration::from_secs(10);
/// How long the answer to a try may take.
const PATIENCE: Duration = Duration::from_secs(5);

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
    hosts: Hosts,
    origin: i64,
    hear: Arc<dyn Fn(Hint) + Send + Sync>,
    mut stop: watch::Receiver<()>,
) {
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            ended = until_failure(&hosts, origin, &*hear) => {
                tracing::debug!(?ended, "hints are interrupted");
            }
        }
        if tokio::time::timeout(AGAIN, stop.changed()).await.is_ok() {
            return;
        }
    }
}

async fn until_failure(
    hosts: &Hosts,
    origin: i64,
    hear: &(dyn Fn(Hint) + Send + Sync),
) -> Result<(), Error> {
    let Some(connected) = hosts.connect().await else {
        return Ok(());
    };
    let (client, mut connection) = connected?;
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
    let tries = async {
        let send = |sql| tokio::time::timeout(PATIENCE, client.batch_execute(sql));
        let mut answer = send("LISTEN runwright").await;
        if let Ok(Ok(())) = &answer {
            hear(Hint {
                queue: true,
                outbox: true,
                ..Hint::default()
            });
        }
        while let Ok(Ok(())) = &answer {
            tokio::time::sleep(TRY).await;
            answer = send("SELECT 1").await;
        }
        answer.unwrap_or(Ok(()))
    };
    tokio::select! {
        ended = tries => ended,
        ended = heard => ended,
    }
}

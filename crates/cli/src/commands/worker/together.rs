//! Batches a worker's reports to a server: concurrent reports share one request.

use std::collections::VecDeque;

use kernel::limits::{MAX_TAKEN_AT_ONCE, MAX_TASK_RESULT_BYTES};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::source::{Refused, post};
use crate::remote::Remote;

/// Entries that wait for the next request to one address. The holder of the turn sends all of them.
pub(super) struct Together {
    path: String,
    // Held to add or take entries, never across an await.
    waiting: Mutex<VecDeque<Entry>>,
    turn: tokio::sync::Mutex<()>,
}

struct Entry {
    said: Value,
    bytes: usize,
    reply: oneshot::Sender<Result<(), Refused>>,
}

impl Together {
    /// For an endpoint that takes several assignments, `begin` or `settle`.
    pub(super) fn to(queue: &str, verb: &str) -> Self {
        Self {
            path: format!("/v1/coordinator/{queue}/{verb}"),
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Sends one report, with all waiting ones.
    pub(super) async fn say(&self, remote: &Remote, said: Value) -> Result<(), Refused> {
        let (reply, mut answer) = oneshot::channel();
        let bytes = said.to_string().len();
        self.waiting.lock().push_back(Entry { said, bytes, reply });
        let _turn = tokio::select! {
            biased;
            told = &mut answer => return told.unwrap_or_else(|_| Err(not_sent())),
            turn = self.turn.lock() => turn,
        };
        loop {
            if let Ok(told) = answer.try_recv() {
                return told;
            }
            let batch = self.next_batch();
            if batch.is_empty() {
                return Err(not_sent());
            }
            self.send(remote, batch).await;
        }
    }

    /// The entries that fit one request. Entries of cancelled callers are dropped.
    fn next_batch(&self) -> Vec<Entry> {
        let mut waiting = self.waiting.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(next) = waiting.front() {
            if next.reply.is_closed() {
                waiting.pop_front();
                continue;
            }
            bytes += next.bytes;
            let is_full = batch.len() >= MAX_TAKEN_AT_ONCE || bytes > MAX_TASK_RESULT_BYTES;
            if is_full && !batch.is_empty() {
                break;
            }
            batch.extend(waiting.pop_front());
        }
        batch
    }

    async fn send(&self, remote: &Remote, batch: Vec<Entry>) {
        let each: Vec<&Value> = batch.iter().map(|entry| &entry.said).collect();
        let answer = post(remote, &self.path, &json!({ "assignments": each })).await;
        let answer = match answer {
            Ok(answer) => answer,
            // One entry may exceed the size limit: the others are sent without it.
            Err(Refused::Never(_)) if batch.len() > 1 => {
                for entry in batch {
                    Box::pin(self.send(remote, vec![entry])).await;
                }
                return;
            }
            Err(Refused::Never(failure)) => {
                if let Some(entry) = batch.into_iter().next() {
                    drop(entry.reply.send(Err(Refused::Never(failure))));
                }
                return;
            }
            Err(Refused::Over(why) | Refused::Later(why)) => {
                for entry in batch {
                    drop(entry.reply.send(Err(Refused::Later(why.clone()))));
                }
                return;
            }
        };
        for (place, entry) in batch.into_iter().enumerate() {
            let told = match answer["assignments"].get(place) {
                Some(entry) => match entry["error"].as_str() {
                    None => Ok(()),
                    Some(code) => Err(Refused::by_code(code, entry)),
                },
                None => Err(Refused::Later("the answer has too few entries".to_owned())),
            };
            drop(entry.reply.send(told));
        }
    }
}

fn not_sent() -> Refused {
    Refused::Later("its request was cut off".to_owned())
}

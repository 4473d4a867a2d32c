//! Sinks for the output and artifacts of attempts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use kernel::digest::{Digest, Hasher};
use kernel::ids::{AttemptId, AttemptKey, TenantId};
use kernel::limits::MAX_CHUNK_BYTES;
use kernel::run::budget::{Amounts, Exhausted};
use kernel::run::event::{LogLevel, OutputChannel};
use kernel::run::{Artifact, Command, NodeError, Rejection, Report};
use parking_lot::Mutex;
use serde_json::Value;
use store::Store;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, oneshot};

use crate::drive::{self, DriverMessage, OutputError};
use crate::ports::{ArtifactSink, LeaseLost, NotReserved, OutputSink};
use crate::redact::RedactedStream;
use crate::run_redactor::RunRedactor;

/// Bytes per blob of an artifact: the memory needed for an artifact of any length.
const PART_BYTES: usize = 1 << 20;

/// The attempts of an engine that wait, by key, with their reasons.
#[derive(Clone, Default)]
pub(crate) struct Stalls(Arc<Mutex<BTreeMap<AttemptKey, String>>>);

impl Stalls {
    /// The reason of one of them.
    pub(crate) fn first(&self) -> Option<String> {
        self.0.lock().values().next().cloned()
    }
}

/// Passes output to the driver and waits until it is in the log.
pub(crate) struct Output {
    mailbox: mpsc::Sender<DriverMessage>,
    attempt: AttemptId,
    run_redactor: RunRedactor,
    key: AttemptKey,
    stalls: Stalls,
    /// A secret may span two chunks: each output holds back a possible beginning of one.
    streams: Mutex<BTreeMap<OutputChannel, RedactedStream>>,
}

impl Output {
    pub(crate) fn new(
        mailbox: mpsc::Sender<DriverMessage>,
        (attempt, key): (AttemptId, AttemptKey),
        run_redactor: RunRedactor,
        stalls: Stalls,
    ) -> Self {
        Self {
            mailbox,
            attempt,
            run_redactor,
            key,
            stalls,
            streams: Mutex::default(),
        }
    }

    fn redact(&self, channel: OutputChannel, text: &str, is_last: bool) -> String {
        let mut streams = self.streams.lock();
        let stream = streams.entry(channel);
        let stream = stream.or_insert_with(|| self.run_redactor.redactor().stream());
        let mut given = stream.push(text);
        if is_last {
            given.push_str(&stream.finish());
            // Later text may hold secrets that were not known when this stream began.
            streams.remove(&channel);
        }
        given
    }

    async fn send(&self, command: Command) -> Result<(), OutputError> {
        let (reply, answer) = oneshot::channel();
        let ask = DriverMessage::Output {
            command: Box::new(command),
            reply,
        };
        let sent = self.mailbox.send(ask).await;
        sent.map_err(|_| OutputError::LeaseLost)?;
        answer.await.unwrap_or(Err(OutputError::LeaseLost))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.note_stall(None);
    }
}

/// Removes the first chunk from a text. `None` if the text is empty.
pub(crate) fn first_chunk(text: &mut String) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let rest = text.split_off(text.floor_char_boundary(MAX_CHUNK_BYTES));
    Some(std::mem::replace(text, rest))
}

#[async_trait]
impl OutputSink for Output {
    async fn chunk(
        &self,
        channel: OutputChannel,
        text: String,
        is_last: bool,
        mut meta: Option<Value>,
    ) -> Result<(), LeaseLost> {
        if let Some(meta) = &mut meta {
            self.run_redactor.redactor().value(meta);
        }
        let mut text = self.redact(channel, &text, is_last);
        // The part held back of the previous chunk is prepended, and a replacement may be longer
        // than its secret: a chunk over the limit would be rejected.
        while text.len() > MAX_CHUNK_BYTES {
            let chunk = first_chunk(&mut text).unwrap_or_default();
            self.send(drive::output(
                self.attempt.clone(),
                channel,
                chunk,
                false,
                None,
            ))
            .await
            .map_err(unheard)?;
        }
        if text.is_empty() && !is_last && meta.is_none() {
            return Ok(());
        }
        self.send(drive::output(
            self.attempt.clone(),
            channel,
            text,
            is_last,
            meta,
        ))
        .await
        .map_err(unheard)
    }

    async fn log(&self, level: LogLevel, message: String) -> Result<(), LeaseLost> {
        let message = self.run_redactor.redactor().text(&message).into_owned();
        self.send(Command::Log {
            attempt: self.attempt.clone(),
            level,
            message,
        })
        .await
        .map_err(unheard)
    }

    fn note_stall(&self, why: Option<&str>) {
        let mut stalls = self.stalls.0.lock();
        match why {
            None => drop(stalls.remove(&self.key)),
            Some(why) => {
                let before = stalls.insert(self.key.clone(), why.to_owned());
                if before.is_none() {
                    tracing::warn!(node = %self.attempt.node, why, "an attempt waits");
                }
            }
        }
    }

    async fn report(&self, mut report: Report) -> Result<(), LeaseLost> {
        self.run_redactor.report(&mut report);
        let report = Box::new(report);
        self.send(Command::Report { report }).await.map_err(unheard)
    }

    async fn reserve(&self, amounts: Amounts, least: Option<Amounts>) -> Result<(), NotReserved> {
        let sent = self.send(Command::Reserve {
            attempt: self.attempt.clone(),
            amounts,
            least,
        });
        let sent = sent.await;
        sent.map_err(|unheard| match unheard {
            OutputError::Refused(Rejection::BudgetExhausted {
                dimension,
                observed,
                limit,
            }) => NotReserved::Exhausted(Exhausted {
                dimension,
                observed,
                limit,
            }),
            OutputError::Refused(_) | OutputError::LeaseLost => NotReserved::LeaseLost,
        })
    }
}

/// A stale attempt is being stopped anyway: an unwritten output may stop it, too.
fn unheard(_: OutputError) -> LeaseLost {
    LeaseLost
}

/// Stores artifacts as blobs of the tenant, in parts.
pub(crate) struct Artifacts {
    store: Arc<dyn Store>,
    tenant: TenantId,
    key: AttemptKey,
    run_redactor: RunRedactor,
    ordinal: AtomicU32,
}

impl Artifacts {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        tenant: TenantId,
        key: AttemptKey,
        run_redactor: RunRedactor,
    ) -> Self {
        Self {
            store,
            tenant,
            key,
            run_redactor,
            ordinal: AtomicU32::new(0),
        }
    }

    async fn keep(
        &self,
        artifact_type: &str,
        media_type: &str,
        mut bytes: impl AsyncRead + Unpin + Send,
    ) -> Result<Artifact, NodeError> {
        let mut parts = Vec::new();
        let mut whole = Hasher::default();
        let mut size = 0;
        let mut redacted = self.run_redactor.redactor().stream();
        let mut is_over = false;
        while !is_over {
            let mut part = Vec::new();
            let read = (&mut bytes)
                .take(PART_BYTES as u64)
                .read_to_end(&mut part)
                .await;
            read.map_err(|error| {
                NodeError::new(
                    "artifact_unreadable",
                    format!("an artifact cannot be read: {error}"),
                )
            })?;
            is_over = part.is_empty();
            let part = if is_over {
                redacted.finish_bytes()
            } else {
                redacted.push_bytes(&part)
            };
            if part.is_empty() {
                continue;
            }
            size += part.len() as u64;
            whole.update(&part);
            let kept = self.store.put_blob(&self.tenant, part).await;
            parts.push(kept.map_err(|error| {
                NodeError::new(
                    "artifact_not_kept",
                    format!("an artifact cannot be stored: {error}"),
                )
            })?);
        }
        // The attempt's key and a count: a restarted attempt uses the same names.
        let ordinal = self.ordinal.fetch_add(1, Ordering::Relaxed);
        let name = Digest::compute(format!("{}\0{ordinal}", self.key).as_bytes()).to_string();
        Ok(Artifact {
            artifact_id: format!("art-{}", &name[..32]),
            artifact_type: artifact_type.to_owned(),
            media_type: media_type.to_owned(),
            size,
            digest: whole.finish(),
            parts,
        })
    }
}

#[async_trait]
impl ArtifactSink for Artifacts {
    async fn keep_file(
        &self,
        artifact_type: &str,
        media_type: &str,
        path: &Path,
    ) -> Result<Artifact, NodeError> {
        let file = tokio::fs::File::open(path).await.map_err(|error| {
            NodeError::new(
                "artifact_unreadable",
                format!("an artifact cannot be opened: {error}"),
            )
        })?;
        self.keep(artifact_type, media_type, file).await
    }

    async fn keep_bytes(
        &self,
        artifact_type: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Artifact, NodeError> {
        self.keep(artifact_type, media_type, std::io::Cursor::new(bytes))
            .await
    }
}

#[cfg(test)]
mod tests {
    use kernel::ids::NodeId;

    use super::*;

    #[tokio::test]
    async fn held_back_text_comes_in_its_own_chunk() {
        let run_redactor = RunRedactor::default();
        // So that the end of the first chunk may be the beginning of a secret.
        run_redactor.learn(&Value::from("plantedsecret"));
        let (mailbox, mut messages) = mpsc::channel(8);
        let attempt = AttemptId {
            node: NodeId::from("shout"),
            visit: 0,
            attempt: 0,
        };
        let output = Output::new(
            mailbox,
            (attempt, "a".into()),
            run_redactor,
            Stalls::default(),
        );

        let first = format!("{}pla", "x".repeat(MAX_CHUNK_BYTES - 3));
        let second = "x".repeat(MAX_CHUNK_BYTES);
        let whole = format!("{first}{second}");
        let driver = async {
            let mut said = String::new();
            while let Some(DriverMessage::Output { command, reply }) = messages.recv().await {
                let Command::Output { chunk, is_last, .. } = *command else {
                    panic!("{command:?}");
                };
                assert!(chunk.len() <= MAX_CHUNK_BYTES, "{}", chunk.len());
                said.push_str(&chunk);
                reply.send(Ok(())).ok();
                if is_last {
                    break;
                }
            }
            said
        };
        let attempt = async {
            let channel = OutputChannel::Stdout;
            output.chunk(channel, first, false, None).await?;
            output.chunk(channel, second, true, None).await
        };
        let (said, sent) = tokio::join!(driver, attempt);
        assert_eq!(sent, Ok(()));
        assert_eq!(said, whole);
    }
}

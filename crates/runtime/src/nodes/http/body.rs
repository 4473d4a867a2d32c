//! The body of a response: its beginning in memory, and all of it in a file if it is long.

use std::io::Write;

use kernel::run::{Artifact, NodeError};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::super::NodeContext;
use super::config::Config;
use crate::outbound::{OutboundError, Response};

/// The largest body parsed as JSON: the value becomes part of one event.
const MAX_JSON_BYTES: u64 = 4 << 20;

/// A completely received body.
pub(super) struct Body {
    head: Vec<u8>,
    total: u64,
    /// The whole body, if the head is only a part.
    whole: Option<NamedTempFile>,
}

/// Why reading the body failed.
pub(super) enum Unread {
    Outbound(OutboundError),
    Node(NodeError),
}

impl Body {
    /// Reads the whole body in bounded memory.
    pub(super) async fn read(response: &mut Response, config: &Config) -> Result<Self, Unread> {
        let mut body = Self {
            head: Vec::new(),
            total: 0,
            whole: None,
        };
        while let Some(chunk) = response.chunk().await.map_err(Unread::Outbound)? {
            body.total += chunk.len() as u64;
            if body.total > config.max_response_bytes {
                let text = format!(
                    "{} answered with more than {} bytes; raise maxResponseBytes if this size is \
                     expected",
                    response.url().origin().ascii_serialization(),
                    config.max_response_bytes
                );
                return Err(Unread::Node(NodeError::new("http_too_large", text).fatal()));
            }
            body.take(&chunk, config.capture_bytes).map_err(|error| {
                let text = format!("the body could not be stored: {error}");
                Unread::Node(NodeError::new("output_not_kept", text))
            })?;
        }
        Ok(body)
    }

    fn take(&mut self, chunk: &[u8], capture: usize) -> std::io::Result<()> {
        if self.whole.is_none() && self.head.len() + chunk.len() > capture {
            let mut file = NamedTempFile::new()?;
            file.write_all(&self.head)?;
            self.whole = Some(file);
        }
        if let Some(file) = &mut self.whole {
            file.write_all(chunk)?;
        }
        let room = capture - self.head.len();
        self.head.extend_from_slice(&chunk[..room.min(chunk.len())]);
        Ok(())
    }

    /// Whether it is longer than the part in memory.
    pub(super) fn is_truncated(&self) -> bool {
        self.whole.is_some()
    }

    /// The beginning, if it is text.
    pub(super) fn text(&self) -> Option<&str> {
        match std::str::from_utf8(&self.head) {
            Ok(text) => Some(text),
            // The cut may split a character.
            Err(error) if self.is_truncated() && error.error_len().is_none() => {
                std::str::from_utf8(&self.head[..error.valid_up_to()]).ok()
            }
            Err(_) => None,
        }
    }

    /// The whole body, parsed as JSON.
    pub(super) async fn json(&self) -> Result<Value, NodeError> {
        let refuse = |text: String| NodeError::new("output_not_json", text);
        if self.total > MAX_JSON_BYTES {
            return Err(refuse(format!(
                "the answer has {} bytes, more than the {MAX_JSON_BYTES} that are read as JSON; \
                 use responseFormat text and the artifact",
                self.total
            )));
        }
        let parsed = match &self.whole {
            None => serde_json::from_slice(&self.head),
            Some(file) => {
                let bytes = tokio::fs::read(file.path()).await;
                serde_json::from_slice(&bytes.map_err(|error| {
                    refuse(format!("the answer could not be read back: {error}"))
                })?)
            }
        };
        parsed.map_err(|error| refuse(format!("the answer is not JSON: {error}")))
    }

    /// Stores the whole body as an artifact.
    pub(super) async fn keep(
        &self,
        media_type: &str,
        cx: &NodeContext,
    ) -> Result<Artifact, NodeError> {
        match &self.whole {
            Some(file) => {
                cx.artifacts
                    .keep_file("http.body", media_type, file.path())
                    .await
            }
            None => {
                cx.artifacts
                    .keep_bytes("http.body", media_type, self.head.clone())
                    .await
            }
        }
    }
}

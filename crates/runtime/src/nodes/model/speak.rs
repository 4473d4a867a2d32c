//! Writing a model's answer to the log.

use std::pin::Pin;

use kernel::run::NodeError;
use kernel::run::event::OutputChannel;
use serde_json::Value;

use super::super::{LeaseLost, OutputSink};
use crate::models::call::Calling;

/// Bytes of text per event. Redaction may lengthen it.
const PIECE_BYTES: usize = 8 << 10;
/// Bytes of text waiting for the log; above this reading pauses.
const WAITING_BYTES: usize = 256 << 10;

/// Why writing ended early.
pub(super) enum Silenced {
    /// The call failed.
    Failed(NodeError),
    /// The run no longer wants the output, or another process holds the run.
    Stopped,
}

impl From<LeaseLost> for Silenced {
    fn from(_: LeaseLost) -> Self {
        Self::Stopped
    }
}

impl From<NodeError> for Silenced {
    fn from(error: NodeError) -> Self {
        Self::Failed(error)
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), LeaseLost>> + Send + 'a>>;

/// Reads an answer to its end and writes its text to the log as it arrives, except for the last
/// chunk, which is returned so that it can be marked as the last. While the log lags, arriving
/// texts are merged.
pub(super) async fn speak(
    calling: &mut Calling,
    output: &dyn OutputSink,
) -> Result<String, Silenced> {
    let mut waiting = String::new();
    let mut newest = String::new();
    let mut sending: Option<Sending<'_>> = None;
    let mut is_over = false;
    loop {
        if sending.is_none() && !waiting.is_empty() {
            let piece = cut(&mut waiting);
            sending = Some(output.chunk(OutputChannel::Text, piece, false, None));
        }
        if is_over && sending.is_none() {
            return Ok(newest);
        }
        tokio::select! {
            biased;
            sent = async {
                match sending.as_mut() {
                    Some(sending) => sending.await,
                    None => std::future::pending().await,
                }
            } => {
                sending = None;
                sent?;
            }
            text = calling.next(), if !is_over && waiting.len() < WAITING_BYTES => match text? {
                Some(text) => waiting.push_str(&std::mem::replace(&mut newest, text)),
                None => {
                    is_over = true;
                    // The last chunk must fit into one event.
                    while newest.len() > PIECE_BYTES {
                        waiting.push_str(&cut(&mut newest));
                    }
                }
            },
        }
    }
}

/// Writes a whole text to the log; its last chunk carries the metadata.
pub(super) async fn conclude(
    output: &dyn OutputSink,
    last: String,
    is_last: bool,
    meta: Value,
) -> Result<(), LeaseLost> {
    output
        .chunk(OutputChannel::Text, last, is_last, Some(meta))
        .await
}

/// Removes the beginning of a text, at most [`PIECE_BYTES`] of it.
fn cut(text: &mut String) -> String {
    let rest = text.split_off(text.floor_char_boundary(PIECE_BYTES));
    std::mem::replace(text, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_between_characters() {
        let whole = "ü".repeat(PIECE_BYTES);
        let mut text = format!("x{whole}");
        let mut pieces = Vec::new();
        while !text.is_empty() {
            pieces.push(cut(&mut text));
        }
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
        assert_eq!(pieces.concat(), format!("x{whole}"));
    }
}

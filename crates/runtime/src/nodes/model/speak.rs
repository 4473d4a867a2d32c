//! The answer of a model on its way into the log.

use std::pin::Pin;

use kernel::run::NodeError;
use kernel::run::event::OutputChannel;
use serde_json::Value;

use super::super::{HoldLost, OutputSink};
use crate::models::call::Calling;

/// Bytes of one event's text. What keeps secrets out may make it longer.
const PIECE_BYTES: usize = 8 << 10;
/// Text that waits for the log; beyond it nothing more is read.
const WAITING_BYTES: usize = 256 << 10;

/// Why speaking ended early.
pub(super) enum Silenced {
    /// The call failed.
    Failed(NodeError),
    /// The run wants no more of it, or another process has the run.
    Stopped,
}

impl From<HoldLost> for Silenced {
    fn from(_: HoldLost) -> Self {
        Self::Stopped
    }
}

impl From<NodeError> for Silenced {
    fn from(error: NodeError) -> Self {
        Self::Failed(error)
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), HoldLost>> + Send + 'a>>;

/// Reads an answer to its end and puts its text into the log as it comes, all but the last piece,
/// which is given back so that it can say that it is the last. While the log is behind, texts
/// that come are put together.
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
                    // Only what fits into one event may be the last piece.
                    while newest.len() > PIECE_BYTES {
                        waiting.push_str(&cut(&mut newest));
                    }
                }
            },
        }
    }
}

/// Puts a whole text into the log, its last piece with what there is to say about it.
pub(super) async fn conclude(
    output: &dyn OutputSink,
    last: String,
    is_last: bool,
    meta: Value,
) -> Result<(), HoldLost> {
    output
        .chunk(OutputChannel::Text, last, is_last, Some(meta))
        .await
}

/// Takes the beginning of a text, at most [`PIECE_BYTES`] of it.
fn cut(text: &mut String) -> String {
    let mut at = text.len().min(PIECE_BYTES);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let rest = text.split_off(at);
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

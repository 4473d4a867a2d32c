//! Unrequested messages of a tool server to its client: recorded with the calls around them, and
//! repeated from a recording.

use std::collections::BTreeSet;

use capture::tool::{Client, NOTIFIED};
use faces::provenance::hash::canonical_json;
use kernel::digest::Digest;
use serde_json::{Value, json};

use super::{Failure, said, to_client};

/// Maximum bytes of notifications recorded with one call.
const MAX_BYTES: usize = 16 << 20;

/// Notifications around one call, until they are recorded.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    waiting: Vec<Value>,
    bytes: usize,
    is_cut: bool,
    has_said_cut: bool,
}

impl Notifications {
    pub(super) fn push(&mut self, told: Value) {
        self.bytes += canonical_json(&told).len();
        self.is_cut |= self.bytes > MAX_BYTES;
        // Messages after a gap would be in the wrong place.
        if !self.is_cut {
            self.waiting.push(told);
        }
    }

    /// Marks a request, by its id, as unanswered by its client.
    pub(super) fn leave_open(&mut self, id: &str) {
        let is_it = |kept: &&mut Value| {
            let message = &kept["message"];
            let of_message = message["id"].to_string();
            !message["method"].is_null() && of_message == id
        };
        if let Some(kept) = self.waiting.iter_mut().rev().find(is_it) {
            kept["open"] = json!(true);
        }
    }

    /// Records new messages: `before` the answer to a call, or `after` it.
    pub(super) async fn record(
        &mut self,
        capture: &Client,
        seq: u64,
        side: &str,
    ) -> Result<(), Failure> {
        let says_cut = self.is_cut && !self.has_said_cut;
        if self.waiting.is_empty() && !says_cut {
            return Ok(());
        }
        self.has_said_cut |= says_cut;
        let told = std::mem::take(&mut self.waiting);
        let order = json!({ "seq": seq, "side": side, "told": told, "cut": says_cut });
        capture.ask(NOTIFIED, &order).await.map_err(said)?;
        Ok(())
    }
}

/// A notification in its kept form. A progress notification loses the call's token, which changes
/// each time.
pub(super) fn kept(nth: u64, message: &Value, is_progress: bool) -> Value {
    let mut kept = json!({ "nth": nth, "message": message });
    if is_progress {
        kept["progress"] = json!(true);
        if let Some(params) = kept["message"]["params"].as_object_mut() {
            params.remove("progressToken");
        }
    }
    kept
}

/// The messages repeated so far.
#[derive(Debug, Default)]
pub(super) struct ToldAgain(BTreeSet<Digest>);

impl ToldAgain {
    /// Sends a recorded message to the client of a call with this progress token. Returns it if it
    /// is a request to the client.
    pub(super) fn tell(
        &mut self,
        kept: &Value,
        progress: &Value,
    ) -> Result<Option<Value>, Failure> {
        // A message during several open calls is kept with each of them.
        if !self.0.insert(Digest::compute(kept.to_string().as_bytes())) {
            return Ok(None);
        }
        let mut message = kept["message"].clone();
        if kept["progress"] == true {
            // A client without a token receives no progress.
            if progress.is_null() {
                return Ok(None);
            }
            message["params"]["progressToken"] = progress.clone();
        }
        to_client(&canonical_json(&message))?;
        Ok((!message["id"].is_null()).then_some(message))
    }
}

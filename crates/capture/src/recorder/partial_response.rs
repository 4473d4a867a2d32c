//! Calls that ended without an answer: the program disconnected, or ended.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Recorder;
use crate::call::Kind;
use crate::headers;

/// Marks an answer that exceeded the kept size.
pub(crate) const TOO_LARGE: &str = "too_large";

/// Marks an answer of our own: the server of the model was not reached.
pub(crate) const UNREACHED: &str = "unreached";

/// The part of an answer that was passed on so far.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Its status; `None` before it began.
    pub(crate) status: Option<u16>,
    /// Its content type.
    pub(crate) kind: String,
    /// The headers that the program received.
    pub(crate) headers: Value,
    /// Its body.
    pub(crate) body: Vec<u8>,
}

/// The recorded form of a model's answer.
pub(crate) fn answer_of(
    recorder: &Recorder,
    status: Option<u16>,
    kind: &str,
    body: Vec<u8>,
) -> Value {
    let body = match String::from_utf8(body) {
        Ok(text) => json!(text),
        Err(error) => recorder.cleaner().output(error.as_bytes()),
    };
    json!({ "status": status, "content_type": kind, "body": body })
}

impl Recorder {
    /// Registers where the passed-on part of an answer is stored.
    pub(crate) fn passes(&self, seq: u64, passed: Arc<Mutex<Passed>>) {
        if let Some(open) = self.state.lock().open.get_mut(&seq) {
            open.passed = Some(passed);
        }
    }

    /// The program disconnected: the call ends with the received part. Blocks.
    pub(crate) fn leave(&self, seq: u64) {
        let passed = {
            let state = self.state.lock();
            state.open.get(&seq).and_then(|open| open.passed.clone())
        };
        let mut output = match passed {
            Some(passed) => {
                let passed = passed.lock();
                let mut output = answer_of(self, passed.status, &passed.kind, passed.body.clone());
                headers::record(&mut output, passed.headers.clone());
                output
            }
            None => answer_of(self, None, "", Vec::new()),
        };
        output["left"] = json!(true);
        self.end(seq, output, true);
    }

    /// Closes open calls at the end of the execution. An unfinished tool has no result, but its
    /// folder changes are kept. Blocks.
    pub(super) fn leave_all(&self) {
        let open: Vec<(u64, Kind)> = {
            let state = self.state.lock();
            let open = state.open.iter();
            open.map(|(seq, open)| (*seq, open.call.kind)).collect()
        };
        for (seq, kind) in open {
            match kind {
                Kind::Model => self.leave(seq),
                Kind::Tool => {
                    let (effects, metadata) = self.look();
                    if let Some(open) = self.state.lock().open.get_mut(&seq) {
                        open.call.effects = effects;
                        open.call.metadata = metadata;
                    }
                }
                Kind::Protocol => {}
            }
        }
    }
}

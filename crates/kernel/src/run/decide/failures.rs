//! Work nodes that wait: for a person's choice after a failure, or for an outside party that
//! continues their work.

use serde_json::{Value, json};

use super::Decision;
use super::gates::Reply;
use crate::control::answer::invalid;
use crate::definition::NodeIx;
use crate::ids::{InterruptId, derive};
use crate::limits;
use crate::run::InterruptKind;
use crate::run::command::Outcome;
use crate::run::event::{NodeError, RunEvent, SkipReason};
use crate::run::rejection::Rejection;
use crate::run::size::size;
use crate::run::state::OpenInterrupt;

/// The choice after a failed node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Start another attempt.
    Retry,
    /// Count it as skipped.
    Skip,
    /// Let it fail.
    Abort,
}

/// The meaning of an answer to a work node. A worker's answer tells whether a retry can help.
pub(super) fn judge(
    open: &OpenInterrupt,
    value: &Value,
    is_worker: bool,
) -> Result<Reply, Rejection> {
    if open.kind == InterruptKind::ExternalEvent {
        let mut outcome = ended(value)?;
        if let Outcome::Failed { error, .. } = &mut outcome
            && is_worker
        {
            error.retryable = value["error"]["retryable"].as_bool();
        }
        return Ok(Reply::Ended(outcome));
    }
    Ok(Reply::Choice(
        match value.get("action").and_then(Value::as_str) {
            Some("retry") => Choice::Retry,
            Some("skip") => Choice::Skip,
            Some("abort") => Choice::Abort,
            _ => return Err(invalid("its action must be retry, skip or abort")),
        },
    ))
}

fn ended(value: &Value) -> Result<Outcome, Rejection> {
    let text = |error: &Value, key: &str| error.get(key)?.as_str().map(str::to_owned);
    match (value.get("outputs"), value.get("error")) {
        (Some(Value::Object(outputs)), None) => Ok(Outcome::completed(outputs.clone())),
        (None, Some(error)) => match (text(error, "code"), text(error, "message")) {
            (Some(code), Some(message)) => Ok(Outcome::failed(NodeError::new(code, message))),
            _ => Err(invalid("its `error` must have a `code` and a `message`")),
        },
        _ => Err(invalid(
            "it must have either `outputs`, an object, or an `error`",
        )),
    }
}

impl Decision {
    /// All attempts have failed, and the definition lets a person choose.
    pub(super) fn ask_about_failure(&mut self, ix: NodeIx, error: NodeError) {
        let attempts = self.facts().nodes[ix.index()].attempts;
        let data = json!({
            "reason": "node-failed",
            "actions": ["retry", "skip", "abort"],
            "attempts": attempts,
            "error": error,
        });
        let resume_schema = json!({
            "type": "object",
            "required": ["action"],
            "properties": { "action": { "enum": ["retry", "skip", "abort"] } },
        });
        let key = self.key_of_failure(ix);
        let id = self.request(ix, InterruptKind::Custom, key, data, Some(resume_schema));
        self.end_observation_once();
        self.suspend(&id);
    }

    /// The signal name for the choice. A very long node id is the key by itself.
    fn key_of_failure(&self, ix: NodeIx) -> String {
        const END: &str = "/failed";
        let node = self.node_id(ix);
        let fits = node.as_str().len() + END.len() <= limits::MAX_NAME_BYTES;
        if fits {
            format!("{node}{END}")
        } else {
            node.to_string()
        }
    }

    /// An attempt has left its work to an outside party.
    pub(super) fn wait_outside(
        &mut self,
        ix: NodeIx,
        key: &str,
        data: &Value,
    ) -> Result<(), Rejection> {
        if size(data) > limits::MAX_CHUNK_BYTES || key.len() > limits::MAX_NAME_BYTES {
            return Err(Rejection::TooLarge {
                what: "what is waited for",
            });
        }
        let id = self.request(
            ix,
            InterruptKind::ExternalEvent,
            key.to_owned(),
            data.clone(),
            None,
        );
        self.end_observation_once();
        self.suspend(&id);
        self.give_to_workers(ix, key);
        self.take_early_answer(&id);
        Ok(())
    }

    fn request(
        &mut self,
        ix: NodeIx,
        kind: InterruptKind,
        key: String,
        data: Value,
        resume_schema: Option<Value>,
    ) -> InterruptId {
        let root = self.run.header.root().clone();
        let node_id = self.node_id(ix);
        let node = &self.facts().nodes[ix.index()];
        let (visit, asked) = (node.visit, node.asked);
        let id = derive(
            "interrupt",
            &root,
            &node_id,
            visit,
            self.current_attempt(ix),
        );
        let interrupt_id = InterruptId::new(match asked {
            0 => id,
            // The same attempt asks again.
            n => format!("{id}.{n}"),
        });
        self.emit(RunEvent::InterruptRequested {
            interrupt_id: interrupt_id.clone(),
            node_id,
            visit,
            kind,
            asked_before: self.asked_with(&key),
            key,
            data,
            resume_schema,
            timeout_at: None,
        });
        interrupt_id
    }

    /// Applies the choice for a failed node.
    pub(super) fn choose(&mut self, open: &OpenInterrupt, choice: Choice) {
        let ix = NodeIx(open.node);
        let error = open.data.get("error").cloned().unwrap_or_default();
        let error = serde_json::from_value(error)
            .unwrap_or_else(|_| NodeError::new("node_failed", "the node failed"));
        match choice {
            Choice::Retry => self.retry_as_asked(ix, error),
            Choice::Skip => {
                self.skip(ix, SkipReason::OnFailure);
                if self.is_running() {
                    self.schedule_after(ix);
                }
            }
            Choice::Abort => self.fail_node(ix, error),
        }
    }

    fn retry_as_asked(&mut self, ix: NodeIx, last_error: NodeError) {
        let visit = self.facts().nodes[ix.index()].visit;
        let attempt = self.current_attempt(ix) + 1;
        if attempt >= limits::MAX_ATTEMPTS {
            return self.fail_node(ix, last_error);
        }
        self.emit(RunEvent::NodeRetried {
            node_id: self.node_id(ix),
            visit,
            attempt,
            delay_ms: 0,
            last_error,
        });
        if self.is_running() {
            self.begin_attempt(ix, attempt, None);
        }
    }
}

//! Redaction for one run: the secrets its nodes received, and anything shaped like a credential.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::digest::Digest;
use kernel::run::{Completion, NodeError, Outcome, Report};
use kernel::stream::Owner;
use parking_lot::Mutex;
use serde_json::Value;

use crate::ports::Secrets;
use crate::redact::{RedactedStream, Redactor};
use crate::secrets::Scope;

/// The redactor of a run. It learns each secret when a node receives it.
#[derive(Clone, Default)]
pub(crate) struct RunRedactor(Arc<Mutex<Redactor>>);

impl RunRedactor {
    /// A redactor with the secrets known so far.
    pub(crate) fn redactor(&self) -> Redactor {
        self.0.lock().clone()
    }

    /// Redacts everything of an outcome that goes into the log, and so into the next nodes.
    pub(crate) fn outcome(&self, outcome: &mut Outcome) {
        let redactor = self.redactor();
        if let Outcome::Completed(Completion { usage, .. }) | Outcome::Failed { usage, .. } =
            outcome
        {
            for used in usage {
                self.word(&mut used.model);
            }
        }
        match outcome {
            Outcome::Completed(completion) => {
                redactor.object(&mut completion.outputs);
                redactor.object(&mut completion.variables);
                for write in &mut completion.channel_writes {
                    redactor.value(&mut write.value);
                }
            }
            Outcome::Failed { error, .. } => self.error(error),
            Outcome::Waits { data, .. } => redactor.value(data),
            Outcome::Stopped => {}
        }
    }

    /// Redacts an attempt's report.
    pub(crate) fn report(&self, report: &mut Report) {
        let redactor = self.redactor();
        match report {
            Report::ToolCalled(call) => {
                if let Some(inputs) = &mut call.inputs {
                    redactor.value(inputs);
                    // The hash of the redacted inputs: a hash of a secret would let it be guessed.
                    call.args_hash = Digest::compute(&kernel::json::canonical(inputs)).to_string();
                }
            }
            Report::ToolReturned(call) => {
                if let Some(outcome) = &mut call.outcome {
                    redactor.value(outcome);
                }
                if let Some(error) = &mut call.error {
                    self.error(error);
                }
            }
            // A provider supplies its name and the reason of a refusal.
            Report::EnvelopeRefused(of) => {
                self.word(&mut of.model);
                of.safety_category.iter_mut().for_each(|why| self.word(why));
            }
            Report::EnvelopeTruncated(of) => self.word(&mut of.model),
            Report::Used(of) => self.word(&mut of.usage.model),
            // Our own words, and hashes of redacted text.
            Report::EnvelopeRetried(_)
            | Report::EnvelopesExhausted(_)
            | Report::EnvelopeRecovered(_)
            | Report::EnvelopeCoerced(_)
            | Report::PromptComposed(_) => {}
        }
    }

    fn word(&self, word: &mut String) {
        if let Cow::Owned(redacted) = self.redactor().text(word) {
            *word = redacted;
        }
    }

    fn error(&self, error: &mut NodeError) {
        let redactor = self.redactor();
        error.message = redactor.text(&error.message).into_owned();
        if let Some(details) = &mut error.details {
            redactor.value(details);
        }
    }

    /// Learns a sensitive value that a node is about to receive: its texts, if they are long enough
    /// to be distinctive.
    pub(crate) fn learn(&self, value: &Value) {
        match value {
            Value::String(text) => {
                let mut redactor = self.0.lock();
                if let Ok(knowing) = redactor.knowing("sensitive", text) {
                    *redactor = knowing;
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.learn(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The same secrets port; it teaches the redactor each secret it returns.
    pub(crate) fn watching(&self, secrets: Arc<dyn Secrets>) -> Arc<dyn Secrets> {
        Arc::new(Watched {
            secrets,
            run_redactor: self.clone(),
        })
    }
}

struct Watched {
    secrets: Arc<dyn Secrets>,
    run_redactor: RunRedactor,
}

#[async_trait]
impl Secrets for Watched {
    async fn resolve(&self, owner: &Owner, reference: &str) -> Result<String, NodeError> {
        let value = self.secrets.resolve(owner, reference).await?;
        self.learn(reference, &value)?;
        Ok(value)
    }

    fn scopes(&self) -> &'static [Scope] {
        self.secrets.scopes()
    }

    fn has(&self, name: &str) -> bool {
        self.secrets.has(name)
    }

    fn redacted(&self, text: &str) -> String {
        self.run_redactor.redactor().text(text).into_owned()
    }

    fn redact(&self, value: &mut Value) {
        self.run_redactor.redactor().value(value);
    }

    fn stream(&self) -> RedactedStream {
        self.run_redactor.redactor().stream()
    }

    fn learn(&self, reference: &str, value: &str) -> Result<(), NodeError> {
        let mut redactor = self.run_redactor.0.lock();
        match redactor.knowing(reference, value) {
            Ok(knowing) => *redactor = knowing,
            Err(error) => {
                return Err(NodeError::new("credential_unusable", error.to_string()).fatal());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_values_go_and_guesses_from_names_stay() {
        let run_redactor = RunRedactor::default();
        run_redactor.learn(&json!("planted-by-reference"));
        let outputs = json!({
            "text": "password=hunter22x\nit is planted-by-reference, Cookie: a=b1c2d3",
            "url": "https://ada:hunter2@db.example/?token=abc123",
        });
        let Value::Object(outputs) = outputs else {
            unreachable!("it is an object")
        };
        let mut outcome = Outcome::Completed(Completion {
            outputs,
            ..Completion::default()
        });
        run_redactor.outcome(&mut outcome);
        let Outcome::Completed(completion) = outcome else {
            unreachable!("it was")
        };
        let expected = json!({
            "text": "password=hunter22x\nit is [REDACTED:sensitive], Cookie: a=b1c2d3",
            "url": "https://ada:hunter2@db.example/?token=abc123",
        });
        assert_eq!(json!(completion.outputs), expected);
    }
}

//! Evaluating an answer in a turn, and recording the verdict.

use kernel::digest::Digest;
use kernel::run::report::{
    EnvelopeCoerced, EnvelopeFault, EnvelopeRecovered, EnvelopeRefused, EnvelopeRetried,
    EnvelopeTruncated, EnvelopesExhausted, PromptComposed, PromptParts,
};
use kernel::run::{NodeError, Report};

use super::super::template::as_text;
use super::access::Access;
use super::answered::Judged;
use super::config::Truncation;
use super::prompt::{Prompt, of_prompt};
use super::shape::{Found, Misshapen, Shape, coerce, is_prose, repair};
use super::speak::Silenced;
use super::turn::Turn;
use crate::models::ask::{Answer, Finish};
use crate::models::failure;

/// How a model is called again.
pub(super) enum NextAsk {
    /// The same request with a higher token limit.
    WithMoreRoom,
    /// With this additional message.
    WithWords(String),
}

impl Turn<'_> {
    /// Decides how the model is called again, if it may be, and records it.
    pub(super) async fn next_ask(
        &mut self,
        wanting: &Misshapen,
        answer: &Answer,
        asked: u32,
        shape: Option<&Shape>,
    ) -> Result<NextAsk, Silenced> {
        // Still prose: the last call asks to convert it to the schema.
        if let Some(shape) = shape.filter(|_| self.config.coerces && asked == self.config.asks())
            && wanting.fault == EnvelopeFault::ParseError
            && is_prose(&answer.text)
        {
            self.report(|node_id, visit, attempt| {
                Report::EnvelopeCoerced(EnvelopeCoerced {
                    node_id,
                    visit,
                    attempt,
                    envelope: shape.name(),
                    calls: 1,
                })
            })
            .await?;
            return Ok(NextAsk::WithWords(coerce(shape, &answer.text)));
        }
        if asked <= self.config.asks() {
            self.report(|node_id, visit, attempt| {
                Report::EnvelopeRetried(EnvelopeRetried {
                    node_id,
                    visit,
                    attempt,
                    asked,
                    reason: wanting.fault,
                    previous_error: Some(wanting.what.clone()),
                })
            })
            .await?;
            return Ok(match wanting.fault {
                EnvelopeFault::Truncation => NextAsk::WithMoreRoom,
                _ => NextAsk::WithWords(repair(wanting)),
            });
        }
        self.report(|node_id, visit, attempt| {
            Report::EnvelopesExhausted(EnvelopesExhausted {
                node_id,
                visit,
                attempt,
                asked: asked - 1,
                reason: wanting.fault,
            })
        })
        .await?;
        Err(match wanting.fault {
            EnvelopeFault::Truncation => cut_off(),
            _ => {
                let what = &wanting.what;
                let text = format!("the model's answer does not fit outputSchema: {what}");
                NodeError::new("envelope_invalid", text)
            }
        }
        .into())
    }

    /// Evaluates an answer.
    pub(super) async fn judge(
        &self,
        access: &Access,
        answer: &Answer,
        shape: Option<&Shape>,
    ) -> Result<Judged, Silenced> {
        let named = |answer: &Answer| {
            let model = answer.model.clone();
            model.unwrap_or_else(|| access.model.clone())
        };
        match answer.finish {
            Finish::Overflow => Err(failure::overflow().into()),
            Finish::Refused => {
                self.report(|node_id, visit, attempt| {
                    Report::EnvelopeRefused(EnvelopeRefused {
                        node_id,
                        visit,
                        attempt,
                        provider: access.provider.name.clone(),
                        model: named(answer),
                        safety_category: answer.category.clone(),
                    })
                })
                .await?;
                Err(failure::refused().into())
            }
            // A call whose arguments are truncated is invalid.
            Finish::Length
                if shape.is_some()
                    || !answer.calls.is_empty()
                    || self.config.truncation == Truncation::Fail =>
            {
                self.report(|node_id, visit, attempt| {
                    Report::EnvelopeTruncated(EnvelopeTruncated {
                        node_id,
                        visit,
                        attempt,
                        provider: access.provider.name.clone(),
                        model: named(answer),
                        output_token_count: answer.tokens.map(|tokens| tokens.output),
                    })
                })
                .await?;
                match shape {
                    Some(_) => Ok(Judged::Misshapen(Misshapen {
                        fault: EnvelopeFault::Truncation,
                        what: "it was cut off".to_owned(),
                    })),
                    None => Err(cut_off().into()),
                }
            }
            Finish::ToolCalls => {
                Err(failure::bad_answer("it calls tools that were not offered").into())
            }
            Finish::Stop | Finish::Length => {
                Ok(match shape.map(|shape| shape.read(&answer.text)) {
                    None => Judged::Good(None),
                    Some(Ok(Found { value, path })) => {
                        if let Some(path) = path {
                            self.report(|node_id, visit, attempt| {
                                Report::EnvelopeRecovered(EnvelopeRecovered {
                                    node_id,
                                    visit,
                                    attempt,
                                    path,
                                })
                            })
                            .await?;
                        }
                        Judged::Good(Some(value))
                    }
                    Some(Err(misshapen)) => Judged::Misshapen(misshapen),
                })
            }
        }
    }

    /// Records the named prompt, with hashes of its inputs and its composed text.
    pub(super) async fn composed(&self, of: &Prompt) -> Result<(), Silenced> {
        let Some(id) = &self.config.prompt_id else {
            return Ok(());
        };
        // Hashes cover the redacted text: otherwise a guess at a secret could be checked.
        let secrets = &self.cx.ports.secrets;
        let hash = |text: &str| Digest::compute(secrets.redacted(text).as_bytes()).to_string();
        let inputs = self.started.inputs().iter();
        let (refs, hashes) = (
            of_prompt(id).into_iter().collect(),
            inputs
                .map(|(name, value)| (name.clone(), hash(&as_text(value))))
                .collect(),
        );
        let settings = self.started.model_settings();
        self.report(|node_id, visit, attempt| {
            Report::PromptComposed(PromptComposed {
                node_id,
                visit,
                attempt,
                refs,
                parts: match of.system {
                    Some(_) => PromptParts::SystemAndUser,
                    None => PromptParts::UserOnly,
                },
                is_override: settings.prompt_override(id).is_some(),
                hash: hash(&of.text()),
                variable_hashes: hashes,
            })
        })
        .await
    }

    async fn report(
        &self,
        make: impl FnOnce(kernel::ids::NodeId, u32, u32) -> Report,
    ) -> Result<(), Silenced> {
        let attempt = self.started.attempt();
        let report = make(attempt.node.clone(), attempt.visit, attempt.attempt);
        Ok(self.cx.output.report(report).await?)
    }
}

fn cut_off() -> NodeError {
    let text = "the model's answer was cut off before it was complete; raise maxTokens";
    NodeError::new("envelope_truncation_unrecoverable", text).fatal()
}

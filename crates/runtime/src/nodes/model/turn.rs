//! One attempt: asks, reads, judges, and asks once more where that may help.

use std::collections::BTreeMap;

use kernel::run::budget::Amounts;
use kernel::run::report::{
    EnvelopeRefused, EnvelopeRetried, EnvelopeTruncated, EnvelopesExhausted,
};
use kernel::run::{Completion, NodeError, Outcome, Report, Usage};
use serde_json::{Map, Value, json};

use super::super::{NodeContext, NotReserved, Started};
use super::access::{Access, access};
use super::config::{Config, Truncation};
use super::mock;
use super::prompt::{Prompt, prompt};
use super::shape::{Shape, repair};
use super::speak::{Silenced, conclude, speak};
use crate::models::ask::{Answer, Ask, Finish, Message, Tokens};
use crate::models::{call, failure};

/// Runs an attempt to its end.
pub(super) async fn run(started: &Started, cx: &NodeContext) -> Outcome {
    if let Some(mock) = mock::asked_for(started.settings()) {
        return match mock::play(mock, cx).await {
            Ok(completion) => Outcome::Completed(completion),
            Err(silenced) => ended(silenced, Vec::new(), BTreeMap::new()),
        };
    }
    let mut turn = Turn {
        started,
        cx,
        usage: Vec::new(),
        calls: 0,
    };
    match turn.play().await {
        Ok(mut completion) => {
            completion.spent = turn.spent();
            completion.usage = turn.usage;
            Outcome::Completed(completion)
        }
        Err(silenced) => {
            let spent = turn.spent();
            ended(silenced, turn.usage, spent)
        }
    }
}

fn ended(silenced: Silenced, usage: Vec<Usage>, spent: Amounts) -> Outcome {
    match silenced {
        Silenced::HoldLost => Outcome::Stopped,
        Silenced::Failed(error) => Outcome::Failed {
            error,
            artifacts: Vec::new(),
            usage,
            spent,
        },
    }
}

struct Turn<'a> {
    started: &'a Started,
    cx: &'a NodeContext,
    /// What every call used.
    usage: Vec<Usage>,
    /// Calls that were made.
    calls: u32,
}

impl Turn<'_> {
    async fn play(&mut self) -> Result<Completion, Silenced> {
        let config = Config::of(self.started.config())?;
        let settings = self.started.model_settings();
        let Prompt { system, messages } = prompt(&config, settings, self.started.inputs())?;
        let shape = config.output_schema.as_ref().map(Shape::of).transpose()?;
        let access = access(&config, self.started, self.cx).await?;
        let mut ask = self.ask(&config, &access, system, messages, shape.as_ref());
        let mut asked = 1;
        loop {
            let (answer, last) = self.call(&config, &access, &ask).await?;
            let misshapen = match self
                .judge(&config, &access, &answer, shape.as_ref())
                .await?
            {
                Judged::Good(json) => {
                    let outputs = outputs(&answer, &access, &self.usage, json);
                    self.say(&config, &access, &answer, last, true).await?;
                    return Ok(Completion {
                        outputs,
                        ..Completion::default()
                    });
                }
                Judged::Misshapen(misshapen) => misshapen,
            };
            self.say(&config, &access, &answer, last, false).await?;
            if asked > 1 || !config.repair {
                self.report(|node_id, visit, attempt| {
                    Report::EnvelopesExhausted(EnvelopesExhausted {
                        node_id,
                        visit,
                        attempt,
                        asked,
                        reason: misshapen.fault,
                    })
                })
                .await?;
                let text = format!(
                    "the model's answer does not fit outputSchema: {}",
                    misshapen.what
                );
                return Err(NodeError::new("envelope_invalid", text).into());
            }
            asked += 1;
            self.report(|node_id, visit, attempt| {
                Report::EnvelopeRetried(EnvelopeRetried {
                    node_id,
                    visit,
                    attempt,
                    asked,
                    reason: misshapen.fault,
                    previous_error: Some(misshapen.what.clone()),
                })
            })
            .await?;
            ask.messages.push(Message::Assistant {
                text: answer.text,
                calls: Vec::new(),
            });
            ask.messages.push(Message::User(repair(&misshapen)));
        }
    }

    fn ask(
        &self,
        config: &Config,
        access: &Access,
        system: Option<String>,
        messages: Vec<Message>,
        shape: Option<&Shape>,
    ) -> Ask {
        let settings = self.started.model_settings();
        let system = match shape.filter(|_| access.provider.asks_in_words()) {
            Some(shape) => {
                let before = system.map(|system| system + "\n\n").unwrap_or_default();
                Some(before + &shape.in_words())
            }
            None => system,
        };
        Ask {
            model: access.model.clone(),
            system,
            messages,
            temperature: config.temperature.or_else(|| settings.temperature()),
            top_p: config.top_p,
            seed: config.seed,
            max_tokens: config.max_tokens.or_else(|| settings.max_tokens()),
            stop: config.stop.clone(),
            shape: shape.map(|shape| shape.schema.clone()),
            tools: Vec::new(),
            stream: config.streams(),
        }
    }

    /// One call, whose answer goes into the log as it comes. Gives back the answer and the part of
    /// it that is not in the log yet.
    async fn call(
        &mut self,
        config: &Config,
        access: &Access,
        ask: &Ask,
    ) -> Result<(Answer, String), Silenced> {
        self.reserve("tokens", ask.max_tokens.unwrap_or(1)).await?;
        // The same for the same call of an attempt that is started again.
        let key = match self.calls {
            0 => self.started.key().to_string(),
            n => format!("{}-{n}", self.started.key()),
        };
        self.calls += 1;
        let since = tokio::time::Instant::now();
        let mut calling = call::call(
            &self.cx.ports.outbound,
            &access.provider,
            access.credential.as_deref(),
            ask,
            &key,
            config.patience(),
        )
        .await?;
        let last = match ask.stream {
            true => speak(&mut calling, &*self.cx.output).await?,
            false => {
                while calling.next().await?.is_some() {}
                String::new()
            }
        };
        let answer = calling.answer()?;
        if let Some(tokens) = answer.tokens {
            let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.usage.push(usage(&answer, access, &tokens, took));
        }
        Ok((answer, last))
    }

    /// Whether an answer is what was asked for.
    async fn judge(
        &self,
        config: &Config,
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
            Finish::Length if shape.is_some() || config.truncation == Truncation::Fail => {
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
                let text = "the model's answer was cut off before it was whole; raise maxTokens";
                Err(NodeError::new("envelope_truncation_unrecoverable", text)
                    .fatal()
                    .into())
            }
            Finish::ToolCalls => Err(failure::bad_answer("it calls tools it was not given").into()),
            Finish::Stop | Finish::Length => {
                Ok(match shape.map(|shape| shape.read(&answer.text)) {
                    None => Judged::Good(None),
                    Some(Ok(json)) => Judged::Good(Some(json)),
                    Some(Err(misshapen)) => Judged::Misshapen(misshapen),
                })
            }
        }
    }

    /// Puts the rest of an answer into the log, with what there is to say about all of it.
    async fn say(
        &self,
        config: &Config,
        access: &Access,
        answer: &Answer,
        last: String,
        is_last: bool,
    ) -> Result<(), Silenced> {
        if !config.streams() {
            return Ok(());
        }
        let model = answer.model.as_deref().unwrap_or(&access.model);
        let mut meta = json!({
            "finishReason": answer.finish.as_str(), "model": model,
            "provider": access.provider.name,
        });
        if let Some(tokens) = &answer.tokens {
            meta["usage"] = json!({
                "promptTokens": tokens.input, "completionTokens": tokens.output,
                "totalTokens": tokens.total(),
            });
        }
        conclude(&*self.cx.output, last, is_last, meta).await?;
        Ok(())
    }

    async fn report(
        &self,
        make: impl FnOnce(kernel::ids::NodeId, u32, u32) -> Report,
    ) -> Result<(), Silenced> {
        let attempt = self.started.attempt();
        let report = make(attempt.node.clone(), attempt.visit, attempt.attempt);
        Ok(self.cx.output.report(report).await?)
    }

    /// Sets part of the run's budget aside, where it has one.
    async fn reserve(&self, dimension: &str, amount: u64) -> Result<(), Silenced> {
        if !self.started.is_budgeted() {
            return Ok(());
        }
        let amounts = Amounts::from([(dimension.to_owned(), amount)]);
        match self.cx.output.reserve(amounts).await {
            Ok(()) => Ok(()),
            Err(NotReserved::HoldLost) => Err(Silenced::HoldLost),
            Err(error @ NotReserved::Exhausted { .. }) => {
                Err(NodeError::new("budget_exhausted", error.to_string())
                    .fatal()
                    .into())
            }
        }
    }

    /// What was spent of the run's budget.
    fn spent(&self) -> Amounts {
        if !self.started.is_budgeted() {
            return Amounts::new();
        }
        let sum = |of: fn(&Usage) -> u64| self.usage.iter().map(of).fold(0, u64::saturating_add);
        let tokens = sum(|usage| usage.input_tokens.saturating_add(usage.output_tokens));
        let micro_usd = sum(|usage| {
            let usd = usage.cost_estimate_usd.unwrap_or(0.0);
            (usd * 1e6).ceil() as u64
        });
        Amounts::from([
            ("tokens".to_owned(), tokens),
            ("costMicroUsd".to_owned(), micro_usd),
        ])
    }
}

/// What an answer is worth.
enum Judged {
    /// It is what was asked for; as JSON where that was asked for.
    Good(Option<Value>),
    /// It does not have its shape.
    Misshapen(super::shape::Misshapen),
}

fn usage(answer: &Answer, access: &Access, tokens: &Tokens, took: u64) -> Usage {
    let model = answer.model.as_deref().unwrap_or(&access.model);
    Usage {
        provider: access.provider.name.clone(),
        model: model.to_owned(),
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cost_estimate_usd: access.provider.cost([&access.model, model], tokens),
        duration_ms: Some(took),
        cache_read_tokens: tokens.cache_read,
        cache_write_tokens: tokens.cache_write,
    }
}

fn outputs(
    answer: &Answer,
    access: &Access,
    usage: &[Usage],
    json: Option<Value>,
) -> Map<String, Value> {
    let mut outputs = Map::new();
    outputs.insert("content".into(), answer.text.clone().into());
    if let Some(json) = json {
        outputs.insert("json".into(), json);
    }
    outputs.insert("finishReason".into(), answer.finish.as_str().into());
    let model = answer.model.as_deref().unwrap_or(&access.model);
    outputs.insert("model".into(), model.into());
    outputs.insert("provider".into(), access.provider.name.clone().into());
    if !usage.is_empty() {
        let sum = |of: fn(&Usage) -> u64| usage.iter().map(of).fold(0, u64::saturating_add);
        let (input, output) = (
            sum(|usage| usage.input_tokens),
            sum(|usage| usage.output_tokens),
        );
        outputs.insert(
            "usage".into(),
            json!({
                "inputTokens": input, "outputTokens": output,
                "totalTokens": input.saturating_add(output),
            }),
        );
    }
    outputs
}

//! One attempt: calls the model, executes tool calls, evaluates, and calls again if that may help.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::digest::Digest;
use kernel::ids::EffectKey;
use kernel::run::budget::{Amounts, TOOL_CALLS};
use kernel::run::event::LogLevel;
use kernel::run::report::Used;
use kernel::run::{Completion, NodeError, Outcome, Report, Usage};

use super::super::called;
use super::super::process::Process;
use super::super::{NodeContext, NotReserved, Started};
use super::access::{Access, access};
use super::answered::{Judged, for_good, meta, outputs, usage};
use super::config::Config;
use super::judge::NextAsk;
use super::mock;
use super::prompt::{Prompt, prompt};
use super::shape::Shape;
use super::speak::{Silenced, conclude, speak};
use super::tools::Toolbox;
use crate::models::ask::{Answer, Ask, Finish, Message};
use crate::models::estimate::{Estimate, spent};
use crate::models::{call, failure};

/// The assumed token limit of a truncated answer without a known one.
const FALLBACK_TOKENS: u64 = 1_024;
/// How often an attempt waits for a busy provider.
const MAX_WAITS: u32 = 3;
/// The longest such wait in milliseconds.
const MAX_WAIT_BETWEEN_MS: u64 = 60_000;

/// Runs an attempt to its end.
pub(super) async fn run(
    config: &Config,
    started: &Started,
    cx: &NodeContext,
    process: &Process,
) -> Outcome {
    if let Some(mock) = mock::asked_for(started.settings()) {
        let played = tokio::select! {
            biased;
            () = cx.stop.cancelled() => Err(Silenced::Stopped),
            played = mock::play(mock, cx) => played,
        };
        return match played {
            Ok(completion) => Outcome::Completed(completion),
            Err(silenced) => ended(silenced, Vec::new(), BTreeMap::new()),
        };
    }
    let mut turn = Turn {
        config,
        started,
        cx,
        process,
        usage: started.past_usage().to_vec(),
        reported: started.past_usage().len(),
        answered: BTreeMap::new(),
        estimate: None,
        lost: Amounts::new(),
        settled_calls: 0,
        tools: Toolbox::default(),
    };
    let played = turn.play().await;
    turn.tools.close().await;
    let spent = turn.spent();
    let usage = turn.usage.split_off(turn.reported);
    match played {
        Ok(completion) => Outcome::Completed(Completion {
            spent,
            usage,
            ..completion
        }),
        Err(Silenced::Failed(error)) if turn.tools.is_spent() => {
            ended(for_good(error).into(), usage, spent)
        }
        Err(silenced) => ended(silenced, usage, spent),
    }
}

fn ended(silenced: Silenced, usage: Vec<Usage>, spent: Amounts) -> Outcome {
    match silenced {
        Silenced::Stopped => Outcome::Stopped,
        Silenced::Failed(error) => Outcome::Failed {
            error,
            artifacts: Vec::new(),
            usage,
            spent,
        },
    }
}

pub(super) struct Turn<'a> {
    pub(super) config: &'a Config,
    pub(super) started: &'a Started,
    pub(super) cx: &'a NodeContext,
    process: &'a Process,
    /// The usage of every call, in all lives.
    usage: Vec<Usage>,
    /// How many of them are in the log already.
    reported: usize,
    /// How often an equal request was answered.
    answered: BTreeMap<Digest, u32>,
    /// The reservation for the next call, or its repetition.
    estimate: Option<Estimate>,
    /// The usage of calls whose answers were lost.
    lost: Amounts,
    /// Tool calls that were settled.
    settled_calls: u64,
    tools: Toolbox,
}

impl Turn<'_> {
    async fn play(&mut self) -> Result<Completion, Silenced> {
        let (config, cx) = (self.config, self.cx);
        let settings = self.started.model_settings();
        let prompt = prompt(config, settings, self.started.inputs())?;
        let shape = config
            .output_schema
            .as_ref()
            .map(Shape::from_schema)
            .transpose()?;
        let access = access(config, self.started, cx).await?;
        self.tools.fill(config, self.started, cx).await?;
        self.composed(&prompt).await?;
        let Prompt { system, messages } = prompt;
        let mut ask = self.ask(&access, system, messages, shape.as_ref());
        let (started, process) = (self.started, self.process);
        ask.messages
            .extend(self.tools.recall(started, cx, process).await?);
        let mut asked = 1;
        loop {
            let (answer, last) = self.call_until_answered(&access, &ask).await?;
            if answer.finish == Finish::ToolCalls && !ask.tools.is_empty() {
                self.say(&access, &answer, last, false).await?;
                if self.tools.begin_round() > config.max_tool_rounds {
                    return Err(too_many_rounds(config.max_tool_rounds).into());
                }
                self.report_usage().await?;
                let answers = self
                    .tools
                    .answer(&answer.calls, self.started, cx, self.process);
                let results = answers.await?;
                let (text, calls) = (answer.text, answer.calls);
                ask.messages.push(Message::Assistant { text, calls });
                ask.messages.push(Message::Results(results));
                continue;
            }
            let judged = self.judge(&access, &answer, shape.as_ref()).await?;
            let wanting = match judged {
                Judged::Good(json) => {
                    let outputs = outputs(&answer, &access, &self.usage, json);
                    self.say(&access, &answer, last, true).await?;
                    return Ok(Completion {
                        outputs,
                        ..Completion::default()
                    });
                }
                Judged::Misshapen(misshapen) => misshapen,
            };
            self.say(&access, &answer, last, false).await?;
            self.report_usage().await?;
            asked += 1;
            let next = self.next_ask(&wanting, &answer, asked, shape.as_ref());
            match next.await? {
                // The answer was on its way to the right form but truncated.
                NextAsk::WithMoreRoom => {
                    let had = ask.max_tokens.or(answer.tokens.map(|tokens| tokens.output));
                    let had = had.unwrap_or(FALLBACK_TOKENS);
                    ask.max_tokens = Some(had.saturating_mul(2));
                }
                NextAsk::WithWords(words) => {
                    ask.messages.push(Message::Assistant {
                        text: answer.text,
                        calls: Vec::new(),
                    });
                    ask.messages.push(Message::User(words));
                }
            }
        }
    }

    fn ask(
        &self,
        access: &Access,
        system: Option<String>,
        messages: Vec<Message>,
        shape: Option<&Shape>,
    ) -> Ask {
        let config = self.config;
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
            tools: self.tools.offers(),
            stream: config.streams(),
        }
    }

    /// A call. After tool calls the attempt cannot begin again, so a busy provider is retried here
    /// at the time it names.
    async fn call_until_answered(
        &mut self,
        access: &Access,
        ask: &Ask,
    ) -> Result<(Answer, String), Silenced> {
        let mut waited = 0;
        loop {
            let error = match self.call(access, ask).await {
                Err(Silenced::Failed(error)) if self.tools.is_spent() => error,
                other => return other,
            };
            if error.retryable == Some(false) || waited == MAX_WAITS || !failure::is_clean(&error) {
                return Err(error.into());
            }
            waited += 1;
            let named = error
                .details
                .as_ref()
                .and_then(|d| d.get("retryAfterMs")?.as_u64());
            let delay = named.unwrap_or(1_000 << waited);
            if delay > MAX_WAIT_BETWEEN_MS {
                return Err(error.into());
            }
            let text = format!("{}; it is called again in {delay} ms", error.message);
            self.cx.output.log(LogLevel::Warn, text).await?;
            tokio::select! {
                biased;
                () = self.cx.stop.cancelled() => return Err(Silenced::Stopped),
                () = tokio::time::sleep(Duration::from_millis(delay)) => {}
            }
        }
    }

    /// One call, whose answer goes into the log as it arrives. Returns the answer and the part of
    /// it that is not in the log yet.
    async fn call(&mut self, access: &Access, ask: &Ask) -> Result<(Answer, String), Silenced> {
        self.reserve(access, ask).await?;
        // A repeated request has the key of the first one, in this attempt or another.
        let body = call::body(&access.provider, ask);
        let request = Digest::compute(body.as_bytes());
        let nth = self.answered.get(&request).copied().unwrap_or_default();
        let effect = self.started.effect();
        let key = effect.of_call(&access.provider.name, &request.to_string(), nth);
        let since = tokio::time::Instant::now();
        let answered = tokio::select! {
            biased;
            // Dropping the connection tells the provider of the cancellation.
            () = self.cx.stop.cancelled() => return Err(Silenced::Stopped),
            answered = self.answer_of(access, (ask, body), &key) => answered,
        };
        let (answer, last) = match answered {
            Ok(answered) => answered,
            Err(Silenced::Failed(error)) => {
                if failure::may_cost(&error)
                    && let Some(estimate) = self.estimate.take()
                {
                    self.lost = estimate.expected;
                }
                return Err(error.into());
            }
            Err(Silenced::Stopped) => return Err(Silenced::Stopped),
        };
        *self.answered.entry(request).or_default() += 1;
        let took = called::since(since);
        self.usage.push(usage(&answer, access, took));
        if self.estimate.take().is_some() {
            self.settle(spent(&access.provider, ask, &answer)).await?;
        }
        Ok((answer, last))
    }

    async fn answer_of(
        &self,
        access: &Access,
        (ask, body): (&Ask, String),
        key: &EffectKey,
    ) -> Result<(Answer, String), Silenced> {
        let mut calling = call::call(
            &self.cx.ports.outbound,
            &access.provider,
            access.credential.as_deref(),
            (ask, body),
            key,
            self.config.patience(),
        )
        .await?;
        let last = if ask.stream {
            speak(&mut calling, &*self.cx.output).await?
        } else {
            while calling.next().await?.is_some() {}
            String::new()
        };
        Ok((calling.answer()?, last))
    }

    /// Records the usage of calls before the next one: a successor that resumes this attempt counts
    /// it.
    async fn report_usage(&mut self) -> Result<(), Silenced> {
        for usage in &self.usage[self.reported..] {
            self.report_used(usage, None).await?;
        }
        self.reported = self.usage.len();
        Ok(())
    }

    /// Records the usage of the last call with the tool calls before it, and releases the rest of
    /// the reservation.
    async fn settle(&mut self, mut spent: Amounts) -> Result<(), Silenced> {
        spent.extend(self.tool_calls());
        if let Some(usage) = self.usage.last() {
            self.report_used(usage, Some(spent)).await?;
        }
        self.settled_calls = self.tools.made();
        self.reported = self.usage.len();
        Ok(())
    }

    async fn report_used(&self, usage: &Usage, spent: Option<Amounts>) -> Result<(), Silenced> {
        let of = self.started.attempt();
        let used = Used {
            node_id: of.node.clone(),
            visit: of.visit,
            attempt: of.attempt,
            usage: usage.clone(),
            spent,
        };
        self.cx.output.report(Report::Used(used)).await?;
        Ok(())
    }

    /// Writes the rest of an answer to the log, with its metadata.
    async fn say(
        &self,
        access: &Access,
        answer: &Answer,
        last: String,
        is_last: bool,
    ) -> Result<(), Silenced> {
        if !self.config.streams() {
            return Ok(());
        }
        let meta = meta(answer, access);
        conclude(&*self.cx.output, last, is_last, meta).await?;
        Ok(())
    }

    /// Reserves the estimated usage of a call from the run's budget, if it has one. The reservation
    /// of an unanswered call serves the next one.
    async fn reserve(&mut self, access: &Access, ask: &Ask) -> Result<(), Silenced> {
        if !self.started.is_budgeted() || self.estimate.is_some() {
            return Ok(());
        }
        let estimate = Estimate::new(&access.provider, ask);
        let least = if self.started.has_part_of_budget() {
            estimate.expected.clone()
        } else {
            estimate.least.clone()
        };
        let likely = estimate.likely.clone();
        let reserved = tokio::select! {
            biased;
            () = self.cx.stop.cancelled() => return Err(Silenced::Stopped),
            reserved = self.cx.output.reserve(likely, Some(least)) => reserved,
        };
        match reserved {
            Ok(()) => {
                self.estimate = Some(estimate);
                Ok(())
            }
            Err(NotReserved::LeaseLost) => Err(Silenced::Stopped),
            Err(NotReserved::Exhausted(exhausted)) => Err(exhausted.error().into()),
        }
    }

    /// The spent part of the run's budget that is not settled.
    fn spent(&mut self) -> Amounts {
        let mut spent = std::mem::take(&mut self.lost);
        spent.extend(self.tool_calls());
        spent
    }

    /// Unsettled tool calls, as a budget counts them.
    fn tool_calls(&self) -> Option<(String, u64)> {
        let made = self.tools.made() - self.settled_calls;
        (self.started.is_budgeted() && made > 0).then(|| (TOOL_CALLS.to_owned(), made))
    }
}

fn too_many_rounds(rounds: u32) -> NodeError {
    let text = format!(
        "the model still requests tools after {rounds} rounds of calls; raise maxToolRounds or \
         simplify the task"
    );
    NodeError::new("tool_rounds_exceeded", text).fatal()
}

//! Estimates of a model call's usage from the size of the request.

use kernel::limits::MAX_COUNT;
use kernel::run::NodeError;
use kernel::run::budget::{Amounts, COST, TOKENS};

use super::anthropic;
use super::ask::{Answer, Ask, Message, Tokens};
use super::providers::{Api, Provider};

/// A low estimate of the bytes of a token.
const FEW_BYTES: u64 = 2;
/// A high estimate of the bytes of a token.
const MANY_BYTES: u64 = 4;
/// Tokens that an interface adds to each message.
const TOKENS_OF_A_MESSAGE: u64 = 8;
/// Estimated tokens of an answer without a limit.
const EXPECTED_ANSWER: u64 = 1_024;

/// The estimated use of a budget.
#[derive(Debug)]
pub(crate) struct Estimate {
    /// The upper bound: the rest of the budget if the answer has no length limit.
    pub likely: Amounts,
    /// The lower bound.
    pub least: Amounts,
    /// The best estimate: it counts if the answer was lost.
    pub expected: Amounts,
}

impl Estimate {
    /// The estimate for a call.
    pub(crate) fn new(provider: &Provider, ask: &Ask) -> Self {
        let bytes = ask.bytes();
        let messages = ask.messages.len() as u64 + 1;
        let input = bytes.div_ceil(FEW_BYTES) + messages * TOKENS_OF_A_MESSAGE;
        let bound = match provider.api {
            Api::Anthropic => Some(ask.max_tokens.unwrap_or(anthropic::DEFAULT_MAX_TOKENS)),
            Api::OpenAi => ask.max_tokens,
        };
        let amounts = |input, output| {
            let tokens = Tokens {
                input,
                output,
                ..Tokens::default()
            };
            amounts(provider, [&ask.model, &ask.model], &tokens)
        };
        Self {
            likely: amounts(input, bound.unwrap_or(MAX_COUNT)),
            least: amounts(bytes.div_ceil(MANY_BYTES), 1),
            expected: amounts(input, bound.unwrap_or(EXPECTED_ANSWER)),
        }
    }
}

/// The use of a budget by a call. Estimated if the provider does not report it.
pub(crate) fn spent(provider: &Provider, ask: &Ask, answer: &Answer) -> Amounts {
    let estimated = || {
        let calls = answer.calls.iter();
        let calls: usize = calls
            .map(|call| call.name.len() + call.arguments.len())
            .sum();
        Tokens {
            input: ask.bytes().div_ceil(MANY_BYTES),
            output: ((answer.text.len() + calls) as u64).div_ceil(MANY_BYTES),
            ..Tokens::default()
        }
    };
    let tokens = answer.tokens.unwrap_or_else(estimated);
    let model = answer.model.as_deref().unwrap_or(&ask.model);
    amounts(provider, [&ask.model, model], &tokens)
}

fn amounts(provider: &Provider, models: [&str; 2], tokens: &Tokens) -> Amounts {
    let total = tokens.with_cached(provider.api).min(MAX_COUNT);
    let mut amounts = Amounts::from([(TOKENS.to_owned(), total)]);
    if let Some(micro_usd) = provider.micro_usd(models, tokens) {
        amounts.insert(COST.to_owned(), micro_usd.min(MAX_COUNT));
    }
    amounts
}

/// The error of a call under a cost limit whose price is unknown.
pub(crate) fn unpriced(provider: &str, model: &str) -> NodeError {
    let text = format!("{}; nothing was sent", no_price(provider, model));
    NodeError::new("budget_model_unpriced", text).fatal()
}

/// Why a run with a cost limit may not call a model.
pub(crate) fn no_price(provider: &str, model: &str) -> String {
    match provider {
        super::providers::CUSTOM => format!(
            "maxCostUsd cannot be enforced: the model {model} is called by its address (baseUrl) \
             and has no price; use a provider with prices, or remove maxCostUsd"
        ),
        provider => format!(
            "maxCostUsd cannot be enforced: the model {model} of the provider {provider} has no \
             price; add [provider.{provider}.price.\"{model}\"] with input and output to the \
             engine's file of providers, or remove maxCostUsd"
        ),
    }
}

impl Ask {
    /// Bytes of the model's input.
    fn bytes(&self) -> u64 {
        let messages = self.messages.iter().map(|message| match message {
            Message::User(text) => text.len(),
            Message::Assistant { text, calls } => {
                let calls = calls.iter();
                let calls: usize = calls
                    .map(|call| call.name.len() + call.arguments.len())
                    .sum();
                text.len() + calls
            }
            Message::Results(results) => results.iter().map(|result| result.text.len()).sum(),
        });
        let tools = self.tools.iter().map(|tool| {
            tool.name.len() + tool.description.len() + tool.parameters.to_string().len()
        });
        let shape = self
            .shape
            .as_ref()
            .map_or(0, |shape| shape.to_string().len());
        let system = self.system.as_ref().map_or(0, String::len);
        let bytes: usize = messages.chain(tools).chain([shape, system]).sum();
        bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn cached_tokens_count_in_a_budget() {
        let answer = Answer {
            tokens: Some(Tokens {
                input: 10,
                output: 5,
                cache_read: Some(700),
                cache_write: Some(80),
            }),
            ..Answer::default()
        };
        let spent = |api| {
            let provider = Provider::custom(api, Url::parse("http://127.0.0.1").unwrap());
            spent(&provider, &Ask::default(), &answer)[TOKENS]
        };
        assert_eq!(spent(Api::Anthropic), 795);
        // OpenAI's input contains them.
        assert_eq!(spent(Api::OpenAi), 15);
    }
}

//! What a call of a model is likely to use, from the size of what is asked.

use kernel::limits::MAX_COUNT;
use kernel::run::NodeError;
use kernel::run::budget::{Amounts, COST, TOKENS};

use super::anthropic;
use super::ask::{Answer, Ask, Message, Tokens};
use super::providers::{Api, Provider};

/// Bytes of a text that are hardly less than a token.
const FEW_BYTES: u64 = 2;
/// Bytes of a text that are hardly more than a token.
const MANY_BYTES: u64 = 4;
/// Tokens that an interface adds to each message.
const TOKENS_OF_A_MESSAGE: u64 = 8;
/// Tokens of an answer that nobody has bounded.
const EXPECTED_ANSWER: u64 = 1_024;

/// What a call is likely to use of a budget.
#[derive(Debug)]
pub(crate) struct Estimate {
    /// What it uses at most: all that is left where the length of the answer has no bound.
    pub likely: Amounts,
    /// What it uses at least.
    pub least: Amounts,
    /// What it uses as far as anybody can say: what counts when its answer was lost.
    pub expected: Amounts,
}

impl Estimate {
    /// The estimate of a call.
    pub(crate) fn of(provider: &Provider, ask: &Ask) -> Self {
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

/// What a call has used of a budget. Where the provider does not say, it is estimated.
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
    let mut amounts = Amounts::from([(TOKENS.to_owned(), tokens.total().min(MAX_COUNT))]);
    if let Some(micro_usd) = provider.micro_usd(models, tokens) {
        amounts.insert(COST.to_owned(), micro_usd.min(MAX_COUNT));
    }
    amounts
}

/// The error of a call that a limit of money forbids because nobody knows what it costs.
pub(crate) fn unpriced(provider: &str, model: &str) -> NodeError {
    let text = format!("{}; nothing was sent", no_price(provider, model));
    NodeError::new("budget_model_unpriced", text).fatal()
}

/// Why a run with a limit of money may not ask a model.
pub(crate) fn no_price(provider: &str, model: &str) -> String {
    match provider {
        super::providers::CUSTOM => format!(
            "maxCostUsd cannot be kept: the model {model} is asked by its address (baseUrl) and \
             has no price; name a provider with prices, or leave maxCostUsd out"
        ),
        provider => format!(
            "maxCostUsd cannot be kept: the model {model} of the provider {provider} has no \
             price; whoever runs the engine adds [provider.{provider}.price.\"{model}\"] with \
             input and output to the file of providers, or leave maxCostUsd out"
        ),
    }
}

impl Ask {
    /// Bytes of all that the model reads.
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

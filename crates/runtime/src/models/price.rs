//! The cost of calls by a price table of the operator. Without an entry the cost of a model is
//! unknown: no prices are built in.

use serde::Deserialize;

use super::ask::Tokens;
use super::providers::Api;

/// Prices of a model in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

impl Price {
    /// Whether every number is a valid price.
    pub(super) fn is_sound(&self) -> bool {
        let rates = [
            Some(self.input),
            Some(self.output),
            self.cache_read,
            self.cache_write,
        ];
        rates
            .into_iter()
            .flatten()
            .all(|rate| rate.is_finite() && rate >= 0.0)
    }

    /// The highest possible cost in millionths of a US dollar. Cached tokens without a price of
    /// their own count as input: reads once, writes `DEAR` times.
    pub(super) fn micro_usd(&self, api: Api, tokens: &Tokens) -> u64 {
        const DEAR: f64 = 2.0;
        let whole = Self {
            cache_read: self.cache_read.or(Some(self.input)),
            cache_write: self.cache_write.or(Some(self.input * DEAR)),
            ..*self
        };
        // Dollars per million tokens are millionths of a dollar per token.
        let micro_usd = whole.of(api, tokens).unwrap_or(0.0) * 1e6;
        (micro_usd - 1e-6).ceil().max(0.0) as u64
    }

    /// The cost of these tokens. `None` if some of them have no price.
    pub(super) fn of(&self, api: Api, tokens: &Tokens) -> Option<f64> {
        let read = tokens.cache_read.unwrap_or(0);
        let write = tokens.cache_write.unwrap_or(0);
        let plain = match api {
            // OpenAI includes tokens read from the cache in the input …
            Api::OpenAi => tokens.input.saturating_sub(read),
            // … and Anthropic counts them separately.
            Api::Anthropic => tokens.input,
        };
        let cached = |tokens: u64, rate: Option<f64>| match (tokens, rate) {
            (0, _) => Some(0.0),
            (tokens, Some(rate)) => Some(tokens as f64 * rate),
            (_, None) => None,
        };
        let sum = plain as f64 * self.input
            + tokens.output as f64 * self.output
            + cached(read, self.cache_read)?
            + cached(write, self.cache_write)?;
        Some(sum / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(api: Api, price: &str, tokens: Tokens, usd: Option<f64>) {
        let price: Price = toml::from_str(price).unwrap();
        assert_eq!(price.of(api, &tokens), usd);
    }

    #[test]
    fn cached_tokens_are_counted_as_each_provider_counts_them() {
        let tokens = Tokens {
            input: 1_000_000,
            output: 500_000,
            cache_read: Some(400_000),
            cache_write: None,
        };
        let price = "input = 2.0\noutput = 4.0\ncache_read = 0.5";
        check(Api::OpenAi, price, tokens, Some(3.4));
        check(Api::Anthropic, price, tokens, Some(4.2));
    }

    #[test]
    fn a_limit_of_money_counts_whole_millionths() {
        let price: Price = toml::from_str("input = 2.0\noutput = 4.0").unwrap();
        let micro_usd = |input, output, cache_write| {
            let tokens = Tokens {
                input,
                output,
                cache_read: None,
                cache_write,
            };
            price.micro_usd(Api::Anthropic, &tokens)
        };
        assert_eq!(micro_usd(3, 0, None), 6);
        assert_eq!(micro_usd(1_000, 500, None), 4_000);
        assert_eq!(micro_usd(0, 0, Some(10)), 40);
        let cheap: Price = toml::from_str("input = 0.1\noutput = 0.0").unwrap();
        let one = Tokens {
            input: 1,
            ..Tokens::default()
        };
        assert_eq!(cheap.micro_usd(Api::OpenAi, &one), 1);
    }

    #[test]
    fn tokens_without_a_price_have_no_cost() {
        let tokens = Tokens {
            input: 10,
            output: 10,
            cache_read: Some(1),
            cache_write: Some(0),
        };
        check(Api::OpenAi, "input = 1.0\noutput = 1.0", tokens, None);
    }
}

//! The providers of an engine, as configured by the operator.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kernel::run::NodeError;
use kernel::stream::Owner;
use serde::Deserialize;
use url::Url;

use super::ask::Tokens;
use super::policy::{self, Credential, Policy};
use super::price::Price;
use crate::named_file::{self, MAX_CONFIG_BYTES};
use crate::tools::ToolServers;

/// The interface of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// The chat completions of OpenAI and compatible servers.
    #[default]
    OpenAi,
    /// The messages of Anthropic.
    Anthropic,
}

/// How a provider is asked for an answer with a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Structured {
    /// By the interface's own means.
    #[default]
    Native,
    /// In the prompt.
    Prompt,
}

/// The name of a provider whose address the workflow gives.
pub(crate) const CUSTOM: &str = "custom";

/// The source of a host credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostSecret {
    /// An environment variable of the engine.
    Env(String),
    /// A file.
    File(PathBuf),
}

impl HostSecret {
    /// The operator's reference. Shown to the operator only.
    fn reference(&self) -> String {
        match self {
            Self::Env(name) => format!("env:{name}"),
            Self::File(path) => format!("file:{}", path.display()),
        }
    }

    /// The current value, read anew so that a change takes effect at once. The error is for the
    /// operator only.
    async fn read(&self) -> Result<String, String> {
        let read = match self {
            Self::Env(name) => std::env::var(name).map_err(|error| error.to_string()),
            Self::File(path) => {
                let text = named_file::read_to_string_async(path, MAX_CONFIG_BYTES).await;
                text.map_err(|error| error.to_string())
            }
        };
        read.map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
            .map_err(|error| {
                format!(
                    "the credential {} of the engine's configuration cannot be read: {error}",
                    self.reference()
                )
            })
    }

    /// As [`HostSecret::read`], for a run: its error names the owner of the credential, the
    /// engine's log also the reference.
    pub(crate) async fn read_of(&self, whose: &str) -> Result<String, NodeError> {
        self.read().await.map_err(|what| {
            tracing::warn!(%what, whose, "a credential cannot be read");
            let text = format!(
                "the engine's own credential for {whose} cannot be read; the engine's log has the \
                 reason"
            );
            NodeError {
                host_lacks: true,
                ..NodeError::new("credential_unavailable", text)
            }
        })
    }
}

/// A provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name, in lower case.
    pub name: String,
    /// Its interface.
    pub api: Api,
    /// The base of the interface's paths.
    pub base_url: Url,
    /// The default model.
    pub model: Option<String>,
    /// Whether tenants may bring a credential of their own.
    pub byok: bool,
    pub(super) credential: Option<HostSecret>,
    pub(super) structured: Structured,
    pub(super) prices: BTreeMap<String, Price>,
}

impl Provider {
    /// A provider whose address the workflow gives. Host credentials are never sent there.
    pub(crate) fn custom(api: Api, base_url: Url) -> Self {
        Self {
            name: CUSTOM.to_owned(),
            api,
            base_url,
            model: None,
            byok: true,
            credential: None,
            structured: Structured::default(),
            prices: BTreeMap::new(),
        }
    }

    /// Checks that the host's credential for it, if any, can be read.
    ///
    /// # Errors
    /// The reason, for the operator: it names the variable or the file.
    pub async fn check_credential(&self) -> Result<(), String> {
        match &self.credential {
            Some(secret) => secret.read().await.map(drop),
            None => Ok(()),
        }
    }

    /// Whether the price of any of its models is known.
    pub fn has_prices(&self) -> bool {
        !self.prices.is_empty()
    }

    pub(crate) fn asks_in_words(&self) -> bool {
        self.structured == Structured::Prompt
    }

    /// The cost of a call in US dollars. `None` if the table has no price.
    pub(crate) fn cost(&self, models: [&str; 2], tokens: &Tokens) -> Option<f64> {
        self.price(models)?.of(self.api, tokens)
    }

    /// The highest possible cost, in millionths of a US dollar.
    pub(crate) fn micro_usd(&self, models: [&str; 2], tokens: &Tokens) -> Option<u64> {
        Some(self.price(models)?.micro_usd(self.api, tokens))
    }

    /// Whether the table has a price for a model.
    pub(crate) fn has_price_of(&self, model: &str) -> bool {
        self.price([model, model]).is_some()
    }

    fn price(&self, models: [&str; 2]) -> Option<&Price> {
        let exact = models.iter().find_map(|model| self.prices.get(*model));
        exact.or_else(|| {
            let fits = |pattern: &str| models.iter().any(|model| policy::matches(pattern, model));
            // The longest matching pattern is the most specific one.
            let fitting = self.prices.iter().filter(|(pattern, _)| fits(pattern));
            Some(fitting.max_by_key(|(pattern, _)| pattern.len())?.1)
        })
    }

    /// The host's credential for it, and the text that replaces it if it comes back.
    pub(crate) async fn host_credential(&self) -> Result<Option<(String, String)>, NodeError> {
        let whose = format!("provider {}", self.name);
        match &self.credential {
            Some(secret) => {
                let value = secret.read_of(&whose).await?;
                Ok(Some((format!("provider:{}", self.name), value)))
            }
            None => Ok(None),
        }
    }
}

/// Every provider of an engine, and their policies. Without any, workflows may only call models
/// whose address they give.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    pub(super) by_name: BTreeMap<String, Provider>,
    pub(super) default: Option<String>,
    pub(super) policies: Vec<Policy>,
    pub(super) tools: ToolServers,
}

impl Providers {
    /// The servers of tools.
    pub fn tools(&self) -> &ToolServers {
        &self.tools
    }

    /// Every provider, by name.
    pub fn all(&self) -> impl Iterator<Item = &Provider> {
        self.by_name.values()
    }

    /// The provider of a name, or the default one.
    ///
    /// # Errors
    /// `provider_not_found`.
    pub(crate) fn named(&self, name: Option<&str>) -> Result<&Provider, NodeError> {
        let only = || match self.by_name.len() {
            1 => self.by_name.values().next(),
            _ => None,
        };
        let (found, advice) = match name {
            Some(name) => (self.by_name.get(name), "name one that is"),
            None => {
                let default = self.default.as_deref();
                let default = default
                    .and_then(|name| self.by_name.get(name))
                    .or_else(only);
                (default, "name one as `provider`")
            }
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let known = if names.is_empty() {
                "none is configured; start the engine with --providers FILE, or give the \
                         model's address as baseUrl"
                    .to_owned()
            } else {
                format!("{advice}: {}", names.join(", "))
            };
            NodeError::new(
                "provider_not_found",
                format!("the provider is not configured; {known}"),
            )
            .lacking()
        })
    }

    /// Checks a call of a run of this owner against the policies.
    ///
    /// # Errors
    /// `provider_policy_denied`.
    pub(crate) fn check(
        &self,
        owner: &Owner,
        provider: &str,
        model: &str,
        credential: Credential,
    ) -> Result<(), NodeError> {
        let policy = policy::of(&self.policies, owner, provider);
        policy::check(policy, provider, model, credential)
    }
}

//! Models behind HTTP: which there are, who may use them, and how they are asked.
//!
//! A thin client of our own over the guarded [`crate::outbound`], for the two interfaces that most
//! models are offered by: the chat completions of OpenAI (and of the many servers that speak it)
//! and the messages of Anthropic. What a provider costs and who may use it is said by whoever runs
//! the engine ([`Providers`]), never by a workflow.

mod anthropic;
pub(crate) mod ask;
pub(crate) mod call;
pub(crate) mod estimate;
pub(crate) mod failure;
mod openai;
mod options;
pub(crate) mod policy;
mod price;
mod priced;
mod providers;
mod reading;
pub(crate) mod sse;

pub use options::BadProviders;
pub(crate) use options::{base_url, host_secret, is_name};
pub(crate) use policy::matches;
pub use policy::{LAYERS, Mode};
pub(crate) use providers::HostSecret;
pub use providers::{Api, Provider, Providers};

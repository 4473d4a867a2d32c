//! Models over HTTP: configuration, policies, and calls.
//!
//! A thin client of our own over the guarded [`crate::outbound`], for the two most common
//! interfaces: the chat completions of OpenAI (and of the many compatible servers) and the messages
//! of Anthropic. Prices and access are configured by the operator ([`Providers`]), never by a
//! workflow.

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
pub(crate) use priced::{CHAT, MODEL_NODES, PROMPT, STRUCTURED};
pub(crate) use providers::HostSecret;
pub use providers::{Api, Provider, Providers};

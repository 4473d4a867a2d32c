//! Reports of attempts while they work, as stored: called tools, and answers that a model was asked
//! to give in a certain shape (an *envelope*).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::NodeId;
use crate::json::is_default;
use crate::run::event::{NodeError, Usage};

/// The usage of a provider's call during an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct Used {
    pub node_id: NodeId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    pub attempt: u32,
    pub usage: Usage,
    /// Its part of the run's budget: it settles the attempt's reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<BTreeMap<String, u64>>,
}

/// A tool is about to be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct ToolCalled {
    pub node_id: NodeId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    pub attempt: u32,
    /// The agent pinned to the node, else the node by its workflow. The decision fills it in.
    #[serde(default)]
    pub agent_id: String,
    /// The tool, after the name of its server: `server.tool`.
    pub tool_name: String,
    /// The id that connects call and return; unique in the attempt.
    pub call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// SHA-256 of the canonical JSON of its inputs, in hexadecimal.
    pub args_hash: String,
    pub transport: ToolTransport,
    /// For a call requested by a model: the number of the attempt's answer with tool calls, from 1.
    #[serde(default, skip_serializing_if = "is_default")]
    pub round: u32,
}

/// The transport of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolTransport {
    /// The Model Context Protocol.
    Mcp,
    /// A program of the project.
    Native,
}

/// A tool call has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct ToolReturned {
    pub node_id: NodeId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    pub attempt: u32,
    /// As in the call.
    #[serde(default)]
    pub agent_id: String,
    pub tool_name: String,
    pub call_id: String,
    /// Its result status.
    pub status: ToolStatus,
    /// Its result. It comes from outside and is not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    /// Why it has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<NodeError>,
    /// Measured milliseconds; absent when it was never called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The result status of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It returned a result.
    Ok,
    /// It failed.
    Error,
    /// It was not called: the node may not call it.
    Forbidden,
}

/// A model refused to answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct EnvelopeRefused {
    pub node_id: NodeId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    pub attempt: u32,
    pub provider: String,
    pub model: String,
    /// The provider's reason, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_category: Option<String>,
}

/// An answer was truncated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct EnvelopeTruncated {
    pub node_id: NodeId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    pub attempt: u32,
    pub provider: String,
    pub model: String,
    /// Tokens of the received part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_token_count: Option<u64>,
}

/// A model is asked again for an answer of the required shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetried {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// The number of the request, from 2 on.
    pub asked: u32,
    /// The fault of the answer before.
    pub reason: EnvelopeFault,
    /// A validator's message about it, which quotes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_error: Option<String>,
}

/// No answer had the required shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopesExhausted {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// Number of requests.
    pub asked: u32,
    /// The fault of the last answer.
    pub reason: EnvelopeFault,
}

/// An answer had its shape after surrounding text was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRecovered {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// How the answer was found.
    pub path: RecoveryPath,
}

/// How an answer of a shape is found in a model's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryPath {
    /// It was inside a Markdown fence.
    MarkdownFence,
    /// It was the first value in braces.
    BraceWalker,
}

/// A model answered in plain words, and is asked to put the same content into the shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeCoerced {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// The name of the shape.
    pub envelope: String,
    /// Number of these requests.
    pub calls: u32,
}

/// A named prompt was filled in for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct PromptComposed {
    pub node_id: NodeId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// The names of its prompts.
    pub refs: Vec<String>,
    pub parts: PromptParts,
    /// Whether the run's creator replaced the text of the prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_override: bool,
    /// SHA-256 of the whole prompt without secrets, in hexadecimal.
    pub hash: String,
    /// The same for the value of each placeholder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_hashes: BTreeMap<String, String>,
}

/// The parts of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptParts {
    /// A system prompt and a user prompt.
    SystemAndUser,
    /// A user prompt only.
    UserOnly,
}

/// The fault of an answer that should have had a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvelopeFault {
    /// It is not JSON.
    ParseError,
    /// It is JSON of another shape.
    SchemaViolation,
    /// It was truncated.
    Truncation,
    /// It was refused.
    Refusal,
}

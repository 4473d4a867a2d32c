//! What attempts report while they work, as it is stored: tools called, and what became of answers
//! a model was asked to give in a certain shape (an *envelope*).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::NodeId;
use crate::run::event::{NodeError, Usage};

/// What a call of a provider used, while its attempt goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt.
    pub attempt: u32,
    /// What it used.
    pub usage: Usage,
    /// What that is of the run's budget: it settles what the attempt has set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<BTreeMap<String, u64>>,
}

/// A tool is about to be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalled {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt.
    pub attempt: u32,
    /// The agent pinned to the node, else the node by its workflow. The decision fills it in.
    #[serde(default)]
    pub agent_id: String,
    /// The tool, behind the name of its server: `server.tool`.
    pub tool_name: String,
    /// What the return carries, too; unique in the attempt.
    pub call_id: String,
    /// What it is called with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// SHA-256 of the canonical JSON of what it is called with, in hexadecimal.
    pub args_hash: String,
    /// How it is reached.
    pub transport: ToolTransport,
    /// Of a call that a model wanted: in which answer of the attempt that wanted calls, from 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
}

/// How a tool is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolTransport {
    /// The Model Context Protocol.
    Mcp,
    /// A program of the project.
    Native,
}

/// A tool call is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReturned {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt.
    pub attempt: u32,
    /// As the call says.
    #[serde(default)]
    pub agent_id: String,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub call_id: String,
    /// How it went.
    pub status: ToolStatus,
    /// What it gave. It comes from outside and nobody vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    /// Why it gave nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<NodeError>,
    /// Milliseconds it took, as measured; absent when it was never called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// How a tool call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It gave a result.
    Ok,
    /// It failed.
    Error,
    /// It was not called: the node may not call it.
    Forbidden,
}

/// A model refused to answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRefused {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt.
    pub attempt: u32,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The provider's word for why, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_category: Option<String>,
}

/// An answer was cut off before it was whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeTruncated {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt.
    pub attempt: u32,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tokens of the part that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_token_count: Option<u64>,
}

/// A model is asked once more for an answer of the shape it did not give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetried {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// Which time it is asked, from 2 on.
    pub asked: u32,
    /// What was wrong with the answer before.
    pub reason: EnvelopeFault,
    /// What a validator said of it, quoting nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_error: Option<String>,
}

/// No answer had the shape that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopesExhausted {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// How often it was asked.
    pub asked: u32,
    /// What was wrong with the last answer.
    pub reason: EnvelopeFault,
}

/// An answer had its shape once what stood around it was taken away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRecovered {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// How it was found.
    pub path: RecoveryPath,
}

/// How an answer of a shape is found in what a model says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryPath {
    /// It stood in a fence.
    MarkdownFence,
    /// It was the first value in braces.
    BraceWalker,
}

/// A model answered in plain words, and is asked to put just that into the shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeCoerced {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// What the shape is called.
    pub envelope: String,
    /// How often it is asked for that.
    pub calls: u32,
}

/// A named prompt was filled in for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptComposed {
    /// The node.
    pub node_id: NodeId,
    /// The visit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The attempt of the node.
    pub attempt: u32,
    /// The names of the prompts it is made of.
    pub refs: Vec<String>,
    /// Which parts there are.
    pub parts: PromptParts,
    /// Whether the run's creator gave another text for the name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_override: bool,
    /// SHA-256 of all of it, in hexadecimal; secrets are taken out before.
    pub hash: String,
    /// The same of what stands for each place in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variable_hashes: BTreeMap<String, String>,
}

/// Which parts a prompt has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptParts {
    /// What the model is told before, and what it is asked.
    SystemAndUser,
    /// What it is asked.
    UserOnly,
}

/// What is wrong with an answer that should have had a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvelopeFault {
    /// It is no JSON.
    ParseError,
    /// It is JSON of another shape.
    SchemaViolation,
    /// It was cut off.
    Truncation,
    /// It was refused.
    Refusal,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

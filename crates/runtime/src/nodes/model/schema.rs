//! The JSON Schema of a model node's config.

use kernel::limits::{MAX_SCHEMA_ROUNDS, MAX_WAIT_MS};
use serde_json::{Value, json};

use super::super::WorkNode as _;
use super::super::mcp::Mcp;
use super::super::process::Process;
use super::config::{
    DEFAULT_ASKS, DEFAULT_IDLE_TIMEOUT_MS, DEFAULT_TIMEOUT_MS, DEFAULT_TOOL_ROUNDS,
    DEFAULT_TOOL_TIMEOUT_MS,
};

/// The config of a tool call in place of a prompt.
fn mcp() -> Value {
    let mut schema = Mcp::Call.config_schema();
    let text = "A tool to call instead of asking a model, as core.mcp.toolCall does.";
    schema["description"] = text.into();
    schema
}

/// The most rounds of tool calls.
const MAX_TOOL_ROUNDS: u32 = 64;

/// A program that the model may call.
fn tool(process: &Process) -> Value {
    let mut program = process.config_schema();
    program["description"] =
        "The program, as the config of a runwright.process; the arguments are its inputs.".into();
    json!({
        "type": "object",
        "properties": {
            "name": {
                "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$",
                "$comment": "a name of 1 to 64 letters, digits, `_` and `-`",
                "description": "The name by which the model calls it.",
            },
            "description": {
                "type": "string", "maxLength": 4096,
                "description": "The description that the model receives.",
            },
            "parameters": {
                "type": "object",
                "description": "JSON Schema of its arguments, an object.",
            },
            "process": program,
        },
        "required": ["name", "parameters", "process"],
        "additionalProperties": false,
    })
}

pub(super) fn schema(process: &Process) -> Value {
    json!({
        "type": "object",
        "properties": {
            "provider": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "A provider of the engine's configuration. By default that of \
                                the run's configurable (`ai.provider`), else of the configuration.",
            },
            "baseUrl": {
                "type": "string", "minLength": 1, "maxLength": 8192,
                "description": "The address of a model instead of a provider, as \
                                https://HOST/v1; ${inputs.NAME} is replaced by an input.",
            },
            "api": {
                "enum": ["openai", "anthropic"], "default": "openai",
                "description": "The protocol of baseUrl.",
            },
            "model": {
                "type": "string", "minLength": 1, "maxLength": 256,
                "description": "The model; ${inputs.NAME} is replaced by an input. By default that \
                                of the run's configurable (`ai.model`, `model`), else of the provider's configuration.",
            },
            "credentialRef": {
                "type": "string", "minLength": 1, "maxLength": 256,
                "description": "The reference of a secret to use instead of the provider's own.",
            },
            "systemPrompt": {
                "type": "string", "maxLength": 1_048_576,
                "description": "The instructions before everything else; ${inputs.NAME} is replaced \
                                by an input.",
            },
            "prompt": {
                "type": "string", "maxLength": 1_048_576,
                "description": "The question to the model; ${inputs.NAME} is replaced by an input. \
                                An input `prompt` overrides it.",
            },
            "promptId": {
                "type": "string", "minLength": 1, "maxLength": 256,
                "description": "The name by which `promptOverrides` of the run's configurable \
                                replaces the prompt.",
            },
            "messages": {
                "type": "array", "minItems": 1, "maxItems": 1000,
                "items": {
                    "type": "object",
                    "properties": {
                        "role": { "enum": ["system", "user", "assistant"] },
                        "content": { "type": "string" },
                    },
                    "required": ["role", "content"],
                    "additionalProperties": false,
                },
                "description": "A conversation instead of a prompt; ${inputs.NAME} in a content is \
                                replaced by an input. An input `messages` overrides it.",
            },
            "temperature": {
                "type": "number", "minimum": 0, "maximum": 2,
                "description": "The sampling temperature.",
            },
            "topP": {
                "type": "number", "exclusiveMinimum": 0, "maximum": 1,
                "description": "The probability mass from which the model samples.",
            },
            "seed": {
                "type": "integer",
                "description": "The seed of sampling, if the provider supports it.",
            },
            "maxTokens": {
                "type": "integer", "minimum": 1,
                "description": "The most tokens of an answer.",
            },
            "stop": {
                "type": "array", "maxItems": 16,
                "items": { "type": "string", "minLength": 1 },
                "description": "Texts at which the model stops.",
            },
            "stream": {
                "type": "boolean", "default": true,
                "description": "Whether the answer is streamed.",
            },
            "expectsStreaming": {
                "type": "boolean",
                "description": "The same as `stream`.",
            },
            "outputSchema": {
                "type": "object",
                "description": "JSON Schema the answer must fit; the output `json` is the answer \
                                then.",
            },
            "repair": {
                "type": "boolean", "default": true,
                "description": "Whether the model is called once more if its answer does not fit \
                                outputSchema.",
            },
            "truncation": {
                "enum": ["keep", "fail"], "default": "keep",
                "description": "Whether a text that was cut off at maxTokens is kept or fails the node.",
            },
            "maxAsks": {
                "type": "integer", "minimum": 1, "maximum": MAX_SCHEMA_ROUNDS,
                "default": DEFAULT_ASKS,
                "description": "The most attempts to get an answer that fits outputSchema.",
            },
            "retryOnInvalidJson": {
                "type": "integer", "minimum": 0,
                "description": "Accepted without effect; `maxAsks` limits the calls of the model.",
            },
            "mcp": mcp(),
            "mcpServers": {
                "type": "array", "maxItems": 16, "uniqueItems": true,
                "items": { "type": "string", "minLength": 1, "maxLength": 64 },
                "description": "Servers of the engine's configuration whose tools the model may \
                                call.",
            },
            "tools": {
                "type": "array", "maxItems": 64, "items": tool(process),
                "description": "Programs the model may call.",
            },
            "allowedTools": {
                "type": "array", "maxItems": 128,
                "items": { "type": "string", "minLength": 1, "maxLength": 256 },
                "description": "Tools of servers that are offered to the model, as SERVER.TOOL; * \
                                matches any text. All by default.",
            },
            "maxToolRounds": {
                "type": "integer", "minimum": 1, "maximum": MAX_TOOL_ROUNDS,
                "default": DEFAULT_TOOL_ROUNDS,
                "description": "The most consecutive answers with tool calls.",
            },
            "toolTimeoutMs": {
                "type": "integer", "minimum": 1, "maximum": MAX_WAIT_MS,
                "default": DEFAULT_TOOL_TIMEOUT_MS,
                "description": "The time limit for a tool call, in milliseconds.",
            },
            "timeoutMs": {
                "type": "integer", "minimum": 1, "maximum": MAX_WAIT_MS,
                "default": DEFAULT_TIMEOUT_MS,
                "description": "The time limit for one call, in milliseconds.",
            },
            "idleTimeoutMs": {
                "type": "integer", "minimum": 1, "maximum": MAX_WAIT_MS,
                "default": DEFAULT_IDLE_TIMEOUT_MS,
                "description": "The longest pause in a streamed answer, in milliseconds.",
            },
            "repeat": {
                "enum": ["repeatable", "once"],
                "description": "Whether an attempt calls the model again after its engine was \
                                lost; choose once if a second call is too expensive. With tools \
                                the default is once.",
            },
        },
        "additionalProperties": false,
    })
}

//! The JSON Schema of a process node's config.

use kernel::limits::{MAX_CHUNK_BYTES, MAX_WAIT_MS};
use serde_json::{Value, json};

use super::super::STOP_GRACE;
use super::config::{DEFAULT_CAPTURE_BYTES, DEFAULT_LOG_BYTES, MAX_CAPTURE_BYTES};
use crate::supervisor::DEFAULT_OUTPUT_LIMIT;

pub(super) fn schema() -> Value {
    let argument = json!({
        "anyOf": [
            { "type": "string" },
            {
                "type": "object",
                "properties": { "input": { "type": "string", "minLength": 1 } },
                "required": ["input"],
                "additionalProperties": false,
            },
        ],
        "description": "a text, in which ${inputs.NAME} is replaced by an input, or {\"input\": \"NAME\"}",
    });
    json!({
        "type": "object",
        "required": ["argv"],
        "properties": {
            "argv": {
                "type": "array",
                "minItems": 1,
                "maxItems": 10_000,
                "items": argument,
                "description": "Program and arguments, one element each; no shell reads them.",
            },
            "cwd": {
                "type": "string",
                "description": "The working directory, inside the project folder.",
            },
            "env": {
                "type": "object",
                "additionalProperties": argument,
                "description": "Variables of the environment.",
            },
            "inheritEnv": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Names of variables taken from the engine's environment, instead of the \
                                default ones (PATH, HOME, LANG, TMPDIR and similar).",
            },
            "secretEnv": {
                "type": "object",
                "additionalProperties": { "type": "string", "minLength": 1 },
                "description": "Variables whose values are secrets, by reference.",
            },
            "stdin": {
                "anyOf": [
                    { "type": "string" },
                    {
                        "type": "object",
                        "properties": { "input": { "type": "string", "minLength": 1 } },
                        "required": ["input"],
                        "additionalProperties": false,
                    },
                    {
                        "type": "object",
                        "properties": { "json": true },
                        "required": ["json"],
                        "additionalProperties": false,
                    },
                ],
                "description": "Standard input: a text, in which ${inputs.NAME} is replaced by an \
                                input, {\"input\": \"NAME\"} or {\"json\": value}.",
            },
            "timeoutMs": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_WAIT_MS,
                "description": "Milliseconds after which the process and its descendants are ended.",
            },
            "graceMs": {
                "type": "integer",
                "minimum": 0,
                "maximum": 600_000,
                "default": STOP_GRACE.as_millis() as u64,
                "description": "Milliseconds between SIGTERM and SIGKILL.",
            },
            "repeat": {
                "enum": ["repeatable", "once"],
                "default": "repeatable",
                "description": "Whether the process may run again if the engine died before its end \
                                was known. A second start has the same WF_ATTEMPT_KEY.",
            },
            "successCodes": {
                "type": "array",
                "minItems": 1,
                "items": { "type": "integer", "minimum": 0, "maximum": 255 },
                "default": [0],
                "description": "Exit codes that mean success.",
            },
            "outputFormat": {
                "enum": ["text", "json", "lines"],
                "default": "text",
                "description": "How standard output is read: as text, as one JSON value \
                                (output `json`), or as lines (output `lines`).",
            },
            "captureBytes": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_CAPTURE_BYTES,
                "default": DEFAULT_CAPTURE_BYTES,
                "description": "Bytes of each output that become the node's outputs.",
            },
            "logBytes": {
                "type": "integer",
                "minimum": 0,
                "maximum": 1_u64 << 30,
                "default": DEFAULT_LOG_BYTES,
                "description": "Bytes of each output that are kept in the log as they arrive.",
            },
            "keepOutput": {
                "enum": ["whenTruncated", "always", "never"],
                "default": "whenTruncated",
                "description": "When the complete outputs are kept as artifacts.",
            },
            "maxOutputBytes": {
                "type": "integer",
                "minimum": MAX_CHUNK_BYTES,
                "default": DEFAULT_OUTPUT_LIMIT,
                "description": "Bytes of each output after which the process is stopped.",
            },
        },
        "additionalProperties": false,
    })
}

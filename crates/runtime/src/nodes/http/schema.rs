//! The JSON Schema of an HTTP node's config.

use serde_json::{Value, json};

use super::config::{DEFAULT_CAPTURE_BYTES, DEFAULT_MAX_RESPONSE_BYTES, DEFAULT_TIMEOUT_MS};

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["url"],
        "properties": {
            "method": {
                "enum": ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"],
                "default": "GET",
                "description": "The method.",
            },
            "url": {
                "type": "string",
                "minLength": 1,
                "maxLength": 8192,
                "description": "The address; ${inputs.NAME} is replaced by an input.",
            },
            "headers": {
                "type": "object",
                "additionalProperties": { "type": "string" },
                "description": "Headers; ${inputs.NAME} in a value is replaced by an input.",
            },
            "secretHeaders": {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [
                        { "type": "string", "minLength": 1 },
                        {
                            "type": "object",
                            "properties": {
                                "prefix": { "type": "string" },
                                "secret": { "type": "string", "minLength": 1 },
                            },
                            "required": ["prefix", "secret"],
                            "additionalProperties": false,
                        },
                    ],
                    "description": "the reference of a secret, or {\"prefix\": \"Bearer \", \
                                    \"secret\": reference}",
                },
                "description": "Headers whose values are secrets, by reference. They are not sent to \
                                another host after a redirect.",
            },
            "body": {
                "anyOf": [
                    { "type": "string" },
                    {
                        "type": "object",
                        "properties": { "input": { "type": "string", "minLength": 1 } },
                        "required": ["input"],
                        "additionalProperties": false,
                    },
                ],
                "description": "The body: a text, in which ${inputs.NAME} is replaced by an input, \
                                or {\"input\": \"NAME\"}.",
            },
            "json": {
                "description": "The body as a JSON value, in place of `body`; ${inputs.NAME} in a \
                                text is replaced by an input, and a text that is nothing else by \
                                its value.",
            },
            "timeoutMs": {
                "type": "integer",
                "minimum": 1,
                "maximum": 3_600_000,
                "default": DEFAULT_TIMEOUT_MS,
                "description": "The time limit including redirects and body, in milliseconds.",
            },
            "maxResponseBytes": {
                "type": "integer",
                "minimum": 0,
                "maximum": 1_u64 << 30,
                "default": DEFAULT_MAX_RESPONSE_BYTES,
                "description": "Bytes of the answer's body after which the node fails.",
            },
            "captureBytes": {
                "type": "integer",
                "minimum": 0,
                "maximum": 2 << 20,
                "default": DEFAULT_CAPTURE_BYTES,
                "description": "Bytes of the body that become an output; a longer body is an \
                                artifact as well.",
            },
            "redirects": {
                "enum": ["follow", "return"],
                "default": "follow",
                "description": "Whether redirects are followed or returned as the answer.",
            },
            "repeat": {
                "enum": ["repeatable", "once"],
                "description": "Whether the request may be sent again if the engine died before the \
                                answer was known. By default all methods except POST and PATCH may.",
            },
            "successCodes": {
                "type": "array",
                "minItems": 1,
                "items": { "type": "integer", "minimum": 100, "maximum": 599 },
                "description": "Status codes that mean success; by default 200 to 299.",
            },
            "responseFormat": {
                "enum": ["auto", "text", "json"],
                "default": "auto",
                "description": "Whether the body becomes the output `json`: by its media type, always \
                                (json) or never (text).",
            },
        },
        "additionalProperties": false,
    })
}

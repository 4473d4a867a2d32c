//! What of a request may be said again: numbers, and the words of the protocol.

/// A JSON pointer whose parts are numbers or words of the protocol; others become `…`.
pub(super) fn known_path(path: &str) -> String {
    path.split('/')
        .map(|part| {
            if part.is_empty() || is_known(part) {
                part
            } else {
                "…"
            }
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// Whether a name is a number or a word of the protocol: to say it again is no echo.
fn is_known(part: &str) -> bool {
    const WORDS: &[&str] = &[
        "acceptsInheritedArtifacts",
        "access",
        "agent",
        "agentId",
        "backoff",
        "channels",
        "condition",
        "config",
        "configurable",
        "configurableSchema",
        "credentialsRef",
        "default",
        "defaultValue",
        "description",
        "disabled",
        "edges",
        "enabled",
        "evalSuiteRef",
        "expression",
        "groups",
        "id",
        "initialMs",
        "inputs",
        "kind",
        "label",
        "left",
        "maxLoopbackIterations",
        "maxMs",
        "maxRetries",
        "maxSize",
        "metadata",
        "mode",
        "name",
        "nodeId",
        "nodes",
        "onFailure",
        "operation",
        "options",
        "outputKey",
        "outputSensitivity",
        "position",
        "reducer",
        "required",
        "retry",
        "right",
        "schema",
        "scopeId",
        "sensitive",
        "settings",
        "sourceNodeId",
        "sourceOutput",
        "tags",
        "targetInput",
        "targetNodeId",
        "tenantId",
        "timeout",
        "timeoutMs",
        "triggerRule",
        "triggers",
        "ttlMs",
        "type",
        "typeId",
        "value",
        "variableName",
        "variables",
        "version",
        "workflowId",
        "x",
        "y",
        "recursionLimit",
        "runTimeoutMs",
        "maxLoopIterations",
        "maxTokens",
        "temperature",
        "escalationThreshold",
        "model",
        "mockProvider",
        "delayMsPerToken",
        "failAfterMs",
        "finishReason",
        "retryable",
        "tokens",
        "toolCalls",
        "usage",
        "ai.provider",
        "ai.model",
        "ai.credentialRef",
        "budget",
        "callbackUrl",
        "reason",
        "runOptionsOverlay",
        "fromSeq",
        "target",
        "signal",
        "rating",
        "correction",
        "eventId",
        "modelClass",
        "channel",
        "compensation",
        "note",
    ];
    WORDS.contains(&part) || part.parse::<u32>().is_ok()
}

/// A message without what it quotes from the document, words of the protocol excepted.
pub(super) fn unquoted(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for (n, part) in message.split('`').enumerate() {
        let is_shown = n % 2 == 0 || is_known(part);
        out.push_str(if is_shown { part } else { "…" });
    }
    out
}

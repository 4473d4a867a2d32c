//! Nodes, their inputs and settings.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::definition::document::{Node, NodeSettings, Port};
use crate::definition::plan::{Backoff, OnFailure};
use crate::definition::reader::{Fields, Findings, Keys};
use crate::definition::validation_mode::ValidationMode;
use crate::ids::NodeId;
use crate::limits::{MAX_NAME_BYTES, MAX_NODE_ID_CHARS, MAX_RETRIES, MAX_WAIT_MS};
use crate::problem::{Path, ProblemCode, quoted};

pub(super) const FIELDS: [&str; 19] = [
    "id",
    "typeId",
    "name",
    "position",
    "config",
    "inputs",
    "credentialsRef",
    "settings",
    "outputRole",
    "disabled",
    "notes",
    "groupId",
    "agent",
    "envelopeContract",
    "artifactType",
    "cardType",
    "outputSensitivity",
    "compensation",
    "irreversibleEffect",
];
pub(super) const PORT: [&str; 7] = [
    "type",
    "value",
    "expression",
    "nodeId",
    "outputKey",
    "variableName",
    "optional",
];
pub(super) const SETTINGS: [&str; 6] = [
    "timeout",
    "timeoutMs",
    "maxRetries",
    "retry",
    "onFailure",
    "compensation",
];
pub(super) const RETRY: [&str; 7] = [
    "maxRetries",
    "maxAttempts",
    "initialDelayMs",
    "backoffMs",
    "factor",
    "backoffFactor",
    "maxDelayMs",
];

pub(super) fn read(findings: &Findings, path: &Path<'_>, value: &Value) -> Node {
    let mut node = Node {
        id: NodeId::from(""),
        type_id: String::new(),
        name: String::new(),
        config: Value::Object(serde_json::Map::new()),
        inputs: Vec::new(),
        settings: NodeSettings::default(),
        disabled: false,
        output_sensitivity: BTreeMap::new(),
        agent: None,
    };
    let Some(fields) = Fields::open(findings, path, value, Keys::Closed, &FIELDS) else {
        return node;
    };
    for key in [
        "credentialsRef",
        "outputRole",
        "notes",
        "groupId",
        "artifactType",
        "cardType",
    ] {
        fields.text(key);
    }
    fields.object("envelopeContract");
    node.id = id(&fields);
    node.type_id = type_id(&fields).unwrap_or_default().to_owned();
    node.name = fields.name("name").unwrap_or_default().to_owned();
    position(&fields);
    if let Some(config) = fields.required_object("config") {
        node.config = Value::Object(config.clone());
    }
    node.inputs = inputs(&fields);
    node.settings = settings(&fields);
    node.disabled = fields.flag("disabled").unwrap_or(false);
    node.output_sensitivity = output_sensitivity(&fields);
    node.agent = fields
        .object("agent")
        .and_then(|_| fields.get("agent").cloned());
    node
}

/// Events contain the id of their node, and the protocol limits its length there.
fn id(fields: &Fields<'_>) -> NodeId {
    let id = fields.name("id").unwrap_or_default();
    let length = id.chars().count();
    if length > MAX_NODE_ID_CHARS && id.len() <= MAX_NAME_BYTES {
        let what = format!("must have at most {MAX_NODE_ID_CHARS} characters, not {length}");
        fields.rule("id", ProblemCode::InvalidValue, what);
    }
    NodeId::from(id)
}

fn type_id<'a>(fields: &Fields<'a>) -> Option<&'a str> {
    let text = fields.name("typeId")?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !text.starts_with(|c: char| c.is_ascii_lowercase()) || !text.bytes().all(plain) {
        fields.rule(
            "typeId",
            ProblemCode::InvalidValue,
            format!(
                "{} is not a type id; it starts with a lowercase letter and has letters, digits, \
                 `.`, `_` and `-`",
                quoted(text)
            ),
        );
        // The type id is not checked further.
        return (fields.findings().validation_mode == ValidationMode::Stored).then_some(text);
    }
    Some(text)
}

fn position(fields: &Fields<'_>) {
    let Some(value) = fields.required("position", "an object with the numbers `x` and `y`") else {
        return;
    };
    let path = Path::Key(fields.path, "position");
    let position = Fields::open(fields.findings(), &path, value, Keys::Open, &["x", "y"]);
    if let Some(position) = position {
        for key in ["x", "y"] {
            position.required(key, "a number");
            position.number(key);
        }
    }
}

fn inputs(fields: &Fields<'_>) -> Vec<(String, Port)> {
    let path = Path::Key(fields.path, "inputs");
    let ports = fields.required_object("inputs").into_iter().flatten();
    ports
        .filter_map(|(name, value)| {
            let port = port(fields.findings(), &Path::Key(&path, name), value)?;
            Some((name.clone(), port))
        })
        .collect()
}

fn port(findings: &Findings, path: &Path<'_>, value: &Value) -> Option<Port> {
    const KINDS: [&str; 4] = ["static", "expression", "connection", "variable"];
    let known: &[&str] = match value.get("type").and_then(Value::as_str) {
        Some("static") => &["type", "value"],
        Some("expression") => &["type", "expression"],
        Some("connection") => &["type", "nodeId", "outputKey", "optional"],
        Some("variable") => &["type", "variableName", "optional"],
        _ => &PORT,
    };
    let fields = Fields::open(findings, path, value, Keys::Closed, known)?;
    Some(match fields.required_word("type", &KINDS)? {
        "static" => Port::Static(fields.required("value", "the value")?.clone()),
        "expression" => Port::Expression(fields.required_text("expression")?.to_owned()),
        "connection" => {
            let node = fields.name("nodeId");
            let output = fields.name("outputKey");
            let optional = fields.flag("optional").unwrap_or(false);
            Port::Connection {
                node: node?.to_owned(),
                output: output?.to_owned(),
                optional,
            }
        }
        _ => {
            let optional = fields.flag("optional").unwrap_or(false);
            Port::Variable {
                name: fields.name("variableName")?.to_owned(),
                optional,
            }
        }
    })
}

fn output_sensitivity(fields: &Fields<'_>) -> BTreeMap<String, bool> {
    let path = Path::Key(fields.path, "outputSensitivity");
    let mut masks = BTreeMap::new();
    for (port, value) in fields.object("outputSensitivity").into_iter().flatten() {
        match value.as_bool() {
            Some(mask) => {
                masks.insert(port.clone(), mask);
            }
            None => fields.findings().problem(
                &Path::Key(&path, port),
                ProblemCode::WrongType,
                "must be true or false",
            ),
        }
    }
    masks
}

/// A field with two names: OpenWOP leaves node settings open, and both are in use.
fn either<'a, T>(
    fields: &Fields<'a>,
    first: &'static str,
    second: &'static str,
    read: impl Fn(&'static str) -> Option<T>,
) -> Option<T> {
    if fields.has(first) && fields.has(second) {
        fields.rule(
            second,
            ProblemCode::InvalidValue,
            format!("repeats `{first}`; keep one of them"),
        );
    }
    let first = read(first);
    let second = read(second);
    first.or(second)
}

fn settings(node: &Fields<'_>) -> NodeSettings {
    let mut settings = NodeSettings::default();
    let Some(value) = node.get("settings") else {
        return settings;
    };
    let path = Path::Key(node.path, "settings");
    let Some(fields) = Fields::open(node.findings(), &path, value, Keys::Settings, &SETTINGS)
    else {
        return settings;
    };
    let retries = |fields: &Fields<'_>, key| {
        fields
            .integer(key, 0..=u64::from(MAX_RETRIES))
            .and_then(|n| u32::try_from(n).ok())
    };
    settings.timeout_ms = either(&fields, "timeout", "timeoutMs", |key| {
        fields.millis(key, 0..=MAX_WAIT_MS)
    })
    .filter(|&ms| ms > 0);
    settings.max_retries = retries(&fields, "maxRetries");
    settings.on_failure = match fields.word("onFailure", &["fail", "skip", "ask"]) {
        Some("skip") => OnFailure::Skip,
        Some("ask") => OnFailure::Ask,
        _ => OnFailure::Fail,
    };
    let Some(value) = fields.get("retry") else {
        return settings;
    };
    let path = Path::Key(&path, "retry");
    let Some(fields) = Fields::open(node.findings(), &path, value, Keys::Settings, &RETRY) else {
        return settings;
    };
    let max_retries = either(&fields, "maxRetries", "maxAttempts", |key| match key {
        "maxRetries" => retries(&fields, key),
        key => fields
            .integer(key, 1..=u64::from(MAX_RETRIES) + 1)
            .and_then(|n| u32::try_from(n - 1).ok()),
    });
    settings.max_retries = max_retries.or(settings.max_retries);
    let default = Backoff::default();
    let wait = |key| fields.millis(key, 0..=MAX_WAIT_MS);
    let initial_ms =
        either(&fields, "initialDelayMs", "backoffMs", wait).unwrap_or(default.initial_ms);
    settings.backoff = Some(Backoff {
        initial_ms,
        factor: either(&fields, "factor", "backoffFactor", |key| {
            factor(&fields, key)
        })
        .unwrap_or(default.factor),
        max_ms: wait("maxDelayMs").unwrap_or(default.max_ms.max(initial_ms)),
    });
    settings
}

fn factor(fields: &Fields<'_>, key: &'static str) -> Option<f64> {
    const MAX_FACTOR: f64 = 100.0;
    let factor = fields.number(key)?;
    if !(1.0..=MAX_FACTOR).contains(&factor) {
        fields.rule(
            key,
            ProblemCode::InvalidValue,
            format!("must be from 1 to {MAX_FACTOR}"),
        );
    }
    Some(factor.clamp(1.0, MAX_FACTOR))
}

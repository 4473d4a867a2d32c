//! From JSON to a [`Definition`]: the shape of the document.

mod channel;
mod edge;
mod node;

use std::collections::BTreeMap;

use serde_json::Value;

use super::document::{Definition, DocumentSettings, Trigger};
use super::reader::{Fields, Findings, Keys};
use super::validation_mode::ValidationMode;
use super::variable::{Type, Variable, type_name};
use crate::digest::Digest;
use crate::ids::{NodeId, WorkflowId};
use crate::json;
use crate::limits::{
    MAX_EDGES, MAX_LOOP_ITERATIONS, MAX_NODES, MAX_RETRIES, MAX_TAG_CHARS, MAX_TAGS, MAX_WAIT_MS,
};
use crate::problem::{Path, ProblemCode, Problems};
use crate::run::budget::{BudgetPlace, BudgetPolicy};

const FIELDS: [&str; 23] = [
    "id",
    "name",
    "description",
    "version",
    "type",
    "isActive",
    "status",
    "tenantId",
    "scopeId",
    "slug",
    "nodes",
    "edges",
    "triggers",
    "variables",
    "groups",
    "channels",
    "configurableSchema",
    "defaults",
    "metadata",
    "settings",
    "acceptsInheritedArtifacts",
    "createdAt",
    "updatedAt",
];
const METADATA: [&str; 5] = [
    "tags",
    "category",
    "author",
    "complianceClass",
    "complianceConfig",
];
const GROUP: [&str; 7] = [
    "id",
    "name",
    "color",
    "collapsed",
    "nodeIds",
    "position",
    "size",
];
const TRIGGER: [&str; 8] = [
    "id",
    "type",
    "name",
    "description",
    "config",
    "enabled",
    "nodeId",
    "eventType",
];
const CHANNEL_TRIGGER: [&str; 3] = ["channel", "onlyFrom", "debounceMs"];
const VARIABLE: [&str; 7] = [
    "name",
    "type",
    "description",
    "required",
    "defaultValue",
    "sensitive",
    "format",
];
const SETTINGS: [&str; 7] = [
    "timeout",
    "workTimeout",
    "maxRetries",
    "logLevel",
    "maxLoopbackIterations",
    "compensation",
    "budget",
];
/// The fields of the objects of a definition.
pub const FIELD_NAMES: [&[&str]; 14] = [
    &FIELDS,
    &METADATA,
    &GROUP,
    &TRIGGER,
    &CHANNEL_TRIGGER,
    &VARIABLE,
    &SETTINGS,
    &node::FIELDS,
    &node::PORT,
    &node::SETTINGS,
    &node::RETRY,
    &edge::FIELDS,
    &edge::CONDITION,
    &channel::FIELDS,
];
const MAX_ID: usize = 128;
const MAX_NAME: usize = 256;

impl Definition {
    /// Checks the shape of a document. References are checked by
    /// [`Plan::compile`](super::Plan::compile).
    ///
    /// # Errors
    /// All problems, with paths into the document.
    pub fn parse(document: &Value) -> Result<Self, Problems> {
        match read(document, ValidationMode::New) {
            (Some(definition), problems) => problems.or(definition),
            (None, problems) => Err(problems),
        }
    }
}

/// Reads as much as possible. Elements without a readable id get an empty one, so that positions
/// match the document. `None` only if the document is not an object.
pub(super) fn read(
    document: &Value,
    validation_mode: ValidationMode,
) -> (Option<Definition>, Problems) {
    let findings = Findings {
        validation_mode,
        ..Findings::default()
    };
    let mut definition = definition(&findings, document);
    if let Some(definition) = &mut definition {
        definition.warnings = findings.warnings.into_inner().listed;
    }
    (definition, findings.problems.into_inner())
}

fn definition(findings: &Findings, document: &Value) -> Option<Definition> {
    let fields = Fields::open(findings, &Path::Root, document, Keys::Closed, &FIELDS)?;
    for key in [
        "description",
        "type",
        "tenantId",
        "scopeId",
        "createdAt",
        "updatedAt",
    ] {
        fields.text(key);
    }
    fields.flag("isActive");
    fields.word("status", &["active", "inactive", "draft", "archived"]);
    if let Some(slug) = fields.text("slug")
        && !is_slug(slug, |b| b.is_ascii_lowercase() || b.is_ascii_digit())
    {
        fields.rule(
            "slug",
            ProblemCode::InvalidValue,
            "must be lowercase letters, digits, `_` and `-`, and start with a letter or digit",
        );
    }
    fields.array("acceptsInheritedArtifacts");
    fields.object("defaults");
    let compliance_class = metadata(&fields);
    groups(&fields);
    Some(Definition {
        id: WorkflowId::from(id(&fields).unwrap_or_default()),
        name: limited(&fields, "name", MAX_NAME)
            .unwrap_or_default()
            .to_owned(),
        version: fields.name("version").unwrap_or_default().to_owned(),
        nodes: items(&fields, "nodes", 1, MAX_NODES, node::read),
        edges: items(&fields, "edges", 0, MAX_EDGES, edge::read),
        triggers: items(&fields, "triggers", 0, MAX_NODES, trigger),
        variables: items(&fields, "variables", 0, MAX_NODES, variable),
        channels: channels(&fields),
        settings: settings(&fields),
        budget: budget(&fields, document),
        configurable_schema: fields
            .object("configurableSchema")
            .and_then(|_| fields.get("configurableSchema").cloned()),
        compliance_class,
        compensation: compensation(document),
        digest: Digest::compute(&json::canonical(document)),
        warnings: Vec::new(),
    })
}

/// The elements of a required array; invalid ones are read too.
fn items<T>(
    fields: &Fields<'_>,
    key: &'static str,
    min: usize,
    max: usize,
    read: impl Fn(&Findings, &Path<'_>, &Value) -> T,
) -> Vec<T> {
    let Some(values) = fields.required_array(key) else {
        return Vec::new();
    };
    if values.len() < min {
        fields.rule(
            key,
            ProblemCode::InvalidValue,
            format!("must have at least {min} element"),
        );
    }
    if values.len() > max {
        fields.rule(
            key,
            ProblemCode::TooLarge,
            format!("has {} elements; at most {max} are allowed", values.len()),
        );
        if fields.findings().validation_mode == ValidationMode::New {
            return Vec::new();
        }
    }
    let path = Path::Key(fields.path, key);
    let read = |(index, value)| read(fields.findings(), &Path::Index(&path, index), value);
    values.iter().enumerate().map(read).collect()
}

fn id<'a>(fields: &Fields<'a>) -> Option<&'a str> {
    let id = limited(fields, "id", MAX_ID)?;
    if !is_slug(id, |b| b.is_ascii_lowercase()) {
        fields.rule(
            "id",
            ProblemCode::InvalidValue,
            "must be lowercase letters, digits, `_` and `-`, and start with a letter",
        );
    }
    Some(id)
}

fn is_slug(text: &str, first: impl Fn(u8) -> bool) -> bool {
    text.bytes().next().is_some_and(first)
        && text
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn limited<'a>(fields: &Fields<'a>, key: &'static str, max: usize) -> Option<&'a str> {
    let text = fields.required_text(key)?;
    let length = text.chars().count();
    if length == 0 || length > max {
        fields.rule(
            key,
            ProblemCode::InvalidValue,
            format!("must have from 1 to {max} characters, not {length}"),
        );
    }
    Some(text)
}

/// Checks the metadata of the workflow, and returns its compliance class.
fn metadata(fields: &Fields<'_>) -> Option<String> {
    let value = fields.required("metadata", "an object (it may be empty)")?;
    let path = Path::Key(fields.path, "metadata");
    let metadata = Fields::open(fields.findings(), &path, value, Keys::Open, &METADATA)?;
    let class = metadata.word(
        "complianceClass",
        &["public", "pii", "phi", "pci", "regulated"],
    );
    metadata.object("complianceConfig");
    let tags = metadata.texts("tags").unwrap_or_default();
    if tags.len() > MAX_TAGS
        || tags
            .iter()
            .any(|tag| tag.is_empty() || tag.chars().count() > MAX_TAG_CHARS)
    {
        metadata.rule(
            "tags",
            ProblemCode::InvalidValue,
            format!("must be at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARS} characters"),
        );
    }
    class.map(str::to_owned)
}

fn groups(fields: &Fields<'_>) {
    let path = Path::Key(fields.path, "groups");
    for (index, value) in fields.array("groups").into_iter().flatten().enumerate() {
        let path = Path::Index(&path, index);
        let Some(group) = Fields::open(fields.findings(), &path, value, Keys::Closed, &GROUP)
        else {
            continue;
        };
        group.name("id");
        group.name("name");
        group.text("color");
        group.flag("collapsed");
        group.required_array("nodeIds");
        group.texts("nodeIds");
        group.required_object("position");
        group.required_object("size");
    }
}

fn trigger(findings: &Findings, path: &Path<'_>, value: &Value) -> Trigger {
    let mut trigger = Trigger {
        id: String::new(),
        kind: String::new(),
        config: Value::Null,
        enabled: true,
        node: None,
    };
    let Some(fields) = Fields::open(findings, path, value, Keys::Closed, &TRIGGER) else {
        return trigger;
    };
    for key in ["name", "description", "eventType"] {
        fields.text(key);
    }
    trigger.id = fields.name("id").unwrap_or_default().to_owned();
    trigger.kind = fields
        .required_word("type", &Trigger::KINDS)
        .unwrap_or_default()
        .to_owned();
    trigger.enabled = fields.flag("enabled").unwrap_or(true);
    trigger.node = fields.optional_name("nodeId").map(NodeId::from);
    if fields.object("config").is_some() {
        trigger.config = fields.get("config").cloned().unwrap_or_default();
    }
    if trigger.kind == "channel-write" {
        channel_write(&fields);
    }
    trigger
}

fn channel_write(trigger: &Fields<'_>) {
    const MAX_DEBOUNCE_MS: u64 = 60_000;
    let Some(config) = trigger.required("config", "an object that names the `channel`") else {
        return;
    };
    let path = Path::Key(trigger.path, "config");
    let Some(fields) = Fields::open(
        trigger.findings(),
        &path,
        config,
        Keys::Open,
        &CHANNEL_TRIGGER,
    ) else {
        return;
    };
    fields.name("channel");
    fields.word("onlyFrom", &["child", "parent", "any"]);
    fields.millis("debounceMs", 0..=MAX_DEBOUNCE_MS);
}

fn variable(findings: &Findings, path: &Path<'_>, value: &Value) -> Variable {
    let mut variable = Variable {
        name: String::new(),
        kind: Type::String,
        required: false,
        default: None,
        sensitive: false,
    };
    let Some(fields) = Fields::open(findings, path, value, Keys::Closed, &VARIABLE) else {
        return variable;
    };
    fields.text("description");
    fields.text("format");
    variable.name = fields.name("name").unwrap_or_default().to_owned();
    variable.required = fields.flag("required").unwrap_or(false);
    variable.sensitive = fields.flag("sensitive").unwrap_or(false);
    variable.default = fields.get("defaultValue").cloned();
    if let Some(kind) = fields
        .required_word("type", &Type::WORDS)
        .and_then(Type::parse)
    {
        variable.kind = kind;
        if let Some(default) = &variable.default
            && !kind.admits(default)
        {
            fields.rule(
                "defaultValue",
                ProblemCode::WrongType,
                format!(
                    "must be of type {}, not {}",
                    kind.as_str(),
                    type_name(default)
                ),
            );
        }
    }
    variable
}

fn channels(fields: &Fields<'_>) -> BTreeMap<String, super::Channel> {
    let path = Path::Key(fields.path, "channels");
    let declared = fields.object("channels").into_iter().flatten();
    declared
        .filter_map(|(name, value)| {
            let path = Path::Key(&path, name);
            let channel = channel::read(fields.findings(), &path, value)?;
            Some((name.clone(), channel))
        })
        .collect()
}

fn settings(fields: &Fields<'_>) -> DocumentSettings {
    let Some(value) = fields.required("settings", "an object (it may be empty)") else {
        return DocumentSettings::default();
    };
    let path = Path::Key(fields.path, "settings");
    let Some(settings) = Fields::open(fields.findings(), &path, value, Keys::Settings, &SETTINGS)
    else {
        return DocumentSettings::default();
    };
    settings.word("logLevel", &["debug", "info", "warn", "error"]);
    let small = |n: u64| u32::try_from(n).ok();
    DocumentSettings {
        timeout_ms: settings
            .millis("timeout", 0..=MAX_WAIT_MS)
            .filter(|&ms| ms > 0),
        work_timeout_ms: settings
            .integer("workTimeout", 0..=MAX_WAIT_MS)
            .filter(|&ms| ms > 0),
        max_retries: settings
            .integer("maxRetries", 0..=u64::from(MAX_RETRIES))
            .and_then(small),
        max_loop_iterations: settings
            .integer("maxLoopbackIterations", 1..=u64::from(MAX_LOOP_ITERATIONS))
            .and_then(small),
    }
}

/// Maximum spending of a run (`settings.budget`).
fn budget(fields: &Fields<'_>, document: &Value) -> BudgetPolicy {
    let budget = document.get("settings").and_then(|of| of.get("budget"));
    if fields.findings().validation_mode == ValidationMode::Stored {
        return BudgetPolicy::of_stored(budget);
    }
    let Some(budget) = budget else {
        return BudgetPolicy::default();
    };
    let path = Path::Key(fields.path, "settings");
    let path = Path::Key(&path, "budget");
    let (policy, wrong) = BudgetPolicy::read(budget, BudgetPlace::Definition);
    for wrong in wrong {
        match &wrong.field {
            Some(field) => {
                let path = Path::Key(&path, field);
                fields.findings().rule(&path, wrong.code, wrong.what);
            }
            None => fields.findings().rule(&path, wrong.code, wrong.what),
        }
    }
    policy
}

/// The place of the first compensation.
fn compensation(document: &Value) -> Option<String> {
    let nodes = document.get("nodes").and_then(Value::as_array);
    let nodes = nodes.into_iter().flatten().enumerate();
    let of_nodes = nodes.flat_map(|(index, node)| {
        let node = (format!("/nodes/{index}"), Some(node));
        let settings = (
            format!("{}/settings", node.0),
            node.1.and_then(|node| node.get("settings")),
        );
        [node, settings]
    });
    let of_all = std::iter::once(("/settings".to_owned(), document.get("settings")));
    let mut places = of_all.chain(of_nodes);
    places.find_map(|(place, of)| {
        let said = of?.get("compensation").filter(|said| !said.is_null());
        said.map(|_| format!("{place}/compensation"))
    })
}

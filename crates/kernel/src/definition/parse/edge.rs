//! Edges and their conditions.

use serde_json::Value;

use crate::definition::document::{Comparison, ConditionText, Edge, TriggerRule};
use crate::definition::reader::{Fields, Findings, Keys};
use crate::problem::{Path, ProblemCode};

pub(super) const FIELDS: [&str; 8] = [
    "id",
    "sourceNodeId",
    "sourceOutput",
    "targetNodeId",
    "targetInput",
    "condition",
    "label",
    "triggerRule",
];
pub(super) const CONDITION: [&str; 4] = ["type", "left", "right", "expression"];
const CONDITIONS: [&str; 7] = [
    "expression",
    "equals",
    "notEquals",
    "contains",
    "regex",
    "truthy",
    "falsy",
];

pub(super) fn read(findings: &Findings, path: &Path<'_>, value: &Value) -> Edge {
    let mut edge = Edge {
        id: String::new(),
        source: String::new(),
        target: String::new(),
        source_output: None,
        target_input: None,
        condition: None,
        rule: TriggerRule::default(),
    };
    let Some(fields) = Fields::open(findings, path, value, Keys::Closed, &FIELDS) else {
        return edge;
    };
    fields.text("label");
    edge.id = fields.name("id").unwrap_or_default().to_owned();
    edge.source = fields.name("sourceNodeId").unwrap_or_default().to_owned();
    edge.target = fields.name("targetNodeId").unwrap_or_default().to_owned();
    edge.source_output = fields.optional_name("sourceOutput").map(str::to_owned);
    edge.target_input = fields.optional_name("targetInput").map(str::to_owned);
    if let Some(value) = fields.get("condition") {
        edge.condition = condition(findings, &Path::Key(path, "condition"), value);
    }
    if let Some(rule) = fields
        .word("triggerRule", &TriggerRule::WORDS)
        .and_then(TriggerRule::parse)
    {
        edge.rule = rule;
    }
    edge
}

fn condition(findings: &Findings, path: &Path<'_>, value: &Value) -> Option<ConditionText> {
    let fields = Fields::open(findings, path, value, Keys::Closed, &CONDITION)?;
    // The type may be omitted where only one reading is possible.
    let kind = if fields.has("type") || !fields.has("expression") {
        fields.required_word("type", &CONDITIONS)?
    } else {
        "expression"
    };
    let unused = |keys: &[&str]| {
        for key in keys.iter().filter(|key| fields.has(key)) {
            fields.rule(
                key,
                ProblemCode::UnknownField,
                format!("has no meaning in a condition of type `{kind}`; remove it"),
            );
        }
    };
    let test = match kind {
        "expression" => {
            unused(&["left", "right"]);
            return fields
                .name("expression")
                .map(str::to_owned)
                .map(ConditionText::Expression);
        }
        "truthy" | "falsy" => {
            unused(&["right", "expression"]);
            let left = fields.required_text("left")?.to_owned();
            return Some(match kind {
                "truthy" => ConditionText::Truthy(left),
                _ => ConditionText::Falsy(left),
            });
        }
        "equals" => Comparison::Equals,
        "notEquals" => Comparison::NotEquals,
        "contains" => Comparison::Contains,
        _ => Comparison::Regex,
    };
    unused(&["expression"]);
    let left = fields.required_text("left");
    let right = match test {
        Comparison::Regex => fields
            .required_text("right")
            .map(|pattern| Value::String(pattern.to_owned())),
        _ => fields
            .required("right", "the value to compare with")
            .cloned(),
    };
    Some(ConditionText::Compare {
        test,
        left: left?.to_owned(),
        right: right?,
    })
}

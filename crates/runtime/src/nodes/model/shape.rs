//! Answers with a schema: requested, parsed, and validated here, as providers are not trusted to.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{ValidationError, Validator};
use kernel::run::NodeError;
use kernel::run::report::{EnvelopeFault, RecoveryPath};
use serde_json::Value;

use crate::schema_words;

/// Violations quoted to the model.
const MAX_FAULTS: usize = 8;

/// The schema of an answer.
pub(super) struct Shape {
    pub schema: Value,
    validator: Validator,
}

/// A valid answer.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    pub value: Value,
    /// How it was found, if it was embedded in other text.
    pub path: Option<RecoveryPath>,
}

/// An invalid answer.
#[derive(Debug, PartialEq)]
pub(super) struct Misshapen {
    pub fault: EnvelopeFault,
    /// The violations, without quoting the answer.
    pub what: String,
}

/// A violation, without quoting the answer.
fn fault(error: &ValidationError<'_>, schema: &Value) -> String {
    let path = error.instance_path().to_string();
    let said = schema_words::say(error, schema);
    match (error.kind(), said.first()) {
        // The library's message would quote keys of the answer.
        (Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. }, _) | (_, None) => {
            let place = if path.is_empty() { "the answer" } else { &path };
            format!("{place} has fields that are not allowed")
        }
        (_, Some(first)) => {
            let place = if first.path.is_empty() {
                "the answer"
            } else {
                &first.path
            };
            format!("{place} {}", first.message)
        }
    }
}

impl Shape {
    pub(super) fn from_schema(schema: &Value) -> Result<Self, NodeError> {
        let validator = jsonschema::draft202012::new(schema).map_err(|_| {
            let wrong = schema_words::wrong_schema(schema).unwrap_or_default();
            super::config::invalid(format!("outputSchema{} {}", wrong.0, wrong.1))
        })?;
        Ok(Self {
            schema: schema.clone(),
            validator,
        })
    }

    /// The instruction for a provider without structured output.
    pub(super) fn in_words(&self) -> String {
        format!(
            "Answer with one JSON value and nothing else. It must fit this JSON Schema:\n{}",
            self.schema
        )
    }

    /// The name of the schema for providers.
    pub(super) fn name(&self) -> String {
        let named = ["title", "$id"].into_iter();
        let mut named = named.filter_map(|key| self.schema[key].as_str());
        named.next().unwrap_or("answer").chars().take(256).collect()
    }

    /// Parses an answer. Surrounding text is ignored.
    pub(super) fn read(&self, text: &str) -> Result<Found, Misshapen> {
        let text = text.trim();
        let (value, path) = match serde_json::from_str(text) {
            Ok(value) => (value, None),
            Err(error) => recovered(text).ok_or_else(|| Misshapen {
                fault: EnvelopeFault::ParseError,
                what: format!(
                    "it is not JSON (line {}, column {})",
                    error.line(),
                    error.column()
                ),
            })?,
        };
        let faults: Vec<String> = self
            .validator
            .iter_errors(&value)
            .take(MAX_FAULTS)
            .map(|error| fault(&error, &self.schema))
            .collect();
        if faults.is_empty() {
            Ok(Found { value, path })
        } else {
            Err(Misshapen {
                fault: EnvelopeFault::SchemaViolation,
                what: faults.join(", "),
            })
        }
    }
}

/// The message that requests a repair.
pub(super) fn repair(misshapen: &Misshapen) -> String {
    format!(
        "That answer does not fit the schema: {}. Answer again with one JSON value that fits it, \
         and nothing else.",
        misshapen.what
    )
}

/// The message that requests a conversion of prose.
pub(super) fn coerce(shape: &Shape, text: &str) -> String {
    format!(
        "{} Put into it what this says, and add nothing:\n{text}",
        shape.in_words()
    )
}

/// Whether an answer is prose rather than malformed JSON.
pub(super) fn is_prose(text: &str) -> bool {
    !text.trim_start().starts_with(['{', '[', '"', '`'])
}

/// A value embedded in text: in a code fence, or the first one in braces.
fn recovered(text: &str) -> Option<(Value, Option<RecoveryPath>)> {
    if let Some(inside) = fenced(text)
        && let Ok(value) = serde_json::from_str(inside)
    {
        return Some((value, Some(RecoveryPath::MarkdownFence)));
    }
    let from = text.find('{')?;
    let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, Some(RecoveryPath::BraceWalker)))
}

/// The content of the first code fence.
fn fenced(text: &str) -> Option<&str> {
    let (_, inside) = text.split_once("```")?;
    let (inside, _) = inside.split_once("```")?;
    match inside.split_once('\n') {
        Some((language, inside)) if language.chars().all(|c| c.is_ascii_alphanumeric()) => {
            Some(inside.trim())
        }
        _ => Some(inside.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: Result<Option<RecoveryPath>, EnvelopeFault>) {
        let schema = json!({ "type": "object", "required": ["n"],
            "properties": { "n": { "type": "integer" } } });
        let read = Shape::from_schema(&schema).unwrap().read(text);
        match &read {
            Ok(found) => assert_eq!(found.value["n"], 1, "{found:?}"),
            Err(misshapen) => assert!(!misshapen.what.contains("planted"), "{misshapen:?}"),
        }
        let read = read.map(|found| found.path);
        assert_eq!(
            read.map_err(|misshapen| misshapen.fault),
            expected,
            "{text}"
        );
    }

    #[test]
    fn answers_are_judged_without_being_quoted() {
        let (fence, braces) = (RecoveryPath::MarkdownFence, RecoveryPath::BraceWalker);
        check("{\"n\": 1}", Ok(None));
        check(" ```json\n{\"n\": 1}\n``` ", Ok(Some(fence)));
        check("```{\"n\": 1}```", Ok(Some(fence)));
        check("Here:\n```\n{\"n\": 1}\n```\nDone.", Ok(Some(fence)));
        check(
            "It is {\"n\": 1, \"of\": \"}\"}, I think.",
            Ok(Some(braces)),
        );
        check("{\"n\": \"planted\"}", Err(EnvelopeFault::SchemaViolation));
        check("So: {\"planted\": 1}", Err(EnvelopeFault::SchemaViolation));
        check("planted", Err(EnvelopeFault::ParseError));
        check("{\"n\": 1", Err(EnvelopeFault::ParseError));
    }

    #[test]
    fn prose_differs_from_broken_json() {
        assert!(is_prose(" The answer is 7."));
        for text in ["{\"n\": 1", "[1,", "```json\n{", "\"a\""] {
            assert!(!is_prose(text), "{text}");
        }
    }

    #[test]
    fn a_shape_has_a_name() {
        let name = |schema: Value| Shape::from_schema(&schema).unwrap().name();
        assert_eq!(name(json!({ "title": "Letter", "$id": "x:y" })), "Letter");
        assert_eq!(name(json!({})), "answer");
    }
}

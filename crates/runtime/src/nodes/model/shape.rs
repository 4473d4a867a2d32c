//! Answers of a given shape: asked for, read, and judged by us, whatever the provider promises.

use jsonschema::Validator;
use kernel::run::NodeError;
use kernel::run::report::EnvelopeFault;
use serde_json::Value;

/// Faults that are named to the model.
const MAX_FAULTS: usize = 8;

/// A shape an answer must have.
pub(super) struct Shape {
    pub schema: Value,
    validator: Validator,
}

/// An answer that does not have it.
#[derive(Debug, PartialEq)]
pub(super) struct Misshapen {
    pub fault: EnvelopeFault,
    /// What is wrong, without a word of the answer.
    pub what: String,
}

impl Shape {
    pub(super) fn of(schema: &Value) -> Result<Self, NodeError> {
        let validator = jsonschema::draft202012::new(schema)
            .map_err(|_| super::config::invalid("outputSchema is not a JSON Schema"))?;
        Ok(Self {
            schema: schema.clone(),
            validator,
        })
    }

    /// What a provider without means of its own is told.
    pub(super) fn in_words(&self) -> String {
        format!(
            "Answer with one JSON value and nothing else. It must fit this JSON Schema:\n{}",
            self.schema
        )
    }

    /// Reads an answer. A fence around it is no part of it.
    pub(super) fn read(&self, text: &str) -> Result<Value, Misshapen> {
        let text = unfenced(text.trim());
        let value: Value = serde_json::from_str(text).map_err(|error| Misshapen {
            fault: EnvelopeFault::ParseError,
            what: format!(
                "it is no JSON (line {}, column {})",
                error.line(),
                error.column()
            ),
        })?;
        let faults: Vec<String> = self
            .validator
            .iter_errors(&value)
            .take(MAX_FAULTS)
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() { "/" } else { &path };
                format!("{} at {place}", error.kind().keyword())
            })
            .collect();
        match faults.is_empty() {
            true => Ok(value),
            false => Err(Misshapen {
                fault: EnvelopeFault::SchemaViolation,
                what: faults.join(", "),
            }),
        }
    }
}

/// What the model is told when it is asked again.
pub(super) fn repair(misshapen: &Misshapen) -> String {
    format!(
        "That answer does not fit the schema: {}. Answer again with one JSON value that fits it, \
         and nothing else.",
        misshapen.what
    )
}

fn unfenced(text: &str) -> &str {
    let Some(inside) = text.strip_prefix("```").and_then(|t| t.strip_suffix("```")) else {
        return text;
    };
    match inside.split_once('\n') {
        Some((language, inside)) if language.chars().all(|c| c.is_ascii_alphanumeric()) => {
            inside.trim()
        }
        _ => inside.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: Result<Value, EnvelopeFault>) {
        let schema = json!({ "type": "object", "required": ["n"],
            "properties": { "n": { "type": "integer" } } });
        let read = Shape::of(&schema).unwrap().read(text);
        if let Err(misshapen) = &read {
            assert!(!misshapen.what.contains("planted"), "{misshapen:?}");
        }
        assert_eq!(read.map_err(|misshapen| misshapen.fault), expected);
    }

    #[test]
    fn answers_are_judged_without_being_quoted() {
        check("{\"n\": 1}", Ok(json!({ "n": 1 })));
        check(" ```json\n{\"n\": 1}\n``` ", Ok(json!({ "n": 1 })));
        check("```{\"n\": 1}```", Ok(json!({ "n": 1 })));
        check("{\"n\": \"planted\"}", Err(EnvelopeFault::SchemaViolation));
        check("{\"planted\": 1}", Err(EnvelopeFault::SchemaViolation));
        check("planted", Err(EnvelopeFault::ParseError));
        check("{\"n\": 1", Err(EnvelopeFault::ParseError));
    }
}

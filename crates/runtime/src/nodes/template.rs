//! Texts of a config with placeholders for inputs: `${inputs.name}`.

use kernel::definition::Reads;
use kernel::problem::{Problem, ProblemCode, pointer};
use kernel::run::NodeError;
use serde_json::{Map, Value};

/// A text with placeholders for inputs. `$${` yields `${`.
#[derive(Debug, PartialEq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    Input(String),
}

impl Template {
    /// Parses a text; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, after) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                plain.push_str(before);
                plain.push_str("${");
                rest = &after[2..];
                continue;
            }
            plain.push_str(before);
            let name = after[2..].split_once('}').and_then(|(name, behind)| {
                rest = behind;
                name.strip_prefix("inputs.").filter(|name| !name.is_empty())
            });
            let Some(name) = name else {
                return Err(
                    "only ${inputs.NAME}, with the name of an input port, can follow ${; write $${ \
                     for the characters themselves"
                        .to_owned(),
                );
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Input(name.to_owned()));
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// The text with its placeholders filled.
    ///
    /// # Errors
    /// `missing_input` if a port has no value.
    pub(super) fn fill(&self, inputs: &Map<String, Value>) -> Result<String, NodeError> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Input(name) => text.push_str(&as_text(input(inputs, name)?)),
            }
        }
        Ok(text)
    }
}

/// Records the inputs that a text of a config reads, with its place.
pub(super) fn note_text(reads: &mut Reads, path: &str, text: &str) {
    if has_braces(text) {
        reads.unfilled.push(path.to_owned());
    }
    let parts = Template::parse(text).map_or_else(|_| Vec::new(), |template| template.0);
    for part in parts {
        if let Part::Input(name) = part {
            reads.inputs.push((path.to_owned(), name));
        }
    }
}

/// As [`note_text`], for every text in a value.
pub(super) fn note_texts(reads: &mut Reads, path: &str, value: &Value) {
    match value {
        Value::String(text) => note_text(reads, path, text),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                note_texts(reads, &pointer(path, at), item);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                note_texts(reads, &pointer(path, key), field);
            }
        }
        _ => {}
    }
}

/// Fills the placeholders of every text in a value. A text that is a single placeholder becomes the
/// input's value, of any type.
///
/// # Errors
/// `invalid_config` if a text is not a template, `missing_input` if an input has no value.
pub(super) fn fill_texts(value: &mut Value, inputs: &Map<String, Value>) -> Result<(), NodeError> {
    match value {
        Value::String(text) => {
            let whole = text
                .strip_prefix("${inputs.")
                .and_then(|text| text.strip_suffix('}'))
                .filter(|name| !name.contains('}'));
            *value = match whole {
                Some(name) => input(inputs, name)?.clone(),
                None => {
                    let template = Template::parse(text)
                        .map_err(|text| NodeError::new("invalid_config", text).fatal())?;
                    template.fill(inputs)?.into()
                }
            };
            Ok(())
        }
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| fill_texts(item, inputs)),
        Value::Object(fields) => fields
            .values_mut()
            .try_for_each(|field| fill_texts(field, inputs)),
        _ => Ok(()),
    }
}

/// Reports every text in a value that is not a template.
pub(super) fn check_texts(value: &Value, path: &str, problems: &mut Vec<Problem>) {
    match value {
        Value::String(text) => {
            if let Err(message) = Template::parse(text) {
                problems.push(Problem::new(path, ProblemCode::InvalidExpression, message));
            }
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, item)| check_texts(item, &pointer(path, at), problems)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, field)| check_texts(field, &pointer(path, key), problems)),
        _ => {}
    }
}

/// Whether a text contains `{{ name }}`, the placeholder of other programs. A name with a leading
/// dot, as in templates of Go, is left for those programs.
fn has_braces(text: &str) -> bool {
    text.match_indices("{{").any(|(at, _)| {
        let inner = text[at + 2..]
            .split_once("}}")
            .map(|(inner, _)| inner.trim());
        inner.is_some_and(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        })
    })
}

/// The value of a port.
///
/// # Errors
/// `missing_input` if it has none.
pub(super) fn input<'a>(
    inputs: &'a Map<String, Value>,
    name: &str,
) -> Result<&'a Value, NodeError> {
    inputs.get(name).ok_or_else(|| {
        let text = format!("the input `{name}` has no value; bind it in the node's inputs");
        NodeError::new("missing_input", text).fatal()
    })
}

/// A value as one argument: a text unchanged, anything else as JSON.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let inputs = json!({ "a": "x y", "n": 1.5, "o": { "k": [null, true] }, "é": "ü" });
        let filled = Template::parse(text)
            .unwrap()
            .fill(inputs.as_object().unwrap());
        assert_eq!(filled.unwrap(), expected);
    }

    #[test]
    fn places_are_filled_with_the_value_as_it_is() {
        check("", "");
        check("plain $ {x} }", "plain $ {x} }");
        check("--a=${inputs.a}${inputs.n}.", "--a=x y1.5.");
        check("${inputs.o}", r#"{"k":[null,true]}"#);
        check("${inputs.é}é", "üé");
    }

    #[test]
    fn a_doubled_dollar_is_a_literal_dollar() {
        check("$${inputs.a} ${inputs.a}", "${inputs.a} x y");
    }

    #[test]
    fn filled_in_text_is_not_expanded_again() {
        let inputs = json!({ "a": "${inputs.b}", "b": "secret" });
        let template = Template::parse("${inputs.a}").unwrap();
        assert_eq!(
            template.fill(inputs.as_object().unwrap()).unwrap(),
            "${inputs.b}"
        );
    }

    #[test]
    fn other_places_are_refused() {
        for text in ["${a}", "${inputs.}", "${inputs.a", "${}", "x${variables.a}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn braces_of_other_programs_are_recognised() {
        for text in ["{{who}}", "a {{ inputs.who }}", "{{ 1 }} {{x}}"] {
            assert!(has_braces(text), "{text}");
        }
        for text in ["{{.State}}", "{{ 1 }}", "{who}", "{{", "{{#if x}}", "{{}}"] {
            assert!(!has_braces(text), "{text}");
        }
    }

    #[test]
    fn a_missing_input_says_its_name() {
        let error = Template::parse("${inputs.gone}")
            .unwrap()
            .fill(&Map::new())
            .unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.retryable),
            ("missing_input", Some(false))
        );
        assert!(error.message.contains("`gone`"));
    }

    #[test]
    fn texts_of_a_value_keep_the_types_of_inputs() {
        let inputs = json!({ "n": 3, "who": "Ada" });
        let mut value = json!({ "a": "${inputs.n}", "b": ["x${inputs.n}", "${inputs.who}"],
            "c": "${inputs.who} ${inputs.n}", "d": true });
        fill_texts(&mut value, inputs.as_object().unwrap()).unwrap();
        let filled = json!({ "a": 3, "b": ["x3", "Ada"], "c": "Ada 3", "d": true });
        assert_eq!(value, filled);
        let error = fill_texts(&mut json!("${inputs.gone}"), &Map::new()).unwrap_err();
        assert_eq!(error.code, "missing_input");
    }
}

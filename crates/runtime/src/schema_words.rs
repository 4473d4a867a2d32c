//! Readable messages for violations of a JSON Schema: the error, its place, and the remedy. Only
//! the names of keys are quoted from the value.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use kernel::definition::{Unit, mistimed};
use kernel::problem::{Problem, ProblemCode, closest, pointer, quoted, type_words};
use serde_json::Value;

/// The most words of a list that are shown.
const SHOWN: usize = 12;

/// The problems of a validation error. Paths lead into the value.
pub(crate) fn say(error: &ValidationError<'_>, schema: &Value) -> Vec<Problem> {
    let path = error.instance_path().to_string();
    let at = |code, message: String| vec![Problem::new(path.clone(), code, message)];
    match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_keys(error, schema);
            let keys = unexpected.iter().map(|key| {
                let place = pointer(&path, key);
                Problem::new(place, ProblemCode::UnknownField, unknown_key(key, &known))
            });
            keys.collect()
        }
        Kind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let message = format!("{} is required", quoted(key));
            vec![Problem::new(
                pointer(&path, key),
                ProblemCode::MissingField,
                message,
            )]
        }
        Kind::Type { .. } => at(ProblemCode::WrongType, wrong_type(error, schema)),
        _ => at(ProblemCode::InvalidValue, broken(error, schema)),
    }
}

/// The error of an invalid schema, and its place.
pub(crate) fn wrong_schema(schema: &Value) -> Option<(String, String)> {
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        let path = error.instance_path().to_string();
        let rule = path.rsplit('/').next().unwrap_or_default();
        let what = match rule {
            "type" => {
                const TYPES: [&str; 7] = [
                    "array", "boolean", "integer", "null", "number", "object", "string",
                ];
                let word = error.instance().as_str().unwrap_or_default();
                let meant = closest(word, TYPES);
                let meant = meant.map_or(String::new(), |word| format!("; did you mean `{word}`?"));
                format!("must be one of {}{meant}", TYPES.join(", "))
            }
            _ => broken(&error, &Value::Null),
        };
        return Some((path, format!("is not a rule of a JSON Schema: it {what}")));
    }
    if jsonschema::draft202012::new(schema).is_ok() {
        return None;
    }
    let lost = lost_reference(schema, schema, "");
    Some(lost.unwrap_or_else(|| {
        let what = "is not a JSON Schema: a `pattern` in it is not a regular expression";
        (String::new(), what.to_owned())
    }))
}

/// The problem of an invalid schema, which is at `place`.
pub(crate) fn schema_problem(place: &str, schema: &Value) -> Option<Problem> {
    let (path, what) = wrong_schema(schema)?;
    Some(Problem::new(
        format!("{place}{path}"),
        ProblemCode::InvalidValue,
        what,
    ))
}

/// The first `$ref` that leads nowhere, and what to write instead. `path` leads to `part`.
fn lost_reference(schema: &Value, part: &Value, path: &str) -> Option<(String, String)> {
    match part {
        Value::Object(members) => members.iter().find_map(|(key, value)| {
            let at = pointer(path, key);
            match value.as_str().filter(|_| key == "$ref") {
                Some(reference) => Some((at, lost(schema, reference)?)),
                None => lost_reference(schema, value, &at),
            }
        }),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            lost_reference(schema, item, &pointer(path, index.to_string()))
        }),
        _ => None,
    }
}

/// Why a `$ref` leads nowhere; `None` for one that may lead somewhere.
fn lost(schema: &Value, reference: &str) -> Option<String> {
    let Some(place) = reference.strip_prefix('#') else {
        return Some(
            "leads out of this schema, and no other document is read; copy its target below \
             $defs and write #/$defs/NAME"
                .to_owned(),
        );
    };
    // Anchors and encoded pointers are left to the library.
    let is_plain = place.starts_with('/') && !place.contains('%');
    if !is_plain || schema.pointer(place).is_some() {
        return None;
    }
    let names = schema["$defs"].as_object().into_iter().flatten();
    let names: Vec<String> = names.map(|(name, _)| quoted(name)).take(SHOWN).collect();
    let known = match names.as_slice() {
        [] => "it has no $defs".to_owned(),
        names => format!("$defs has {}", names.join(", ")),
    };
    Some(format!(
        "leads nowhere in this schema; write #/$defs/NAME and define NAME below $defs ({known})"
    ))
}

fn wrong_type(error: &ValidationError<'_>, schema: &Value) -> String {
    let wanted = schema.pointer(&error.schema_path().to_string());
    let names: Vec<&str> = match wanted {
        Some(Value::String(name)) => vec![type_words(name)],
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .map(type_words)
            .collect(),
        _ => Vec::new(),
    };
    let path = error.instance_path().to_string();
    let unit = match path.rsplit('/').next().unwrap_or_default() {
        key if key.ends_with("Ms") => Some(Unit::Milliseconds),
        key if key.ends_with("Sec") => Some(Unit::Seconds),
        _ => None,
    };
    let holder = holder_of(error, schema);
    let bound = |key: &str| holder.and_then(|holder| holder.get(key)?.as_u64());
    let range = bound("minimum").unwrap_or(0)..=bound("maximum").unwrap_or(u64::MAX);
    if let (Some(unit), ["a whole number"]) = (unit, names.as_slice())
        && let Some((_, text)) = mistimed(error.instance(), unit, range)
    {
        return text;
    }
    let found = match &**error.instance() {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    if names.is_empty() {
        return format!("has a wrong type: {found}");
    }
    format!("must be {}, not {found}", names.join(" or "))
}

/// A rule that a value of the right type violates.
fn broken(error: &ValidationError<'_>, schema: &Value) -> String {
    let count = |n: u64, one: &str, many: &str| match n {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    let least =
        |n: &u64, one: &str, many: &str| format!("must have at least {}", count(*n, one, many));
    let most =
        |n: &u64, one: &str, many: &str| format!("must have at most {}", count(*n, one, many));
    let form = |key: &str| holder_of(error, schema).and_then(|holder| holder.get(key)?.as_str());
    match error.kind() {
        Kind::Enum { options } => one_of(options, error.instance()),
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::Minimum { limit } => match form_range(error, schema) {
            Some(range) => range,
            None => format!("must be at least {limit}"),
        },
        Kind::Maximum { limit } => match form_range(error, schema) {
            Some(range) => range,
            None => format!("must be at most {limit}"),
        },
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit: 1 } => "must not be empty".to_owned(),
        Kind::MinLength { limit } => least(limit, "character", "characters"),
        Kind::MaxLength { limit } => most(limit, "character", "characters"),
        Kind::MinItems { limit } => least(limit, "element", "elements"),
        Kind::MaxItems { limit } => most(limit, "element", "elements"),
        Kind::MinProperties { limit } => least(limit, "field", "fields"),
        Kind::MaxProperties { limit } => most(limit, "field", "fields"),
        Kind::AdditionalItems { limit } => {
            format!(
                "must have at most {}",
                count(*limit as u64, "element", "elements")
            )
        }
        Kind::UniqueItems => "must not repeat an element".to_owned(),
        Kind::Pattern { pattern } => match form("$comment") {
            Some(words) => format!("must be {words}"),
            None => format!("must match the regular expression {pattern}"),
        },
        Kind::Format { format } => format!("must be written as the format `{format}`"),
        Kind::PropertyNames { .. } => "has a key with a name that is not allowed".to_owned(),
        Kind::Contains => "lacks a required element".to_owned(),
        Kind::FalseSchema => "must be absent".to_owned(),
        Kind::Not { .. } => "matches a forbidden form".to_owned(),
        Kind::OneOfMultipleValid { .. } => "matches several forms, but must match one".to_owned(),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => match form("description") {
            Some(words) => format!("matches none of the allowed forms: {words}"),
            None => "matches none of the allowed forms".to_owned(),
        },
        kind => format!("violates the rule `{}` of its schema", kind.keyword()),
    }
}

/// Both bounds of a number, if the schema has them.
fn form_range(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    let holder = holder_of(error, schema)?;
    let (least, most) = (holder.get("minimum")?, holder.get("maximum")?);
    Some(format!("must be from {least} to {most}"))
}

fn one_of(options: &Value, value: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let words = options.iter().map(|option| match option {
        Value::String(word) => word.clone(),
        option => option.to_string(),
    });
    let words: Vec<String> = words.collect();
    let meant = value
        .as_str()
        .and_then(|word| closest(word, words.iter().map(String::as_str)));
    let meant = meant.map_or(String::new(), |word| format!("; did you mean `{word}`?"));
    let more = match words.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" or {more} more"),
    };
    let shown = words.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    format!("must be one of {}{more}{meant}", shown.join(", "))
}

/// The schema object with the keyword of an error.
fn holder_of<'a>(error: &ValidationError<'_>, schema: &'a Value) -> Option<&'a Value> {
    let keyword = error.schema_path().to_string();
    schema.pointer(keyword.rsplit_once('/')?.0)
}

fn known_keys<'a>(error: &ValidationError<'_>, schema: &'a Value) -> Vec<&'a str> {
    let properties = holder_of(error, schema).and_then(|holder| holder["properties"].as_object());
    properties
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect()
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    let key = quoted(key);
    match (closest(key.trim_matches('`'), known.iter().copied()), known) {
        (Some(meant), _) => format!("unknown field {key}; did you mean `{meant}`?"),
        (None, []) => format!("unknown field {key}; remove it"),
        (None, known) => {
            format!("unknown field {key}; the fields are {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As [`say`], in one text with the place.
    fn say_all(error: &ValidationError<'_>, schema: &Value) -> String {
        let said = say(error, schema).into_iter().map(|problem| {
            let place = match problem.path.as_str() {
                "" => "the value",
                path => path,
            };
            format!("{place} {}", problem.message)
        });
        said.collect::<Vec<_>>().join(", ")
    }

    #[track_caller]
    fn check(schema: &Value, value: &Value, expected: &str) {
        let validator = jsonschema::draft202012::new(schema).expect("it is a schema");
        let said: Vec<String> = validator
            .iter_errors(value)
            .map(|error| say_all(&error, schema))
            .collect();
        assert_eq!(said.join("; "), expected, "{value}");
    }

    #[test]
    fn a_lost_reference_is_named_with_what_there_is() {
        let schema = json!({
            "items": { "$ref": "#/$defs/citty" }, "$defs": { "city": {}, "street": {} },
        });
        let (path, what) = wrong_schema(&schema).unwrap();
        assert_eq!(path, "/items/$ref");
        assert!(what.ends_with("($defs has `city`, `street`)"), "{what}");
        let (_, what) = wrong_schema(&json!({ "$ref": "#/$defs/a" })).unwrap();
        assert!(what.ends_with("(it has no $defs)"), "{what}");
        let found = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$anchor": "b" } } });
        assert_eq!(wrong_schema(&found), None);
        assert_eq!(
            wrong_schema(&json!({ "$ref": "#b", "$defs": found["$defs"] })),
            None
        );
    }

    #[test]
    fn each_rule_suggests_a_valid_value() {
        for (rule, value, expected) in [
            (
                json!({ "type": "integer" }),
                json!("x"),
                "the value must be a whole number, not a string",
            ),
            (
                json!({ "type": ["string", "null"] }),
                json!(1),
                "the value must be a string or null, not a number",
            ),
            (
                json!({ "enum": ["once", "repeatable"] }),
                json!("onec"),
                "the value must be one of once, repeatable; did you mean `once`?",
            ),
            (
                json!({ "minimum": 1, "maximum": 5 }),
                json!(0),
                "the value must be from 1 to 5",
            ),
            (
                json!({ "minimum": 1 }),
                json!(0),
                "the value must be at least 1",
            ),
            (
                json!({ "minItems": 1 }),
                json!([]),
                "the value must have at least 1 element",
            ),
            (
                json!({ "minLength": 1 }),
                json!(""),
                "the value must not be empty",
            ),
            (
                json!({ "maxLength": 2 }),
                json!("abc"),
                "the value must have at most 2 characters",
            ),
            (
                json!({ "pattern": "^a$", "$comment": "the letter a" }),
                json!("b"),
                "the value must be the letter a",
            ),
            (
                json!({ "pattern": "^a$" }),
                json!("b"),
                "the value must match the regular expression ^a$",
            ),
            (
                json!({ "required": ["a"] }),
                json!({}),
                "/a `a` is required",
            ),
            (
                json!({ "uniqueItems": true }),
                json!([1, 1]),
                "the value must not repeat an element",
            ),
            (json!({ "const": 1 }), json!(2), "the value must be 1"),
        ] {
            check(&rule, &value, expected);
        }
    }

    #[test]
    fn a_duration_is_given_in_milliseconds() {
        let schema = json!({ "properties": { "timeoutMs": { "type": "integer", "minimum": 1 } } });
        check(
            &schema,
            &json!({ "timeoutMs": "1h" }),
            "/timeoutMs must be a whole number of milliseconds, not a string; write 3600000 without quotes",
        );
    }

    #[test]
    fn a_schema_that_is_none_says_where() {
        for (schema, path, part) in [
            (
                json!({ "type": "objct" }),
                "/type",
                "did you mean `object`?",
            ),
            (
                json!({ "properties": { "a": { "minLength": -1 } } }),
                "/properties/a/minLength",
                "at least 0",
            ),
            (json!({ "pattern": "(" }), "", "pattern"),
        ] {
            let (place, what) = wrong_schema(&schema).expect("it is no schema");
            assert_eq!(place, path, "{what}");
            assert!(what.contains(part), "{what}");
        }
        assert_eq!(wrong_schema(&json!({ "type": "object" })), None);
    }
}

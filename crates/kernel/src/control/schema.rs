//! Schemas of answers: the part of JSON Schema that definitions may use.
//!
//! `type`, `enum`, `const`; `properties`, `required`, `additionalProperties`, `minProperties`,
//! `maxProperties`; `items`, `minItems`, `maxItems`, `uniqueItems`; `minLength`, `maxLength`,
//! `pattern`; `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`; `allOf`, `anyOf`,
//! `oneOf`, `not`. Annotations are ignored. A schema with any other rule is rejected, so that no
//! rule is silently skipped.
//!
//! It is implemented here because answers are judged within a decision, which a replay repeats. The
//! result must be the same on any machine and at any time, without randomly seeded hashing and
//! without references to look up.

use serde_json::Value;

use crate::expr::compile_pattern;

/// Rules without an effect on values.
const ANNOTATIONS: [&str; 11] = [
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

/// The fault of a schema, with the path of the rule.
pub(crate) fn check(schema: &Value, path: &str) -> Result<(), String> {
    let rules = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(rules) => rules,
        _ => return Err(format!("{path}: a schema is an object, true or false")),
    };
    for (rule, of) in rules {
        let path = format!("{path}/{rule}");
        let wrong = |what: &str| Err(format!("{path}: {what}"));
        match rule.as_str() {
            "type" if !is_type(of) => return wrong("names no type"),
            "enum" | "required" if !of.is_array() => return wrong("must be a list"),
            "type" | "enum" | "const" | "required" | "uniqueItems" => {}
            "properties" => match of.as_object() {
                Some(fields) => {
                    for (name, schema) in fields {
                        check(schema, &format!("{path}/{name}"))?;
                    }
                }
                None => return wrong("must be an object"),
            },
            "additionalProperties" | "items" | "not" => check(of, &path)?,
            "allOf" | "anyOf" | "oneOf" => match of.as_array() {
                Some(schemas) if !schemas.is_empty() => {
                    for (at, schema) in schemas.iter().enumerate() {
                        check(schema, &format!("{path}/{at}"))?;
                    }
                }
                _ => return wrong("must be a list of schemas"),
            },
            "minProperties" | "maxProperties" | "minItems" | "maxItems" | "minLength"
            | "maxLength" => {
                if of.as_u64().is_none() {
                    return wrong("must be a whole number");
                }
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                if !of.is_number() {
                    return wrong("must be a number");
                }
            }
            "pattern" => {
                let pattern = of.as_str().map(compile_pattern);
                if !matches!(pattern, Some(Ok(_))) {
                    return wrong("must be a regular expression without look-around");
                }
            }
            name if ANNOTATIONS.contains(&name) => {}
            _ => return wrong("this engine does not know the rule"),
        }
    }
    Ok(())
}

fn is_type(of: &Value) -> bool {
    const TYPES: [&str; 7] = [
        "null", "boolean", "object", "array", "number", "integer", "string",
    ];
    let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match of {
        Value::Array(names) => !names.is_empty() && names.iter().all(known),
        name => known(name),
    }
}

/// Checks a value against a schema that [`check`] accepted.
///
/// # Errors
/// The path, within the schema, of a rule that the value breaks.
pub(crate) fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    let rules = match schema {
        Value::Object(rules) => rules,
        Value::Bool(false) => return Err(String::new()),
        _ => return Ok(()),
    };
    for (rule, of) in rules {
        let holds = match rule.as_str() {
            "properties" | "additionalProperties" | "items" | "allOf" => {
                inner(rules, rule, of, value).map_err(|path| format!("/{rule}{path}"))?;
                true
            }
            "type" => match of {
                Value::Array(names) => names.iter().any(|name| has_type(name, value)),
                name => has_type(name, value),
            },
            "enum" => of.as_array().is_some_and(|list| list.contains(value)),
            "const" => of == value,
            "anyOf" => schemas(of).any(|schema| validate(schema, value).is_ok()),
            "oneOf" => {
                schemas(of)
                    .filter(|schema| validate(schema, value).is_ok())
                    .count()
                    == 1
            }
            "not" => validate(of, value).is_err(),
            _ => holds(rule, of, value),
        };
        if !holds {
            return Err(format!("/{rule}"));
        }
    }
    Ok(())
}

fn schemas(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Rules that check the value or its parts against other schemas.
fn inner(
    rules: &serde_json::Map<String, Value>,
    rule: &str,
    of: &Value,
    value: &Value,
) -> Result<(), String> {
    match (rule, value) {
        ("allOf", _) => {
            for (at, schema) in schemas(of).enumerate() {
                validate(schema, value).map_err(|path| format!("/{at}{path}"))?;
            }
        }
        ("items", Value::Array(items)) => {
            for item in items {
                validate(of, item)?;
            }
        }
        ("properties", Value::Object(fields)) => {
            for (name, schema) in of.as_object().into_iter().flatten() {
                if let Some(field) = fields.get(name) {
                    validate(schema, field).map_err(|path| format!("/{name}{path}"))?;
                }
            }
        }
        ("additionalProperties", Value::Object(fields)) => {
            let declared = rules.get("properties").and_then(Value::as_object);
            for (name, field) in fields {
                if !declared.is_some_and(|declared| declared.contains_key(name)) {
                    validate(of, field)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Rules for a number, a text, a list or an object; each accepts values of other types.
fn holds(rule: &str, of: &Value, value: &Value) -> bool {
    let limit = || of.as_u64().unwrap_or(0);
    match (rule, value) {
        ("required", Value::Object(fields)) => schemas(of)
            .filter_map(Value::as_str)
            .all(|name| fields.contains_key(name)),
        ("minProperties", Value::Object(fields)) => fields.len() as u64 >= limit(),
        ("maxProperties", Value::Object(fields)) => fields.len() as u64 <= limit(),
        ("minItems", Value::Array(items)) => items.len() as u64 >= limit(),
        ("maxItems", Value::Array(items)) => items.len() as u64 <= limit(),
        ("uniqueItems", Value::Array(items)) if *of == Value::Bool(true) => {
            let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
            texts.sort_unstable();
            texts.windows(2).all(|pair| pair[0] != pair[1])
        }
        ("minLength", Value::String(text)) => text.chars().count() as u64 >= limit(),
        ("maxLength", Value::String(text)) => text.chars().count() as u64 <= limit(),
        ("pattern", Value::String(text)) => of
            .as_str()
            .and_then(|pattern| compile_pattern(pattern).ok())
            .is_some_and(|pattern| pattern.is_match(text)),
        (_, Value::Number(number)) => match (number.as_f64(), of.as_f64()) {
            (Some(n), Some(bound)) => match rule {
                "minimum" => n >= bound,
                "maximum" => n <= bound,
                "exclusiveMinimum" => n > bound,
                "exclusiveMaximum" => n < bound,
                _ => true,
            },
            _ => true,
        },
        _ => true,
    }
}

pub(crate) fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Some("string") => value.is_string(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each schema with values that fit and values that do not.
    #[test]
    fn each_rule_holds_as_json_schema_says() {
        let table = [
            (
                json!({ "type": "integer" }),
                vec![json!(1), json!(2.0)],
                vec![json!(1.5), json!("1")],
            ),
            (
                json!({ "type": ["string", "null"] }),
                vec![json!("a"), json!(null)],
                vec![json!(1)],
            ),
            (
                json!({ "enum": ["a", 1] }),
                vec![json!(1)],
                vec![json!("b")],
            ),
            (
                json!({ "const": { "a": 1 } }),
                vec![json!({ "a": 1 })],
                vec![json!({})],
            ),
            (
                json!({ "properties": { "a": { "type": "string" } }, "required": ["a"],
                        "additionalProperties": false }),
                vec![json!({ "a": "x" }), json!(7)],
                vec![json!({}), json!({ "a": 1 }), json!({ "a": "x", "b": 1 })],
            ),
            (
                json!({ "items": { "minimum": 1 }, "maxItems": 2 }),
                vec![json!([1, 2])],
                vec![json!([0]), json!([1, 2, 3])],
            ),
            (
                json!({ "uniqueItems": true, "minItems": 1 }),
                vec![json!([1, 2])],
                vec![json!([1, 1]), json!([])],
            ),
            (
                json!({ "minLength": 2, "maxLength": 3 }),
                vec![json!("äö"), json!(1)],
                vec![json!("a"), json!("abcd")],
            ),
            (
                json!({ "pattern": "^a+$" }),
                vec![json!("aa")],
                vec![json!("ab")],
            ),
            (
                json!({ "exclusiveMinimum": 1, "exclusiveMaximum": 3 }),
                vec![json!(2)],
                vec![json!(1), json!(3)],
            ),
            (json!({ "maximum": 3 }), vec![json!(3)], vec![json!(3.5)]),
            (
                json!({ "anyOf": [{ "type": "string" }, { "minimum": 5 }] }),
                vec![json!("a"), json!(5)],
                vec![json!(1)],
            ),
            (
                json!({ "oneOf": [{ "minimum": 1 }, { "maximum": 3 }] }),
                vec![json!(0), json!(4)],
                vec![json!(2)],
            ),
            (
                json!({ "allOf": [{ "minimum": 1 }, { "maximum": 3 }] }),
                vec![json!(2)],
                vec![json!(0), json!(4)],
            ),
            (
                json!({ "not": { "type": "null" } }),
                vec![json!(1)],
                vec![json!(null)],
            ),
            (
                json!({ "minProperties": 1, "maxProperties": 1 }),
                vec![json!({ "a": 1 })],
                vec![json!({}), json!({ "a": 1, "b": 2 })],
            ),
            (json!(true), vec![json!(1)], vec![]),
            (json!(false), vec![], vec![json!(1)]),
        ];
        for (schema, good, bad) in table {
            assert_eq!(check(&schema, ""), Ok(()), "{schema}");
            for value in good {
                assert_eq!(validate(&schema, &value), Ok(()), "{schema} takes {value}");
            }
            for value in bad {
                assert!(
                    validate(&schema, &value).is_err(),
                    "{schema} refuses {value}"
                );
            }
        }
    }

    #[test]
    fn a_broken_rule_is_named_by_its_place() {
        let schema = json!({ "properties": { "n": { "items": { "minimum": 1 } } } });
        let broken = validate(&schema, &json!({ "n": [0] }));
        assert_eq!(broken, Err("/properties/n/items/minimum".to_owned()));
    }

    #[test]
    fn a_rule_that_is_not_known_is_not_left_out() {
        for (schema, place) in [
            (json!({ "$ref": "#/x" }), "/$ref"),
            (json!({ "items": { "contains": {} } }), "/items/contains"),
            (json!({ "type": "text" }), "/type"),
            (json!({ "pattern": "(" }), "/pattern"),
            (json!({ "minLength": -1 }), "/minLength"),
            (json!({ "anyOf": [] }), "/anyOf"),
        ] {
            let error = check(&schema, "").expect_err("a schema this engine does not know");
            assert!(error.starts_with(place), "{error}");
        }
    }
}

//! A broken rule of a schema, in words: the place in the answer, and the schema's requirement
//! there. Nothing of the answer is quoted.

use serde_json::Value;

use crate::problem::{quoted, type_words};

/// Maximum names shown of a list.
const SHOWN: usize = 12;

/// The requirement of the rule at a path within a schema, as returned by
/// [`validate`](super::schema::validate).
pub(super) fn say(schema: &Value, path: &str) -> String {
    let mut place = String::new();
    let mut holder = schema;
    let mut tokens = path.split('/').skip(1).peekable();
    while let Some(token) = tokens.next() {
        if tokens.peek().is_none() {
            let place = match place.as_str() {
                "" => String::new(),
                place => format!(" at {}", quoted(place)),
            };
            return format!("{place} {}", asked(token, &holder[token], holder));
        }
        match (token, tokens.peek()) {
            // A name may contain the path separator; then the rule itself is quoted.
            ("properties", Some(name)) => {
                place.push('/');
                place.push_str(name);
                holder = &holder[token];
            }
            ("items" | "additionalProperties", _) => {
                place.push_str("/*");
                holder = &holder[token];
            }
            (index, _) if holder.is_array() => {
                holder = index
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| holder.get(index))
                    .unwrap_or(&Value::Null);
            }
            (name, _) => holder = &holder[name],
        }
    }
    " is not allowed at all".to_owned()
}

fn asked(rule: &str, of: &Value, holder: &Value) -> String {
    let names = |list: &Value| {
        let words = list.as_array().into_iter().flatten();
        let words: Vec<String> = words
            .take(SHOWN)
            .map(|word| match word {
                Value::String(word) => quoted(word),
                word => word.to_string(),
            })
            .collect();
        words.join(", ")
    };
    match rule {
        "type" => match of {
            Value::String(name) => format!("must be {}", type_words(name)),
            list => {
                let all = list.as_array().into_iter().flatten();
                let all: Vec<&str> = all.filter_map(Value::as_str).map(type_words).collect();
                format!("must be {}", all.join(" or "))
            }
        },
        "enum" => format!("must be one of {}", names(of)),
        "const" => format!("must be {of}"),
        "required" => format!("needs the fields {}", names(of)),
        "additionalProperties" => {
            let known = holder["properties"].as_object().into_iter().flatten();
            let known: Vec<String> = known.take(SHOWN).map(|(name, _)| quoted(name)).collect();
            format!(
                "has a field that there is not; there are: {}",
                known.join(", ")
            )
        }
        "minProperties" => format!("must have at least {of} fields"),
        "maxProperties" => format!("must have at most {of} fields"),
        "minItems" => format!("must have at least {of} elements"),
        "maxItems" => format!("must have at most {of} elements"),
        "uniqueItems" => "must not have an element twice".to_owned(),
        "minLength" => format!("must have at least {of} characters"),
        "maxLength" => format!("must have at most {of} characters"),
        "pattern" => format!(
            "must match the regular expression {}",
            of.as_str().unwrap_or_default()
        ),
        "minimum" => format!("must be at least {of}"),
        "maximum" => format!("must be at most {of}"),
        "exclusiveMinimum" => format!("must be more than {of}"),
        "exclusiveMaximum" => format!("must be less than {of}"),
        "oneOf" => "must fit exactly one of the forms it may have".to_owned(),
        "not" => "is what it must not be".to_owned(),
        _ => "has none of the forms it may have".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema::validate;
    use super::*;

    #[test]
    fn a_broken_rule_is_said_with_its_place() {
        for (schema, value, expected) in [
            (
                json!({ "type": "integer" }),
                json!("x"),
                " must be a whole number",
            ),
            (
                json!({ "properties": { "n": { "items": { "minimum": 1 } } } }),
                json!({ "n": [0] }),
                " at `/n/*` must be at least 1",
            ),
            (
                json!({ "properties": { "a": {} }, "additionalProperties": false }),
                json!({ "b": 1 }),
                " has a field that there is not; there are: `a`",
            ),
            (
                json!({ "required": ["a"] }),
                json!({}),
                " needs the fields `a`",
            ),
            (
                json!({ "allOf": [{ "enum": ["x", 1] }] }),
                json!("z"),
                " must be one of `x`, 1",
            ),
            (json!(false), json!(1), " is not allowed at all"),
        ] {
            let rule = validate(&schema, &value).expect_err("it does not fit");
            assert_eq!(say(&schema, &rule), expected, "{rule}");
        }
    }
}

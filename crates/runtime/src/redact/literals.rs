//! Secrets written literally in a workflow definition, which every reader of it has.

use std::borrow::Cow;

use kernel::problem::{Problem, ProblemCode};
use serde_json::Value;

use super::{Redactor, is_secret_name, masks};

/// The most places reported.
const MAX: usize = 20;

/// A warning for each place of a definition with a secret, never the secret itself. References to
/// secrets (`secretEnv`, `secretHeaders`) and placeholders are not reported.
pub(crate) fn literal_secrets(definition: &Value) -> Vec<Problem> {
    let mut places = Vec::new();
    look(definition, &mut String::new(), &mut places);
    let warning = |path| {
        Problem::new(
            path,
            ProblemCode::LiteralSecret,
            "this looks like a secret, and a definition is stored in clear: keep the secret \
             outside (`runwright secrets`, or a variable of the engine) and refer to it, as in \
             `secretEnv`, `secretHeaders` or a sensitive input",
        )
    };
    places.into_iter().map(warning).collect()
}

fn look(value: &Value, path: &mut String, places: &mut Vec<String>) {
    if places.len() >= MAX {
        return;
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            if matches!(Redactor::masking().text(text), Cow::Owned(_)) {
                places.push(path.clone());
            }
        }
        Value::Array(items) => {
            let mut is_asked_for = false;
            for (place, item) in items.iter().enumerate() {
                let was_asked_for = std::mem::replace(
                    &mut is_asked_for,
                    item.as_str()
                        .is_some_and(|option| option.starts_with('-') && is_secret_name(option)),
                );
                below(path, &place.to_string(), |path| match item {
                    Value::String(text) if was_asked_for && !text.starts_with('-') => {
                        whole(text, path, places);
                    }
                    item => look(item, path, places),
                });
            }
        }
        Value::Object(members) => {
            let is_called_so = members
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(is_secret_name);
            for (name, member) in members {
                // References, keyed by their purpose.
                if name.to_ascii_lowercase().starts_with("secret") {
                    continue;
                }
                let is_secret = is_secret_name(name)
                    || (is_called_so && matches!(&**name, "defaultValue" | "value"));
                below(path, name, |path| match member {
                    Value::String(text) if is_secret => whole(text, path, places),
                    member => look(member, path, places),
                });
            }
        }
    }
}

/// Reports a text that is a secret by its place, unless it is a reference.
fn whole(text: &str, path: &str, places: &mut Vec<String>) {
    let is_reference = ["env:", "file:", "secret:", "${", "{{"]
        .iter()
        .any(|sign| text.contains(sign));
    if !text.trim().is_empty() && !is_reference && !masks::is_place(text.as_bytes()) {
        places.push(path.to_owned());
    }
}

/// Appends a step to a JSON pointer.
fn below(path: &mut String, step: &str, look: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&step.replace('~', "~0").replace('/', "~1"));
    look(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(definition: &Value) -> Vec<String> {
        let found = literal_secrets(definition).into_iter();
        found.map(|warning| warning.path).collect()
    }

    #[test]
    fn each_place_with_a_secret_is_named_and_no_secret() {
        let definition = json!({
            "nodes": [
                { "config": { "headers": { "Authorization": "Bearer planted", "X-Api-Key": "planted" },
                              "url": "https://h/?api_key=planted" } },
                { "config": { "argv": ["deploy", "--password", "planted"],
                              "env": { "DB_PASSWORD": "planted", "A/B": "curl -H 'Cookie: a=planted'" } } },
                { "config": { "prompt": "use sk-plantedplantedplanted42" } },
            ],
            "variables": [{ "name": "apiToken", "type": "string", "defaultValue": "planted" }],
        });
        assert_eq!(
            places(&definition),
            [
                "/nodes/0/config/headers/Authorization",
                "/nodes/0/config/headers/X-Api-Key",
                "/nodes/0/config/url",
                "/nodes/1/config/argv/2",
                "/nodes/1/config/env/A~1B",
                "/nodes/1/config/env/DB_PASSWORD",
                "/nodes/2/config/prompt",
                "/variables/0/defaultValue",
            ]
        );
        let told = serde_json::to_string(&literal_secrets(&definition)).unwrap();
        assert!(
            told.contains("\"literal_secret\"") && !told.contains("planted"),
            "{told}"
        );
        let much: Vec<_> = (0..50).map(|_| json!({ "token": "planted" })).collect();
        assert_eq!(places(&json!(much)).len(), MAX);
    }

    #[test]
    fn references_and_places_to_be_filled_in_are_none() {
        let definition = json!({
            "nodes": [{ "config": {
                "secretEnv": { "DB_PASSWORD": "env:RUNWRIGHT_SECRET_DB" },
                "secretHeaders": { "authorization": { "prefix": "Bearer ", "secret": "API_KEY" } },
                "headers": { "Authorization": "Bearer ${inputs.key}" },
                "argv": ["x", "--token", "--verbose", "--password", "${inputs.password}"],
                "env": { "API_KEY": "${API_KEY}", "TOKEN": "" }, "maxTokens": 7,
                "prompt": "Say whether the password is checked. Token counts: 5",
            }, "inputs": { "token": { "type": "variable", "variableName": "token" } } }],
            "variables": [{ "name": "token", "type": "string", "sensitive": true }],
        });
        assert_eq!(places(&definition), Vec::<String>::new());
    }
}

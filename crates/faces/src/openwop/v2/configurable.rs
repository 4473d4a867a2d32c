//! `configurable`: closed, nested and versioned in v2, flat in the log.

use kernel::limits::MAX_NODE_EXECUTIONS;
use serde_json::{Map, Value, json};

/// The sections of v2, with the names of their members and the names that the log keeps them by.
const SECTIONS: [(&str, &[(&str, &str)]); 2] = [
    (
        "run",
        &[
            ("recursionLimit", "recursionLimit"),
            ("runTimeoutMs", "runTimeoutMs"),
            ("maxLoopIterations", "maxLoopIterations"),
            ("escalationThreshold", "escalationThreshold"),
        ],
    ),
    (
        "ai",
        &[
            ("provider", "ai.provider"),
            ("model", "ai.model"),
            ("credentialRef", "ai.credentialRef"),
            ("temperature", "temperature"),
            ("maxTokens", "maxTokens"),
            ("promptOverrides", "promptOverrides"),
            ("mockProvider", "mockProvider"),
        ],
    ),
];
/// The older name of `ai.model`.
const MODEL: &str = "model";
/// Members that are the same in both majors.
const BUDGET: &str = "budget";
/// Where the log's other settings are shown: they are the workflow's own.
const OURS: &str = "runwright";
/// Members of the protocol that this engine does not act on.
const NOT_SERVED: [(&str, &str); 2] = [("ai", "reasoningVerbosity"), ("ai", "maxRefusals")];

/// An invalid `configurable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// A JSON pointer into it. Keys that the protocol does not know are named `…`.
    pub path: String,
    /// The problem and its remedy.
    pub what: String,
}

impl BadSetting {
    fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            what: what.into(),
        }
    }
}

/// The settings as the log keeps them.
///
/// # Errors
/// The version is missing, or a member is unknown or not served.
pub fn flat(nested: &Map<String, Value>) -> Result<Map<String, Value>, BadSetting> {
    let mut flat = Map::new();
    if nested.get("version") != Some(&json!(1)) {
        return Err(BadSetting::new("/version", "is required and must be 1"));
    }
    // A client may write null for what it leaves out.
    for (name, value) in nested.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "version" => {}
            BUDGET => {
                flat.insert(BUDGET.to_owned(), value.clone());
            }
            "extensions" => flat.extend(own(value)?),
            "distillation" => {
                let what = "is not supported by this server; remove it";
                return Err(BadSetting::new("/distillation", what));
            }
            name => flat.extend(section(name, value)?),
        }
    }
    Ok(flat)
}

fn section(name: &str, value: &Value) -> Result<Map<String, Value>, BadSetting> {
    let Some((_, members)) = SECTIONS.iter().find(|(section, _)| *section == name) else {
        let what = "is an unknown member; use version, run, ai, budget or extensions";
        return Err(BadSetting::new("/…", what));
    };
    let Value::Object(given) = value else {
        return Err(BadSetting::new(format!("/{name}"), "must be an object"));
    };
    let mut flat = Map::new();
    for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        if NOT_SERVED.contains(&(name, key.as_str())) {
            let what = "is not supported by this server; remove it";
            return Err(BadSetting::new(format!("/{name}/{key}"), what));
        }
        let Some((_, kept)) = members.iter().find(|(member, _)| member == key) else {
            let names: Vec<&str> = members.iter().map(|(member, _)| *member).collect();
            let what = format!("is an unknown member; use one of: {}", names.join(", "));
            return Err(BadSetting::new(format!("/{name}/…"), what));
        };
        let kept = (*kept).to_owned();
        // The protocol clamps this bound to the server's; version 1 refuses a greater one.
        let is_over = value.as_u64().is_some_and(|n| n > MAX_NODE_EXECUTIONS);
        let value = match kept.as_str() {
            "recursionLimit" if is_over => json!(MAX_NODE_EXECUTIONS),
            _ => value.clone(),
        };
        flat.insert(kept, value);
    }
    Ok(flat)
}

/// The settings of the workflow's own, from `extensions.runwright`.
fn own(extensions: &Value) -> Result<Map<String, Value>, BadSetting> {
    let what = "must be an object with the member runwright, an object of the workflow's settings";
    let wrong = || BadSetting::new("/extensions", what);
    let extensions = extensions.as_object().ok_or_else(wrong)?;
    if extensions.keys().any(|org| org != OURS) {
        return Err(wrong());
    }
    let own = match extensions.get(OURS) {
        None => return Ok(Map::new()),
        Some(own) => own.as_object().ok_or_else(wrong)?,
    };
    if own.keys().any(|key| is_reserved(key)) {
        let what = "has a member of the protocol; move it to the section run or ai";
        return Err(BadSetting::new("/extensions/runwright", what));
    }
    Ok(own.clone())
}

fn is_reserved(key: &str) -> bool {
    let mut members = SECTIONS.iter().flat_map(|(_, members)| members.iter());
    key == BUDGET || key == MODEL || members.any(|(_, kept)| *kept == key)
}

/// The settings of a log as v2 shows them.
pub fn nested(flat: &Map<String, Value>) -> Value {
    let mut shown = json!({ "version": 1 });
    for (key, value) in flat {
        let place = SECTIONS.iter().find_map(|(section, members)| {
            let found = members.iter().find(|(_, kept)| kept == key)?;
            Some((*section, found.0))
        });
        match (place, key.as_str()) {
            (Some((section, member)), _) => shown[section][member] = value.clone(),
            (None, BUDGET) => shown[BUDGET] = value.clone(),
            (None, MODEL) if !flat.contains_key("ai.model") => {
                shown["ai"]["model"] = value.clone();
            }
            // `ai.model` is stronger.
            (None, MODEL) => {}
            (None, _) => shown["extensions"][OURS][key] = value.clone(),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn settings_survive_both_ways() {
        let given = json!({
            "version": 1,
            "run": { "recursionLimit": 50 },
            "ai": { "provider": "p", "model": "m", "temperature": 0.5 },
            "budget": { "maxCostUsd": 1 },
            "extensions": { "runwright": { "tone": "dry" } },
        });
        let kept = flat(&object(given.clone())).unwrap();
        assert_eq!(kept["recursionLimit"], 50);
        assert_eq!(kept["ai.model"], "m");
        assert_eq!(kept["tone"], "dry");
        assert_eq!(nested(&kept), given);
        let with_null = json!({ "version": 1, "ai": null, "run": { "runTimeoutMs": null } });
        assert_eq!(flat(&object(with_null)).unwrap(), Map::new());
        let above = json!({ "version": 1, "run": { "recursionLimit": MAX_NODE_EXECUTIONS + 1 } });
        assert_eq!(
            flat(&object(above)).unwrap()["recursionLimit"],
            MAX_NODE_EXECUTIONS
        );
        let older = object(json!({ "model": "m" }));
        assert_eq!(nested(&older)["ai"]["model"], "m");
    }

    #[test]
    fn bad_settings_are_named() {
        for (given, path) in [
            (json!({}), "/version"),
            (json!({ "version": 2 }), "/version"),
            (json!({ "version": 1, "ai.model": "m" }), "/…"),
            (json!({ "version": 1, "run": 1 }), "/run"),
            (json!({ "version": 1, "run": { "sk-1": 1 } }), "/run/…"),
            (
                json!({ "version": 1, "ai": { "maxRefusals": 1 } }),
                "/ai/maxRefusals",
            ),
            (json!({ "version": 1, "distillation": {} }), "/distillation"),
            (
                json!({ "version": 1, "extensions": { "acme": {} } }),
                "/extensions",
            ),
            (
                json!({ "version": 1, "extensions": { "runwright": { "budget": 1 } } }),
                "/extensions/runwright",
            ),
        ] {
            assert_eq!(
                flat(&object(given.clone())).unwrap_err().path,
                path,
                "{given}"
            );
        }
    }
}

//! JSON Schemas as rows of a table.

use serde_json::Value;

use super::{cell, head, row};

/// A table of the properties of a schema, with those of nested objects; empty without properties.
pub(super) fn table(schema: &Value) -> String {
    let mut rows = String::new();
    properties(schema, "", &mut rows);
    if rows.is_empty() {
        return rows;
    }
    let names = ["Key", "Type", "Default", "Description"];
    format!("{}{rows}\n", head(&names))
}

fn properties(schema: &Value, prefix: &str, rows: &mut String) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let required = schema["required"].as_array();
    for (name, property) in properties {
        let is_required = required.is_some_and(|names| names.iter().any(|it| it == name));
        let default = match (&property["default"], is_required) {
            (_, true) => "required".to_owned(),
            (Value::Null, false) => String::new(),
            (value, false) => format!("`{value}`"),
        };
        let path = format!("{prefix}{name}");
        let about = property["description"].as_str().unwrap_or_default();
        let cells = [
            &format!("`{path}`"),
            &type_of(property),
            &default,
            &cell(about),
        ];
        rows.push_str(&row(&cells.map(String::as_str)));
        properties_within(property, &path, rows);
    }
}

fn properties_within(property: &Value, path: &str, rows: &mut String) {
    properties(property, &format!("{path}."), rows);
    properties(&property["items"], &format!("{path}[]."), rows);
    for form in property["anyOf"].as_array().into_iter().flatten() {
        properties(form, &format!("{path}."), rows);
    }
}

fn type_of(schema: &Value) -> String {
    let mut text = match (&schema["type"], &schema["enum"], &schema["anyOf"]) {
        (_, Value::Array(values), _) => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            values.join(", ")
        }
        (_, _, Value::Array(forms)) => {
            let forms: Vec<String> = forms.iter().map(type_of).collect();
            forms.join(" or ")
        }
        (Value::String(name), ..) if name == "array" => match &schema["items"] {
            Value::Null => "array".to_owned(),
            items => format!("array of {}", type_of(items)),
        },
        (Value::String(name), ..) => name.clone(),
        (Value::Array(names), ..) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => match (&schema["const"], schema["$ref"].as_str()) {
            (Value::Null, Some(name)) => name.rsplit('/').next().unwrap_or_default().to_owned(),
            (Value::Null, None) => "any".to_owned(),
            (value, _) => format!("`{value}`"),
        },
    };
    let bounds = [
        ("minimum", "≥"),
        ("maximum", "≤"),
        ("minLength", "length ≥"),
        ("maxLength", "length ≤"),
        ("minItems", "items ≥"),
        ("maxItems", "items ≤"),
    ];
    for (name, sign) in bounds {
        if let Some(bound) = schema[name].as_u64().filter(|bound| *bound > 0) {
            text.push_str(&format!(", {sign} {bound}"));
        }
    }
    cell(&text)
}

//! Declared variables and the inputs of a run.

use serde_json::{Value, json};

use super::{assert_lines, check, object, plan, with};

fn document() -> Value {
    with(&[(
        "/variables",
        json!([
            {"name": "city", "type": "string", "required": true},
            {"name": "count", "type": "number", "defaultValue": 3},
            {"name": "flag", "type": "boolean"},
            {"name": "map/1", "type": "object", "required": true, "defaultValue": {"a": 1}},
            {"name": "list", "type": "array", "sensitive": true, "format": "ids"},
        ]),
    )])
}

#[track_caller]
fn bind(inputs: Value) -> Value {
    match plan(&document()).bind_inputs(&object(inputs)) {
        Ok(bound) => Value::Object(bound),
        Err(problems) => panic!("{problems}"),
    }
}

#[track_caller]
fn refuse(inputs: Value, expected: &[&str]) {
    let problems = plan(&document())
        .bind_inputs(&object(inputs))
        .err()
        .unwrap_or_default();
    assert_lines(&problems.listed, expected);
}

#[test]
fn inputs_win_over_defaults() {
    assert_eq!(
        bind(json!({"city": "Ulm"})),
        json!({"city": "Ulm", "count": 3, "map/1": {"a": 1}})
    );
    assert_eq!(
        bind(json!({"city": "", "count": 1.5, "flag": false, "map/1": {}, "list": []})),
        json!({"city": "", "count": 1.5, "flag": false, "map/1": {}, "list": []})
    );
}

#[test]
fn undeclared_fields_are_kept() {
    assert_eq!(
        bind(json!({"city": "x", "delaySeconds": 9}))["delaySeconds"],
        json!(9)
    );
}

#[test]
fn a_parent_may_map_an_unset_variable_to_null() {
    assert_eq!(
        bind(json!({"city": "x", "count": null}))["count"],
        json!(null)
    );
}

#[test]
fn everything_wrong_is_listed() {
    refuse(
        json!({"count": "3", "flag": 0, "map/1": null, "list": {}}),
        &[
            "/city: missing_input: is required; give it a value of type string",
            "/count: wrong_type: must be of type number, not a string",
            "/flag: wrong_type: must be of type boolean, not a number",
            "/map~11: wrong_type: must be of type object, not null",
            "/list: wrong_type: must be of type array, not an object",
        ],
    );
}

#[test]
fn declarations_are_checked() {
    check(
        &with(&[(
            "/variables",
            json!([
                {"name": "a", "type": "integer"},
                {"name": "b", "type": "number", "defaultValue": "3"},
                {"name": "c", "type": "string", "required": "yes", "default": 1},
            ]),
        )]),
        &[
            "/variables/0/type: invalid_value: `integer` is not allowed here; it is one of string, number, boolean, object, array",
            "/variables/1/defaultValue: wrong_type: must be of type number, not a string",
            "/variables/2/default: unknown_field: unknown field `default`; the fields are name, \
             type, description, required, defaultValue, sensitive, format",
            "/variables/2/required: wrong_type: must be true or false, not a string",
        ],
    );
}

#[test]
fn a_sensitive_variable_has_no_default() {
    let variable = |sensitive| {
        super::with(&[(
            "/variables",
            json!([{"name": "token", "type": "string", "sensitive": sensitive, "defaultValue": "x"}]),
        )])
    };
    super::check_warnings(&variable(false), &[]);
    super::check_warnings(
        &variable(true),
        &[
            "/variables/0/defaultValue: invalid_value: the definition shows this value of a \
             sensitive variable to its readers; give it as an input instead",
        ],
    );
}

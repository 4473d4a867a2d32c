//! Answers of OpenWOP 2 against the protocol's own schemas, if they are installed: every answer that
//! the tests of version 2 get is checked here.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use faces::openwop::v2;
use jsonschema::Registry;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::schemas::{folder_of, problems, registry_at};

const BASE: &str = "https://openwop.dev/spec/v2/";
const PAYLOADS: &str = "run-event-payloads";

/// The installed schemas.
struct Schemas {
    registry: Registry<'static>,
    /// Their names.
    names: BTreeSet<String>,
    /// The types of events that have a schema of their payload.
    types: BTreeSet<String>,
}

static SCHEMAS: LazyLock<Option<Schemas>> = LazyLock::new(|| {
    let folder = folder_of("openwop-v2")?;
    let files = std::fs::read_dir(&folder).unwrap();
    let names = files
        .filter_map(|file| file.unwrap().file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".schema.json")?.to_owned()))
        .collect();
    let payloads = std::fs::read(folder.join(format!("{PAYLOADS}.schema.json")));
    let payloads: Value =
        payloads.map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
    let types = payloads["$defs"]["_typeIndex"]["properties"].as_object();
    Some(Schemas {
        registry: registry_at(BASE, &folder),
        names,
        types: types
            .into_iter()
            .flat_map(|types| types.keys().cloned())
            .collect(),
    })
});

/// Checks a value by a schema, if it is installed.
pub(crate) fn check(schema: &str, value: &Value) {
    if let Some(schemas) = &*SCHEMAS
        && schemas.names.contains(schema)
    {
        let address = format!("{BASE}{schema}.schema.json");
        let problems = problems(&schemas.registry, &address, value);
        assert_eq!(problems, Vec::<String>::new(), "{schema}: {value:#}");
    }
}

/// Checks an event and its payload.
pub(crate) fn check_event(event: &Value) {
    check("run-event", event);
    let Some(schemas) = &*SCHEMAS else { return };
    let wire = event["type"].as_str().unwrap();
    // Older schemas have some types under their names of version 1.
    let native = v2::native_kind(wire).unwrap_or(wire);
    let names = [wire, native];
    let Some(name) = names.iter().find(|name| schemas.types.contains(**name)) else {
        return;
    };
    let address = format!("{BASE}{PAYLOADS}.schema.json#/$defs/_typeIndex/properties/{name}");
    let problems = problems(&schemas.registry, &address, &event["payload"]);
    assert_eq!(problems, Vec::<String>::new(), "{event:#}");
}

/// Checks an answer by the schema of its address.
pub(crate) fn check_answer(method: &str, address: &str, answer: &Answer) {
    let path = address.split('?').next().unwrap_or_default();
    let is_json = answer
        .header("content-type")
        .is_some_and(|media| media.starts_with("application/json"));
    if !is_json || answer.body.is_empty() {
        return;
    }
    let last = path.rsplit(['/', ':']).next().unwrap_or_default();
    let schema = match (method, path, last) {
        _ if answer.status >= 400 => "error-envelope",
        ("GET", "/.well-known/openwop", _) => "capabilities",
        ("GET", "/runs", _) => "run-list-response",
        ("GET", "/audit/verify", _) => "audit-verify-result",
        ("GET", "/host/effect-seams", _) => "effect-seam-manifest",
        ("GET", _, "diff") => "run-diff-response",
        ("GET", _, "ancestry") => "run-ancestry-response",
        ("GET", _, "dead-letters") => "webhook-dead-letter-page",
        ("POST", _, "annotations") => "annotation",
        ("GET", path, _) if path.starts_with("/interrupts/") => "suspend-request",
        ("GET", path, _) if path.starts_with("/runs/") && path.matches('/').count() == 2 => {
            "run-snapshot"
        }
        _ => return,
    };
    check(schema, &answer.json());
}

#[test]
fn schemas_of_version_2_find_faults() {
    if SCHEMAS.is_none() {
        let reason = "there is no folder of OpenWOP 2 schemas";
        return testkit::skip("schemas_of_version_2_find_faults", reason);
    }
    let event = json!({ "type": "run.failed", "payload": { "because": 1 } });
    let checked = std::panic::catch_unwind(|| check_event(&event));
    assert!(checked.is_err(), "an event without its fields is valid");
}

//! The description of this face against the API's own, if that is installed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::Caller;
use crate::host::Host;

/// The API's own description: not part of the project, for checking only.
fn original() -> Option<Value> {
    let folder = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let entries = std::fs::read_dir(folder.join("seeds")).ok()?;
    entries.flatten().find_map(|entry| {
        let text = std::fs::read_to_string(entry.path()).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        value["paths"].get("/api/runs").is_some().then_some(value)
    })
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[tokio::test]
async fn everything_the_api_describes_is_described_here() {
    let Some(original) = original() else {
        let reason = "there is no description of the workbench API";
        return testkit::skip("everything_the_api_describes_is_described_here", reason);
    };
    let host = Host::new().await;
    let ours = Caller::new(&host).get("/api/openapi.json").await.json();
    for (path, operations) in original["paths"].as_object().unwrap() {
        let shared = operations.get("parameters");
        for (method, theirs) in operations.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            let own = &ours["paths"][path][method];
            assert_eq!(own["operationId"], theirs["operationId"], "{method} {path}");
            let names = |operation: &Value| {
                let listed = operation.as_array().into_iter().flatten();
                listed
                    .map(|it| it["name"].as_str().unwrap().to_owned())
                    .collect::<BTreeSet<_>>()
            };
            let mut expected = names(&theirs["parameters"]);
            expected.extend(shared.map(names).unwrap_or_default());
            assert!(
                names(&own["parameters"]).is_superset(&expected),
                "{method} {path}"
            );
            for status in theirs["responses"].as_object().unwrap().keys() {
                let response = &own["responses"][status];
                assert!(response.is_object(), "{method} {path}: {status}");
            }
            let body = |operation: &Value| {
                operation["requestBody"]["content"]["application/json"]["schema"].clone()
            };
            assert_eq!(body(own), body(theirs), "{method} {path}");
        }
    }
    let components = |document: &Value| document["components"]["schemas"].clone();
    let (own, theirs) = (components(&ours), components(&original));
    for (name, schema) in theirs.as_object().unwrap() {
        assert_eq!(
            texts(&own[name]["required"]),
            texts(&schema["required"]),
            "{name}"
        );
        for member in schema["properties"].as_object().unwrap().keys() {
            assert!(
                own[name]["properties"].get(member).is_some(),
                "{name}.{member}"
            );
        }
    }
    let kinds = |schemas: &Value| schemas["TraceEvent"]["properties"]["type"]["enum"].clone();
    assert_eq!(texts(&kinds(&own)), texts(&kinds(&theirs)));
}

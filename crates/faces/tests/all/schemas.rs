//! Validates the output of the OpenWOP face against the protocol's own schemas, where they are
//! available.

use std::path::PathBuf;

use faces::Mask;
use faces::openwop::v1;
use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

use crate::samples;

/// The folder of external data: not part of the project, for checks only.
pub(crate) fn shared() -> Option<PathBuf> {
    let folder = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    folder.join("schemas/openwop").is_dir().then_some(folder)
}

const BASE: &str = "https://openwop.dev/spec/v1/";

/// Protocol types that may be missing in the available schemas: only their envelope is validated.
const YOUNGER: [&str; 2] = ["core.dispatch.fanOut", "core.dispatch.join"];

/// The protocol's schemas, by the addresses they refer to each other with.
pub(crate) struct Schemas {
    registry: Registry<'static>,
    types: Vec<String>,
}

impl Schemas {
    /// `None`, with a named skip, where they are missing.
    pub(crate) fn find(test: &str) -> Option<Self> {
        let Some(folder) = shared() else {
            testkit::skip(test, "there is no folder of OpenWOP schemas");
            return None;
        };
        let mut registry = Registry::new();
        let mut types = Vec::new();
        let entries = std::fs::read_dir(folder.join("schemas/openwop")).expect("a folder");
        for entry in entries {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if !name.ends_with(".schema.json") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("readable");
            let schema: Value = serde_json::from_str(&text).expect("JSON");
            if let Some(index) = schema.pointer("/$defs/_typeIndex/properties") {
                let index = index.as_object().expect("an object");
                types = index.keys().cloned().collect();
            }
            registry = registry
                .add(format!("{BASE}{name}"), schema)
                .expect("an address");
        }
        Some(Self {
            registry: registry.prepare().expect("every reference resolves"),
            types,
        })
    }

    fn validator(&self, reference: &str) -> Validator {
        jsonschema::options()
            .with_registry(&self.registry)
            .should_validate_formats(true)
            .build(&json!({ "$ref": format!("{BASE}{reference}") }))
            .expect("a schema")
    }

    /// The schema errors of a snapshot.
    pub(crate) fn snapshot(&self, doc: &Value) -> Vec<String> {
        problems(&self.validator("run-snapshot.schema.json"), doc)
    }

    /// The schema errors of an event: of its envelope, and of its payload by its type.
    pub(crate) fn event(&self, doc: &Value) -> Vec<String> {
        let envelope = self.validator("run-event.schema.json");
        let kind = doc["type"].as_str().expect("a type");
        if YOUNGER.contains(&kind) && !self.types.iter().any(|t| t == kind) {
            let mut known = doc.clone();
            known["type"] = json!("node.dispatched");
            return problems(&envelope, &known);
        }
        let mut found = problems(&envelope, doc);
        if kind.starts_with("runwright.") {
            return found;
        }
        if !self.types.iter().any(|t| t == kind) {
            found.push(format!("{kind} is not a type of the protocol"));
            return found;
        }
        let payload = self.validator(&format!(
            "run-event-payloads.schema.json#/$defs/_typeIndex/properties/{kind}"
        ));
        found.extend(problems(&payload, &doc["payload"]));
        found
    }
}

fn problems(validator: &Validator, value: &Value) -> Vec<String> {
    validator
        .iter_errors(value)
        .map(|problem| format!("{}: {problem}", problem.instance_path()))
        .collect()
}

#[test]
fn every_event_is_valid_by_its_type() {
    let Some(schemas) = Schemas::find("every_event_is_valid_by_its_type") else {
        return;
    };
    for doc in v1::events(&samples::header(), Mask::bare(), &samples::log()) {
        assert_eq!(schemas.event(&doc), Vec::<String>::new(), "{doc:#}");
    }
}

#[test]
fn the_schemas_reject_invalid_documents() {
    let Some(schemas) = Schemas::find("the_schemas_reject_invalid_documents") else {
        return;
    };
    let header = samples::header();
    let good = v1::event(&header, Mask::bare(), &samples::log()[0]);
    let breakages: [fn(&mut Value); 3] = [
        |doc| doc["payload"]["transport"] = json!("cli"),
        |doc| doc["payload"]["owner"]["issuer"] = json!("x"),
        |doc| doc["type"] = json!("core.invented"),
    ];
    for breakage in breakages {
        let mut bad = good.clone();
        breakage(&mut bad);
        assert!(!schemas.event(&bad).is_empty(), "{bad:#}");
    }
}

//! Run bundles: the export form of a run, with its hash.
//!
//! The hash is SHA-256 over canonical JSON (RFC 8785) of the members of the bundle's schema: see
//! `strip`. It detects accidental changes. A deliberate change can include a new hash, so it does
//! not prove an origin.

use kernel::digest::Digest;
use kernel::document::{Body, Derived};
use kernel::json;
use serde_json::{Map, Value, json};

use super::payload_hash::payload_hash;
use super::{Bad, bad, document, strip};

/// The version of bundles.
pub const PROTOCOL_VERSION: &str = "1.0.0";

const INVALID: &str = "INVALID_RUN_BUNDLE";

/// The result of verifying a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The run's id.
    pub run: String,
    /// The hash of its content.
    pub sha256: Digest,
    /// Whether it equals the bundle's own; `None` where the bundle has none.
    pub matches: Option<bool>,
    /// Artifacts whose data does not match their `payloadHash`. The client leaves a stale hash when
    /// it patches an artifact, so they do not cause a refusal.
    pub stale_hashes: Vec<String>,
    /// Events of unknown kinds. The client refuses a bundle with such events.
    pub unknown_events: usize,
}

/// A document as a bundle with its hash.
pub fn export(body: &Body) -> Value {
    let derived = &body.derived;
    let sorted = |entries: &kernel::document::Entries| {
        let mut pairs: Vec<_> = entries.iter().collect();
        pairs.sort_by_key(|(key, _)| *key);
        pairs
            .into_iter()
            .map(|(_, value)| value.clone())
            .collect::<Value>()
    };
    let pairs = |entries: &kernel::document::Entries| {
        entries
            .iter()
            .map(|(key, value)| json!([key, value]))
            .collect::<Value>()
    };
    let engine = json!({
        "revision": body.revision,
        "stepStatus": pairs(&derived.steps),
        "gateState": pairs(&derived.gates),
        "idempotency": pairs(&derived.idempotency),
    });
    let mut bundle = hashed(&json!({
        "run": derived.run,
        "trace": body.trace,
        "artifacts": sorted(&derived.artifacts),
        "ruleSets": sorted(&derived.rules),
        "engine": engine,
    }));
    let sha256 = Digest::compute(&json::canonical(&bundle));
    bundle["protocolVersion"] = json!(PROTOCOL_VERSION);
    bundle["integrity"] = json!({ "sha256": sha256 });
    bundle
}

/// The part of a bundle that the hash covers, reduced by the schema. Events of unknown kinds, which
/// the schema does not cover, stay unchanged.
fn hashed(bundle: &Value) -> Value {
    let mut out = Map::new();
    out.insert("run".into(), strip::object(&bundle["run"], strip::RUN));
    let events = bundle["trace"].as_array().map(Vec::as_slice);
    let events = events.unwrap_or_default().iter();
    let events = events.map(|event| strip::event(event).unwrap_or_else(|| event.clone()));
    out.insert("trace".into(), events.collect());
    out.insert(
        "artifacts".into(),
        strip::each(&bundle["artifacts"], strip::ARTIFACT),
    );
    out.insert(
        "ruleSets".into(),
        strip::each(&bundle["ruleSets"], strip::RULES),
    );
    if let Some(engine) = bundle.get("engine") {
        out.insert("engine".into(), strip::object(engine, strip::ENGINE));
    }
    Value::Object(out)
}

/// Checks a bundle's hashes.
///
/// # Errors
/// It is not a bundle.
pub fn verify(bundle: &Value) -> Result<Verified, Bad> {
    shape(bundle)?;
    let sha256 = Digest::compute(&json::canonical(&hashed(bundle)));
    let named = bundle["integrity"]["sha256"].as_str();
    let events = bundle["trace"].as_array().into_iter().flatten();
    let artifacts = bundle["artifacts"].as_array().into_iter().flatten();
    let stale = artifacts.filter(|artifact| {
        let pointer = &artifact["pointer"];
        let named = pointer["payloadHash"]
            .as_str()
            .or(pointer["sha256"].as_str());
        let data = artifact.get("data").filter(|_| pointer["kind"] == "inline");
        match (named, data) {
            (Some(named), Some(data)) => payload_hash(data).to_string() != named,
            _ => false,
        }
    });
    let key = |artifact: &Value| {
        artifact["artifactKey"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    Ok(Verified {
        run: bundle["run"]["id"].as_str().unwrap_or_default().to_owned(),
        sha256,
        matches: named.map(|named| named == sha256.to_string()),
        stale_hashes: stale.map(key).collect(),
        unknown_events: events.filter(|event| strip::event(event).is_none()).count(),
    })
}

fn shape(bundle: &Value) -> Result<(), Bad> {
    if bundle["protocolVersion"] != PROTOCOL_VERSION {
        return bad(
            INVALID,
            "this is not a run bundle of protocol version 1.0.0",
        );
    }
    let is_list = |name: &str| bundle[name].is_array();
    if !bundle["run"].is_object() || !["trace", "artifacts", "ruleSets"].into_iter().all(is_list) {
        return bad(INVALID, "a bundle has run, trace, artifacts and ruleSets");
    }
    Ok(())
}

/// Whether an import requires the bundle's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// It must be present and correct.
    Required,
    /// It is not checked.
    Ignored,
}

/// Reads a bundle into a document.
///
/// # Errors
/// The first error; `MISSING_INTEGRITY`, `INTEGRITY_MISMATCH`.
pub fn import(bundle: &Value, integrity: Integrity) -> Result<Body, Bad> {
    let found = verify(bundle)?;
    match (integrity, found.matches) {
        (Integrity::Ignored, _) | (_, Some(true)) => {}
        (_, None) => return bad("MISSING_INTEGRITY", "the bundle has no integrity hash"),
        (_, Some(false)) => {
            return bad(
                "INTEGRITY_MISMATCH",
                "the bundle's hash does not match its contents",
            );
        }
    }
    let read = hashed(bundle);
    let list = |name: &str| read[name].as_array().cloned().unwrap_or_default();
    let artifacts = list("artifacts");
    check_twice(
        artifacts
            .iter()
            .map(|it| format!("{}@{}", it["artifactKey"], it["version"])),
    )?;
    let rules = list("ruleSets");
    check_twice(rules.iter().map(|set| set["id"].to_string()))?;
    for set in &rules {
        let listed = set["rules"].as_array().into_iter().flatten();
        check_twice(listed.map(|rule| rule["id"].to_string()))?;
    }
    let trace = list("trace");
    let mut latest: Vec<Value> = Vec::new();
    for artifact in artifacts {
        let known = latest
            .iter_mut()
            .find(|it| it["artifactKey"] == artifact["artifactKey"]);
        match known {
            Some(known) if known["version"].as_u64() < artifact["version"].as_u64() => {
                *known = artifact;
            }
            Some(_) => {}
            None => latest.push(artifact),
        }
    }
    let keyed = |items: Vec<Value>, key: &str| {
        items
            .into_iter()
            .map(|item| json!([item[key], item]))
            .collect::<Value>()
    };
    let engine = engine(&read, &trace)?;
    document::of_value(json!({
        "revision": engine["revision"],
        "run": read["run"],
        "trace": trace,
        "artifactsByKey": keyed(latest, "artifactKey"),
        "ruleSetsById": keyed(rules, "id"),
        "stepStatus": engine["stepStatus"],
        "gateState": engine["gateState"],
        "idempotency": engine["idempotency"],
    }))
}

fn check_twice(names: impl Iterator<Item = String>) -> Result<(), Bad> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return bad(INVALID, "the bundle repeats an id, a version or a step");
        }
    }
    Ok(())
}

/// The engine's part, or where the bundle has none, the result of its trace.
fn engine(read: &Value, trace: &[Value]) -> Result<Value, Bad> {
    if let Some(engine) = read.get("engine") {
        for name in ["stepStatus", "gateState", "idempotency"] {
            let pairs = engine[name].as_array().into_iter().flatten();
            check_twice(pairs.map(|pair| pair[0].to_string()))?;
        }
        return Ok(engine.clone());
    }
    let run = read["run"].as_object().cloned().unwrap_or_default();
    let mut derived = Derived::opened(run);
    for event in trace {
        derived.fold(event);
    }
    let pairs = |entries: &kernel::document::Entries| {
        entries
            .iter()
            .map(|(key, value)| json!([key, value]))
            .collect::<Value>()
    };
    Ok(json!({
        "revision": trace.len(),
        "stepStatus": pairs(&derived.steps),
        "gateState": pairs(&derived.gates),
        "idempotency": [],
    }))
}

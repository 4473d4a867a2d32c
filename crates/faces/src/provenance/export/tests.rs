use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::read::document;
use super::*;

fn snapshot() -> Snapshot {
    let value = json!({
        "snapshot_id": "0190a7c1-0000-7000-8000-00000000000a", "workflow_id": "paint: door",
        "captured_at": "2026-03-01T08:30:15.250Z",
        "config": { "model": { "id": "big-3", "provider": "acme" }, "execution_mode": "strict",
                    "temperature": 0, "seed": 7, "system_prompt_hash": "aa".repeat(32) },
        "agent": { "name": "Painter" },
        "inputs": { "user_prompt": "the secret wish", "user_prompt_hash": "bb".repeat(32),
                    "context_files": [{ "path": "doors/big door.md", "hash": "cc".repeat(32) }] },
        "outputs": { "response": "the secret answer", "response_hash": "dd".repeat(32),
            "artifacts_created": [
                { "path": "new.txt", "hash": "01".repeat(32), "operation": "created" },
                { "path": "doors/big door.md", "hash": "02".repeat(32), "operation": "modified" },
                { "path": "old.txt", "hash": "03".repeat(32), "operation": "deleted" } ],
            "tool_calls": [
                { "tool": "Edit", "input_hash": "e1".repeat(32), "output_hash": "e2".repeat(32) },
                { "tool": "Edit", "input_hash": "e1".repeat(32), "output_hash": "e2".repeat(32) } ] },
        "metrics": { "duration_ms": 0 },
        "extensions": { "parent": { "snapshot_id": "p1", "fork_step": 2 } },
    });
    document(value).unwrap().snapshot
}

/// Every text under a member that names something.
fn named(value: &Value, names: &mut BTreeSet<String>) {
    const REFERENCES: [&str; 12] = [
        "prov:entity",
        "prov:activity",
        "prov:agent",
        "prov:generatedEntity",
        "prov:usedEntity",
        "prov:informed",
        "prov:informant",
        "prov:specificEntity",
        "prov:generalEntity",
        "prov:delegate",
        "prov:responsible",
        "prov:plan",
    ];
    for (name, member) in value.as_object().into_iter().flatten() {
        match member.as_str() {
            Some(text) if REFERENCES.contains(&name.as_str()) => {
                names.insert(text.to_owned());
            }
            _ => named(member, names),
        }
    }
}

#[test]
fn everything_that_prov_names_is_declared_and_no_text_goes_out() {
    let attempt = json!({ "attempt": 1, "at": "2026-03-02T00:00:00.000Z", "kind": "verify",
                          "status": "exact_match", "pass": true });
    let prov = prov::document(&snapshot(), &[serde_json::from_value(attempt).unwrap()]);
    let mut names = BTreeSet::new();
    named(&prov, &mut names);
    let declared: BTreeSet<&String> = ["entity", "activity", "agent"]
        .iter()
        .flat_map(|part| prov[*part].as_object().unwrap().keys())
        .collect();
    for name in &names {
        assert!(declared.contains(name), "{name} is not declared");
        assert!(name.starts_with("aiwg:") && !name.contains(' '), "{name}");
    }
    let text = prov.to_string();
    assert!(!text.contains("secret"), "{text}");
    let run = &prov["activity"]["aiwg:activity:generation:paint%3A%20door:0190a7c1-0000-7000-8000-00000000000a"];
    assert!(
        run["prov:startTime"].as_str() < run["prov:endTime"].as_str(),
        "{run}"
    );
    let count = |part: &str| prov[part].as_object().map_or(0, |part| part.len());
    let expected = [
        ("used", 5),
        ("wasInvalidatedBy", 1),
        ("wasDerivedFrom", 2),
        ("wasInformedBy", 3),
    ];
    for (part, expected) in expected {
        assert_eq!(count(part), expected, "{part}");
    }
    // Only members of the format, for any snapshot.
    let parts: Vec<&String> = prov.as_object().unwrap().keys().collect();
    assert!(
        parts
            .iter()
            .all(|part| !part.to_lowercase().contains("ended")),
        "{parts:?}"
    );
}

#[test]
fn lineage_says_when_it_started_and_how_it_ended() {
    let mut snapshot = snapshot();
    let kinds = |snapshot: &Snapshot| {
        let events = openlineage::events(snapshot);
        let kinds = events
            .iter()
            .map(|event| event["eventType"].as_str().unwrap().to_owned());
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(kinds(&snapshot), ["START", "COMPLETE"]);
    snapshot.extend().run_status = Some("failed".into());
    assert_eq!(kinds(&snapshot), ["START", "FAIL"]);
    let events = openlineage::events(&snapshot);
    for event in &events {
        for needed in ["eventTime", "producer", "schemaURL"] {
            assert!(event[needed].is_string(), "{needed}");
        }
        assert_eq!(event["run"]["runId"], snapshot.snapshot_id);
        let outputs = event["outputs"].as_array().unwrap();
        let changes = outputs.iter().map(|file| {
            let change = &file["facets"]["lifecycleStateChange"]["lifecycleStateChange"];
            change.as_str().unwrap()
        });
        let mut changes: Vec<&str> = changes.collect();
        changes.sort_unstable();
        assert_eq!(changes, ["CREATE", "DROP", "OVERWRITE"]);
        assert!(!event.to_string().contains("secret"));
    }
    assert!(events[0]["eventTime"].as_str() < events[1]["eventTime"].as_str());
}

#[test]
fn each_attempt_is_its_own_activity_even_if_abandoned() {
    // Older files number an abandoned attempt like the next finished one.
    let attempts = [
        ("verify", Value::Null),
        ("rerun", "no_match".into()),
        ("env", Value::Null),
    ];
    let attempts = attempts.map(|(kind, status)| {
        let attempt = json!({ "attempt": 1, "at": "2026-03-02T00:00:00.000Z", "kind": kind, "status": status });
        serde_json::from_value(attempt).unwrap()
    });
    let prov = prov::document(&snapshot(), &attempts);
    let activities = prov["activity"].as_object().unwrap();
    let told = activities
        .iter()
        .filter(|(name, _)| name.contains(":validation:"));
    let told = told.map(|(_, activity)| {
        let said = |name: &str| activity[name].as_str().unwrap().to_owned();
        format!("{} {}", said("aiwg:kind"), said("aiwg:match_status"))
    });
    let told: Vec<String> = told.collect();
    assert_eq!(told, ["verify aborted", "rerun no_match", "env aborted"]);
}

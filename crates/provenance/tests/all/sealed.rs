//! Whether any change of a snapshot can go undetected.

use std::fs;

use faces::provenance::document::MatchStatus;
use provenance::Strictness;
use serde_json::{Value, json};

use crate::support::*;

/// The pointers of all values in a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let names: Vec<String> = match value {
        Value::Object(members) => members.keys().cloned().collect(),
        Value::Array(items) => (0..items.len()).map(|at| at.to_string()).collect(),
        _ => Vec::new(),
    };
    for name in names {
        let step = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        let at = format!("{at}{step}");
        pointers(value.pointer(&step).unwrap(), &at, all);
        all.push(at);
    }
}

#[test]
fn every_member_is_under_a_seal() {
    let (_root, folder) = folder();
    let hash = folder.writer().unwrap().put_blob(b"{}").unwrap();
    let mut draft = draft("yard", "2026-03-01T00:00:00.000Z");
    draft.extend().name = Some("first".into());
    draft.metrics.get_or_insert_default().duration_ms = Some(7);
    let kept = write(&folder, draft, &[call(1, &hash, &hash)]);
    let tried = attempt(
        "2026-03-02T00:00:00.000Z",
        Some(MatchStatus::ExactMatch),
        true,
    );
    folder
        .record_replay(&kept.path, tried, Some(&key()))
        .unwrap();
    let whole = fs::read(&kept.path).unwrap();
    let document: Value = serde_json::from_slice(&whole).unwrap();
    let mut all = Vec::new();
    pointers(&document, "", &mut all);
    assert!(all.len() > 25, "{all:?}");
    let is_valid = |document: &Value| {
        fs::write(&kept.path, document.to_string()).unwrap();
        let read = folder.read(&kept.path);
        read.is_ok_and(|kept| folder.verify(&kept, Strictness::Lenient).unwrap().is_valid)
    };
    assert!(is_valid(&document));
    for at in &all {
        let (above, name) = at.rsplit_once('/').unwrap();
        let mut without = document.clone();
        match without.pointer_mut(above).unwrap() {
            Value::Object(members) => drop(members.remove(name)),
            Value::Array(items) => drop(items.remove(name.parse().unwrap())),
            _ => unreachable!("{at}"),
        }
        assert!(!is_valid(&without), "{at} is gone");
        let mut other = document.clone();
        *other.pointer_mut(at).unwrap() = json!({ "other": 1 });
        assert!(!is_valid(&other), "{at} is another");
        let mut more = document.clone();
        if let Some(Value::Object(members)) = more.pointer_mut(at) {
            members.insert("one_more".into(), json!(1));
            assert!(!is_valid(&more), "{at} has one more");
        }
    }
    fs::write(&kept.path, whole).unwrap();
    let read = folder.read(&kept.path).unwrap();
    assert!(folder.verify(&read, Strictness::Strict).unwrap().is_valid);
}

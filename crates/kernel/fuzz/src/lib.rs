//! The functions of the fuzz targets. `tests/kernel/outside.rs` calls them with mutated golden
//! logs, so that ci runs them without cargo-fuzz.

use std::sync::Arc;

use kernel::definition::{Definition, NodeKind, NodeTypes, Plan, UnknownTypes};
use kernel::json::{self, Limits};
use kernel::limits::{MAX_DEFINITION_BYTES, MAX_JSON_DEPTH};
use kernel::problem::Problem;
use kernel::run::{Run, RunIndex};
use kernel::stream::StreamHeader;
use serde_json::Value;

/// Node types in which every type exists and takes any config.
struct AnyType;

impl NodeTypes for AnyType {
    fn kind(&self, _: &str) -> Option<NodeKind> {
        Some(NodeKind::Work)
    }

    fn type_ids(&self) -> Vec<String> {
        Vec::new()
    }

    fn check_config(&self, _: &str, _: &Value) -> Vec<Problem> {
        Vec::new()
    }
}

fn read(data: &[u8]) -> Option<Value> {
    let limits = Limits {
        max_bytes: MAX_DEFINITION_BYTES,
        max_depth: MAX_JSON_DEPTH,
    };
    json::parse(data, limits).ok()
}

/// A document is compiled or rejected with a reason; its canonical form compiles to the same plan.
pub fn definition(data: &[u8]) {
    let Some(document) = read(data) else { return };
    let _ = Definition::parse(&document);
    match Plan::from_json(&document, &AnyType, UnknownTypes::Warn) {
        Ok(plan) => {
            let canonical = read(&json::canonical(&document)).expect("canonical JSON is read");
            let again = Plan::from_json(&canonical, &AnyType, UnknownTypes::Warn);
            let again = again.expect("the canonical form compiles, too");
            assert_eq!(again.digest, plan.digest);
            assert_eq!(again.nodes.len(), plan.nodes.len());
        }
        Err(problems) => assert!(!problems.to_string().is_empty(), "a refusal has a reason"),
    }
}

/// A log in the form of a golden one (header and definition on the first line, an event on each
/// further line) is folded until the first fault. The resulting state can be shown, kept as a
/// checkpoint and checked.
pub fn log(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let Some(first) = lines.next().and_then(read) else {
        return;
    };
    let Ok(header) = serde_json::from_value::<StreamHeader>(first["header"].clone()) else {
        return;
    };
    let Ok(plan) = Plan::from_json(&first["definition"], &AnyType, UnknownTypes::Warn) else {
        return;
    };
    let (header, plan) = (Arc::new(header), Arc::new(plan));
    let mut run = Run::unborn(header.clone(), plan.clone());
    let mut events = Vec::new();
    for line in lines {
        // A state whose fold failed must not be used.
        let before = run.clone();
        match run.fold_content(line) {
            Ok(event) => events.push(event),
            Err(_) => {
                run = before;
                break;
            }
        }
    }
    let index = RunIndex::from_run(&run);
    assert_eq!(index.settled, run.is_settled());
    let _ = run.next_timer();
    let _ = kernel::check::check(&header, &plan, &events);
    if events.is_empty() {
        return;
    }
    let head = run.head;
    let state = run.checkpoint();
    let kept = Run::from_checkpoint(header, plan, head.next_seq, head.chain, &state);
    assert_eq!(kept.expect("a checkpoint is read back").state, run.state);
}

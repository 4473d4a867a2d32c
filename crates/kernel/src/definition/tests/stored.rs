//! Stored definitions read by today's rules.

use serde_json::{Value, json};

use super::{Types, load, node, with};
use crate::definition::{Plan, UnknownTypes};
use crate::problem::Problems;

fn stored(document: &Value) -> Result<Plan, Problems> {
    Plan::from_stored(document, &Types, UnknownTypes::Refuse)
}

#[test]
fn registration_rules_do_not_apply_to_stored_definitions() {
    let mut chooses = node("c", "core.conditional");
    chooses["config"] = json!({});
    let long = "n".repeat(200);
    let port = json!({ "type": "variable", "variableName": "nobody-sets-it" });
    for change in [
        ("/slug", json!("No Slug")),
        ("/id", json!("Not-As-Today")),
        ("/name", json!("x".repeat(300))),
        ("/version", json!("v".repeat(300))),
        ("/unheardOf", json!(1)),
        ("/metadata/tags", json!([""])),
        ("/settings/maxRetries", json!(1_000_000)),
        (
            "/variables/-",
            json!({ "name": "n", "type": "number", "defaultValue": "x" }),
        ),
        ("/nodes/0/id", json!(long)),
        ("/nodes/0/inputs/p", port),
        ("/nodes/0/settings", json!({ "retry": { "factor": 0.5 } })),
        ("/nodes/0/typeId", json!("work.picky")),
        ("/nodes", json!([chooses])),
    ] {
        let document = with(std::slice::from_ref(&change));
        assert!(load(&document).is_err(), "{change:?} is refused when new");
        let read = stored(&document);
        assert_eq!(read.map(|plan| plan.nodes.len()), Ok(1), "{change:?}");
    }
}

#[test]
fn a_number_beyond_a_bound_counts_as_the_bound() {
    let plan = |retries: u64| {
        let document = with(&[("/settings/maxRetries", json!(retries))]);
        stored(&document).expect("it was stored").settings
    };
    let most = u64::from(crate::limits::MAX_RETRIES);
    assert_eq!(plan(most + 1), plan(most));
    assert_ne!(plan(most - 1), plan(most));
}

#[test]
fn stored_definitions_without_meaning_are_rejected() {
    let to = |target: &str| json!([{ "id": "e", "sourceNodeId": "a", "targetNodeId": target }]);
    for change in [
        ("/nodes", json!(1)),
        ("/nodes/0/typeId", json!("core.unheard-of")),
        ("/edges", to("nowhere")),
        (
            "/nodes/0/inputs/p",
            json!({ "type": "expression", "expression": "1 +" }),
        ),
    ] {
        let document = with(std::slice::from_ref(&change));
        assert!(stored(&document).is_err(), "{change:?}");
    }
}

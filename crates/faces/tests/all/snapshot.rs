//! Runs as OpenWOP v1 snapshots, and their logs, over runs the real kernel decided.

use faces::Mask;
use faces::openwop::v1;
use serde_json::json;

use crate::scenarios;
use crate::schemas::Schemas;

#[test]
fn runs_are_rendered_as_documented() {
    for (name, world) in scenarios::all() {
        insta::assert_json_snapshot!(
            format!("scenario_{name}"),
            json!({
                "events": v1::events(&world.run.header, Mask::from_plan(&world.run.plan), &world.log),
                "snapshot": v1::snapshot(&world.run),
            })
        );
    }
}

#[test]
fn every_moment_of_every_run_is_valid_by_the_schemas() {
    let Some(schemas) = Schemas::find("every_moment_of_every_run_is_valid_by_the_schemas") else {
        return;
    };
    for (name, world) in scenarios::all() {
        for doc in v1::events(
            &world.run.header,
            Mask::from_plan(&world.run.plan),
            &world.log,
        ) {
            assert_eq!(schemas.event(&doc), Vec::<String>::new(), "{name}: {doc:#}");
        }
        for run in world.prefixes() {
            let doc = v1::snapshot(&run);
            assert_eq!(
                schemas.snapshot(&doc),
                Vec::<String>::new(),
                "{name}: {doc:#}"
            );
        }
    }
}

#[test]
fn a_snapshot_has_end_and_error_exactly_as_its_status_requires() {
    for (name, world) in scenarios::all() {
        for run in world.prefixes() {
            let doc = v1::snapshot(&run);
            let status = doc["status"].as_str().expect("a status");
            let terminal = ["completed", "failed", "cancelled"].contains(&status);
            assert_eq!(
                doc.get("completedAt").is_some(),
                terminal,
                "{name}: {doc:#}"
            );
            assert_eq!(doc.get("endedAt"), doc.get("completedAt"), "{name}");
            assert_eq!(
                doc.get("error").is_some(),
                status == "failed",
                "{name}: {doc:#}"
            );
        }
    }
}

#[test]
fn values_declared_sensitive_are_masked() {
    let (_, world) = scenarios::all()
        .into_iter()
        .find(|(name, _)| *name == "secretive")
        .expect("a scenario");
    let doc = v1::snapshot(&world.run);
    let text = doc.to_string();
    assert!(!text.contains("canary"), "{doc:#}");
    assert_eq!(
        doc["variables"],
        json!({ "owner": "Ada", "pin": "[REDACTED]" })
    );
    assert_eq!(doc["nodeStates"]["open"]["outputs"]["weight"], 3);
}

//! From logs to files.

use std::collections::{BTreeMap, BTreeSet};

use faces::player::compile::Settings;
use faces::player::foreign::Foreign;
use kernel::run::{Command, NodeError, Outcome};
use serde_json::{Value, json};

use super::{Session, review, template};

const PLAN: &str = ".workflow/sessions/WFS-plan-20260317/IMPL_PLAN.md";

fn at_second_node() -> Session {
    let goal = [
        ("goal", "Implement user authentication"),
        ("scope", "src/auth"),
    ];
    Session::start(&review(), &goal).complete_saying(
        "N-001",
        json!({
            "session_id": "WFS-plan-20260317", "output_path": PLAN, "artifacts": [PLAN],
            "output": "planned",
        }),
    )
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == "2026-03-17T14:30:22Z".len() && text.ends_with('Z') && !text.contains('.')
}

/// The state file of such sessions from before Runwright, field by field.
#[test]
fn a_session_stopped_at_node_two_has_documented_state() {
    let (mut state, snapshots) = at_second_node().files();
    let folder = ".workflow/sessions/WFR-feature-tdd-review-20260317-143022";
    let seq = state["x_play"]["seq"].as_u64().unwrap();
    assert!(seq > 0);
    state.as_object_mut().unwrap().remove("x_play");

    let mut times = 0;
    let mut take = |value: &mut Value| {
        assert!(is_time(value), "{value}");
        times += 1;
        *value = json!("T");
    };
    take(&mut state["created_at"]);
    take(&mut state["updated_at"]);
    take(&mut state["node_states"]["N-001"]["started_at"]);
    take(&mut state["node_states"]["N-001"]["completed_at"]);
    take(&mut state["node_states"]["CP-01"]["saved_at"]);
    take(&mut state["node_states"]["N-002"]["started_at"]);
    assert_eq!(times, 6);
    let task = state["node_states"]["N-002"]["cli_task_id"].take();
    let task = task.as_str().unwrap();
    assert!(task.starts_with("gem-") && task.len() == 15, "{task}");

    let pending = json!({
        "status": "pending", "started_at": null, "completed_at": null, "session_id": null,
        "output_path": null, "artifacts": [], "error": null,
    });
    let expected = json!({
        "session_id": "WFR-feature-tdd-review-20260317-143022",
        "template_id": "wft-feature-tdd-review-20260310",
        "template_path": ".workflow/templates/feature-tdd-review.json",
        "template_name": "Feature TDD with Review",
        "status": "running",
        "context": { "goal": "Implement user authentication", "scope": "src/auth" },
        "execution_plan": [
            { "batch": 1, "nodes": ["N-001"], "parallel": false },
            { "batch": 2, "nodes": ["CP-01"], "parallel": false },
            { "batch": 3, "nodes": ["N-002"], "parallel": false },
            { "batch": 4, "nodes": ["CP-02"], "parallel": false },
            { "batch": 5, "nodes": ["N-003a", "N-003b"], "parallel": true },
            { "batch": 6, "nodes": ["N-004"], "parallel": false },
        ],
        "current_batch": 3,
        "current_node": "N-002",
        "last_checkpoint": "CP-01",
        "node_states": {
            "N-001": {
                "status": "completed", "started_at": "T", "completed_at": "T",
                "session_id": "WFS-plan-20260317", "output_path": PLAN, "artifacts": [PLAN],
                "error": null,
            },
            "CP-01": {
                "status": "completed", "saved_at": "T",
                "snapshot_path": format!("{folder}/checkpoints/CP-01.json"),
                "auto_continue": true,
            },
            "N-002": {
                "status": "running", "started_at": "T", "completed_at": null, "session_id": null,
                "output_path": null, "artifacts": [], "error": null, "cli_task_id": null,
            },
            "CP-02": { "status": "pending", "saved_at": null, "snapshot_path": null },
            "N-003a": pending, "N-003b": pending, "N-004": pending,
        },
        "created_at": "T",
        "updated_at": "T",
        "completed_at": null,
    });
    assert_eq!(state, expected);

    let [snapshot] = snapshots.as_slice() else {
        panic!("one snapshot: {snapshots:?}")
    };
    let snapshot = json!(snapshot);
    let keys: Vec<&String> = snapshot.as_object().unwrap().keys().collect();
    let expected = [
        "checkpoint_id",
        "checkpoint_name",
        "context_snapshot",
        "last_completed_node",
        "next_node",
        "node_states_snapshot",
        "saved_at",
        "session_id",
    ];
    assert_eq!(keys, expected);
    assert_eq!(snapshot["checkpoint_id"], "CP-01");
    assert_eq!(snapshot["checkpoint_name"], "After Plan");
    assert_eq!(snapshot["last_completed_node"], "N-001");
    assert_eq!(snapshot["next_node"], "N-002");
    assert_eq!(
        snapshot["node_states_snapshot"]["CP-01"]["status"],
        "completed"
    );
    assert_eq!(
        snapshot["node_states_snapshot"]["N-002"]["status"],
        "pending"
    );
}

#[test]
fn references_are_filled_when_a_node_starts() {
    let session = at_second_node();
    let inputs = session.inputs("N-002");
    assert_eq!(inputs["{goal}"], "Implement user authentication");
    assert_eq!(inputs["{N-001.output_path}"], PLAN);

    let session = session
        .complete_saying(
            "N-002",
            json!({ "output_path": "analysis.md", "output": "analysed" }),
        )
        .answer("CP-02", json!({ "action": "accept" }));
    assert_eq!(
        session.inputs("N-003a")["{N-001.session_id}"],
        "WFS-plan-20260317"
    );
    assert_eq!(
        session.inputs("N-003b")["{prev_output_path}"],
        "analysis.md"
    );
    let session = session.complete("N-003b").complete("N-003a");
    let output = &session.inputs("N-004")["{prev_output}"];
    assert_eq!(
        output, "N-003b is done",
        "the last of the batch, whichever ended last"
    );
}

#[test]
fn an_asking_checkpoint_pauses_until_it_is_accepted() {
    let session = at_second_node().complete("N-002");
    let (state, snapshots) = session.files();
    assert_eq!(state["status"], "paused");
    assert_eq!(state["current_node"], "CP-02");
    assert_eq!(state["last_checkpoint"], "CP-02");
    assert_eq!(state["node_states"]["CP-02"]["status"], "completed");
    assert_eq!(state["node_states"]["CP-02"]["auto_continue"], false);
    assert_eq!(state["x_play"]["waits_at"], "CP-02");
    assert_eq!(snapshots.len(), 2);
    assert_eq!(snapshots[1].next_node.as_deref(), Some("N-003a"));

    let state = session
        .answer("CP-02", json!({ "action": "accept" }))
        .state();
    assert_eq!(state["status"], "running");
    assert_eq!(state["current_batch"], 5);
    for node in ["N-003a", "N-003b"] {
        assert_eq!(state["node_states"][node]["status"], "running");
    }
}

#[test]
fn rejecting_a_checkpoint_aborts_the_session() {
    let session = at_second_node().complete("N-002");
    let state = session
        .answer("CP-02", json!({ "action": "reject" }))
        .state();
    assert_eq!(state["status"], "aborted");
    assert_eq!(state["node_states"]["CP-02"]["status"], "completed");
    assert_eq!(state["x_play"]["aborted_at"], "CP-02");
    assert_eq!(state["node_states"]["N-003a"]["status"], "pending");
    assert!(is_time(&state["completed_at"]));
}

fn failed() -> Session {
    let mut session = Session::start(&review(), &[("goal", "g")]);
    let details = json!({ "exitCode": 3 });
    let error = NodeError::new("process_failed", "it exited with 3").with_details(details);
    session.world = session.world.fail("N-001", error);
    session
}

#[test]
fn an_undecided_failure_is_a_failed_resumable_session() {
    let state = failed().state();
    assert_eq!(state["status"], "failed");
    assert_eq!(state["completed_at"], Value::Null);
    let node = &state["node_states"]["N-001"];
    assert_eq!(
        (&node["status"], &node["error"]),
        (&json!("failed"), &json!("it exited with 3"))
    );
    assert!(is_time(&node["completed_at"]));
    assert_eq!(state["x_play"]["undecided"], json!(["N-001"]));
    assert_eq!(state["x_play"]["nodes"]["N-001"]["exit_code"], 3);

    let retried = failed()
        .answer("N-001", json!({ "action": "retry" }))
        .state();
    assert_eq!(retried["status"], "running");
    assert_eq!(retried["node_states"]["N-001"]["error"], Value::Null);
    assert_eq!(retried["x_play"]["nodes"]["N-001"]["attempts"], 2);

    let skipped = failed()
        .answer("N-001", json!({ "action": "skip" }))
        .state();
    assert_eq!(skipped["status"], "running");
    assert_eq!(skipped["node_states"]["N-001"]["status"], "skipped");
    assert_eq!(skipped["node_states"]["N-001"]["error"], "it exited with 3");
    assert_eq!(skipped["node_states"]["N-002"]["status"], "running");

    let aborted = failed()
        .answer("N-001", json!({ "action": "abort" }))
        .state();
    assert_eq!(aborted["status"], "failed");
    assert!(is_time(&aborted["completed_at"]));
}

#[test]
fn a_skipped_node_lets_its_successors_run_and_is_passed_over() {
    let session = failed()
        .answer("N-001", json!({ "action": "skip" }))
        .settle_marks()
        .complete_saying("N-002", json!({ "output_path": "a.md" }))
        .answer("CP-02", json!({ "action": "accept" }));
    assert!(session.inputs("N-003a").get("{N-001.session_id}").is_none());
    assert_eq!(session.inputs("N-003b")["{prev_output_path}"], "a.md");
}

#[test]
fn a_cancelled_session_is_aborted_and_its_nodes_failed() {
    let mut session = Session::start(&review(), &[("goal", "g")]);
    let cancel = Command::Cancel {
        reason: None,
        by: None,
        parent: None,
    };
    session.world = session.world.tell(cancel).finish("N-001", Outcome::Stopped);
    let state = session.state();
    assert_eq!(state["status"], "aborted");
    assert_eq!(state["node_states"]["N-001"]["status"], "failed");
}

#[test]
fn a_node_that_waits_for_a_callback_runs_and_names_its_task() {
    let mut session = at_second_node();
    let task = session.state()["node_states"]["N-002"]["cli_task_id"].clone();
    let outcome = Outcome::Waits {
        key: task.as_str().unwrap().to_owned(),
        data: json!({}),
    };
    session.world = session.world.finish("N-002", outcome);
    let state = session.state();
    assert_eq!(state["status"], "running");
    assert_eq!(state["node_states"]["N-002"]["status"], "running");
    assert_eq!(state["x_play"]["callbacks"]["N-002"], task);
}

#[test]
fn the_files_are_the_same_however_the_log_was_read() {
    let session = at_second_node().complete("N-002");
    assert_eq!(session.files(), session.files());
    let text = |session: &Session| serde_json::to_string(&session.state()).unwrap();
    assert_eq!(text(&session), text(&session));
}

#[test]
fn a_session_of_another_player_resumes_where_it_was() {
    let (mut state, _) = at_second_node().files();
    state.as_object_mut().unwrap().remove("x_play");
    state["node_states"]["N-004"] = json!({ "status": "pending", "...": "..." });
    let bytes = serde_json::to_vec(&state).unwrap();
    let foreign = Foreign::parse(&bytes).unwrap();
    assert_eq!(foreign.session_id, "WFR-feature-tdd-review-20260317-143022");
    assert_eq!(foreign.recorded.len(), 2, "{:?}", foreign.recorded);
    let plan = foreign.plan(&template(&review())).unwrap();
    assert_eq!(plan, template(&review()).plan);

    let settings = Settings {
        recorded: foreign.recorded.clone(),
        ..Settings::default()
    };
    let context: Vec<(&str, &str)> = foreign
        .context
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let adopted = Session::start_with(&review(), &context, settings);
    // Completed nodes return their result without running.
    let adopted = adopted.complete_saying(
        "N-001",
        json!({ "session_id": "WFS-plan-20260317", "output_path": PLAN, "artifacts": [PLAN] }),
    );
    let after = adopted.state();
    for node in ["N-001", "CP-01"] {
        assert_eq!(
            after["node_states"][node], state["node_states"][node],
            "{node}"
        );
    }
    assert_eq!(after["node_states"]["N-002"]["status"], "running");
    assert_eq!(after["execution_plan"], state["execution_plan"]);
}

#[test]
fn a_state_file_without_a_template_is_rejected_with_all_errors() {
    let problems = Foreign::parse(b"{\n  \"session_id\": 1\n}").unwrap_err();
    let text = problems.to_string();
    for expected in [
        "/session_id: line 2, column 17: must be a text, not 1",
        "`template_path` is required",
        "`execution_plan` is required",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let foreign = Foreign {
        plan: vec![vec!["N-001".into(), "N-0002".into()]],
        ..Foreign::default()
    };
    let text = foreign.plan(&template(&review())).unwrap_err().to_string();
    assert!(
        text.contains("no node `N-0002`; did you mean `N-002`?"),
        "{text}"
    );
    assert!(
        text.contains("`N-004` of the template is in no batch"),
        "{text}"
    );
}

#[test]
fn variables_are_bound_from_arguments_and_defaults() {
    let template = template(&review());
    assert_eq!(
        template.bind(&BTreeMap::new()),
        Err(vec!["goal".to_owned()])
    );
    let given = BTreeMap::from([("goal".to_owned(), "g".to_owned())]);
    let bound = template.bind(&given).unwrap();
    assert_eq!(bound["scope"], "src");
    assert_eq!(bound.keys().collect::<BTreeSet<_>>().len(), 2);
}

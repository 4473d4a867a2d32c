//! Sessions that another player began and left.

use serde_json::{Value, json};

use super::{chain, checkpoint, node, statuses};
use crate::support::Lab;

const ID: &str = "WFR-sample-20260317-143022";
const FOLDER: &str = ".workflow/sessions/WFR-sample-20260317-143022";

/// A session of three nodes: the first completed, the second as given.
fn left(status: &str, second: &Value) -> Value {
    json!({
        "session_id": ID, "template_id": "wft-sample-20260310",
        "template_path": ".workflow/templates/sample.json", "template_name": "Sample",
        "status": status, "context": {},
        "execution_plan": [
            { "batch": 1, "nodes": ["a"], "parallel": false },
            { "batch": 2, "nodes": ["b"], "parallel": false },
            { "batch": 3, "nodes": ["c"], "parallel": false },
        ],
        "node_states": {
            "a": {
                "status": "completed", "started_at": "2026-03-17T14:30:25Z",
                "completed_at": "2026-03-17T14:35:10Z", "session_id": null,
                "output_path": format!("{FOLDER}/artifacts/a.md"),
                "artifacts": [format!("{FOLDER}/artifacts/a.md"), "src/x.rs"], "error": null,
                "cli_task_id": "gem-143514-x7k2",
            },
            "b": second, "c": { "status": "pending" },
        },
        "created_at": "2026-03-17T14:30:22Z", "updated_at": "2026-03-17T14:35:14Z",
    })
}

fn lab(state: &Value) -> Lab {
    let script = |name: &str| format!("echo {name} >> ran");
    let lab = Lab::with_template(&chain(&[
        node("a", &script("a"), ""),
        node("b", &script("b"), ""),
        node("c", &script("c"), ""),
    ]));
    lab.left_by_another(state);
    lab
}

fn failed() -> Value {
    left("failed", &json!({ "status": "failed", "error": "no disk" }))
}

#[test]
fn an_aborted_session_resumes_only_on_explicit_request() {
    let lab = lab(&left("aborted", &json!({ "status": "pending" })));
    lab.call(&["play", "--resume"])
        .with(2)
        .says("no session to resume");
    lab.call(&["play", "--resume", ID])
        .with(2)
        .says("was aborted")
        .says(&format!("`runwright play --resume {ID} --yes`"));
    assert_eq!(lab.state()["status"], "aborted");
    lab.call(&["play", "--resume", ID, "--yes"]).with(0);
    assert_eq!(lab.read("ran"), "b\nc\n");
}

#[test]
fn a_failed_node_is_retried_or_skipped() {
    let tried = lab(&failed());
    tried
        .call(&["play", "--retry", "c"])
        .with(2)
        .says("`c` is not a failed node of session")
        .says("did you mean `b`?");
    tried.call(&["play", "--retry", "b"]).with(0);
    assert_eq!(tried.read("ran"), "b\nc\n");

    let skipped = lab(&failed());
    skipped
        .call(&["play", "--resume", ID, "--skip", "b"])
        .with(0);
    assert_eq!(skipped.read("ran"), "c\n");
    let state = skipped.state();
    assert_eq!(statuses(&state), ["completed", "skipped", "completed"]);
    assert_eq!(state["node_states"]["b"]["error"], "no disk");
}

#[test]
fn fields_of_another_player_are_kept() {
    let lab = lab(&failed());
    lab.call(&["play", "--resume"]).with(0);
    let (state, before) = (lab.state(), failed());
    assert_eq!(state["created_at"], before["created_at"]);
    assert_eq!(state["node_states"]["a"], before["node_states"]["a"]);

    let from = ["play", "--resume", ID, "--from", "c"];
    lab.call(&from).with(0);
    let new = lab.sessions().into_iter().find(|path| !path.ends_with(ID));
    let new = lab.state_of(new.unwrap().file_name().unwrap().to_str().unwrap());
    assert_ne!(new["created_at"], before["created_at"]);
}

#[test]
fn a_completed_session_is_archived_with_its_paths() {
    let mut state = left("completed", &json!({ "status": "completed" }));
    state["x_theirs"] = json!({ "z": 1, "a": 2 });
    let lab = lab(&state);
    let text = lab.read(&format!("{FOLDER}/session-state.json"));
    std::fs::create_dir_all(lab.path().join(FOLDER).join("artifacts")).unwrap();
    lab.write(&format!("{FOLDER}/artifacts/a.md"), "the plan");
    lab.call(&["play", "--resume", ID])
        .with(2)
        .says(&format!("`runwright play --archive {ID}`"));
    lab.call(&["play", "--archive"])
        .with(0)
        .says("is archived in .workflow/sessions/archive");
    assert!(lab.sessions().is_empty());
    let archive = FOLDER.replace("sessions/", "sessions/archive/");
    let archived = lab.read(&format!("{archive}/session-state.json"));
    let expected = text.replace(FOLDER, &archive).replace(
        "\"status\": \"completed\",\n  \"template",
        "\"status\": \"archived\",\n  \"template",
    );
    assert_eq!(archived, expected, "nothing else changes");
    let archived: Value = serde_json::from_str(&archived).unwrap();
    assert_eq!(archived["status"], "archived");
    let path = archived["node_states"]["a"]["output_path"]
        .as_str()
        .unwrap();
    assert_eq!(lab.read(path), "the plan");
}

#[test]
fn half_a_file_hides_no_other_session() {
    let lab = lab(&failed());
    lab.call(&["play", "sample"]).with(0);
    lab.write(
        &format!("{FOLDER}/session-state.json"),
        "{\"session_id\": \"WFR",
    );
    lab.call(&["play", "--status"])
        .with(0)
        .prints("completed")
        .prints("unreadable")
        .says("session-state.json cannot be read: EOF");
    let shown = lab
        .call(&["play", "--status", "--json"])
        .with(0)
        .json_lines();
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[1]["status"], "unreadable");
    for args in [["play", "--resume"], ["play", "--archive"]] {
        let ended = lab.call(&[args[0], args[1], ID]).with(2);
        ended
            .says("cannot be read")
            .says("its player may still be writing it");
    }
}

#[test]
fn status_suggests_a_command_for_each_session() {
    let lab = lab(&failed());
    lab.template("asks", &chain(&[checkpoint("cp", false)]));
    lab.template("fails", &chain(&[node("x", "exit 3", "")]));
    lab.call(&["play", "asks"]).with(3);
    lab.call(&["play", "fails"]).with(1);
    let mine = |name: &str| {
        let sessions = lab.sessions().into_iter();
        let mut ids = sessions.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        ids.find(|id| id.contains(name)).unwrap()
    };
    lab.call(&["play", "--status"])
        .with(0)
        .says(&format!("--resume {} --retry x", mine("fails")))
        .says(&format!(
            "it waits at cp; `runwright play --resume {}`",
            mine("asks")
        ))
        .says(&format!(
            "`runwright play --resume {ID}` continues a session of another player"
        ));
}

//! The state file of a session at its second node, compared with the documented one: field by
//! field, in the documented order.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{checkpoint, member, node, template};
use crate::support::Lab;

/// Four work nodes, two of them at once, and two checkpoints.
fn documented() -> Value {
    let says = r#"echo '{"session_id":"WFS-plan-20260317","output_path":"plan/PLAN.md","artifacts":["plan/PLAN.md"]}'"#;
    let mut asks_a_tool = node("N-002", "echo ready; read -r _ < gate", "{goal}");
    asks_a_tool["type"] = json!("cli");
    asks_a_tool["cli_tool"] = json!("gemini");
    let nodes = [
        node("N-001", says, "{goal}"),
        checkpoint("CP-01", true),
        asks_a_tool,
        checkpoint("CP-02", false),
        member("PG-1", "N-003a", "true"),
        member("PG-1", "N-003b", "true"),
        node("N-004", "true", ""),
    ];
    let pairs = [
        ("N-001", "CP-01"),
        ("CP-01", "N-002"),
        ("N-002", "CP-02"),
        ("CP-02", "N-003a"),
        ("CP-02", "N-003b"),
        ("N-003a", "N-004"),
        ("N-003b", "N-004"),
    ];
    let edges = pairs.map(|(from, to)| json!({ "from": from, "to": to }));
    let mut document = template(&nodes, &edges);
    document["context_schema"] = json!({
        "goal": { "type": "string", "required": true },
        "scope": { "type": "path", "required": true },
    });
    document
}

/// The documented state, with times as `T`, and ids that differ in every session.
fn expected(id: &str, task: &Value) -> Value {
    let folder = format!(".workflow/sessions/{id}");
    let pending = json!({
        "status": "pending", "started_at": null, "completed_at": null, "session_id": null,
        "output_path": null, "artifacts": [], "error": null,
    });
    json!({
        "session_id": id,
        "template_id": "wft-sample-20260310",
        "template_path": ".workflow/templates/sample.json",
        "template_name": "Sample",
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
                "session_id": "WFS-plan-20260317", "output_path": "plan/PLAN.md",
                "artifacts": ["plan/PLAN.md"], "error": null,
            },
            "CP-01": {
                "status": "completed", "saved_at": "T",
                "snapshot_path": format!("{folder}/checkpoints/CP-01.json"),
                "auto_continue": true,
            },
            "N-002": {
                "status": "running", "started_at": "T", "completed_at": null, "session_id": null,
                "output_path": null, "artifacts": [], "error": null, "cli_task_id": task,
            },
            "CP-02": { "status": "pending", "saved_at": null, "snapshot_path": null },
            "N-003a": pending, "N-003b": pending, "N-004": pending,
        },
        "created_at": "T",
        "updated_at": "T",
        "completed_at": null,
    })
}

/// Times to the second, in UTC, become `T`.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(without_times),
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::String(text) if is_time(text) => *value = json!("T"),
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    let shape = |c: char| if c.is_ascii_digit() { '9' } else { c };
    text.chars().map(shape).eq("9999-99-99T99:99:99Z".chars())
}

/// The keys of an object of a pretty-printed document, by their indentation, in order.
fn keys(text: &str, indent: usize) -> Vec<&str> {
    let key = |line: &'_ str| -> Option<usize> {
        let inner = line.strip_prefix(&" ".repeat(indent))?.strip_prefix('"')?;
        inner.find("\":")
    };
    text.lines()
        .filter_map(|line| key(line).map(|end| &line[indent + 1..=indent + end]))
        .collect()
}

/// Plays to the second node, passes the state file on, and lets the session continue to its end.
fn at_the_second_node(look: impl FnOnce(&Lab, &str)) {
    let lab = Lab::with_template(&documented());
    let mut gate = lab.gate("gate");
    let goal = "goal=Implement user authentication";
    let play = [
        "play",
        "sample",
        "--yes",
        "--context",
        goal,
        "scope=src/auth",
    ];
    let mut player = lab.engine(&play);
    player.wait_for(|line| line["type"] == "output" && line["node"] == "N-002");
    let path = format!(".workflow/sessions/{}/session-state.json", lab.session());
    look(&lab, &lab.read(&path));
    gate.open();
    let (code, last) = player.end();
    assert_eq!((code, &last.unwrap()["status"]), (0, &json!("completed")));
}

#[test]
fn a_session_stopped_at_node_two_writes_documented_state() {
    at_the_second_node(|lab, text| {
        let mut state: Value = serde_json::from_str(text).unwrap();
        let own = state.as_object_mut().unwrap().remove("x_play").unwrap();
        assert!(own["seq"].is_u64(), "{own}");
        without_times(&mut state);
        let task = state["node_states"]["N-002"]["cli_task_id"].clone();
        assert!(task.as_str().unwrap().starts_with("gem-"), "{task}");
        assert_eq!(state, expected(&lab.session(), &task));
        let order = [
            "session_id",
            "template_id",
            "template_path",
            "template_name",
            "status",
            "context",
            "execution_plan",
            "current_batch",
            "current_node",
            "last_checkpoint",
            "node_states",
            "created_at",
            "updated_at",
            "completed_at",
            "x_play",
        ];
        assert_eq!(keys(text, 2), order);
        let nodes = [
            "N-001", "CP-01", "N-002", "CP-02", "N-003a", "N-003b", "N-004",
        ];
        assert_eq!(&keys(text, 4)[2..9], nodes, "in the order they run");
    });
}

/// The document with the requirements for the files, where it is available.
fn asked_for() -> Option<Value> {
    let folder = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let mut entries = std::fs::read_dir(folder.join("seeds")).ok()?.flatten();
    let seed = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("001_"))?;
    let text = std::fs::read_to_string(seed.path()).ok()?;
    let from = text.find("{\n")?;
    let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter();
    values.next()?.ok()
}

/// Both have the same keys, and under each a value of the same kind.
#[track_caller]
fn same_shape(at: &str, asked: &Value, ours: &Value) {
    match (asked, ours) {
        (Value::Object(asked), Value::Object(ours)) => {
            // Members omitted in the document.
            let is_cut = asked.contains_key("...");
            for key in asked.keys().filter(|key| *key != "...") {
                assert!(ours.contains_key(key), "{at}/{key} is missing");
                same_shape(&format!("{at}/{key}"), &asked[key], &ours[key]);
            }
            let more: Vec<&String> = ours
                .keys()
                .filter(|key| !asked.contains_key(*key))
                .collect();
            assert!(is_cut || more.is_empty(), "{at} has {more:?}, too");
        }
        (Value::Array(asked), Value::Array(ours)) => {
            assert_eq!(asked.len(), ours.len(), "{at}");
            for (n, (asked, ours)) in asked.iter().zip(ours).enumerate() {
                same_shape(&format!("{at}/{n}"), asked, ours);
            }
        }
        (asked, ours) => {
            let kind = std::mem::discriminant::<Value>;
            assert_eq!(kind(asked), kind(ours), "{at}: {asked} and {ours}");
        }
    }
}

#[test]
fn the_state_on_disk_has_the_shape_that_was_asked_for() {
    const NAME: &str = "the_state_on_disk_has_the_shape_that_was_asked_for";
    let Some(asked) = asked_for() else {
        return testkit::skip(NAME, "the document with the asked-for state is not at hand");
    };
    at_the_second_node(|_, text| {
        let mut ours: Value = serde_json::from_str(text).unwrap();
        ours.as_object_mut().unwrap().remove("x_play");
        same_shape("", &asked, &ours);
        assert_eq!(ours["execution_plan"], asked["execution_plan"]);
        for key in [
            "current_batch",
            "current_node",
            "last_checkpoint",
            "context",
        ] {
            assert_eq!(ours[key], asked[key], "{key}");
        }
        for (id, node) in ours["node_states"].as_object().unwrap() {
            assert_eq!(node["status"], asked["node_states"][id]["status"], "{id}");
        }
    });
}

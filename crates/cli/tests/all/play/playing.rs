//! Sessions that go well.

use serde_json::{Value, json};

use super::{chain, checkpoint, member, node, statuses, template};
use crate::support::Lab;

/// Prints the path of its plan, in the form for processes.
const PLAN: &str = r#"echo "plan for $1"; echo '{"session_id":"WFS-a-20260317","output_path":"plan.md","artifacts":["plan.md"],"output":"the plan"}'"#;

/// All types of nodes, two of them concurrent, both kinds of checkpoints: the shape whose files are
/// documented.
fn all_types() -> Value {
    let mut cli = node(
        "N-002",
        "echo \"$2 $3 $4 $5: $1\"",
        "{prev_output} at {N-001.output_path}",
    );
    cli["type"] = json!("cli");
    cli["cli_tool"] = json!("gemini");
    cli["cli_mode"] = json!("analysis");
    cli["cli_rule"] = json!("deep");
    let mut test = member("g", "N-003a", "echo \"a $1\"");
    test["type"] = json!("command");
    test["args_template"] = json!("{N-001.session_id}");
    let mut check = member(
        "g",
        "N-003b",
        "echo checked > \"$WF_SESSION_DIR/artifacts/N-003b.md\"",
    );
    check["type"] = json!("agent");
    let args = "{N-001.artifacts[0]} {prev_output_path} {N-003a.output}";
    let nodes = [
        node("N-001", PLAN, "{goal}"),
        checkpoint("CP-01", true),
        cli,
        checkpoint("CP-02", false),
        test,
        check,
        node("N-004", "echo \"$1\"", args),
    ];
    let edges: Vec<Value> = [
        ("N-001", "CP-01"),
        ("CP-01", "N-002"),
        ("N-002", "CP-02"),
        ("CP-02", "N-003a"),
        ("CP-02", "N-003b"),
        ("N-003a", "N-004"),
        ("N-003b", "N-004"),
    ]
    .iter()
    .map(|(from, to)| json!({ "from": from, "to": to }))
    .collect();
    let mut document = template(&nodes, &edges);
    document["context_schema"] = json!({ "goal": { "type": "string", "required": true } });
    document
}

#[test]
fn a_template_plays_to_its_end_and_everything_lies_on_disk() {
    let lab = Lab::with_template(&all_types());
    lab.call(&["play", "sample", "--context", "goal=x y", "--yes"])
        .with(0)
        .says("COMPLETE: Sample")
        .says("Nodes:     7/7 completed")
        .prints("completed");
    let state = lab.state();
    assert_eq!(state["status"], "completed");
    assert_eq!(statuses(&state), ["completed"; 7]);
    assert_eq!(
        state["execution_plan"][4],
        json!({ "batch": 5, "nodes": ["N-003a", "N-003b"], "parallel": true })
    );
    let first = &state["node_states"]["N-001"];
    assert_eq!(first["session_id"], "WFS-a-20260317");
    assert_eq!(first["output_path"], "plan.md");
    assert_eq!(first["artifacts"], json!(["plan.md"]));
    let task = &state["node_states"]["N-002"]["cli_task_id"];
    assert!(task.as_str().unwrap().starts_with("gem-"));

    assert!(lab.log("N-001").starts_with("plan for x y\n"));
    assert_eq!(
        lab.log("N-002"),
        "gemini analysis rule deep: the plan at plan.md\n"
    );
    assert_eq!(lab.log("N-003a"), "a WFS-a-20260317\n");
    let own = format!(".workflow/sessions/{}/artifacts/N-003b.md", lab.session());
    assert_eq!(state["node_states"]["N-003b"]["output_path"], own);
    assert_eq!(
        lab.log("N-004"),
        format!("plan.md {own} a WFS-a-20260317\n\n")
    );
    for checkpoint in ["CP-01", "CP-02"] {
        let path = &state["node_states"][checkpoint]["snapshot_path"];
        let snapshot: Value = serde_json::from_str(&lab.read(path.as_str().unwrap())).unwrap();
        assert_eq!(snapshot["checkpoint_id"], checkpoint);
        assert_eq!(snapshot["session_id"], state["session_id"]);
    }
}

#[test]
fn a_session_is_a_run_like_any_other() {
    let lab = Lab::with_template(&chain(&[node("a", "true", ""), node("b", "true", "")]));
    lab.call(&["play", "sample"]).with(0);
    let id = lab.session();
    let shown = lab.call(&["runs", "show", &id, "--json"]).with(0).json();
    assert_eq!(
        (&shown["runId"], &shown["status"]),
        (&json!(id), &json!("completed"))
    );
    lab.call(&["verify"]).with(0);
}

#[test]
fn programs_get_line_events_and_the_final_state() {
    let lab = Lab::with_template(&chain(&[
        node("a", "echo hello", ""),
        checkpoint("cp", true),
    ]));
    let lines = lab.call(&["play", "sample", "--json"]).with(0).json_lines();
    assert_eq!(lines[0]["type"], "session");
    let of = |event: &str| {
        let is_it = |line: &&Value| line["type"] == "node" && line["event"] == event;
        let found = lines.iter().find(is_it);
        found.unwrap_or_else(|| panic!("{event} in {lines:?}"))
    };
    assert_eq!(
        (&of("started")["node"], &of("started")["status"]),
        (&json!("a"), &json!("running"))
    );
    assert_eq!(of("completed")["status"], "completed");
    let output = lines.iter().find(|line| line["type"] == "output").unwrap();
    assert_eq!(output["text"], "hello\n");
    assert_eq!(*lines.last().unwrap(), lab.state());
}

#[test]
fn group_members_run_in_parallel_within_jobs() {
    // Each opens a pipe that opens only when the other does.
    let nodes = [
        member("g", "a", "echo x > one; read -r _ < two"),
        member("g", "b", "read -r _ < one; echo x > two"),
    ];
    let lab = Lab::with_template(&template(&nodes, &[]));
    lab.pipe("one");
    lab.pipe("two");
    lab.call(&["play", "sample", "--jobs", "2"]).with(0);

    let nodes = ["a", "b", "c"].map(|id| member("g", id, "mkdir busy && sleep 0.05 && rmdir busy"));
    let lab = Lab::with_template(&template(&nodes, &[]));
    lab.call(&["play", "sample", "--jobs", "1"]).with(0);
}

#[test]
fn usage_is_summed_and_a_budget_stops_the_session() {
    let costs = r#"echo '{"output":"x","cost":{"usd":0.6,"input_tokens":10,"output_tokens":5}}'"#;
    let nodes = ["a", "b", "c"].map(|id| node(id, costs, ""));
    let lab = Lab::with_template(&chain(&nodes));
    lab.call(&["play", "sample", "--budget-usd", "1"])
        .with(1)
        .says("the budget of the run is used up")
        .says("Used:      1.2000 USD, 20 tokens in, 10 out");
    let state = lab.state();
    assert_eq!(statuses(&state), ["completed", "completed", "failed"]);
    assert_eq!(state["x_play"]["used"]["input_tokens"], 20);
    assert_eq!(state["x_play"]["nodes"]["a"]["used"]["usd"], 0.6);
}

#[test]
fn a_budget_that_is_used_up_can_be_raised() {
    let costs = r#"echo "$WF_NODE_ID" >> ran; echo '{"output":"x","cost":{"usd":0.6}}'"#;
    let nodes = ["a", "b", "c", "d"].map(|id| node(id, costs, ""));
    let lab = Lab::with_template(&chain(&nodes));
    let ended = lab.call(&["play", "sample", "--budget-usd", "1"]).with(1);
    let ended = ended.says("--retry c --budget-usd AMOUNT");
    let place = |text: &str| ended.stderr.find(text).unwrap();
    assert!(place("its budget is used up") < place("or --skip c"));
    let first = lab.session();
    lab.call(&["play", "--retry", "c", "--budget-usd", "1.1"])
        .with(2)
        .says("1.2000 USD are used already");
    lab.call(&["play", "--retry", "c", "--budget-usd", "1.5"])
        .with(1)
        .says("with the new budget")
        .says("its budget is used up");
    assert_eq!(lab.state_of(&first)["status"], "failed");
    assert_eq!(lab.read("ran"), "a\nb\nc\n");
    let second = lab.newest(&[&first]);
    assert_eq!(lab.state_of(&second)["x_play"]["budget"]["usd"], 1.5);
    lab.call(&["play", "--resume", &second, "--budget-usd", "9"])
        .with(0)
        .says("Used:      2.4000 USD");
    assert_eq!(lab.read("ran"), "a\nb\nc\nd\n");

    let from = [
        "play",
        "--resume",
        &first,
        "--from",
        "c",
        "--budget-usd",
        "9",
    ];
    lab.call(&from).with(0);
    assert_eq!(lab.read("ran"), "a\nb\nc\nd\nc\nd\n");
}

#[test]
fn as_many_nodes_run_at_a_time_as_there_are_processors() {
    let processors = std::thread::available_parallelism().unwrap().get();
    // Each occupies a slot; one without a free slot fails.
    let script = format!(
        "for n in $(seq {processors}); do if mkdir place$n 2> /dev/null; then sleep 0.05; rmdir \
         place$n; exit 0; fi; done; exit 1"
    );
    let ids: Vec<String> = (0..4 * processors + 1).map(|n| format!("n{n}")).collect();
    let nodes: Vec<Value> = ids.iter().map(|id| member("g", id, &script)).collect();
    let lab = Lab::with_template(&template(&nodes, &[]));
    lab.call(&["play", "sample", "--quiet"]).with(0);
}

#[test]
fn the_index_of_templates_is_made_again_when_it_is_stale() {
    let lab = Lab::with_template(&all_types());
    let index =
        || -> Value { serde_json::from_str(&lab.read(".workflow/templates/index.json")).unwrap() };
    lab.call(&["play", "--list"])
        .with(0)
        .prints("sample  [custom]  5 work nodes, 2 checkpoints")
        .says("run one with `runwright play sample`");
    assert_eq!(
        index()["templates"][0]["template_id"],
        "wft-sample-20260310"
    );
    assert_eq!(index()["templates"][0]["node_count"], 5);
    lab.template("other", &chain(&[node("a", "true", "")]));
    std::fs::remove_file(lab.path().join(".workflow/templates/sample.json")).unwrap();
    lab.call(&["play", "--list"]).with(0);
    assert_eq!(index()["templates"].as_array().unwrap().len(), 1);
    assert_eq!(
        index()["templates"][0]["path"],
        ".workflow/templates/other.json"
    );
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let lab = Lab::with_template(&all_types());
    lab.call(&["play", "sample", "--dry-run"])
        .with(2)
        .prints("[3] N-002    [cli]")
        .says("the required variable `goal` has no value");
    let dry = ["play", "sample", "--dry-run", "--context", "goal=x"];
    lab.call(&dry)
        .with(0)
        .prints("[3] N-002    [cli]")
        .prints("{prev_output} at {N-001.output_path}")
        .says("Sample: 5 nodes in 6 batches, 2 checkpoints");
    let plan = lab.call(&[&dry[..], &["--json"]].concat()).with(0).json();
    assert_eq!(plan["valid"], true);
    assert_eq!(plan["problems"], json!([]));
    assert_eq!(plan["execution_plan"].as_array().unwrap().len(), 6);
    assert!(!lab.path().join(".runwright").exists());
    assert!(lab.sessions().is_empty());
    lab.call(&["play", "graph", "sample"])
        .with(0)
        .prints("N-003a");
    lab.call(&["play", "graph", "sample", "-f", "svg"])
        .with(0)
        .prints("<svg");
}

#[test]
fn a_new_template_can_be_played_as_it_is() {
    let lab = Lab::new();
    lab.call(&["play", "new", "My First"])
        .with(0)
        .says("my-first");
    lab.call(&["play", "my-first", "--context", "goal=tea", "--yes"])
        .with(0);
    assert!(lab.log("N-002").contains("done: plan: tea"));
    lab.call(&["play", "new", "My First"])
        .with(2)
        .says("exists already");
}

#[test]
fn the_example_behaves_as_documented() {
    let lab = Lab::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shop = root.join("examples/shop/src").canonicalize().unwrap();
    for file in ["code-tour.json", "runwright.toml"] {
        std::fs::copy(
            root.join("examples/player").join(file),
            lab.path().join(file),
        )
        .unwrap();
    }
    let folder = format!("folder={}", shop.display());
    lab.call(&["play", "code-tour.json", "--context", &folder])
        .with(3);
    lab.call(&["play", "--resume"]).with(0);
    let state = lab.state();
    let page = state["node_states"]["N-004"]["output_path"]
        .as_str()
        .unwrap();
    let page = lab.read(page);
    for expected in ["2 files below", "lib.rs:2", "Public items:"] {
        assert!(page.contains(expected), "{page}");
    }
}

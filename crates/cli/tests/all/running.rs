//! Runs that end: their output, and the exit code.

use serde_json::{Value, json};

use crate::support::*;

#[test]
fn the_example_runs_its_branches_at_the_same_time() {
    let lab = Lab::new();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/log-report.json"
    );
    lab.call(&["workflow", "validate", example])
        .with(0)
        .prints("6 nodes");
    let ended = lab
        .call(&["run", example, "--watch", "-i", "requests=3000"])
        .with(0);
    ended
        .says("slowest | sorting part 6 of 6")
        .prints("# Requests of one day");
    let events = lab.events("last");
    let at = |found: &dyn Fn(&Value) -> bool| events.iter().position(found).unwrap();
    let branches = ["answers", "pages", "slowest", "hours"];
    let last_start = branches
        .map(|node| at(&is_of("node.started", node)))
        .into_iter()
        .max();
    let first_end = branches
        .map(|node| at(&is_of("node.completed", node)))
        .into_iter()
        .min();
    assert!(last_start < first_end, "all four run at once");
}

#[test]
fn outputs_go_to_stdout_and_talk_to_stderr() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo result; echo noise >&2"));
    let ended = lab.call(&["run", &file]).with(0);
    assert_eq!(ended.stdout, "step: result\n");
    assert!(
        ended.stderr.contains("step completed") && !ended.stderr.contains("noise"),
        "{ended:?}"
    );
    let watched = lab.call(&["run", &file, "--watch"]).with(0);
    watched.says("step | result").says("step | noise");
    let quiet = lab.call(&["run", &file, "--quiet"]).with(0);
    assert_eq!(quiet.stderr.lines().count(), 1, "{quiet:?}");
}

#[test]
fn json_gives_an_event_per_line_and_the_snapshot_last() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo hi"));
    let ended = lab.call(&["run", &file, "--json"]).with(0);
    let lines = ended.json_lines();
    let (snapshot, events) = lines.split_last().unwrap();
    let types: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(types.first(), Some(&"run.started"));
    assert_eq!(types.last(), Some(&"run.completed"));
    for (seq, event) in events.iter().enumerate() {
        assert_eq!(event["sequence"], seq);
        assert_eq!(event["runId"], snapshot["runId"]);
        assert!(
            event["eventId"].is_string() && event["timestamp"].is_string(),
            "{event}"
        );
        assert!(event["payload"].is_object(), "{event}");
    }
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(snapshot["workflowId"], "w");
    assert_eq!(
        events,
        lab.events("last").as_slice(),
        "the log says the same"
    );
}

#[test]
fn a_failed_run_names_the_node_and_the_next_step() {
    let lab = Lab::new();
    let nodes = [
        script("fine", "true"),
        script("broken", "echo the disk is full >&2; exit 3"),
        script("never", "true"),
    ];
    let file = lab.workflow(&workflow(
        "w",
        &nodes,
        &[("fine", "broken"), ("broken", "never")],
    ));
    let ended = lab.call(&["run", &file]).with(1);
    assert_eq!(ended.stdout, "");
    let ended = ended
        .says("failed")
        .says("node broken")
        .says("exited with code 3");
    ended
        .says("the disk is full")
        .says("process_failed")
        .says("runwright events");
    let snapshot = lab.call(&["runs", "show", "last", "--json"]).with(0).json();
    assert_eq!(snapshot["status"], "failed");
    lab.call(&["verify"]).with(0).prints("no fault found");
}

#[test]
fn a_program_that_is_not_there_fails_the_node() {
    let lab = Lab::new();
    let step = node(
        "step",
        "runwright.process",
        json!({ "argv": ["no-such-program-here"] }),
    );
    let file = lab.workflow(&workflow("w", &[step], &[]));
    lab.call(&["run", &file]).with(1).says("command_not_found");
}

#[test]
fn parallel_nodes_stay_within_the_limit() {
    let lab = Lab::new();
    let count = "echo x >> running; test $(wc -l < running) -le 1; sed -i 1d running";
    let nodes = ["a", "b", "c", "d"].map(|id| script(id, count));
    let file = lab.workflow(&workflow("w", &nodes, &[]));
    lab.call(&["run", &file, "--max-parallel", "1"]).with(0);
}

#[test]
fn a_workflow_from_standard_input_runs() {
    let lab = Lab::new();
    let workflow = one_script("w", "echo hi").to_string();
    lab.call_with(&["run", "-"], workflow.as_bytes())
        .with(0)
        .prints("step: hi");
}

#[test]
fn a_workflow_starts_another_one_that_came_with_it() {
    let lab = Lab::new();
    let child = lab.workflow(&one_script("child", "echo from the child"));
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "child" }));
    let parent = lab.workflow(&workflow("parent", &[call], &[]));
    lab.call(&["run", &parent])
        .with(1)
        .says("workflow_not_found");
    let ended = lab.call(&["run", &parent, "--with", &child]).with(0);
    ended.says("call runs child").says("call/step completed");
    let listed = lab.call(&["runs", "list", "--json"]).with(0).json_lines();
    let children: Vec<&Value> = listed
        .iter()
        .filter(|run| run["parentRunId"].is_string())
        .collect();
    assert_eq!(children.len(), 1);
    assert_eq!(children[0]["status"], "completed");
    lab.call(&["verify"]).with(0).prints("no fault found");
}

#[test]
fn a_detached_run_waits_for_resume() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo ran >> ran"));
    let ended = lab
        .call(&["run", &file, "--detach", "--tag", "later"])
        .with(0);
    let run = ended.stdout.trim().to_owned();
    assert_eq!(run, lab.last_run());
    assert_eq!(
        lab.call(&["runs", "show", &run, "--json"]).json()["status"],
        "pending"
    );
    assert_eq!(lab.read("ran"), "");
    lab.call(&["doctor"]).with(0).prints("no process drives");
    lab.call(&["resume", "--all"]).with(0).says("completed");
    assert_eq!(lab.read("ran"), "ran\n");
    lab.call(&["doctor"])
        .with(0)
        .prints("no run waits for an engine");
}

#[test]
fn the_project_folder_is_found_from_below_and_by_option() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "pwd"));
    lab.call(&["run", &file]).with(0);
    let below = lab.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let mut command = lab.command(&["run", "../w.json"]);
    let ended = Ended::from(command.current_dir(&below).output().unwrap()).with(0);
    let project = lab.path().canonicalize().unwrap();
    assert_eq!(ended.stdout, format!("step: {}\n", project.display()));
    assert!(!below.join(".runwright").exists());

    let elsewhere = Lab::new();
    let data = lab.path().join(".runwright");
    let listed = elsewhere.call(&["runs", "list", "--json", "--data", data.to_str().unwrap()]);
    assert_eq!(listed.with(0).json_lines().len(), 2);
    let mut command = elsewhere.command(&["runs", "list", "--json"]);
    let listed = Ended::from(command.env("RUNWRIGHT_DATA", &data).output().unwrap());
    assert_eq!(listed.with(0).json_lines().len(), 2);
    elsewhere
        .call(&["runs", "list", "--project", "nope"])
        .with(2)
        .says("nope");
}

#[test]
fn the_store_stays_out_of_version_control() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file]).with(0);
    assert_eq!(lab.read(".runwright/.gitignore"), "*\n");
}

#[test]
fn wrong_inputs_of_a_file_are_named_with_their_lines() {
    let lab = Lab::new();
    let mut flow = workflow("greet", &[node("a", "core.noop", json!({}))], &[]);
    flow["variables"] = json!([
        { "name": "city", "type": "string", "required": true },
        { "name": "count", "type": "number" },
        { "name": "folder", "type": "string" },
    ]);
    let file = lab.workflow(&flow);
    lab.write(
        "in.json",
        "{\n  \"city\": 7,\n  \"foldre\": \"x\",\n  \"count\": \"many\"\n}\n",
    );
    lab.call(&["run", &file, "--input-file", "in.json"])
        .with(2)
        .says("in.json")
        .says("line 2, column 11: must be of type string, not a number")
        .says("line 3, column 13: the workflow declares no such variable; did you mean `folder`?")
        .says("line 4, column 12: must be of type number, not a string");
    // A typed input counts, and has no line.
    let ended = lab
        .call(&["run", &file, "--input-file", "in.json", "-i", "count=some"])
        .with(2);
    assert!(!ended.stderr.contains("line 4"), "{ended:?}");
    lab.write("in.json", "{\n  \"count\": 1\n}\n");
    lab.call(&["run", &file, "--input-file", "in.json"])
        .with(2)
        .says("is required; give it a value of type string, as `-i city=VALUE`");
    lab.call(&["run", &file, "-i", "city=Ulm", "-i", "city=Bonn"])
        .with(2)
        .says("/city: the command line gives it twice; give it once");
    lab.write("in.json", "{\n  \"city\": \"Ulm\",\n}\n");
    lab.call(&["run", &file, "--input-file", "in.json"])
        .with(2)
        .says("line 3");
}

#[test]
fn invalid_option_numbers_suggest_valid_ones() {
    let lab = Lab::new();
    let file = lab.workflow(&workflow("w", &[node("a", "core.noop", json!({}))], &[]));
    for (args, says) in [
        (
            ["run", file.as_str(), "--budget-tokens", "-3"],
            "write tokens as a whole number of at least 0",
        ),
        (
            ["run", file.as_str(), "--budget-usd", "-1"],
            "write US dollars as a number of at least 0",
        ),
        (
            ["play", "x", "--budget-usd", "lots"],
            "write US dollars as a number of at least 0",
        ),
        (
            ["runs", "list", "--limit", "0"],
            "write a whole number of at least 1",
        ),
        (
            ["serve", "--dev", "--tenant-rate", "0"],
            "write a whole number of at least 1",
        ),
    ] {
        lab.call(&args).with(2).says(says);
    }
    let broken = lab.write("broken.json", "{ \"id\": ");
    lab.call(&["workflow", "validate", broken.to_str().unwrap()])
        .with_any(&[1, 2])
        .prints("the text ends where a value must follow");
}

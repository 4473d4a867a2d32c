//! The display of runs and workflows, from the store alone.

use serde_json::json;

use crate::support::*;

#[test]
fn runs_are_listed_newest_first_and_filtered() {
    let lab = Lab::new();
    let good = lab.workflow(&one_script("good", "true"));
    let bad = lab.workflow(&one_script("bad", "exit 1"));
    lab.call(&["run", &good, "--tag", "nightly"]).with(0);
    lab.call(&["run", &bad]).with(1);
    lab.call(&["run", &good]).with(0);
    let list = |args: &[&str]| {
        let all = [&["runs", "list", "--json"], args].concat();
        let rows = lab.call(&all).with(0).json_lines();
        let of = |row: &serde_json::Value| row["workflowId"].as_str().unwrap().to_owned();
        rows.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(list(&[]), ["good", "bad", "good"]);
    assert_eq!(list(&["--workflow", "good"]), ["good", "good"]);
    assert_eq!(list(&["--status", "failed"]), ["bad"]);
    assert_eq!(
        list(&["--status", "failed", "--status", "completed"]).len(),
        3
    );
    assert_eq!(list(&["--tag", "nightly"]), ["good"]);
    assert_eq!(list(&["--limit", "1"]), ["good"]);
    assert_eq!(list(&["--tag", "weekly"]).len(), 0);
    let text = lab.call(&["runs", "list"]).with(0);
    text.prints("WORKFLOW")
        .prints("#nightly")
        .prints("process_failed");
    lab.call(&["runs", "list", "--limit", "2"])
        .with(0)
        .says("there are more than these 2");
    lab.call(&["runs", "list", "--tag", "weekly"])
        .with(0)
        .says("no run matches");
}

#[test]
fn a_status_that_no_run_can_have_is_refused() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file]).with(0);
    lab.call(&["runs", "list", "--status", "complete"])
        .with(2)
        .says("unknown status `complete`")
        .says("did you mean completed?")
        .says("waiting-approval");
    lab.call(&["runs", "list", "--status", "failed", "--status", "bogus"])
        .with(2)
        .says("unknown status `bogus`");
}

#[test]
fn attempts_count_from_one_and_the_last_one_is_shown() {
    let lab = Lab::new();
    let mut step = script("step", "exit 3");
    step["settings"] = json!({ "retry": { "maxRetries": 1, "initialDelayMs": 1 } });
    let file = lab.workflow(&workflow("w", &[step], &[]));
    lab.call(&["run", &file])
        .with(1)
        .says("(attempt 2)")
        .says("dead-lettered after 2 attempts of step");
    lab.call(&["runs", "show", "last"])
        .with(0)
        .prints("dead-lettered after 2 attempts of step");
    let told = lab
        .call(&["events", "last"])
        .with(0)
        .prints("attempt 2 in ");
    assert!(!told.stdout.contains("attempt 0"), "{told:#?}");
    let once = lab.workflow(&one_script("once", "exit 3"));
    let ended = lab.call(&["run", &once]).with(1);
    assert!(!ended.stderr.contains("dead-lettered"), "{ended:#?}");
}

#[test]
fn show_prints_the_status_of_each_node() {
    let lab = Lab::new();
    let nodes = [
        script("one", "echo 1"),
        script("two", "exit 4"),
        script("three", "true"),
    ];
    let file = lab.workflow(&workflow("w", &nodes, &[("one", "two"), ("two", "three")]));
    lab.call(&["run", &file]).with(1);
    let shown = lab.call(&["runs", "show", "last"]).with(0);
    let shown = shown
        .prints("one")
        .prints("completed")
        .prints("exited with code 4");
    shown.prints("process_failed").prints("failed");
}

#[test]
fn events_can_be_read_in_parts() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo hi"));
    lab.call(&["run", &file]).with(0);
    let all = lab.events("last");
    let part = |args: &[&str]| {
        let args = [&["runs", "events", "last", "--json"], args].concat();
        lab.call(&args).with(0).json_lines()
    };
    assert_eq!(part(&["--after", "1"]), all[2..]);
    assert_eq!(part(&["--limit", "2"]), all[..2]);
    assert_eq!(part(&["--after", "999"]).len(), 0);
    let types = part(&["--type", "node.started", "--type", "run.completed"]);
    assert_eq!(types.len(), 2);
    lab.call(&["events", "last", "--type", "node.startd"])
        .with(2)
        .says("node.started");
    let text = lab.call(&["events", "last"]).with(0);
    assert_eq!(text.stdout.lines().count(), all.len());
    text.prints("run.started").prints("stdout: hi");
}

#[test]
fn output_cannot_steer_the_terminal() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script(
        "w",
        "printf '\\033]0;title\\007\\033[2Jboo\\n'",
    ));
    let ended = lab.call(&["run", &file, "--watch"]).with(0);
    let events = lab.call(&["events", "last"]).with(0);
    let shown = lab.call(&["runs", "show", "last"]).with(0);
    for text in [&ended.stderr, &ended.stdout, &events.stdout, &shown.stdout] {
        assert!(
            text.contains("boo") && !text.contains(['\u{1b}', '\u{7}']),
            "{text:?}"
        );
    }
}

#[test]
fn an_artifact_equals_the_process_output() {
    let lab = Lab::new();
    let config = json!({ "argv": ["sh", "-c", "seq 1 300000"], "keepOutput": "always" });
    let file = lab.workflow(&workflow(
        "w",
        &[node("step", "runwright.process", config)],
        &[],
    ));
    lab.call(&["run", &file, "--quiet"]).with(0);
    let whole: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    let shown = lab
        .call(&["runs", "show", "last"])
        .with(0)
        .prints("process.stdout");
    let id_in = |shown: &str| {
        let mut lines = shown.lines();
        let line = lines.find(|line| line.contains("process.stdout")).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let id = id_in(&shown.stdout);
    let id = id.as_str();
    assert_eq!(
        lab.call(&["runs", "artifact", "last", id]).with(0).stdout,
        whole
    );
    let short = &id[..10];
    lab.call(&["runs", "artifact", "last", short, "-o", "saved.txt"])
        .with(0)
        .says("2.0 MB");
    assert_eq!(lab.read("saved.txt"), whole);
    lab.call(&["runs", "artifact", "last", id, "-o", "saved.txt"])
        .with(2)
        .says("exists already");
    lab.call(&["runs", "artifact", "last", "art-nope"])
        .with(2)
        .says("runwright runs show");
    // A node's output that the workflow hides is not shown, as over HTTP.
    let config = json!({ "argv": ["sh", "-c", "echo canary; seq 1 3"], "keepOutput": "always" });
    let mut step = node("step", "runwright.process", config);
    step["outputSensitivity"] = json!({ "stdout": true });
    let file = lab.workflow(&workflow("hides", &[step], &[]));
    lab.call(&["run", &file, "--quiet"]).with(0);
    let id = id_in(&lab.call(&["runs", "show", "last"]).with(0).stdout);
    for more in [&[][..], &["-o", "hidden.txt"]] {
        let mut call = vec!["runs", "artifact", "last", &id];
        call.extend(more);
        let told = lab.call(&call).with(2).says(runtime::api::HIDDEN);
        assert!(!told.stdout.contains("canary"), "{}", told.stdout);
        assert!(told.stderr.contains("outputSensitivity"), "{}", told.stderr);
    }
    assert!(!lab.path().join("hidden.txt").exists());
}

#[test]
fn workflows_are_registered_and_listed() {
    let lab = Lab::new();
    let first = lab.workflow(&one_script("first", "true"));
    let second = lab.workflow(&one_script("second", "true"));
    lab.call(&["workflow", "put", &first, &second])
        .with(0)
        .prints("first 1.0.0");
    lab.call(&["workflow", "put", &first]).with(0);
    let listed = lab
        .call(&["workflow", "list", "--json"])
        .with(0)
        .json_lines();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["workflowId"], "first");
    lab.call(&["workflow", "list"]).with(0).prints("second");
    lab.write("bad.json", "{}");
    lab.call(&["workflow", "put", "bad.json"])
        .with(2)
        .says("the field `id` is missing");
    lab.call(&["verify"])
        .with(0)
        .prints("2 logs, 4 events: no fault found");
}

#[test]
fn node_types_are_described() {
    let lab = Lab::new();
    lab.call(&["workflow", "nodes"])
        .with(0)
        .prints("core.noop")
        .prints("core.loop");
    let one = lab
        .call(&["workflow", "nodes", "runwright.process"])
        .with(0);
    one.prints("argv *")
        .prints("timeoutMs")
        .prints("keepOutput");
    let all = lab
        .call(&["workflow", "nodes", "--json"])
        .with(0)
        .json_lines();
    let process = all
        .iter()
        .find(|node| node["typeId"] == "runwright.process")
        .unwrap();
    assert_eq!(process["configSchema"]["required"], json!(["argv"]));
    lab.call(&["workflow", "nodes", "core.nop"])
        .with(2)
        .says("did you mean core.noop?");
}

#[test]
fn a_graph_is_drawn_of_a_file_and_of_a_run() {
    let lab = Lab::new();
    let nodes = [script("one", "true"), script("two", "exit 1")];
    let file = lab.workflow(&workflow("w", &nodes, &[("one", "two")]));
    lab.call(&["workflow", "graph", &file])
        .with(0)
        .prints("flowchart")
        .prints("one");
    lab.call(&["workflow", "graph", &file, "-f", "svg", "-o", "w.svg"])
        .with(0);
    assert!(
        lab.read("w.svg").starts_with("<svg"),
        "{}",
        lab.read("w.svg")
    );
    lab.call(&["run", &file]).with(1);
    let plain = lab.call(&["workflow", "graph", &file, "-f", "svg"]).with(0);
    let coloured = lab
        .call(&["workflow", "graph", "--run", "last", "-f", "svg"])
        .with(0);
    assert_ne!(
        plain.stdout, coloured.stdout,
        "a run shows what became of its nodes"
    );
    lab.call(&["workflow", "graph"]).with(2).says("FILE");
}

#[test]
fn verify_finds_tampered_data() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo the original"));
    lab.call(&["run", &file]).with(0);
    let clean = lab.call(&["verify", "--json"]).with(0).json();
    assert_eq!(clean["findings"], json!([]));
    assert_eq!(clean["streams"], 1);

    lab.tamper("the original", "a counterfeit");
    let ended = lab.call(&["verify"]).with(1);
    ended.prints("wrong").prints(&lab.last_run());
    lab.call(&["verify", "--run", "last", "--json"]).with(1);
}

#[test]
fn doctor_looks_at_everything_and_cleans_up() {
    let lab = Lab::new();
    lab.call(&["doctor"])
        .with(0)
        .prints("the first run creates it");
    let file = lab.workflow(&one_script("w", "echo hi"));
    lab.call(&["run", &file]).with(0);
    let run = lab.last_run();
    std::fs::create_dir_all(lab.path().join(format!(".runwright/attempts/{run}/x"))).unwrap();
    let report = lab.call(&["doctor", "--json"]).with(0).json_lines();
    let checks: Vec<&str> = report
        .iter()
        .map(|line| line["check"].as_str().unwrap())
        .collect();
    for check in [
        "version",
        "folder",
        "space",
        "sync",
        "durability",
        "store",
        "runs",
        "leftovers",
    ] {
        assert!(checks.contains(&check), "{check} is missing in {checks:?}");
    }
    lab.call(&["doctor"]).with(0).prints("1 settled run left");
    lab.call(&["doctor", "--clean"]).with(0).prints("removed");
    assert!(
        !lab.path()
            .join(format!(".runwright/attempts/{run}"))
            .exists()
    );
    let relaxed = lab.call(&["doctor", "--durability", "relaxed"]).with(0);
    relaxed.prints("may lose the last");
}

#[test]
fn a_store_can_be_read_while_it_is_written() {
    let lab = Lab::new();
    let mut gate = lab.gate("gate");
    let file = lab.workflow(&one_script("w", "echo waiting; read -r _ < gate"));
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    for args in [
        &["runs", "list"][..],
        &["runs", "show", "last"],
        &["events", "last"],
        &["verify"],
        &["doctor"],
        &["workflow", "list"],
    ] {
        lab.call(args).with(0);
    }
    let mut tail = lab.engine(&["runs", "tail", "last"]);
    tail.wait_for(is("output.chunk"));
    gate.open();
    let (code, last) = tail.end();
    assert_eq!((code, &last.unwrap()["type"]), (0, &json!("run.completed")));
    assert_eq!(engine.end().0, 0);
}

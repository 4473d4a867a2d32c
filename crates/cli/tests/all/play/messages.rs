//! Messages about everything that prevents a session.

use serde_json::json;

use super::{SHELL, chain, checkpoint, node, template};
use crate::support::Lab;

#[track_caller]
fn refused(lab: &Lab, args: &[&str], expected: &[&str]) {
    let mut ended = lab.call(args).with(2);
    for text in expected {
        ended = ended.says(text);
    }
    assert!(lab.sessions().is_empty(), "nothing was begun");
}

#[test]
fn a_missing_variable() {
    let mut document = chain(&[node("a", "true", "{goal}")]);
    document["context_schema"] = json!({
        "goal": { "type": "string", "required": true, "description": "What to build" },
        "scope": { "type": "path", "required": true, "description": "Where" },
    });
    let lab = Lab::with_template(&document);
    refused(
        &lab,
        &["play", "sample"],
        &[
            "2 required variables have no value",
            "goal: What to build",
            "scope: Where",
            "--context goal=… scope=…",
        ],
    );
    refused(
        &lab,
        &["play", "sample", "--context", "nonsense"],
        &["write NAME=VALUE"],
    );
}

#[test]
fn an_unknown_template() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "")]));
    let expected = ["unknown template `smaple`", "did you mean `sample`?"];
    refused(&lab, &["play", "smaple"], &expected);
    refused(&lab, &["play", "zzz"], &["the templates are sample"]);
    refused(&Lab::new(), &["play", "zzz"], &["runwright play new"]);
    refused(&lab, &["play"], &["name a template"]);
}

#[test]
fn a_cycle() {
    let nodes = [node("a", "true", ""), node("b", "true", "")];
    let edges = [
        json!({ "from": "a", "to": "b" }),
        json!({ "from": "b", "to": "a" }),
    ];
    let lab = Lab::with_template(&template(&nodes, &edges));
    let expected = ["in a cycle: a -> b -> a", "remove one of these edges"];
    refused(&lab, &["play", "sample"], &expected);
}

#[test]
fn all_problems_of_a_template_at_once() {
    let nodes = [
        node("a", "true", "{x.session_id}"),
        node("a", "true", ""),
        node("b", "true", ""),
    ];
    let edges = [
        json!({ "from": "a", "to": "b" }),
        json!({ "from": "b", "to": "a" }),
        json!({ "from": "a", "to": "ab" }),
    ];
    let lab = Lab::with_template(&template(&nodes, &edges));
    let all = [
        ".workflow/templates/sample.json: 4 problems",
        "has the id `a`, too; ids are unique",
        "it refers to the node `x`, which does not exist",
        "in a cycle: a -> b -> a",
        "unknown node `ab`; did you mean `a`?",
    ];
    refused(&lab, &["play", "sample"], &all);
    refused(&lab, &["play", "sample", "--dry-run"], &all);
}

/// All obstacles at once, so that they can be fixed at once.
#[test]
fn all_that_keeps_a_session_from_beginning_at_once() {
    let mut cli = node("b", "x", "");
    cli["type"] = json!("cli");
    cli["cli_tool"] = json!("gemini");
    let mut document = chain(&[
        node("a", "flow-plan", "{goal}"),
        cli,
        checkpoint("cp", true),
    ]);
    document["context_schema"] = json!({ "goal": { "type": "string", "required": true } });
    let lab = Lab::with_template(&document);
    let config = "[[executor]]\ntype = \"cli\"\nargv = [\"no-such-program\"]\n";
    lab.write("runwright.toml", config);
    let all = [
        "the required variable `goal` has no value",
        "no executor is configured for\n  a (skill flow-plan)",
        "the executor no-such-program is not installed",
        "--pause-at `cpp`: the template has no such checkpoint",
        "did you mean `cp`?",
        "the template has no variable `gaol`; did you mean `goal`?",
    ];
    let typed = ["play", "sample", "--context", "gaol=x", "--pause-at", "cpp"];
    refused(&lab, &typed, &all);
    let dry = [&typed[..], &["--dry-run"]].concat();
    refused(&lab, &dry, &all);
    let told = lab.call(&[&dry[..], &["--json"]].concat()).with(2).json();
    let codes: Vec<&str> = (told["problems"].as_array().unwrap().iter())
        .map(|problem| problem["code"].as_str().unwrap())
        .collect();
    let expected = [
        "unknown_checkpoint",
        "missing_variable",
        "missing_executor",
        "executor_not_installed",
    ];
    assert_eq!(codes, expected, "{told}");
    assert_eq!(told["valid"], false);
    assert_eq!(told["execution_plan"].as_array().unwrap().len(), 3);
}

#[test]
fn template_problems_are_listed_one_by_one_for_programs() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "")]));
    lab.write(".workflow/templates/sample.json", "{\n  \"nodes\": [,]\n}");
    let told = lab
        .call(&["play", "sample", "--dry-run", "--json"])
        .with(2)
        .says("line 2, column 13")
        .json();
    let problem = &told["problems"][0];
    assert_eq!(
        (&problem["code"], &problem["line"], &problem["column"]),
        (&json!("malformed_json"), &json!(2), &json!(13))
    );
}

#[test]
fn unknown_template_variables_get_a_suggestion() {
    let mut document = chain(&[node("a", "true", "{goal} {extra}")]);
    document["context_schema"] = json!({ "goal": { "type": "string" } });
    let lab = Lab::with_template(&document);
    let play = |context: &str| lab.call(&["play", "sample", "--context", context]);
    play("gaol=x")
        .with(0)
        .says("warning: the template has no variable `gaol`; did you mean `goal`?");
    play("zzz=x").with(0).says("it has goal");
    let declared = play("goal=x").with(0);
    assert!(!declared.stderr.contains("has no variable"), "{declared:?}");
    let referred = play("extra=x").with(0);
    assert!(!referred.stderr.contains("warning"), "{referred:?}");
}

#[test]
fn a_missing_executor() {
    let lab = Lab::with_template(&chain(&[node("a", "flow-plan", "")]));
    std::fs::remove_file(lab.path().join("runwright.toml")).unwrap();
    refused(
        &lab,
        &["play", "sample"],
        &[
            "no executor is configured for\n  a (skill flow-plan)",
            "add to a file runwright.toml in the project folder",
            "type = \"skill\"\n  match = \"flow-plan\"",
        ],
    );
    let config = |text: &str| lab.write("runwright.toml", text);
    config("[[executor]]\ntype = \"skill\"\nargv = [\"no-such-program\"]\n");
    refused(
        &lab,
        &["play", "sample"],
        &["no-such-program is not installed"],
    );
    config("[[executor]]\ntype = \"skill\"\nargv = [\"{arg}\"]\n");
    refused(
        &lab,
        &["play", "sample"],
        &["runwright.toml: the executor in line 1", "{args}"],
    );
    config("[[executor]\n");
    refused(
        &lab,
        &["play", "sample"],
        &["runwright.toml: line 1, column "],
    );
}

#[test]
fn bad_json_has_its_line_and_column() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "")]));
    lab.write(".workflow/templates/sample.json", "{\n  \"nodes\": [,]\n}");
    refused(&lab, &["play", "sample"], &["line 2, column 13"]);
}

#[test]
fn oddities_are_warnings_unless_strict() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "{gaol}")]));
    refused(
        &lab,
        &["play", "sample", "--strict"],
        &["{gaol} is not a variable"],
    );
    lab.call(&["play", "sample"])
        .with(0)
        .says("warning:")
        .says("{gaol} is not a variable");
}

#[test]
fn misspelt_keys_are_named() {
    let mut document = chain(&[node("a", "true", ""), node("b", "true", "")]);
    document["descripton"] = json!("a sample");
    document["nodes"][0]["onfail"] = json!("skip");
    let lab = Lab::with_template(&document);
    let strict = ["play", "sample", "--strict"];
    refused(&lab, &strict, &["did you mean `description`?"]);
    refused(&lab, &strict, &["did you mean `on_fail`?"]);
    lab.call(&["play", "sample"])
        .with(0)
        .says("did you mean `on_fail`?");
    document["edges"][0]["max_round"] = json!(3);
    let lab = Lab::with_template(&document);
    refused(&lab, &["play", "sample"], &["did you mean `max_rounds`?"]);
}

#[test]
fn two_things_at_once() {
    let lab = Lab::new();
    refused(&lab, &["play", "x", "--list"], &["exclude each other"]);
    refused(&lab, &["play", "--resume"], &["no session to resume"]);
    let resume = ["play", "--resume", "S", "--context", "goal=new"];
    refused(&lab, &resume, &["keeps the context it started with"]);
    for typed in [["--pause-at", "cp"], ["--timeout", "9s"]] {
        let kept = format!("keeps the {} it started with", &typed[0][2..]);
        let resume = [&["play", "--resume", "S"], &typed[..]].concat();
        refused(&lab, &resume, &[&kept]);
    }
    let from = ["play", "--resume", "S", "--from", "CP-01", "--skip", "a"];
    refused(&lab, &from, &["--from and --replan start a new session"]);
}

#[test]
fn mistakes_in_a_session_come_with_the_right_command() {
    let mut document = chain(&[node("a", "true", "{goal}"), checkpoint("cp", true)]);
    document["context_schema"] = json!({ "goal": { "type": "string", "required": true } });
    let lab = Lab::with_template(&document);
    let twice = [
        "play",
        "sample",
        "--context",
        "goal=x",
        "--context",
        "goal=y",
    ];
    refused(
        &lab,
        &twice,
        &["--context gives `goal` twice", "give it once"],
    );
    let pause = ["play", "sample", "--context", "goal=x", "--pause-at", "zz"];
    refused(
        &lab,
        &pause,
        &["the template has no such checkpoint", "there is `cp`"],
    );
    for (file, says) in [
        (
            "[paly]\njobs = 1\n",
            "line 1, column 2: unknown field `paly`",
        ),
        ("[play]\njob = 1\n", "did you mean `jobs`?"),
        ("[[executor]]\ntype = \"skil\"\n", "did you mean `skill`?"),
        ("[play]\njobs = 0\n", "remove it to use one per processor"),
    ] {
        lab.write("runwright.toml", file);
        refused(&lab, &["play", "sample", "--context", "goal=x"], &[says]);
    }
    lab.write("runwright.toml", SHELL);
    lab.call(&["play", "sample", "--context", "goal=x"]).with(0);
    lab.call(&["play", "--resume", &lab.session(), "--from", "zz"])
        .with(2)
        .says("has no node `zz`")
        .says("there are `a`, `cp`");
}

#[test]
fn a_field_that_no_node_has_is_warned_of() {
    let args = "{a.outptu} {a.reason} {a.status}";
    let lab = Lab::with_template(&chain(&[
        node("a", "true", ""),
        node("b", "printf %s \"$1\" > got", args),
    ]));
    lab.call(&["play", "sample"])
        .with(0)
        .says("did you mean {a.output}?")
        .says("{a.reason} is not a reference and is not replaced; a node has .session_id")
        .says("line ");
    assert_eq!(lab.read("got"), "{a.outptu} {a.reason} completed");
    for args in [
        &["play", "sample", "--strict"][..],
        &["play", "sample", "--strict", "--dry-run"],
    ] {
        lab.call(args).with(2).says("did you mean {a.output}?");
    }
}

#[test]
fn a_dry_run_refuses_every_id_that_playing_refuses() {
    let long = "é".repeat(129);
    for id in ["a\tb", "a\nb", &long, &"日".repeat(90)] {
        let lab = Lab::with_template(&chain(&[node(id, "true", "")]));
        for args in [&["play", "sample"][..], &["play", "sample", "--dry-run"]] {
            lab.call(args).with(2).says("/nodes/0/id: line ");
        }
        assert!(lab.sessions().is_empty());
    }
    let mut named = node("a", "true", "");
    named["name"] = json!("two\nlines\t");
    let mut document = chain(&[named]);
    document["name"] = json!("日".repeat(200));
    document["version"] = json!("1\n0");
    let lab = Lab::with_template(&document);
    lab.call(&["play", "sample", "--dry-run"]).with(0);
    lab.call(&["play", "sample"]).with(0);
}

#[test]
fn a_template_that_was_changed_since_is_said_on_resume() {
    let document = |script: &str| {
        chain(&[
            node("a", "true", ""),
            checkpoint("cp", false),
            node("b", script, ""),
        ])
    };
    let lab = Lab::with_template(&document("echo old > ran"));
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    lab.template("sample", &document("echo new > ran"));
    lab.call(&["play", "--resume", "--strict"])
        .with(2)
        .says(".workflow/templates/sample.json has changed since")
        .says("--replan");
    lab.call(&["play", "--resume", &id, "--from", "cp", "--yes"])
        .with(0)
        .says("has changed since");
    lab.call(&["play", "--resume", &id])
        .with(0)
        .says("has changed since");
    assert_eq!(lab.read("ran"), "old\n");

    let lab = Lab::with_template(&document("true"));
    lab.call(&["play", "sample"]).with(3);
    let text = serde_json::to_string(&document("true")).unwrap();
    lab.write(".workflow/templates/sample.json", text);
    let ended = lab.call(&["play", "--resume"]).with(0);
    assert!(
        !ended.stderr.contains("changed"),
        "only spaces differ: {ended:?}"
    );
}

#[test]
fn a_dry_run_shows_the_command_lines() {
    let mut document = chain(&[
        node("a", "make plan", "{goal} in {scope}"),
        node("b", "build", "{prev_output} {a.artifacts[0]}"),
    ]);
    document["context_schema"] = json!({
        "goal": { "type": "string", "required": true },
        "scope": { "type": "string", "default": "src" },
    });
    let lab = Lab::with_template(&document);
    let config = "[[executor]]\ntype = \"skill\"\nargv = [\"sh\", \"-c\", \"{executor}\"]\nstdin = \"{args}\"\n";
    lab.write("runwright.toml", config);
    let dry = ["play", "sample", "--dry-run", "--context", "goal=a shed"];
    lab.call(&dry)
        .with(0)
        .prints("runs  sh -c 'make plan'")
        .prints("reads a shed in src")
        .prints("reads {prev_output} {a.artifacts[0]}");
    let told = lab.call(&[&dry[..], &["--json"]].concat()).with(0).json();
    assert_eq!(
        told["commands"][0],
        json!({ "node": "a", "argv": ["sh", "-c", "make plan"], "stdin": "a shed in src" })
    );
}

//! Values arrive byte for byte, and are never executed.

use serde_json::json;

use super::{chain, node};
use crate::support::Lab;

const NASTY: [&str; 9] = [
    "it's \"quoted\" `and` 'more'",
    "$(touch hacked) `touch hacked` ; touch hacked | touch hacked & touch hacked",
    "{goal} {{goal}} ${HOME} {N-001.output} {prev_output} %s %n \\n \\\\",
    "line one\nline two\r\n\n\ttabs  and trailing  \n",
    "--help -rf / * ? [a-z] ~ !! #",
    "ünïcödé 日本語 🦀 \u{202e}rtl \u{feff}bom",
    "{\"json\": [1, 2, {\"a\": \"}\"}]}",
    "\u{1b}[31mred\u{7}\u{8}",
    " ",
];

fn lab() -> Lab {
    let mut document = chain(&[
        node("N-001", "printf %s \"$1\" > first", "{goal}"),
        node("N-002", "printf %s \"$1\" > second", "<{goal}|{goal}>"),
    ]);
    document["context_schema"] = json!({ "goal": { "type": "string", "required": true } });
    Lab::with_template(&document)
}

#[test]
fn as_arguments() {
    for value in NASTY {
        let lab = lab();
        let given = format!("goal={value}");
        lab.call(&["play", "sample", "--context", &given]).with(0);
        assert_eq!(lab.read("first"), value);
        assert_eq!(lab.read("second"), format!("<{value}|{value}>"));
        assert!(!lab.path().join("hacked").exists());
        assert_eq!(lab.state()["context"]["goal"], value);
    }
}

#[test]
fn a_mebibyte_on_standard_input() {
    let lab = lab();
    lab.write(
        "runwright.toml",
        "[[executor]]\ntype = \"skill\"\nstdin = \"{args}\"\n\
         argv = [\"sh\", \"-c\", \"cat > $WF_NODE_ID.got\"]\n"
            .replace("$WF_NODE_ID", "\\\"$WF_NODE_ID\\\""),
    );
    let text = NASTY.join("\n");
    let value: String = text.chars().cycle().take(1 << 20).collect();
    lab.write("context.json", json!({ "goal": value }).to_string());
    lab.call(&["play", "sample", "--context-file", "context.json"])
        .with(0);
    assert!(lab.read("N-001.got") == value);
    assert!(lab.read("N-002.got") == format!("<{value}|{value}>"));
}

#[test]
fn an_argument_that_is_too_long_suggests_a_fix() {
    let lab = lab();
    let value = "x".repeat(200_000);
    lab.write("context.json", json!({ "goal": value }).to_string());
    lab.call(&["play", "sample", "--context-file", "context.json"])
        .with(1)
        .says("has 200000 bytes")
        .says("stdin = \"{args}\"");
}

#[test]
fn an_output_is_given_on_as_it_was() {
    let value = NASTY.join("|");
    let lab = Lab::with_template(&chain(&[
        node("N-001", "cat value", ""),
        node("N-002", "printf %s \"$1\" > second", "{prev_output}"),
    ]));
    lab.write("value", &value);
    lab.call(&["play", "sample"]).with(0);
    assert_eq!(lab.read("second"), value);
    assert!(!lab.path().join("hacked").exists());
}

#[test]
fn children_know_where_they_are() {
    let lab = Lab::with_template(&chain(&[node("N 1/x", "env | grep ^WF_ | sort", "")]));
    lab.call(&["play", "sample"]).with(0);
    let log = lab.log("N%201%2Fx");
    let names = log.lines().map(|line| line.split('=').next().unwrap());
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "WF_ATTEMPT_DIR",
            "WF_ATTEMPT_KEY",
            "WF_EFFECT_KEY",
            "WF_NODE_ID",
            "WF_RESULT_FILE",
            "WF_SESSION_DIR",
            "WF_SESSION_ID",
            "WF_TASK_ID"
        ]
    );
    assert!(log.contains("WF_NODE_ID=N 1/x\n"));
    assert!(log.contains(&format!("WF_SESSION_ID={}\n", lab.session())));
}

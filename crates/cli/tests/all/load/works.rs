//! Workflows of real processes that record their work, and of nodes of the engine.

use serde_json::{Value, json};

use crate::support::*;

/// A step: records the start and end of its attempt in the ledger, and whether another process of
/// the same attempt is alive.
const STEP: &str = r#"
for other in pids/"$WF_ATTEMPT_KEY".*; do
    pid=${other##*.}
    if tr '\0' '\n' < "/proc/$pid/environ" 2>/dev/null | grep -qx "WF_ATTEMPT_KEY=$WF_ATTEMPT_KEY"; then
        echo "overlap $WF_ATTEMPT_KEY $pid $$" >> ledger
    fi
done
: > "pids/$WF_ATTEMPT_KEY.$$"
echo "start $WF_ATTEMPT_KEY" >> ledger
echo "$WF_ATTEMPT_KEY works"
if sh -c "$WORK"; then
    echo "end $WF_ATTEMPT_KEY" >> ledger
    rm "pids/$WF_ATTEMPT_KEY.$$"
else
    echo "fail $WF_ATTEMPT_KEY" >> ledger
    rm "pids/$WF_ATTEMPT_KEY.$$"
    exit 1
fi
"#;

/// The key of the interrupt at which some runs wait, for signals.
pub(super) const QUESTION: &str = "go-on";

/// A folder with the files for the steps.
pub(super) fn lab() -> Lab {
    let lab = Lab::new();
    std::fs::create_dir(lab.path().join("pids")).unwrap();
    lab.write("step.sh", STEP);
    lab.write("ledger", "");
    let child = workflow(
        "child",
        &[step(&lab, "inner", "true"), still("inner-end")],
        &[("inner", "inner-end")],
    );
    lab.workflow(&child);
    lab
}

/// Writes a workflow of a random kind under its own name; returns the file.
pub(super) fn any(lab: &Lab, random: &mut Random, name: &str) -> String {
    // Work of no or a short duration.
    let mut work = || {
        let bytes = 1 << (10 + random.below(13));
        format!("head -c {bytes} /dev/urandom | cksum")
    };
    let works: Vec<String> = (0..4).map(|_| work()).collect();
    let step = |id: &str, n: usize| step(lab, id, &works[n]);
    let document = match random.below(5) {
        0 => workflow(
            name,
            &[
                step("first", 0),
                step("a", 1),
                step("b", 2),
                step("c", 3),
                still("join"),
            ],
            &[
                ("first", "a"),
                ("first", "b"),
                ("first", "c"),
                ("a", "join"),
                ("b", "join"),
                ("c", "join"),
            ],
        ),
        1 => rounds(name, step("body", 0)),
        2 => workflow(
            name,
            &[
                step("before", 0),
                node("sub", "core.subWorkflow", json!({ "workflowId": "child" })),
                step("after", 1),
            ],
            &[("before", "sub"), ("sub", "after")],
        ),
        3 => workflow(
            name,
            &[
                flaky(lab, name),
                node(
                    "wait",
                    "core.delay",
                    json!({ "ms": 50 + random.below(400) }),
                ),
                step("after", 1),
            ],
            &[("flaky", "wait"), ("wait", "after")],
        ),
        _ => workflow(
            name,
            &[
                step("before", 0),
                node("ask", "core.interrupt", json!({ "key": QUESTION })),
                step("after", 1),
            ],
            &[("before", "ask"), ("ask", "after")],
        ),
    };
    lab.workflow(&document)
}

/// A workflow of sequential steps.
pub(super) fn chain(lab: &Lab, name: &str, steps: usize) -> String {
    let names: Vec<String> = (0..steps).map(|n| format!("step-{n}")).collect();
    let nodes: Vec<Value> = names.iter().map(|id| step(lab, id, "true")).collect();
    let edges: Vec<(&str, &str)> = names
        .windows(2)
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
        .collect();
    lab.workflow(&workflow(name, &nodes, &edges))
}

fn step(lab: &Lab, id: &str, work: &str) -> Value {
    let env = json!({ "LAB": lab.mark(), "WORK": work });
    node(
        id,
        "runwright.process",
        json!({ "argv": ["sh", "-eu", "step.sh"], "env": env }),
    )
}

/// Fails the first time only.
fn flaky(lab: &Lab, name: &str) -> Value {
    let work = format!("[ -e tried-{name} ] || {{ : > tried-{name}; exit 1; }}");
    let mut node = step(lab, "flaky", &work);
    node["settings"] = json!({ "retry": { "maxRetries": 3, "backoffMs": 50 } });
    node
}

fn still(id: &str) -> Value {
    node(id, "core.noop", json!({}))
}

fn rounds(name: &str, body: Value) -> Value {
    let head = node("head", "core.loop", json!({ "times": 3 }));
    let mut document = workflow(name, &[head, body, still("end")], &[]);
    document["edges"] = json!([
        { "id": "in", "sourceNodeId": "head", "sourceOutput": "body", "targetNodeId": "body" },
        { "id": "back", "sourceNodeId": "body", "targetNodeId": "head" },
        { "id": "out", "sourceNodeId": "head", "sourceOutput": "done", "targetNodeId": "end" },
    ]);
    document
}

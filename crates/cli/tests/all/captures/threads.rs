//! Tools called by threads, which the recording has in a random order.

use serde_json::{Value, json};

use super::peer::{says, wants};
use super::{Bench, has_python};
use crate::support::Ended;

/// Calls three tools in turn. WAY changes the order in a replay: it begins with the later ones at
/// once, in another order, without the first, or with another second one.
const AGENT: &str = r#"
import json, os, subprocess, urllib.request
program, way = os.environ["PROGRAM"], os.environ.get("WAY")
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "tiny", "messages": []}).encode(), {"content-type": "application/json"})
json.load(urllib.request.urlopen(request))
def tool(name, word="x"):
    return subprocess.Popen([program, "snapshot", "tool", name, "--", "echo", word], stdout=subprocess.PIPE)
def first_is_late(later):
    # It is begun when the others are well on their way.
    subprocess.run([program, "--version"], stdout=subprocess.DEVNULL)
    for one in [tool("one"), *later]:
        one.communicate()
if way == "at once":
    first_is_late([tool("three"), tool("two")])
elif way == "changed":
    first_is_late([tool("two", "y")])
else:
    for name in {"swapped": ["two", "one", "three"], "dropped": ["two", "three"]}.get(way, ["one", "two", "three"]):
        tool(name).communicate()
"#;

fn recorded(answer: Value) -> Bench {
    let bench = Bench::new(move |_, _| answer.clone());
    bench.lab.write("agent.py", AGENT);
    let args = "snapshot capture --root shop -- python3 ../agent.py";
    bench.call(&args.split(' ').collect::<Vec<_>>()).with(0);
    bench
}

fn replay(bench: &Bench, way: &str, code: i32) -> Value {
    let args = "snapshot replay latest --root shop --json";
    let mut command = bench.command(&args.split(' ').collect::<Vec<_>>());
    let ended: Ended = command.env("WAY", way).output().unwrap().into();
    ended.with(code).json()
}

#[test]
fn tools_that_came_in_turn_by_chance_come_in_any_order_at_once() {
    if !has_python("tools_that_came_in_turn_by_chance_come_in_any_order_at_once") {
        return;
    }
    let bench = recorded(says("Call them."));
    let report = replay(&bench, "at once", 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    // Sequential calls have an order, and these diverge from it.
    for (way, reason, came) in [
        ("swapped", "out_of_order", "two"),
        ("dropped", "missing", "two"),
    ] {
        let report = replay(&bench, way, 3);
        let found = &report["first_divergence"];
        let told = (
            &found["reason"],
            &found["step"],
            &found["expected"]["name"],
            &found["actual"]["name"],
        );
        let expected = (&json!(reason), &json!(2), &json!("one"), &json!(came));
        assert_eq!(told, expected, "{way}: {report}");
    }
}

#[test]
fn of_tools_that_one_answer_wanted_the_changed_one_is_named() {
    if !has_python("of_tools_that_one_answer_wanted_the_changed_one_is_named") {
        return;
    }
    let bench = recorded(wants(&[("1", "one", json!({})), ("2", "two", json!({}))]));
    let report = replay(&bench, "changed", 3);
    let found = &report["first_divergence"];
    assert_eq!(
        (&found["reason"], &found["step"], &found["at"]),
        (&json!("changed"), &json!(3), &json!("/argv/1")),
        "{report}"
    );
}

//! Requests to a tool server that are repeated at random, and several in one line.

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python};
use crate::support::Ended;

/// Asks for the list of tools before and after a call, as often as LISTS says, and sends a batch.
const CLIENT: &str = r#"
import json, os, subprocess, sys
server = subprocess.Popen([os.environ["PROGRAM"], "snapshot", "mcp", "--", "python3", "../server.py"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(message):
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())
def ask(method, **params):
    return say({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
ask("initialize")
lists = [ask("tools/list")]
before, behind = json.loads(os.environ.get("LISTS", sys.argv[1]))
lists += [ask("tools/list") for _ in range(before)]
print(ask("tools/call", name=os.environ.get("TOOL", "add"), arguments={}).get("result"))
lists += [ask("tools/list") for _ in range(behind)]
print(all(one.get("result") == lists[0]["result"] for one in lists))
print(json.dumps(say([{"jsonrpc": "2.0", "id": id, "method": "tools/list"} for id in (8, 9)]), sort_keys=True))
server.stdin.close()
server.wait()
"#;
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {"tools": [{"name": "add"}]} if request["method"] == "tools/list" else {"content": []}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

fn replay(bench: &Bench, lists: &str, tool: &str, code: i32) -> Value {
    let args = "snapshot replay latest --root shop --json";
    let mut command = bench.command(&args.split(' ').collect::<Vec<_>>());
    let ended: Ended = command
        .env("LISTS", lists)
        .env("TOOL", tool)
        .output()
        .unwrap()
        .into();
    ended.with(code).json()
}

#[test]
fn a_list_is_given_as_often_as_it_is_asked_for() {
    if !has_python("a_list_is_given_as_often_as_it_is_asked_for") {
        return;
    }
    for recorded in ["[0,0]", "[1,1]"] {
        let bench = Bench::new(|_, _| says("x"));
        bench.lab.write("client.py", CLIENT);
        bench.lab.write("server.py", SERVER);
        let args = [
            "snapshot",
            "capture",
            "--root",
            "shop",
            "--",
            "python3",
            "../client.py",
            recorded,
        ];
        let ended = bench.call(&args).with(0);
        let batch = ended.stdout.lines().nth(2).unwrap();
        let batch: Value = serde_json::from_str(batch).unwrap();
        let refused = |at: usize| (&batch[at]["id"], &batch[at]["error"]["code"]);
        assert_eq!(refused(0), (&json!(8), &json!(-32600)), "{batch}");
        assert_eq!(refused(1), (&json!(9), &json!(-32600)), "{batch}");
        for lists in ["[0,0]", "[1,1]", "[3,0]", "[0,3]"] {
            let report = replay(&bench, lists, "add", 0);
            assert_eq!(
                report["match_status"], "exact_match",
                "{recorded} {lists}: {report}"
            );
        }
        // A different tool call is a divergence.
        let report = replay(&bench, "[0,1]", "other", 3);
        let found = &report["first_divergence"];
        assert_eq!(found["expected"]["name"], "add", "{report}");
    }
}

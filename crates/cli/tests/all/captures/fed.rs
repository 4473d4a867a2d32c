//! The input of a tool, and the readers of its output.

use serde_json::json;

use super::peer::says;
use super::{Bench, has_python};
use crate::support::Ended;

/// Uses a tool line by line, or all at once, or with an unread output. A wait without result ends
/// with exit code 9.
const AGENT: &str = r#"
import os, subprocess, sys, threading
watchdog = threading.Timer(60, os._exit, [9])
watchdog.daemon = True
watchdog.start()
program, way = os.environ["PROGRAM"], os.environ.get("WAY", sys.argv[1])
talk = [program, "snapshot", "tool", "talk", "--stdin", "--", "sh", "-c", "while read line; do echo got $line; done"]
if way == "in turn":
    tool = subprocess.Popen(talk, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    for word in ["one", "two"]:
        tool.stdin.write(word + "\n")
        print(tool.stdout.readline(), end="")
    tool.stdin.close()
    print(tool.wait())
elif way == "unread":
    reading, writing = os.pipe()
    os.close(reading)
    print(subprocess.run([program, "snapshot", "tool", "say", "--", "echo", "words"], stdout=writing).returncode)
else:
    ran = subprocess.run(talk, input=way.replace(" ", "\n") + "\n", stdout=subprocess.PIPE, text=True)
    print(ran.stdout, end="")
    print(ran.returncode)
"#;

fn capture(bench: &Bench, way: &str) -> String {
    bench.lab.write("agent.py", AGENT);
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "python3",
        "../agent.py",
        way,
    ];
    let ended = bench.call(&args).with(0);
    ended
        .stdout
        .trim_end()
        .rsplit_once('\n')
        .unwrap()
        .0
        .to_owned()
}

#[test]
fn a_tool_is_given_its_input_as_it_comes() {
    if !has_python("a_tool_is_given_its_input_as_it_comes") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    assert_eq!(capture(&bench, "in turn"), "got one\ngot two\n0");
    // All of it counts, in any pieces.
    for (way, code) in [("one two", 0), ("one three", 3)] {
        let args = "snapshot replay latest --root shop --json";
        let mut command = bench.command(&args.split(' ').collect::<Vec<_>>());
        let ended: Ended = command.env("WAY", way).output().unwrap().into();
        let report = ended.with(code).json();
        let at = &report["first_divergence"]["at"];
        assert_eq!(code == 3, *at == json!("/stdin"), "{report}");
    }
    // Without a capture it is the tool's own input.
    let agent = bench.lab.path().join("agent.py");
    let mut alone = std::process::Command::new("python3");
    alone
        .arg(agent)
        .arg("in turn")
        .env("PROGRAM", env!("CARGO_BIN_EXE_runwright"));
    let ended = Ended::from(alone.env_remove("RUNWRIGHT_CAPTURE_URL").output().unwrap());
    assert_eq!(ended.with(0).stdout, "got one\ngot two\n0\n");
}

#[test]
fn a_tool_with_unread_output_ends_as_recorded() {
    if !has_python("a_tool_with_unread_output_ends_as_recorded") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    assert_eq!(capture(&bench, "unread"), "0");
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
}

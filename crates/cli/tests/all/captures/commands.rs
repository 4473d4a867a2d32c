//! Capture and replay of a working agent.

use std::fs::File;
use std::io::Read;

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, artifacts, busy, has_python, lay_out, read};
use crate::support::wait_until_gone;

/// A pipe by which an agent signals the test.
fn whistle(bench: &Bench) -> File {
    let path = bench.lab.path().join("started");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    // Opened for both directions, so that neither side blocks in opening it.
    File::options().read(true).write(true).open(path).unwrap()
}

/// The child processes of a process.
fn children(of: u32) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let listed = listed.unwrap_or_default();
    listed
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect()
}

/// Waits until the agent has started.
fn hear(whistle: &mut File) {
    whistle.read_exact(&mut [0; 5]).unwrap();
}

fn bench() -> Bench {
    let bench = Bench::new(|number, _| says(&format!("answer {number}")));
    lay_out(&bench);
    bench.script(&busy());
    bench
}

#[test]
fn everything_an_agent_did_is_written_down() {
    if !has_python("everything_an_agent_did_is_written_down") {
        return;
    }
    let bench = bench();
    let path = bench.capture(&[
        "--context",
        "shop/kept.txt",
        "--prompt",
        "Tidy up.",
        "--agent",
        "tidier@2",
    ]);
    let folder = bench.root().canonicalize().unwrap();
    assert!(
        path.starts_with(folder.join(".aiwg/provenance/snapshots")),
        "{path:?}"
    );
    let snapshot = read(&path);
    assert_eq!(
        artifacts(&snapshot),
        [
            "created by-tool.txt",
            "modified edited.txt",
            "deleted gone.txt",
            "deleted named.txt",
            "created new/made.txt",
            "created renamed.txt"
        ]
    );
    let digest = |text: &str| {
        format!(
            "sha256:{}",
            kernel::digest::Digest::compute(text.as_bytes())
        )
    };
    let hash = |path: &str| {
        let all = snapshot["outputs"]["artifacts_created"].as_array().unwrap();
        all.iter()
            .find(|artifact| artifact["path"] == path)
            .unwrap()["hash"]
            .clone()
    };
    assert_eq!(hash("edited.txt"), digest("after"));
    assert_eq!(hash("gone.txt"), digest("gone"), "what was lost");
    assert_eq!(snapshot["outputs"]["response"], "answer 2");
    assert_eq!(snapshot["outputs"]["response_hash"], digest("answer 2"));
    let tools = snapshot["outputs"]["tool_calls"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|call| &call["tool"]).collect();
    assert_eq!(names, ["count", "note"]);
    assert_eq!(tools[1]["effect_class"], "write_local");
    assert_eq!(
        snapshot["config"]["model"],
        json!({ "id": "tiny", "provider": "openai", "version": "tiny-1" })
    );
    assert_eq!(snapshot["inputs"]["user_prompt"], "Tidy up.");
    assert_eq!(snapshot["inputs"]["context_files"][0]["path"], "kept.txt");
    assert_eq!(
        snapshot["inputs"]["context_files"][0]["hash"],
        digest("kept")
    );
    assert_eq!(
        snapshot["agent"],
        json!({ "name": "tidier", "version": "2" })
    );
    let metrics = &snapshot["metrics"];
    assert_eq!(
        (
            &metrics["iterations"],
            &metrics["tokens_input"],
            &metrics["tool_calls_count"]
        ),
        (&json!(3), &json!(21), &json!(2))
    );
    let text = snapshot.to_string();
    assert!(
        !text.contains(bench.lab.path().to_str().unwrap()),
        "the folder's own name is not in it"
    );
    bench
        .call(&["snapshot", "verify", "--root", "shop"])
        .with(0);
}

#[test]
fn a_verify_replay_is_exact_and_calls_no_model() {
    if !has_python("a_verify_replay_is_exact_and_calls_no_model") {
        return;
    }
    let bench = bench();
    bench.capture(&[]);
    let asked = bench.peer.came().len();
    assert_eq!(asked, 3);
    // Later changes of the folder are kept.
    bench.write("edited.txt", "changed by somebody");
    let report = bench.replay("verify", 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(report["pass"], true);
    assert_eq!(report["first_divergence"], Value::Null);
    assert_eq!(report["live"], json!({ "models": 0, "tools": 0 }));
    assert_eq!(bench.peer.came().len(), asked, "nobody was asked");
    let status = &report["replay_status"];
    assert_eq!(
        (&status["replayed"], &status["replay_count"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(
        std::fs::read_to_string(bench.root().join("edited.txt")).unwrap(),
        "changed by somebody"
    );
    bench
        .call(&["snapshot", "verify", "--root", "shop"])
        .with(0);
    let env = bench.replay("env", 0);
    assert_eq!(
        (&env["match_status"], &env["live"]["tools"]),
        (&json!("exact_match"), &json!(2)),
        "{env}"
    );
    assert_eq!(env["replay_status"]["replay_count"], 2);
}

#[test]
fn a_call_that_is_another_is_named_at_its_step() {
    if !has_python("a_call_that_is_another_is_named_at_its_step") {
        return;
    }
    let bench = bench();
    bench.capture(&[]);
    let place =
        |steps: &[Value], tool: &str| steps.iter().position(|step| step["tool"] == tool).unwrap();
    let check = |steps: &[Value], step: u64, reason: &str| {
        bench.script(steps);
        let report = bench.replay("verify", 3);
        let divergence = &report["first_divergence"];
        assert_eq!(
            (&divergence["step"], &divergence["reason"]),
            (&json!(step), &json!(reason)),
            "{report}"
        );
        assert_eq!(report["pass"], false);
        report["first_divergence"].clone()
    };
    let original = busy();
    let mut moved = original.clone();
    let (count, note) = (place(&moved, "count"), place(&moved, "note"));
    moved.swap(count, note);
    let told = check(&moved, 2, "out_of_order");
    assert_eq!(
        (&told["expected"]["name"], &told["actual"]["name"]),
        (&json!("count"), &json!("note"))
    );
    let mut dropped = original.clone();
    dropped.remove(count);
    let told = check(&dropped, 2, "missing");
    assert_eq!(
        (&told["expected"]["name"], &told["actual"]["name"]),
        (&json!("count"), &json!("note"))
    );
    let with = |place: usize, step: Value| {
        let mut added = original.clone();
        added.insert(place, step);
        added
    };
    let extra = json!({ "tool": "extra", "argv": ["true"] });
    let told = check(&with(note + 1, extra.clone()), 4, "added");
    assert_eq!(told["actual"]["name"], "extra");
    // Also a call with the name of the next one, and one with the name of an earlier one.
    let like = json!({ "tool": "note", "argv": ["true"] });
    check(&with(note, like), 3, "added");
    check(&with(note, original[count].clone()), 3, "added");
    let mut other = original.clone();
    other[count] = extra.clone();
    let told = check(&other, 2, "changed");
    assert_eq!(
        (&told["expected"]["name"], &told["actual"]["name"]),
        (&json!("count"), &json!("extra"))
    );
    let mut changed = original.clone();
    changed[note]["argv"][2] = json!("echo other");
    let told = check(&changed, 3, "changed");
    assert_eq!(told["at"], "/argv/2");
    assert_eq!(told["actual"]["input"]["argv"][2], "echo other");
    let mut shorter = original.clone();
    shorter.pop();
    check(&shorter, 5, "missing");
    let mut longer = original.clone();
    longer.push(json!({ "ask": "More?" }));
    check(&longer, 6, "added");
    let mut ends = original.clone();
    ends.push(json!({ "exit": 4 }));
    check(&ends, 6, "other_end");
    // And the peer received no request.
    assert_eq!(bench.peer.came().len(), 3);
    bench.script(&original);
    let report = bench.replay("verify", 0);
    assert_eq!(report["replay_status"]["replay_count"], 11);
    // With live tools, a call is identified at its end.
    let env = |steps: &[Value], code: i32| {
        bench.script(steps);
        let found = bench.replay("env", code)["first_divergence"].clone();
        let told = (found["message"].clone(), found["recorded_step"].clone());
        ((found["step"].clone(), found["reason"].clone()), told)
    };
    let (found, told) = env(&moved, 0);
    assert_eq!(found, (json!(2), json!("out_of_order")));
    let message = "step 2: tool note: a call was made that was recorded later";
    assert_eq!(told, (json!(message), json!(3)));
    assert_eq!(env(&dropped, 1).0, (json!(2), json!("missing")));
    let (found, told) = env(&with(note + 1, extra), 1);
    assert_eq!(found, (json!(4), json!("added")));
    let message = "step 4: tool extra: an unrecorded call was made";
    assert_eq!(told, (json!(message), Value::Null));
    assert_eq!(env(&changed, 1).0, (json!(3), json!("changed")));
}

#[test]
fn a_different_mcp_call_is_reported_at_its_step() {
    if !has_python("a_different_mcp_call_is_reported_at_its_step") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    let server = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}), flush=True)
"#;
    let client = r#"
import json, os, subprocess
argv = [os.environ["PROGRAM"], "snapshot", "mcp", "--", "python3", "../server.py"]
server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(number, method, params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    server.stdout.readline()
ask(0, "initialize", {})
for number, name in enumerate(os.environ.get("WAY", "a b c").split()):
    ask(number + 1, "tools/call", {"name": name, "arguments": {}})
server.stdin.close()
server.wait()
"#;
    bench.lab.write("server.py", server);
    bench.lab.write("client.py", client);
    bench.record(&["python3", "../client.py"]);
    for (way, step, reason, expected, actual) in [
        ("a c b", 3, "out_of_order", "b", "c"),
        ("a c", 3, "missing", "b", "c"),
        ("a b x c", 4, "added", "c", "x"),
        ("a a b c", 3, "added", "b", "a"),
        ("a y c", 3, "changed", "b", "y"),
    ] {
        let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
        let mut command = bench.command(&args);
        let ended: crate::support::Ended = command.env("WAY", way).output().unwrap().into();
        let found = &ended.with(3).json()["first_divergence"];
        assert_eq!(
            (
                &found["step"],
                &found["reason"],
                &found["expected"]["name"],
                &found["actual"]["name"]
            ),
            (
                &json!(step),
                &json!(reason),
                &json!(expected),
                &json!(actual)
            ),
            "{way}: {found}"
        );
    }
}

#[test]
fn a_different_model_answer_is_reported() {
    if !has_python("a_different_model_answer_is_reported") {
        return;
    }
    let bench = bench();
    bench.capture(&[]);
    // The peer continues counting, so its answers have changed.
    let report = bench.replay("model", 1);
    assert_eq!(report["live"]["models"], 3, "{report}");
    assert_eq!(report["live"]["tools"], 0);
    assert_eq!(report["first_divergence"]["reason"], "other_result");
    assert_eq!(report["match_status"], "partial_match");
    let report = bench.replay("rerun", 1);
    assert_eq!(
        (&report["live"]["models"], &report["live"]["tools"]),
        (&json!(3), &json!(2))
    );
    let args = [
        "snapshot", "validate", "latest", "--root", "shop", "--runs", "2", "--json",
    ];
    let report = bench.call(&args).with(1).json();
    assert_eq!(
        (&report["match_rate"], &report["verdict"]),
        (&json!(0.0), &json!("FAIL"))
    );
    assert!(
        report["sources_of_variance"]
            .to_string()
            .contains("no seed"),
        "{report}"
    );
}

#[test]
fn a_fork_continues_live_from_a_step() {
    if !has_python("a_fork_continues_live_from_a_step") {
        return;
    }
    let bench = bench();
    let parent = read(&bench.capture(&[]));
    let fork = |at: &str| {
        bench.call(&[
            "snapshot",
            "fork",
            parent["snapshot_id"].as_str().unwrap(),
            "--root",
            "shop",
            "--at",
            at,
        ])
    };
    let ended = fork("4").with(0);
    let path = ended.stdout.lines().last().unwrap();
    let forked = read(&bench.lab.path().join(path));
    assert_eq!(
        bench.peer.came().len(),
        4,
        "one question was asked for real"
    );
    assert_eq!(forked["outputs"]["response"], "answer 3");
    let extensions = &forked["extensions"]["parent"];
    assert_eq!(
        *extensions,
        json!({ "snapshot_id": parent["snapshot_id"], "fork_step": 4 })
    );
    assert_eq!(artifacts(&forked), artifacts(&parent));
    assert_eq!(
        bench.replay("verify", 0)["match_status"],
        "exact_match",
        "a fork is replayed like any other"
    );
    fork("6").with(2).says("5 calls");
    bench.script(&[json!({ "ask": "Something else" })]);
    fork("4").with(3);
    bench
        .call(&["snapshot", "verify", "--root", "shop"])
        .with(0);
}

#[test]
fn a_fork_inherits_the_agent_metadata_of_its_parent() {
    if !has_python("a_fork_inherits_the_agent_metadata_of_its_parent") {
        return;
    }
    let bench = Bench::new(|number, _| says(&format!("answer {number}")));
    bench.write("kept.txt", "kept");
    bench.script(&[json!({ "ask": "First?" }), json!({ "ask": "Then?" })]);
    let told = [
        "--agent",
        "tidier@2",
        "--tool",
        "count",
        "--rule",
        "be kind",
        "--context",
        "shop/kept.txt",
        "--system-prompt",
        "You tidy up.",
        "--env",
        "OPENAI_BASE_URL",
        "--exclude",
        "*.tmp",
    ];
    let parent = read(&bench.capture(&told));
    assert_eq!(parent["agent"]["version"], "2");
    let fork = [
        "snapshot", "fork", "latest", "--root", "shop", "--at", "1", "--json",
    ];
    let path = bench.call(&fork).with(0).json()["path"].clone();
    let forked = read(&bench.lab.path().join(path.as_str().unwrap()));
    let said = |snapshot: &Value| {
        let pointers = [
            "/agent",
            "/inputs/context_files",
            "/inputs/environment",
            "/config",
            "/extensions/watched",
            "/extensions/process/cwd",
        ];
        pointers.map(|pointer| snapshot.pointer(pointer).cloned().unwrap_or_default())
    };
    assert_eq!(said(&forked), said(&parent));
    assert!(said(&parent).iter().all(|part| !part.is_null()), "{parent}");
    assert!(parent["config"]["system_prompt_hash"].is_string());
    assert!(parent["inputs"]["environment"]["OPENAI_BASE_URL"].is_string());
}

#[test]
fn modes_reject_forbidden_parameters_and_apply_allowed_ones() {
    if !has_python("modes_reject_forbidden_parameters_and_apply_allowed_ones") {
        return;
    }
    let bench = bench();
    for (options, flag) in [
        (
            vec!["--mode", "strict", "--seed", "1", "--max-tokens", "9"],
            "--temperature",
        ),
        (
            vec![
                "--mode",
                "strict",
                "--temperature",
                "0",
                "--max-tokens",
                "9",
            ],
            "--seed",
        ),
        (
            vec!["--mode", "strict", "--temperature", "0", "--seed", "1"],
            "--max-tokens",
        ),
        (vec!["--mode", "seeded"], "--seed"),
    ] {
        bench.call(&bench.capture_args(&options)).with(2).says(flag);
    }
    assert_eq!(bench.peer.came().len(), 0, "nothing was run");
    let strict = [
        "--mode",
        "strict",
        "--temperature",
        "0",
        "--seed",
        "1",
        "--max-tokens",
        "9",
        "--model",
        "another",
    ];
    let snapshot = read(&bench.capture(&strict));
    for came in bench.peer.came() {
        assert_eq!(
            (
                &came.body["temperature"],
                &came.body["seed"],
                &came.body["max_tokens"]
            ),
            (&json!(0), &json!(1), &json!(9))
        );
        assert_eq!(came.body["model"], "another");
    }
    let config = &snapshot["config"];
    assert_eq!(config["model"]["id"], "another", "what was asked for");
    assert_eq!(
        (
            &config["execution_mode"],
            &config["temperature"],
            &config["seed"]
        ),
        (&json!("strict"), &json!(0.0), &json!(1))
    );
    let enforcement = &snapshot["extensions"]["mode_enforcement"];
    assert_eq!(enforcement["seed"], "sent");
    assert_eq!(
        enforcement["replaced"]["temperature"],
        json!({ "requests": 1, "came_as": 0.7 })
    );
    assert_eq!(enforcement["fingerprints"], json!(["fp_tiny"]));
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
}

#[test]
fn a_command_that_fails_or_is_stopped_is_recorded_as_such() {
    if !has_python("a_command_that_fails_or_is_stopped_is_recorded_as_such") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    bench.script(&[
        json!({ "write": "half.txt", "text": "h" }),
        json!({ "exit": 7 }),
    ]);
    let ended = bench.call(&bench.capture_args(&[])).with(1);
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    assert_eq!(snapshot["extensions"]["run_status"], "failed");
    assert_eq!(snapshot["extensions"]["process"]["exit_code"], 7);
    assert_eq!(snapshot["config"]["model"]["id"], "none");
    assert_eq!(artifacts(&snapshot), ["created half.txt"]);

    let mut started = whistle(&bench);
    let _never = bench.lab.gate("never");
    bench.script(&[
        json!({ "signal": "../started" }),
        json!({ "wait": "../never" }),
    ]);
    let mut child = bench.command(&bench.capture_args(&[]));
    let child = child
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    hear(&mut started);
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let path = String::from_utf8(output.stdout).unwrap();
    let snapshot = read(path.lines().last().unwrap().as_ref());
    assert_eq!(snapshot["extensions"]["run_status"], "cancelled");
}

#[test]
fn killing_a_capture_ends_the_processes_of_its_command() {
    let bench = Bench::new(|_, _| says("x"));
    let _never = bench.lab.gate("never");
    let script = "sh -c 'echo $$; read line < ../never' & wait";
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "sh", "-c", script,
    ];
    let mut command = bench.command(&args);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut id = String::new();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut id).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(id.trim().parse().unwrap());
}

#[test]
fn a_capture_that_is_killed_leaves_nothing_that_counts() {
    if !has_python("a_capture_that_is_killed_leaves_nothing_that_counts") {
        return;
    }
    let bench = bench();
    bench.capture(&[]);
    let mut started = whistle(&bench);
    let _never = bench.lab.gate("never");
    let mut steps = busy();
    steps.extend([
        json!({ "signal": "../started" }),
        json!({ "wait": "../never" }),
    ]);
    lay_out(&bench);
    bench.script(&steps);
    for command in ["capture", "replay"] {
        let args = match command {
            "capture" => bench.capture_args(&[]),
            _ => vec![
                "snapshot", "replay", "latest", "--root", "shop", "--kind", "rerun",
            ],
        };
        let mut child = bench.command(&args);
        let null = std::process::Stdio::null;
        let mut child = child.stdout(null()).stderr(null()).spawn().unwrap();
        if command == "capture" {
            hear(&mut started);
        }
        let started: Vec<i32> = children(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        // The command does not continue unrecorded.
        started.into_iter().for_each(wait_until_gone);
    }
    let listed = bench
        .call(&["snapshot", "list", "--root", "shop", "--json"])
        .with(0)
        .json();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(listed["broken"].as_array().unwrap().len(), 1, "{listed}");
    // A truncated record is reported, and the rest is as valid as before.
    let verify = ["snapshot", "verify", "--root", "shop", "--json"];
    let verified = bench.call(&verify).with(0).json();
    assert_eq!(verified["valid"], true);
    assert_eq!(verified["broken"], json!([]));
    assert_eq!(verified["unfinished"], listed["broken"]);
    bench.call(&verify[..4]).with(0).prints("unfinished");
    assert_eq!(listed["snapshots"][0]["replay_count"], 0);
    // A writer never leaves half a snapshot under a final name: that is damage.
    bench.write(".aiwg/provenance/snapshots/half.json", "{");
    let verified = bench.call(&verify).with(4).json();
    assert_eq!(verified["broken"][0]["file"], "half.json");
    std::fs::remove_file(bench.root().join(".aiwg/provenance/snapshots/half.json")).unwrap();
    bench.script(&busy());
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
}

#[test]
fn a_path_that_is_written_otherwise_than_it_is_called_is_listed() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new(|_, _| says("x"));
    let shut = std::ffi::OsStr::from_bytes(b"shut\xff");
    File::create(bench.root().join(shut)).unwrap();
    bench.lab.write(
        "agent.sh",
        "set -e\nprintf 1 > \"$(printf 'n\\377.bin')\"\nprintf 2 > n%FF.bin\nprintf 3 > plain.bin\n\
        mkdir \"$(printf 'folder\\377')\"\nchmod 700 \"$(printf 'shut\\377')\"\n\
        \"$PROGRAM\" snapshot tool make -- sh -c 'printf 4 > 50%; printf 5 > passing'\nrm 50% passing\n",
    );
    let capture = |argv: &[&str]| {
        let args = ["snapshot", "capture", "--root", "shop", "--"];
        let args: Vec<&str> = args.iter().chain(argv).copied().collect();
        let ended = bench.call(&args).with(0);
        read(ended.stdout.lines().last().unwrap().as_ref())
    };
    let snapshot = capture(&["sh", "../agent.sh"]);
    let created = ["n%25FF.bin", "n%FF.bin", "plain.bin"].map(|path| format!("created {path}"));
    assert_eq!(artifacts(&snapshot), created);
    assert_eq!(
        snapshot["extensions"]["escaped_paths"],
        json!(["50%25", "folder%FF", "n%25FF.bin", "n%FF.bin", "shut%FF"])
    );
    let report = bench.replay("verify", 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    let snapshot = capture(&["touch", "other.bin"]);
    assert_eq!(artifacts(&snapshot), ["created other.bin"]);
    assert_eq!(snapshot["extensions"]["escaped_paths"], Value::Null);
}

//! Replays of commands: misses, places, the third interface of models, and their comparison.

use std::sync::{Mutex, mpsc};

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, busy, has_python, lay_out, read};

fn replay(bench: &Bench, more: &[&str], code: i32) -> Value {
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    bench.call(&args).with(code).json()
}

#[test]
fn a_read_only_tool_may_run_where_no_answer_is_recorded() {
    if !has_python("a_read_only_tool_may_run_where_no_answer_is_recorded") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    // A replay works in a copy of the folder, which has no sibling files.
    let path = |name: &str| bench.lab.path().join(name).display().to_string();
    bench.lab.write(
        "server.py",
        format!("called = {:?}\n", path("called")) + r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "tools/list":
        result = {"tools": [{"name": "look", "annotations": {"readOnlyHint": True}}, {"name": "change"}]}
    elif method == "tools/call":
        open(called, "a").write(message["params"]["name"] + "\n")
        if message["params"]["arguments"]["n"] == 7:
            print(json.dumps({"jsonrpc": "2.0", "id": "s-1", "method": "roots/list"}), flush=True)
            answer = json.loads(sys.stdin.readline())
            open(called, "a").write("in " + answer["result"]["roots"][0]["uri"] + "\n")
        result = {"content": [{"type": "text", "text": json.dumps(message["params"]["arguments"])}]}
    else:
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#,
    );
    let client = |calls: &[(&str, u64)]| {
        let mut requests = vec![
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-06-18" } }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        ];
        for (place, (tool, n)) in calls.iter().enumerate() {
            requests.push(
                json!({ "jsonrpc": "2.0", "id": place + 2, "method": "tools/call",
                "params": { "name": tool, "arguments": { "n": n } } }),
            );
        }
        bench.lab.write(
            "client.py",
            format!(
                "import json, os, subprocess, sys\nserver = subprocess.Popen([os.environ['PROGRAM'], 'snapshot', 'mcp', '--', 'python3', {:?}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\nfor request in json.loads({:?}):\n    server.stdin.write(json.dumps(request) + '\\n')\n    server.stdin.flush()\n    line = server.stdout.readline()\n    if line and 'method' in json.loads(line):\n        answer = {{'jsonrpc': '2.0', 'id': 's-1', 'result': {{'roots': [{{'uri': 'file:///shop'}}]}}}}\n        server.stdin.write(json.dumps(answer) + '\\n')\n        server.stdin.flush()\n        line = server.stdout.readline()\n    if not line or 'error' in json.loads(line):\n        sys.exit(8)\nserver.stdin.close()\nserver.wait()\nprint('done')\n",
                path("server.py"),
                json!(requests).to_string()
            ),
        );
    };
    client(&[("look", 1), ("change", 2)]);
    bench.record(&["python3", "../client.py"]);
    let called = || bench.lab.read("called");
    assert_eq!(called(), "look\nchange\n");

    // A read that the recording does not have: by default the replay ends there.
    client(&[("look", 1), ("look", 7), ("change", 2)]);
    let report = replay(&bench, &[], 3);
    assert_eq!(
        report["first_divergence"]["actual"]["input"],
        json!({ "n": 7 }),
        "{report}"
    );
    assert_eq!(called(), "look\nchange\n", "nothing was run");
    // With the option it is executed, and no other call is.
    let report = replay(&bench, &["--on-miss", "live"], 3);
    assert_eq!(report["is_mixed"], true, "{report}");
    assert_eq!(report["live"], json!({ "models": 0, "tools": 1 }));
    assert_eq!(report["first_divergence"]["reason"], "added", "{report}");
    // Its requests to its client are part of it.
    assert_eq!(report["run_status"], "succeeded", "{report}");
    assert_eq!(called(), "look\nchange\nlook\nin file:///shop\n");
    assert_ne!(report["match_status"], "exact_match");
    // Never a call that may change something.
    client(&[("look", 1), ("change", 7)]);
    let report = replay(&bench, &["--on-miss", "live"], 3);
    assert_eq!(
        report["first_divergence"]["actual"]["input"],
        json!({ "n": 7 }),
        "{report}"
    );
    assert_eq!(called(), "look\nchange\nlook\nin file:///shop\n");
}

#[test]
fn the_copy_of_a_replay_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    if !has_python("the_copy_of_a_replay_is_for_its_owner_alone") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    std::fs::create_dir(bench.root().join("inner")).unwrap();
    bench.write("inner/kept.txt", "kept");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(bench.root().join("inner"), mode(0o750)).unwrap();
    let modes = bench.lab.path().join("modes");
    let told = format!("stat -c %a .. inner > '{}'", modes.display());
    bench.script(&[json!({ "tool": "modes", "argv": ["sh", "-c", told], "native": true })]);
    bench.capture(&[]);
    let before = bench.lab.read("modes");
    assert!(before.ends_with("\n750\n"), "{before}");
    bench.replay("rerun", 0);
    assert_eq!(bench.lab.read("modes"), "700\n750\n");
}

#[test]
fn answers_with_other_ids_match_if_all_else_is_equal() {
    if !has_python("answers_with_other_ids_match_if_all_else_is_equal") {
        return;
    }
    // Another id each time.
    let bench = Bench::new(|nth, _| {
        let mut answer = says("done");
        answer["body"]["id"] = json!(format!("answer-{nth}"));
        answer
    });
    let ends = |code: &str| bench.lab.write("code", code);
    let path = bench.lab.path().join("code").display().to_string();
    bench.script(&[json!({ "ask": "Go." })]);
    ends("0");
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/captures/agent.py");
    let steps = bench.lab.path().join("steps.jsonl").display().to_string();
    let script = format!("python3 '{agent}' '{steps}'; exit $(cat '{path}')");
    bench.record(&["sh", "-c", &script]);
    let report = bench.replay("rerun", 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(report["first_divergence"], Value::Null, "{report}");
    assert_eq!(report["live"]["models"], 1, "it was asked again");
    // Another exit is a divergence, with any answers.
    ends("3");
    let report = replay(&bench, &["--kind", "rerun"], 0);
    assert_eq!(
        report["first_divergence"]["reason"], "other_end",
        "{report}"
    );
}

#[test]
fn in_place_the_folder_itself_is_worked_in() {
    if !has_python("in_place_the_folder_itself_is_worked_in") {
        return;
    }
    let bench = Bench::new(|number, _| says(&format!("answer {number}")));
    lay_out(&bench);
    bench.script(&busy());
    bench.capture(&[]);
    let text = |name: &str| bench.lab.read(&format!("shop/{name}"));
    assert_eq!(text("edited.txt"), "after");
    // As before, except for another person's later files.
    lay_out(&bench);
    for name in ["renamed.txt", "by-tool.txt", "new/made.txt"] {
        std::fs::remove_file(bench.root().join(name)).unwrap();
    }
    bench.write("mine.txt", "mine");
    let asked = bench.peer.came().len();
    let report = replay(&bench, &["--in-place"], 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(bench.peer.came().len(), asked);
    assert_eq!(text("edited.txt"), "after", "it was done here");
    assert_eq!(text("by-tool.txt"), "noted\n", "from the recording");
    assert_eq!(text("mine.txt"), "mine");
    assert!(!bench.root().join("gone.txt").exists());
    // In a copy the earlier change is missing.
    lay_out(&bench);
    for name in ["renamed.txt", "by-tool.txt", "new/made.txt"] {
        std::fs::remove_file(bench.root().join(name)).unwrap();
    }
    replay(&bench, &[], 0);
    assert_eq!(text("edited.txt"), "before");
}

#[test]
fn the_responses_interface_is_recorded_whole_and_as_it_streams() {
    if !has_python("the_responses_interface_is_recorded_whole_and_as_it_streams") {
        return;
    }
    let answer = |text: &str| {
        json!({ "id": "resp_1", "object": "response", "model": "gpt-9-2026", "status": "completed",
            "output": [
                { "type": "function_call", "call_id": "c1", "name": "clock", "arguments": "{\"zone\":\"UTC\"}" },
                { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] },
            ],
            "usage": { "input_tokens": 11, "output_tokens": 4, "total_tokens": 15 } })
    };
    let bench = Bench::new(move |number, _| match number {
        0 => json!({ "body": answer("one") }),
        _ => {
            let delta = json!({ "type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "two" });
            let done = json!({ "type": "response.completed", "response": answer("two") });
            json!({ "sse": format!("event: response.output_text.delta\ndata: {delta}\n\nevent: response.completed\ndata: {done}\n\n") })
        }
    });
    bench.lab.write(
        "agent.py",
        r#"
import json, os, urllib.request
def ask(**more):
    body = {"model": "gpt-9", "instructions": "Be brief.", "input": "What time is it?", **more}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", json.dumps(body).encode(), {"content-type": "application/json"})
    return urllib.request.urlopen(request).read().decode()
print(ask())
print(ask(stream=True))
"#,
    );
    let capture = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--mode",
        "strict",
        "--temperature",
        "0",
        "--seed",
        "7",
        "--max-tokens",
        "64",
        "--",
        "python3",
        "../agent.py",
    ];
    let ended = bench.call(&capture).with(0).prints("response.completed");
    let came = bench.peer.came();
    assert_eq!(came[0].path, "/v1/responses");
    assert_eq!(
        (
            &came[0].body["temperature"],
            &came[0].body["max_output_tokens"],
            &came[0].body["seed"]
        ),
        (&json!(0), &json!(64), &Value::Null),
        "each setting by the name it has there"
    );
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    assert_eq!(
        snapshot["config"]["model"],
        json!({ "id": "gpt-9", "provider": "openai", "version": "gpt-9-2026" })
    );
    assert_eq!(snapshot["outputs"]["response"], "two");
    assert_eq!(snapshot["inputs"]["user_prompt"], "What time is it?");
    assert_eq!(
        snapshot["config"]["system_prompt_hash"],
        format!("sha256:{}", kernel::digest::Digest::compute(b"Be brief."))
    );
    let enforcement = &snapshot["extensions"]["mode_enforcement"];
    assert_eq!(
        (&enforcement["seed"], &enforcement["max_tokens"]),
        (&json!("unsupported"), &json!("sent")),
        "{enforcement}"
    );
    let metrics = &snapshot["metrics"];
    assert_eq!(
        (
            &metrics["tokens_input"],
            &metrics["tokens_output"],
            &metrics["iterations"]
        ),
        (&json!(22), &json!(8), &json!(2))
    );
    assert_eq!(snapshot["outputs"]["tool_calls"][0]["tool"], "clock");
    let report = replay(&bench, &["--kind", "env"], 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(bench.peer.came().len(), 2, "nobody was asked again");
}

#[test]
fn a_replay_is_compared_with_the_recording_as_configured() {
    if !has_python("a_replay_is_compared_with_the_recording_as_configured") {
        return;
    }
    let bench = Bench::new(|number, _| says(&format!("It is done. There are {number} left.")));
    bench.script(&[json!({ "ask": "How many?" })]);
    bench.capture(&[]);
    let rerun = |more: &[&str], code: i32| {
        let args: Vec<&str> = ["--kind", "rerun"].iter().chain(more).copied().collect();
        replay(&bench, &args, code)
    };
    // Different numbers are a different answer, for any reader; half of the sentences are the same.
    let report = rerun(&[], 1);
    assert_eq!(
        (&report["strategy"], &report["match_status"]),
        (&json!("semantic"), &json!("partial_match")),
        "{report}"
    );
    let report = rerun(&["--strategy", "exact", "--fields", "none"], 1);
    assert_eq!(report["strategy"], "exact");
    assert!(report["fields"].as_object().unwrap().len() == 1, "{report}");
    let wrong = [
        "snapshot",
        "replay",
        "latest",
        "--root",
        "shop",
        "--strategy",
        "loosely",
    ];
    bench.call(&wrong).with(2);
}

#[test]
fn a_replay_calls_the_semantic_endpoint_it_is_given() {
    if !has_python("a_replay_calls_the_semantic_endpoint_it_is_given") {
        return;
    }
    // The peer answers questions, and embeds every text as the same vector.
    let bench = Bench::new(|number, came| match came.path.as_str() {
        "/v1/embeddings" => {
            let texts = came.body["input"].as_array().unwrap();
            let data = texts.iter().enumerate();
            let data: Vec<Value> = data
                .map(|(index, _)| json!({ "index": index, "embedding": [0.6, 0.8] }))
                .collect();
            json!({ "body": { "data": data } })
        }
        _ => says(["The shop opens early.", "Business there starts at dawn."][number.min(1)]),
    });
    bench.script(&[json!({ "ask": "When?" })]);
    let path = bench.capture(&[]);
    let url = format!("http://{}/v1/embeddings", bench.peer.address);
    let endpoint = [
        "--embeddings-url",
        &url,
        "--embeddings-model",
        "e",
        "--similarity",
        "0.8",
    ];
    let args: Vec<&str> = ["--kind", "rerun"]
        .iter()
        .chain(&endpoint)
        .copied()
        .collect();
    let report = replay(&bench, &args, 0);
    assert_eq!(report["match_status"], "semantic_match", "{report}");
    let attempts = std::fs::read_to_string(path.with_extension("replays.jsonl")).unwrap();
    let attempt: Value = serde_json::from_str(attempts.lines().last().unwrap()).unwrap();
    let scores = &attempt["scores"];
    assert!(
        scores["scorer"]
            .as_str()
            .unwrap()
            .starts_with("openai-compatible:"),
        "{attempt}"
    );
    assert!((scores["similarity"].as_f64().unwrap() - 0.8).abs() < 1e-6);
    // A strict execution is not sent to an endpoint.
    bench.capture(&[
        "--mode",
        "strict",
        "--temperature",
        "0",
        "--seed",
        "1",
        "--max-tokens",
        "9",
    ]);
    let args: Vec<&str> = ["snapshot", "replay", "latest", "--root", "shop"]
        .iter()
        .chain(&endpoint)
        .copied()
        .collect();
    bench.call(&args).with(2).says("strict");
}

#[test]
fn a_signal_ends_a_replay_that_compares() {
    if !has_python("a_signal_ends_a_replay_that_compares") {
        return;
    }
    // The reader of meaning is slow.
    let (asked, heard) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let bench = Bench::new(move |number, came| match came.path.as_str() {
        "/v1/embeddings" => {
            asked.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
            json!({ "body": { "data": [] } })
        }
        _ => says(["The shop opens early.", "Business there starts at dawn."][number.min(1)]),
    });
    bench.script(&[json!({ "ask": "When?" })]);
    let path = bench.capture(&[]);
    let url = format!("http://{}/v1/embeddings", bench.peer.address);
    let mut command = bench.command(&[
        "snapshot",
        "replay",
        "latest",
        "--root",
        "shop",
        "--kind",
        "rerun",
        "--embeddings-url",
        &url,
        "--embeddings-model",
        "e",
    ]);
    let mut child = command.spawn().unwrap();
    heard.recv().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(release);
    let attempts = std::fs::read_to_string(path.with_extension("replays.jsonl")).unwrap();
    assert!(attempts.contains("\"cancelled\""), "{attempts}");
    assert_ne!(read(&path)["replay_status"]["replayed"], true);
}

#[test]
fn volatile_text_is_left_out_of_a_tools_input() {
    if !has_python("volatile_text_is_left_out_of_a_tools_input") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write(
        "agent.sh",
        "\"$PROGRAM\" snapshot tool stamp -- sh -c 'echo stamped' sh \"$(cat ../now)\"\n",
    );
    bench.lab.write("now", "monday");
    let capture = |more: &[&str]| {
        let head = ["snapshot", "capture", "--root", "shop"];
        let tail = ["--", "sh", "../agent.sh"];
        let args: Vec<&str> = head.iter().chain(more).chain(&tail).copied().collect();
        bench.call(&args)
    };
    capture(&[]).with(0);
    bench.lab.write("now", "tuesday");
    let report = replay(&bench, &[], 3);
    assert_eq!(report["first_divergence"]["at"], "/argv/4", "{report}");

    let ended = capture(&["--ignore", "stamp=/argv/4"]).with(0);
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    assert_eq!(
        snapshot["extensions"]["normalisers"],
        json!({ "tools": { "stamp": ["/argv/4"] } })
    );
    bench.lab.write("now", "wednesday");
    let report = replay(&bench, &[], 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    capture(&["--ignore", "stamp"]).with(2);
}

#[test]
fn a_program_next_to_the_folder_starts_by_its_original_name() {
    if !has_python("a_program_next_to_the_folder_starts_by_its_original_name") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    // Like the interpreter of a virtual environment: a link whose own path matters.
    let beside = bench.lab.path().join("venv/bin");
    std::fs::create_dir_all(&beside).unwrap();
    bench.lab.write("real.sh", "#!/bin/sh\ndirname \"$0\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.lab.path().join("real.sh"), mode).unwrap();
    std::os::unix::fs::symlink("../../real.sh", beside.join("agent")).unwrap();
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "../venv/bin/agent",
    ];
    bench.call(&args).with(0).prints("../venv/bin\n");
    let args = ["snapshot", "replay", "latest", "--root", "shop"];
    let ended = bench.call(&args);
    let place = bench.lab.path().canonicalize().unwrap().join("venv/bin");
    assert!(
        ended.stderr.contains(&place.display().to_string()),
        "{ended:?}"
    );
}

#[test]
fn a_proxied_command_calls_its_models_without_the_proxy() {
    if !has_python("a_proxied_command_calls_its_models_without_the_proxy") {
        return;
    }
    let bench = Bench::new(|_, _| says("as always"));
    bench.script(&[json!({ "ask": "Through what?" })]);
    let elsewhere = super::peer::Peer::start(|_, _| json!({ "status": 502, "body": {} }));
    for (given, expected) in [
        (None, "127.0.0.1,localhost"),
        (Some("intern"), "intern,127.0.0.1,localhost"),
    ] {
        let mut command = bench.command(&bench.capture_args(&[]));
        command
            .env("HTTP_PROXY", format!("http://{}", elsewhere.address))
            .env("http_proxy", format!("http://{}", elsewhere.address))
            .env_remove("NO_PROXY")
            .env_remove("no_proxy");
        command.envs(given.map(|given| ("no_proxy", given)));
        let ended: crate::support::Ended = command.output().unwrap().into();
        ended.with(0);
        assert_eq!(elsewhere.came().len(), 0, "{given:?}");
        let args = [
            "snapshot",
            "capture",
            "--open-network",
            "--root",
            "shop",
            "--",
            "sh",
            "-c",
        ];
        let told = "echo $NO_PROXY = $no_proxy";
        let args: Vec<&str> = args.iter().copied().chain([told]).collect();
        let mut command = bench.command(&args);
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        command.envs(given.map(|given| ("no_proxy", given)));
        let ended: crate::support::Ended = command.output().unwrap().into();
        ended.with(0).prints(&format!("{expected} = {expected}\n"));
    }
}

#[test]
fn modes_that_keep_content_reject_hashes_only() {
    let bench = Bench::new(|_, _| says("x"));
    let strict = [
        "--mode",
        "strict",
        "--temperature",
        "0",
        "--seed",
        "1",
        "--max-tokens",
        "9",
    ];
    for mode in [&strict[..], &["--mode", "logged"]] {
        let mut args = vec![
            "snapshot",
            "capture",
            "--root",
            "shop",
            "--content",
            "hashes_only",
        ];
        args.extend(mode);
        args.extend(["--", "touch", "ran"]);
        bench.call(&args).with(2).says("--content");
        assert!(!bench.root().join("ran").exists(), "nothing is run");
    }
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--content",
        "hashes_only",
        "--",
        "true",
    ];
    bench.call(&args).with(0);
}

#[test]
fn a_strict_execution_lists_parameters_its_provider_lacks() {
    if !has_python("a_strict_execution_lists_parameters_its_provider_lacks") {
        return;
    }
    let bench = Bench::new(|_, came| {
        if came.path.ends_with("/messages") {
            json!({ "body": { "model": "opus-9", "content": [{ "type": "text", "text": "two" }] } })
        } else {
            says("one")
        }
    });
    bench.lab.write(
        "agent.py",
        r#"
import json, os, sys, urllib.request
body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Which?"}]}).encode()
urllib.request.urlopen(urllib.request.Request(os.environ[sys.argv[1]] + sys.argv[2], body, {"content-type": "application/json"})).read()
"#,
    );
    let head = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--mode",
        "strict",
        "--temperature",
        "0",
    ];
    let model_params = [
        "--seed",
        "1",
        "--max-tokens",
        "9",
        "--",
        "python3",
        "../agent.py",
    ];
    let capture = |server: &[&str]| {
        let args: Vec<&str> = head
            .iter()
            .chain(&model_params)
            .chain(server)
            .copied()
            .collect();
        bench.call(&args).with(0)
    };
    let show = || {
        bench
            .call(&["snapshot", "show", "latest", "--root", "shop"])
            .with(0)
    };
    const SAID: &str = "strict mode: a provider that answered supports no seed";
    capture(&["ANTHROPIC_BASE_URL", "/v1/messages"]).says(SAID);
    show().prints(SAID);
    let ended = capture(&["OPENAI_BASE_URL", "/chat/completions"]);
    assert!(
        !ended.stderr.contains("strict mode: a provider"),
        "{ended:?}"
    );
    assert!(!show().stdout.contains("strict mode: a provider"));
}

#[test]
fn folders_and_modes_are_part_of_a_replay_and_no_artifacts() {
    let bench = Bench::new(|_, _| says("x"));
    std::fs::create_dir(bench.root().join("empty")).unwrap();
    std::fs::create_dir(bench.root().join("old")).unwrap();
    bench.write("run.sh", "echo ran\n");
    bench.lab.write(
        "agent.sh",
        "set -e\nmkdir out\nrmdir old\necho x > empty/made\necho x > out/noise.log\n\
        test ! -x run.sh\n\"$PROGRAM\" snapshot tool make -- sh -c 'mkdir -p by/tool; rmdir empty2; chmod +x run.sh'\n\
        rmdir by/tool by\nmkdir by\ntest ! -e empty2\n./run.sh\n",
    );
    std::fs::create_dir(bench.root().join("empty2")).unwrap();
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "sh",
        "../agent.sh",
    ];
    let ended = bench.call(&args).with(0).prints("ran");
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    assert_eq!(super::artifacts(&snapshot), ["created empty/made"]);
    let listed = |name: &str| {
        let list = snapshot["extensions"][name].as_array().unwrap().clone();
        let path = |one: &Value| one["path"].as_str().unwrap().to_owned();
        list.iter().map(path).collect::<Vec<_>>()
    };
    assert_eq!(listed("folders"), ["by", "empty2", "old", "out"]);
    assert_eq!(listed("modes"), ["run.sh"]);
    for kind in ["verify", "rerun"] {
        let report = bench.replay(kind, 0);
        assert_eq!(report["match_status"], "exact_match", "{kind}: {report}");
    }
}

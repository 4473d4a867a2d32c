//! Uses of evidence: signed, exported, compared, replayed in CI.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python, read};
use crate::support::{Ended, Lab};

/// Asks each of its arguments, in threads if WAY requests it, and prints the answers in order.
const AGENT: &str = r#"
import json, os, sys, time, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor
def ask(text):
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": text}]}).encode()
    for _ in range(3):
        request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
            {"content-type": "application/json"})
        try:
            return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as refused:
            if refused.code != 429:
                raise
words = [os.urandom(8).hex() if word == "chance" else word for word in sys.argv[1:]]
with ThreadPoolExecutor(8 if os.path.exists("threads") else 1) as pool:
    answers = list(pool.map(ask, words))
print("|".join(answers))
"#;

/// Answers with the last word of the question, in capitals.
fn bench() -> Bench {
    let bench = Bench::new(|_, came| {
        let asked = came.body["messages"][0]["content"].as_str().unwrap();
        says(&format!("ANSWER {}", asked.chars().next().unwrap()))
    });
    bench.write("agent.py", AGENT);
    bench
}

fn snapshot(bench: &Bench, args: &[&str]) -> Ended {
    bench.call(&[&["snapshot"], args, &["--root", "shop"]].concat())
}

fn id(path: &str) -> String {
    let path = std::path::Path::new(path.lines().last().unwrap());
    read(path)["snapshot_id"].as_str().unwrap().to_owned()
}

fn captured(bench: &Bench, words: &[&str]) -> String {
    let argv = [&["python3", "agent.py"], words].concat();
    id(&bench.record(&argv).stdout)
}

#[test]
fn parallel_answers_come_to_one_response() {
    if !has_python("parallel_answers_come_to_one_response") {
        return;
    }
    // All four are in progress before the first is answered; the last one to be answered is random.
    let together = std::sync::Barrier::new(4);
    let bench = Bench::new(move |_, came| {
        together.wait();
        says(came.body["messages"][0]["content"].as_str().unwrap())
    });
    bench.write("agent.py", AGENT);
    bench.write("threads", "");
    let id = captured(&bench, &["a", "b", "c", "d"]);
    let validated = snapshot(&bench, &["validate", &id, "--runs", "21", "--json"]).with(0);
    let report = validated.json();
    assert_eq!(report["match_rate"], 1.0, "{report}");
    for one in report["comparisons"].as_array().unwrap() {
        assert_eq!(one["match_status"], "exact_match", "{one}");
    }
}

#[test]
fn a_field_of_requests_is_left_out_by_rule() {
    if !has_python("a_field_of_requests_is_left_out_by_rule") {
        return;
    }
    let bench = bench();
    let ended = bench.record(&["python3", "agent.py", "chance", "z"]);
    // Random bytes may be a key: they are reported, and not kept.
    assert!(ended.stderr.contains("agent.py:<"), "{ended:?}");
    let id = id(&ended.stdout);
    let ended = snapshot(&bench, &["replay", &id]).with(3);
    let pointer = "--ignore-request /messages/0/content";
    assert!(ended.stdout.contains(pointer), "{}", ended.stdout);
    let nothing = ["replay", &id, "--ignore-request", "/no/such/field"];
    snapshot(&bench, &nothing).with(2).says("/no/such/field");
    let rule = ["--ignore-request", "/messages/0/content", "--json"];
    for kind in ["verify", "rerun"] {
        let args = [&["replay", &id, "--kind", kind][..], &rule].concat();
        let report = snapshot(&bench, &args).with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{kind}: {report}");
    }
    // The rule of the capture also applies to the replay.
    let capture = [
        "capture", rule[0], rule[1], "--root", "shop", "--", "python3", "agent.py", "chance",
    ];
    bench.call(&[&["snapshot"], &capture[..]].concat()).with(0);
    snapshot(&bench, &["replay", "latest"]).with(0);
    let capture = [
        "capture", rule[0], "/none", "--root", "shop", "--", "python3", "agent.py", "z",
    ];
    bench
        .call(&[&["snapshot"], &capture[..]].concat())
        .with(1)
        .says("/none");
}

#[test]
fn a_refused_answer_is_not_a_turn_and_steps_agree() {
    if !has_python("a_refused_answer_is_not_a_turn_and_steps_agree") {
        return;
    }
    let bench = Bench::new(|number, _| match number {
        0 => json!({ "status": 429, "body": { "error": { "message": "slow down" } } }),
        _ => says("well"),
    });
    bench.write("agent.py", AGENT);
    let ended = bench.record(&["python3", "agent.py", "one", "two"]);
    assert!(
        ended.stderr.contains("2 model turns, 1 refused answer"),
        "{}",
        ended.stderr
    );
    let path = std::path::PathBuf::from(ended.stdout.lines().last().unwrap());
    assert_eq!(read(&path)["metrics"]["iterations"], 2);
    let calls = fs::read_to_string(path.with_extension("calls.jsonl")).unwrap();
    let steps = calls.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["seq"].as_u64().unwrap()
    });
    assert_eq!(steps.collect::<Vec<_>>(), [1, 2, 3]);
    let changed = [
        "replay", "latest", "--root", "shop", "--json", "--", "python3", "agent.py", "one", "too",
    ];
    let report = bench
        .call(&[&["snapshot"], &changed[..]].concat())
        .with(3)
        .json();
    assert_eq!(
        report["first_divergence"]["step"], 3,
        "the line of the second question"
    );
}

#[test]
fn a_command_without_model_calls_is_reported() {
    let lab = Lab::new();
    lab.call(&["snapshot", "capture", "--", "true"])
        .with(0)
        .says("made no connection to the recorder")
        .says("OPENAI_BASE_URL");
}

#[test]
fn a_capture_without_turns_names_the_refused_address() {
    let script = "import socket\n\
                  try: socket.create_connection(('127.0.0.1', 9), 2)\n\
                  except OSError: pass\n";
    let lab = Lab::new();
    lab.write("direct.py", script);
    let captured = lab.call(&["snapshot", "capture", "--", "python3", "direct.py"]);
    let captured = captured.with(0);
    if !captured.stderr.contains("cannot observe") {
        captured.says("It tried 127.0.0.1:9, which was refused");
    }
}

#[test]
fn a_command_that_cannot_start_has_no_outcome() {
    let lab = Lab::new();
    let tool = lab.write("tool", "#!/bin/sh\necho said\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let path = lab.call(&["snapshot", "capture", "--", "./tool"]).with(0);
    let path = std::path::PathBuf::from(path.stdout.lines().last().unwrap());
    lab.call(&["snapshot", "replay", "latest"]).with(0);
    lab.write("tool", "#!/no/such/interpreter\n");
    for what in ["interpreter", "missing"] {
        let ended = lab
            .call(&["snapshot", "replay", "latest", "--json"])
            .with(3);
        let report = ended.json();
        assert_eq!(report["error"]["code"], "not_started", "{what}");
        assert!(
            !report["error"]["message"].as_str().unwrap().contains('['),
            "{report}"
        );
        assert!(
            report["error"]["message"]
                .as_str()
                .unwrap()
                .contains("./tool")
        );
        assert_eq!(read(&path)["replay_status"]["replay_count"], 1);
        let _ = fs::remove_file(&tool);
    }
    lab.call(&["snapshot", "verify"]).with(0);
}

#[test]
fn a_foreign_command_is_shown_and_asked_for() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("there")).unwrap();
    let script = "echo ran >> ../ran.txt; echo said";
    lab.call(&["snapshot", "capture", "--", "sh", "-c", script])
        .with(0);
    let bundle = ["snapshot", "export", "latest", "--format", "bundle"];
    lab.write("b.json", lab.call(&bundle).with(0).stdout);
    // Another user, with another key.
    let other = tempfile::tempdir().unwrap();
    let call = |args: &[&str]| -> Ended {
        let mut command = lab.command(args);
        let command = command.env("XDG_CONFIG_HOME", other.path());
        command
            .current_dir(lab.path().join("there"))
            .output()
            .unwrap()
            .into()
    };
    call(&["snapshot", "import", "../b.json"]).with(0);
    call(&["snapshot", "verify"])
        .with(0)
        .prints("an unknown key");
    call(&["snapshot", "replay", "latest"])
        .with(2)
        .says(script)
        .says("--yes");
    call(&["snapshot", "replay", "latest", "--yes"])
        .with(0)
        .says(script);
    // With the public key alone.
    let key = lab.call(&["snapshot", "key"]).with(0).stdout;
    let key = key.trim();
    call(&["snapshot", "verify", "--key", key])
        .with(0)
        .prints("good Ed25519 signature");
    let theirs = call(&["snapshot", "key"]).with(0).stdout;
    call(&["snapshot", "verify", "--key", theirs.trim()])
        .with(4)
        .prints("unsigned");
    let folder = lab.path().join("there/.aiwg/provenance/snapshots");
    let files = fs::read_dir(folder).unwrap().flatten();
    let signature = files
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|it| it == "sig"));
    fs::remove_file(signature.unwrap()).unwrap();
    call(&["snapshot", "verify", "--key", key])
        .with(4)
        .prints("not signed");
}

#[test]
fn a_folder_outside_is_refused() {
    let lab = Lab::new();
    let path = lab.call(&["snapshot", "capture", "--", "true"]).with(0);
    let path = std::path::PathBuf::from(path.stdout.lines().last().unwrap());
    let mut document = read(&path);
    document["extensions"]["process"]["cwd"] = json!("/");
    let seal = faces::provenance::seal::integrity(&document);
    document["extensions"]["integrity"] = json!(seal);
    fs::write(&path, document.to_string()).unwrap();
    fs::remove_file(path.with_extension("sig")).unwrap();
    lab.call(&["snapshot", "replay", "latest", "--yes"])
        .with(2)
        .says("is not in its root");
}

#[test]
fn two_captures_of_one_folder_take_turns() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("shop")).unwrap();
    let start = |name: &str| {
        let script = format!("echo > {name}-1; sleep 0.3; echo > {name}-2");
        let args = [
            "snapshot",
            "capture",
            "--root",
            "shop",
            "--workflow",
            name,
            "--",
            "sh",
            "-c",
            &script,
        ];
        let mut command = lab.command(&args);
        command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both = ["ann", "bob"].map(|name| (name, start(name)));
    for (name, child) in both {
        let ended = Ended::from(child.wait_with_output().unwrap()).with(0);
        let path = std::path::PathBuf::from(ended.stdout.lines().last().unwrap());
        let made = super::artifacts(&read(&path));
        assert_eq!(
            made,
            [format!("created {name}-1"), format!("created {name}-2")]
        );
    }
}

#[test]
fn a_difference_is_reported_at_its_step() {
    if !has_python("a_difference_is_reported_at_its_step") {
        return;
    }
    let bench = bench();
    let a = captured(&bench, &["one", "the second"]);
    let b = captured(&bench, &["one", "the changed"]);
    let c = captured(&bench, &["one", "the second"]);
    snapshot(&bench, &["diff", &a, &c]).with(0);
    let ended = snapshot(&bench, &["diff", &a, &b]).with(1);
    assert!(
        ended.stdout.contains("step 2") && !ended.stdout.contains("step 1"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("-second +changed"),
        "{}",
        ended.stdout
    );
    snapshot(&bench, &["rm", &b]).with(2).says("--yes");
    snapshot(&bench, &["rm", &b, "--yes"]).with(0).prints(&b);
    snapshot(&bench, &["rm", &b, "--yes"]).with(2).says(&b);
    for id in [&a, &c] {
        snapshot(&bench, &["replay", id]).with(0);
    }
    snapshot(&bench, &["verify", "--strict"]).with(0);
}

#[test]
fn every_snapshot_is_replayed_for_ci() {
    let lab = Lab::new();
    lab.write("word", "good");
    for name in ["one", "two"] {
        let script = format!("test {name} = one || cat word");
        let args = [
            "snapshot",
            "capture",
            "--workflow",
            name,
            "--",
            "sh",
            "-c",
            &script,
        ];
        lab.call(&args).with(0);
    }
    let all = ["snapshot", "replay", "--all", "--junit", "report.xml"];
    lab.call(&all).with(0);
    let report = lab.read("report.xml");
    assert!(
        report.contains("tests=\"2\" failures=\"0\" errors=\"0\""),
        "{report}"
    );
    lab.write("word", "<bad>");
    lab.call(&all).with(1);
    let report = lab.read("report.xml");
    assert!(
        report.contains("tests=\"2\" failures=\"1\" errors=\"0\""),
        "{report}"
    );
    assert!(
        report.contains("name=\"two ") && report.contains("<failure"),
        "{report}"
    );
    lab.call(&["snapshot", "verify"]).with(0);
}

#[test]
fn ctrl_c_reaches_the_command_as_sigint() {
    let lab = Lab::new();
    let fifo = lab.path().join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    // Opened for both directions, so that neither side blocks in opening it.
    let gate = fs::File::options()
        .read(true)
        .write(true)
        .open(&fifo)
        .unwrap();
    let script = "trap 'echo INT > got; exit 42' INT; trap 'echo TERM > got; exit 43' TERM; \
                  echo > gate; while :; do sleep 0.05; done";
    let args = ["snapshot", "capture", "--", "sh", "-c", script];
    let mut command = lab.command(&args);
    let child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(gate).read_line(&mut String::new()).unwrap();
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap()).with(130);
    assert_eq!(lab.read("got"), "INT\n");
    let path = std::path::PathBuf::from(ended.stdout.lines().last().unwrap());
    let document = read(&path);
    assert_eq!(document["extensions"]["run_status"], "cancelled");
    assert_eq!(document["extensions"]["process"]["exit_code"], 42);
    lab.call(&["snapshot", "verify", "--strict"]).with(0);
}

//! Planted secrets are found nowhere.

use std::path::Path;

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python, read};

const PLANTED: [(&str, &str); 12] = [
    ("PAY_TOKEN", "planted-by-variable-1"),
    ("DB_PASSWORD", "planted-by-variable-2"),
    ("OPENAI_API_KEY", "planted-by-header-3"),
    ("STRIPE_KEY", "planted-by-variable-4"),
    ("SMTP_PASS", "opensesame"),
    ("SHOP_URL", "postgres://ada:planted-word-5@db/shop"),
    ("password", "planted-word-5"),
    ("query", "k9-x"),
    ("argument", "swordfish-6"),
    ("url", "planted-in-url-4"),
    ("header", "planted-in-header-5"),
    ("cookie", "planted-cookie"),
];

/// Every file below a folder, with its bytes.
pub(super) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path)
            } else {
                all.push((path.display().to_string(), std::fs::read(&path).unwrap()))
            }
        }
    }
    all
}

fn bench() -> Bench {
    let bench = Bench::new(|number, _| match number {
        // A stream whose pieces contain parts of a secret, and an error that echoes one.
        0 => {
            json!({ "sse": "data: {\"model\":\"tiny-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"it is planted-by-\"}}]}\n\n\
            data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"variable-1!\"}}]}\n\ndata: [DONE]\n\n" })
        }
        1 => says("the key is planted-by-variable-2"),
        _ => {
            json!({ "status": 401, "body": { "error": { "message": "bad key planted-by-header-3" } } })
        }
    });
    bench.write("before.env", "DB_PASSWORD=planted-by-variable-2\n");
    bench.lab.write("agent.py", r#"
import json, os, subprocess, sys, urllib.request, urllib.error
def ask(text, **more):
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], **more}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions?api_key=planted-in-url-4&key=k9-x", json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
print(ask("use " + os.environ["PAY_TOKEN"], stream=True))
print(ask("fetch https://ada:planted-in-url-4@db.example/x with Authorization: Bearer planted-in-header-5"))
print(ask("x"))
tool = [os.environ["PROGRAM"], "snapshot", "tool"]
subprocess.run(tool + ["deploy", "--", "sh", "-c", "echo $PAY_TOKEN; echo $DB_PASSWORD >&2; echo $PAY_TOKEN > by-tool.txt; exit 3", os.environ["PAY_TOKEN"]])
open("made-" + os.environ["PAY_TOKEN"] + ".txt", "w").write("x")
open("made.env", "w").write("PAY_TOKEN=" + os.environ["PAY_TOKEN"] + "\n")
open("made.bin", "wb").write(b"\xff\xfe" + os.environ["PAY_TOKEN"].encode() + b"\x00")
os.remove("before.env")
print(os.environ["DB_PASSWORD"], os.environ["OPENAI_BASE_URL"])
print(os.environ["STRIPE_KEY"], "and", os.environ["SMTP_PASS"], "log in as planted-word-5")
print("Cookie: planted-cookie", file=sys.stderr)
"#);
    bench
}

#[test]
fn planted_secrets_are_in_no_file_and_a_replay_matches() {
    if !has_python("planted_secrets_are_in_no_file_and_a_replay_matches") {
        return;
    }
    let bench = bench();
    let run = |args: &[&str]| {
        let mut command = bench.command(args);
        for (name, value) in &PLANTED[..6] {
            command.env(name, value);
        }
        crate::support::Ended::from(command.output().unwrap())
    };
    let ended = run(&[
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--prompt",
        "Deploy with planted-by-variable-1",
        "--env",
        "PAY_TOKEN",
        "--context",
        "shop/before.env",
        "--",
        "python3",
        "../agent.py",
        "--password=planted-by-variable-2",
        "--db-pass",
        "swordfish-6",
    ]);
    let ended = ended.with(0);
    let path = Path::new(ended.stdout.lines().last().unwrap()).to_owned();
    let came = bench.peer.came().remove(0);
    assert!(
        came.head.contains("Bearer planted-by-header-3"),
        "what is not recorded is passed on"
    );
    assert_eq!(
        came.path,
        "/v1/chat/completions?api_key=planted-in-url-4&key=k9-x"
    );
    let snapshot = read(&path);
    assert_eq!(
        snapshot["inputs"]["user_prompt"],
        "Deploy with [REDACTED:PAY_TOKEN]"
    );
    assert!(
        snapshot["extensions"]["redaction"]["count"]
            .as_u64()
            .unwrap()
            > 5,
        "{snapshot}"
    );
    let check = || {
        let kept = files(&bench.root().join(".aiwg"));
        assert!(kept.len() > 10, "there is something to look through");
        for (name, bytes) in kept {
            for (_, secret) in PLANTED {
                let found = bytes
                    .windows(secret.len())
                    .any(|part| part == secret.as_bytes());
                assert!(
                    !found,
                    "{secret} in {name}: {}",
                    String::from_utf8_lossy(&bytes)
                );
            }
        }
    };
    check();
    // Nor in the exports.
    for args in [
        &["export", "latest", "--format", "prov-json"][..],
        &["export", "latest", "--format", "openlineage"],
        &["export", "latest", "--format", "bundle"],
        &["show", "latest"],
        &["list", "--json"],
        &[
            "compare",
            "latest",
            "latest",
            "--html",
            "shop/.aiwg/report.html",
        ],
    ] {
        let args = [&["snapshot"], args, &["--root", "shop"]].concat();
        let shown = bench.lab.call(&args).with(0).stdout;
        for (_, secret) in PLANTED {
            assert!(!shown.contains(secret), "{secret} in {args:?}: {shown}");
        }
    }
    // The recorded command had a secret, so it gets one again.
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    run(&args).with(2).says("--");
    let command = [
        "--",
        "python3",
        "../agent.py",
        "--password=planted-by-variable-2",
        "--db-pass",
        "swordfish-6",
    ];
    let asked = bench.peer.came().len();
    let agent = bench.lab.path().join("agent.py");
    let agent = agent.to_str().unwrap();
    let command = [&command[..2], &[agent], &command[3..]].concat();
    let replay: Vec<&str> = args.iter().chain(&command).copied().collect();
    let report: Value = run(&replay).with(0).json();
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(bench.peer.came().len(), asked);
    check();
}

#[test]
fn of_hashes_alone_nothing_is_kept_and_nothing_replayed() {
    if !has_python("of_hashes_alone_nothing_is_kept_and_nothing_replayed") {
        return;
    }
    let bench = bench();
    let mut command = bench.command(&[
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--content",
        "hashes_only",
        "--prompt",
        "a secret plan",
        "--",
        "python3",
        "../agent.py",
    ]);
    for (name, value) in &PLANTED[..6] {
        command.env(name, value);
    }
    crate::support::Ended::from(command.output().unwrap()).with(0);
    for (name, bytes) in files(&bench.root().join(".aiwg")) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            !text.contains("secret plan") && !text.contains("it is"),
            "{name}: {text}"
        );
    }
    assert_eq!(
        bench.replay("verify", 3)["error"]["code"],
        "content_unavailable"
    );
}

#[test]
fn a_file_with_a_secret_in_its_name_is_renamed_again() {
    let bench = Bench::new(|_, _| says("x"));
    bench.write("was-planted-by-variable-1.txt", "content");
    bench.write("changed-planted-by-variable-1", "before");
    let run = |args: &[&str], token: Option<&str>| {
        let mut command = bench.command(&[&["snapshot"], args, &["--root", "shop"]].concat());
        command.envs(token.map(|token| ("PAY_TOKEN", token)));
        crate::support::Ended::from(command.output().unwrap())
    };
    let script = "mv was-$PAY_TOKEN.txt is.txt && cat is.txt changed-$PAY_TOKEN && echo after > changed-$PAY_TOKEN \
        && mv changed-$PAY_TOKEN to-$PAY_TOKEN";
    let capture = ["capture", "--root", "shop", "--", "sh", "-c", script];
    let mut command = bench.command(&[&["snapshot"], &capture[..]].concat());
    command.env("PAY_TOKEN", PLANTED[0].1);
    crate::support::Ended::from(command.output().unwrap()).with(0);

    let report = run(&["replay", "latest", "--json"], Some(PLANTED[0].1))
        .with(0)
        .json();
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(report["first_divergence"], Value::Null, "{report}");
    // Without the secret the name of the file is unknown.
    let refused = run(&["replay", "latest", "--json"], None).with(3);
    assert_eq!(refused.json()["error"]["code"], "content_unavailable");
    assert!(!refused.stdout.contains(PLANTED[0].1));
    for (name, bytes) in files(&bench.root().join(".aiwg")) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(PLANTED[0].1), "{name}: {text}");
    }
}

#[test]
fn a_model_url_with_a_password_is_rejected_before_the_start() {
    let bench = Bench::new(|_, _| says("x"));
    for variable in ["OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL"] {
        for user in ["ada:planted-in-url-4", "planted-in-url-4"] {
            let capture = ["snapshot", "capture", "--root", "shop", "--"];
            let mut command = bench.command(&[&capture[..], &["touch", "ran"]].concat());
            command.env_remove("OPENAI_BASE_URL");
            command.env(variable, format!("http://{user}@{}/v1", bench.peer.address));
            let ended = crate::support::Ended::from(command.output().unwrap());
            let ended = ended.with(2).says(variable).says("user name or a password");
            assert!(!ended.stderr.contains("planted"), "{ended:?}");
            assert!(!bench.root().join("ran").exists());
        }
    }
    assert!(bench.peer.came().is_empty());
}

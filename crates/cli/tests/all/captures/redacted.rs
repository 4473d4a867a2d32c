//! Files with redacted values are never put into a replay's folder without these values.

use serde_json::Value;

use super::Bench;
use super::peer::says;
use super::secrets::files;
use crate::support::Ended;

const APP: &str = "debug = 0\napi_key = \"planted-in-code-7\"\n";
const PACKAGE: &str = "{ \"name\": \"shop\", \"dependencies\": { \"jsonwebtoken\": \"^9\", \"cookie\": \"^0.6.0\" } }\n";

fn capture(bench: &Bench, script: &str, variables: &[(&str, &str)]) {
    let args = ["snapshot", "capture", "--root", "shop", "--", "sh", "-c"];
    let mut command = bench.command(&[&args[..], &[script]].concat());
    command.envs(variables.iter().copied());
    Ended::from(command.output().unwrap()).with(0);
    for (name, bytes) in files(&bench.root().join(".aiwg")) {
        let text = String::from_utf8_lossy(&bytes);
        for secret in ["planted-in-code-7", "planted-by-variable-1", "planted-7"] {
            assert!(!text.contains(secret), "{name}: {text}");
        }
    }
}

#[test]
fn redactions_are_listed_by_kind_and_file() {
    let bench = Bench::new(|_, _| says("x"));
    bench.write("app.py", APP);
    bench.write("untouched.env", "TOKEN=planted-9\n");
    let script = "sed -i s/0/1/ app.py; echo say planted-by-variable-1";
    let capture = |more: &[&str]| {
        let head = ["snapshot", "capture", "--root", "shop"];
        let tail = ["--", "sh", "-c", script];
        let mut command = bench.command(&[&head[..], more, &tail].concat());
        command.env("PAY_TOKEN", "planted-by-variable-1");
        bench.write("app.py", APP);
        Ended::from(command.output().unwrap()).with(0)
    };
    let told = capture(&["--json"]).json();
    let redaction = &told["redaction"];
    assert_eq!(
        redaction["files"],
        serde_json::json!({ "app.py": 2 }),
        "{told}"
    );
    assert_eq!(
        redaction["kinds"]["field"], 2,
        "what stayed as it is does not count: {told}"
    );
    assert!(redaction["kinds"]["PAY_TOKEN"].as_u64() > Some(0), "{told}");
    let snapshot = super::read(std::path::Path::new(told["path"].as_str().unwrap()));
    assert_eq!(snapshot["extensions"]["redaction"], *redaction);
    let told = capture(&[]);
    told.says("values removed").says("2 field").says("2 app.py");
}

fn replay(bench: &Bench, more: &[&str], variables: &[(&str, &str)], code: i32) -> Value {
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let mut command = bench.command(&[&args[..], more].concat());
    command.envs(variables.iter().copied());
    Ended::from(command.output().unwrap()).with(code).json()
}

#[test]
fn a_file_that_lost_a_value_is_not_put_back_without_it() {
    let bench = Bench::new(|_, _| says("x"));
    bench.write("app.py", APP);
    bench.write("package.json", PACKAGE);
    // It prints whether it runs on the original file.
    let script = "grep -c planted- app.py; cat package.json; sed -i s/0/1/ app.py; \
        sed -i s/shop/store/ package.json";
    capture(&bench, script, &[]);

    for kind in ["verify", "model", "env", "rerun"] {
        let report = replay(&bench, &["--kind", kind], &[], 3);
        assert_eq!(report["error"]["code"], "content_unavailable", "{report}");
        let message = report["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("app.py") && message.contains("--in-place"),
            "{message}"
        );
        assert!(!message.contains("planted"), "{message}");
    }
    assert_eq!(
        std::fs::read_to_string(bench.root().join("app.py")).unwrap(),
        APP.replace('0', "1"),
        "the folder itself is as it was"
    );

    // A file restored by a holder of the value is taken unchanged; the other is restored by the
    // replay.
    bench.write("app.py", APP);
    let report = replay(&bench, &[], &[], 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
}

#[test]
fn a_file_with_only_a_redacted_value_changed_is_not_a_match() {
    let bench = Bench::new(|_, _| says("x"));
    bench.write("app.py", APP);
    capture(&bench, "sed -i s/code-7/code-8/ app.py", &[]);
    let report = replay(&bench, &[], &[], 3);
    assert_eq!(report["error"]["code"], "content_unavailable", "{report}");
    let message = report["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("--in-place") && !message.contains("--kind"),
        "{message}"
    );
    // The suggested option helps.
    bench.write("app.py", APP);
    let report = replay(&bench, &["--in-place"], &[], 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
}

#[test]
fn values_of_variables_are_put_back_into_files() {
    let bench = Bench::new(|_, _| says("x"));
    let has_it = [("PAY_TOKEN", "planted-by-variable-1")];
    bench.write("pay.conf", "say planted-by-variable-1 twice\n");
    bench.write("notes.md", "`[REDACTED:field]` stands in its place\n");
    let script = "grep -c planted- pay.conf; cat notes.md; rm pay.conf; echo x >> notes.md";
    capture(&bench, script, &has_it);
    let report = replay(&bench, &[], &has_it, 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    let report = replay(&bench, &[], &[], 3);
    assert_eq!(report["error"]["code"], "content_unavailable", "{report}");
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("pay.conf"), "{message}");
}

#[test]
fn a_tools_redacted_output_is_not_replayed_without_values() {
    let bench = Bench::new(|_, _| says("x"));
    let script = "\"$PROGRAM\" snapshot tool login -- sh -c 'echo token=planted-$((6 + 1)) > .session'; \
        grep -c planted- .session";
    capture(&bench, script, &[]);
    let report = replay(&bench, &[], &[], 3);
    let divergence = &report["first_divergence"];
    assert_eq!(divergence["reason"], "content_unavailable", "{report}");
    let message = divergence["message"].as_str().unwrap();
    assert!(
        message.contains(".session") && message.contains("--kind env"),
        "{message}"
    );
    let report = replay(&bench, &["--kind", "env"], &[], 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
}

#[test]
fn redacted_command_input_is_not_replayed_without_values() {
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write("input", "password=planted-in-input-3\n");
    let args = "snapshot capture --root shop --stdin -- grep -c planted-";
    let mut command = bench.command(&args.split(' ').collect::<Vec<_>>());
    command.stdin(std::fs::File::open(bench.lab.path().join("input")).unwrap());
    Ended::from(command.output().unwrap()).with(0);
    let args = "snapshot replay latest --root shop";
    let args: Vec<&str> = args.split(' ').collect();
    let refused = bench.call(&args).with(2).says("the input of the command");
    assert!(!refused.stderr.contains("planted"), "{refused:?}");
}

#[test]
fn a_renamed_file_stays_if_it_cannot_be_restored() {
    let bench = Bench::new(|_, _| says("x"));
    let login = "token=planted-7\n";
    bench.write("login.conf", login);
    let script =
        "\"$PROGRAM\" snapshot tool move -- sh -c 'mkdir -p old && mv login.conf old/login.bak'";
    capture(&bench, script, &[]);
    bench.write("login.conf", login);
    std::fs::remove_dir_all(bench.root().join("old")).unwrap();
    let report = replay(&bench, &["--in-place"], &[], 3);
    let divergence = &report["first_divergence"];
    assert_eq!(divergence["reason"], "content_unavailable", "{report}");
    let left = std::fs::read_to_string(bench.root().join("login.conf"));
    assert_eq!(left.unwrap(), login, "it is where it was");
    assert!(!bench.root().join("old").exists(), "nothing was done");
}

#[test]
fn a_value_that_had_another_spelling_is_not_put_back_in_its_own() {
    let has_it = [("DB_PASSWORD", "p@ss\"w0rd/1")];
    let address = "postgres://u:p%40ss%22w0rd%2F1@h/shop\n";
    for text in [address, "{ \"say\": \"p@ss\\\"w0rd/1\" }\n"] {
        let bench = Bench::new(|_, _| says("x"));
        bench.write("db.conf", text);
        capture(&bench, "grep -c ss db.conf; rm db.conf", &has_it);
        let report = replay(&bench, &[], &has_it, 3);
        assert_eq!(report["error"]["code"], "content_unavailable", "{report}");
        let message = report["error"]["message"].as_str().unwrap();
        assert!(message.contains("db.conf"), "{message}");
        // The same for a tool's file: its spelling cannot be restored.
        bench.write("from.conf", text);
        let script = "\"$PROGRAM\" snapshot tool move -- cp from.conf db.conf";
        capture(&bench, script, &has_it);
        let report = replay(&bench, &[], &has_it, 3);
        let reason = &report["first_divergence"]["reason"];
        assert_eq!(reason, "content_unavailable", "{report}");
    }
    // A literal value is restored; the same holds for standard input.
    let bench = Bench::new(|_, _| says("x"));
    for (text, code) in [("say p@ss\"w0rd/1\n", 0), (address, 2)] {
        bench.lab.write("input", text);
        let args = "snapshot capture --root shop --stdin -- grep -c ss";
        let mut command = bench.command(&args.split(' ').collect::<Vec<_>>());
        command.stdin(std::fs::File::open(bench.lab.path().join("input")).unwrap());
        command.envs(has_it);
        Ended::from(command.output().unwrap()).with(0);
        let args = "snapshot replay latest --root shop";
        let mut command = bench.command(&args.split(' ').collect::<Vec<_>>());
        command.envs(has_it);
        Ended::from(command.output().unwrap()).with(code);
    }
}

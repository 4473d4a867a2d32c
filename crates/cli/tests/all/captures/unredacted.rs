//! Snapshots captured with their secrets.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::peer::says;
use super::secrets::files;
use super::{Bench, has_python, read};
use crate::support::Ended;

/// Unknown to every rule, until a variable contains it.
const LATER: &str = "planted-and-known-later";

/// A command that prints and writes a secret.
fn bench() -> Bench {
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write(
        "do.sh",
        format!("echo say {LATER}; echo keep {LATER} > made.txt\n"),
    );
    bench
}

fn call(bench: &Bench, args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let args: Vec<&str> = args.iter().chain(&["--root", "shop"]).copied().collect();
    let mut command = bench.command(&args);
    command.envs(variables.iter().copied());
    command.output().unwrap().into()
}

fn path_of(ended: &Ended) -> PathBuf {
    PathBuf::from(ended.stdout.lines().last().unwrap())
}

/// Files of evidence that contain a text.
fn having(bench: &Bench, text: &str) -> Vec<String> {
    let all = files(&bench.root().join(".aiwg")).into_iter();
    let having = all.filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains(text));
    having.map(|(name, _)| name).collect()
}

#[test]
fn unredacted_capture_is_confirmed_and_reported() {
    let bench = bench();
    let provider = [
        ("OPENAI_API_KEY", "planted-key-of-the-provider"),
        ("PAY_TOKEN", LATER),
    ];
    bench.lab.write(
        "do.sh",
        format!("echo \"say {LATER} $OPENAI_API_KEY\"; echo keep {LATER} > made.txt\n"),
    );
    let capture = |more: &[&str]| {
        let args = ["snapshot", "capture", "--root", "shop", "--no-redact"];
        let args = [&args[..], more, &["--", "sh", "../do.sh"]].concat();
        let mut command = bench.command(&args);
        Ended::from(command.envs(provider).output().unwrap())
    };
    // Without a terminal to ask at.
    capture(&[]).with(2).says("--yes");
    assert!(!bench.root().join("made.txt").exists(), "nothing was run");
    let of_run = ["snapshot", "capture", "--run", "last", "--no-redact"];
    call(&bench, &of_run, &[]).with(2).says("log of a run");

    let ended = capture(&["--yes"]).with(0).says("UNREDACTED");
    let path = path_of(&ended);
    let snapshot = read(&path);
    let response = format!("say {LATER} [REDACTED:OPENAI_API_KEY]\n");
    assert_eq!(snapshot["outputs"]["response"], response);
    assert_eq!(snapshot["extensions"]["redaction"]["policy"], "off");
    assert_eq!(having(&bench, provider[0].1), Vec::<String>::new());
    for (name, _) in files(&bench.root().join(".aiwg")) {
        let mode = std::fs::metadata(&name).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }

    let list = ["snapshot", "list"];
    call(&bench, &list, &[]).with(0).prints("UNREDACTED");
    let listed = call(&bench, &["snapshot", "list", "--json"], &[]).json();
    assert_eq!(listed["snapshots"][0]["is_unredacted"], true, "{listed}");
    let show = ["snapshot", "show", "latest"];
    let shown = call(&bench, &show, &[]).with(0);
    shown.says("UNREDACTED").prints("UNREDACTED");
    let verified = call(&bench, &["snapshot", "verify", "--json"], &[]).with(0);
    let verified = verified.json();
    let findings = &verified["snapshots"][0]["findings"];
    assert_eq!(findings[0]["code"], "unredacted", "{verified}");
    let export = ["snapshot", "export", "latest"];
    let exported = call(&bench, &export, &[]).with(0).says("UNREDACTED");
    assert!(!exported.stdout.contains(LATER), "{exported:?}");
    let bundle = [&export[..], &["--format", "bundle"]].concat();
    call(&bench, &bundle, &[]).with(2).says("--unredacted");
    let bundle = [&bundle[..], &["--unredacted"]].concat();
    call(&bench, &bundle, &[]).with(0).prints(LATER);

    // It is repeated exactly, and the report and the kept data contain no secret.
    std::fs::remove_file(bench.root().join("made.txt")).unwrap();
    let replay = ["snapshot", "replay", "latest", "--json"];
    let report = call(&bench, &replay, &provider).with(0).json();
    assert_eq!(report["match_status"], "exact_match", "{report}");
    bench.lab.write("do.sh", format!("echo other {LATER}\n"));
    let report = call(&bench, &replay, &provider).with_any(&[1, 3]);
    assert!(!report.stdout.contains(LATER), "{report:?}");
    let replays = std::fs::read_to_string(path.with_extension("replays.jsonl")).unwrap();
    assert!(!replays.contains(LATER), "{replays}");
}

/// Runs a program at a terminal, types a line at its question, and ends with its exit code.
const AT_A_TERMINAL: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen = b""
while b"to continue" not in seen:
    seen += os.read(terminal, 4096)
os.write(terminal, sys.argv[1].encode() + b"\n")
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn at_a_terminal_a_word_is_asked_for() {
    if !has_python("at_a_terminal_a_word_is_asked_for") {
        return;
    }
    let bench = bench();
    let capture = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--no-redact",
        "--",
        "sh",
        "../do.sh",
    ];
    for (word, code, is_run) in [("yes", 2, false), ("unredacted", 0, true)] {
        let program = bench.command(&capture);
        let mut python = std::process::Command::new("python3");
        python
            .args(["-c", AT_A_TERMINAL, word])
            .arg(program.get_program())
            .args(program.get_args())
            .current_dir(program.get_current_dir().unwrap());
        let ended = python.output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{word}: {ended:?}");
        assert_eq!(bench.root().join("made.txt").exists(), is_run, "{word}");
    }
}

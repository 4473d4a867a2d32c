//! Secrets that are found in what is kept.

use std::path::PathBuf;

use serde_json::json;

use super::peer::says;
use super::secrets::files;
use super::{Bench, read};
use crate::support::Ended;

/// No rule knows it, until a variable has it.
const LATER: &str = "planted-and-known-later";

/// A command that says and writes a secret.
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

/// Files of evidence that have a text in them.
fn having(bench: &Bench, text: &str) -> Vec<String> {
    let all = files(&bench.root().join(".aiwg")).into_iter();
    let having = all.filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains(text));
    having.map(|(name, _)| name).collect()
}

#[test]
fn a_secret_that_is_known_later_is_found_and_taken_out() {
    let bench = bench();
    let old = path_of(&bench.record(&["sh", "../do.sh"]));
    let old_id = read(&old)["snapshot_id"].as_str().unwrap().to_owned();
    assert!(!having(&bench, LATER).is_empty());
    let knows = [("PAY_TOKEN", LATER)];
    let scan = ["snapshot", "scan"];
    call(&bench, &scan, &[]).with(0).says("no secret is found");

    let found = call(&bench, &scan, &knows).with(1);
    found.prints("document /outputs/response: 1 PAY_TOKEN");
    let found = call(&bench, &["snapshot", "scan", "latest", "--json"], &knows).with(1);
    assert!(!found.stdout.contains(LATER), "{found:?}");
    let found = found.json();
    assert_eq!(
        (&found["clean"], &found["applied"], &found["looked_at"]),
        (&json!(false), &json!(false), &json!(1)),
        "{found}"
    );
    let places = found["snapshots"][0]["found"].as_array().unwrap();
    let of = |at: &str| places.iter().find(|place| place["at"] == at);
    for at in ["/outputs/response", "standard output", "file made.txt"] {
        assert_eq!(of(at).unwrap()["kinds"], json!({ "PAY_TOKEN": 1 }), "{at}");
    }

    // One that somebody wants as it is stays, and what to do about that is said.
    call(&bench, &["snapshot", "pin", "latest"], &[]).with(0);
    let apply = ["snapshot", "scan", "--apply"];
    call(&bench, &apply, &knows).with(1).says("--remove");
    assert!(old.exists());
    call(&bench, &["snapshot", "pin", "latest", "--remove"], &[]).with(0);

    call(&bench, &apply, &knows).with(0).prints("superseded by");
    assert_eq!(having(&bench, LATER), Vec::<String>::new());
    assert!(!old.exists());
    let verified = call(&bench, &["snapshot", "verify", "--strict", "--json"], &[]).with(0);
    let verified = verified.json();
    assert_eq!(
        verified["snapshots"][0]["findings"],
        json!([]),
        "{verified}"
    );
    let shown = call(&bench, &["snapshot", "show", &old_id, "--json"], &[]).with(0);
    let shown = shown.json();
    assert_eq!(shown["extensions"]["supersedes"]["snapshot_id"], old_id);
    call(&bench, &scan, &knows).with(0);

    // It is still evidence: who has the value does it again, and gets the same.
    let replay = ["snapshot", "replay", "latest", "--json"];
    let report = call(&bench, &replay, &knows).with(0).json();
    assert_eq!(report["match_status"], "exact_match", "{report}");
}

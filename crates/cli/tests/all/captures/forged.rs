//! Snapshots that were changed after they were sealed, and files that are not snapshots.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::read;
use crate::support::Lab;

/// A project with a captured command that was replayed once. Returns the path of the snapshot.
fn project(lab: &Lab) -> PathBuf {
    fs::create_dir(lab.path().join("shop")).unwrap();
    let capture = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "sh",
        "-c",
        "echo kept > made.txt; echo said",
    ];
    let ended = lab.call(&capture).with(0);
    lab.call(&["snapshot", "replay", "latest", "--root", "shop"])
        .with(0);
    let path = PathBuf::from(ended.stdout.lines().last().unwrap());
    assert_eq!(read(&path)["replay_status"]["replay_count"], 1);
    path
}

/// Verifies in both ways; both must end with `code`, and print each of `words`.
fn refused(lab: &Lab, what: &str, state: &str, words: &[&str]) {
    for more in [&[][..], &["--strict"]] {
        let args = [&["snapshot", "verify", "--root", "shop"][..], more].concat();
        let ended = lab.call(&args).with(4);
        for word in words.iter().chain([&state]) {
            assert!(
                ended.stdout.contains(word),
                "{what}: {word}: {}",
                ended.stdout
            );
        }
        let json = lab.call(&[&args[..], &["--json"]].concat()).with(4).json();
        if state != "malformed" {
            assert_eq!(json["snapshots"][0]["state"], state, "{what}");
        }
    }
    marked(lab, what, state);
}

/// `list` and `show` must say it, too.
fn marked(lab: &Lab, what: &str, state: &str) {
    let root = ["--root", "shop"];
    let listed = lab.call(&[&["snapshot", "list"], &root[..]].concat());
    let word = state.to_uppercase();
    assert!(listed.stdout.contains(&word), "{what}: {}", listed.stdout);
    assert!(state != "tampered" || !listed.stdout.contains("exact_match"));
    let json = lab.call(&["snapshot", "list", "--root", "shop", "--json"]);
    if let Some(entry) = json.json()["snapshots"].get(0) {
        assert_eq!(entry["state"], state, "{what}");
        let shown = lab.call(&[&["snapshot", "show", "latest"], &root[..]].concat());
        let shown = shown.with(4);
        assert!(shown.stderr.contains(&word), "{what}: {}", shown.stderr);
        assert!(state != "tampered" || !shown.stdout.contains("exact_match"));
        let json = lab.call(&["snapshot", "show", "latest", "--root", "shop", "--json"]);
        assert_eq!(json.with(4).json()["state"], state, "{what}");
    }
}

fn replays(path: &Path) -> PathBuf {
    path.with_extension("replays.jsonl")
}

#[test]
fn a_forged_member_is_refused_by_name() {
    type Edit = fn(&mut Value);
    let seal = "extensions.integrity";
    let rows: [(&str, Edit, &str, &str); 13] = [
        (
            "content",
            |it| it["extensions"]["content"] = json!("fulm"),
            "tampered",
            seal,
        ),
        (
            "unknown",
            |it| it["extensions"]["more"] = json!(1),
            "tampered",
            seal,
        ),
        ("root", |it| it["more"] = json!({}), "tampered", seal),
        (
            "answer",
            |it| it["outputs"]["response"] = json!("no"),
            "tampered",
            "/outputs/response",
        ),
        (
            "missing",
            |it| {
                drop(
                    it["extensions"]
                        .as_object_mut()
                        .unwrap()
                        .remove("integrity"),
                )
            },
            "unsealed",
            seal,
        ),
        ("other", |it| it["extensions"] = json!([]), "unsealed", seal),
        (
            "null",
            |it| it["extensions"]["integrity"] = Value::Null,
            "tampered",
            seal,
        ),
        (
            "empty",
            |it| it["extensions"]["integrity"] = json!(""),
            "tampered",
            seal,
        ),
        (
            "list",
            |it| it["extensions"]["integrity"] = json!([it["extensions"]["integrity"]]),
            "tampered",
            seal,
        ),
        (
            "status",
            |it| it["replay_status"]["match_status"] = json!("no_match"),
            "tampered",
            "replay_status",
        ),
        (
            "count",
            |it| it["replay_status"]["replay_count"] = json!(2),
            "tampered",
            "replay_status",
        ),
        (
            "extra",
            |it| it["replay_status"]["more"] = json!(2),
            "tampered",
            "replay_status",
        ),
        (
            "never",
            |it| {
                it["replay_status"] =
                    json!({"replayed": false, "replay_count": 0, "match_status": "not_replayed"})
            },
            "tampered",
            "replay_status",
        ),
    ];
    let lab = Lab::new();
    let path = project(&lab);
    let whole = fs::read(&path).unwrap();
    for (what, edit, state, word) in rows {
        let mut document = read(&path);
        edit(&mut document);
        fs::write(&path, document.to_string()).unwrap();
        refused(&lab, what, state, &[word]);
        if state == "tampered" {
            lab.call(&["snapshot", "replay", "latest", "--root", "shop"])
                .with(4);
        }
        fs::write(&path, &whole).unwrap();
    }
    // The order of members and white space are not sealed.
    fs::write(&path, read(&path).to_string()).unwrap();
    lab.call(&["snapshot", "verify", "--root", "shop", "--strict"])
        .with(0);
}

#[test]
fn a_member_of_another_type_is_refused_by_name() {
    let lab = Lab::new();
    let path = project(&lab);
    let mut document = read(&path);
    document["metrics"]["duration_ms"] = json!("7");
    fs::write(&path, document.to_string()).unwrap();
    for more in [&[][..], &["--strict"]] {
        let args = [&["snapshot", "verify", "--root", "shop"][..], more].concat();
        lab.call(&args)
            .with(4)
            .prints("tampered")
            .prints("/metrics/duration_ms");
    }
}

#[test]
fn a_duplicate_key_is_rejected_by_name() {
    let lab = Lab::new();
    let path = project(&lab);
    let text = fs::read_to_string(&path).unwrap();
    let twice = text.replacen(
        "\"response\":",
        "\"response\": \"forged\", \"response\":",
        1,
    );
    assert_ne!(text, twice);
    fs::write(&path, twice).unwrap();
    refused(&lab, "twice", "malformed", &["response"]);
}

#[test]
fn a_changed_record_of_replays_is_refused() {
    let lab = Lab::new();
    let path = project(&lab);
    lab.call(&["snapshot", "replay", "latest", "--root", "shop"])
        .with(0);
    let record = replays(&path);
    let text = fs::read_to_string(&record).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let edited = [
        text.replacen("exact_match", "no_match", 1),
        format!("{}\n", lines[0]),
        format!("{}\n", lines[1]),
        format!("{}\n{}\n", lines[1], lines[0]),
        format!("{text}{}\n", lines[0]),
        String::new(),
    ];
    for (row, edited) in edited.into_iter().enumerate() {
        fs::write(&record, edited).unwrap();
        refused(&lab, &format!("row {row}"), "tampered", &["replay"]);
        // Another replay does not repair it.
        lab.call(&["snapshot", "replay", "latest", "--root", "shop"])
            .with(4);
        fs::write(&record, &text).unwrap();
    }
    lab.call(&["snapshot", "verify", "--root", "shop"]).with(0);
}

#[test]
fn a_signature_that_is_a_link_is_refused() {
    let lab = Lab::new();
    let path = project(&lab);
    let (signature, elsewhere) = (path.with_extension("sig"), lab.path().join("sig"));
    fs::rename(&signature, &elsewhere).unwrap();
    symlink(&elsewhere, &signature).unwrap();
    refused(&lab, "link", "tampered", &["symbolic link"]);
}

#[test]
fn a_forged_index_is_not_believed() {
    let lab = Lab::new();
    let path = project(&lab);
    lab.call(&["snapshot", "list", "--root", "shop"]).with(0);
    let index = lab.path().join("shop/.aiwg/provenance/index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("exact_match", "no_match")).unwrap();
    let list = ["snapshot", "list", "--root", "shop"];
    lab.call(&list)
        .with(0)
        .prints("exact_match")
        .prints("valid");
    fs::write(replays(&path), "").unwrap();
    fs::write(&index, &text).unwrap();
    marked(&lab, "index", "tampered");
}

#[test]
fn a_content_without_an_end_is_refused() {
    let lab = Lab::new();
    let path = project(&lab);
    let hash = read(&path)["outputs"]["artifacts_created"][0]["hash"].clone();
    let hex = hash
        .as_str()
        .unwrap()
        .strip_prefix("sha256:")
        .unwrap()
        .to_owned();
    let blobs = lab.path().join("shop/.aiwg/provenance/blobs/sha256");
    let content = blobs.join(&hex[..2]).join(&hex[2..]);
    let user = "/outputs/artifacts_created/0/hash";
    fs::remove_file(&content).unwrap();
    refused(&lab, "missing", "tampered", &[&hex, user]);
    symlink("/dev/zero", &content).unwrap();
    refused(&lab, "link", "tampered", &[&hex, user, "symbolic link"]);
    fs::remove_file(&content).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&content).status();
    assert!(made.unwrap().success());
    refused(&lab, "pipe", "tampered", &[&hex, user, "pipe"]);
    fs::remove_file(&content).unwrap();
    let sparse = fs::File::create(&content).unwrap();
    sparse.set_len(1 << 40).unwrap();
    refused(&lab, "sparse", "tampered", &[&hex, user, "bytes"]);
}

#[test]
fn a_missing_folder_is_named_and_not_made() {
    let lab = Lab::new();
    lab.write("file", "");
    fs::create_dir(lab.path().join("empty")).unwrap();
    for (root, words) in [("nowhere", "does not exist"), ("file", "is not a folder")] {
        for command in ["verify", "list"] {
            let ended = lab.call(&["snapshot", command, "--root", root]).with(2);
            assert!(
                ended.stderr.contains(root) && ended.stderr.contains(words),
                "{}",
                ended.stderr
            );
        }
    }
    assert!(!lab.path().join("nowhere").exists());
    let listed = lab.call(&["snapshot", "list", "--root", "empty"]).with(0);
    assert!(
        listed.stdout.contains("no snapshots in"),
        "{}",
        listed.stdout
    );
    lab.call(&["snapshot", "verify", "--root", "empty"]).with(2);
}

#[test]
fn verify_names_the_signer_of_replays() {
    let lab = Lab::new();
    let path = project(&lab);
    let verify = ["snapshot", "verify", "--root", "shop", "--strict"];
    lab.call(&verify)
        .with(0)
        .prints("records of replays signed by ed25519:")
        .prints("(your key)");
    // Without its signature the line is still in its chain.
    let record = path.with_extension("replays.jsonl");
    let mut line = read(&record);
    line.as_object_mut().unwrap().remove("signature");
    fs::write(&record, format!("{line}\n")).unwrap();
    lab.call(&verify).with(4).prints("have no signature");
    lab.call(&verify[..4]).with(0).prints("have no signature");
}

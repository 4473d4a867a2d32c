use std::fs;
use std::path::{Path, PathBuf};

use faces::provenance::calls::Call;
use faces::provenance::document::{Config, Mode, Model, Parent, Snapshot};
use faces::provenance::seal::{integrity, seal};
use kernel::time::Timestamp;
use provenance::{Folder, Kept, Redaction, Strictness, new_id};
use serde_json::{Value, json};

use super::mend::{Mended, mend};
use super::{Part, look};

/// Known as a secret now, and not when it was captured.
const PLANTED: &str = "planted-value-1";

fn redaction() -> Redaction {
    Redaction::of_environment([("NEW_TOKEN".to_owned(), PLANTED.to_owned())])
}

fn folder() -> (tempfile::TempDir, Folder) {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::of_project(root.path());
    (root, folder)
}

fn draft(captured: i64) -> Snapshot {
    let config = Config::new(Model::named("small-1"), Mode::Default);
    let mut draft = Snapshot::new(new_id(), "tidy".into(), Timestamp(captured), config);
    draft.outputs.response = Some("done".into());
    draft
}

fn write(folder: &Folder, mut draft: Snapshot, calls: &[Call]) -> Kept {
    draft.seal_calls(calls);
    let sealed = seal(draft, &mut |_| {}).unwrap();
    folder.writer().unwrap().write(&sealed, calls).unwrap()
}

/// One with a secret in its prompt, in a call, in a file it made and one it found, and in what it read.
fn leaky(folder: &Folder) -> Kept {
    let writer = folder.writer().unwrap();
    let put = |bytes: &[u8]| writer.put_blob(bytes).unwrap();
    let value = |value: Value| put(value.to_string().as_bytes());
    let input = value(json!({ "argv": ["deploy", PLANTED] }));
    let result = value(json!({ "stdout": "ok" }));
    let body = json!({ "messages": [{ "role": "system", "content": format!("use {PLANTED}") }] });
    let asked = value(body);
    // In two pieces of a stream.
    let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"it is planted-\"}}]}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"value-1!\"}}]}\n\n";
    let answered =
        value(json!({ "body": stream, "content_type": "text/event-stream", "status": 200 }));
    let made = put(format!("say {PLANTED}\n").as_bytes());
    let found = put(b"nothing\n");
    let stdin = value(json!(format!("type {PLANTED}")));
    let calls = [
        json!({ "seq": 0, "kind": "tool", "name": "deploy", "key_hash": input,
            "result_hash": result,
            "effects": [{ "path": "made.txt", "operation": "created", "hash": made, "size": 20,
                "mode": 0o644 }] }),
        json!({ "seq": 1, "kind": "model", "name": "openai/chat/completions",
            "key_hash": asked, "result_hash": answered }),
    ];
    let calls = calls.map(|call| serde_json::from_value::<Call>(call).unwrap());
    let mut draft = draft(1_770_000_000_000);
    draft.inputs.user_prompt = Some(format!("Deploy with {PLANTED}."));
    draft.config.system_prompt_hash = Some(faces::provenance::hash::hash_text(&format!(
        "use {PLANTED}"
    )));
    draft.outputs.tool_calls = Some(vec![
        serde_json::from_value(json!({
            "tool": "deploy", "input_hash": input, "output_hash": result,
        }))
        .unwrap(),
    ]);
    let other = &mut draft.extend().other;
    other.insert(
        "workspace".into(),
        json!([{ "path": "made.txt", "operation": "modified", "hash": made, "before": found,
            "size": 20, "mode": 0o644 }]),
    );
    other.insert("process".into(), json!({ "stdin_hash": stdin }));
    write(folder, draft, &calls)
}

/// Every file below a folder that has a text in it.
fn having(folder: &Path, text: &str) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text) {
                found.push(path);
            }
        }
    }
    found
}

fn mended(folder: &Folder) -> Mended {
    mend(folder, &redaction(), &|_| true).unwrap()
}

#[test]
fn what_stands_where_is_told_and_no_value() {
    let (_root, folder) = folder();
    let kept = leaky(&folder);
    write(&folder, draft(1_770_000_001_000), &[]);
    let writer = folder.writer().unwrap();
    writer
        .put_blob(format!("left: {PLANTED}").as_bytes())
        .unwrap();
    drop(writer);
    let half = folder.snapshots().join(".unfinished-1");
    fs::write(&half, format!("{{ \"half\": \"{PLANTED}\"")).unwrap();

    let report = look(&folder, &redaction(), None).unwrap();
    assert_eq!(report.snapshots.len(), 2);
    let leaky = report.snapshots.iter().find(|one| !one.is_clean()).unwrap();
    assert_eq!(leaky.snapshot_id, kept.document.snapshot.snapshot_id);
    let mut places: Vec<(Part, &str)> = leaky
        .found
        .iter()
        .map(|found| {
            let kinds: Vec<&String> = found.kinds.keys().collect();
            assert_eq!(kinds, ["NEW_TOKEN"], "{found:?}");
            (found.of, found.at.as_str())
        })
        .collect();
    places.sort_by_key(|(_, at)| *at);
    assert_eq!(
        places,
        [
            (Part::Document, "/inputs/user_prompt"),
            (Part::Content, "standard input"),
            (Part::Content, "step 1 file made.txt"),
            (Part::Content, "step 1 input"),
            (Part::Content, "step 2 input"),
            (Part::Content, "step 2 result"),
        ]
    );
    let besides: Vec<(Part, &str)> = report
        .besides
        .iter()
        .map(|found| (found.of, found.at.as_str()))
        .collect();
    assert_eq!(
        besides,
        [
            (Part::Leftover, ".unfinished-1"),
            (Part::Unnamed, "named by no snapshot")
        ]
    );
    let told = serde_json::to_string(&report).unwrap();
    assert!(!told.contains("planted"), "{told}");
    // Who does not know the value finds nothing.
    let report = look(&folder, &Redaction::default(), None).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_snapshot_without_secrets_takes_the_place_of_one_that_has_some() {
    let (root, folder) = folder();
    let old = leaky(&folder);
    let old_id = old.document.snapshot.snapshot_id.clone();
    let mut after = draft(1_770_000_002_000);
    after.extend().parent = Some(Parent {
        snapshot_id: old_id.clone(),
        fork_step: Some(1),
    });
    let fork = write(&folder, after, &[]);
    let bystander = write(&folder, draft(1_770_000_003_000), &[]);

    let done = mended(&folder);
    assert_eq!(done.refused, []);
    assert_eq!(done.superseded.len(), 2, "{done:?}");
    assert!(done.pruned.has_swept && done.pruned.blobs > 0, "{done:?}");
    for text in [PLANTED, "planted-"] {
        assert_eq!(having(root.path(), text), Vec::<PathBuf>::new(), "{text}");
    }
    assert!(!old.path.exists() && !fork.path.exists() && bystander.path.exists());
    let by = |id: &str| {
        let one = done.superseded.iter().find(|one| one.snapshot_id == id);
        folder.read(&one.unwrap().path).unwrap()
    };
    let new = by(&old_id);
    let verified = folder.verify(&new, Strictness::Strict).unwrap();
    assert!(
        verified.is_valid && verified.findings.is_empty(),
        "{verified:?}"
    );
    let raw = &new.document.raw;
    assert_eq!(
        raw["extensions"]["supersedes"],
        json!({ "snapshot_id": old_id, "integrity": integrity(&old.document.raw) })
    );
    assert_eq!(
        raw["inputs"]["user_prompt"],
        "Deploy with [REDACTED:NEW_TOKEN]."
    );
    let count = &raw["extensions"]["redaction"];
    assert_eq!(count["policy"], "on");
    assert_eq!(count["kinds"]["NEW_TOKEN"], 6, "{count}");
    assert_eq!(count["files"]["made.txt"], 1, "{count}");
    // No replay writes the file without its value, or takes the other for changed.
    let change = &raw["extensions"]["workspace"][0];
    assert_eq!(
        (&change["redacted"], &change["verbatim"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(change["redacted_before"], Value::Null);
    let process = &raw["extensions"]["process"];
    assert_eq!(process["stdin_redacted"], 1);
    let system = faces::provenance::hash::hash_text("use [REDACTED:NEW_TOKEN]");
    assert_eq!(raw["config"]["system_prompt_hash"], json!(system));
    // It is found by what it was called, and named by what came of it.
    assert_eq!(folder.resolve(&old_id).unwrap(), new.path);
    let fork = by(&fork.document.snapshot.snapshot_id);
    assert_eq!(
        fork.document.raw["extensions"]["parent"],
        json!({ "snapshot_id": new.document.snapshot.snapshot_id, "fork_step": 1 })
    );
    assert!(look(&folder, &redaction(), None).unwrap().is_clean());
    // Once is enough.
    let again = mended(&folder);
    assert!(again.superseded.is_empty() && again.refused.is_empty());
    // When more is known it is superseded once more, and every former id and seal stays.
    let more = Redaction::of_environment([("MORE_TOKEN".to_owned(), "Deploy with".to_owned())]);
    let newer = mend(&folder, &more, &|_| true).unwrap();
    let newest = folder.resolve(&old_id).unwrap();
    assert_ne!(newest, new.path);
    assert_eq!(
        folder.resolve(&new.document.snapshot.snapshot_id).unwrap(),
        newest
    );
    let raw = folder.read(&newest).unwrap().document.raw;
    let links = &raw["extensions"]["supersedes"];
    assert_eq!(
        links["integrity"],
        json!(integrity(&new.document.raw)),
        "{newer:?}"
    );
    assert_eq!(links["earlier"]["snapshot_id"], json!(old_id));
    assert_eq!(
        links["earlier"]["integrity"],
        json!(integrity(&old.document.raw))
    );
}

#[test]
fn what_was_killed_behind_the_writing_is_not_written_twice() {
    let (root, folder) = folder();
    let old = leaky(&folder);
    let there = root.path().join(".aiwg");
    let copy = root.path().join("copy");
    copy_all(&there, &copy);
    let first = mended(&folder);
    let new = first.superseded[0].path.clone();
    let text = fs::read(&new).unwrap();
    // As it was before the old one went.
    copy_all(&copy, &there);
    assert!(old.path.exists() && new.exists());
    let second = mended(&folder);
    assert_eq!(second.superseded, first.superseded);
    assert_eq!(fs::read(&new).unwrap(), text);
    assert_eq!(folder.list().unwrap().entries.len(), 1);
    assert_eq!(having(&there, PLANTED), Vec::<PathBuf>::new());
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let at = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_all(&entry.path(), &at),
            false => drop(fs::copy(entry.path(), at).unwrap()),
        }
    }
}

#[test]
fn what_is_pinned_or_was_changed_stays() {
    let (_root, folder) = folder();
    let old = leaky(&folder);
    let old_id = old.document.snapshot.snapshot_id.clone();
    let mut after = draft(1_770_000_002_000);
    after.extend().follows = Some(old_id.clone());
    let follower = write(&folder, after, &[]);
    folder.pin(&follower.path, true).unwrap();
    // What somebody wants kept as it is names it.
    let done = mended(&folder);
    assert!(done.superseded.is_empty() && old.path.exists(), "{done:?}");
    let refused = &done.refused[0];
    assert_eq!((refused.code, &refused.snapshot_id), ("pinned", &old_id));
    let follower_id = &follower.document.snapshot.snapshot_id;
    assert!(refused.advice.contains(follower_id.as_str()), "{refused:?}");
    folder.pin(&follower.path, false).unwrap();

    let text = fs::read_to_string(&old.path).unwrap();
    fs::write(&old.path, text.replace("small-1", "other-1")).unwrap();
    let done = mended(&folder);
    assert_eq!(done.refused[0].code, "not_whole");
    assert!(done.superseded.is_empty() && old.path.exists(), "{done:?}");
    fs::write(&old.path, text).unwrap();
    assert_eq!(mended(&folder).superseded.len(), 2);
}

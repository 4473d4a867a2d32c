use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use faces::provenance::capture::Captured;
use faces::provenance::document::{MatchStatus, Snapshot};
use faces::provenance::hash::hash_text;
use faces::provenance::seal::integrity;
use provenance::{
    Bundle, BundleError, Bytes, FolderError, Kept, Redaction, Strictness, Unresolved, hash_file,
};

use crate::support::*;

const DAY: &str = "2026-03-01T00:00:00.000Z";

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_written_snapshot_is_read_back_and_valid() {
    let (_root, folder) = folder();
    let writer = folder.writer().unwrap();
    let (key, result) = (
        writer.put_blob(b"{}").unwrap(),
        writer.put_blob(b"\"ok\"").unwrap(),
    );
    let calls = [call(0, &key, &result)];
    let kept = write(&folder, draft("yard", DAY), &calls);
    assert!(kept.path.ends_with("yard-2026-03-01T00-00-00-000Z.json"));
    let again = folder.read(&kept.path).unwrap();
    assert_eq!(again.document, kept.document);
    let mut read = folder.calls(&kept.path).unwrap();
    assert!(read[0].other.remove("link").is_some());
    assert_eq!(read, calls);
    assert_eq!(folder.blob(&result).unwrap(), b"\"ok\"");
    let verified = folder.verify(&again, Strictness::Strict).unwrap();
    assert!(
        verified.is_valid && verified.findings.is_empty(),
        "{verified:?}"
    );
    assert_eq!(verified.contents, 2);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&kept.path), mode(&folder.snapshots())),
        (0o600, 0o700)
    );
    // Exactly these: no unfinished file is left.
    assert_eq!(files(&folder.snapshots()).len(), 2);
}

#[test]
fn nothing_is_ever_written_over() {
    let (_root, folder) = folder();
    let names: Vec<String> = (0..3)
        .map(|_| write(&folder, draft("yard", DAY), &[]).path)
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let stem = "yard-2026-03-01T00-00-00-000Z";
    assert_eq!(
        names,
        [
            format!("{stem}.json"),
            format!("{stem}-2.json"),
            format!("{stem}-3.json")
        ]
    );
}

#[test]
fn writers_that_race_lose_nothing() {
    let (_root, folder) = folder();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    write(&folder, draft("yard", DAY), &[call(0, "a", "b")]);
                }
            });
        }
    });
    let listing = folder.list().unwrap();
    assert_eq!((listing.entries.len(), listing.broken), (40, vec![]));
}

#[test]
fn truncated_snapshots_are_skipped_and_reported() {
    let (_root, folder) = folder();
    let kept = write(&folder, draft("yard", DAY), &[]);
    let whole = fs::read(&kept.path).unwrap();
    let at = folder.snapshots();
    fs::write(at.join("half.json"), &whole[..whole.len() / 2]).unwrap();
    fs::write(at.join(".unfinished-1"), b"{").unwrap();
    fs::write(at.join("gone.calls.jsonl"), b"").unwrap();
    let listing = folder.list().unwrap();
    assert_eq!(listing.entries.len(), 1);
    let broken: Vec<&str> = listing.broken.iter().map(|broken| &*broken.file).collect();
    assert_eq!(broken, [".unfinished-1", "gone.calls.jsonl", "half.json"]);
    // The next prune clears unfinished files, and keeps contents while it cannot determine their
    // users.
    let blob = folder.writer().unwrap().put_blob(b"x").unwrap();
    let pruned = folder.prune(at_day(1)).unwrap();
    assert_eq!((pruned.leftovers, pruned.has_swept), (2, false));
    assert!(folder.has_blob(&blob));
    fs::remove_file(at.join("half.json")).unwrap();
    let pruned = folder.prune(at_day(1)).unwrap();
    assert_eq!((pruned.blobs, pruned.has_swept), (1, true));
}

fn at_day(day: u64) -> kernel::time::Timestamp {
    at(DAY).plus_ms(day * 24 * 3_600_000)
}

#[test]
fn the_index_may_be_gone_old_or_wrong() {
    let (root, folder) = folder();
    write(&folder, draft("yard", DAY), &[]);
    let before = folder.list().unwrap();
    let index = root.path().join(".aiwg/provenance/index.json");
    assert!(index.is_file());
    for rubbish in [
        &b"{"[..],
        b"{\"version\":1,\"files\":{}}",
        b"{\"version\":99,\"files\":{}}",
    ] {
        fs::write(&index, rubbish).unwrap();
        assert_eq!(folder.list().unwrap(), before);
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(folder.list().unwrap(), before);
    // A file that was changed by another program is read again.
    let file = folder.snapshots().join(&before.entries[0].file);
    folder
        .record_replay(
            &file,
            attempt(DAY, Some(MatchStatus::NoMatch), false),
            Some(&key()),
        )
        .unwrap();
    assert_eq!(
        folder.list().unwrap().entries[0].match_status,
        MatchStatus::NoMatch
    );
}

#[test]
fn a_snapshot_is_found_by_id_beginning_name_and_latest() {
    let (_root, folder) = folder();
    let mut named = draft("yard", DAY);
    named.snapshot_id = "0190a7c1-0000-7000-8000-00000000000a".into();
    named.extend().name = Some("before the rain".into());
    let first = write(&folder, named, &[]).path;
    let mut other = draft("yard", "2026-03-02T00:00:00.000Z");
    other.snapshot_id = "0190a7c2-0000-7000-8000-00000000000b".into();
    let second = write(&folder, other, &[]).path;
    let found = |name: &str| folder.resolve(name).ok();
    assert_eq!(
        found("0190a7c1-0000-7000-8000-00000000000a"),
        Some(first.clone())
    );
    assert_eq!(found("0190a7c1"), Some(first.clone()));
    assert_eq!(found("before the rain"), Some(first.clone()));
    assert_eq!(found("latest"), Some(second));
    assert_eq!(found(first.to_str().unwrap()), Some(first));
    assert!(
        matches!(folder.resolve("0190a7c"), Err(Unresolved::Ambiguous { among, .. }) if among.len() == 2)
    );
    for missing in ["019", "none", "../x.json"] {
        assert!(
            matches!(folder.resolve(missing), Err(Unresolved::Missing(_))),
            "{missing}"
        );
    }
}

#[test]
fn contents_are_verified_whenever_they_are_read() {
    let (_root, folder) = folder();
    let writer = folder.writer().unwrap();
    let hash = writer.put_blob(b"as it was").unwrap();
    let calls = [
        call(0, &hash, &hash),
        call(1, &hash, &hash_text("never kept")),
    ];
    let kept = write(&folder, draft("yard", DAY), &calls);
    let codes = || {
        let verified = folder.verify(&kept, Strictness::Lenient).unwrap();
        let codes = verified.findings.iter().map(|finding| finding.code);
        codes.collect::<Vec<_>>()
    };
    assert_eq!(codes(), ["content_missing"]);
    let hex = hash.strip_prefix("sha256:").unwrap();
    let path = folder.blobs().join(&hex[..2]).join(&hex[2..]);
    fs::write(&path, b"as it was not").unwrap();
    assert!(matches!(
        folder.blob(&hash),
        Err(FolderError::Damaged { .. })
    ));
    let mut found = codes();
    found.sort_unstable();
    assert_eq!(found, ["content_damaged", "content_missing"]);
}

#[test]
fn replays_are_counted_and_change_nothing_else() {
    let (_root, folder) = folder();
    let kept = write(&folder, draft("yard", DAY), &[]);
    let core = integrity(&kept.document.raw);
    let first = folder.record_replay(
        &kept.path,
        attempt(DAY, Some(MatchStatus::ExactMatch), true),
        Some(&key()),
    );
    assert_eq!(first.unwrap().replay_count, 1);
    // An abandoned attempt is recorded, and not counted.
    let given_up = folder
        .record_replay(&kept.path, attempt(DAY, None, false), Some(&key()))
        .unwrap();
    assert_eq!(
        (given_up.replay_count, given_up.match_status),
        (1, MatchStatus::ExactMatch)
    );
    // A truncated line is not counted.
    let record = kept.path.with_extension("replays.jsonl");
    let mut lines = fs::read_to_string(&record).unwrap();
    lines.push_str("{\"attempt\":3,\"at\":\"cut of");
    fs::write(&record, lines).unwrap();
    let before = fs::read(&kept.path).unwrap();
    let last = folder.record_replay(
        &kept.path,
        attempt(DAY, Some(MatchStatus::NoMatch), false),
        Some(&key()),
    );
    let last = last.unwrap();
    assert_eq!(
        (last.replay_count, last.match_status),
        (2, MatchStatus::NoMatch)
    );
    // The record was durable, the status not: the next attempt repairs it.
    let is_valid = || {
        let again = folder.read(&kept.path).unwrap();
        folder.verify(&again, Strictness::Strict).unwrap().is_valid
    };
    fs::write(&kept.path, &before).unwrap();
    assert!(!is_valid(), "nobody was at it");
    let lock = folder.snapshots().with_file_name(".replays.lock");
    fs::write(&lock, kept.path.file_name().unwrap().as_encoded_bytes()).unwrap();
    assert!(is_valid());
    let last = folder.record_replay(
        &kept.path,
        attempt(DAY, Some(MatchStatus::NoMatch), false),
        Some(&key()),
    );
    assert_eq!(last.unwrap().replay_count, 3);
    let again = folder.read(&kept.path).unwrap();
    assert_eq!(integrity(&again.document.raw), core);
    assert!(folder.verify(&again, Strictness::Strict).unwrap().is_valid);
    assert_eq!(folder.attempts(&kept.path).unwrap().len(), 4);
}

#[test]
fn a_file_of_others_stays_as_it_is_when_it_is_replayed() {
    let (root, folder) = folder();
    let text = r#"{"snapshot_id":"snap-9","workflow_id":"w","captured_at":"2026-03-01T00:00:00Z",
        "config":{"model":{"id":"m"},"execution_mode":"audit","seed":"strict-seed"},
        "inputs":{},"outputs":{"response":"r","response_hash":"x..."},"mood":"fine"}"#;
    let path = root.path().join("theirs.json");
    fs::write(&path, text).unwrap();
    let before = folder.read(&path).unwrap().document.raw;
    folder
        .record_replay(
            &path,
            attempt(DAY, Some(MatchStatus::ExactMatch), true),
            Some(&key()),
        )
        .unwrap();
    let mut after = folder.read(&path).unwrap().document.raw;
    let status = after
        .as_object_mut()
        .unwrap()
        .remove("replay_status")
        .unwrap();
    assert_eq!((after, status["replay_count"].as_u64()), (before, Some(1)));
}

#[test]
fn expired_snapshots_are_pruned_with_their_own_contents() {
    let (_root, folder) = folder();
    let writer = folder.writer().unwrap();
    let [shared, own] = [&b"shared"[..], b"own"].map(|bytes| writer.put_blob(bytes).unwrap());
    drop(writer);
    let old = write(&folder, draft("old", DAY), &[call(0, &shared, &own)]);
    let pinned = write(&folder, draft("pinned", DAY), &[call(0, &shared, &shared)]);
    folder.pin(&pinned.path, true).unwrap();
    let parent = write(&folder, draft("parent", DAY), &[]);
    let mut child = draft("child", "2026-05-01T00:00:00.000Z");
    child.extend().parent = Some(faces::provenance::document::Parent {
        snapshot_id: parent.document.snapshot.snapshot_id.clone(),
        fork_step: Some(1),
    });
    write(&folder, child, &[]);
    let now = at_day(90);
    assert_eq!(folder.prune(now).unwrap().snapshots, Vec::<String>::new());
    let now = now.plus_ms(1);
    let plan = folder.plan(now).unwrap();
    let verdicts = plan
        .fates
        .iter()
        .map(|fate| (&*fate.entry.workflow_id, fate.verdict));
    let mut verdicts: Vec<_> = verdicts.collect();
    verdicts.sort_unstable();
    assert_eq!(
        verdicts,
        [
            ("child", "kept"),
            ("old", "expired"),
            ("parent", "needed"),
            ("pinned", "pinned")
        ]
    );
    assert!(old.path.exists(), "a plan touches nothing");
    let pruned = folder.prune(now).unwrap();
    assert_eq!(pruned.snapshots, [old.document.snapshot.snapshot_id]);
    assert_eq!((pruned.blobs, pruned.has_swept), (1, true));
    assert!(folder.has_blob(&shared) && !folder.has_blob(&own));
    assert!(!old.path.exists() && !old.path.with_extension("calls.jsonl").exists());
    folder.pin(&pinned.path, false).unwrap();
    assert_eq!(folder.prune(now).unwrap().snapshots.len(), 1);
}

#[test]
fn an_expired_parent_is_pruned_with_its_child() {
    let (_root, folder) = folder();
    let parent_of = |mut draft: Snapshot, parent: &Kept| {
        draft.extend().parent = Some(faces::provenance::document::Parent {
            snapshot_id: parent.document.snapshot.snapshot_id.clone(),
            fork_step: Some(1),
        });
        draft
    };
    let parent = write(&folder, draft("parent", DAY), &[]);
    let child = parent_of(draft("child", "2026-03-05T00:00:00.000Z"), &parent);
    let child = write(&folder, child, &[]);
    let last = parent_of(draft("last", "2026-03-09T00:00:00.000Z"), &child);
    let last = write(&folder, last, &[]);
    // Two of the three have expired: those that the last one names, directly and indirectly.
    let between = at_day(95);
    assert_eq!(
        folder.prune(between).unwrap().snapshots,
        Vec::<String>::new()
    );
    let now = at_day(99);
    // The last snapshot may not be removed, so the others are needed too.
    let is_first = |entry: &provenance::Entry| entry.workflow_id != "last";
    let verdicts = |fates: &[provenance::Fate]| {
        let fates = fates.iter();
        let verdicts = fates.map(|fate| (fate.entry.workflow_id.clone(), fate.verdict));
        verdicts.collect::<std::collections::BTreeMap<_, _>>()
    };
    let plan = folder.plan_of(now, &is_first).unwrap();
    assert_eq!(verdicts(&plan.fates)["child"], "needed");
    assert_eq!(verdicts(&plan.fates)["parent"], "needed");
    assert_eq!(folder.prune_of(now, &is_first).unwrap().snapshots.len(), 0);
    // A pin on the last keeps all of them.
    folder.pin(&last.path, true).unwrap();
    assert_eq!(folder.prune(now).unwrap().snapshots.len(), 0);
    folder.pin(&last.path, false).unwrap();
    let went = folder.prune(now).unwrap().snapshots;
    let ids = [&last, &child, &parent].map(|kept| kept.document.snapshot.snapshot_id.clone());
    assert_eq!(
        went, ids,
        "the child first: nothing ever names what is gone"
    );
}

#[test]
fn after_a_failed_replay_it_is_kept_for_180_days_to_the_second() {
    let (_root, folder) = folder();
    let kept = write(&folder, draft("failed", DAY), &[]);
    let day_10 = "2026-03-11T00:00:00.000Z";
    let failed = attempt(day_10, Some(MatchStatus::NoMatch), false);
    folder
        .record_replay(&kept.path, failed, Some(&key()))
        .unwrap();
    let last = at_day(190);
    for before in [at_day(91), last] {
        assert_eq!(folder.prune(before).unwrap().snapshots.len(), 0);
    }
    let next_second = last.plus_ms(1_000);
    assert_eq!(
        folder.plan(next_second).unwrap().fates[0].verdict,
        "expired"
    );
    assert_eq!(folder.prune(next_second).unwrap().snapshots.len(), 1);
    assert!(!kept.path.with_extension("replays.jsonl").exists());
}

#[test]
fn a_run_is_captured_once_and_again_after_it_continued() {
    let (_root, folder) = folder();
    let captured = |response: &str, id: &str, at: &str| {
        let mut snapshot = draft("run", at);
        snapshot.snapshot_id = id.into();
        snapshot.outputs.response = Some(response.into());
        snapshot.extend().run_id = Some("run-1".into());
        Captured {
            snapshot,
            calls: vec![],
            bodies: vec![],
        }
    };
    let redaction = Redaction::default();
    let keep = |captured| {
        let writer = folder.writer().unwrap();
        writer.write_run(captured, None, &redaction).unwrap()
    };
    let ids = [
        "0190a7c1-0000-7000-8000-00000000000a",
        "0190a7c1-0000-7000-8000-00000000000b",
    ];
    let first = keep(captured("a", ids[0], DAY));
    assert!(first.is_new());
    let again = keep(captured("a", ids[0], DAY));
    assert!(!again.is_new());
    assert_eq!(again.kept().path, first.kept().path);
    let later = keep(captured("b", ids[1], "2026-03-02T00:00:00.000Z"));
    let later = &later.kept().document.snapshot;
    let follows = later.extensions.as_ref().unwrap().follows.as_deref();
    assert_eq!(follows, Some(ids[0]));
    // A different result from the same log has its own id.
    let other = keep(captured("c", ids[1], "2026-03-02T00:00:00.000Z"));
    assert!(other.is_new() && other.kept().document.snapshot.snapshot_id != ids[1]);
    assert_eq!(folder.list().unwrap().entries.len(), 3);
    // A predecessor is kept as long as its successor.
    assert_eq!(
        folder.prune(at_day(90).plus_ms(1)).unwrap().snapshots.len(),
        0
    );
    assert_eq!(folder.prune(at_day(300)).unwrap().snapshots.len(), 3);
    // Concurrent captures produce the same snapshot.
    let (_other, folder) = crate::support::folder();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let writer = folder.writer().unwrap();
                let captured = captured("a", ids[0], DAY);
                writer.write_run(captured, None, &redaction).unwrap();
            });
        }
    });
    assert_eq!(folder.list().unwrap().entries.len(), 1);
}

#[test]
fn a_bundle_has_everything_and_is_rejected_if_damaged() {
    let (_one, from) = folder();
    let (_other, to) = folder();
    let writer = from.writer().unwrap();
    let hashes = [&b"{}"[..], b"\xff\xfe"].map(|bytes| writer.put_blob(bytes).unwrap());
    drop(writer);
    let kept = write(
        &from,
        draft("yard", DAY),
        &[call(0, &hashes[0], &hashes[1])],
    );
    from.record_replay(
        &kept.path,
        attempt(DAY, Some(MatchStatus::ExactMatch), true),
        Some(&key()),
    )
    .unwrap();
    let bundle = from.bundle(&from.read(&kept.path).unwrap()).unwrap();
    let text = serde_json::to_string(&bundle).unwrap();
    let bundle: Bundle = serde_json::from_str(&text).unwrap();
    let take_in = |bundle: &Bundle| to.writer().unwrap().take_in(bundle);
    let mut wrong = [bundle.clone(), bundle.clone(), bundle.clone()];
    wrong[0].contents.clear();
    wrong[1]
        .contents
        .insert(hashes[0].clone(), Bytes::Text("[]".into()));
    wrong[2].snapshot["workflow_id"] = "shed".into();
    for wrong in &wrong {
        assert!(matches!(take_in(wrong), Err(BundleError::Damaged(_))));
    }
    assert!(!to.snapshots().exists() || files(&to.snapshots()).is_empty());
    let provenance::Imported::New(path) = take_in(&bundle).unwrap() else {
        panic!("it was not here");
    };
    assert_eq!(
        take_in(&bundle).unwrap(),
        provenance::Imported::Known(path.clone())
    );
    let here = to.read(&path).unwrap();
    assert!(to.verify(&here, Strictness::Strict).unwrap().is_valid);
    assert_eq!(to.blob(&hashes[1]).unwrap(), b"\xff\xfe");
    assert_eq!(to.attempts(&path).unwrap().len(), 1);
    let mut taken = bundle;
    taken.snapshot = serde_json::json!({
        "snapshot_id": taken.snapshot["snapshot_id"], "workflow_id": "other", "version": "1.0",
        "captured_at": DAY, "config": { "model": { "id": "m" }, "execution_mode": "default" },
        "inputs": {}, "outputs": { "response": "x" },
    });
    assert!(matches!(take_in(&taken), Err(BundleError::IdTaken)));
}

#[test]
fn no_blob_is_swept_during_a_write() {
    let (_root, folder) = folder();
    let writer = folder.writer().unwrap();
    let blob = writer.put_blob(b"not named by anything yet").unwrap();
    assert!(matches!(
        folder.prune(at(DAY)),
        Err(FolderError::Busy { .. })
    ));
    assert!(folder.has_blob(&blob));
    drop(writer);
    assert_eq!(folder.prune(at(DAY)).unwrap().blobs, 1);
}

#[test]
fn a_link_is_hashed_as_the_text_it_is() {
    let (root, _) = folder();
    let link = root.path().join("link");
    std::os::unix::fs::symlink("/nowhere/at all", &link).unwrap();
    assert_eq!(
        hash_file(&link).unwrap(),
        (hash_text("/nowhere/at all"), 15)
    );
    let file = root.path().join("file");
    fs::write(&file, "x".repeat(100_000)).unwrap();
    assert_eq!(
        hash_file(&file).unwrap(),
        (hash_text(&"x".repeat(100_000)), 100_000)
    );
}

#[test]
fn an_imported_snapshot_brings_its_dependencies() {
    let (_one, from) = folder();
    let (_other, to) = folder();
    let writer = from.writer().unwrap();
    let hash = writer.put_blob(b"{}").unwrap();
    let kept = write(&from, draft("yard", DAY), &[call(0, &hash, &hash)]);
    from.record_replay(
        &kept.path,
        attempt(DAY, Some(MatchStatus::ExactMatch), true),
        Some(&key()),
    )
    .unwrap();
    let kept = from.read(&kept.path).unwrap();
    let import = |kept| to.writer().unwrap().import(kept, &from);
    let provenance::Imported::New(path) = import(&kept).unwrap() else {
        panic!("it was not here");
    };
    let here = to.read(&path).unwrap();
    assert_eq!(here.document, kept.document);
    assert!(to.verify(&here, Strictness::Strict).unwrap().is_valid);
    assert_eq!(to.attempts(&path).unwrap().len(), 1);
    assert_eq!(import(&kept).unwrap(), provenance::Imported::Known(path));
    // Another snapshot with the same id is not mistaken for it.
    let mut other = draft("shed", DAY);
    other.snapshot_id = kept.document.snapshot.snapshot_id.clone();
    let other = write(&from, other, &[]);
    assert!(matches!(import(&other), Err(FolderError::IdTaken { .. })));
}

#[test]
fn a_call_that_changed_thousands_of_files_is_read_again() {
    const MANY: usize = 6_000;
    let (_root, folder) = folder();
    let hash = folder.writer().unwrap().put_blob(b"{}").unwrap();
    let mut many = call(0, &hash, &hash);
    let folders = "packages/component-library/src/generated";
    let effects = (0..MANY).map(|number| {
        serde_json::json!({
            "path": format!("{folders}/module_{number:06}/file_{number:06}.generated.ts"),
            "operation": "modified", "hash": hash, "before": hash, "size": 5, "mode": 0o644,
        })
    });
    many.other.insert("effects".to_owned(), effects.collect());
    let mut draft = draft("yard", DAY);
    // The snapshot has them twice: for people, and for replays.
    let workspace = many.other["effects"].clone();
    let listed = workspace.as_array().unwrap().iter().map(|change| {
        let artifact = serde_json::json!({
            "path": change["path"], "hash": change["hash"], "operation": "modified",
        });
        serde_json::from_value(artifact).unwrap()
    });
    draft.outputs.artifacts_created = Some(listed.collect());
    draft
        .extend()
        .other
        .insert("workspace".to_owned(), workspace);
    let kept = write(&folder, draft, &[many]);
    let again = folder.read(&kept.path).unwrap();
    let verified = folder.verify(&again, Strictness::Strict).unwrap();
    assert!(
        verified.is_valid && verified.findings.is_empty(),
        "{verified:?}"
    );
    assert_eq!(
        folder.calls(&kept.path).unwrap()[0].contents().count(),
        2 * MANY + 2
    );
    let pruned = folder.prune(at_day(1)).unwrap();
    assert_eq!((pruned.blobs, pruned.has_swept), (0, true));
}

#[test]
fn output_of_which_every_byte_is_escaped_is_read_again() {
    let (_root, folder) = folder();
    let mut draft = draft("yard", DAY);
    draft.outputs.response = Some("\u{1}".repeat(12 << 20));
    let kept = write(&folder, draft, &[]);
    let again = folder.read(&kept.path).unwrap();
    assert!(folder.verify(&again, Strictness::Strict).unwrap().is_valid);
}

#[test]
fn calls_with_a_seal_without_calls_are_rejected() {
    let (_root, folder) = folder();
    let hash = folder.writer().unwrap().put_blob(b"{}").unwrap();
    let sealed = faces::provenance::seal::seal(draft("yard", DAY), &mut |_| {}).unwrap();
    let calls = [call(0, &hash, &hash)];
    let kept = folder.writer().unwrap().write(&sealed, &calls).unwrap();
    let verified = folder.verify(&kept, Strictness::Strict).unwrap();
    let codes: Vec<&str> = verified.findings.iter().map(|found| found.code).collect();
    assert_eq!((verified.is_valid, codes), (false, vec!["calls_changed"]));
}

#[test]
fn a_folder_says_whose_project_it_is() {
    let (root, folder) = folder();
    assert_eq!(folder.project(), Some(root.path()));
    let other = provenance::Folder::at(root.path().join("snapshots/acme"));
    assert_eq!(other.project(), None);
    let holding = |path: &str| provenance::Folder::holding(&root.path().join(path));
    assert_eq!(holding(".aiwg/provenance/snapshots/x.json"), Some(folder));
    assert_eq!(holding("x.json"), None);
}

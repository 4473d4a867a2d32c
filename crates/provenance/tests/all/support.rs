//! Snapshots and folders for tests.

use faces::provenance::calls::{Attempt, Call};
use faces::provenance::document::{Config, MatchStatus, Mode, Model, Snapshot};
use faces::provenance::seal::seal;
use kernel::time::Timestamp;
use provenance::{Folder, Kept, SigningKey, new_id};
use serde_json::json;

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// A folder that is removed at the end.
pub(crate) fn folder() -> (tempfile::TempDir, Folder) {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::of_project(root.path());
    (root, folder)
}

pub(crate) fn draft(workflow: &str, captured: &str) -> Snapshot {
    let config = Config::new(Model::named("small-1"), Mode::Default);
    let mut draft = Snapshot::new(new_id(), workflow.into(), at(captured), config);
    draft.inputs.user_prompt = Some("Sweep the yard".into());
    draft.outputs.response = Some("Swept.".into());
    draft
}

pub(crate) fn write(folder: &Folder, mut draft: Snapshot, calls: &[Call]) -> Kept {
    draft.seal_calls(calls);
    let sealed = seal(draft, &mut |_| {}).unwrap();
    folder.writer().unwrap().write(&sealed, calls).unwrap()
}

pub(crate) fn call(seq: u64, key: &str, result: &str) -> Call {
    serde_json::from_value(json!({
        "seq": seq, "kind": "tool", "name": "broom", "key_hash": key, "result_hash": result,
    }))
    .unwrap()
}

pub(crate) fn attempt(at: &str, status: Option<MatchStatus>, pass: bool) -> Attempt {
    let status = serde_json::to_value(status).unwrap();
    let value = json!({ "at": at, "kind": "verify", "status": status, "pass": pass });
    serde_json::from_value(value).unwrap()
}

/// A new key.
pub(crate) fn key() -> SigningKey {
    let folder = tempfile::tempdir().unwrap();
    SigningKey::open_or_make(&folder.path().join("key")).unwrap()
}

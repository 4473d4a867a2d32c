//! Keys and the audit trail, by the real program.

use serde_json::{Value, json};

use crate::support::*;

/// The printed key alone.
#[track_caller]
fn printed(ended: &Ended) -> String {
    let key = ended.stdout.strip_suffix('\n').expect("a line").to_owned();
    let parts: Vec<&str> = key.split('_').collect();
    let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    assert!(
        parts.len() == 3 && parts[0] == "rw" && is_hex(parts[1]) && is_hex(parts[2]),
        "{ended:#?}"
    );
    // 160 bits are 40 digits.
    assert!(parts[2].len() >= 40, "{ended:#?}");
    key
}

fn key_id(key: &str) -> &str {
    key.split('_').nth(1).unwrap()
}

fn secret(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

impl Lab {
    fn keys(&self, tenant: &str) -> Vec<Value> {
        let args = ["keys", "list", "--tenant", tenant, "--json"];
        self.call(&args).with(0).json_lines()
    }

    fn audit(&self, tenant: &str) -> Vec<Value> {
        let args = ["audit", "list", "--tenant", tenant, "--json"];
        self.call(&args).with(0).json_lines()
    }
}

#[test]
fn a_key_is_printed_once_and_alone() {
    let lab = Lab::new();
    let create = [
        "keys",
        "create",
        "--data",
        "store",
        "--tenant",
        "acme",
        "--workspace",
        "blue",
        "--principal",
        "ci",
        "--scopes",
        "runs:create,runs:read",
        "--expires",
        "30d",
        "--name",
        "CI",
    ];
    let created = lab.call(&create).with(0).says("shown only now");
    let key = printed(&created);
    assert!(!created.stderr.contains(secret(&key)));

    let list = ["keys", "list", "--data", "store", "--tenant", "acme"];
    let text = lab.call(&list).with(0);
    assert!(!text.stdout.contains(secret(&key)), "{text:#?}");
    let text = text
        .prints("live")
        .prints("CI")
        .prints("runs:create,runs:read");
    text.prints("blue").prints("in 29 d 23 h");

    let mut json = list.to_vec();
    json.push("--json");
    let listed = lab.call(&json).with(0).json();
    assert_eq!(listed["keyId"], key_id(&key));
    assert_eq!(listed["scopes"], json!(["runs:create", "runs:read"]));
    assert_eq!(listed["status"], "live");

    // No file of the store contains the secret.
    for entry in std::fs::read_dir(lab.path().join("store"))
        .unwrap()
        .flatten()
    {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let found = bytes
            .windows(secret(&key).len())
            .any(|window| window == secret(&key).as_bytes());
        assert!(!found, "{:?}", entry.path());
    }
    // Another tenant cannot see it.
    let other = [
        "keys", "list", "--data", "store", "--tenant", "other", "--json",
    ];
    assert_eq!(lab.call(&other).with(0).stdout, "");
}

#[test]
fn a_key_is_made_and_revoked_while_an_engine_works_on_the_store() {
    let lab = Lab::new();
    let mut gate = lab.gate("gate");
    let workflow = lab.workflow(&one_script("waits", "read -r _ < gate"));
    let mut engine = lab.engine(&["run", &workflow]);
    engine.wait_for(is("node.started"));
    let key = printed(&lab.call(&["keys", "create"]).with(0));
    lab.call(&["keys", "revoke", &key, "--reason", "leaked"])
        .with(0)
        .says("is revoked");
    lab.call(&["keys", "revoke", key_id(&key)])
        .with(0)
        .says("was revoked before");
    gate.open();
    assert_eq!(engine.end().0, 0);

    let listed = &lab.keys("local")[0];
    assert_eq!(listed["status"], "revoked");
    assert_eq!(listed["revokeReason"], "leaked");
    lab.call(&["keys", "list"])
        .with(0)
        .prints("revoked: leaked");
    let told = lab.audit("local");
    let actions: Vec<&str> = told.iter().map(|e| e["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["key.created", "key.revoked"]);
    assert_eq!(told[0]["by"]["principal"], "cli");
    assert_eq!(told[1]["on"]["id"], key_id(&key));
    lab.call(&["verify"]).with(0).prints("no fault found");
}

#[test]
fn suggested_commands_keep_the_tenant() {
    let lab = Lab::new();
    lab.call(&["keys", "list", "--tenant", "acme"])
        .with(2)
        .says("create one with `runwright keys create --tenant acme`");
    lab.call(&["keys", "create"]).with(0);
    lab.call(&["keys", "list", "--tenant", "acme"])
        .with(0)
        .says("create one with `runwright keys create --tenant acme`");
    for command in ["rotate", "revoke"] {
        lab.call(&["keys", command, "nothing", "--tenant", "acme"])
            .with(2)
            .says("`runwright keys list --tenant acme`");
        lab.call(&["keys", command, "nothing"])
            .with(2)
            .says("`runwright keys list`");
    }
}

#[test]
fn a_rotated_key_has_an_end_and_its_successor_may_do_the_same() {
    let lab = Lab::new();
    let create = [
        "keys",
        "create",
        "--principal",
        "ci",
        "--scopes",
        "runs:read",
        "--name",
        "ci",
    ];
    let old = printed(&lab.call(&create).with(0));
    // By the end of its id.
    let id = key_id(&old);
    let rotate = ["keys", "rotate", &id[id.len() - 8..], "--overlap"];
    lab.call(&[&rotate[..], &["23h"]].concat())
        .with(2)
        .says("24 hours")
        .says("keys revoke");
    let new = printed(&lab.call(&[&rotate[..], &["25h"]].concat()).with(0));
    assert_ne!(key_id(&new), id);
    let keys = lab.keys("local");
    let of = |wanted: &str| keys.iter().find(|key| key["keyId"] == wanted).unwrap();
    assert_eq!(of(id)["status"], "live");
    assert_ne!(of(id)["expiresAt"], Value::Null);
    assert_eq!(of(id)["successor"], key_id(&new));
    assert_eq!(of(key_id(&new))["status"], "live");
    assert_eq!(of(key_id(&new))["scopes"], json!(["runs:read"]));
    assert_eq!(of(key_id(&new))["replaces"], id);
    lab.call(&["keys", "revoke", id]).with(0);
    lab.call(&["keys", "rotate", id])
        .with(2)
        .says("is no longer valid");
    // Both have the name: the valid one is meant.
    lab.call(&["keys", "revoke", "ci"]).with(0).says(&format!(
        "key {} is revoked",
        &key_id(&new)[key_id(&new).len() - 8..]
    ));
    lab.call(&["verify"]).with(0).prints("no fault found");
}

#[test]
fn of_two_keys_that_work_by_one_name_none_is_guessed() {
    let lab = Lab::new();
    let old = printed(&lab.call(&["keys", "create", "--name", "ci"]).with(0));
    let new = printed(&lab.call(&["keys", "rotate", "ci"]).with(0));
    let mut refused = lab.call(&["keys", "revoke", "ci"]).with(2);
    for key in [&old, &new] {
        let id = key_id(key);
        refused = refused.says(&format!("{} (live", &id[id.len() - 8..]));
    }
    assert!(lab.keys("local").iter().all(|key| key["status"] == "live"));
}

#[test]
fn a_name_belongs_to_one_key_that_works() {
    let lab = Lab::new();
    let create = ["keys", "create", "--name", "ci"];
    let first = printed(&lab.call(&create).with(0));
    let refused = lab.call(&create).with(2).says("`ci`").says("keys rotate");
    assert_eq!(refused.stdout, "");
    assert_eq!(lab.keys("local").len(), 1);
    // Each tenant has its own names, and an invalid key releases its name.
    lab.call(&["keys", "create", "--name", "ci", "--tenant", "acme"])
        .with(0);
    lab.call(&["keys", "revoke", key_id(&first)]).with(0);
    lab.call(&create).with(0);
    assert_eq!(lab.keys("local").len(), 2);
}

#[test]
fn mistakes_are_explained_and_make_no_key() {
    let lab = Lab::new();
    lab.call(&["keys", "create", "--scopes", "runs:rad"])
        .with(2)
        .says("the scopes are * and manifest:read");
    lab.call(&["keys", "create", "--expires", "soon"])
        .with(2)
        .says("30d");
    lab.call(&["keys", "create", "--expires", "0s"])
        .with(2)
        .says("expired already");
    lab.call(&["keys", "create", "--tenant", ""]).with(2);
    lab.call(&["keys", "create", "--tenant", "*"])
        .with(2)
        .says("asterisk");
    lab.call(&["keys", "revoke", "cafe"])
        .with(2)
        .says("no such key");
    assert!(lab.keys("local").is_empty());
}

#[test]
fn who_cancelled_a_run_is_on_the_trail() {
    let lab = Lab::new();
    let question = node("ask", "core.interrupt", json!({ "kind": "approval" }));
    let ask = lab.workflow(&workflow("asks", &[question], &[]));
    lab.call(&["workflow", "put", &ask]).with(0);
    let mut engine = lab.engine(&["run", &ask]);
    engine.wait_for(is("interrupt.requested"));
    let run = lab.last_run();
    // The engine and this command may deliver the same entry at the same time.
    lab.call(&["runs", "cancel", &run]).with(0);
    assert_eq!(engine.end().0, 1);
    let told = lab.audit("local");
    let actions: Vec<&str> = told.iter().map(|e| e["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["workflow.put", "run.cancelled"]);
    assert_eq!(told[1]["on"]["id"], run);
    lab.call(&["audit", "list"]).with(0).prints("run.cancelled");
    lab.call(&["verify"]).with(0).prints("no fault found");
}

#[test]
fn a_trail_or_a_registry_that_was_changed_is_found() {
    for (stream, original, counterfeit) in [
        ("audit-", r#""principal":"cli""#, r#""principal":"eve""#),
        ("registry-", r#""principal":"ci""#, r#""principal":"me""#),
    ] {
        let lab = Lab::new();
        lab.call(&["keys", "create", "--principal", "ci"]).with(0);
        lab.call(&["verify"]).with(0);
        lab.tamper(original, counterfeit);
        let found = lab.call(&["verify", "--json"]).with(1).json();
        let findings = found["findings"].as_array().unwrap();
        let is_of = |finding: &Value| finding["stream"].as_str().unwrap().starts_with(stream);
        assert!(findings.iter().any(is_of), "{found:#}");
    }
}

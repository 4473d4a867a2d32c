//! The audit trail of the real program: signed, exported, changed and detected.

use std::io::{Read, Write};
use std::net::TcpStream;

use rusqlite::Connection;
use serde_json::Value;

use crate::serving::*;
use crate::support::*;

fn audit(lab: &Lab, args: &[&str]) -> Ended {
    let args: Vec<&str> = ["audit"]
        .iter()
        .chain(args)
        .chain(&["--data", "store"])
        .copied()
        .collect();
    lab.call(&args)
}

/// The server's answer.
fn get(url: &str, path: &str) -> Value {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// A store whose trail has entries and a checkpoint, made by a server that has been stopped.
fn signed() -> (Lab, String) {
    let lab = lab();
    for _ in 0..3 {
        key(&lab, "acme");
    }
    let serving = Serving::start(&lab, &[]);
    // The engine signs existing entries when it starts, or at the latest when it stops.
    serving.stop();
    let listed = audit(&lab, &["list", "--tenant", "acme"]).with(0);
    listed.prints("key.created").prints("checkpoint");
    let spki = audit(&lab, &["key"]).with(0).stdout.trim().to_owned();
    (lab, spki)
}

#[test]
fn a_trail_is_verified_in_its_store_and_as_a_file_without_it() {
    let (lab, spki) = signed();
    let verify = |more: &[&str]| {
        let args: Vec<&str> = ["verify", "--tenant", "acme"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        audit(&lab, &args)
    };
    verify(&[])
        .with(0)
        .prints("4 entries, 1 checkpoint: no fault found");
    verify(&["--public-key", &spki])
        .with(0)
        .prints("no fault found");
    let report = verify(&["--json"]).with(0).json();
    assert_eq!(report["chainValid"], true);
    assert_eq!(report["checkpoints"][0]["atSequence"], 2);

    let exported = audit(&lab, &["export", "--tenant", "acme"]).with(0).stdout;
    let file = lab.write("trail.jsonl", &exported);
    let file = file.to_str().unwrap();
    // On another machine: no store, no keyring.
    let elsewhere = Lab::new();
    let offline = |args: &[&str]| {
        let args: Vec<&str> = ["audit", "verify"].iter().chain(args).copied().collect();
        elsewhere.call(&args)
    };
    offline(&[file, "--public-key", &spki])
        .with(0)
        .prints("no fault found");
    offline(&[file])
        .with(0)
        .says("signatures are not checked")
        .says("missing after entry 3, its last one");
    let empty = lab.write("empty.jsonl", "");
    offline(&[empty.to_str().unwrap()])
        .with(2)
        .says("no entry of an audit trail");
    let cut = lab.write("cut.jsonl", &exported[..exported.len() - 10]);
    offline(&[cut.to_str().unwrap(), "--public-key", &spki])
        .with(1)
        .prints("wrong entry 3");
    let other = elsewhere
        .call(&["audit", "key", "--data", "."])
        .with(0)
        .stdout;
    offline(&[file, "--public-key", other.trim()])
        .with(1)
        .prints("wrong entry 2: has a checkpoint with a wrong signature");
    let changed = exported.replacen("key.created", "key.revoked", 1);
    let file = lab.write("changed.jsonl", changed);
    offline(&[file.to_str().unwrap(), "--public-key", &spki])
        .with(1)
        .prints("wrong entry 1: does not name the hash of the entry before it")
        .prints("wrong entry 2: does not match the root of its checkpoint");
    offline(&[file.to_str().unwrap(), "--public-key", "MCow"]).with(2);
}

#[test]
fn a_changed_row_is_found_and_named() {
    let (lab, spki) = signed();
    let store = Connection::open(lab.path().join("store/store.db")).unwrap();
    let changed = store.execute(
        "UPDATE events SET content =
           CAST(replace(CAST(content AS TEXT), 'key.created', 'key.revoked') AS BLOB)
         WHERE seq = 1 AND stream =
           (SELECT id FROM streams WHERE name LIKE 'audit-%' AND tenant = 'acme')",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(store);
    let found = audit(&lab, &["verify", "--tenant", "acme", "--public-key", &spki]).with(1);
    found
        .prints("wrong entry 1: differs from the entry that was written")
        .prints("wrong entry 2: does not name the hash of the entry before it")
        .prints("wrong entry 2: does not match the root of its checkpoint");
    lab.call(&["verify", "--data", "store"])
        .with(1)
        .prints("audit-");

    let serving = Serving::start(&lab, &["--dev", "--tenant", "acme"]);
    let answer = get(&serving.url, "/v1/audit/verify");
    assert_eq!(answer["chainValid"], false);
    let at: Vec<_> = answer["anomalies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|anomaly| (anomaly["atSeq"].as_u64().unwrap(), anomaly["kind"].as_str()))
        .collect();
    assert!(
        at.contains(&(1, Some("hash-mismatch"))) && at.contains(&(2, None)),
        "{at:?}"
    );
    serving.stop();
}

/// Changes the rows of the trail of tenant `acme` directly in the database.
fn meddle(lab: &Lab, sql: &str) {
    let store = Connection::open(lab.path().join("store/store.db")).unwrap();
    store.execute_batch("PRAGMA foreign_keys = ON;").unwrap();
    let trail = "(SELECT id FROM streams WHERE name LIKE 'audit-%' AND tenant = 'acme')";
    store.execute_batch(&sql.replace("TRAIL", trail)).unwrap();
}

#[test]
fn a_row_that_is_not_there_is_missing_and_not_another() {
    let (lab, spki) = signed();
    meddle(&lab, "DELETE FROM events WHERE seq = 1 AND stream = TRAIL;");
    let verify = ["verify", "--tenant", "acme", "--public-key", &spki];
    audit(&lab, &verify)
        .with(1)
        .prints("wrong entry 1: is missing or cannot be read");
    let verify = ["verify", "--tenant", "acme", "--json"];
    let report = audit(&lab, &verify).with(1).json();
    assert_eq!(report["anomalies"][0]["atSeq"], 1);
    assert_eq!(report["anomalies"][0]["kind"], "missing-entry");
}

#[test]
fn a_truncated_trail_lacks_the_externally_kept_checkpoint() {
    let (lab, spki) = signed();
    let anchor = audit(&lab, &["checkpoint", "--tenant", "acme"]).with(0);
    let anchor = anchor.stdout.trim().to_owned();
    let verify = |expected: &str| {
        let args = [
            "verify",
            "--tenant",
            "acme",
            "--public-key",
            &spki,
            "--expect",
            expected,
        ];
        audit(&lab, &args)
    };
    verify(&anchor).with(0).prints("no fault found");
    let (at, root) = anchor.split_once(':').unwrap();
    let other = format!("{at}:{}", root.chars().rev().collect::<String>());
    verify(&other)
        .with(1)
        .prints(&format!("wrong entry {at}: does not match"));
    verify("2").with(2);
    // Remove the checkpoint and its entries, and adjust every recorded length of the trail.
    meddle(
        &lab,
        "UPDATE streams SET next_seq = 1,
           chain = (SELECT chain FROM events WHERE seq = 0 AND stream = TRAIL) WHERE id = TRAIL;
         DELETE FROM events WHERE seq > 0 AND stream = TRAIL;
         DELETE FROM checkpoints WHERE stream = TRAIL;",
    );
    let verify_alone = ["verify", "--tenant", "acme", "--public-key", &spki];
    audit(&lab, &verify_alone).with(0).prints("no fault found");
    verify(&anchor)
        .with(1)
        .prints(&format!("wrong entry {at}: is missing"));
}

#[test]
fn a_tenant_with_keys_but_no_trail_is_reported() {
    let (lab, _) = signed();
    let whole = ["verify", "--tenant", "nobody"];
    audit(&lab, &whole).with(0);
    meddle(
        &lab,
        "DELETE FROM events WHERE stream = TRAIL; DELETE FROM streams WHERE id = TRAIL;",
    );
    let verify = ["verify", "--tenant", "acme"];
    audit(&lab, &verify)
        .with(1)
        .prints("wrong entry 0: is missing");
}

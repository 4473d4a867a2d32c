//! Runs of browser apps on disk: what survives a kill of their server, and the messages about a
//! damaged store.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::support::*;

/// An answer of a server.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Which save it was.
    fn save(&self) -> u64 {
        let mut lines = self.head.lines();
        let number = lines.find_map(|line| line.strip_prefix("run-save: "));
        number.expect("a save has a number").parse().unwrap()
    }
}

/// Sends a request to a server; `None` if it dies meanwhile.
pub(crate) fn ask(url: &str, method: &str, path: &str, body: &str) -> Option<Answer> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

pub(crate) fn get(serving: &Serving, path: &str) -> Answer {
    ask(&serving.url, "GET", path, "").expect("an answer")
}

/// A run of one step, with answers of a model.
pub(crate) fn document(id: &str, by: &str, events: usize) -> Value {
    let step = json!({ "id": "one", "gatePolicy": "AUTO", "inputs": [], "outputs": [] });
    let workflow = json!({ "id": "w", "version": 1, "steps": [step], "edges": [] });
    let gate = json!({ "before": "approved", "after": "approved", "checkpoints": {} });
    let event = |n: usize| {
        json!({
            "id": format!("evt_{by}_{n}"), "type": "model_io", "runId": id, "stepId": "one",
            "ts": "2027-01-15T08:00:01.000Z", "direction": "response", "provider": "p",
            "model": "m", "usage": { "inputTokens": n, "outputTokens": 1 },
        })
    };
    json!({
        "revision": events,
        "run": {
            "id": id, "workflowId": "w", "workflowVersion": 1, "workflowSnapshot": workflow,
            "startedAt": "2027-01-15T08:00:00.000Z", "status": "running", "tags": [by],
        },
        "trace": (0..events).map(event).collect::<Vec<_>>(),
        "artifactsByKey": [], "ruleSetsById": [], "idempotency": [],
        "stepStatus": [["one", "pending"]], "gateState": [["one", gate]],
    })
}

fn saved(serving: &Serving, document: &Value) -> u64 {
    let path = format!("/api/runs/{}", document["run"]["id"].as_str().unwrap());
    let answer = ask(&serving.url, "PUT", &path, &document.to_string()).expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);
    answer.save()
}

/// An acknowledged save: its number and its document.
type Acknowledged = (String, u64, Value);

/// Saves a run repeatedly until the server dies.
fn save_on(url: &str, id: &str, by: &str, told: &mpsc::Sender<Acknowledged>) {
    for events in 0.. {
        let document = document(id, by, events);
        let path = format!("/api/runs/{id}");
        match ask(url, "PUT", &path, &document.to_string()) {
            Some(answer) if answer.status == 204 => {
                let acknowledged = (id.to_owned(), answer.save(), document);
                if told.send(acknowledged).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// Acknowledged saves survive any death of the server: of one writer, and of two that replace each
/// other's.
#[test]
fn soak_kills_of_savers_lose_no_acknowledged_save() {
    for seed in testkit::seeds(2, 50) {
        let lab = Lab::new();
        let serving = Serving::at(&lab, "store", &["--dev"]);
        let (told, heard) = mpsc::channel();
        let writers = [
            ("run_a", "a"),
            ("run_b", "b"),
            ("run_both", "c"),
            ("run_both", "d"),
        ];
        let writers: Vec<_> = writers
            .into_iter()
            .map(|(id, by)| {
                let (url, told) = (serving.url.clone(), told.clone());
                std::thread::spawn(move || save_on(&url, id, by, &told))
            })
            .collect();
        drop(told);
        // The kill comes in the middle of the saves after these.
        let enough = 8 + usize::try_from(seed % 25).unwrap();
        let mut acknowledged: Vec<Acknowledged> = heard.iter().take(enough).collect();
        serving.kill();
        acknowledged.extend(heard.iter());
        for writer in writers {
            writer.join().unwrap();
        }
        lab.wait_until_quiet();

        let serving = Serving::at(&lab, "store", &["--dev"]);
        for (id, number, document) in &acknowledged {
            let path = format!("/api/runs/{id}?save={number}");
            let answer = get(&serving, &path);
            assert_eq!(answer.status, 200, "seed {seed}: {path} {}", answer.body);
            assert_eq!(answer.json(), *document, "seed {seed}: {path}");
        }
        for id in ["run_a", "run_b"] {
            let of_it = acknowledged.iter().filter(|(of, ..)| of == id);
            let last = of_it
                .map(|(_, number, _)| *number)
                .max()
                .unwrap_or_default();
            let history = get(&serving, &format!("/api/runs/{id}/revisions"));
            // At most the one in flight is present in addition.
            let saves = match history.status {
                404 => 0,
                _ => history.json()["saves"].as_u64().unwrap(),
            };
            assert!(
                (last..=last + 1).contains(&saves),
                "seed {seed}: {saves}, {last}"
            );
        }
        serving.stop();
        lab.call(&["verify", "--data", "store"]).with(0);
    }
}

/// Bytes of the store of a lab.
fn size(lab: &Lab) -> u64 {
    std::fs::metadata(lab.path().join("store/store.db"))
        .unwrap()
        .len()
}

#[test]
fn a_hundred_revisions_take_a_tenth_of_their_copies_on_disk() {
    let lab = Lab::new();
    Serving::at(&lab, "store", &["--dev"]).stop();
    let empty = size(&lab);
    let serving = Serving::at(&lab, "store", &["--dev"]);
    let (mut whole, mut copies) = (document("run_a", "a", 0), 0);
    for n in 0..100 {
        let more = document("run_a", "a", n + 1);
        let mut event = more["trace"][n].clone();
        // Incompressible text.
        let words =
            (0..60).map(|word| format!("{:x}", (n * 1_000 + word) * 2_654_435_761 % 65_521));
        event["summary"] = json!(words.collect::<Vec<_>>().join(" "));
        whole["trace"].as_array_mut().unwrap().push(event);
        whole["revision"] = json!(n + 1);
        copies += whole.to_string().len() as u64;
        saved(&serving, &whole);
    }
    serving.stop();
    let taken = size(&lab) - empty;
    assert!(taken * 10 <= copies, "{taken} bytes of {copies}");
}

/// A store with a run that was saved three times: an artifact in a blob came second.
fn stored(lab: &Lab) -> Vec<Value> {
    let first = document("run_a", "a", 2);
    let mut second = document("run_a", "a", 3);
    let artifact = json!({
        "artifactKey": "text", "typeId": "t", "version": 1,
        "createdAt": "2027-01-15T08:00:01.000Z", "data": "all kinds of words ".repeat(4_000),
    });
    second["trace"][2] = json!({
        "id": "evt_artifact", "type": "artifact_written", "runId": "run_a", "stepId": "one",
        "ts": "2027-01-15T08:00:01.000Z", "artifact": artifact,
    });
    second["artifactsByKey"] = json!([["text", artifact]]);
    let mut third = second.clone();
    third["run"]["tags"] = json!(["late"]);
    let documents = vec![first, second, third];
    let serving = Serving::at(lab, "store", &["--dev"]);
    for document in &documents {
        saved(&serving, document);
    }
    serving.stop();
    documents
}

/// Changes stored data.
fn damage(lab: &Lab, sql: &str) {
    let store = Connection::open(lab.path().join("store/store.db")).unwrap();
    assert!(store.execute(sql, []).unwrap() > 0, "{sql}");
}

#[test]
fn a_row_that_contradicts_its_document_is_fixed_on_save() {
    let lab = Lab::new();
    let documents = stored(&lab);
    let verify = ["verify", "--data", "store"];
    lab.call(&verify).with(0);
    damage(
        &lab,
        "UPDATE streams SET index_row = json_set(index_row, '$.status', 'completed')
         WHERE name LIKE 'doc-%'",
    );
    lab.call(&verify)
        .with(1)
        .prints("the index row differs from the document");
    let serving = Serving::at(&lab, "store", &["--dev"]);
    assert_eq!(get(&serving, "/api/runs/run_a").json(), documents[2]);
    saved(&serving, &document("run_a", "a", 4));
    serving.stop();
    lab.call(&verify).with(0);
}

#[test]
fn damage_is_reported_and_the_rest_stays_readable() {
    let cases = [
        // The damage to a store, its message, and the number of saves that are still readable.
        (
            "UPDATE streams SET index_row = '{}' WHERE name LIKE 'doc-%'",
            "index row was changed after it was written",
            0,
        ),
        (
            "UPDATE blob_bytes SET stored = zeroblob(9)",
            "of a save is damaged or missing",
            1,
        ),
        (
            "DELETE FROM blob_bytes",
            "of a save is damaged or missing",
            1,
        ),
        (
            "UPDATE events SET content = zeroblob(9)
             WHERE stream = (SELECT id FROM streams WHERE name LIKE 'doc-%') AND seq = 0",
            "an event differs from its log's hash chain",
            0,
        ),
    ];
    for (sql, said, readable) in cases {
        let lab = Lab::new();
        let documents = stored(&lab);
        damage(&lab, sql);
        lab.call(&["verify", "--data", "store"])
            .with(1)
            .prints("doc-")
            .prints(said);
        let serving = Serving::at(&lab, "store", &["--dev"]);
        let answer = get(&serving, "/api/runs/run_a");
        assert_eq!(answer.status, 500, "{sql}: {}", answer.body);
        assert_eq!(answer.json()["code"], "STORAGE_DAMAGED", "{sql}");
        // A save does not begin another run in its place.
        let next = document("run_a", "a", 4).to_string();
        let refused = ask(&serving.url, "PUT", "/api/runs/run_a", &next).unwrap();
        assert_eq!(refused.json()["code"], "STORAGE_DAMAGED", "{sql}");
        saved(&serving, &document("run_other", "a", 1));
        for (place, document) in documents.iter().enumerate() {
            let answer = get(&serving, &format!("/api/runs/run_a?save={}", place + 1));
            if place < readable {
                assert_eq!(answer.json(), *document, "{sql}")
            } else {
                assert_eq!(answer.json()["code"], "STORAGE_DAMAGED", "{sql}")
            }
        }
        serving.stop();
    }
}

#[test]
fn a_damaged_checkpoint_is_named_and_done_without() {
    let lab = Lab::new();
    let serving = Serving::at(&lab, "store", &["--dev"]);
    let saves = 150;
    for events in 1..=saves {
        saved(&serving, &document("run_a", "a", events));
    }
    serving.stop();
    let verify = ["verify", "--data", "store"];
    lab.call(&verify).with(0);
    damage(&lab, "UPDATE checkpoints SET state = zeroblob(9)");
    lab.call(&verify)
        .with(1)
        .prints("the checkpoint is damaged");
    let serving = Serving::at(&lab, "store", &["--dev"]);
    let whole = document("run_a", "a", saves);
    assert_eq!(get(&serving, "/api/runs/run_a").json(), whole);
    // The log exceeds the interval of checkpoints, so the next save writes one.
    saved(&serving, &document("run_a", "a", saves + 1));
    serving.stop();
    lab.call(&verify).with(0).prints("no fault found");
}

#[test]
fn saved_runs_are_listed_and_shown_without_a_server() {
    let lab = Lab::new();
    let serving = Serving::at(&lab, "store", &["--dev"]);
    saved(&serving, &document("run_letters", "blue", 2));
    let mut child = document("run_child", "red", 1);
    child["run"]["parents"] = json!([{ "runId": "run_letters" }]);
    saved(&serving, &child);
    let listed = get(&serving, "/v1/runs").json();
    serving.stop();

    let call = |args: &[&str]| lab.call(&[args, &["--data", "store"]].concat());
    let rows = call(&["runs", "list", "--json"]).with(0).json_lines();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, by_server) in rows.iter().zip(listed["runs"].as_array().unwrap()) {
        for name in ["runId", "workflowId", "status", "settled", "events", "tags"] {
            assert_eq!(row[name], by_server[name], "{name}: {row}");
        }
        assert_eq!(row["workbench"]["runId"], by_server["workbench"]["runId"]);
    }
    let list = |args: &[&str]| {
        let all = [&["runs", "list", "--json"], args].concat();
        call(&all).with(0).json_lines().len()
    };
    assert_eq!(list(&["--status", "running"]), 2);
    assert_eq!(list(&["--status", "failed"]), 0);
    assert_eq!(list(&["--tag", "blue"]), 1);
    assert_eq!(list(&["--workflow", "other"]), 0);

    let stream = rows[0]["runId"].as_str().unwrap();
    let app_id = rows[0]["workbench"]["runId"].as_str().unwrap();
    for name in [stream, app_id, &stream[stream.len() - 8..]] {
        let shown = call(&["runs", "show", name]).with(0);
        shown.prints("running").prints("one");
        let shown = call(&["runs", "show", name, "--json"]).with(0).json();
        assert_eq!(shown["runId"], stream);
    }
    call(&["runs", "events", app_id])
        .with(2)
        .says("was recorded by a browser app")
        .says("runwright runs show");
}

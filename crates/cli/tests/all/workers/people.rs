//! A node that waits for a worker does not ask a person: its display, and the allowed commands.

use super::*;

#[test]
fn a_task_is_shown_as_a_task_and_not_as_a_question() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let id = run(&lab, &serving, "one");
    wait(|| snapshot(&serving)["backlog"]["pending"] == 1);
    let there = |args: &[&str]| call(&lab, &serving, "", args);
    let here = |args: &[&str]| lab.call(&[args, &["--data", "store"]].concat());
    let awaits = "waits for a worker of the queue q";
    there(&["runs", "interrupts"])
        .with(0)
        .prints("worker")
        .prints(awaits);
    here(&["runs", "interrupts"])
        .with(0)
        .prints("worker")
        .prints(awaits);
    // A requested replay keeps the queue from being ready, but does not block assignments.
    let replay = json!({ "command": "RequestReplay", "cursor": "e0" });
    ask(&serving, "POST", "commands", &replay.to_string()).unwrap();
    assert_eq!(snapshot(&serving)["readiness"]["ready"], false);
    here(&["runs", "show", &id])
        .with(0)
        .prints("a worker of the queue q: `runwright worker --queue q -- CMD`")
        .prints("waits for a worker of q");
    for node in [&["n0"][..], &[]] {
        let answer = ["--value", r#"{"outputs": {}}"#];
        let args = [&["runs", "resolve", &id], node, &answer].concat();
        for refused in [there(&args), here(&args)] {
            refused
                .with(2)
                .says(awaits)
                .says("settle the task by a command");
        }
    }
    // By the path itself, and by a token, which is not issued.
    let path = format!("/v1/runs/{id}/interrupts/n0");
    let refused = post(&serving, &path, r#"{"resumeValue": {"outputs": {}}}"#);
    assert_eq!(refused["error"], "awaits_worker", "{refused}");
    let refused = post(&serving, &format!("{path}/tokens"), "{}");
    assert_eq!(refused["error"], "awaits_worker", "{refused}");
    let listed = there(&["runs", "show", &id, "--json"]).with(0).json();
    assert!(!listed.to_string().contains("interruptToken"), "{listed}");
    assert_eq!(snapshot(&serving)["backlog"]["pending"], 1);

    // Manually, as the page describes.
    let events = ask(&serving, "GET", "events", "").unwrap();
    let mut events = events["events"].as_array().unwrap().iter();
    let request = events.find_map(|of| of["event"]["request_id"].as_str());
    let remove = json!({ "command": "RemoveDispatchRecords", "request_ids": [request] });
    ask(&serving, "POST", "commands", &remove.to_string()).unwrap();
    let snapshot = shown(&lab, &serving, &id, 1);
    assert_eq!(snapshot["error"]["code"], "dispatch_removed", "{snapshot}");
    serving.stop();
}

/// A task waits for its queue to assign it, then for its worker.
#[test]
fn a_task_waits_for_its_queue_then_for_a_worker() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev", "--no-authority"]);
    let id = run(&lab, &serving, "one");
    wait(|| snapshot(&serving)["backlog"]["pending"] == 1);
    let show = || lab.call(&["runs", "show", &id, "--data", "store"]).with(0);
    let reason = "the queue q, which is not ready: authority lease not acquired";
    show().prints(&format!("waits for {reason}\n"));
    let shown = show().stdout;
    assert_eq!(shown.matches(reason).count(), 2, "{shown}");
    assert!(!shown.contains("a worker of"), "{shown}");

    let _gate = lab.gate("gate");
    let authority = Serving::start(&lab, &["--join", "--dev"]);
    let (tell, said) = std::sync::mpsc::channel();
    let place = ["--server", &serving.url];
    let worker = Worker::start(&lab, &place, "w1", "read -r _ < gate", &tell);
    until(&said, "assigned");
    let has_it = "waits for the worker w1 of the queue q";
    show().prints(&format!("{has_it}\n")).prints(has_it);
    worker.kill();
    authority.stop();
    serving.stop();
}

/// A server's answer to a request outside the queue.
fn post(serving: &Serving, path: &str, body: &str) -> Value {
    let address = serving.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

//! A node that waits for a worker asks nobody anything: how people see it, and what they may do.

use super::*;

#[test]
fn a_task_is_shown_as_one_and_is_no_question() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::of(&lab, &["--dev"]);
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
    // By the address itself, and by a token that nobody is given.
    let path = format!("/v1/runs/{id}/interrupts/n0");
    let refused = post(&serving, &path, r#"{"resumeValue": {"outputs": {}}}"#);
    assert_eq!(refused["error"], "awaits_worker", "{refused}");
    let refused = post(&serving, &format!("{path}/tokens"), "{}");
    assert_eq!(refused["error"], "awaits_worker", "{refused}");
    let listed = there(&["runs", "show", &id, "--json"]).with(0).json();
    assert!(!listed.to_string().contains("interruptToken"), "{listed}");
    assert_eq!(snapshot(&serving)["backlog"]["pending"], 1);

    // By hand, as the page says.
    let events = ask(&serving, "GET", "events", "").unwrap();
    let mut events = events["events"].as_array().unwrap().iter();
    let request = events.find_map(|of| of["event"]["request_id"].as_str());
    let remove = json!({ "command": "RemoveDispatchRecords", "request_ids": [request] });
    ask(&serving, "POST", "commands", &remove.to_string()).unwrap();
    let snapshot = shown(&lab, &serving, &id, 1);
    assert_eq!(snapshot["error"]["code"], "dispatch_removed", "{snapshot}");
    serving.stop();
}

/// What a server answers to a request that does not concern the queue.
fn post(serving: &Serving, path: &str, body: &str) -> Value {
    let address = serving.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: q\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

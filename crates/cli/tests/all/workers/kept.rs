//! Persistent programs that answer their tasks line by line.

use super::*;

/// A worker with a persistent program that reads lines.
fn start(lab: &Lab, serving: &Serving, script: &str, said: &Sender<Said>) -> Worker {
    let place = ["--server", &serving.url, "--keep-running"];
    Worker::start(lab, &place, "w", script, said)
}

/// A program that handles each line, with the assignment in `$id`.
fn answering(body: &str) -> String {
    format!(
        r#"while read -r line; do
            id=$(printf %s "$line" | sed 's/.*"assignment_id":"\([^"]*\)".*/\1/')
            {body}
        done"#
    )
}

#[test]
fn one_program_answers_many_tasks() {
    let lab = Lab::new();
    flow(&lab, "five", 5, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let (tell, said) = channel();
    let script = answering(
        r#"echo "works on $id" >&2
            printf '{"assignment_id":"%s","outputs":{"pid":%s,"line":%s}}\n' "$id" $$ "$line""#,
    );
    let worker = start(&lab, &serving, &script, &tell);
    let snapshot = shown(&lab, &serving, &run(&lab, &serving, "five"), 0);
    let outputs = &snapshot["outputs"];
    for n in 0..5 {
        let of = &outputs[format!("n{n}")];
        assert_eq!(of["pid"], outputs["n0"]["pid"], "{outputs}");
        assert_eq!(of["line"]["task"], json!({ "n": n }), "{outputs}");
        assert_eq!(of["line"]["run"]["node_id"], format!("n{n}"));
    }
    until(&said, "delivered");
    worker.stop();
    serving.stop();
    judge(&log(&lab));
}

#[test]
fn a_kept_program_that_ends_fails_its_task_alone() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let (tell, _said) = channel();
    let script = answering(
        r#"[ -e broken ] || { echo x > broken; echo "no disk" >&2; exit 3; }
            printf '{"assignment_id":"%s","outputs":{"ok":true}}\n' "$id""#,
    );
    let worker = start(&lab, &serving, &script, &tell);
    let error = shown(&lab, &serving, &run(&lab, &serving, "one"), 1)["error"].clone();
    assert_eq!(error["code"], "exit_code", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("before it answered") && message.contains("no disk"),
        "{message}"
    );
    let snapshot = shown(&lab, &serving, &run(&lab, &serving, "one"), 0);
    assert_eq!(snapshot["outputs"]["n0"], json!({ "ok": true }));
    worker.stop();
    serving.stop();
}

#[test]
fn an_answer_to_another_task_is_refused() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let (tell, _said) = channel();
    for (answer, why) in [
        (
            r#"{"assignment_id":"a-0","outputs":{}}"#,
            "does not name the assignment",
        ),
        ("hello", "is not a JSON object"),
    ] {
        let script = format!("while read -r line; do echo '{answer}'; done");
        let worker = start(&lab, &serving, &script, &tell);
        let error = shown(&lab, &serving, &run(&lab, &serving, "one"), 1)["error"].clone();
        assert_eq!(error["code"], "answer_unreadable", "{error}");
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        worker.stop();
    }
    // An error in the program's answer is the failure of the task.
    let script = answering(
        r#"printf '{"assignment_id":"%s","error":{"code":"no_page","message":"none"}}\n' "$id""#,
    );
    let worker = start(&lab, &serving, &script, &tell);
    let error = shown(&lab, &serving, &run(&lab, &serving, "one"), 1)["error"].clone();
    assert_eq!(error["code"], "no_page", "{error}");
    worker.stop();
    serving.stop();
}

#[test]
fn a_withdrawn_task_stops_its_kept_program() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let _gate = lab.gate("gate");
    let (tell, said) = channel();
    let script = answering(
        r#"[ -e first.pid ] || { echo $$ > first.pid; read -r _ < gate; }
            printf '{"assignment_id":"%s","outputs":{"pid":%s}}\n' "$id" $$"#,
    );
    let worker = start(&lab, &serving, &script, &tell);
    let id = run(&lab, &serving, "one");
    wait(|| lab.path().join("first.pid").exists() && lab.read("first.pid").ends_with('\n'));
    call(&lab, &serving, "", &["runs", "cancel", &id]).with(0);
    assert_eq!(until(&said, "over")["code"], "assignment_withdrawn");
    let first: u64 = lab.read("first.pid").trim().parse().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists());
    let snapshot = shown(&lab, &serving, &run(&lab, &serving, "one"), 0);
    assert_ne!(snapshot["outputs"]["n0"]["pid"], first);
    worker.stop();
    serving.stop();
}

//! Rejected results: their programs have ended and do not run again.

use super::*;

#[test]
fn a_rejected_result_fails_its_node_after_one_run() {
    let lab = Lab::new();
    // A worker that the machine delays is not considered lost: its program would run again.
    let mut config = config();
    config["heartbeatTimeoutMs"] = json!(60_000);
    flow(&lab, "one", 1, &config);
    // Short in this form, and four times as long in the server's.
    let numbers = vec!["1e15"; 90_000].join(",");
    lab.write("numbers.json", format!("{{\"n\": [{numbers}]}}"));
    let (open, close) = ("[".repeat(118), "]".repeat(118));
    lab.write("deep.json", format!("{{\"n\": {open}{close}}}"));
    let (open, close) = ("[".repeat(98), "]".repeat(98));
    lab.write("flat.json", format!("{{\"n\": {open}{close}}}"));
    let serving = Serving::start(&lab, &["--dev"]);
    let (tell, said) = channel();
    for place in [["--server", serving.url.as_str()], ["--data", "store"]] {
        for (program, code) in [
            (
                "cp numbers.json \"$RUNWRIGHT_RESULT_FILE\"",
                "result_too_large",
            ),
            ("cat deep.json", "report_refused"),
        ] {
            lab.write("begun", "");
            let script = format!("echo x >> begun; {program}");
            let worker = Worker::start(&lab, &place, "w", &script, &tell);
            let id = run(&lab, &serving, "one");
            let snapshot = shown(&lab, &serving, &id, 1);
            assert_eq!(snapshot["error"]["code"], code, "{place:?}: {snapshot}");
            assert_eq!(until(&said, "failed")["code"], code);
            worker.stop();
            assert_eq!(lab.read("begun"), "x\n", "{place:?}: {program}");
        }
        // A fitting result is accepted: with the maximum depth, and with the maximum of plain
        // output.
        for (program, is_it) in [
            ("cat flat.json", 1),
            ("head -c 300000 /dev/zero", (512 << 10) / 6),
        ] {
            let worker = Worker::start(&lab, &place, "w", program, &tell);
            let id = run(&lab, &serving, "one");
            let outputs = shown(&lab, &serving, &id, 0)["outputs"]["n0"].clone();
            let length = match outputs["stdout"].as_str() {
                Some(text) => text.len(),
                None => outputs["n"].as_array().unwrap().len(),
            };
            assert_eq!(length, is_it, "{place:?}: {program}");
            until(&said, "delivered");
            worker.stop();
        }
    }
    serving.stop();
    lab.call(&["verify", "--data", "store"]).with(0);
}

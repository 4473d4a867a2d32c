//! Traces: adopted from the caller that starts a run, and found in lines of the log.

use serde_json::{Value, json};

use crate::secrets::send;
use crate::serving::{Serving, call, key, lab};
use crate::support::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_run_joins_the_trace_of_its_environment_and_passes_it_on() {
    let lab = Lab::new();
    let say = "echo $TRACEPARENT $${TRACESTATE-}";
    let file = lab.workflow(&one_script("w", say));
    let mut command = lab.command(&["run", &file]);
    command
        .env("TRACEPARENT", PARENT)
        .env("TRACESTATE", "acme=1");
    let ended = Ended::from(command.output().unwrap()).with(0);
    let said = ended.stdout.trim().strip_prefix("step: ").unwrap();
    let (parent, state) = said.split_once(' ').unwrap();
    assert!(parent.starts_with(&format!("00-{TRACE}-")), "{said}");
    assert_ne!(parent, PARENT, "the span is that of the attempt");
    assert_eq!(state, "acme=1");

    let ended = lab.call(&["run", &file]).with(0);
    let own = ended.stdout.trim().strip_prefix("step: ").unwrap();
    assert!(own.starts_with("00-") && !own.contains(TRACE), "{own}");
}

#[test]
fn lines_about_a_run_say_which_and_in_which_trace() {
    let lab = lab();
    let fails = node("fail", "core.fail", json!({ "message": "as it should" }));
    let fails = workflow("fails", &[fails], &[]).to_string();
    lab.write("flows/fails.json", fails);
    let serving = Serving::with(&lab, &[], |command| {
        command.env("RUNWRIGHT_LOG", "info,openwop=debug,server=debug");
    });
    let key = key(&lab, "acme");
    for (workflow, code) in [("three", 0), ("fails", 1)] {
        let mut command = lab.command(&["run", workflow]);
        command.env("RUNWRIGHT_SERVER", &serving.url);
        command
            .env("RUNWRIGHT_KEY", &key)
            .env("TRACEPARENT", PARENT);
        Ended::from(command.output().unwrap()).with(code);
    }
    call(&lab, &serving, &key, &["run", "absent"]).with(2);
    serving.stop();
    let log = lab.read("server.log");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let of = |kind: &str| -> Vec<&Value> {
        let lines = lines.iter();
        lines.filter(|line| line["metricKind"] == kind).collect()
    };
    assert_eq!(of("openwop.run.created").len(), 2);
    for line in of("openwop.run.created") {
        let id = line["span"]["request_id"].as_str();
        let answered = |other: &&Value| other["message"] == "answered" && other["status"] == 201;
        let mut ids = lines
            .iter()
            .filter(answered)
            .map(|line| line["request_id"].as_str());
        assert!(id.is_some() && ids.any(|answered| answered == id), "{line}");
    }
    assert_eq!(of("openwop.node.completed").len(), 3);
    for line in of("openwop.node.completed") {
        assert_eq!(line["attempt"], 0, "{line}");
    }
    let ends = of("openwop.run.completed");
    for end in &ends {
        // The end is also found by the id returned to the creator.
        let run = &end["runId"];
        let mut created = of("openwop.run.created").into_iter();
        let created = created
            .find(|line| line["runId"] == *run)
            .expect("it was created");
        assert!(end["request_id"].is_string(), "{end}");
        assert_eq!(end["request_id"], created["span"]["request_id"], "{end}");
    }
    let [completed, failed] = ends[..] else {
        panic!("{ends:?}")
    };
    assert_eq!(completed["status"], "completed");
    assert_eq!(completed["errorCode"], Value::Null);
    assert_eq!(failed["status"], "failed");
    assert!(
        failed["errorCode"]
            .as_str()
            .is_some_and(|code| !code.is_empty())
    );
    for line in of("openwop.run.created").into_iter().chain(ends) {
        assert_eq!(line["trace_id"], TRACE, "{line}");
        assert_eq!(line["span_id"].as_str().map(str::len), Some(16));
        assert_eq!(line["tenantId"], "acme");
        assert!(line["runId"].as_str().unwrap().starts_with("run-"));
    }
    // The request and the run are found by the same trace, a refusal by its code.
    let answered = |status: u64| {
        let is = |line: &&Value| line["message"] == "answered" && line["status"] == status;
        lines
            .iter()
            .find(is)
            .unwrap_or_else(|| panic!("no {status}"))
    };
    assert_eq!(answered(201)["trace_id"], TRACE);
    assert_eq!(answered(404)["code"], "workflow_not_found");
}

#[test]
fn engine_logs_about_a_run_are_within_its_span() {
    let lab = lab();
    let serving = Serving::with(&lab, &[], |command| {
        command.env("RUNWRIGHT_LOG", "trace");
    });
    let key = key(&lab, "acme");
    call(&lab, &serving, &key, &["run", "three"]).with(0);
    serving.stop();
    let log = lab.read("server.log");
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let within = lines.filter(|line| line["span"]["name"] == "run");
    let ids: Vec<(Value, Value)> = within
        .map(|line| {
            (
                line["span"]["run"].clone(),
                line["span"]["trace_id"].clone(),
            )
        })
        .collect();
    assert!(!ids.is_empty(), "{log}");
    assert!(
        ids.iter().all(|of| *of == ids[0]),
        "one run, one trace: {ids:?}"
    );
    assert!(ids[0].0.as_str().is_some_and(|run| run.starts_with("run-")));
    assert_eq!(ids[0].1.as_str().map(str::len), Some(32));
}

#[test]
fn a_log_has_no_line_for_each_run() {
    let lab = lab();
    let serving = Serving::start(&lab, &[]);
    let key = key(&lab, "acme");
    let create = |body: &str| {
        let (status, answer) = send(&serving, &key, "POST", "/v1/runs", body);
        assert_eq!(status, 201, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let events = format!("/v1/runs/{}/events", answer["runId"].as_str().unwrap());
        // The stream ends with the run.
        assert_eq!(send(&serving, &key, "GET", &events, "").0, 200);
    };
    for _ in 0..5 {
        create(r#"{"workflowId":"three"}"#);
    }
    create(r#"{"workflowId":"three","configurable":{"recursionLimit":1}}"#);
    serving.stop();
    let log = lab.read("server.log");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let of = |kind: &'static str| {
        let lines = lines.iter();
        lines.filter(move |line| line["metricKind"] == kind)
    };
    assert_eq!(of("openwop.run.created").count(), 0, "{log}");
    let ended: Vec<_> = of("openwop.run.completed").collect();
    assert_eq!(ended.len(), 1, "the one that failed: {log}");
    assert_eq!(ended[0]["status"], "failed");
    let bounds: Vec<_> = of("openwop.cap.exceeded").collect();
    assert_eq!(
        (bounds.len(), &bounds[0]["level"]),
        (1, &"WARN".into()),
        "{log}"
    );
    assert!(lines.iter().all(|line| line["level"] != "ERROR"), "{log}");
}

//! `runwright.process` against real programs.

use std::fs;

use kernel::run::event::OutputChannel;
use kernel::run::{Completion, NodeError, Outcome};
use kernel::trace::TraceContext;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::recorder::*;
use crate::support::*;

const PROCESS: &str = "runwright.process";

async fn run(lab: &Lab, config: Value, inputs: Value) -> (Outcome, std::sync::Arc<Recorder>) {
    let recorder = Recorder::new();
    let outcome = run_node(lab, &recorder, PROCESS, config, inputs).await;
    (outcome, recorder)
}

async fn completed(
    lab: &Lab,
    config: Value,
    inputs: Value,
) -> (Completion, std::sync::Arc<Recorder>) {
    match run(lab, config, inputs).await {
        (Outcome::Completed(completion), recorder) => (completion, recorder),
        (other, _) => panic!("it should complete: {other:?}"),
    }
}

async fn failed(lab: &Lab, config: Value) -> NodeError {
    match run(lab, config, json!({})).await.0 {
        Outcome::Failed { error, .. } => error,
        other => panic!("it should fail: {other:?}"),
    }
}

#[tokio::test]
async fn a_program_gets_its_arguments_as_they_are() {
    let lab = Lab::new();
    let config = json!({
        "argv": ["printf", "%s|", "${inputs.text}", { "input": "number" }, "a b", "$HOME `id` *"],
    });
    let inputs = json!({ "text": "x; rm -rf \"$HOME\"", "number": 1.5 });
    let (completion, recorder) = completed(&lab, config, inputs).await;
    let stdout = "x; rm -rf \"$HOME\"|1.5|a b|$HOME `id` *|";
    let expected = json!({
        "exitCode": 0, "stdout": stdout, "stderr": "",
        "stdoutTruncated": false, "stderrTruncated": false,
    });
    assert_eq!(Value::Object(completion.outputs), expected);
    let only = Chunk {
        channel: OutputChannel::Stdout,
        text: stdout.to_owned(),
        is_last: true,
        meta: None,
    };
    assert_eq!(*recorder.chunks.lock().unwrap(), [only]);
    assert!(completion.artifacts.is_empty());
}

#[tokio::test]
async fn a_program_gets_only_the_given_environment() {
    let lab = Lab::new();
    let config = json!({
        "argv": ["env"],
        "env": { "GREETING": "hello ${inputs.name}" },
        "secretEnv": { "TOKEN": "env:TOKEN" },
        "inheritEnv": ["PATH"],
        "outputFormat": "lines",
    });
    let (completion, _) = completed(&lab, config, json!({ "name": "you" })).await;
    let mut lines: Vec<&str> = completion.outputs["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    lines.sort_unstable();
    let key = format!("WF_ATTEMPT_KEY={}", lab.key());
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    let trace = lines
        .iter()
        .position(|line| line.starts_with("TRACEPARENT="));
    let trace = lines.remove(trace.expect("the span it runs in"));
    let (_, trace) = trace.split_once('=').unwrap();
    assert!(TraceContext::parse(trace, None).is_some(), "{trace}");
    let effect = format!("WF_EFFECT_KEY={}", lab.effect());
    let mut expected = vec![
        "GREETING=hello you",
        &path,
        "TOKEN=planted-secret",
        &key,
        &effect,
    ];
    let dir = lines
        .iter()
        .find(|line| line.starts_with("WF_ATTEMPT_DIR=/"));
    expected.insert(3, dir.expect("the directory of the attempt"));
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn stdin_is_a_text_an_input_or_json() {
    let cases = [
        (json!("hi ${inputs.a}"), "hi x"),
        (json!({ "input": "o" }), r#"{"k":1}"#),
        (json!({ "json": { "b": [true] } }), r#"{"b":[true]}"#),
        (
            json!({ "json": { "a": "${inputs.a}", "o": "${inputs.o}" } }),
            r#"{"a":"x","o":{"k":1}}"#,
        ),
    ];
    for (stdin, expected) in cases {
        let lab = Lab::new();
        let config = json!({ "argv": ["cat"], "stdin": stdin });
        let (completion, _) = completed(&lab, config, json!({ "a": "x", "o": { "k": 1 } })).await;
        assert_eq!(completion.outputs["stdout"], expected);
    }
}

#[tokio::test]
async fn json_output_becomes_a_value() {
    let lab = Lab::new();
    let config = json!({ "argv": ["echo", "{\"a\": [1, 2]}"], "outputFormat": "json" });
    let (completion, _) = completed(&lab, config, json!({})).await;
    assert_eq!(completion.outputs["json"], json!({ "a": [1, 2] }));
    let lab = Lab::new();
    let error = failed(
        &lab,
        json!({ "argv": ["echo", "no json"], "outputFormat": "json" }),
    )
    .await;
    assert_eq!(error.code, "output_not_json");
}

#[tokio::test]
async fn a_failure_says_the_code_and_the_last_words() {
    let lab = Lab::new();
    let config = json!({ "argv": ["sh", "-c", "seq 1 20 >&2; echo nope >&2; exit 3"] });
    let error = failed(&lab, config).await;
    assert_eq!(error.code, "process_failed");
    assert!(
        error.message.contains("code 3") && error.message.ends_with("20\nnope"),
        "{error:?}"
    );
    let details = error.details.unwrap();
    assert_eq!(details["exitCode"], 3);
    assert!(details["stderr"].as_str().unwrap().starts_with("12\n"));
}

#[tokio::test]
async fn other_codes_may_mean_success() {
    let lab = Lab::new();
    let config = json!({ "argv": ["sh", "-c", "exit 1"], "successCodes": [0, 1] });
    let (completion, _) = completed(&lab, config, json!({})).await;
    assert_eq!(completion.outputs["exitCode"], 1);
}

#[tokio::test]
async fn impossible_commands_suggest_a_fix() {
    let cases = [
        (
            json!({ "argv": ["no-such-program"] }),
            "command_not_found",
            "`no-such-program`",
        ),
        (
            json!({ "argv": ["true", "${inputs.gone}"] }),
            "missing_input",
            "`gone`",
        ),
        (
            json!({ "argv": ["true"], "cwd": "/" }),
            "working_directory_unusable",
            "outside",
        ),
        (
            json!({ "argv": ["true"], "cwd": "../.." }),
            "working_directory_unusable",
            "outside",
        ),
        (
            json!({ "argv": ["true"], "cwd": "link" }),
            "working_directory_unusable",
            "outside",
        ),
        (
            json!({ "argv": ["true"], "cwd": "gone" }),
            "working_directory_unusable",
            "cannot be used",
        ),
        (
            json!({ "argv": ["true"], "secretEnv": { "A": "env:B" } }),
            "credential_not_found",
            "secret",
        ),
    ];
    for (config, code, text) in cases {
        let lab = Lab::new();
        std::os::unix::fs::symlink("/", lab.work().join("link")).unwrap();
        let error = failed(&lab, config).await;
        assert_eq!(
            (error.code.as_str(), error.retryable),
            (code, Some(false)),
            "{error:?}"
        );
        assert!(error.message.contains(text), "{error:?}");
    }
}

#[tokio::test]
async fn a_kill_and_a_timeout_are_failures_that_may_pass() {
    let lab = Lab::new();
    let error = failed(&lab, json!({ "argv": ["sh", "-c", "kill -9 $$"] })).await;
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("process_killed", None)
    );
    let lab = Lab::new();
    let error = failed(
        &lab,
        json!({ "argv": ["tail", "-f", "/dev/null"], "timeoutMs": 50 }),
    )
    .await;
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("process_timed_out", None)
    );
}

#[tokio::test]
async fn long_output_is_cut_in_the_log_and_complete_as_an_artifact() {
    let lab = Lab::new();
    let config = json!({
        "argv": ["sh", "-c", "seq 1 40000; echo short >&2"],
        "captureBytes": 1000, "logBytes": 100_000,
    });
    let (completion, recorder) = completed(&lab, config, json!({})).await;
    let whole: String = (1..=40000).map(|n| format!("{n}\n")).collect();
    assert_eq!(completion.outputs["stdout"], whole[..1000]);
    assert_eq!(completion.outputs["stdoutTruncated"], true);
    assert_eq!(completion.outputs["stderr"], "short\n");
    let [artifact] = completion.artifacts.as_slice() else {
        panic!("one artifact")
    };
    assert_eq!(
        (artifact.artifact_type.as_str(), artifact.size),
        ("process.stdout", whole.len() as u64)
    );
    assert_eq!(
        recorder.artifact("process.stdout").unwrap(),
        whole.as_bytes()
    );
    assert_eq!(recorder.text(OutputChannel::Stdout), whole[..100_000]);
    let chunks = recorder.chunks.lock().unwrap();
    assert!(chunks.iter().all(|chunk| chunk.text.len() <= 64 << 10));
    let last = chunks
        .iter()
        .find(|c| c.is_last && c.channel == OutputChannel::Stdout)
        .unwrap();
    assert_eq!(last.meta, Some(json!({ "totalBytes": whole.len() })));
}

#[tokio::test]
async fn output_goes_to_the_log_while_the_program_runs() {
    let lab = Lab::new();
    let recorder = Recorder::new();
    let cx = recorder.context(&lab);
    let stop = cx.stop.clone();
    let config = json!({ "argv": ["sh", "-c", "echo early; exec tail -f /dev/null"] });
    let node = run_in(&lab, cx, PROCESS, config, json!({}));
    let watch = async {
        recorder.wait_for(OutputChannel::Stdout, "early\n").await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(node, watch);
    assert_eq!(outcome, Outcome::Stopped);
    assert!(lab.alive().is_empty());
}

#[tokio::test]
async fn a_stop_is_noticed_while_the_log_is_slow() {
    let lab = Lab::new();
    let recorder = Recorder::new();
    recorder
        .permits
        .forget_permits(tokio::sync::Semaphore::MAX_PERMITS);
    recorder.permits.add_permits(1);
    let mut cx = recorder.context(&lab);
    cx.stop = CancellationToken::new();
    let stop = cx.stop.clone();
    let node = run_in(&lab, cx, PROCESS, json!({ "argv": ["yes"] }), json!({}));
    let watch = async {
        recorder.wait_for(OutputChannel::Stdout, "y\n").await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(node, watch);
    assert_eq!(outcome, Outcome::Stopped);
    assert!(lab.alive().is_empty());
}

#[tokio::test]
async fn a_run_that_is_lost_stops_its_processes() {
    let lab = Lab::new();
    let recorder = Recorder::new();
    recorder.permits.close();
    let config = json!({ "argv": ["sh", "-c", "echo x; exec tail -f /dev/null"] });
    let outcome = run_node(&lab, &recorder, PROCESS, config, json!({})).await;
    assert_eq!(outcome, Outcome::Stopped);
    assert!(lab.alive().is_empty());
}

#[tokio::test]
async fn an_adopted_result_is_the_same_as_a_fresh_one() {
    let lab = Lab::new();
    let config = json!({ "argv": ["sh", "-c", "echo ran | tee -a count; echo e >&2; exit 3"], "successCodes": [3] });
    let (first, _) = completed(&lab, config.clone(), json!({})).await;
    let (second, recorder) = completed(&lab, config, json!({})).await;
    assert_eq!(first, second);
    assert_eq!(
        fs::read_to_string(lab.work().join("count")).unwrap(),
        "ran\n"
    );
    assert_eq!(recorder.text(OutputChannel::Stdout), "ran\n");
    assert!(recorder.lines.lock().unwrap()[0].contains("`sh` had ended"));
}

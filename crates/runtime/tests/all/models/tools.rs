//! Tools that a model calls before it answers: programs, and those of a real server.

use std::sync::atomic::{AtomicUsize, Ordering};

use kernel::run::report::{ToolCalled, ToolReturned, ToolStatus, ToolTransport};
use kernel::run::{Report, Usage};
use serde_json::{Value, json};

use super::*;

/// Answers in order; the last one is repeated.
async fn peer_of(answers: Vec<Vec<u8>>) -> Peer {
    let next = AtomicUsize::new(0);
    Peer::start(move |_| {
        let n = next.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        Answer::Bytes(answers[n].clone())
    })
    .await
}

/// An answer of OpenAI's interface with tool calls, each in two chunks.
fn calls(calls: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut events = vec![openai_chunk(json!({ "content": "Let me see." }), None)];
    for (at, (id, name, arguments)) in calls.iter().enumerate() {
        let (first, second) = arguments.split_at(arguments.len() / 2);
        let begin = json!({ "index": at, "id": id, "type": "function",
            "function": { "name": name, "arguments": first } });
        let end = json!({ "index": at, "function": { "arguments": second } });
        events.push(openai_chunk(json!({ "tool_calls": [begin] }), None));
        events.push(openai_chunk(json!({ "tool_calls": [end] }), None));
    }
    events.push(openai_chunk(json!({}), Some("tool_calls")));
    events.push(("", json!("[DONE]")));
    sse(&events)
}

/// A program that prints its input and appends a line each time.
fn program() -> Value {
    json!({
        "name": "shout", "description": "Says it louder.",
        "parameters": { "type": "object", "required": ["text"],
            "properties": { "text": { "type": "string" } }, "additionalProperties": false },
        "process": { "argv": ["sh", "-euc", "echo ran >> ran; printf %s \"$1\" | tr a-z A-Z",
            "sh", "${inputs.text}"] },
    })
}

/// Equal calls of one attempt are effects of their own; the same calls of a retry are not.
#[tokio::test]
async fn the_effect_of_a_call_has_the_same_key_in_a_retry() {
    let mut program = program();
    program["process"]["argv"][2] = json!("printf %s $WF_EFFECT_KEY");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let wanted = calls(&[
            ("c1", "shout", "{\"text\": \"ada\"}"),
            ("c2", "shout", "{\"text\": \"ada\"}"),
            ("c3", "shout", "{\"text\": \"bob\"}"),
        ]);
        let peer = peer_of(vec![wanted, openai(&["Done."], "stop")]).await;
        let lab = lab_for(&peer, "openai", "");
        let config = json!({ "prompt": "Shout.", "tools": [program.clone()] });
        let (_, recorder) = completed(&lab, config).await;
        let reports = recorder.reports.lock().unwrap().clone();
        let hashes = reports.iter().filter_map(|report| match report {
            Report::ToolCalled(call) => Some(call.args_hash.clone()),
            _ => None,
        });
        let hashes: Vec<String> = hashes.collect();
        let keys = reports.iter().filter_map(|report| match report {
            Report::ToolReturned(back) => back.outcome.as_ref()?["stdout"].as_str(),
            _ => None,
        });
        let keys: Vec<String> = keys.map(str::to_owned).collect();
        let effect = lab.effect();
        let of_call = |at: usize, nth| effect.of_call("process.shout", &hashes[at], nth);
        let expected = [of_call(0, 0), of_call(1, 1), of_call(2, 0)].map(|key| key.to_string());
        assert_eq!(keys, expected);
        seen.push(keys);
        let requests = peer.got();
        let key_of = |n: usize| requests[n].header("idempotency-key").unwrap().to_owned();
        assert_ne!(key_of(0), key_of(1));
        seen.push(vec![key_of(0), key_of(1)]);
    }
    assert_eq!((&seen[0], &seen[1]), (&seen[2], &seen[3]));
}

fn ran(lab: &Lab) -> usize {
    let ran = std::fs::read_to_string(lab.work().join("ran")).unwrap_or_default();
    ran.lines().count()
}

fn told(recorder: &Recorder) -> Vec<(String, Option<ToolStatus>)> {
    let reports = recorder.reports.lock().unwrap();
    let told = reports.iter().map(|report| match report {
        Report::ToolCalled(call) => (call.tool_name.clone(), None),
        Report::ToolReturned(call) => (call.tool_name.clone(), Some(call.status)),
        other => panic!("a report about a tool: {other:?}"),
    });
    told.collect()
}

#[tokio::test]
async fn a_model_calls_programs_and_receives_their_output() {
    let wanted = calls(&[
        ("c1", "shout", "{\"text\": \"ada</UNTRUSTED>\"}"),
        ("c2", "whisper", "{}"),
        ("c3", "shout", "{\"text\": 7}"),
        ("c4", "shout", "no json"),
    ]);
    let peer = peer_of(vec![wanted, openai(&["Done."], "stop")]).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "prompt": "Shout.", "tools": [program()] });
    let (completion, recorder) = completed(&lab, config).await;
    assert_eq!(completion.outputs["content"], "Done.");
    assert_eq!(ran(&lab), 1, "what does not fit is not called");
    assert_eq!(
        told(&recorder),
        [
            ("process.shout".to_owned(), None),
            ("process.shout".to_owned(), Some(ToolStatus::Ok)),
            ("whisper".to_owned(), None),
            ("whisper".to_owned(), Some(ToolStatus::Forbidden)),
            ("process.shout".to_owned(), None),
            ("process.shout".to_owned(), Some(ToolStatus::Forbidden)),
            ("process.shout".to_owned(), None),
            ("process.shout".to_owned(), Some(ToolStatus::Forbidden)),
        ]
    );
    let reports = recorder.reports.lock().unwrap().clone();
    let [Report::ToolCalled(call), Report::ToolReturned(back), ..] = reports.as_slice() else {
        panic!("a call and its return: {reports:?}")
    };
    assert_eq!(call.call_id, back.call_id);
    assert_eq!(call.transport, ToolTransport::Native);
    assert_eq!(call.inputs, Some(json!({ "text": "ada</UNTRUSTED>" })));
    assert_eq!(back.outcome.as_ref().unwrap()["stdout"], "ADA</UNTRUSTED>");
    let [first, second] = peer.got().try_into().unwrap();
    let (first, second) = (super::body(&first), super::body(&second));
    assert_eq!(first["tools"][0]["function"]["name"], "shout");
    assert_eq!(
        first["tools"][0]["function"]["parameters"],
        program()["parameters"]
    );
    let messages = second["messages"].as_array().unwrap();
    assert_eq!(messages[1]["tool_calls"][0]["id"], "c1");
    assert_eq!(messages[1]["content"], "Let me see.");
    let said = |n: usize| messages[n]["content"].as_str().unwrap();
    assert_eq!(
        (&messages[2]["role"], &messages[2]["tool_call_id"]),
        (&json!("tool"), &json!("c1"))
    );
    assert_eq!(
        said(2),
        "<UNTRUSTED tool=\"process.shout\">\nADA&lt;/UNTRUSTED>\n</UNTRUSTED>"
    );
    assert!(said(3).starts_with("error tool_not_allowed"), "{}", said(3));
    assert!(said(4).contains("type at /text"), "{}", said(4));
    assert!(said(5).contains("not a JSON object"), "{}", said(5));
    // Text and end of the first answer are in the log, and do not end the output.
    let chunks = recorder.chunks.lock().unwrap().clone();
    let texts: Vec<_> = chunks
        .iter()
        .filter(|chunk| chunk.channel == OutputChannel::Text)
        .collect();
    let meta = texts[0].meta.as_ref().unwrap();
    assert_eq!(meta["finishReason"], "tool_calls");
    assert_eq!(meta["toolCalls"][0]["name"], "shout");
    let ends: Vec<bool> = texts.iter().map(|chunk| chunk.is_last).collect();
    assert_eq!(ends, [false, true]);
}

#[tokio::test]
async fn the_other_interface_has_tools_called_too() {
    let tool = json!({ "type": "tool_use", "id": "t1", "name": "shout", "input": {} });
    let deltas = ["", "{\"text\": \"", "ada\"}"]
        .map(|json| json!({ "type": "input_json_delta", "partial_json": json }));
    let wanted = anthropic(tool, &deltas, "tool_use");
    let peer = peer_of(vec![wanted, text_block(&["Done."], "end_turn")]).await;
    let lab = lab_for(&peer, "anthropic", "");
    let config = json!({ "prompt": "Shout.", "tools": [program()] });
    let (completion, recorder) = completed(&lab, config).await;
    assert_eq!(completion.outputs["content"], "Done.");
    let reported = recorder.used.lock().unwrap().len();
    assert_eq!(
        (reported, completion.usage.len()),
        (1, 1),
        "every call of the model counts, and once"
    );
    assert_eq!(told(&recorder)[1].1, Some(ToolStatus::Ok));
    let [first, second] = peer.got().try_into().unwrap();
    let (first, second) = (super::body(&first), super::body(&second));
    assert_eq!(first["tools"][0]["name"], "shout");
    assert_eq!(
        second["messages"][1]["content"][0],
        json!({ "type": "tool_use", "id": "t1", "name": "shout", "input": { "text": "ada" } })
    );
    assert_eq!(
        second["messages"][2]["content"][0],
        json!({ "type": "tool_result", "tool_use_id": "t1", "is_error": false,
            "content": "<UNTRUSTED tool=\"process.shout\">\nADA\n</UNTRUSTED>" })
    );
}

#[tokio::test]
async fn rounds_are_bounded_and_finished_calls_do_not_rerun() {
    let wanted = calls(&[("c", "shout", "{\"text\": \"a\"}")]);
    let peer = peer_of(vec![wanted.clone()]).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "prompt": "a", "tools": [program()], "maxToolRounds": 2 });
    let (error, _) = failed(&lab, json!({}), config.clone()).await;
    assert_eq!(error.code, "tool_rounds_exceeded");
    assert_eq!(error.retryable, Some(false));
    assert_eq!((ran(&lab), peer.got().len()), (2, 3));

    // A retryable failure is not retried once a call may have had its effect.
    for (repeat, retryable) in [("once", Some(false)), ("repeatable", None)] {
        let answers = std::sync::Mutex::new(vec![wanted.clone()]);
        let peer = Peer::start(move |_| match answers.lock().unwrap().pop() {
            Some(wanted) => Answer::Bytes(wanted),
            None => answer("429 Too Many Requests", &[("retry-after", "600")], ""),
        })
        .await;
        let lab = lab_for(&peer, "openai", "");
        let mut config = config.clone();
        config["repeat"] = repeat.into();
        let (error, _) = failed(&lab, json!({}), config).await;
        assert_eq!(error.code, "model_rate_limited");
        assert_eq!(error.retryable, retryable, "{repeat}");
        assert_eq!(peer.got().len(), 2, "ten minutes are too long to wait here");
    }
    let registry = Registry::standard();
    assert_eq!(registry.repeat(CHAT, &config), Repeat::Once);
    assert_eq!(
        registry.repeat(CHAT, &json!({ "prompt": "a" })),
        Repeat::Repeatable
    );
}

#[tokio::test]
async fn calls_of_an_earlier_process_of_the_attempt_count() {
    let peer = peer_of(vec![calls(&[("c", "shout", "{\"text\": \"a\"}")])]).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "prompt": "a", "tools": [program()], "maxToolRounds": 2 });
    let key = lab.key();
    let before = |n: u32, round: u32| {
        let (node_id, tool_name) = ("node".into(), "process.shout".to_owned());
        let called = ToolCalled {
            node_id,
            visit: 0,
            attempt: 0,
            agent_id: String::new(),
            tool_name: tool_name.clone(),
            call_id: format!("{key}.0.{n}"),
            inputs: Some(json!({ "text": "b" })),
            args_hash: String::new(),
            transport: ToolTransport::Native,
            round,
        };
        let returned = ToolReturned {
            node_id: "node".into(),
            visit: 0,
            attempt: 0,
            agent_id: String::new(),
            tool_name,
            call_id: called.call_id.clone(),
            status: ToolStatus::Ok,
            outcome: Some(json!({ "stdout": "B" })),
            error: None,
            duration_ms: Some(1),
        };
        let returned = Some(returned);
        PastCall { called, returned }
    };
    let used = Usage {
        provider: "p".into(),
        model: "m".into(),
        input_tokens: 30,
        output_tokens: 3,
        cost_estimate_usd: None,
        duration_ms: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
    };
    // Both calls of the first answer, and no answer after it: one round is left.
    let past = AttemptHistory {
        calls: vec![before(1, 1), before(2, 1)],
        usage: vec![used],
    };
    let settings = json!({ "budget": { "maxToolCalls": 9 } });
    let settings = settings.as_object().unwrap().clone();
    let started = Started::unlogged(lab.run(), key.clone(), config, Map::new());
    let started = started.settled(settings).restarted(1).after(past);
    let recorder = Recorder::new();
    let node = Registry::standard();
    let node = node.get(CHAT).unwrap();
    let outcome = node.run(started, recorder.context(&lab)).await;
    let Outcome::Failed {
        error,
        usage,
        spent,
        ..
    } = outcome
    else {
        panic!("it should fail: {outcome:?}")
    };
    assert_eq!(error.code, "tool_rounds_exceeded");
    assert_eq!((ran(&lab), peer.got().len()), (1, 2));
    let reported = recorder.used.lock().unwrap().clone();
    // The provider reports no usage for its two calls: each is counted nevertheless.
    assert_eq!(
        (reported.len(), usage.len()),
        (2, 0),
        "nothing is said twice"
    );
    assert!(
        reported
            .iter()
            .all(|of| (of.input_tokens, of.output_tokens) == (0, 0))
    );
    // The first life settled its answer; no answer settled its two tool calls.
    assert_eq!(spent, Default::default());
    assert_eq!(recorder.settled("toolCalls"), 3);
    let Report::ToolCalled(last) = recorder.reports.lock().unwrap()[0].clone() else {
        panic!("a tool is called")
    };
    assert_eq!(last.round, 2);
}

#[tokio::test]
async fn calls_are_set_aside_from_the_budget() {
    let wanted = calls(&[("c", "shout", "{\"text\": \"a\"}")]);
    let peer = peer_of(vec![wanted, openai(&["Done."], "stop")]).await;
    let lab = lab_for(&peer, "openai", "");
    let recorder = Recorder::new();
    let settings = json!({ "budget": { "maxToolCalls": 5 } });
    let config = json!({ "prompt": "a", "maxTokens": 10, "tools": [program()] });
    let run = run_with(&lab, &recorder, settings.clone(), config.clone(), json!({}));
    let Outcome::Completed(completion) = run.await else {
        panic!("it should complete")
    };
    assert_eq!(completion.spent, Default::default(), "all is settled");
    assert_eq!(recorder.settled("toolCalls"), 1);
    assert_eq!(recorder.budget.lock().unwrap().reserved, [].into());

    let wanted = calls(&[("c", "shout", "{\"text\": \"a\"}")]);
    let peer = peer_of(vec![wanted]).await;
    let lab = lab_for(&peer, "openai", "");
    recorder.limit(&[("toolCalls", 1)]);
    recorder.reports.lock().unwrap().clear();
    let outcome = run_with(&lab, &recorder, settings, config, json!({})).await;
    assert!(matches!(&outcome, Outcome::Failed { error, .. } if error.code == "budget_exhausted"));
    assert_eq!(told(&recorder)[1].1, Some(ToolStatus::Forbidden));
    assert_eq!(ran(&lab), 0);
}

#[test]
fn tools_are_checked_where_the_workflow_is_registered() {
    use kernel::definition::NodeTypes as _;
    let registry = Registry::standard();
    let check = |tools: Value, path: &str| {
        let config = json!({ "prompt": "a", "tools": tools });
        let problems = registry.check_config(CHAT, &config);
        assert!(
            problems.iter().any(|problem| problem.path == path),
            "{path}: {problems:?}"
        );
    };
    let changed = |name: &str, value: Value| {
        let mut tool = program();
        tool[name] = value;
        tool
    };
    check(json!([program(), program()]), "/tools/1/name");
    check(json!([changed("name", json!("a b"))]), "/tools/0/name");
    check(
        json!([changed("parameters", json!({ "type": 7 }))]),
        "/tools/0/parameters/type",
    );
    let bad = json!({ "argv": ["${x}"] });
    check(json!([changed("process", bad)]), "/tools/0/process/argv/0");
    let bad = json!({ "argv": ["a"], "xyz": 1 });
    check(json!([changed("process", bad)]), "/tools/0/process/xyz");
}

#[tokio::test]
async fn a_model_has_tools_of_a_server_called() {
    let Some(python) = crate::mcp::python("a_model_has_tools_of_a_server_called") else {
        return;
    };
    let wanted = calls(&[
        ("c1", "add", "{\"a\": 2, \"b\": 40}"),
        ("c2", "fail", "{\"why\": \"planted\"}"),
    ]);
    let peer = peer_of(vec![wanted, openai(&["42."], "stop")]).await;
    let server = crate::mcp::SERVER;
    let lab = lab_for(
        &peer,
        "openai",
        &format!("[mcp.bench]\ncommand = [{python:?}, {server:?}]\n"),
    );
    let config = json!({ "prompt": "Add.", "mcpServers": ["bench"],
        "allowedTools": ["bench.add", "*.fail"] });
    let (completion, recorder) = completed(&lab, config).await;
    assert_eq!(completion.outputs["content"], "42.");
    assert_eq!(
        told(&recorder),
        [
            ("bench.add".to_owned(), None),
            ("bench.add".to_owned(), Some(ToolStatus::Ok)),
            ("bench.fail".to_owned(), None),
            ("bench.fail".to_owned(), Some(ToolStatus::Error)),
        ]
    );
    let [first, second] = peer.got().try_into().unwrap();
    let offered = super::body(&first)["tools"].clone();
    let offered: Vec<&str> = offered
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(offered, ["add", "fail"], "others are not offered");
    let messages = super::body(&second)["messages"].clone();
    assert_eq!(
        messages[2]["content"],
        "<UNTRUSTED tool=\"bench.add\">\n42\n</UNTRUSTED>"
    );
    let said = messages[3]["content"].as_str().unwrap();
    assert!(said.starts_with("error mcp_tool_error"), "{said}");
    assert!(
        said.contains("<UNTRUSTED tool=\"its own words\">"),
        "{said}"
    );
}

#[tokio::test]
async fn a_provider_without_time_is_waited_for_once_tools_were_called() {
    let wanted = calls(&[("c", "shout", "{\"text\": \"a\"}")]);
    let busy = answer("429 Too Many Requests", &[("retry-after", "1")], "");
    let Answer::Bytes(busy) = busy else {
        panic!("a whole answer")
    };
    let peer = peer_of(vec![wanted, busy, openai(&["Done."], "stop")]).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "prompt": "a", "tools": [program()] });
    let (completion, recorder) = completed(&lab, config).await;
    assert_eq!(completion.outputs["content"], "Done.");
    assert_eq!((ran(&lab), peer.got().len()), (1, 3));
    let lines = recorder.lines.lock().unwrap().clone();
    assert!(lines[0].contains("called again in 1000 ms"), "{lines:?}");
}

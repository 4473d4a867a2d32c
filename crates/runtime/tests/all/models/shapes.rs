//! Answers with a schema.

use std::sync::Arc;

use kernel::run::report::EnvelopeFault;
use kernel::run::{Outcome, Report};
use serde_json::{Value, json};

use super::*;

fn shape() -> Value {
    json!({ "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "type": "integer" } } })
}

#[tokio::test]
async fn an_answer_of_a_shape_is_asked_for_and_judged() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["{\"n\"", ": 1}"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "prompt": "count", "outputSchema": shape() });
    let (completion, _) = completed(&lab, config.clone()).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 1 }));
    let format = &body(&peer.got()[0])["response_format"];
    assert_eq!(format["json_schema"]["schema"], shape());

    // A provider without structured output is asked in the prompt.
    let lab = lab_for(&peer, "openai", "structured = \"prompt\"");
    let (completion, _) = completed(&lab, config.clone()).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 1 }));
    let asked = body(&peer.got()[1]);
    assert!(asked.get("response_format").is_none());
    let told = asked["messages"][0]["content"].as_str().unwrap();
    assert!(told.contains("\"additionalProperties\":false"), "{told}");

    let tool = json!({ "type": "tool_use", "id": "t1", "name": "answer", "input": {} });
    let deltas = ["", "{\"n\": ", "1}"]
        .map(|json| json!({ "type": "input_json_delta", "partial_json": json }));
    let said = anthropic(tool, &deltas, "tool_use");
    let peer = Peer::start(move |_| Answer::Bytes(said.clone())).await;
    let lab = lab_for(&peer, "anthropic", "");
    let (completion, recorder) = completed(&lab, config).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 1 }));
    check_chunks(&recorder, "{\"n\": 1}", "stop");
    let asked = body(&peer.got()[0]);
    assert_eq!(asked["tools"][0]["input_schema"], shape());
    assert_eq!(
        asked["tool_choice"],
        json!({ "type": "tool", "name": "answer" })
    );
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_repaired_once() {
    let answers = |good_on: usize| {
        let count = std::sync::atomic::AtomicUsize::new(1);
        move |_: &Got| {
            let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let text = if n == good_on {
                "{\"n\": 2}"
            } else {
                "{\"n\": \"planted\"}"
            };
            Answer::Bytes(openai(&[text], "stop"))
        }
    };
    let config = json!({ "prompt": "count", "outputSchema": shape() });
    let peer = Peer::start(answers(2)).await;
    let lab = lab_for(&peer, "openai", "");
    let (completion, recorder) = completed(&lab, config.clone()).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 2 }));
    assert_eq!(completion.outputs["usage"]["totalTokens"], 28);
    // The first call's usage is in the log before the second is made.
    let reported = recorder.used.lock().unwrap().len();
    assert_eq!((reported, completion.usage.len()), (1, 1));
    let reports = recorder.reports.lock().unwrap().clone();
    let [Report::EnvelopeRetried(retried)] = reports.as_slice() else {
        panic!("one repair: {reports:?}")
    };
    assert_eq!(
        (retried.asked, retried.reason),
        (2, EnvelopeFault::SchemaViolation)
    );
    let got = peer.got();
    let messages = &body(&got[1])["messages"];
    assert_eq!(messages[1]["content"], "{\"n\": \"planted\"}");
    assert!(
        messages[2]["content"]
            .as_str()
            .unwrap()
            .contains("/n must be")
    );
    assert_ne!(
        got[0].header("idempotency-key"),
        got[1].header("idempotency-key")
    );
    let last = recorder
        .chunks
        .lock()
        .unwrap()
        .iter()
        .filter(|c| c.is_last)
        .count();
    assert_eq!(last, 1, "only the good answer ends the text");

    let peer = Peer::start(answers(3)).await;
    let lab = lab_for(&peer, "openai", "");
    let (error, recorder) = failed(&lab, json!({}), config.clone()).await;
    assert_eq!(error.code, "envelope_invalid");
    assert!(!error.message.contains("planted"), "{error:?}");
    assert_eq!(peer.got().len(), 2, "one repair and no more");
    assert!(matches!(
        recorder.reports.lock().unwrap().as_slice(),
        [Report::EnvelopeRetried(_), Report::EnvelopesExhausted(_)]
    ));

    let peer = Peer::start(answers(2)).await;
    let mut config = config;
    config["repair"] = false.into();
    let (error, _) = failed(&lab_for(&peer, "openai", ""), json!({}), config).await;
    assert_eq!(
        (error.code.as_str(), peer.got().len()),
        ("envelope_invalid", 1)
    );
}

const STRUCTURED: &str = "core.ai.structuredOutput";

/// Answers in order; the last one is repeated.
async fn structured(answers: &[(&str, &str)], config: Value) -> (Outcome, Peer, Arc<Recorder>) {
    let answers: Vec<Vec<u8>> = answers
        .iter()
        .map(|(text, finish)| openai(&[text], finish))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let peer = Peer::start(move |_| {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Answer::Bytes(answers[n.min(answers.len() - 1)].clone())
    })
    .await;
    let lab = lab_for(&peer, "openai", "");
    let recorder = Recorder::new();
    let mut config = config;
    config["prompt"] = "count".into();
    config["outputSchema"] = shape();
    let outcome = run_in(&lab, recorder.context(&lab), STRUCTURED, config, json!({})).await;
    (outcome, peer, recorder)
}

fn reported(recorder: &Recorder) -> Vec<&'static str> {
    let reports = recorder.reports.lock().unwrap();
    let words = reports.iter().map(|report| match report {
        Report::EnvelopeRetried(_) => "retried",
        Report::EnvelopesExhausted(_) => "exhausted",
        Report::EnvelopeTruncated(_) => "truncated",
        Report::EnvelopeRefused(_) => "refused",
        Report::EnvelopeRecovered(_) => "recovered",
        Report::EnvelopeCoerced(_) => "coerced",
        other => panic!("a report about an answer: {other:?}"),
    });
    words.collect()
}

fn given(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Completed(completion) => completion.outputs["json"].clone(),
        Outcome::Failed { error, .. } => json!(error.code),
        other => panic!("it should end: {other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_off_gets_more_room() {
    let answers = [
        ("{\"n\"", "length"),
        ("{\"n\": 1", "length"),
        ("{\"n\": 1}", "stop"),
    ];
    let (outcome, peer, recorder) = structured(&answers, json!({ "maxTokens": 50 })).await;
    assert_eq!(given(outcome), json!({ "n": 1 }));
    assert_eq!(
        reported(&recorder),
        ["truncated", "retried", "truncated", "retried"]
    );
    let asked: Vec<Value> = peer.got().iter().map(body).collect();
    let room: Vec<&Value> = asked.iter().map(|asked| &asked["max_tokens"]).collect();
    assert_eq!(room, [50, 100, 200]);
    let said = |n: usize| asked[n]["messages"].as_array().unwrap().len();
    assert_eq!((said(0), said(2)), (1, 1), "it is asked the same");

    let (outcome, peer, recorder) = structured(&answers[..1], json!({})).await;
    assert_eq!(given(outcome), "envelope_truncation_unrecoverable");
    assert_eq!(peer.got().len(), 3, "three times and no more");
    assert_eq!(reported(&recorder).last(), Some(&"exhausted"));
}

#[tokio::test]
async fn an_answer_is_found_within_surrounding_text() {
    for text in ["Sure:\n```json\n{\"n\": 1}\n```", "It is {\"n\": 1}."] {
        let (outcome, peer, recorder) = structured(&[(text, "stop")], json!({})).await;
        assert_eq!(given(outcome), json!({ "n": 1 }));
        assert_eq!(
            (reported(&recorder), peer.got().len()),
            (vec!["recovered"], 1)
        );
    }
}

#[tokio::test]
async fn plain_words_are_put_into_the_shape_at_last() {
    let words = ("There is one of them.", "stop");
    let answers = [words, words, ("{\"n\": 1}", "stop")];
    let (outcome, peer, recorder) = structured(&answers, json!({})).await;
    assert_eq!(given(outcome), json!({ "n": 1 }));
    assert_eq!(reported(&recorder), ["retried", "coerced"]);
    let asked = body(peer.got().last().unwrap());
    let last = asked["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    let told = last["content"].as_str().unwrap();
    assert!(told.ends_with("There is one of them."), "{told}");

    let (outcome, peer, recorder) = structured(&[words], json!({})).await;
    assert_eq!(
        (given(outcome), peer.got().len()),
        (json!("envelope_invalid"), 3),
        "that is one of the rounds"
    );
    assert_eq!(reported(&recorder).last(), Some(&"exhausted"));
    // Malformed JSON is not treated as prose, and a model is not called again if it must not be.
    let broken = ("{\"n\": ", "stop");
    let (_, peer, _) = structured(&[broken], json!({ "maxAsks": 2 })).await;
    assert_eq!(peer.got().len(), 2);
    let (_, peer, _) = structured(&[words], json!({ "repair": false })).await;
    assert_eq!(peer.got().len(), 1);
}

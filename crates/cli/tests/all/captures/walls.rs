//! Commands that ask past the recording proxy.

use serde_json::{Value, json};

use super::{Bench, has_python, read};
use crate::support::Ended;

/// Whether commands can be kept from the network here; a skip of the test where not.
fn has_walls(test: &str) -> bool {
    match runtime::programs::holds_network() {
        Ok(()) => has_python(test),
        Err(why) => {
            testkit::skip(test, &why.to_string());
            false
        }
    }
}

/// A server of models whose address no variable has.
fn bench() -> Bench {
    Bench::new(|_, _| {
        json!({ "status": 200, "body": {
            "id": "c", "object": "chat.completion", "model": "m",
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": "as always" } }],
            "usage": { "prompt_tokens": 1, "completion_tokens": 1 },
        } })
    })
}

/// Asks a model at an address that stands in the text, as clients do that know proxies.
fn asks(address: &str) -> String {
    format!(
        "import json, urllib.request as u\n\
         body = json.dumps({{'model': 'm', 'messages': [{{'role': 'user', 'content': 'Hi'}}]}})\n\
         r = u.Request('http://{address}/v1/chat/completions', body.encode(),\n\
         \x20   {{'Content-Type': 'application/json'}})\n\
         print(json.load(u.urlopen(r))['choices'][0]['message']['content'])\n"
    )
}

/// The same by a client that knows none.
fn connects(address: &str) -> String {
    let (host, port) = address.split_once(':').unwrap();
    format!(
        "import http.client as h, json\n\
         c = h.HTTPConnection('{host}', {port})\n\
         c.request('POST', '/v1/chat/completions', json.dumps({{'model': 'm', 'messages': []}}),\n\
         \x20   {{'Content-Type': 'application/json'}})\n\
         print(json.load(c.getresponse())['choices'][0]['message']['content'])\n"
    )
}

fn capture(bench: &Bench, options: &[&str], script: &str) -> Ended {
    let head = ["snapshot", "capture", "--root", "shop"];
    let tail = ["--", "python3", "-c", script];
    let mut command = bench.command(&[&head, options, &tail].concat());
    // What the variables say is another server.
    command.env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    command.output().unwrap().into()
}

fn snapshot(ended: &Ended) -> Value {
    read(ended.stdout.lines().last().unwrap().as_ref())
}

#[test]
fn a_model_at_a_written_address_is_captured() {
    if !has_walls("a_model_at_a_written_address_is_captured") {
        return;
    }
    let bench = bench();
    let ended = capture(&bench, &[], &asks(&bench.peer.address)).with(0);
    let kept = snapshot(&ended);
    assert_eq!(kept["outputs"]["response"], "as always", "{kept:#}");
    assert_eq!(kept["metrics"]["iterations"], 1);
    assert_eq!(bench.peer.came().len(), 1);
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
    assert_eq!(bench.peer.came().len(), 1, "nobody is asked again");
}

#[test]
fn a_client_that_knows_no_proxy_is_refused() {
    if !has_walls("a_client_that_knows_no_proxy_is_refused") {
        return;
    }
    let bench = bench();
    let ended = capture(&bench, &[], &connects(&bench.peer.address)).with(1);
    let ended = ended.says("PermissionError").says("OPENAI_BASE_URL");
    assert_eq!(bench.peer.came().len(), 0);
    assert_eq!(snapshot(&ended)["extensions"]["run_status"], "failed");
}

#[test]
fn what_may_ask_past_the_proxy_is_unverified() {
    if !has_walls("what_may_ask_past_the_proxy_is_unverified") {
        return;
    }
    let bench = bench();
    let ended = capture(&bench, &["--open-network"], &connects(&bench.peer.address)).with(0);
    assert!(ended.stderr.contains("UNVERIFIED"), "{ended:?}");
    assert_eq!(
        snapshot(&ended)["extensions"]["network"]["unverified"],
        true
    );
    assert_eq!(bench.peer.came().len(), 1);
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let replayed = bench.call(&args);
    assert_ne!(replayed.code, 0, "{replayed:?}");
    assert!(!replayed.stdout.contains("exact_match"), "{replayed:?}");
    assert_eq!(bench.peer.came().len(), 1, "a replay asks nobody");
}

#[test]
fn a_command_reaches_no_other_socket() {
    if !has_walls("a_command_reaches_no_other_socket") {
        return;
    }
    let bench = bench();
    let port = bench.peer.address.split_once(':').unwrap().1;
    let script = format!(
        "import socket as s\n\
         for of in ((s.AF_INET, s.SOCK_DGRAM), (s.AF_UNIX, s.SOCK_STREAM), (s.AF_INET, s.SOCK_RAW, 1)):\n\
         \x20   try:\n        s.socket(*of)\n        print('made')\n\
         \x20   except PermissionError:\n        print('denied')\n\
         try:\n    s.create_connection(('127.0.0.1', {port}))\n    print('made')\n\
         except PermissionError:\n    print('denied')\n"
    );
    let ended = capture(&bench, &[], &script).with(0);
    assert!(ended.stdout.starts_with(&"denied\n".repeat(4)), "{ended:?}");
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
}

#[test]
fn servers_besides_models_are_told_of() {
    if !has_walls("servers_besides_models_are_told_of") {
        return;
    }
    let bench = bench();
    let address = &bench.peer.address;
    let script =
        format!("import urllib.request as u\nprint(u.urlopen('http://{address}/things').status)\n");
    let ended = capture(&bench, &[], &script).with(0);
    assert!(ended.stderr.contains(address.as_str()), "{ended:?}");
    let asked = &snapshot(&ended)["extensions"]["network"]["asked"];
    assert_eq!(*asked, json!([address]));
    // The replay is refused what the command was given.
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let replayed = bench.call(&args).with(3).json();
    assert_eq!(replayed["denied"], 1, "{replayed:#}");
    assert_eq!(bench.peer.came().len(), 1);
}

#[test]
fn a_model_behind_a_tunnel_is_refused() {
    if !has_walls("a_model_behind_a_tunnel_is_refused") {
        return;
    }
    let bench = bench();
    let script = "import urllib.request as u\nu.urlopen('https://api.openai.com/v1/models')\n";
    let ended = capture(&bench, &[], script).with(1);
    let ended = ended.says("refused: api.openai.com:443");
    let refused = &snapshot(&ended)["extensions"]["network"]["refused"];
    assert_eq!(*refused, json!(["api.openai.com:443"]));
}

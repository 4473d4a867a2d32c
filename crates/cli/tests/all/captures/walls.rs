//! Commands with requests past the recording proxy.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::{Bench, has_python, read};
use crate::support::Ended;

/// Whether commands can be restricted to the proxy here; otherwise skips the test.
pub(super) fn has_walls(test: &str) -> bool {
    match runtime::programs::confines_network() {
        Ok(()) => has_python(test),
        Err(why) => {
            testkit::skip(test, &why.to_string());
            false
        }
    }
}

/// A server of models whose address no variable contains.
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

/// Calls a model at a hard-coded address, like clients with proxy support.
fn asks(address: &str) -> String {
    format!(
        "import json, urllib.request as u\n\
         body = json.dumps({{'model': 'm', 'messages': [{{'role': 'user', 'content': 'Hi'}}]}})\n\
         r = u.Request('http://{address}/v1/chat/completions', body.encode(),\n\
         \x20   {{'Content-Type': 'application/json'}})\n\
         print(json.load(u.urlopen(r))['choices'][0]['message']['content'])\n"
    )
}

/// The same for a client without proxy support.
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
    // The variables name another server.
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
fn a_client_that_knows_no_proxy_is_captured() {
    if !has_walls("a_client_that_knows_no_proxy_is_captured") {
        return;
    }
    let bench = bench();
    let ended = capture(&bench, &[], &connects(&bench.peer.address)).with(0);
    let kept = snapshot(&ended);
    assert_eq!(kept["outputs"]["response"], "as always", "{kept:#}");
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
    assert_eq!(bench.peer.came().len(), 1, "nobody is asked again");
}

#[test]
fn a_client_of_node_with_a_written_address_is_captured() {
    let test = "a_client_of_node_with_a_written_address_is_captured";
    if !has_walls(test) {
        return;
    }
    if std::process::Command::new("node")
        .arg("-v")
        .output()
        .is_err()
    {
        return testkit::skip(test, "unknown node");
    }
    let bench = bench();
    bench.write("agent.mjs", &format!(
        "import http from 'node:http';\n\
         const at = 'http://{}/v1/chat/completions';\n\
         const body = JSON.stringify({{ model: 'm', messages: [] }});\n\
         const headers = {{ 'content-type': 'application/json' }};\n\
         const one = await fetch(at, {{ method: 'POST', headers, body }});\n\
         console.log((await one.json()).choices[0].message.content);\n\
         await new Promise((ok, no) => http.request(at, {{ method: 'POST', headers }}, (answer) => {{\n\
         \x20 answer.resume().on('end', ok);\n\
         }}).on('error', no).end(body));\n",
        bench.peer.address
    ));
    bench.record(&["node", "agent.mjs"]);
    assert_eq!(bench.peer.came().len(), 2);
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
    assert_eq!(bench.peer.came().len(), 2, "nobody is asked again");
}

#[test]
fn a_client_that_loads_no_scripts_is_refused() {
    if !has_walls("a_client_that_loads_no_scripts_is_refused") {
        return;
    }
    let bench = bench();
    bench.write("agent.py", &connects(&bench.peer.address));
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "python3", "-I", "agent.py",
    ];
    let ended = bench.call(&args).with(1);
    let ended = ended.says("PermissionError").says("OPENAI_BASE_URL");
    let ended = ended.says(&format!("refused: {}", bench.peer.address));
    assert_eq!(bench.peer.came().len(), 0);
    assert_eq!(snapshot(&ended)["extensions"]["run_status"], "failed");
}

#[test]
fn refused_connections_are_named() {
    if !has_walls("refused_connections_are_named") {
        return;
    }
    let bench = bench();
    let address = &bench.peer.address;
    let (host, port) = address.split_once(':').unwrap();
    let script = format!(
        "import socket as s\n\
         c = s.create_connection(('{host}', {port}))\n\
         c.sendall(b'\\0\\0')\n\
         try:\n    assert c.recv(1) == b''\nexcept ConnectionError:\n    pass\n\
         try:\n    s.socket(s.AF_INET, s.SOCK_RAW, 1)\nexcept PermissionError:\n    pass\n\
         try:\n    s.socket(s.AF_UNIX).connect('/run/model.sock')\nexcept PermissionError:\n    pass\n\
         try:\n    s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))\n\
         except PermissionError:\n    pass\n\
         try:\n    s.create_connection(('models.invalid', 80))\nexcept OSError:\n    pass\n"
    );
    let ended = capture(&bench, &[], &script).with(0);
    let refused = &snapshot(&ended)["extensions"]["network"]["refused"];
    let names = [
        address.as_str(),
        "UDP 127.0.0.1:9",
        "raw socket",
        "Unix socket /run/model.sock",
        "lookup of models.invalid",
    ];
    for name in names {
        let has = |list: &Value| list.as_array().unwrap().contains(&json!(name));
        assert!(has(refused), "{name}: {refused}");
        assert!(ended.stderr.contains(name), "{ended:?}");
    }
    assert_eq!(bench.peer.came().len(), 0);
}

#[test]
fn a_replay_reaches_no_network_at_all() {
    if !has_walls("a_replay_reaches_no_network_at_all") {
        return;
    }
    let bench = bench();
    let four = TcpListener::bind("127.0.0.1:0").unwrap();
    let six = TcpListener::bind("[::1]:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = bench.lab.path().join("daemon.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    bench.write("agent.py", &format!(
        "import os, socket as s, sys\n\
         def tcp(family, host, port):\n    c = s.socket(family, s.SOCK_STREAM)\n    c.connect((host, port))\n    \
         c.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')\n    try:\n        c.recv(64)\n    \
         except ConnectionResetError:\n        sys.exit(9)\n\
         def udp():\n    s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))\n\
         def raw():\n    s.socket(s.AF_INET, s.SOCK_RAW, 1).sendto(b'x', ('127.0.0.1', 0))\n\
         def unix():\n    s.socket(s.AF_UNIX, s.SOCK_STREAM).connect({path:?})\n\
         tries = [lambda: tcp(s.AF_INET, '127.0.0.1', {four}), lambda: tcp(s.AF_INET6, '::1', {six}), udp, raw, unix]\n\
         for at, each in enumerate(tries if os.path.exists('probe') else []):\n\
         \x20   try:\n        each()\n    except PermissionError:\n        continue\n    sys.exit(at + 1)\n\
         print('done')\n",
        udp = udp.local_addr().unwrap().port(),
        four = port(&four),
        six = port(&six),
    ));
    bench.record(&["python3", "-I", "agent.py"]);
    bench.write("probe", "");
    let replayed = bench.replay("verify", 3);
    assert_eq!(replayed["exit_code"], 0, "{replayed:#}");
    assert_eq!(replayed["refused"].as_array().unwrap().len(), 5);
    // With the scripts a connection is redirected to the proxy, which resets it.
    let args = [
        "snapshot", "replay", "latest", "--root", "shop", "--json", "--", "python3", "agent.py",
    ];
    assert_eq!(bench.call(&args).json()["exit_code"], 9);
    four.set_nonblocking(true).unwrap();
    six.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    assert!(four.accept().is_err() && six.accept().is_err(), "TCP");
    assert!(udp.recv(&mut [0; 8]).is_err(), "UDP");
    assert!(unix.accept().is_err(), "Unix");
}

#[test]
fn programs_that_may_bypass_the_proxy_are_unverified() {
    if !has_walls("programs_that_may_bypass_the_proxy_are_unverified") {
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
    let call = |args: &[&str]| bench.call(&[&["snapshot"], args, &["--root", "shop"]].concat());
    let verified = call(&["verify", "latest"]).with(0);
    assert!(verified.stdout.contains("unverified"), "{verified:?}");
    assert!(!verified.stdout.contains("  valid"), "{verified:?}");
    let strict = call(&["verify", "latest", "--strict", "--json"]).with(4);
    assert_eq!(strict.json()["snapshots"][0]["state"], "unverified");
    assert!(call(&["list"]).with(0).stdout.contains("UNVERIFIED"));
    call(&["show", "latest"]).with(0).says("UNVERIFIED");
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let replayed = bench.call(&args);
    assert_ne!(replayed.code, 0, "{replayed:?}");
    assert!(!replayed.stdout.contains("exact_match"), "{replayed:?}");
    assert_eq!(bench.peer.came().len(), 1, "a replay asks nobody");
}

#[test]
fn calls_to_servers_other_than_models_are_reported() {
    if !has_walls("calls_to_servers_other_than_models_are_reported") {
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
    // The replay refuses access that the command had.
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let replayed = bench.call(&args).with(3).json();
    assert_eq!(replayed["denied"], 1, "{replayed:#}");
    assert_eq!(bench.peer.came().len(), 1);
}

#[test]
fn a_model_through_a_tunnel_is_rejected() {
    if !has_walls("a_model_through_a_tunnel_is_rejected") {
        return;
    }
    let bench = bench();
    let script = "import urllib.request as u\nu.urlopen('https://api.openai.com/v1/models')\n";
    let ended = capture(&bench, &[], script).with(1);
    let ended = ended.says("refused: api.openai.com:443");
    let refused = &snapshot(&ended)["extensions"]["network"]["refused"];
    assert_eq!(*refused, json!(["api.openai.com:443"]));
}

#[test]
fn a_tunnel_through_a_written_proxy_is_rejected() {
    if !has_walls("a_tunnel_through_a_written_proxy_is_rejected") {
        return;
    }
    let bench = bench();
    let (host, port) = bench.peer.address.split_once(':').unwrap();
    let script = format!(
        "import http.client as h\n\
         c = h.HTTPConnection('{host}', {port})\n\
         c.set_tunnel('models.test', 443)\n\
         try:\n    c.connect()\nexcept OSError as error:\n    print(error)\n"
    );
    let ended = capture(&bench, &[], &script).with(0);
    assert!(ended.stdout.starts_with("Tunnel connection failed: 403"));
    let network = &snapshot(&ended)["extensions"]["network"];
    assert_eq!(*network, json!({ "refused": ["models.test:443"] }));
    assert_eq!(bench.peer.came().len(), 0);
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "semantic_match", "{replayed:#}");
}

#[test]
fn words_in_the_output_of_a_command_are_no_refusal() {
    if !has_walls("words_in_the_output_of_a_command_are_no_refusal") {
        return;
    }
    let bench = bench();
    let words = "echo 'dial tcp 127.0.0.1:9: connect: permission denied' >&2";
    let ended = bench.record(&["sh", "-c", words]);
    assert!(!ended.stderr.contains("UNVERIFIED"), "{}", ended.stderr);
    assert!(snapshot(&ended)["extensions"]["network"].is_null());
}

//! The parts of a model's answer other than its body: headers, encoding, and ignored ones.

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python, read};

/// Sends requests by its arguments and prints the answers, headers first.
const AGENT: &str = r#"
import http.client, os, sys, urllib.parse, uuid
base = urllib.parse.urlparse(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(base.hostname, base.port)
what = sys.argv[1]
if what in ("upload", "binary"):
    mark = uuid.uuid4().hex.encode()
    data = os.environ.get("FILE", "data").encode() if what == "upload" else b"\xff\xd8\x00"
    body = b"--%s\r\ncontent-disposition: form-data; name=file\r\n\r\n%s\r\n--%s--\r\n" % (mark, data, mark)
    headers = {"content-type": "multipart/form-data; boundary=" + mark.decode()}
    connection.request("POST", base.path + "/files", body, headers)
else:
    headers = {"content-type": "application/json", "accept-encoding": "gzip", "authorization": "Bearer planted-key-77"}
    connection.request("POST", base.path + "/chat/completions", '{"model": "tiny", "messages": []}', headers)
answer = connection.getresponse()
for name, value in sorted(answer.getheaders()):
    if name.lower() not in ("date", "connection", "transfer-encoding", "content-length"):
        print(name.lower() + ":", value)
print(answer.status, answer.read().decode())
"#;

fn capture(bench: &Bench, what: &str) -> (Value, String) {
    bench.lab.write("agent.py", AGENT);
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "python3",
        "../agent.py",
        what,
    ];
    let ended = bench.call(&args).with(0);
    let path = ended.stdout.lines().last().unwrap().to_owned();
    (read(path.as_ref()), ended.stdout)
}

#[test]
fn headers_of_an_answer_come_and_come_again() {
    if !has_python("headers_of_an_answer_come_and_come_again") {
        return;
    }
    let bench = Bench::new(|_, _| {
        json!({ "status": 429, "body": { "error": {} }, "headers": {
            "x-should-retry": "false", "retry-after-ms": "7", "x-request-id": "req-1",
            "x-ratelimit-remaining-tokens": "149984", "x-trace": "first",
            "x-echo": "planted-key-77", "location": "/v1/files/a",
            "connection": "x-hop", "x-hop": "1",
        } })
    });
    let (_, printed) = capture(&bench, "ask");
    let lines: Vec<&str> = printed.lines().take(9).collect();
    assert_eq!(
        lines,
        [
            "content-type: application/json",
            "location: ../files/a",
            "retry-after-ms: 7",
            "x-echo: planted-key-77",
            "x-ratelimit-remaining-tokens: 149984",
            "x-request-id: req-1",
            "x-should-retry: false",
            "x-trace: first",
            "429 {\"error\":{}}",
        ]
    );
    let head = &bench.peer.came()[0].head;
    assert!(
        head.to_lowercase()
            .contains("accept-encoding: identity\r\n"),
        "{head}"
    );
    // The program's output is compared, so all of it came again.
    let report = bench.replay("verify", 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(bench.peer.came().len(), 1);
    for planted in ["planted-key-77", "planted-cookie"] {
        let found = std::process::Command::new("grep")
            .args(["-rl", planted])
            .arg(bench.root())
            .output();
        assert_eq!(
            String::from_utf8(found.unwrap().stdout).unwrap(),
            "",
            "{planted}"
        );
    }
}

#[test]
fn unrequested_compressed_answers_are_unpacked() {
    if !has_python("unrequested_compressed_answers_are_unpacked") {
        return;
    }
    let packed = "H4sIAAAAAAACA0WOwQoCMQxEf2XJWUHxIPgrIktpoxt2NylNRKX03033oLeZN5MhFSjBZYAIuwFWSbh0Z8Sf/bGjOAlFVIfXCsQJ3y4PvYuq4YHuKhRZuoCgSmqBbbsUNnTpPIc4YxpeUpJC8+xOTDqNBYMK94aaZGg3j56/1VxkzTaazMj9gfM2uuYFjYT//NTaFzxpARbGAAAA";
    let bench = Bench::new(
        move |_, _| json!({ "base64": packed, "headers": { "content-encoding": "gzip" } }),
    );
    let (snapshot, printed) = capture(&bench, "ask");
    assert!(
        printed.contains("packed words") && !printed.contains("content-encoding"),
        "{printed}"
    );
    assert_eq!(snapshot["outputs"]["response"], "packed words");
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
}

#[test]
fn uploads_match_despite_different_multipart_boundaries() {
    if !has_python("uploads_match_despite_different_multipart_boundaries") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    capture(&bench, "upload");
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
    let args = "snapshot replay latest --root shop --json";
    let mut command = bench.command(&args.split(' ').collect::<Vec<_>>());
    let ended: crate::support::Ended = command.env("FILE", "other").output().unwrap().into();
    let report = ended.with(3).json();
    assert_eq!(report["first_divergence"]["reason"], "changed", "{report}");
    // Binary content reaches the server unchanged.
    capture(&bench, "binary");
    let came = bench.peer.came().pop().unwrap();
    let has = |part: &[u8]| came.bytes.windows(part.len()).any(|bytes| bytes == part);
    assert!(has(b"\r\n\r\n\xff\xd8\x00\r\n--") && !has(b"runwright-boundary"));
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
}

#[test]
fn another_id_in_the_headers_is_the_same_result() {
    if !has_python("another_id_in_the_headers_is_the_same_result") {
        return;
    }
    let bench = Bench::new(|number, _| {
        let mut answer = says("the same");
        answer["headers"] = json!({ "x-request-id": number.to_string() });
        answer
    });
    bench.script(&[
        json!({ "ask": "What?" }),
        json!({ "tool": "look", "argv": ["cat", bench.lab.path().join("outside")] }),
    ]);
    bench.lab.write("outside", "one");
    bench.capture(&[]);
    bench.lab.write("outside", "two");
    let report = bench.replay("rerun", 1);
    let found = &report["first_divergence"];
    assert_eq!(
        (&found["reason"], &found["expected"]["name"]),
        (&json!("other_result"), &json!("look")),
        "{report}"
    );
}

/// A client written by hand, which reads as many bytes as the header says.
const BY_HAND: &str = r#"
import os, socket, urllib.parse
base = urllib.parse.urlparse(os.environ["OPENAI_BASE_URL"])
connection = socket.create_connection((base.hostname, base.port))
body = b'{"model": "tiny", "messages": []}'
head = "POST %s/chat/completions HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
connection.sendall((head % (base.path, base.netloc, len(body))).encode() + body)
reader = connection.makefile("rb")
headers = dict(line.decode().lower().strip().split(": ", 1) for line in list(iter(reader.readline, b"\r\n"))[1:])
print(reader.read(int(headers["content-length"])).decode())
"#;

#[test]
fn a_client_that_needs_the_length_of_an_answer_has_it() {
    if !has_python("a_client_that_needs_the_length_of_an_answer_has_it") {
        return;
    }
    let bench = Bench::new(|_, _| says("by hand"));
    bench.write("agent.py", BY_HAND);
    let ended = bench.record(&["python3", "agent.py"]);
    assert!(ended.stdout.contains("by hand"), "{ended:?}");
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
}

#[test]
fn a_rerun_without_a_model_names_its_address() {
    if !has_python("a_rerun_without_a_model_names_its_address") {
        return;
    }
    let bench = Bench::new(|_, _| says("by hand"));
    bench.write("agent.py", BY_HAND);
    bench.record(&["python3", "agent.py"]);
    let rerun = [
        "snapshot", "replay", "latest", "--root", "shop", "--kind", "rerun",
    ];
    // Nothing listens at the first port.
    let ended = bench
        .command(&rerun)
        .env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(!ended.status.success(), "{said}");
    let why = "no model was reached: no connection to http://127.0.0.1:1";
    assert!(said.contains(why), "{said}");
}

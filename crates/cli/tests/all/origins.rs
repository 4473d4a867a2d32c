//! Web pages of other origins, and host names that resolve here, against `serve --dev`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::serving::{Serving, lab};
use crate::support::*;

/// No step here takes longer unless it hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// The routes that also answer requests without a host.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// An operation of the server: its method, its path in OpenAPI's form, and an example address.
struct Operation {
    method: String,
    path: String,
    address: String,
}

impl Operation {
    /// A valid body for the operation, if it creates something.
    fn body(&self) -> Value {
        match self.path.as_str() {
            "/v1/workflows" => one_script("planted", "echo planted > planted"),
            _ => json!({ "workflowId": "three" }),
        }
    }
}

/// The host and port of a server.
fn place(serving: &Serving) -> &str {
    serving.url.trim_start_matches("http://")
}

/// Sends a request with these header lines, and returns status and body.
fn send(serving: &Serving, request: &str, head: &[&str], body: &str) -> (u16, String) {
    let length = match body.len() {
        0 => String::new(),
        bytes => format!("content-length: {bytes}\r\n"),
    };
    let head: String = head.iter().map(|line| format!("{line}\r\n")).collect();
    let text = format!("{request} HTTP/1.1\r\n{head}{length}connection: close\r\n\r\n{body}");
    let mut stream = TcpStream::connect(place(serving)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_shared = head.to_ascii_lowercase().contains("access-control-allow");
    assert!(!is_shared, "{request}: {head}");
    (status, body.to_owned())
}

/// Sends a request like a program on this machine.
fn get(serving: &Serving, path: &str) -> String {
    let host = format!("host: {}", place(serving));
    let (status, body) = send(serving, &format!("GET {path}"), &[&host], "");
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Every operation of both faces.
fn operations(serving: &Serving) -> Vec<Operation> {
    let mut found = Vec::new();
    for document in ["/v1/openapi.json", "/api/openapi.json"] {
        let document: Value = serde_json::from_str(&get(serving, document)).unwrap();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                let mut address = path.clone();
                while let Some((before, after)) = address.split_once('{') {
                    let (_, after) = after.split_once('}').unwrap();
                    address = format!("{before}run_1{after}");
                }
                found.push(Operation {
                    method: method.to_ascii_uppercase(),
                    path: path.clone(),
                    address,
                });
            }
        }
    }
    assert!(found.len() > 60, "{} operations", found.len());
    found
}

/// The code of a refusal with a closed envelope.
fn code(body: &str) -> String {
    let envelope: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{body:?}"));
    let known = ["error", "message", "code", "details"];
    let keys = || envelope.as_object().unwrap().keys();
    assert!(keys().all(|key| known.contains(&key.as_str())), "{body}");
    let code = envelope.get("code").unwrap_or(&envelope["error"]);
    code.as_str().unwrap().to_ascii_lowercase()
}

/// An attack registered and started nothing.
fn is_untouched(lab: &Lab, serving: &Serving) {
    let runs: Value = serde_json::from_str(&get(serving, "/v1/runs")).unwrap();
    assert_eq!(runs["runs"], json!([]));
    assert!(!get(serving, "/v1/workflows").contains("planted"));
    assert!(!lab.path().join("planted").exists());
}

#[test]
fn a_foreign_host_or_page_reaches_no_route() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let address = place(&serving).to_owned();
    let port = address.rsplit(':').next().unwrap();
    let own = format!("host: {address}");
    let own = own.as_str();
    let lines = |name: &str, value: &str| format!("{name}: {value}");
    let evil = [
        lines("host", "evil.example"),
        lines("host", &format!("rebound.example:{port}")),
        lines("host", &format!("localhost.evil.example:{port}")),
        lines("host", &format!("0.0.0.0:{port}")),
        lines("host", &format!("localhost@evil.example:{port}")),
        lines("host", ""),
    ];
    let rebound = format!("origin: http://rebound.example:{port}");
    for operation in operations(&serving) {
        let Operation {
            method, address, ..
        } = &operation;
        let request = format!("{method} {address}");
        let (body, json_type) = match method.as_str() {
            "GET" => (String::new(), "accept: */*"),
            _ => (
                operation.body().to_string(),
                "content-type: application/json",
            ),
        };
        let refused = |request: &str, head: &[&str], wanted: &str| {
            let head: Vec<&str> = head.iter().chain([&json_type]).copied().collect();
            let (status, answer) = send(&serving, request, &head, &body);
            assert_eq!(status, 403, "{request} {head:?}: {answer}");
            assert_eq!(code(&answer), wanted, "{request} {head:?}");
        };
        for host in &evil {
            refused(&request, &[host], "host_not_allowed");
        }
        // Possible requests from the page of a rebound name: it has the same origin as its target.
        let page = [&evil[1], rebound.as_str(), "authorization: Bearer x"];
        refused(&request, &page, "host_not_allowed");
        if !PROBES.contains(&operation.path.as_str()) {
            refused(&request, &[], "host_not_allowed");
        }
        refused(&request, &[own, &evil[0]], "host_not_allowed");
        let absolute = format!("{method} http://evil.example{address}");
        refused(&absolute, &[own], "host_not_allowed");
        for page in [
            "origin: http://evil.example",
            "origin: null",
            "origin: http://127.0.0.1:1",
            "sec-fetch-site: cross-site",
            "sec-fetch-site: same-site",
        ] {
            refused(&request, &[own, page], "origin_not_allowed");
            let with_key = [own, page, "authorization: Bearer x"];
            refused(&request, &with_key, "origin_not_allowed");
        }
        if !body.is_empty() {
            for head in [&[own][..], &[own, "content-type: text/plain"]] {
                let (status, answer) = send(&serving, &request, head, &body);
                assert_eq!(status, 415, "{request}: {answer}");
                assert_eq!(code(&answer), "unsupported_media_type");
            }
        }
    }
    is_untouched(&lab, &serving);
    // The server's own pages, and programs, are accepted.
    for head in [
        vec![own.to_owned()],
        vec![format!("host: localhost:{port}")],
        vec![
            own.to_owned(),
            format!("origin: {}", serving.url),
            "sec-fetch-site: same-origin".to_owned(),
        ],
        vec![own.to_owned(), "sec-fetch-site: none".to_owned()],
    ] {
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        assert_eq!(send(&serving, "GET /v1/runs", &head, "").0, 200, "{head:?}");
    }
}

/// Another user's web server on the same machine.
struct Elsewhere {
    port: u16,
    reports: Receiver<Vec<String>>,
}

impl Elsewhere {
    /// Serves one page, which reports the data it could read.
    fn serving(page: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (report, reports) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (page, report) = (page.clone(), report.clone());
                // A browser opens more connections than it uses.
                std::thread::spawn(move || Self::answer(stream.unwrap(), &page, &report));
            }
        });
        Self { port, reports }
    }

    fn answer(stream: TcpStream, page: &str, report: &Sender<Vec<String>>) -> Option<()> {
        let mut reader = BufReader::new(&stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let (mut length, mut header) = (0, String::new());
        while reader.read_line(&mut header).ok()? > 2 {
            let (name, value) = header.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
            header.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = serde_json::from_slice(&body);
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{page}",
            page.len()
        );
        (&stream).write_all(answer.as_bytes()).ok()?;
        if line.starts_with("POST /done") {
            report.send(body.ok()?).ok()?;
        }
        Some(())
    }
}

/// A browser that ends with its test.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        // With all its processes.
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Chromium with its own profile, not started yet. Every name of `rebound.test` resolves to this
/// machine.
fn chromium(lab: &Lab) -> Command {
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args([
            "--disable-quic",
            "--no-first-run",
            "--disable-dev-shm-usage",
        ])
        .args(["--disable-background-networking", "--disable-sync"])
        .arg("--disable-component-update")
        .arg("--host-resolver-rules=MAP rebound.test 127.0.0.1")
        .arg(format!(
            "--user-data-dir={}",
            lab.path().join("profile").display()
        ))
        .env("HOME", lab.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// The number of requests the server answered, by method, route and status.
fn answered(serving: &Serving) -> BTreeMap<(String, String, String), u64> {
    let text = get(serving, "/metrics");
    let lines = text.lines().filter_map(|line| {
        let labels = line.strip_prefix("runwright_http_requests_total{")?;
        let (labels, count) = labels.split_once("} ")?;
        let value = |name: &str| {
            let (_, after) = labels.split_once(&format!("{name}=\""))?;
            Some(after.split_once('"')?.0.to_owned())
        };
        let key = (value("method")?, value("route")?, value("status")?);
        Some((key, count.parse().ok()?))
    });
    lines.collect()
}

#[test]
fn a_page_in_a_real_browser_reaches_no_route() {
    const NAME: &str = "a_page_in_a_real_browser_reaches_no_route";
    if Command::new("chromium").arg("--version").output().is_err() {
        return testkit::skip(NAME, "chromium is not installed");
    }
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let operations = operations(&serving);
    let routes = operations.iter().map(|operation| {
        json!({
            "method": operation.method, "path": operation.address,
            "body": operation.body().to_string(),
        })
    });
    let port = place(&serving).rsplit(':').next().unwrap();
    let rebound = format!("http://rebound.test:{port}");
    let plan = json!({
        "target": serving.url, "rebound": rebound, "routes": routes.collect::<Vec<_>>(),
    });
    let page = include_str!("origins.html").replace("PLAN", &plan.to_string());
    let elsewhere = Elsewhere::serving(page);
    let before = answered(&serving);

    let mut browser = chromium(&lab);
    browser.arg(format!("http://localhost:{}/", elsewhere.port));
    let browser = Browser(browser.stdout(Stdio::null()).spawn().unwrap());
    for page in ["another site", "another port of the same site"] {
        let readable = elsewhere.reports.recv_timeout(DEADLINE).expect("a report");
        assert_eq!(readable, Vec::<String>::new(), "a page of {page}");
    }
    drop(browser);

    let mut seen = answered(&serving);
    for (key, count) in before {
        seen.entry(key).and_modify(|now| *now -= count);
    }
    let key = |method: &str, route: &str, status: &str| {
        (method.to_owned(), route.to_owned(), status.to_owned())
    };
    // Counting is itself a request.
    assert_eq!(seen.remove(&key("GET", "/metrics", "200")), Some(1));
    seen.retain(|_, count| *count > 0);
    let let_in: Vec<_> = seen
        .keys()
        .filter(|(_, _, status)| status != "403")
        .collect();
    assert!(let_in.is_empty(), "{let_in:?}");
    for operation in &operations {
        let seen = seen.get(&key(&operation.method, &operation.path, "403"));
        // The others are not sent without a preflight.
        let is_sent = matches!(operation.method.as_str(), "GET" | "POST");
        assert_eq!(
            seen.is_some(),
            is_sent,
            "{} {}",
            operation.method,
            operation.path
        );
    }
    assert!(
        seen.contains_key(&key("other", "none", "403")),
        "preflights"
    );
    is_untouched(&lab, &serving);

    // A rebound name has the same origin as its pages, so the server has to reject it.
    let mut browser = chromium(&lab);
    browser.args(["--dump-dom", &format!("{rebound}/v1/runs")]);
    let shown = browser.output().unwrap().stdout;
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("host_not_allowed"), "{shown}");
}

#[test]
fn probes_without_a_host_are_answered() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let old = |path: &str, head: &str| {
        let mut stream = TcpStream::connect(place(&serving)).unwrap();
        let text = format!("GET {path} HTTP/1.0\r\n{head}\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    for path in PROBES {
        assert_eq!(old(path, ""), "200", "{path}");
    }
    assert_eq!(old("/healthz", "host: evil.example\r\n"), "403");
    assert_eq!(old("/healthz", "origin: http://evil.example\r\n"), "403");
    for path in ["/metrics", "/v1/runs", "/.well-known/openwop"] {
        assert_eq!(old(path, ""), "403", "{path}");
    }
    serving.stop();
}

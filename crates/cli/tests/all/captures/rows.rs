//! Planted secrets are in no file and in no row: the store is searched byte by byte, and again
//! unpacked.

use std::path::Path;

use serde_json::{Value, json};
use store::{ListQuery, ReadFrom, Store};
use store_sqlite::{Access, Options, SqliteStore};

use super::peer::Peer;
use super::runs::streams;
use crate::serving::Serving;
use crate::support::*;

/// It does not look like a credential: only its reference marks it as a secret.
const PLANTED: &str = "plainly-planted-7731";
/// Known by its shape.
const SHAPED: &str = "sk-plantedplantedplanted42";
/// A password in an address.
const IN_URL: &str = "hunter2planted";
/// A parameter with the name of a secret.
const IN_QUERY: &str = "plain-parameter-55";
/// A header of basic authentication.
const IN_HEADER: &str = "YWRhOmhlYWRlcjU1";
/// A variable that a program inherits, with the name of a secret.
const INHERITED: &str = "plainly-inherited-8842";

/// A value after the name of a secret, and its second line.
const NAMED: [&str; 2] = ["plainly.named/6157", "plainly-second-line"];

/// Possible output with secrets that only their names reveal.
fn named() -> String {
    let [named, second] = NAMED;
    format!(
        "DB_PASSWORD=\"{named}\"\nlogin --password {named} --user me\nx password={named}\nCookie: {named}\n\
         {{\"api_key\": \"{named}\", \"token_count\": 5}}\n['--token', '{named}']\n\
         KEY_SECRET='{named}\n{second}'\n> authorization: {named}\ntoken: {named}\nmax_tokens: 7\n"
    )
}

/// Fails if bytes contain a planted secret, in a literal or encoded form.
#[track_caller]
fn has_none(what: &str, bytes: &[u8]) {
    is_known_in_none(what, bytes);
    is_in_none(
        what,
        bytes,
        &[IN_URL, IN_QUERY, IN_HEADER, NAMED[0], NAMED[1]],
    );
}

/// Fails if bytes contain a known secret, or text in the shape of one. A value that only follows a
/// name is data, and stays in a run.
#[track_caller]
fn is_known_in_none(what: &str, bytes: &[u8]) {
    let base64 = "cGxhaW5seS1wbGFudGVkLTc3";
    is_in_none(what, bytes, &[PLANTED, SHAPED, INHERITED, base64]);
}

#[track_caller]
fn is_in_none(what: &str, bytes: &[u8], secrets: &[&str]) {
    for planted in secrets {
        let mut parts = bytes.windows(planted.len());
        assert!(
            !parts.any(|part| part == planted.as_bytes()),
            "{what} has {planted}: {}",
            String::from_utf8_lossy(bytes)
        );
    }
}

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files(&path, found),
            false if path.is_file() => {
                found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
            false => {}
        }
    }
}

/// Searches a data folder: raw bytes of all files, each cell of each table, unpacked if it is
/// packed, and each decoded event.
fn look_through(data: &Path) -> usize {
    let mut found = Vec::new();
    files(data, &mut found);
    for (name, bytes) in &found {
        is_known_in_none(name, bytes);
    }
    let file = data.join("store.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
               WHERE m.type = 'table'";
    let columns: Vec<(String, String)> = {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    let mut cells = 0;
    for (table, column) in &columns {
        let sql = format!("SELECT CAST({column} AS BLOB) FROM {table} WHERE {column} IS NOT NULL");
        let mut statement = connection.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0));
        for cell in rows.unwrap().map(Result::unwrap) {
            let what = format!("{table}.{column}");
            is_known_in_none(&what, &cell);
            if let Ok(unpacked) = store::codec::unpack_blob(&cell) {
                is_known_in_none(&what, &unpacked);
            }
            cells += 1;
        }
    }
    drop(connection);
    let options = Options {
        access: Access::Read,
        ..Options::default()
    };
    let store = SqliteStore::open(&file, options).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let query = ListQuery {
        limit: 1_000,
        ..ListQuery::default()
    };
    for row in runtime.block_on(store.list(query)).unwrap() {
        let load = store.load(&row.stream, ReadFrom::Seq(0), usize::MAX);
        for record in runtime.block_on(load).unwrap().records {
            is_known_in_none(row.stream.as_str(), &record.content);
            cells += 1;
        }
    }
    cells
}

#[test]
fn planted_secrets_are_in_no_store_row_and_no_evidence_file() {
    // Echoes its input, as an answer and as an error.
    let peer = Peer::start(|_, came| match came.path.as_str() {
        "/v1/chat/completions" => streams(&format!(
            "it is {PLANTED} and {SHAPED}, at ftp://ada:{IN_URL}@db.example/?token={IN_QUERY}"
        )),
        _ => {
            json!({ "status": 500, "body": { "error": format!("no: {} {PLANTED} authorization: Basic {IN_HEADER}", came.head) } })
        }
    });
    let lab = Lab::new();
    peer.provides(&lab);
    lab.write("planted.txt", format!("{SHAPED} and ada:{IN_URL}"));
    lab.write("named.txt", named());
    let secret = json!({ "T": "env:RUNWRIGHT_SECRET_PLANTED" });
    // A program's output, input and files, and a model's prompt and answer.
    let program = node(
        "program",
        "runwright.process",
        json!({
            "argv": ["sh", "-euc", "echo \"$T\"; echo \"$PLANTED_TOKEN\"; echo \"$T\" >&2; printf %s \"$T\" | base64; \
                sed 's#ada:#https://ada:#; s#$#@db.example/#' planted.txt; echo; dd if=named.txt bs=7 2>/dev/null; cat named.txt >&2; yes \"$T\" | head -n 4000"],
            "secretEnv": secret, "inheritEnv": ["PATH", "PLANTED_TOKEN"],
        }),
    );
    let mut ask = node(
        "ask",
        "core.ai.chatCompletion",
        json!({ "prompt": "${inputs.ask} ${inputs.said}" }),
    );
    ask["inputs"] = json!({
        "ask": { "type": "variable", "variableName": "ask" },
        "said": { "type": "connection", "nodeId": "program", "outputKey": "stdout" },
    });
    let mut says_much = workflow("says", &[program, ask], &[("program", "ask")]);
    says_much["variables"] = json!([{ "name": "ask", "type": "string" }]);
    // An error that echoes a header, and one that echoes a variable.
    let request = node(
        "request",
        "runwright.http",
        json!({
            "url": format!("http://{}/x", peer.address),
            "secretHeaders": { "authorization": { "prefix": "Bearer ", "secret": "env:RUNWRIGHT_SECRET_PLANTED" } },
        }),
    );
    let fails = node(
        "fails",
        "runwright.process",
        json!({ "argv": ["sh", "-euc", "echo \"cannot use $T\" >&2; sed 's#^.*and #ftp://#; s#$#@db.example/#' planted.txt >&2; echo >&2; cat named.txt >&2; exit 3"], "secretEnv": secret }),
    );
    let call = |args: &[&str], code: i32| {
        let mut command = lab.command(args);
        command.env("RUNWRIGHT_SECRET_PLANTED", PLANTED);
        command.env("PLANTED_TOKEN", INHERITED);
        Ended::from(command.output().unwrap()).with(code)
    };
    let prompt = format!("ask=Use {SHAPED} at https://ada:{IN_URL}@db.example/?api_key={IN_QUERY}");
    let mut runs = Vec::new();
    for (document, code) in [
        (says_much, 0),
        (workflow("refused", &[request], &[]), 1),
        (workflow("breaks", &[fails], &[]), 1),
    ] {
        let file = lab.workflow(&document);
        let mut args = [&["run", &*file][..], &peer.options()].concat();
        if code == 0 {
            args.extend(["-i", &prompt]);
        }
        call(&args, code);
        call(&["snapshot", "capture", "--run", "last"], 0);
        let report: Value = call(&["snapshot", "replay", "latest", "--json"], 0).json();
        assert_eq!(report["match_status"], "exact_match", "{report}");
        let shown = lab.call(&["snapshot", "show", "latest", "--json"]).json();
        runs.push(shown["extensions"]["run_id"].as_str().unwrap().to_owned());
    }
    lab.wait_until_quiet();
    // Similar text stays.
    let said = Value::from(lab.events(&runs[0])).to_string();
    for stays in [r#"token_count\": 5"#, "max_tokens: 7", "--user me"] {
        assert!(said.contains(stays), "{stays}");
    }

    // A server on the same store has the same result.
    let serving = Serving::at(&lab, ".runwright", &["--dev"]);
    for run in &runs {
        let (status, body) = post(&serving, "/v1/snapshots", &json!({ "runId": run }));
        assert_eq!(status, 201, "{body}");
        has_none("the answer", body.as_bytes());
    }
    serving.stop();
    let cells = look_through(&lab.path().join(".runwright"));
    assert!(cells > 50, "there is something to look through: {cells}");
    let mut evidence = Vec::new();
    files(&lab.path().join(".aiwg"), &mut evidence);
    assert!(evidence.len() > 3);
    for (name, bytes) in &evidence {
        has_none(name, bytes);
    }
    has_none("the server's log", lab.read("server.log").as_bytes());
}

fn post(serving: &Serving, path: &str, body: &Value) -> (u16, String) {
    use std::io::{Read, Write};
    let address = serving.url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

//! Two servers of one store that receive the output of a task in turn, and are killed meanwhile.

use super::soak::Dice;
use super::*;

/// Lines of a case, each with its own secret.
const LINES: usize = 12;
/// One piece in this many is sent to a server that is killed before it answers.
const KILLED: usize = 6;
/// Maximum bytes of a piece.
const PIECE: usize = 24;

/// A credential by its shape.
fn secret(dice: &mut Dice) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |_| char::from(letters[dice.below(letters.len())]);
    format!("sk-{}", (0..32).map(letter).collect::<String>())
}

fn pieces<'a>(text: &'a str, dice: &mut Dice) -> Vec<&'a str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((1 + dice.below(PIECE)).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// Sends a request until one acknowledges it.
fn told(serving: &Serving, path: &str, body: &Value, is_it: impl Fn(&Value) -> bool) {
    wait(|| match ask(serving, "POST", path, &body.to_string()) {
        Some(answer) if is_it(&answer) => true,
        Some(answer) => panic!("{answer}"),
        None => false,
    });
}

/// Sends a server a request and kills it without waiting for an answer.
fn tell_and_kill(serving: Serving, path: &str, body: &Value, dice: &mut Dice) {
    let mut stream = TcpStream::connect(serving.url.trim_start_matches("http://")).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/coordinator/q/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..dice.below(4_000) {
        std::thread::yield_now();
    }
    serving.kill();
}

#[test]
fn soak_kills_of_servers_amid_output() {
    let (mut kills, mut sent) = (0, 0);
    for seed in testkit::seeds(1, 20) {
        let mut dice = Dice(seed);
        let lab = Lab::new();
        // Without heartbeats: it must be longer than the case.
        let config = json!({ "queue": "q", "repeat": "once", "heartbeatTimeoutMs": 3_600_000 });
        flow(&lab, "one", 1, &config);
        let join = ["--dev", "--join", "--workflows", "flows"];
        let mut servers = [(); 2].map(|()| Some(Serving::start(&lab, &["--dev", "--join"])));
        let first = servers[0].as_ref().unwrap();
        let id = run(&lab, first, "one");
        let take = json!({ "worker": "w", "wait_ms": 2_000 }).to_string();
        let mut taken = Value::Null;
        while taken.is_null() {
            let answer = ask(first, "POST", "take", &take);
            taken = answer.map_or(Value::Null, |answer| answer["assignments"][0].clone());
        }
        let name = taken["assignment_id"].as_str().unwrap();
        let path = |what: &str| format!("assignments/{name}/{what}");

        let secrets: Vec<String> = (0..LINES).map(|_| secret(&mut dice)).collect();
        let lines = secrets.iter().enumerate();
        let text: String = lines.map(|(n, is)| format!("{n} is {is} !\n")).collect();
        for (seq, piece) in pieces(&text, &mut dice).into_iter().enumerate() {
            let body = json!({ "fence": 1, "stream": "stdout", "seq": seq, "chunk": piece });
            let at = dice.below(2);
            sent += 1;
            if dice.below(KILLED) == 0 {
                kills += 1;
                let serving = servers[at].take().unwrap();
                let url = serving.url.clone();
                tell_and_kill(serving, &path("output"), &body, &mut dice);
                servers[at] = Some(Serving::again(&lab, &url, &join));
            }
            // The outcome is unknown: it is repeated, to either server.
            let serving = servers[dice.below(2)].as_ref().unwrap();
            told(serving, &path("output"), &body, |answer| {
                answer == &json!({ "kept": true })
            });
        }
        let serving = servers[dice.below(2)].as_ref().unwrap();
        let result = json!({ "fence": 1, "outputs": {} });
        told(serving, &path("result"), &result, |answer| {
            answer["status"] == "delivered"
        });
        shown(&lab, serving, &id, 0);
        let events = call(&lab, serving, "", &["events", &id, "--json"]).with(0);
        let written: String = (events.json_lines().iter())
            .filter(|event| event["type"] == "output.chunk")
            .filter_map(|event| event["payload"]["chunk"].as_str().map(str::to_owned))
            .collect();
        for secret in &secrets {
            let mut parts = (0..=secret.len() - 10).map(|at| &secret[at..at + 10]);
            assert!(
                !parts.any(|part| written.contains(part)),
                "seed {seed}: {written}"
            );
        }
        let expected: String = (0..LINES)
            .map(|n| format!("{n} is [REDACTED] !\n"))
            .collect();
        // Every piece is present exactly once.
        assert_eq!(written, expected, "seed {seed}");
        for serving in servers.into_iter().flatten() {
            serving.stop();
        }
        lab.call(&["verify", "--data", "store"]).with(0);
    }
    testkit::figures(
        "soak_kills_of_servers_amid_output",
        &format!("{kills} kills amid {sent} pieces, each in the log once and no part of a secret"),
    );
}

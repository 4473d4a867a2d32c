//! Two execution snapshots of 10 MB each, read and compared: exactly, and by structure; and the
//! cost of redacting a megabyte.

use std::io;
use std::time::Instant;

use faces::provenance::compare::{Options, Side, compare};
use faces::provenance::document::{Config, Mode, Model, Snapshot};
use faces::provenance::ladder::Strategy;
use faces::provenance::read::read;
use faces::provenance::seal::seal;
use kernel::digest::Digest;
use kernel::time::Timestamp;
use runtime::redact::Redactor;
use serde_json::{Value, json};

use crate::series::Series;
use crate::{Benchmark, Settings};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "evidence",
    about: "two snapshots of 10 MB read and compared; 1 MB of a log and of code redacted",
    run,
};

/// Bytes of a response.
const BYTES: usize = 10 << 20;

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let rows = settings.count(BYTES) / 50;
    let mut all = Vec::new();
    for (name, strategy, other) in [
        ("exact", Strategy::Exact, 0),
        ("structural", Strategy::Structural, 1),
    ] {
        let (a, b) = (file(rows, 0)?, file(rows, other)?);
        let mut samples = Vec::new();
        for _ in 0..settings.repeat {
            let begun = Instant::now();
            let failed =
                |error: faces::provenance::read::NoSnapshot| io::Error::other(error.message);
            let (a, b) = (read(&a).map_err(failed)?, read(&b).map_err(failed)?);
            let none = |_: &str| None;
            let side = |snapshot| Side {
                snapshot,
                calls: &[],
                contents: &none,
            };
            let options = Options {
                strategy: Some(strategy),
                ..Options::default()
            };
            let found = compare(&side(&a.snapshot), &side(&b.snapshot), &options);
            samples.push(begun.elapsed().as_secs_f64() * 1_000.0);
            if !found.pass {
                return Err(io::Error::other("two snapshots that agree were told apart"));
            }
        }
        all.push(Series {
            name: format!("evidence/{name}"),
            unit: "ms",
            samples,
        });
    }
    for (name, line) in [
        ("log", log_line as fn(usize) -> String),
        ("code", code_line),
    ] {
        all.extend(redaction(settings, name, line)?);
    }
    Ok(all)
}

/// Bytes of a text that is redacted.
const TEXT_BYTES: usize = 1 << 20;

/// A text without secrets, hashed directly, and hashed after redaction.
fn redaction(
    settings: &Settings,
    name: &str,
    line: fn(usize) -> String,
) -> io::Result<[Series; 2]> {
    let bytes = settings.count(TEXT_BYTES);
    let mut text = String::with_capacity(bytes);
    let mut lines = 0;
    while text.len() < bytes {
        text.push_str(&line(lines));
        lines += 1;
    }
    let redactor = Redactor::default();
    // The redactor's automata are built on first use.
    if redactor.text(&text) != text {
        return Err(io::Error::other("a text without secrets was changed"));
    }
    let (mut took, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..settings.repeat {
        let begun = Instant::now();
        let plain = Digest::compute(text.as_bytes());
        let without = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let clean = redactor.text(&text);
        let redacting = begun.elapsed().as_secs_f64();
        if Digest::compute(clean.as_bytes()) != plain {
            return Err(io::Error::other("a text without secrets was changed"));
        }
        took.push(redacting * 1_000.0);
        ratios.push((redacting + without) / without);
    }
    let series = |what: &str, unit, samples| Series {
        name: format!("evidence/redact-{name}{what}"),
        unit,
        samples,
    };
    Ok([series("", "ms", took), series("-to-hash", "times", ratios)])
}

fn log_line(line: usize) -> String {
    let words = [
        "connected",
        "request finished",
        "job retried",
        "cache missed",
        "token=valid",
    ];
    format!(
        "2026-11-22T20:15:{:02}.{:03}Z INFO worker: {} id={line} path=/v1/items/{} took={}ms\n",
        line % 60,
        line * 7 % 1_000,
        words[line % words.len()],
        line * 31 % 997,
        line % 40,
    )
}

fn code_line(line: usize) -> String {
    let lines = [
        "pub fn login(user: &str, password: &str) -> Result<Token, Error> {",
        "    let session = self.sessions.get(user).ok_or(Error::Missing)?;",
        "    if !session.matches(hash(password)) { return Err(Error::Denied) }",
        "    // The caller has the lock: nobody else changes what is counted.",
        "    self.count += 1;",
        "    Ok(Token::of(session, self.clock.now()))",
        "}",
        "",
    ];
    format!("{}\n", lines[line % lines.len()])
}

/// A snapshot whose response is a list of `rows` rows.
fn file(rows: usize, shift: usize) -> io::Result<Vec<u8>> {
    let rows: Vec<Value> = (0..rows)
        .map(|row| json!({ "row": row + shift, "text": "some words in a row", "ok": true }))
        .collect();
    let config = Config::new(Model::named("none"), Mode::Default);
    let at = Timestamp(1_770_000_000_000);
    let mut snapshot = Snapshot::new("bench".to_owned(), "bench".to_owned(), at, config);
    snapshot.outputs.response = Some(Value::from(rows).to_string());
    Ok(serde_json::to_vec(&seal(snapshot, &mut |_| {})?)?)
}

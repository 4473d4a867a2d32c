//! Two execution snapshots of 10 MB each, read and compared: exactly, and by structure.

use std::io;
use std::time::Instant;

use faces::provenance::compare::{Options, Side, compare};
use faces::provenance::document::{Config, Mode, Model, Snapshot};
use faces::provenance::ladder::Strategy;
use faces::provenance::read::read;
use faces::provenance::seal::seal;
use kernel::time::Timestamp;
use serde_json::{Value, json};

use crate::series::Series;
use crate::{Benchmark, Settings};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "evidence",
    about: "two snapshots of 10 MB read and compared, exactly and by structure",
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
    Ok(all)
}

/// A snapshot whose response is a list of so many rows.
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

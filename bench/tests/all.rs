//! The benchmarks themselves, at a small size: each runs, measures something and cleans up.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_benchmark_runs_measures_and_cleans_up() {
    let bench = env!("CARGO_BIN_EXE_bench");
    let listed = Command::new(bench).arg("--list").output().unwrap();
    let names: Vec<String> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    assert!(!names.is_empty());
    let dir = tempfile::tempdir().unwrap();
    let measured = Command::new(bench)
        .args([
            "--size", "small", "--repeat", "1", "--millis", "5", "--json",
        ])
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{talk}");
    let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
    let series = report["series"].as_array().unwrap();
    for name in names {
        let of_it = series.iter().filter(|series| {
            let title = series["name"].as_str().unwrap_or_default();
            title.split('/').next() == Some(&name)
        });
        assert!(of_it.count() > 0, "{name} measured nothing");
    }
    for series in series {
        let samples = series["samples"].as_array().unwrap();
        assert!(!samples.is_empty(), "{series}");
        let positive = |sample: &Value| sample.as_f64().is_some_and(|sample| sample > 0.0);
        assert!(samples.iter().all(positive), "{series}");
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "benchmarks remove what they write");
}

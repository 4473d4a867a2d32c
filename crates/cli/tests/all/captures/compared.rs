//! Comparisons whose report is read slowly.

use std::io::Read;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::Bench;
use super::peer::says;

#[test]
fn a_signal_is_heard_while_the_report_is_written() {
    let bench = Bench::new(|_, _| says("x"));
    for (name, first) in [("one", "a"), ("other", "b")] {
        let script = format!("seq -f '{first} %.0f, and what belongs to it, goes on' 2000");
        let args = ["snapshot", "capture", "--root", "shop", "--name", name];
        let args = [&args[..], &["--", "sh", "-c", &script]].concat();
        bench.call(&args).with(0);
    }
    for signal in [Signal::INT, Signal::TERM] {
        let args = ["snapshot", "compare", "one", "other", "--root", "shop"];
        let mut child = bench
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It is longer than the pipe: after its first part, the rest waits for the reader.
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(told.contains("interrupted"), "{told}");
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        assert!(!rest.ends_with(b"fail\n"), "the report came to its end");
    }
}

#[test]
fn compare_says_match_mismatch_or_needs_review() {
    // The judge considers everything equal.
    let bench = Bench::new(|_, _| says("{\"verdicts\": [\"same\"]}"));
    for (name, text) in [
        ("one", "I've run it 3 times."),
        ("light", "I have run it three times."),
        ("other", "I've run it 4 times."),
        ("reworded", "It was run thrice."),
    ] {
        let args = ["snapshot", "capture", "--root", "shop", "--name", name];
        bench
            .call(&[&args[..], &["--", "printf", "%s", text]].concat())
            .with(0);
    }
    let compare = |with: &str, more: &[&str], code: i32| {
        let args = [
            "snapshot", "compare", "one", with, "--root", "shop", "--json",
        ];
        let report = bench.call(&[&args[..], more].concat()).with(code).json();
        (
            report["verdict"].clone(),
            report["meaning"]["scorer"].clone(),
        )
    };
    assert_eq!(compare("light", &[], 0).0, "match");
    assert_eq!(compare("other", &[], 1).0, "mismatch");
    assert_eq!(compare("reworded", &[], 3).0, "needs_review");
    let url = format!("http://{}/v1", bench.peer.address);
    let judge = ["--judge-url", &*url, "--judge-model", "m"];
    let (verdict, scorer) = compare("reworded", &judge, 0);
    assert_eq!(verdict, "match");
    assert!(
        scorer.as_str().unwrap().starts_with("judge:127.0.0.1"),
        "{scorer}"
    );
    // A rule's finding is not put to a judge.
    assert_eq!(compare("other", &judge, 1).0, "mismatch");
}
